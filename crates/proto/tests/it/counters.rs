//! Counters match the traffic.

use crate::net::{Net, Stream, config, get, put, seconds};
use carob_cc::evidence::{Kind, Reason};
use carob_proto::codec::Code;
use carob_proto::counters::{Answer, Answers, Refusal, Requests, Times};
use carob_proto::endpoint::{Config, Endpoint, Event, Output};

/// A confirmable GET of `/x` with this Message ID.
fn con(id: u16) -> Vec<u8> {
    let [high, low] = id.to_be_bytes();
    vec![0x41, Code::GET.0, high, low, 7, 0xb1, b'x']
}

/// The responses with this code.
fn responses(answers: &Answers, code: Code) -> u64 {
    let of_code = answers.iter().filter(|(of, _)| *of == Answer::Code(code));
    of_code.map(|(_, count)| count).sum()
}

/// The requests with this method that were answered with this code.
fn answered(requests: &Requests, method: Code, code: Code) -> u64 {
    let of_method = requests.iter().filter(|(of, _)| *of == Some(method));
    of_method.map(|(_, answers)| responses(answers, code)).sum()
}

/// The number of times in a histogram.
fn count(times: &Times) -> u64 {
    times.buckets().iter().map(|bucket| bucket.count).sum()
}

/// Number of requests.
fn total(requests: &Requests) -> u64 {
    let answers = requests.iter().flat_map(|(_, answers)| answers.iter());
    answers.map(|(_, count)| count).sum()
}

#[test]
fn server_counts_requests_by_method_and_code() {
    let mut net = Net::plain();
    net.app.resources.insert("here".into(), "body".into());
    for _ in 0..5 {
        net.send(get("here"));
    }
    net.send(get("nowhere"));
    net.send(put("here", bytes::Bytes::from_static(b"new")));
    net.run_for(seconds(10));
    let (client, server) = (net.client.counters(), net.server.counters());
    assert_eq!(answered(&server.requests, Code::GET, Code::CONTENT), 5);
    assert_eq!(answered(&server.requests, Code::GET, Code::NOT_FOUND), 1);
    assert_eq!(total(&server.requests), 7);
    assert_eq!(total(&client.requests), 0);
    assert_eq!(responses(&client.responses, Code::CONTENT), 5);
    let requests = client.of(Kind::Request);
    assert_eq!((requests.transmissions, requests.answered), (7, 7));
    assert_eq!((requests.retransmissions, requests.expired), (0, 0));
    assert_eq!(
        (count(&client.round_trips), count(&client.timeouts)),
        (7, 7)
    );
    assert_eq!(client.sent, server.received);
    assert_eq!(server.sent, client.received);
    assert_eq!(client.sent.messages, 7);
}

#[test]
fn retransmissions_timeouts_duplicates_and_failures_are_counted() {
    let mut net = Net::plain();
    net.app.resources.insert("x".into(), "body".into());
    // The first response is lost, which causes one timeout, one retransmission and one duplicate.
    net.drop_if = Some(|from_client, _| !from_client);
    net.send_for(get("x"), seconds(1));
    net.drop_if = None;
    net.run_for(seconds(60));
    let requests = *net.client.counters().of(Kind::Request);
    assert_eq!((requests.transmissions, requests.retransmissions), (2, 1));
    assert_eq!((requests.expired, requests.answered), (1, 1));
    assert_eq!(net.server.counters().duplicates, 1);
    assert_eq!(total(&net.server.counters().requests), 1);
    assert_eq!(count(&net.client.counters().round_trips), 0, "Karn");

    net.server_dead = true;
    net.send_for(get("x"), seconds(200));
    let after = net.client.counters().of(Kind::Request);
    assert_eq!(after.transmissions - requests.transmissions, 5);
    assert_eq!(after.expired - requests.expired, 5, "the last one ends it");
    assert_eq!(after.given_up(Reason::TimedOut), 1);
    assert_eq!(after.given_up(Reason::Reset), 0);
}

#[test]
fn spurious_retransmission_is_counted() {
    let mut net = Net::plain();
    net.app.resources.insert("x".into(), "body".into());
    // Longer than the initial timeout: both transmissions are answered.
    net.delay = seconds(2);
    net.send_for(get("x"), seconds(60));
    let requests = net.client.counters().of(Kind::Request);
    assert_eq!(requests.retransmissions, 1);
    assert_eq!((requests.answered, requests.answered_again), (1, 1));
    assert_eq!(requests.answered_late, 0);
}

#[test]
fn refusals_are_counted_by_reason() {
    let mut server = Endpoint::new(config(|config| config.limits.incoming = 1), Stream(1));
    let (from, now) = (crate::net::client_address(), carob_cc::time::Instant::ZERO);
    let mut taken = Vec::new();
    let mut hear = |server: &mut Endpoint, bytes: &[u8]| {
        server.handle_datagram(now, from, bytes);
        loop {
            match server.poll() {
                Output::Event(Event::Request(id)) => taken.push(id),
                Output::Wait(_) => return,
                _ => {}
            }
        }
    };
    hear(&mut server, &con(1));
    hear(&mut server, &con(2)); // 5.03
    let mut non = con(3);
    non[0] = 0x51;
    hear(&mut server, &non); // nothing
    hear(&mut server, &[0x40, 0, 0, 9]); // a ping
    hear(&mut server, &[0x41, 0x45, 0, 10, 1]); // a response that nobody waits for
    hear(&mut server, b"?"); // nothing at all
    let counters = server.counters();
    assert_eq!(counters.refusals.of(Refusal::Overload), 2);
    assert_eq!(counters.refusals.of(Refusal::Reset), 1);
    assert_eq!(counters.refusals.of(Refusal::Malformed), 1);
    assert_eq!(counters.refusals.of(Refusal::Challenge), 0);
    let (get, busy) = (Code::GET, Code::SERVICE_UNAVAILABLE);
    assert_eq!(answered(&counters.requests, get, busy), 1);
    assert_eq!(
        total(&counters.requests),
        2,
        "one waits for its response still"
    );
    assert_eq!(counters.received.messages, 6);
    assert_eq!(counters.sent.messages, 3, "5.03, Pong, Reset");
    assert_eq!(taken.len(), 1);
}

#[test]
fn rate_limited_requests_are_not_counted_as_overload() {
    let mut config = Config::default();
    (config.limits.request_rate, config.limits.request_burst) = (1, 1);
    let mut server = Endpoint::new(config, Stream(1));
    for id in 0..3 {
        server.handle_datagram(
            carob_cc::time::Instant::ZERO,
            crate::net::client_address(),
            &con(id),
        );
        while !matches!(server.poll(), Output::Wait(_)) {}
    }
    let counters = server.counters();
    assert_eq!(counters.refusals.of(Refusal::Rate), 2);
    assert_eq!(counters.refusals.of(Refusal::Overload), 0);
    assert_eq!(
        answered(&counters.requests, Code::GET, Code::TOO_MANY_REQUESTS),
        1
    );
}

#[test]
fn challenges_and_shortened_responses_are_counted() {
    let mut server = Endpoint::new(Config::default(), Stream(1));
    let (from, now) = (
        std::net::SocketAddr::from(([203, 0, 113, 7], 5683)),
        carob_cc::time::Instant::ZERO,
    );
    server.handle_datagram(now, from, &con(1));
    let Output::Event(Event::Request(id)) = server.poll() else {
        panic!("a request");
    };
    let format = carob_proto::codec::ContentFormat(0);
    let response = carob_proto::Response::content(format, crate::net::pattern(500));
    server.respond(now, id, &response);
    let counters = server.counters();
    assert_eq!(counters.refusals.of(Refusal::Amplification), 1);
    assert_eq!(counters.refusals.of(Refusal::Challenge), 1);
    assert_eq!(
        answered(&counters.requests, Code::GET, Code::UNAUTHORIZED),
        1
    );
}
