//! Servers that send every state instead of the newest only (`NotificationQueue::Queue`): order, limits and drops.
//!
//! Pacing of notifications by controllers (draft-ietf-core-cocoa-03, Non-Confirmables; Betzler et al. 2016): intervals,
//! conversions to CON, and the budget shared by a peer's requests, separate responses and notifications.

use carob_cc::time::{Duration, Instant};
use carob_proto::codec::{Code, MessageId, Type};
use carob_proto::congestion::CongestionControl;
use carob_proto::endpoint::{Config, Event, NotificationQueue, RequestConfig, Subject, Tracing};
use carob_proto::trace::TraceEvent;

use crate::net::wire::{con, shapes, view};
use crate::net::{Net, config, get, millis, observing, seconds};

/// A server with queue limits per peer and in total, and a client that observes `paths`.
fn queueing(controller: &str, each: usize, all: usize, paths: &[&'static str]) -> Net {
    let mut server = Config::default();
    server.controller = CongestionControl::named(controller).unwrap();
    server.notification_queue = NotificationQueue::Queue;
    server.limits.notifications_of_peer = each;
    server.limits.notifications = all;
    server.trace = Tracing::Exchanges;
    let mut net = Net::new(Config::default(), server);
    for path in paths {
        net.observable(path, "off");
        net.send_with(get(path), observing());
        net.run_for(seconds(1));
    }
    assert_eq!(net.states().len(), paths.len());
    net.events.clear();
    net.server_events.clear();
    net.crossings.clear();
    net
}

fn dropped(net: &Net) -> usize {
    let is_drop = |(_, event): &&(_, Event)| matches!(event, Event::Trace(trace) if trace.event == TraceEvent::NotificationDropped);
    net.server_events.iter().filter(is_drop).count()
}

#[test]
fn queued_notifications_are_sent_in_order_at_the_controllers_pace() {
    let mut net = queueing("observe-static", 10, 1_000, &["light"]);
    let began = net.now;
    for n in 0..5 {
        net.change("light", format!("{n}"), false);
    }
    assert_eq!(net.server.usage().notifications_waiting, 4);
    net.run_for(seconds(20));
    let at = began.as_micros() / 1_000 + 10;
    let told: Vec<_> = (0..5).map(|n| (at + n * 3_000, n.to_string())).collect();
    assert_eq!(net.notified(), told);
    assert_eq!(
        (net.server.usage().notifications_waiting, dropped(&net)),
        (0, 0)
    );
    assert!(net.server.is_idle());
}

#[test]
fn superseding_sends_the_newest_notification_only() {
    let mut net = queueing("observe-static", 10, 1_000, &["light"]);
    let mut config = net.server.config().clone();
    config.notification_queue = NotificationQueue::Supersede;
    net.server = carob_proto::Endpoint::new(config, crate::net::Stream(9));
    net.send_with(get("light"), observing());
    net.run_for(seconds(1));
    net.events.clear();
    for n in 0..5 {
        net.change("light", format!("{n}"), false);
    }
    assert_eq!(net.server.usage().notifications_waiting, 1);
    net.run_for(seconds(20));
    assert_eq!(net.states(), ["0", "4"]);
}

#[test]
fn notifications_beyond_the_queue_limit_are_dropped_and_counted() {
    let mut net = queueing("observe-static", 2, 1_000, &["a", "b"]);
    for n in 0..3 {
        net.change("a", format!("a{n}"), false);
        net.change("b", format!("b{n}"), false);
    }
    // The first is sent at once; two wait, regardless of the resource.
    net.run_for(seconds(20));
    assert_eq!(net.states(), ["a0", "b0", "a1"]);
    assert_eq!(dropped(&net), 3);
    assert_eq!(net.server.usage().notifications_dropped, 3);
    // The queue has space again.
    net.change("b", "b3", false);
    net.run_for(seconds(1));
    assert_eq!(net.states().last().unwrap(), "b3");
}

#[test]
fn total_queue_limit_applies_to_peers_with_queued_notifications() {
    let mut net = queueing("observe-static", 10, 1, &["a"]);
    for n in 0..4 {
        net.change("a", format!("{n}"), false);
    }
    net.run_for(seconds(20));
    assert_eq!(
        (net.states(), dropped(&net)),
        (vec!["0".into(), "1".into()], 2)
    );
}

#[test]
fn notifications_wait_for_an_earlier_acknowledgement() {
    let mut net = queueing("default", 10, 1_000, &["a"]);
    net.drop_if =
        Some(|from_client, bytes| from_client && view(bytes).kind() == Type::Acknowledgement);
    net.change("a", "0", true);
    net.change("a", "1", false);
    net.change("a", "2", true);
    net.run_for(millis(1_500));
    assert_eq!(net.states(), ["0"]);
    net.drop_if = None;
    net.run_for(seconds(20));
    assert_eq!(net.states(), ["0", "1", "2"]);
    // The acknowledged retransmission equals the first transmission.
    let bodies = net.crossings.iter().filter(|c| !c.from_client);
    let bodies: Vec<_> = bodies.map(|c| view(&c.bytes).payload().to_vec()).collect();
    assert_eq!(bodies, [b"0", b"0", b"1", b"2"]);
}

#[test]
fn outstanding_notifications_are_sent_in_order() {
    let mut server = Config::default();
    server.notification_queue = NotificationQueue::Queue;
    server.parameters.nstart = 4;
    let mut net = Net::new(Config::default(), server);
    net.observable("a", "off");
    net.observable("b", "off");
    for path in ["a", "b"] {
        net.send_with(get(path), observing());
        net.run_for(seconds(1));
    }
    net.events.clear();
    net.change("a", "a0", true);
    net.change("a", "a1", true);
    net.change("b", "b0", true);
    net.run_for(seconds(5));
    assert_eq!(net.states(), ["a0", "b0", "a1"]);
}

#[test]
fn reset_removes_queued_notifications() {
    let mut net = queueing("observe-static", 10, 1_000, &["a", "b"]);
    for n in 0..3 {
        net.change("a", format!("a{n}"), false);
    }
    net.change("b", "b0", false);
    assert_eq!(net.server.usage().notifications_waiting, 3);
    // The client rejects the notification that was sent.
    let refused = view(&net.crossings[0].bytes).message_id();
    net.inject_to_server(&reset(refused));
    assert_eq!(net.server.observers(Subject(0)), 0);
    assert_eq!(net.server.usage().notifications_waiting, 1);
    net.run_for(seconds(20));
    assert_eq!(net.states(), ["a0", "b0"]);
    assert!(net.server.is_idle());
}

#[test]
fn silent_observer_is_removed_with_its_queue() {
    let mut net = queueing("default", 10, 1_000, &["a"]);
    net.drop_if = Some(|_, _| true);
    for n in 0..5 {
        net.change("a", format!("{n}"), true);
    }
    net.run_for(seconds(100));
    assert_eq!(net.server.observers(Subject(0)), 0);
    let usage = net.server.usage();
    assert_eq!((usage.notifications_waiting, usage.exchanges), (0, 0));
    // Only retransmissions of the first notification were sent.
    let sent = net.crossings.iter().filter(|c| !c.from_client);
    assert!(
        sent.map(|c| view(&c.bytes).payload().to_vec())
            .all(|body| body == b"0")
    );
}

#[test]
fn rapid_notifications_reach_many_observers() {
    let mut endpoint = carob_proto::Endpoint::new(
        config(|config| config.notification_queue = NotificationQueue::Queue),
        crate::net::Stream(1),
    );
    let now = Instant::ZERO;
    let address = |n: u16| std::net::SocketAddr::from(([10, 0, 0, 3], n));
    for n in 1..=40_u16 {
        let register = con(Code::GET, n).token(&n.to_be_bytes()).option(6, b"");
        endpoint.handle_datagram(now, address(n), &register.bytes());
        while let carob_proto::endpoint::Output::Event(Event::Request(id)) = endpoint.poll() {
            assert!(endpoint.observe(now, id, Subject(7)));
            let response = carob_proto::Response::new(Code::CONTENT);
            endpoint.respond(now, id, &response);
        }
    }
    while let carob_proto::endpoint::Output::Transmit { .. } = endpoint.poll() {}
    let mut told = 0;
    for n in 0..3 {
        let mut state = carob_proto::Response::new(Code::CONTENT);
        state.payload = carob_proto::message::Payload::Whole(vec![n].into());
        assert_eq!(endpoint.notify(now, Subject(7), &state, false), Ok(40));
    }
    while let carob_proto::endpoint::Output::Transmit { .. } = endpoint.poll() {
        told += 1;
    }
    assert_eq!(told, 120, "three states, each to 40");
}

fn reset(id: MessageId) -> [u8; 4] {
    let [high, low] = id.0.to_be_bytes();
    [0x70, 0, high, low]
}

#[test]
fn confirmation_interval_is_configurable() {
    let mut net = Net::new(
        Config::default(),
        config(|config| config.unconfirmed_max = 3),
    );
    net.observable("a", "off");
    net.send_with(get("a"), observing());
    net.run_for(seconds(1));
    net.crossings.clear();
    for n in 0..8 {
        net.change("a", format!("{n}"), false);
        net.run_for(seconds(1));
    }
    let told = net.crossings.iter().filter(|c| !c.from_client);
    let kinds: Vec<_> = told.map(|c| view(&c.bytes).kind()).collect();
    let asks: Vec<_> = (0..8).filter(|n| kinds[*n] == Type::Confirmable).collect();
    assert_eq!(asks, [3, 7]);
}

/// A server with this controller and a client that observes `/light`. The round-trip time is 20 ms.
fn observed(controller: &str) -> Net {
    let mut server = Config::default();
    let choice = CongestionControl::named(controller).unwrap();
    if let CongestionControl::Registered(entry) = &choice {
        server.parameters = entry.suggested.apply(server.parameters);
    }
    server.controller = choice;
    let mut net = Net::new(Config::default(), server);
    net.observable("light", "off");
    net.send_with(get("light"), observing());
    net.run_for(seconds(1));
    assert_eq!(net.states(), ["off"]);
    net.crossings.clear();
    net
}

/// Times and types of notifications while the state changes every 50 ms for a minute.
fn busy_minute(controller: &str) -> Vec<(Instant, Type)> {
    let mut net = observed(controller);
    for n in 0..1_200 {
        net.change("light", format!("{n}"), false);
        net.run_for(millis(50));
    }
    net.run_for(seconds(10));
    assert_eq!(
        net.states().last().unwrap(),
        "1199",
        "the last state arrives"
    );
    assert!(net.server.is_idle());
    let told = net.crossings.iter().filter(|c| !c.from_client);
    told.map(|c| (c.at, view(&c.bytes).kind())).collect()
}

fn gaps(told: &[(Instant, Type)]) -> Vec<Duration> {
    told.windows(2)
        .map(|two| two[1].0.since(two[0].0))
        .collect()
}

/// Indices of CON notifications.
fn confirmed(told: &[(Instant, Type)]) -> Vec<usize> {
    let all = told.iter().enumerate();
    all.filter(|(_, (_, kind))| *kind == Type::Confirmable)
        .map(|(place, _)| place)
        .collect()
}

#[test]
fn cocoa_03_notifies_once_per_rto_and_every_eighth_as_con() {
    let told = busy_minute("cocoa-03");
    // 2 s without a sample, until the first CON is acknowledged: RTO = 1 s + 1.5 x 20 ms.
    let gaps = gaps(&told);
    // The interval after that CON had been set before its acknowledgement.
    assert_eq!(gaps[..8], [seconds(2); 8]);
    assert_eq!(gaps[8..16], [millis(1_030); 8]);
    // Then RTO = 1/2 x 1.03 s + 1/2 x (20 ms + 4 x 7.5 ms).
    assert_eq!(gaps[16..24], [millis(540); 8]);
    let confirmed = confirmed(&told);
    assert_eq!(confirmed[..3], [7, 15, 23]);
    for sixteen in told.windows(16) {
        let confirmed = sixteen
            .iter()
            .filter(|(_, kind)| *kind == Type::Confirmable);
        assert!(confirmed.count() >= 2);
    }
}

#[test]
fn cocoa_002_randomizes_the_interval() {
    let told = busy_minute("cocoa-002");
    let first: Vec<_> = gaps(&told)[..7].to_vec();
    let within = |gap: &Duration| (seconds(2)..=seconds(3)).contains(gap);
    assert!(first.iter().all(within), "{first:?}");
    assert!(first.windows(2).any(|two| two[0] != two[1]), "{first:?}");
    assert_eq!(confirmed(&told)[..2], [7, 15]);
}

#[test]
fn cocoa_californium_paces_without_conversion() {
    let told = busy_minute("cocoa-californium");
    assert!(gaps(&told).iter().all(|gap| *gap == seconds(2)));
    // Fewer than 32 NON in a row, after which a CON follows with any controller (RFC 7641 7).
    assert_eq!(confirmed(&told).first(), None);
}

#[test]
fn fasor_paces_at_3_s_without_samples() {
    let told = busy_minute("fasor");
    assert!(gaps(&told).iter().all(|gap| *gap == seconds(3)));
}

#[test]
fn default_coap_does_not_pace() {
    assert_eq!(busy_minute("default").len(), 1_200);
}

#[test]
fn notification_upgraded_to_con_occupies_nstart() {
    let mut net = observed("cocoa-03");
    for n in 0..7 {
        net.change("light", format!("{n}"), false);
        net.run_for(seconds(2));
    }
    // The eighth is not acknowledged: with NSTART 1, a request by the server has to wait.
    net.drop_if =
        Some(|from_client, bytes| !from_client && view(bytes).kind() == Type::Confirmable);
    let before = net.sent_by_server().len();
    net.change("light", "7", false);
    net.server
        .request(
            net.now,
            crate::net::client_address(),
            get("x"),
            RequestConfig::default(),
        )
        .unwrap();
    net.run_for(seconds(10));
    net.change("light", "8", false);
    let sent = shapes(&net.sent_by_server()[before..]);
    assert!(
        sent.len() >= 2 && sent.iter().all(|shape| shape == "CON 2.05"),
        "{sent:?}"
    );
    net.drop_if = None;
    net.run_for(seconds(30));
    let sent = shapes(&net.sent_by_server()[before..]);
    let request = sent.iter().position(|shape| shape == "CON 0.01");
    assert!(request.is_some(), "{sent:?}");
    assert_eq!(net.states().last().unwrap(), "8");
}
