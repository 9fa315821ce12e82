//! Concurrent bodies, their limits, and representations that change.

use super::*;

#[test]
fn server_state_for_bodies_is_bounded_and_expires() {
    let mut config = Config::default();
    config.limits.uploads = 4;
    config.limits.unvalidated_share = 100;
    config.limits.bodies = 4;
    let mut net = Net::new(Config::default(), config);
    net.app.resources.insert("x".into(), pattern(5_000));
    for n in 0..200_u16 {
        let from = std::net::SocketAddr::from(([10, 9, 0, n as u8], 5683));
        let up = put_block(n, (0, true, 64), 64).bytes();
        let down = con(Code::GET, 1_000 + n).path("x").bytes();
        for message in [up, down] {
            net.server.handle_datagram(net.now, from, &message);
            net.drain();
        }
    }
    let usage = net.server.usage();
    assert_eq!((usage.uploads.0, usage.bodies.0), (4, 4));
    net.run_for(net.server.config().parameters.exchange_lifetime());
    let usage = net.server.usage();
    assert_eq!((usage.uploads, usage.bodies), ((0, 0), (0, 0)));
}

#[test]
fn bodies_to_one_resource_are_sequential() {
    let mut net = Net::new(
        config(|config| config.parameters.nstart = 8),
        Config::default(),
    );
    let body = |n: u8| Bytes::from(vec![n; 5_000]);
    for (path, n) in [("x", 1), ("x", 2), ("y", 3), ("x", 4)] {
        net.send(put(path, body(n)));
    }
    net.send(put("x", Bytes::from_static(b"short")));
    assert_eq!(
        net.sent_by_client().len(),
        3,
        "x, y and the request without blocks"
    );
    net.run_for(seconds(60));
    assert_eq!(net.responses().len(), 5);
    let all_changed = net.responses().iter().all(|r| r.code == Code::CHANGED);
    assert!(all_changed);
    assert_eq!(net.app.resources["x"], body(4), "the last one, unmixed");
    assert_eq!(net.app.resources["y"], body(3));
    assert_eq!((net.app.executed["x"], net.app.executed["y"]), (4, 1));
    assert!(net.client.is_idle());
}

#[test]
fn failed_or_cancelled_body_starts_the_next_one() {
    let mut net = Net::deaf();
    let first = net.send(put("x", pattern(5_000)));
    let second = net.send(put("x", pattern(4_000)));
    net.send_with(
        put("x", pattern(3_500)),
        crate::net::sending_with(|sending| sending.deadline = Some(seconds(1))),
    );
    net.send(put("x", pattern(3_000)));
    // A queued body can be cancelled, and its deadline applies.
    assert!(net.client.cancel(net.now, second));
    net.run_for(seconds(2));
    assert_eq!(net.failure(), Some(Failure::DeadlinePassed));
    assert_eq!(net.sent_by_client().len(), 1);
    net.server_dead = false;
    assert!(net.client.cancel(net.now, first));
    net.run_for(seconds(60));
    assert_eq!(net.app.resources["x"], pattern(3_000));
    assert!(net.client.is_idle());
}

#[test]
fn many_bodies_that_cannot_be_sent_all_fail() {
    let mut net = Net::new(config(|config| config.limits.queue = 1), Config::default());
    net.app.mute = true;
    let first = net.send(put("x", pattern(5_000)));
    for _ in 0..20_000 {
        net.client
            .request(
                net.now,
                crate::net::server_address(),
                put("x", pattern(5_000)),
                RequestConfig::default(),
            )
            .unwrap();
    }
    // The peer's queue is full when they could be sent.
    net.send(get("y"));
    net.client.cancel(net.now, first);
    net.drain();
    net.client.shut_down(net.now);
    net.drain();
    assert!(net.client.is_idle());
}

/// Whether a body of 3,000 bytes is consistent.
fn is_unmixed(body: &[u8]) -> bool {
    body.len() == 3_000 && body.iter().all(|byte| *byte == body[0])
}

#[test]
fn concurrent_requests_to_one_resource_differ_by_cache_key() {
    let mut net = Net::new(
        config(|config| config.parameters.nstart = 8),
        Config::default(),
    );
    net.app.echo_fetch = true;
    let fetch = |n: u8| {
        let request = Request::new(Code::FETCH).with_path("x").unwrap();
        request.with_payload(vec![n; 10])
    };
    net.send(fetch(1));
    net.send(fetch(2));
    net.run_for(seconds(60));
    assert_eq!(net.responses().len(), 2);
    let first = |n: usize| net.responses()[n].bytes()[0];
    assert_ne!(first(0), first(1));
    assert!(net.responses().iter().all(|r| is_unmixed(r.bytes())));
}

#[test]
fn block_wise_representation_gets_an_etag() {
    let cut = responded(
        &con(Code::GET, 1).path("x"),
        &Response::content(ContentFormat::JSON, pattern(3_000)),
    );
    let tag = |bytes: &[u8]| view(bytes).option(OptionNumber::ETAG).map(<[u8]>::to_vec);
    assert!(tag(&cut).is_some_and(|tag| tag.len() == 4));
    let other = Response::content(ContentFormat::JSON, pattern(3_001));
    assert_ne!(
        tag(&responded(&con(Code::GET, 1).path("x"), &other)),
        tag(&cut)
    );
    // All blocks of one representation have the same tag.
    let third = con(Code::GET, 2).path("x").block(BLOCK2, (2, false, 1024));
    let again = responded(
        &third,
        &Response::content(ContentFormat::JSON, pattern(3_000)),
    );
    assert_eq!(tag(&again), tag(&cut));
    // No tag for bodies that fit one message, constant ones and errors.
    let short = Response::content(ContentFormat::JSON, pattern(100));
    assert_eq!(tag(&responded(&con(Code::GET, 1).path("x"), &short)), None);
    let mut fixed = Response::new(Code::CONTENT);
    fixed.payload = Payload::Fixed(pattern(3_000));
    assert_eq!(tag(&responded(&con(Code::GET, 1).path("x"), &fixed)), None);
    let mut changed = Response::new(Code::CHANGED);
    changed.payload = Payload::Whole(pattern(3_000));
    assert_eq!(
        tag(&responded(&con(Code::POST, 1).path("x"), &changed)),
        None
    );
    // A tag by the application takes precedence.
    let mut own = Response::content(ContentFormat::JSON, pattern(3_000));
    own.options.push(OptionNumber::ETAG, b"own").unwrap();
    assert_eq!(
        tag(&responded(&con(Code::GET, 1).path("x"), &own)).unwrap(),
        b"own"
    );
}

#[test]
fn concurrent_downloads_of_changing_resource_never_mix() {
    let mut net = Net::new(
        config(|config| config.parameters.nstart = 2),
        Config::default(),
    );
    net.app
        .resources
        .insert("x".into(), Bytes::from(vec![1; 3_000]));
    net.send_for(get("x"), millis(15));
    net.app
        .resources
        .insert("x".into(), Bytes::from(vec![2; 3_000]));
    net.send_for(get("x"), seconds(60));
    assert_eq!(net.responses().len(), 2);
    assert!(net.responses().iter().all(|r| is_unmixed(r.bytes())));
}

#[test]
fn last_block_may_be_shorter_than_its_size() {
    for length in [0, 1, 63, 64] {
        let blocks = [
            put_block(1, (0, true, 64), 64),
            put_block(2, (1, false, 64), length),
        ];
        let (net, seen) = told(Config::default(), &blocks);
        assert_eq!(seen, ["ACK 2.31", "ACK 2.04"], "{length}");
        assert_eq!(net.app.resources["x"].len(), 64 + length);
        let mut net = answered(get("x"), |id| content(id, (0, true, 64), 64));
        answer_next(&mut net, |id| content(id, (1, false, 64), length));
        assert_eq!(net.response().unwrap().bytes().len(), 64 + length);
    }
    let blocks = [
        put_block(1, (0, true, 64), 64),
        put_block(2, (1, false, 64), 65),
    ];
    assert_eq!(told(Config::default(), &blocks).1, ["ACK 2.31", "ACK 4.00"]);
}
