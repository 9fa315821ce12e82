//! Regression tests for defects found by simulated fleets (example `fleet` of `carob-sim`).

use crate::net::wire::view;
use crate::net::{Net, Stream, config, get, seconds, sending_with};
use carob_proto::Request;
use carob_proto::codec::{
    BlockSize, BlockValue, Code, MessageId, OptionNumber, Token, Type, Writer,
};
use carob_proto::congestion::CongestionControl;
use carob_proto::endpoint::{
    BodyMode, Config, Endpoint, Event, Failure, MulticastRequest, RequestConfig, RequestError,
};

/// A server's message with these options, in order of their numbers.
fn message(
    (kind, code): (Type, Code),
    id: MessageId,
    token: &Token,
    options: &[(OptionNumber, &[u8])],
    payload: &[u8],
) -> Vec<u8> {
    let mut buffer = [0; 1_500];
    let mut writer = Writer::new(&mut buffer, kind, code, id, token).unwrap();
    for (number, value) in options {
        writer.option(*number, value).unwrap();
    }
    if !payload.is_empty() {
        writer.payload(payload).unwrap();
    }
    let length = writer.finish();
    buffer[..length].to_vec()
}

const PIGGYBACKED: (Type, Code) = (Type::Acknowledgement, Code::CONTENT);

/// Message ID and token of the client's last message.
fn last_of_client(net: &Net) -> (MessageId, Token) {
    let sent = net.sent_by_client();
    let view = view(sent.last().unwrap());
    let token = Token::new(view.token().as_slice()).unwrap();
    (view.message_id(), token)
}

/// Block2 value for a block of 16 bytes.
fn block(number: u8, more: bool) -> [u8; 1] {
    [number << 4 | u8::from(more) << 3]
}

/// Block2 value of two bytes for block numbers up to 255.
fn block_of(number: u8, more: bool) -> [u8; 2] {
    (u16::from(number) << 4 | u16::from(more) << 3).to_be_bytes()
}

/// A client without a server; the tests respond.
fn without_server(config: Config) -> Net {
    let mut net = Net::new(config, Config::default());
    net.server_dead = true;
    net
}

#[test]
fn challenged_request_with_block2_is_repeated_with_its_body() {
    let mut net = without_server(config(|config| config.negotiate_early = true));
    net.send(Request::new(Code::POST).with_payload("a body"));
    let (id, token) = last_of_client(&net);
    let challenge = (Type::Acknowledgement, Code::UNAUTHORIZED);
    let echo = [(OptionNumber::ECHO, &b"value"[..])];
    net.inject_to_client(&message(challenge, id, &token, &echo, &[]));
    let sent = net.sent_by_client();
    let again = view(sent.last().unwrap());
    assert_eq!(again.option(OptionNumber::ECHO), Some(&b"value"[..]));
    assert_eq!(again.payload(), b"a body");
}

/// The blocks after a missing one fill the application's buffer.
#[test]
fn streamed_body_with_a_missing_block_fails() {
    let mut config = Config::default();
    config.block_size = BlockSize::MIN;
    config.parameters.nstart = 4;
    let mut net = without_server(config);
    net.send_with(
        get("x"),
        sending_with(|sending| sending.response_body = BodyMode::Streamed),
    );
    let mut answered = 0;
    while let Some(request) = net
        .sent_by_client()
        .get(answered)
        .map(|bytes| bytes.to_vec())
    {
        answered += 1;
        let request = view(&request);
        let asked = request.option(OptionNumber::BLOCK2).map(BlockValue::decode);
        let asked = asked.map_or(0, |block| block.unwrap().number as u8);
        let token = Token::new(request.token().as_slice()).unwrap();
        let number = if asked == 3 { 1 } else { asked };
        let (option, size) = (block_of(number, number < 39), (40_u16 * 16).to_be_bytes());
        let options = [
            (OptionNumber::BLOCK2, &option[..]),
            (OptionNumber::SIZE2, &size[..]),
        ];
        let id = request.message_id();
        net.inject_to_client(&message(PIGGYBACKED, id, &token, &options, &[1; 16]));
    }
    assert!((10..30).contains(&answered), "{answered} blocks");
    assert!(net.failure().is_some(), "{:?}", net.events.last());
    assert!(net.client.is_idle());
}

/// A retransmission of a challenged request gets the same challenge, whose Echo value may have expired.
#[test]
fn challenge_for_stale_echo_value_is_answered() {
    let mut net = without_server(Config::default());
    net.send(get("x"));
    for value in [&b"from the first copy"[..], b"new"] {
        let (id, token) = last_of_client(&net);
        let challenge = (Type::Acknowledgement, Code::UNAUTHORIZED);
        let echo = [(OptionNumber::ECHO, value)];
        net.inject_to_client(&message(challenge, id, &token, &echo, &[]));
        let sent = net.sent_by_client();
        let again = view(sent.last().unwrap());
        assert_eq!(again.option(OptionNumber::ECHO), Some(value));
    }
    let (id, token) = last_of_client(&net);
    net.inject_to_client(&message(PIGGYBACKED, id, &token, &[], b"at last"));
    assert_eq!(net.response().unwrap().bytes()[..], *b"at last");
}

/// The longest time between first and last transmission of a request to a silent server.
fn longest_span(late_copies: bool) -> u64 {
    let mut config = Config::default();
    // This controller continues with the last exchange's backed-off timeout.
    config.controller = CongestionControl::named("default-fb1").unwrap();
    config.late_copies = late_copies;
    let mut net = without_server(config);
    for _ in 0..3 {
        net.send(Request::new(Code::POST).with_payload("once"));
        net.run_for(seconds(200_000));
        assert!(net.client.is_idle());
    }
    let id = |bytes: &[u8]| view(bytes).message_id();
    let span = |last: &crate::net::Crossing| {
        let mut copies = net.crossings.iter();
        let first = copies.find(|first| id(&first.bytes) == id(&last.bytes));
        last.at.since(first.unwrap().at).as_secs()
    };
    net.crossings.iter().map(span).max().unwrap()
}

#[test]
fn no_retransmission_after_deduplication_lifetime() {
    let lifetime = Config::default().parameters.exchange_lifetime().as_secs();
    let latency = Config::default().parameters.max_latency.as_secs();
    assert!(longest_span(true) > lifetime, "else this shows nothing");
    let span = longest_span(false);
    assert!((45..=lifetime - latency).contains(&span), "{span} s");
}

#[test]
fn block2_of_uncached_response_skips_the_application() {
    let mut net = Net::plain();
    for (id, method) in [Code::POST, Code::PUT, Code::DELETE]
        .into_iter()
        .enumerate()
    {
        let option = block(3, false);
        let options = [
            (OptionNumber::URI_PATH, &b"x"[..]),
            (OptionNumber::BLOCK2, &option[..]),
        ];
        let token = Token::new(&[7]).unwrap();
        let what = (Type::Confirmable, method);
        let id = MessageId(id as u16);
        net.inject_to_server(&message(what, id, &token, &options, &[]));
        let sent = net.sent_by_server();
        let answer = view(sent.last().unwrap());
        assert_eq!(answer.code(), Code::REQUEST_ENTITY_INCOMPLETE);
    }
    assert!(net.app.executed.is_empty(), "{:?}", net.app.executed);
}

/// Failure of a client that requests block 1 and receives these blocks.
fn answered_with(blocks: &[(u8, bool)]) -> Option<Failure> {
    let mut net = without_server(config(|config| config.block_size = BlockSize::MIN));
    net.send(get("x"));
    for &(number, more) in blocks {
        let (id, token) = last_of_client(&net);
        let option = block(number, more);
        let options = [(OptionNumber::BLOCK2, &option[..])];
        net.inject_to_client(&message(PIGGYBACKED, id, &token, &options, &[1; 16]));
    }
    net.run_for(seconds(1_000));
    net.events.iter().find_map(|(_, event)| match event {
        Event::Failed { failure, .. } => Some(*failure),
        _ => None,
    })
}

#[test]
fn unrequested_blocks_fail_the_transfer() {
    // Block 0 again; block 0 as the last; block 0 for every request.
    for blocks in [
        &[(0, true), (0, true)][..],
        &[(0, true), (1, true), (0, false)],
        &[(0, true), (1, true), (0, true)],
    ] {
        let failure = answered_with(blocks);
        assert!(matches!(failure, Some(Failure::Body(_))), "{failure:?}");
    }
}

/// An observing client after its first notification, and the token.
fn observing(options: &[(OptionNumber, &[u8])], payload: &[u8]) -> (Net, Token) {
    let mut net = without_server(config(|config| config.block_size = BlockSize::MIN));
    net.send_with(get("x"), crate::net::observing());
    let (id, token) = last_of_client(&net);
    net.inject_to_client(&message(PIGGYBACKED, id, &token, options, payload));
    (net, token)
}

#[test]
fn blockwise_state_slower_than_max_age_keeps_observation() {
    let first = block(0, true);
    let options = [
        (OptionNumber::OBSERVE, &[1][..]),
        (OptionNumber::MAX_AGE, &[1]),
        (OptionNumber::BLOCK2, &first),
    ];
    let (mut net, _) = observing(&options, &[1; 16]);
    let (id, token) = last_of_client(&net);
    net.run_for(seconds(2));
    let stale = |(_, event): &(_, Event)| matches!(event, Event::Stale { .. });
    assert!(net.events.iter().any(stale));
    let option = block(1, false);
    let options = [(OptionNumber::BLOCK2, &option[..])];
    net.inject_to_client(&message(PIGGYBACKED, id, &token, &options, &[2; 8]));
    let Some((_, Event::Notification { response, .. })) = net.events.last() else {
        panic!("{:?}", net.events.last());
    };
    assert_eq!(response.bytes().len(), 24);
    assert_eq!(net.client.usage().observations, 1);
}

#[test]
fn challenge_after_notification_keeps_observation() {
    let options = [
        (OptionNumber::OBSERVE, &[1][..]),
        (OptionNumber::MAX_AGE, &[1]),
    ];
    let (mut net, token) = observing(&options, b"one");
    net.run_for(seconds(17));
    // The registration is acknowledged and a notification arrives before its response.
    let (id, _) = last_of_client(&net);
    net.inject_to_client(&message(
        (Type::Acknowledgement, Code::EMPTY),
        id,
        &Token::default(),
        &[],
        &[],
    ));
    let options = [
        (OptionNumber::OBSERVE, &[2][..]),
        (OptionNumber::MAX_AGE, &[200]),
    ];
    let told = (Type::NonConfirmable, Code::CONTENT);
    net.inject_to_client(&message(told, MessageId(1), &token, &options, b"two"));
    // Then the response arrives.
    let challenge = (Type::Confirmable, Code::UNAUTHORIZED);
    let echo = [(OptionNumber::ECHO, &b"value"[..])];
    net.inject_to_client(&message(challenge, MessageId(2), &token, &echo, &[]));
    assert_eq!(net.client.usage().observations, 1);
    net.run_for(seconds(16));
    let sent = net.sent_by_client();
    let again = view(sent.last().unwrap());
    assert_eq!(again.uint_option(OptionNumber::OBSERVE), Some(0));
    assert_eq!(again.option(OptionNumber::ECHO), Some(&b"value"[..]));
}

#[test]
fn multicast_requests_count_as_pending() {
    let mut config = Config::default();
    config.groups = true;
    config.limits.requests = 1;
    let mut client = Endpoint::new(config, Stream(1));
    let now = carob_cc::time::Instant::ZERO;
    let group = "224.0.1.187:5683".parse().unwrap();
    client
        .multicast(now, group, Request::get(), MulticastRequest::default())
        .unwrap();
    let to = crate::net::server_address();
    let refused = client.request(now, to, get("x"), RequestConfig::default());
    assert_eq!(refused, Err(RequestError::RequestsFull));
}

#[test]
fn block_of_sixteen_bytes_is_decoded() {
    let value = BlockValue::decode(&block(3, true)).unwrap();
    assert_eq!(
        (value.number, value.more, value.szx),
        (3, true, BlockSize::MIN)
    );
}
