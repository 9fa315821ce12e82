//! Messages: whole datagrams to one endpoint, encoded ones, one option of them, and streams of them.

use alloc::vec;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddr};

use carob_cc::time::{Duration, Instant};

use super::{Input, Stream};
use crate::codec::frame::write_frame;
use crate::codec::{
    BlockValue, Code, FrameReader, Framing, MessageView, MissingBlocks, OptionNumber, Options,
    Scheme, Signal, Uri, Writer, encode_missing_blocks, parse_header, set_option,
};
use crate::congestion::CongestionControl;
use crate::endpoint::{Config, Endpoint, Event, Output, RequestConfig};
use crate::{Request, Response};

fn start<'b>(view: &MessageView<'_>, buffer: &'b mut [u8]) -> Writer<'b> {
    Writer::new(
        buffer,
        view.kind(),
        view.code(),
        view.message_id(),
        &view.token(),
    )
    .expect("buffer is as long as the message")
}

/// A report of missing blocks is rejected, or its numbers are encoded in no more bytes and decoded again.
fn missing_blocks(report: &[u8]) {
    let decode = |report| MissingBlocks::new(report).collect::<Result<Vec<u32>, _>>();
    let Ok(numbers) = decode(report) else {
        return;
    };
    let encoded = encode_missing_blocks(numbers.iter().copied(), report.len());
    assert_eq!(decode(&encoded), Ok(numbers));
}

/// A datagram is rejected, or is encoded again byte for byte, from the view and from owned options;
/// its URI survives.
pub fn decode(datagram: &[u8]) {
    let view = match MessageView::parse(datagram) {
        Ok(view) => view,
        Err(error) => {
            assert!(usize::from(error.offset) <= datagram.len());
            let _ = parse_header(datagram);
            return;
        }
    };
    let mut buffer = vec![0; datagram.len()];
    let mut writer = start(&view, &mut buffer);
    for option in view.options() {
        let _ = (option.recognized(), option.uint());
        writer.option(option.number, option.value).expect("fits");
    }
    writer.payload(view.payload()).expect("fits");
    assert_eq!(writer.finish(), datagram.len());
    assert_eq!(buffer, datagram);

    let _ = view.option(OptionNumber::BLOCK1).map(BlockValue::decode);
    missing_blocks(view.payload());
    let Ok(options) = Options::from_view(&view) else {
        return;
    };
    buffer.fill(0);
    let mut writer = start(&view, &mut buffer);
    options.encode(&mut writer).expect("fits");
    writer.payload(view.payload()).expect("fits");
    assert_eq!(writer.finish(), datagram.len());
    assert_eq!(buffer, datagram);

    // The same list, built in the opposite order of numbers.
    let mut rebuilt = Options::new();
    let mut numbers: Vec<_> = options.iter().map(|option| option.number).collect();
    numbers.dedup();
    for number in numbers.into_iter().rev() {
        for value in options.values(number) {
            rebuilt.push(number, value).expect("fits");
        }
    }
    assert_eq!(rebuilt, options);

    let destination = SocketAddr::from((Ipv4Addr::LOCALHOST, 5_683));
    if let Ok(uri) = Uri::from_options(Scheme::Coap, &options, destination) {
        use alloc::string::ToString as _;
        assert_eq!(Uri::parse(&uri.to_string()).as_ref(), Ok(&uri));
    }
}

/// A number, a value, and a message. The value becomes the only option of that number, or the
/// option is removed.
pub fn edit(data: &[u8]) {
    let mut input = Input(data);
    let (number, goes) = (OptionNumber(input.number()), input.byte() & 1 != 0);
    let value = input.piece();
    let value = (!goes).then_some(value);
    let message = input.0;
    let mut buffer = message.to_vec();
    buffer.resize(message.len() + 300, 0xee);
    let Some(length) = set_option(&mut buffer, message.len(), number, value) else {
        assert_eq!(&buffer[..message.len()], message, "nothing is changed");
        return;
    };
    let before = MessageView::parse(message).expect("it was one");
    let after = MessageView::parse(&buffer[..length]).expect("it still is one");
    assert!(after.values(number).eq(value));
    let others = |view: &MessageView<'_>| -> Vec<(OptionNumber, Vec<u8>)> {
        let others = view.options().filter(|option| option.number != number);
        others
            .map(|option| (option.number, option.value.to_vec()))
            .collect()
    };
    assert_eq!(others(&before), others(&after));
    assert_eq!(before.payload(), after.payload());
    assert_eq!(before.token().as_slice(), after.token().as_slice());
    // A buffer that is too small leaves the message unchanged.
    let mut tight = message.to_vec();
    match set_option(&mut tight, message.len(), number, value) {
        Some(length) => assert_eq!(tight[..length], buffer[..length]),
        None => assert_eq!(tight, message),
    }
}

/// Any split of a stream yields the same messages up to the same error; and written messages can be
/// read again.
pub fn frames(data: &[u8]) {
    let mut input = Input(data);
    let (first, sizes) = (input.byte(), input.piece());
    let framing = if first & 1 == 0 {
        Framing::Stream
    } else {
        Framing::WebSocket
    };
    let limit = [64, 1_152, 70_000, u32::MAX][usize::from(first >> 1 & 3)];
    let read = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let (mut reader, mut messages) = (FrameReader::new(framing, limit), Vec::new());
        for piece in pieces {
            reader.push(piece);
            loop {
                match reader.next() {
                    Ok(Some(message)) => messages.push(message.to_vec()),
                    Ok(None) => break,
                    Err(error) => return (messages, Some(error)),
                }
            }
            assert!(reader.held() < limit.max(1_500) as usize + piece.len());
        }
        (messages, None)
    };
    let stream = input.0;
    let whole = read(&mut core::iter::once(stream));
    if framing == Framing::Stream {
        let (mut rest, mut sizes) = (stream, sizes.iter().copied().cycle());
        let mut pieces = core::iter::from_fn(|| {
            let size = usize::from(sizes.next().unwrap_or(1)).clamp(1, rest.len().max(1));
            let (piece, after) = rest.split_at_checked(size)?;
            rest = after;
            Some(piece)
        });
        assert_eq!(read(&mut pieces), whole);
    }
    for message in &whole.0 {
        let mut written = Vec::new();
        write_frame(framing, message, &mut written);
        let again = read(&mut core::iter::once(&written[..]));
        // The input's lengths may have been encoded longer than necessary.
        assert_eq!(
            (again.0.as_slice(), again.1),
            (&[message.clone()][..], None)
        );
        if let Ok(view) = MessageView::parse_long(message) {
            let Ok(signal) = Signal::read(&view) else {
                continue;
            };
            let mut buffer = [0; 2_048];
            let _ = signal.write(&mut buffer, &view.token());
        }
    }
}

/// Controllers with different kinds of copy tagging, and one without.
const CONTROLLERS: [&str; 4] = ["default", "fasor-option", "rtt-count", "fasor-token"];

/// A configuration of small tables, one of several controllers and a token length.
fn config(first: u8) -> Config {
    let mut config = Config::default();
    let name = CONTROLLERS[usize::from(first & 3)];
    config.controller = CongestionControl::named(name).expect("the registry has it");
    config.token_length = [0, 1, 2, 8, 9, 13, 64, 300][usize::from(first >> 2 & 7)];
    config.limits.incoming = 4;
    config.limits.dedup_idempotent = 4;
    config.limits.dedup_non_idempotent = 4;
    config.limits.queue = 4;
    config.limits.requests = 8;
    config.limits.peers = 3;
    config.limits.token_peers = 2;
    config.limits.uploads = 2;
    config.limits.all_upload_bytes = 4_096;
    config.limits.bodies = 2;
    config.limits.body_bytes = 4_096;
    config
}

/// An answer to the last message sent, so that fuzzing reaches what follows.
fn answer_to(last_sent: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut answer = bytes.to_vec();
    if let (Ok(sent), true) = (MessageView::parse(last_sent), answer.len() >= 4) {
        answer[2..4].copy_from_slice(&sent.message_id().0.to_be_bytes());
        // The token, and the bytes before it with its length.
        let field = sent.as_bytes()[0] & 0xf;
        let end = 4 + usize::from(field.saturating_sub(12)) + sent.token().len();
        answer[0] = answer[0] & 0xf0 | field;
        answer.splice(4..4, sent.as_bytes()[4..end].iter().copied());
    }
    answer
}

/// Any sequence of datagrams from four peers, replies that match the last message sent, requests,
/// cancellations and time. Every table stays within its limit.
pub fn endpoint(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else {
        return;
    };
    let config = config(first);
    let limits = config.limits;
    let mut endpoint = Endpoint::new(config, Stream(1));
    let mut now = Instant::ZERO;
    let mut rest = data;
    let (mut asked, mut last_sent) = (Vec::new(), Vec::new());
    while let Some((&what, after)) = rest.split_first() {
        let peer = SocketAddr::from(([10, 0, 0, what >> 6], 5683));
        let length = after
            .first()
            .map_or(0, |&n| usize::from(n))
            .min(after.len());
        let (bytes, next) = after.split_at(length);
        rest = next;
        match what & 7 {
            0..=2 => endpoint.handle_datagram(now, peer, bytes),
            3 => {
                endpoint.handle_datagram(now, peer, &answer_to(&last_sent, bytes));
            }
            4 => {
                let method =
                    [Code::GET, Code::PUT, Code::POST, Code::FETCH][usize::from(what >> 3 & 3)];
                let body = vec![7; bytes.len() * 16];
                let request = Request::new(method).with_payload(body);
                asked.extend(endpoint.request(now, peer, request, RequestConfig::default()));
            }
            5 => {
                now += Duration::from_millis(1 << (what >> 3 & 15));
                endpoint.handle_timeout(now);
            }
            6 => {
                if let Some(id) = asked.pop() {
                    endpoint.cancel(now, id);
                }
            }
            _ => endpoint.handle_unreachable(now, peer),
        }
        let mut incoming = Vec::new();
        loop {
            match endpoint.poll() {
                Output::Transmit { bytes, .. } => last_sent = bytes.to_vec(),
                Output::Event(Event::Request(id)) => incoming.push(id),
                Output::Wait(_) if incoming.is_empty() => break,
                Output::Wait(_) => {
                    for id in incoming.drain(..) {
                        let mut response = Response::new(Code::CONTENT);
                        if what & 8 == 0 {
                            response = Response::diagnostic(Code::CONTENT, &"x".repeat(3_000));
                        }
                        endpoint.respond(now, id, &response);
                    }
                }
                _ => {}
            }
        }
        let usage = endpoint.usage();
        assert!(usage.peers <= limits.peers && usage.requests <= limits.requests);
        assert!(usage.incoming <= limits.incoming);
        assert!(usage.remembered <= limits.dedup_idempotent + limits.dedup_non_idempotent);
        assert!(usage.uploads.0 <= limits.uploads && usage.bodies.0 <= limits.bodies);
        assert!(usage.bodies.1 <= limits.body_bytes);
    }
}
