//! The message layer on the wire: timers, matching, duplicates, rejection.

use crate::net::wire::{ack, con, empty, shapes, view};
use crate::net::{Faults, Net, config, get, millis, pattern, post, seconds, sending_with};
use bytes::Bytes;
use carob_cc::time::{Duration, Instant};
use carob_proto::Request;
use carob_proto::codec::{Code, OptionNumber, Type};
use carob_proto::endpoint::{BlockMode, Config, Event, Failure, RequestConfig, RequestError};

#[test]
fn piggybacked_response_completes_the_request() {
    let mut net = Net::plain();
    net.app.resources.insert("a/b".into(), "hello".into());
    net.send_for(get("a/b"), seconds(300));
    assert_eq!(&net.response().unwrap().bytes()[..], b"hello");
    assert_eq!(shapes(&net.sent_by_client()), ["CON 0.01"]);
    assert_eq!(shapes(&net.sent_by_server()), ["ACK 2.05"]);
    assert!(net.client.is_idle() && net.server.is_idle());
}

#[test]
fn retransmits_a_confirmable_with_exponential_backoff() {
    let mut net = Net::deaf();
    net.send_for(get("x"), seconds(300));
    assert_eq!(net.failure(), Some(Failure::TimedOut { copies: 5 }));
    let times = net.client_times();
    assert_eq!(times.len(), 5);
    let first = times[1].as_micros();
    assert!((2_000_000..=3_000_000).contains(&first), "{first}");
    for (n, time) in times.iter().enumerate() {
        assert_eq!(time.as_micros(), first * ((1 << n) - 1));
    }
    let failed = net
        .events
        .iter()
        .find(|(_, e)| matches!(e, Event::Failed { .. }))
        .unwrap()
        .0;
    assert_eq!(failed, Instant::from_micros(first * 31));
    let copies = net.sent_by_client();
    assert!(
        copies.iter().all(|c| *c == copies[0]),
        "copies are identical"
    );
    assert!(net.client.is_idle());
}

#[test]
fn request_parameters_apply_to_one_request() {
    let mut net = Net::deaf();
    let mut parameters = net.client.config().parameters;
    parameters.ack_timeout = millis(100);
    parameters.max_retransmit = 1;
    net.send_with(
        get("x"),
        sending_with(|sending| sending.parameters = Some(parameters)),
    );
    net.run_for(seconds(1));
    assert_eq!(net.failure(), Some(Failure::TimedOut { copies: 2 }));
    net.crossings.clear();
    net.send_for(get("x"), seconds(300));
    assert_eq!(net.sent_by_client().len(), 5);
}

#[test]
fn slow_application_gets_empty_ack_then_separate_response() {
    let mut net = Net::plain();
    net.app.resources.insert("slow".into(), "late".into());
    net.app.delay = seconds(8);
    net.send_for(get("slow"), seconds(300));
    assert_eq!(&net.response().unwrap().bytes()[..], b"late");
    assert_eq!(shapes(&net.sent_by_client()), ["CON 0.01", "ACK 0.00"]);
    assert_eq!(shapes(&net.sent_by_server()), ["ACK 0.00", "CON 2.05"]);
    let acknowledged = net.crossings[1].at.since(Instant::ZERO);
    assert_eq!(
        acknowledged,
        millis(10) + net.server.config().empty_ack_delay
    );
    assert!(net.server.is_idle());
}

#[test]
fn unmatched_response_is_rejected() {
    let mut net = Net::plain();
    net.inject_to_client(&con(Code::CONTENT, 9).token(&[1, 2]).bytes());
    assert_eq!(net.sent_by_client(), [&[0x70, 0, 0, 9][..]]);
}

#[test]
fn ping_gets_a_reset() {
    let mut net = Net::plain();
    net.client
        .ping(net.now, crate::net::server_address())
        .unwrap();
    net.run_for(seconds(300));
    assert!(matches!(net.events[..], [(_, Event::Pong(_))]));
    assert_eq!(shapes(&net.sent_by_client()), ["CON 0.00"]);
    assert_eq!(shapes(&net.sent_by_server()), ["RST 0.00"]);
    assert!(net.client.is_idle());
}

#[test]
fn ping_completes_on_acknowledgement() {
    let mut net = Net::deaf();
    net.client
        .ping(net.now, crate::net::server_address())
        .unwrap();
    net.run_for(seconds(1));
    let id = view(net.sent_by_client()[0]).message_id().0;
    net.inject_to_client(&empty(Type::Acknowledgement, id));
    assert!(matches!(net.events[..], [(_, Event::Pong(_))]));
    assert!(net.client.is_idle());
}

#[test]
fn duplicate_request_is_executed_once() {
    let mut net = Net::plain();
    let request = con(Code::POST, 5).path("n").bytes();
    net.inject_to_server(&request);
    net.run_for(seconds(200));
    net.inject_to_server(&request);
    assert_eq!(net.app.executed["n"], 1);
    let answers = net.sent_by_server();
    assert_eq!((answers.len(), answers[0]), (2, answers[1]));
    net.run_for(seconds(48));
    net.inject_to_server(&request);
    assert_eq!(
        net.app.executed["n"], 2,
        "after EXCHANGE_LIFETIME it is a new request"
    );
}

#[test]
fn duplicate_of_pending_request_gets_empty_ack() {
    let mut net = Net::plain();
    net.app.delay = seconds(5);
    let request = con(Code::GET, 5).path("n").bytes();
    net.inject_to_server(&request);
    net.inject_to_server(&request);
    assert!(
        net.sent_by_server().is_empty(),
        "a reply was sent too early"
    );
    net.run_for(seconds(1));
    net.inject_to_server(&request);
    assert_eq!(shapes(&net.sent_by_server()), ["ACK 0.00", "ACK 0.00"]);
    net.run_for(seconds(300));
    assert_eq!(net.app.executed["n"], 1);
}

#[test]
fn response_in_blocks_that_were_not_requested_fails_request() {
    let more = &[0x0e][..];
    for (number, code, fails) in [
        (OptionNumber::Q_BLOCK2, Code::CONTENT, true),
        (OptionNumber::Q_BLOCK1, Code::CONTENT, true),
        (OptionNumber::BLOCK1, Code::CONTENT, true),
        (OptionNumber::BLOCK1, Code::REQUEST_ENTITY_TOO_LARGE, false),
    ] {
        let mut net = Net::deaf();
        net.send(get("x"));
        let request = net.sent_by_client()[0].to_vec();
        let answer = ack(code, view(&request).message_id().0).token_of(&request);
        net.inject_to_client(&answer.option(number.0, more).bytes());
        let failure = fails.then_some(Failure::UnknownOption(number));
        assert_eq!(net.failure(), failure, "{number} in {code}");
        assert_eq!(net.response().is_some(), !fails);
    }
}

#[test]
fn nstart_of_1_serializes_requests_in_order() {
    let mut net = Net::plain();
    for name in ["a", "b", "c"] {
        net.app
            .resources
            .insert(name.into(), Bytes::copy_from_slice(name.as_bytes()));
        net.send(get(name));
    }
    net.run_for(seconds(1));
    assert_eq!(net.client_times(), [millis(0), millis(20), millis(40)]);
    let bodies: Vec<_> = net.responses().iter().map(|r| r.bytes().clone()).collect();
    assert_eq!(bodies, ["a", "b", "c"]);
}

#[test]
fn nstart_permits_concurrent_exchanges() {
    let mut net = Net::new(
        config(|config| config.parameters.nstart = 3),
        Config::default(),
    );
    for _ in 0..5 {
        net.send(get("x"));
    }
    net.run_for(seconds(1));
    assert_eq!(net.client_times(), [0, 0, 0, 20, 20].map(millis));
}

#[test]
fn deadline_ends_a_request_in_any_state() {
    let mut net = Net::deaf();
    let sending = sending_with(|sending| sending.deadline = Some(seconds(10)));
    net.send(get("running"));
    let queued = net.send_with(get("queued"), sending.clone());
    net.run_for(seconds(11));
    let failed: Vec<_> = net
        .events
        .iter()
        .map(|(at, e)| (at.since(Instant::ZERO), e))
        .collect();
    assert!(
        matches!(failed[..], [(at, Event::Failed { id, failure: Failure::DeadlinePassed })]
            if at == seconds(10) && *id == queued),
        "{failed:?}"
    );
    net.run_for(seconds(300));
    assert!(net.client.is_idle());
    assert!(
        net.sent_by_client().iter().all(|m| m.ends_with(b"running")),
        "it never left"
    );
}

#[test]
fn cancelled_request_is_not_retransmitted() {
    let mut net = Net::deaf();
    let id = net.send(get("x"));
    net.run_for(seconds(1));
    assert!(net.client.cancel(net.now, id));
    assert!(!net.client.cancel(net.now, id));
    net.drain();
    net.run_for(seconds(300));
    assert_eq!(net.sent_by_client().len(), 1);
    assert!(net.events.is_empty() && net.client.is_idle());
}

#[test]
fn cancelled_request_frees_its_nstart_slot() {
    let mut net = Net::plain();
    net.app.mute = true;
    let first = net.send(get("x"));
    net.send(get("y"));
    net.client.cancel(net.now, first);
    net.drain();
    assert_eq!(net.sent_by_client().len(), 2);
}

#[test]
fn unreachable_peer_fails_all_its_requests() {
    let mut net = Net::deaf();
    for _ in 0..3 {
        net.send(get("x"));
    }
    net.client
        .handle_unreachable(net.now, crate::net::server_address());
    net.drain();
    let failed = net.events.iter().filter(|(_, e)| {
        matches!(
            e,
            Event::Failed {
                failure: Failure::Unreachable,
                ..
            }
        )
    });
    assert_eq!(failed.count(), 3);
    assert!(net.client.is_idle());
}

#[test]
fn unsendable_requests_are_refused_at_once() {
    let mut net = Net::plain();
    let mut ask = |to: &str, request: Request| {
        net.client.request(
            net.now,
            to.parse().unwrap(),
            request,
            RequestConfig::default(),
        )
    };
    assert_eq!(ask("10.0.0.1:0", get("x")), Err(RequestError::BadAddress));
    assert_eq!(ask("0.0.0.0:5683", get("x")), Err(RequestError::BadAddress));
    assert_eq!(
        ask("224.0.1.187:5683", get("x")),
        Err(RequestError::BadAddress)
    );
    let mut long = get("x");
    for _ in 0..8 {
        long.options
            .push(OptionNumber::URI_QUERY, &[b'q'; 250])
            .unwrap();
    }
    assert!(matches!(
        ask("10.0.0.1:1", long),
        Err(RequestError::Encode(_))
    ));
    assert!(net.client.is_idle());
}

#[test]
fn messages_wait_for_a_free_message_id() {
    let mut net = Net::plain();
    let mut config = Config::default();
    config.parameters.nstart = u16::MAX;
    config.limits.queue = 100_000;
    config.limits.requests = 100_000;
    net.client = carob_proto::Endpoint::new(config, crate::net::Stream(1));
    net.delay = Duration::ZERO;
    let mut sent = std::collections::BTreeSet::new();
    for _ in 0..66_000 {
        net.client
            .request(
                net.now,
                crate::net::server_address(),
                get("x"),
                RequestConfig::default(),
            )
            .unwrap();
        loop {
            match net.client.poll() {
                carob_proto::endpoint::Output::Transmit { bytes, .. } => {
                    let id = view(bytes).message_id();
                    assert!(sent.insert(id.0), "{id:?} was used twice at once");
                }
                carob_proto::endpoint::Output::Wait(_) => break,
                _ => {}
            }
        }
    }
    assert!(
        (64_513..=65_536).contains(&sent.len()),
        "{} left at once",
        sent.len()
    );
    assert_eq!(net.client.usage().requests, 66_000, "the others wait");
    let peer = crate::net::server_address();
    let snapshot = net.client.snapshot(net.now, peer).expect("a known peer");
    let wait = snapshot.message_id_wait.expect("none is free");
    assert_eq!(wait, Config::default().parameters.exchange_lifetime());
    let later = net.client.snapshot(net.now + wait, peer).expect("the same");
    assert_eq!(later.message_id_wait, None);
}

#[test]
fn tokens_are_random_and_may_be_empty() {
    let mut net = Net::plain();
    for _ in 0..3 {
        net.send_for(get("x"), seconds(1));
    }
    let token = |m: &&[u8]| view(m).token().as_slice().to_vec();
    let tokens: Vec<_> = net.sent_by_client().iter().map(token).collect();
    assert!(tokens.iter().all(|t| t.len() == 8));
    assert!(tokens[0] != tokens[1] && tokens[1] != tokens[2]);

    let mut config = Config::default();
    config.token_length = 0;
    config.parameters.nstart = 2;
    let mut net = Net::new(config, Config::default());
    net.app.resources.insert("x".into(), "y".into());
    net.send(get("x"));
    net.send_for(get("x"), seconds(1));
    let tokens: Vec<_> = net.sent_by_client().iter().map(token).collect();
    assert_eq!((tokens[0].len(), tokens[1].len()), (0, 2));
    assert_eq!(net.responses().len(), 2);
}

#[test]
fn request_with_block_option_of_application_is_unchanged() {
    let mut net = Net::plain();
    net.app.resources.insert("big".into(), pattern(5_000));
    let mut request = get("big");
    request
        .options
        .set_uint(OptionNumber::BLOCK2, 3 << 4 | 4)
        .unwrap(); // block 3 of 256 bytes
    net.send_with(
        request,
        sending_with(|sending| sending.blocks = BlockMode::Manual),
    );
    net.run_for(seconds(1));
    assert_eq!(
        net.response().unwrap().bytes(),
        &pattern(5_000).slice(768..1024)
    );
}

#[test]
fn every_request_ends_and_runs_at_most_once_on_a_bad_network() {
    for seed in 0..60 {
        let mut net = Net::plain().seeded(seed);
        net.faults = Faults {
            loss: 20,
            duplication: 20,
            jitter: millis(3_000),
        };
        net.app.delay = if seed % 2 == 0 {
            Duration::ZERO
        } else {
            seconds(1)
        };
        for n in 0..10 {
            net.send(post(&format!("r{n}"), Bytes::from_static(b"x")));
        }
        net.run_for(seconds(3_000));
        let ended = net.events.len();
        assert_eq!(ended, 10, "seed {seed}: {ended} of 10 requests ended");
        for (path, times) in &net.app.executed {
            assert_eq!(*times, 1, "seed {seed}: {path} ran {times} times");
        }
        assert!(
            net.responses().len() >= 8,
            "seed {seed}: {} answered",
            net.responses().len()
        );
        assert!(net.client.is_idle() && net.server.is_idle(), "seed {seed}");
    }
}
