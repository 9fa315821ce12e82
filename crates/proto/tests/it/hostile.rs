//! Arbitrary input causes no panic and no growth, and the endpoint keeps working. Rejected replies, and datagrams longer than
//! the receive buffer.

use core::net::SocketAddr;

use bytes::Bytes;
use carob_cc::controller::CopyTagging;
use carob_cc::random::Random;
use carob_cc::time::{Duration, Instant};
use carob_proto::Endpoint;
use carob_proto::codec::{
    BlockValue, Code, DecodeErrorKind, MessageView, OptionNumber, Options, Token, Type, Writer,
    parse_header,
};
use carob_proto::counters::Refusal;
use carob_proto::endpoint::{Config, Event, Failure, Output, RETRANSMISSION_COUNT, RequestConfig};
use carob_proto::message::Request;

use crate::net::counting::counting;
use crate::net::wire::view;
use crate::net::{
    Net, Stream, client_address, get, millis, pattern, put, seconds, sending_with, server_address,
};

fn usable(net: &mut Net) {
    net.run_for(seconds(1_000));
    net.events.clear();
    net.app.resources.insert("x".into(), "still here".into());
    net.send_for(get("x"), seconds(100));
    assert_eq!(&net.response().unwrap().bytes()[..], b"still here");
}

#[test]
fn server_survives_the_corpus() {
    let mut net = Net::plain();
    let mut seen = 0;
    for datagram in crate::corpus::datagrams() {
        net.server
            .handle_datagram(net.now, client_address(), datagram);
        net.drain();
        seen += 1;
    }
    assert!(seen >= 10_000, "{seen} datagrams");
    let usage = net.server.usage();
    assert!(usage.peers <= 1 && usage.incoming == 0, "{usage:?}");
    usable(&mut net);
}

#[test]
fn client_survives_the_corpus() {
    let mut net = Net::deaf();
    net.send(put("x", pattern(5_000)));
    for datagram in crate::corpus::datagrams() {
        net.client
            .handle_datagram(net.now, server_address(), datagram);
        net.drain();
    }
    net.run_for(seconds(300));
    net.server_dead = false;
    usable(&mut net);
}

#[test]
fn matching_but_malformed_responses_end_every_request() {
    // Like the corpus, but with the pending Message ID and token.
    let mut random = Stream(7);
    let mut net = Net::plain();
    for (n, datagram) in crate::corpus::datagrams().enumerate().take(6_000) {
        let mut client = Endpoint::new(Config::default(), Stream(n as u64));
        let body = if n % 2 == 0 {
            pattern(3_000)
        } else {
            Bytes::new()
        };
        let sending = RequestConfig::default();
        client
            .request(net.now, server_address(), put("x", body), sending)
            .unwrap();
        let mut now = net.now;
        for _ in 0..6 {
            let mut asked = None;
            loop {
                match client.poll() {
                    Output::Transmit { bytes, .. } => asked = Some(bytes.to_vec()),
                    Output::Event(Event::Response { .. } | Event::Failed { .. }) => asked = None,
                    Output::Wait(_) => break,
                    _ => {}
                }
            }
            let Some(asked) = asked else { break };
            let view = view(&asked);
            let mut answer = vec![0x60 | 8, 0x40 | (random.next_u32() % 10) as u8];
            answer.extend_from_slice(&view.message_id().0.to_be_bytes());
            answer.extend_from_slice(view.token().as_slice());
            answer.extend_from_slice(datagram.get(4..).unwrap_or_default());
            client.handle_datagram(now, server_address(), &answer);
            now += seconds(1);
            client.handle_timeout(now);
        }
    }
    usable(&mut net);
}

#[test]
fn plausible_random_requests_are_answered_or_refused() {
    let mut net = Net::plain();
    net.app.resources.insert("x".into(), pattern(5_000));
    net.server_dead = true; // its answers are looked at, not delivered
    for (n, datagram) in crate::corpus::datagrams().enumerate() {
        let mut request = vec![0x42, 1 + (n % 4) as u8, (n >> 8) as u8, n as u8, 7, 7];
        request.extend_from_slice(datagram.get(4..).unwrap_or_default());
        net.crossings.clear();
        net.server
            .handle_datagram(net.now, client_address(), &request);
        net.drain();
        assert_eq!(
            net.sent_by_server().len(),
            1,
            "request {n} got no single answer"
        );
        net.now += seconds(1);
        net.server.handle_timeout(net.now);
    }
    let usage = net.server.usage();
    assert!(usage.incoming == 0 && usage.uploads.0 < 300, "{usage:?}");
    net.server_dead = false;
    usable(&mut net);
}

/// A message with other transmission counts in its token and option.
fn miscounted(message: &[u8], random: &mut Stream) -> Vec<u8> {
    let view = view(message);
    let mut options = Options::from_view(&view).unwrap();
    options.remove(RETRANSMISSION_COUNT);
    for _ in 0..random.below(3) {
        let value = random.next_u32().to_be_bytes();
        let length = random.below(4) as usize;
        options
            .push(RETRANSMISSION_COUNT, &value[..length])
            .unwrap();
    }
    let mut token = view.token().as_slice().to_vec();
    if let Some(last) = token.last_mut()
        && random.below(2) == 0
    {
        *last = random.below(5) as u8;
    }
    let mut buffer = [0; 4_096];
    let (token, id) = (Token::new(&token).unwrap(), view.message_id());
    let mut writer = Writer::new(&mut buffer, view.kind(), view.code(), id, &token).unwrap();
    options.encode(&mut writer).unwrap();
    writer.payload(view.payload()).unwrap();
    let length = writer.finish();
    buffer[..length].to_vec()
}

#[test]
fn invalid_transmission_counts_are_harmless() {
    let mut random = Stream(9);
    for how in [
        CopyTagging::EveryCopy,
        CopyTagging::RepeatedCopies,
        CopyTagging::Token,
    ] {
        let (config, _) = counting(how, millis(15), 2);
        let mut net = Net::new(config, Config::default());
        net.app.resources.insert("x".into(), pattern(3_000));
        for n in 0..400 {
            net.send(get("x"));
            net.send(put("y", pattern(1_500)));
            let seen = net.crossings.len();
            net.run_for(millis(u64::from(random.below(60))));
            for crossing in net.crossings.split_off(seen) {
                let wrong = miscounted(&crossing.bytes, &mut random);
                if crossing.from_client {
                    net.inject_to_server(&wrong);
                } else {
                    net.inject_to_client(&wrong);
                }
            }
            net.run_for(seconds(100));
            assert!(net.client.is_idle(), "{how:?}, {n}");
            let snapshot = net.client.snapshot(net.now, server_address()).unwrap();
            assert_eq!(snapshot.outstanding_bytes, 0);
            net.crossings.clear();
        }
        usable(&mut net);
    }
}

fn peer_address() -> SocketAddr {
    "[2001:db8::1]:5683".parse().expect("an address")
}

/// Drains an endpoint; returns its datagrams and the failure of its request.
fn drained(endpoint: &mut Endpoint) -> (Vec<Vec<u8>>, Option<Failure>) {
    let (mut sent, mut failed) = (Vec::new(), None);
    loop {
        match endpoint.poll() {
            Output::Transmit { bytes, .. } => sent.push(bytes.to_vec()),
            Output::Event(Event::Failed { failure, .. }) => failed = Some(failure),
            Output::Wait(_) => return (sent, failed),
            _ => {}
        }
    }
}

/// Sends a GET and replies to each transmission with `reply`; returns the failure.
fn failure(
    config: RequestConfig,
    mut reply: impl FnMut(&mut Endpoint, Instant, &[u8]),
) -> Option<Failure> {
    let mut client = Endpoint::new(Config::default(), Stream(1));
    let id = client.request(Instant::ZERO, peer_address(), Request::get(), config);
    assert!(id.is_ok());
    for second in 0..120 {
        let now = Instant::ZERO + Duration::from_secs(second);
        client.handle_timeout(now);
        let (sent, failed) = drained(&mut client);
        if failed.is_some() {
            return failed;
        }
        for request in sent {
            reply(&mut client, now, &request);
        }
    }
    drained(&mut client).1
}

/// Header and token of a response to `request`.
fn response(request: &[u8], kind: Type) -> Vec<u8> {
    let token = usize::from(request[0] & 15);
    let mut bytes = request[..4 + token].to_vec();
    bytes[0] = 0x40 | (kind as u8) << 4 | token as u8;
    bytes[1] = Code::CONTENT.0;
    bytes
}

#[test]
fn malformed_replies_are_named_in_place_of_the_timeout() {
    let marker = |kind| {
        move |client: &mut Endpoint, now, request: &[u8]| {
            let mut bytes = response(request, kind);
            bytes.push(0xff);
            client.handle_datagram(now, peer_address(), &bytes);
        }
    };
    let expected = Some(Failure::MalformedReply(DecodeErrorKind::PayloadMissing));
    for kind in [Type::Acknowledgement, Type::NonConfirmable] {
        assert_eq!(failure(RequestConfig::default(), marker(kind)), expected);
        assert_eq!(
            failure(
                sending_with(|sending| sending.deadline = Some(Duration::from_secs(5))),
                marker(kind)
            ),
            expected
        );
    }
}

#[test]
fn oversized_reply_is_named_in_place_of_the_timeout() {
    let oversized = |client: &mut Endpoint, now, request: &[u8]| {
        let mut bytes = response(request, Type::Acknowledgement);
        bytes.extend_from_slice(&[0xff; 4_000]);
        client.handle_oversized(now, peer_address(), &bytes);
    };
    let failed = failure(RequestConfig::default(), oversized);
    assert_eq!(failed, Some(Failure::OversizedReply));
}

#[test]
fn malformed_datagram_of_another_message_changes_nothing() {
    let other = |client: &mut Endpoint, now, request: &[u8]| {
        let mut bytes = response(request, Type::Acknowledgement);
        bytes[3] ^= 1;
        bytes.push(0xff);
        client.handle_datagram(now, peer_address(), &bytes);
    };
    let failed = failure(RequestConfig::default(), other);
    assert_eq!(failed, Some(Failure::TimedOut { copies: 5 }));
}

#[test]
fn oversized_request_is_answered_with_the_size_of_blocks() {
    let mut server = Endpoint::new(Config::default(), Stream(1));
    // The start of a CON PUT /large.
    let mut request = b"\x41\x03\x12\x34\xaa\xb5large\xff".to_vec();
    request.resize(4_096, 0);
    server.handle_oversized(Instant::ZERO, client_address(), &request);
    let (sent, _) = drained(&mut server);
    let [reply] = &sent[..] else {
        panic!("one reply: {sent:?}")
    };
    let reply = MessageView::parse(reply).expect("a message");
    let head = (reply.kind(), reply.code(), reply.message_id().0);
    assert_eq!(
        head,
        (
            Type::Acknowledgement,
            Code::REQUEST_ENTITY_TOO_LARGE,
            0x1234
        )
    );
    assert!(reply.uint_option(OptionNumber::SIZE1).is_some());
    let block = reply.option(OptionNumber::BLOCK1).expect("a block size");
    assert_eq!(BlockValue::decode(block).expect("valid").szx.bytes(), 1_024);
    assert_eq!(server.counters().refusals.of(Refusal::Oversized), 1);
    // Oversized messages that are no requests are only counted.
    request[0] = 0x71;
    server.handle_oversized(Instant::ZERO, client_address(), &request);
    assert!(drained(&mut server).0.is_empty());
}

#[test]
fn error_beyond_last_block_has_no_option_of_representation() {
    use carob_proto::message::Response;
    let mut server = Endpoint::new(Config::default(), Stream(1));
    // CON GET with Block2 99/0/64.
    let request = b"\x40\x01\x00\x01\xd2\x0a\x06\x32";
    server.handle_datagram(Instant::ZERO, client_address(), request);
    let Output::Event(Event::Request(id)) = server.poll() else {
        panic!("a request")
    };
    let mut response = Response::new(Code::CONTENT).with_payload("short");
    for number in [
        OptionNumber::CONTENT_FORMAT,
        OptionNumber::ETAG,
        OptionNumber::MAX_AGE,
    ] {
        response.options.set(number, &[60]).expect("there is room");
    }
    server.respond(Instant::ZERO, id, &response);
    let (sent, _) = drained(&mut server);
    let header = parse_header(&sent[0]).expect("a header");
    assert_eq!(header.code, Code::BAD_OPTION);
    let reply = MessageView::parse(&sent[0]).expect("a message");
    assert_eq!(reply.options().count(), 0);
    assert_eq!(reply.payload(), b"Block2: beyond the end");
}
