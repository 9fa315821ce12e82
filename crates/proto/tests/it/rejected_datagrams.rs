//! Rejected replies, and datagrams longer than the receive buffer.

use core::net::SocketAddr;

use carob_cc::time::{Duration, Instant};
use carob_proto::Endpoint;
use carob_proto::codec::{
    BlockValue, Code, DecodeErrorKind, MessageView, OptionNumber, Type, parse_header,
};
use carob_proto::counters::Refusal;
use carob_proto::endpoint::{Config, Event, Failure, Output, RequestConfig};
use carob_proto::message::Request;

use crate::net::{Stream, client_address, sending_with};

fn server_address() -> SocketAddr {
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
    let id = client.request(Instant::ZERO, server_address(), Request::get(), config);
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
            client.handle_datagram(now, server_address(), &bytes);
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
        client.handle_oversized(now, server_address(), &bytes);
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
        client.handle_datagram(now, server_address(), &bytes);
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
