//! Regression tests for defects found by simulated fleets (example `fleet` of `carob-sim`).

use crate::net::wire::{Wire, con, empty, non, reply, view};
use crate::net::{Net, Stream, config, get, observing, seconds, sending_with};
use carob_proto::Request;
use carob_proto::codec::{BlockSize, BlockValue, Code, OptionNumber, Type};
use carob_proto::congestion::CongestionControl;
use carob_proto::endpoint::{
    BodyMode, Config, Endpoint, Event, Failure, MulticastRequest, RequestConfig, RequestError,
};

/// The client's last message.
fn last_of_client(net: &Net) -> Vec<u8> {
    net.sent_by_client().last().unwrap().to_vec()
}

/// A piggybacked response to the client's last message.
fn answer(net: &Net, code: Code) -> Wire {
    reply(code, &last_of_client(net))
}

/// A response with a block of 16 bytes, which contain ones.
fn block(net: &Net, number: u32, more: bool) -> Wire {
    let block = answer(net, Code::CONTENT).payload(&[1; 16]);
    block.block(OptionNumber::BLOCK2, (number, more, 16))
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
    let challenge = answer(&net, Code::UNAUTHORIZED).option(252, b"value");
    net.inject_to_client(&challenge.bytes());
    let again = last_of_client(&net);
    let again = view(&again);
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
    while let Some(bytes) = net.sent_by_client().get(answered).map(|b| b.to_vec()) {
        answered += 1;
        let asked = view(&bytes).option(OptionNumber::BLOCK2);
        let asked = asked.map_or(0, |value| BlockValue::decode(value).unwrap().number);
        let number = if asked == 3 { 1 } else { asked };
        let block = reply(Code::CONTENT, &bytes).uint(OptionNumber::SIZE2, 40 * 16);
        let block = block.block(OptionNumber::BLOCK2, (number, number < 39, 16));
        net.inject_to_client(&block.payload(&[1; 16]).bytes());
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
        let challenge = answer(&net, Code::UNAUTHORIZED).option(252, value);
        net.inject_to_client(&challenge.bytes());
        let again = last_of_client(&net);
        assert_eq!(view(&again).option(OptionNumber::ECHO), Some(value));
    }
    let at_last = answer(&net, Code::CONTENT).payload(b"at last");
    net.inject_to_client(&at_last.bytes());
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
        let request = con(method, id as u16).path("x");
        let request = request.block(OptionNumber::BLOCK2, (3, false, 16));
        net.inject_to_server(&request.bytes());
        let sent = net.sent_by_server();
        let answer = view(sent.last().unwrap());
        assert_eq!(answer.code(), Code::REQUEST_ENTITY_INCOMPLETE);
    }
    assert!(net.app.executed.is_empty(), "{:?}", net.app.executed);
}

/// Failure of a client that requests block 1 and receives these blocks.
fn answered_with(blocks: &[(u32, bool)]) -> Option<Failure> {
    let mut net = without_server(config(|config| config.block_size = BlockSize::MIN));
    net.send(get("x"));
    for &(number, more) in blocks {
        let block = block(&net, number, more);
        net.inject_to_client(&block.bytes());
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

/// An observing client without a notification.
fn registering() -> Net {
    let mut net = without_server(config(|config| config.block_size = BlockSize::MIN));
    net.send_with(get("x"), observing());
    net
}

/// A notification with this number and Max-Age.
fn notification(message: Wire, observe: u32, max_age: u32) -> Wire {
    message
        .uint(OptionNumber::OBSERVE, observe)
        .uint(OptionNumber::MAX_AGE, max_age)
}

#[test]
fn blockwise_state_slower_than_max_age_keeps_observation() {
    let mut net = registering();
    let first = notification(block(&net, 0, true), 1, 1);
    net.inject_to_client(&first.bytes());
    let last = block(&net, 1, false).payload(&[2; 8]);
    net.run_for(seconds(2));
    let stale = |(_, event): &(_, Event)| matches!(event, Event::Stale { .. });
    assert!(net.events.iter().any(stale));
    net.inject_to_client(&last.bytes());
    let Some((_, Event::Notification { response, .. })) = net.events.last() else {
        panic!("{:?}", net.events.last());
    };
    assert_eq!(response.bytes().len(), 24);
    assert_eq!(net.client.usage().observations, 1);
}

#[test]
fn challenge_after_notification_keeps_observation() {
    let mut net = registering();
    let registration = last_of_client(&net);
    let one = notification(reply(Code::CONTENT, &registration), 1, 1);
    net.inject_to_client(&one.payload(b"one").bytes());
    net.run_for(seconds(17));
    // The registration is acknowledged and a notification arrives before its response.
    let id = view(&last_of_client(&net)).message_id().0;
    net.inject_to_client(&empty(Type::Acknowledgement, id));
    let two = notification(non(Code::CONTENT, 1).token_of(&registration), 2, 200);
    net.inject_to_client(&two.payload(b"two").bytes());
    // Then the response arrives.
    let challenge = con(Code::UNAUTHORIZED, 2).token_of(&registration);
    net.inject_to_client(&challenge.option(252, b"value").bytes());
    assert_eq!(net.client.usage().observations, 1);
    net.run_for(seconds(16));
    let again = last_of_client(&net);
    let again = view(&again);
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
