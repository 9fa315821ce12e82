//! RFC 7967: unwanted responses are not sent, and the client does not wait for them.

use crate::net::wire::{non, view};
use crate::net::{
    Net, as_non, config, get, millis, observing, path_of, pattern, post, put, seconds, sending_with,
};
use carob_proto::codec::{Code, NoResponse, OptionNumber, Type};
use carob_proto::endpoint::{Config, Event, Failure, RequestConfig, RequestId};
use carob_proto::{Request, Response};

fn kinds(messages: Vec<&[u8]>) -> Vec<(Type, Code)> {
    let kind = |bytes| (view(bytes).kind(), view(bytes).code());
    messages.into_iter().map(kind).collect()
}

fn unanswered(net: &Net, id: RequestId) -> Option<u64> {
    net.events.iter().find_map(|(at, event)| match event {
        Event::ResponseSuppressed(other) if *other == id => {
            Some(at.since(carob_cc::time::Instant::ZERO).as_millis())
        }
        _ => None,
    })
}

fn quiet(request: Request) -> Request {
    request.with_no_response(NoResponse::ALL)
}

#[test]
fn con_with_no_response_completes_on_empty_ack() {
    let mut net = Net::plain();
    let id = net.send(quiet(put("x", pattern(20))));
    net.run_for(seconds(300));
    let empty = (Type::Acknowledgement, Code::EMPTY);
    assert_eq!(kinds(net.sent_by_server()), [empty]);
    assert_eq!(
        unanswered(&net, id),
        Some(20),
        "a round trip, and no longer"
    );
    assert_eq!(net.app.executed["x"], 1);
    assert!(net.client.is_idle() && net.server.is_idle());
    // To the controller, the Empty ACK is a reply like any other.
    let known = net
        .client
        .snapshot(net.now, crate::net::server_address())
        .unwrap();
    assert_eq!(known.round_trip, Some(millis(20)));
    assert_eq!((known.outstanding, known.retransmissions), (0, 0));
}

#[test]
fn duplicate_with_no_response_gets_an_empty_ack() {
    let mut net = Net::plain();
    net.send(quiet(post("x", pattern(20))));
    net.run_for(seconds(1));
    let request = net.sent_by_client()[0].to_vec();
    net.inject_to_server(&request);
    let empty = (Type::Acknowledgement, Code::EMPTY);
    assert_eq!(kinds(net.sent_by_server()), [empty, empty]);
    assert_eq!(net.app.executed["x"], 1);
}

#[test]
fn non_with_no_response_completes_when_sent_and_counts_for_probing_rate() {
    let mut net = Net::plain();
    let first = net.send_with(quiet(put("x", pattern(20))), as_non());
    let second = net.send_with(quiet(put("x", pattern(20))), as_non());
    net.run_for(seconds(1));
    assert_eq!(unanswered(&net, first), Some(0));
    assert_eq!(net.sent_by_server(), [&[]; 0]);
    // NSTART is 1 and PROBING_RATE one byte per second (RFC 7252 4.7).
    assert_eq!(net.sent_by_client().len(), 1);
    net.run_for(seconds(60));
    assert!(unanswered(&net, second).is_some_and(|at| (30_000..60_000).contains(&at)));
    assert_eq!(net.app.executed["x"], 2);
    net.run_for(seconds(60));
    assert!(net.client.is_idle());
}

#[test]
fn response_classes_not_suppressed_are_delivered() {
    let mut net = Net::plain();
    let errors = |request: Request| request.with_no_response(NoResponse::SUCCESS);
    net.send(errors(get("nothing")));
    net.run_for(seconds(1));
    assert_eq!(net.response().unwrap().code, Code::NOT_FOUND);
    // The client waits for the response classes that are not suppressed.
    let id = net.send(errors(put("x", pattern(20))));
    net.run_for(seconds(1));
    assert_eq!(unanswered(&net, id), None);
    net.run_for(seconds(2));
    assert_eq!(unanswered(&net, id), Some(1_000 + 20 + 2_000));
    let patient = sending_with(|sending| sending.suppressed_after = Some(millis(500)));
    let began = net.now.since(carob_cc::time::Instant::ZERO).as_millis();
    let id = net.send_with(errors(put("x", pattern(20))), patient);
    net.run_for(seconds(2));
    assert_eq!(unanswered(&net, id), Some(began + 520));
}

#[test]
fn separate_error_response_is_delivered() {
    let mut net = Net::plain();
    net.app.delay = millis(700);
    for sending in [RequestConfig::default(), as_non()] {
        net.send_with(
            get("nothing").with_no_response(NoResponse::SUCCESS),
            sending,
        );
        net.run_for(seconds(30));
        assert_eq!(net.response().unwrap().code, Code::NOT_FOUND);
        net.events.clear();
    }
}

#[test]
fn late_response_is_evidence_only() {
    let mut net = Net::plain();
    let id = net.send_with(quiet(put("x", pattern(20))), as_non());
    net.run_for(millis(1));
    assert_eq!(unanswered(&net, id), Some(0));
    // A server without support for the option responds.
    let answer = non(Code::CHANGED, 0x1234).token_of(net.sent_by_client()[0]);
    net.run_for(millis(9));
    net.inject_to_client(&answer.bytes());
    net.run_for(millis(1));
    assert!(net.response().is_none());
    let known = net
        .client
        .snapshot(net.now, crate::net::server_address())
        .unwrap();
    assert_eq!(
        known.outstanding, 0,
        "an answered NON does not count for PROBING_RATE"
    );
    assert!(net.client.is_idle());
    assert_eq!(net.sent_by_client().len(), 1, "it is not rejected");
}

#[test]
fn lost_con_with_no_response_is_retransmitted() {
    let mut net = Net::deaf();
    net.send(quiet(put("x", pattern(20))));
    net.run_for(seconds(120));
    assert_eq!(net.sent_by_client().len(), 5);
    assert_eq!(net.failure(), Some(Failure::TimedOut { copies: 5 }));
}

#[test]
fn block_wise_bodies_and_observations_ignore_no_response() {
    let mut net = Net::plain();
    net.send(quiet(put("x", pattern(5_000))));
    net.run_for(seconds(1));
    assert_eq!(net.response().unwrap().code, Code::CHANGED);
    assert_eq!(net.app.resources["x"], pattern(5_000));
    net.observable("y", "state");
    net.send_with(quiet(get("y")), observing());
    net.run_for(seconds(1));
    assert_eq!(net.states(), ["state"]);
    for message in net.sent_by_client() {
        let message = view(message);
        assert!(message.option(OptionNumber::NO_RESPONSE).is_none());
    }
}

#[test]
fn registrations_and_2_31_are_sent_despite_no_response() {
    let mut net = Net::plain();
    net.observable("y", "state");
    // GET y with Observe 0 and No-Response 26.
    let register = b"\x41\x01\x00\x01\x07\x60\x51y\xd1\xea\x1a";
    let options = view(register);
    assert_eq!(path_of(&options), "y");
    assert_eq!(options.uint_option(OptionNumber::NO_RESPONSE), Some(26));
    net.inject_to_server(register);
    // PUT x with Block1 0/M/16 and No-Response 26.
    net.inject_to_server(b"\x41\x03\x00\x02\x08\xb1x\xd1\x03\x08\xd1\xda\x1a\xff0123456789abcdef");
    let sent = kinds(net.sent_by_server());
    let acknowledgement = |code| (Type::Acknowledgement, code);
    assert_eq!(
        sent,
        [
            acknowledgement(Code::CONTENT),
            acknowledgement(Code::CONTINUE)
        ]
    );
}

#[test]
fn refusals_are_suppressed_too() {
    let mut net = Net::new(
        Config::default(),
        config(|config| config.limits.incoming = 0),
    );
    net.send(quiet(put("x", pattern(20))));
    net.run_for(seconds(1));
    let empty = (Type::Acknowledgement, Code::EMPTY);
    assert_eq!(kinds(net.sent_by_server()), [empty]);
    net.send(put("x", pattern(20)).with_no_response(NoResponse::SUCCESS));
    net.run_for(seconds(1));
    let code = |response: &Response| response.code;
    assert_eq!(net.response().map(code), Some(Code::SERVICE_UNAVAILABLE));
}
