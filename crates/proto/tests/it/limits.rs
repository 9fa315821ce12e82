//! Tables at their limits: refusal, eviction and no losses.

use crate::net::wire::{con, view};
use crate::net::{Net, Stream, config, get, pattern, put, seconds, server_address};
use bytes::Bytes;
use carob_proto::codec::{Code, OptionNumber};
use carob_proto::endpoint::{
    Config, Endpoint, Event, HandlerUsage, Output, RequestConfig, RequestError,
};
use carob_proto::tables::quota::QuotaPolicy;
use std::net::SocketAddr;

fn last_code(net: &Net) -> Code {
    view(net.sent_by_server().last().unwrap()).code()
}

#[test]
fn full_queue_refuses_requests_and_keeps_queued_ones() {
    let mut net = Net::new(config(|config| config.limits.queue = 3), Config::default());
    let ask = |net: &mut Net| {
        net.client.request(
            net.now,
            server_address(),
            get("x"),
            RequestConfig::default(),
        )
    };
    for _ in 0..4 {
        assert!(ask(&mut net).is_ok(), "one on its way, three waiting");
    }
    assert_eq!(ask(&mut net), Err(RequestError::QueueFull));
    net.run_for(seconds(1));
    assert_eq!(net.responses().len(), 4);
    assert!(ask(&mut net).is_ok(), "the queue has space again");
}

#[test]
fn too_many_requests_are_refused() {
    let mut endpoint = Endpoint::new(config(|config| config.limits.requests = 5), Stream(1));
    let mut ask = |port: u16| {
        let to = SocketAddr::from(([10, 0, 0, 2], port));
        endpoint.request(
            carob_cc::time::Instant::ZERO,
            to,
            get("x"),
            RequestConfig::default(),
        )
    };
    for port in 1..=5 {
        assert!(ask(port).is_ok());
    }
    assert_eq!(ask(6), Err(RequestError::RequestsFull));
}

#[test]
fn too_many_peers_in_use_are_refused() {
    let mut endpoint = Endpoint::new(config(|config| config.limits.peers = 2), Stream(1));
    let mut now = carob_cc::time::Instant::ZERO;
    let ask = |endpoint: &mut Endpoint, now, last: u8| {
        let to = SocketAddr::from(([10, 0, 0, last], 5683));
        let asked = endpoint
            .request(now, to, get("x"), RequestConfig::default())
            .map(|_| ());
        while !matches!(endpoint.poll(), Output::Wait(_)) {}
        asked
    };
    assert_eq!(ask(&mut endpoint, now, 2), Ok(()));
    assert_eq!(ask(&mut endpoint, now, 3), Ok(()));
    assert_eq!(ask(&mut endpoint, now, 4), Err(RequestError::PeersFull));
    while let Output::Wait(Some(at)) = endpoint.poll() {
        now = at;
        endpoint.handle_timeout(now);
        while !matches!(endpoint.poll(), Output::Wait(_)) {}
    }
    assert_eq!(
        ask(&mut endpoint, now, 4),
        Err(RequestError::PeersFull),
        "their IDs are fresh"
    );
    now += seconds(247);
    assert_eq!(ask(&mut endpoint, now, 4), Ok(()));
    assert_eq!(endpoint.usage().peers, 2);
}

#[test]
fn server_full_of_pending_requests_gives_5_03() {
    let mut config = Config::default();
    config.limits.incoming = 2;
    config.limits.source_share = 100;
    let mut net = Net::new(Config::default(), config);
    net.app.mute = true;
    for id in 0..2 {
        net.inject_to_server(&con(Code::GET, id).path("x").bytes());
    }
    assert!(net.sent_by_server().is_empty());
    net.inject_to_server(&con(Code::GET, 2).path("x").bytes());
    assert_eq!(last_code(&net), Code::SERVICE_UNAVAILABLE);
    assert_eq!(net.server.usage().incoming, 2);
}

#[test]
fn full_non_idempotent_table_responds_5_03_and_repeats_none() {
    let mut config = Config::default();
    config.limits.dedup_non_idempotent = 3;
    config.limits.source_share = 100;
    let mut net = Net::new(Config::default(), config);
    for id in 0..3 {
        net.inject_to_server(&con(Code::POST, id).path("x").bytes());
    }
    net.inject_to_server(&con(Code::POST, 3).path("x").bytes());
    assert_eq!(last_code(&net), Code::SERVICE_UNAVAILABLE);
    net.inject_to_server(&con(Code::POST, 0).path("x").bytes());
    assert_eq!(
        last_code(&net),
        Code::CHANGED,
        "a duplicate still gets its answer"
    );
    assert_eq!(net.app.executed["x"], 3);
    net.inject_to_server(&con(Code::GET, 4).path("x").bytes());
    assert_eq!(last_code(&net), Code::NOT_FOUND, "others go on");
    net.run_for(seconds(248));
    net.inject_to_server(&con(Code::POST, 3).path("x").bytes());
    assert_eq!(
        last_code(&net),
        Code::CHANGED,
        "the table has space after EXCHANGE_LIFETIME"
    );
}

#[test]
fn uploads_beyond_the_limit_get_5_03() {
    let mut config = Config::default();
    config.limits.uploads = 2;
    config.limits.source_share = 100;
    let mut net = Net::new(Config::default(), config);
    let first = |id, path| {
        let put = con(Code::PUT, id).path(path);
        let put = put.block(OptionNumber::BLOCK1, (0, true, 16));
        put.payload(&[0; 16]).bytes()
    };
    net.inject_to_server(&first(1, "a"));
    net.inject_to_server(&first(2, "b"));
    assert_eq!(last_code(&net), Code::CONTINUE);
    net.inject_to_server(&first(3, "c"));
    assert_eq!(last_code(&net), Code::SERVICE_UNAVAILABLE);
    assert_eq!(net.server.usage().uploads.0, 2);
    net.run_for(seconds(248));
    assert_eq!(
        net.server.usage().uploads,
        (0, 0),
        "abandoned bodies are forgotten"
    );
}

#[test]
fn total_bytes_of_uploads_are_limited() {
    let mut net = Net::new(
        Config::default(),
        config(|config| config.limits.all_upload_bytes = 3_000),
    );
    net.send(put("x", pattern(4_000)));
    net.run_for(seconds(5));
    assert_eq!(net.response().unwrap().code, Code::SERVICE_UNAVAILABLE);
    assert_eq!(net.server.usage().uploads, (0, 0));
}

#[test]
fn cached_bodies_are_evicted_and_readers_still_finish() {
    let server = config(|config| config.limits.bodies = 1);
    let mut net = Net::new(Config::default(), server);
    for name in ["a", "b"] {
        net.app.resources.insert(name.into(), pattern(3_000));
    }
    net.client = Endpoint::new(config(|config| config.parameters.nstart = 2), Stream(1));
    net.send(get("a"));
    net.send_for(get("b"), seconds(5));
    assert_eq!(net.responses().len(), 2);
    assert!(net.responses().iter().all(|r| r.bytes() == &pattern(3_000)));
    assert_eq!(net.server.usage().bodies.0, 1);
}

#[test]
fn flood_from_200_000_addresses_leaves_no_state() {
    let mut server = Endpoint::new(Config::default(), Stream(1));
    let limits = server.config().limits;
    let mut now = carob_cc::time::Instant::ZERO;
    for n in 0..200_000_u32 {
        let [a, b, c, d] = (0x0a00_0000 + n).to_be_bytes();
        now += carob_cc::time::Duration::from_micros(10);
        server.handle_datagram(
            now,
            SocketAddr::from(([a, b, c, d], 5683)),
            &con(Code::GET, 1).path("x").bytes(),
        );
        loop {
            match server.poll() {
                Output::Event(Event::Request(id)) => {
                    let response = carob_proto::Response::content(
                        carob_proto::codec::ContentFormat(0),
                        Bytes::from_static(b"y"),
                    );
                    server.respond(now, id, &response);
                }
                Output::Wait(_) => break,
                _ => {}
            }
        }
    }
    let usage = server.usage();
    assert_eq!((usage.peers, usage.exchanges, usage.incoming), (0, 0, 0));
    assert!(usage.remembered <= limits.dedup_idempotent + limits.dedup_non_idempotent);
}

#[test]
fn a_peer_that_answers_every_reset_is_not_answered_without_end() {
    let mut net = Net::plain();
    // An unmatched response, repeated under new Message IDs.
    let unexpected = |id: u16| {
        let [high, low] = id.to_be_bytes();
        [0x41, 0x45, high, low, 0x07]
    };
    for id in 0..5_000 {
        net.inject_to_client(&unexpected(id));
    }
    assert_eq!(net.sent_by_client().len(), 256);
    // A second later another Reset is permitted; pings are always answered.
    net.inject_to_client(&[0x40, 0, 0xff, 0xff]);
    assert_eq!(net.sent_by_client().len(), 257);
    net.run_for(seconds(1));
    net.inject_to_client(&unexpected(6_000));
    assert_eq!(net.sent_by_client().len(), 258);
}

/// Response to a request while handlers run: `None` if another may run.
fn without_handler(running: usize, of_source: usize, validated: bool) -> Option<Code> {
    let now = carob_cc::time::Instant::ZERO;
    // A public address: local networks need no address validation.
    let from = SocketAddr::from(([203, 0, 113, 9], 5_683));
    let mut endpoint = Endpoint::new(Config::default(), Stream(1));
    if validated {
        endpoint.validate(now, from);
    }
    endpoint.handle_datagram(now, from, &con(Code::GET, 1).path("x").bytes());
    let Output::Event(Event::Request(id)) = endpoint.poll() else {
        panic!("a request");
    };
    let limit = 100;
    let handlers = HandlerUsage {
        running,
        of_source,
        limit,
    };
    let admitted = endpoint.admits_handler(now, id, handlers);
    let code = match endpoint.poll() {
        Output::Transmit { bytes, .. } => Some(view(bytes).code()),
        _ => None,
    };
    assert_eq!(admitted, code.is_none());
    assert_eq!(admitted, endpoint.incoming(id).is_some());
    code
}

#[test]
fn handlers_are_limited_in_total_by_source_and_unvalidated() {
    let quota = QuotaPolicy::from(&Config::default().limits).quota(100);
    let busy = Some(Code::SERVICE_UNAVAILABLE);
    assert_eq!(without_handler(0, 0, false), None);
    assert_eq!(without_handler(99, quota - 1, true), None);
    assert_eq!(without_handler(100, 0, true), busy);
    assert_eq!(without_handler(50, quota, true), busy);
    assert_eq!(without_handler(99, 0, false), Some(Code::UNAUTHORIZED));
}
