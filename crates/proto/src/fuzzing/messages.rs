//! Encoded messages: whole datagrams, one option of them, and streams of them.

use alloc::vec;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddr};

use super::Input;
use crate::codec::encode_missing_blocks;
use crate::codec::frame::write_frame;
use crate::codec::set_option;
use crate::codec::{
    BlockValue, FrameReader, Framing, MessageView, MissingBlocks, OptionNumber, Options, Scheme,
    Signal, Uri, Writer, parse_header,
};

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
