//! RFC 7252 sections 5.1 to 5.3 by requirement, on the wire (`vectors/requirements.toml`).

use std::collections::BTreeSet;

use crate::net::wire::{ack, con, empty, non, shapes, view};
use crate::net::{Net, as_non, config, get, millis, post, seconds, sending_with};
use bytes::Bytes;
use carob_proto::codec::{Code, Type};
use carob_proto::endpoint::{Config, RequestConfig};

/// A client with a pending request; the tests respond.
fn waiting(sending: RequestConfig) -> (Net, Vec<u8>) {
    let mut net = Net::deaf();
    net.send_with(get("x"), sending);
    let request = net.sent_by_client()[0].to_vec();
    (net, request)
}

fn id_of(message: &[u8]) -> u16 {
    view(message).message_id().0
}

#[test]
fn client_accepts_every_kind_of_response() {
    let (piggybacked, content) = (ack(Code::CONTENT, 0), Code::CONTENT);
    let (separate, loose) = (con(content, 900), non(content, 901));
    for confirmable in [true, false] {
        for (n, response) in [&separate, &loose].into_iter().enumerate() {
            for acknowledged in [false, true] {
                let (mut net, request) =
                    waiting(sending_with(|sending| sending.confirmable = confirmable));
                if acknowledged {
                    net.inject_to_client(&empty(Type::Acknowledgement, id_of(&request)));
                }
                net.inject_to_client(&response.clone().token_of(&request).bytes());
                let told = net.response().map(|response| response.code);
                assert_eq!(told, Some(content), "{confirmable} {n} {acknowledged}");
                // An ACK that arrives last is ignored.
                let before = net.sent_by_client().len();
                net.inject_to_client(&empty(Type::Acknowledgement, id_of(&request)));
                net.run_for(seconds(300));
                assert_eq!(net.sent_by_client().len(), before);
                // A CON response is acknowledged, a NON response is not.
                assert_eq!(before, if n == 0 { 2 } else { 1 });
            }
        }
    }
    let (mut net, request) = waiting(RequestConfig::default());
    let mut bytes = piggybacked.token_of(&request).bytes();
    bytes[2..4].copy_from_slice(&id_of(&request).to_be_bytes());
    net.inject_to_client(&bytes);
    assert_eq!(net.response().unwrap().code, content);
}

#[test]
fn a_response_is_acknowledged_by_an_empty_message() {
    let (mut net, request) = waiting(RequestConfig::default());
    let response = con(Code::CONTENT, 900).token_of(&request).payload(b"z");
    net.inject_to_client(&response.bytes());
    assert_eq!(
        net.sent_by_client()[1],
        &empty(Type::Acknowledgement, 900)[..]
    );
}

#[test]
fn acknowledged_request_gets_no_piggybacked_response() {
    let mut net = Net::plain();
    net.app.delay = millis(400);
    net.drop_if = Some(|_, _| true);
    let request = con(Code::GET, 5).path("x").bytes();
    // Duplicates before and after the Empty ACK, and after the response.
    for pause in [50, 100, 100, 200, 3_000, 60_000] {
        net.inject_to_server(&request);
        net.run_for(millis(pause));
    }
    let seen = shapes(&net.sent_by_server());
    let acks = seen.iter().filter(|shape| shape.starts_with("ACK"));
    assert!(acks.clone().count() >= 4, "{seen:?}");
    assert!(acks.clone().all(|shape| shape == "ACK 0.00"), "{seen:?}");
    assert!(seen.contains(&"CON 4.04".to_owned()), "{seen:?}");
    assert_eq!(net.app.executed["x"], 1);
}

#[test]
fn token_of_any_value_is_echoed_in_every_response() {
    for token in [
        &[][..],
        &[0],
        &[0xff, 0, 0xff],
        &[0, 0, 0, 0],
        &[1, 2, 3, 4, 5, 6, 7, 8],
    ] {
        for delay in [0, 1_000] {
            let mut net = Net::plain();
            net.app.delay = millis(delay);
            net.inject_to_server(&con(Code::GET, 1).token(token).path("x").bytes());
            net.inject_to_server(&non(Code::GET, 2).token(token).path("x").bytes());
            net.inject_to_server(&con(Code::GET, 3).token(token).option(2_049, b"?").bytes());
            net.run_for(millis(1_100));
            let responses = net.sent_by_server();
            let responses = responses.iter().filter(|m| view(m).code().is_response());
            assert_eq!(responses.clone().count(), 3);
            assert!(
                responses
                    .clone()
                    .all(|m| view(m).token().as_slice() == token)
            );
        }
    }
}

/// Tokens of `count` pending requests, each at least `length` bytes long.
fn tokens_in_use(count: u16, length: u16) -> BTreeSet<Vec<u8>> {
    let mut config = Config::default();
    config.parameters.nstart = count;
    config.token_length = length;
    let mut net = Net::new(config, Config::default());
    net.app.mute = true;
    for _ in 0..count {
        net.send(get("x"));
    }
    let token = |message: &&[u8]| view(message).token().as_slice().to_vec();
    net.sent_by_client().iter().map(token).collect()
}

#[test]
fn tokens_in_use_are_unique_and_random() {
    let tokens = tokens_in_use(500, Config::default().token_length);
    assert_eq!(tokens.len(), 500);
    assert!(tokens.iter().all(|t| t.len() >= 4), "at least 32 bits");
    // Each bit is set in about half of the tokens.
    for bit in 0..64 {
        let set = tokens.iter().filter(|t| t[bit / 8] >> (bit % 8) & 1 == 1);
        assert!((150..350).contains(&set.count()), "bit {bit}");
    }
}

#[test]
fn short_tokens_in_use_are_unique() {
    let tokens = tokens_in_use(300, 1);
    assert_eq!(tokens.len(), 300, "tokens were reused");
}

#[test]
fn a_piggybacked_response_matches_by_message_id_and_token() {
    let (mut net, request) = waiting(RequestConfig::default());
    let id = id_of(&request);
    net.inject_to_client(&ack(Code::CONTENT, id).token(b"other").bytes());
    let elsewhere = ack(Code::CONTENT, id.wrapping_add(1)).token_of(&request);
    net.inject_to_client(&elsewhere.bytes());
    assert!(net.events.is_empty());
    net.inject_to_client(&ack(Code::CONTENT, id).token_of(&request).bytes());
    assert!(net.response().is_some());
}

#[test]
fn a_separate_response_matches_by_token_alone() {
    for response in [con(Code::CONTENT, 900), non(Code::CONTENT, 900)] {
        let (mut net, request) = waiting(as_non());
        net.inject_to_client(&response.clone().token(b"other").bytes());
        assert!(net.events.is_empty());
        assert_ne!(id_of(&request), 900);
        net.inject_to_client(&response.token_of(&request).bytes());
        assert!(net.response().is_some());
    }
}

#[test]
fn response_from_another_endpoint_is_unmatched() {
    let (mut net, request) = waiting(RequestConfig::default());
    let response = con(Code::CONTENT, 900).token_of(&request).bytes();
    for stranger in [([10, 0, 0, 2], 5684), ([10, 0, 0, 3], 5683)] {
        net.client
            .handle_datagram(net.now, stranger.into(), &response);
        let carob_proto::endpoint::Output::Transmit { to, bytes } = net.client.poll() else {
            panic!("it is rejected");
        };
        assert_eq!((to, bytes), (stranger.into(), &empty(Type::Reset, 900)[..]));
    }
    assert!(net.response().is_none());
    net.inject_to_client(&response);
    assert!(net.response().is_some());
}

#[test]
fn idempotent_request_may_run_twice_but_not_post() {
    let mut net = Net::new(
        Config::default(),
        config(|config| config.limits.dedup_idempotent = 1),
    );
    let repeat = |net: &mut Net, code, id| {
        let request = con(code, id).path("x").payload(b"1").bytes();
        net.inject_to_server(&request);
        net.inject_to_server(&con(Code::GET, id + 1).path("other").bytes());
        net.inject_to_server(&request);
    };
    repeat(&mut net, Code::PUT, 10);
    assert_eq!(&net.app.resources["x"][..], b"1");
    repeat(&mut net, Code::DELETE, 20);
    assert!(!net.app.resources.contains_key("x"));
    let before = net.app.executed["x"];
    repeat(&mut net, Code::POST, 30);
    assert_eq!(net.app.executed["x"], before + 1);
}

#[test]
fn requests_and_responses_of_one_pair_of_endpoints_do_not_mix() {
    let mut net = Net::new(
        config(|config| config.parameters.nstart = 4),
        Config::default(),
    );
    net.app.delay = seconds(1);
    for n in 0..4 {
        net.send(post("x", Bytes::from(format!("body {n}"))));
    }
    net.run_for(seconds(30));
    let bodies: BTreeSet<_> = net.responses().iter().map(|r| r.bytes().to_vec()).collect();
    assert_eq!(bodies.len(), 4);
}
