//! Notifications: order, types, blocks and handling by the client.

use super::*;

#[test]
fn smaller_observe_number_is_fresher_after_128_seconds() {
    let (mut net, _) = observed();
    net.inject_to_client(&notification(&net, Type::NonConfirmable, 1, 20, b"on"));
    net.run_for(seconds(129));
    net.inject_to_client(&notification(&net, Type::NonConfirmable, 2, 3, b"dim"));
    assert_eq!(net.states(), ["off", "on", "dim"]);
}

#[test]
fn unacknowledged_state_is_superseded_by_newer_one() {
    let (mut net, _) = observed();
    net.drop_if = Some(|from_client, _| !from_client);
    net.change("light", "on", true);
    net.run_for(seconds(1));
    net.change("light", "dim", true);
    net.drop_if = None;
    net.run_for(seconds(60));
    assert_eq!(net.states(), ["off", "dim"], "the one between was skipped");
    let sent = net.sent_by_server();
    let (first, second) = (view(sent[1]), view(sent[2]));
    assert_ne!(
        first.message_id(),
        second.message_id(),
        "the same Message ID as before"
    );
    assert_eq!(second.payload(), b"dim");
    // It was sent when the first one timed out, not earlier.
    let crossing = net.crossings.iter().filter(|c| !c.from_client).nth(2);
    let waited = crossing.unwrap().at.since(Instant::ZERO);
    assert!(waited >= seconds(3) && waited <= seconds(4), "{waited:?}");
    assert!(net.server.is_idle());
}

#[test]
fn superseding_notification_inherits_count_and_timer() {
    let (mut net, _) = observed();
    net.server_dead = true;
    net.change("light", "on", true);
    net.run_for(seconds(1));
    net.change("light", "dim", true);
    net.run_for(seconds(300));
    let times: Vec<_> = net
        .crossings
        .iter()
        .filter(|c| !c.from_client)
        .skip(1)
        .map(|c| c.at.as_micros())
        .collect();
    assert_eq!(times.len(), 5, "five copies in all, as of one message");
    let first = times[1] - times[0];
    for n in 1..4 {
        assert_eq!(times[n + 1] - times[n], first << n, "doubled each time");
    }
    assert_eq!(net.server.observers(Subject(0)), 0, "and then it is over");
}

/// A notification "on" superseded by "dim", whose acknowledgements were lost, and its Message ID.
fn superseded() -> (Net, MessageId) {
    let (mut net, _) = observed();
    net.drop_if = Some(|from_client, _| from_client);
    net.change("light", "on", true);
    net.run_for(seconds(1));
    net.change("light", "dim", true);
    net.run_for(seconds(3));
    assert_eq!(net.states(), ["off", "on", "dim"]);
    let first = view(net.sent_by_server()[1]).message_id();
    (net, first)
}

fn empty(kind: Type, id: MessageId) -> [u8; 4] {
    let [high, low] = id.0.to_be_bytes();
    [0x40 | (kind as u8) << 4, 0, high, low]
}

#[test]
fn acknowledgement_of_a_superseded_notification_confirms_interest() {
    let (mut net, first) = superseded();
    let sent = net.sent_by_server().len();
    net.inject_to_server(&empty(Type::Acknowledgement, first));
    net.run_for(seconds(1));
    // The newer state must arrive and may not have: it is sent in a new exchange.
    let again: Vec<_> = net.sent_by_server()[sent..]
        .iter()
        .map(|sent| view(sent))
        .collect();
    assert_eq!(again.len(), 1);
    assert_eq!(
        (again[0].kind(), again[0].payload()),
        (Type::Confirmable, &b"dim"[..])
    );
    // MAX_TRANSMIT_WAIT of the first exchange passes without an end of the observation.
    net.drop_if = None;
    net.run_for(seconds(100));
    assert_eq!(net.server.observers(Subject(0)), 1);
    assert!(net.server.is_idle());
}

#[test]
fn reset_of_a_superseded_notification_ends_observation() {
    let (mut net, first) = superseded();
    net.inject_to_server(&empty(Type::Reset, first));
    assert_eq!(net.server.observers(Subject(0)), 0);
    assert!(net.server.is_idle());
}

#[test]
fn acknowledgement_is_followed_by_the_newest_state() {
    let (mut net, _) = observed();
    net.change("light", "on", true);
    net.change("light", "dim", true);
    net.change("light", "off", true);
    net.run_for(seconds(1));
    assert_eq!(net.states(), ["off", "on", "off"]);
}

#[test]
fn notifications_of_a_peer_share_its_window() {
    let (mut net, _) = observed();
    net.observable("door", "shut");
    net.send_with(get("door"), observing());
    net.run_for(seconds(1));
    net.server_dead = true;
    let before = net.crossings.len();
    net.change("light", "on", true);
    net.change("door", "open", true);
    net.run_for(seconds(1));
    // NSTART is 1: the second waits for the first.
    assert_eq!(net.crossings.len() - before, 1);
}

#[test]
fn snapshot_has_outstanding_and_queued_notifications() {
    let (mut net, _) = observed();
    assert_eq!(net.server.peers().collect::<Vec<_>>(), [client_address()]);
    net.change("light", "on", true);
    net.run_for(seconds(1));
    let calm = net.server.snapshot(net.now, client_address()).unwrap();
    assert_eq!((calm.transmissions, calm.retransmissions), (1, 0));
    assert_eq!(calm.round_trip, Some(millis(20)));
    assert_eq!(
        (calm.observations, calm.outstanding, calm.queued),
        (1, 0, 0)
    );
    net.observable("door", "shut");
    net.send_with(get("door"), observing());
    net.run_for(seconds(1));
    net.server_dead = true;
    net.change("light", "dim", true);
    net.change("door", "open", true);
    net.run_for(seconds(4));
    let busy = net.server.snapshot(net.now, client_address()).unwrap();
    assert_eq!((busy.transmissions, busy.retransmissions), (3, 1));
    assert_eq!(
        (busy.observations, busy.outstanding, busy.queued),
        (2, 1, 1)
    );
    assert_eq!(busy.window.exchanges, 1);
    assert_eq!(busy.heard, Some(millis(4_990)));
    assert_eq!(
        net.server.snapshot(net.now, crate::net::server_address()),
        None
    );
}

#[test]
fn error_notification_ends_the_observation() {
    let (mut net, _) = observed();
    let gone = Response::new(Code::NOT_FOUND);
    net.server.notify(net.now, Subject(0), &gone, true).unwrap();
    net.run_for(seconds(10));
    let last = view(net.sent_by_server()[1]);
    assert_eq!(last.code(), Code::NOT_FOUND);
    assert_eq!(observe_value(net.sent_by_server()[1]), None);
    assert_eq!(net.response().unwrap().code, Code::NOT_FOUND);
    assert!(net.client.is_idle() && net.server.is_idle());
    assert!(matches!(
        net.server_events[..],
        [(_, Event::Unobserved(Subject(0)))]
    ));
}

#[test]
fn state_in_another_format_ends_observation_with_4_06() {
    let mut net = Net::plain();
    net.observable("light", "off");
    let json = carob_proto::codec::ContentFormat::JSON;
    let text = carob_proto::codec::ContentFormat::TEXT_PLAIN;
    net.app.formats.insert("light".into(), text);
    net.send_with(get("light"), observing());
    net.run_for(seconds(1));
    net.server
        .notify(net.now, Subject(0), &Response::content(text, "on"), false)
        .unwrap();
    net.server
        .notify(net.now, Subject(0), &Response::content(json, "1"), false)
        .unwrap();
    net.run_for(seconds(1));
    assert_eq!(net.response().unwrap().code, Code::NOT_ACCEPTABLE);
    assert_eq!(net.server.observers(Subject(0)), 0);
}

#[test]
fn oversized_notification_is_refused() {
    let (mut net, _) = observed();
    let mut large = Response::new(Code::CONTENT);
    for _ in 0..2 {
        let value = [b'x'; 1_000];
        large.options.push(OptionNumber(2_048), &value).unwrap();
    }
    assert!(
        net.server
            .notify(net.now, Subject(0), &large, false)
            .is_err()
    );
    net.run_for(seconds(1));
    assert_eq!(net.states(), ["off"]);
}

#[test]
fn notification_is_confirmable_once_a_day() {
    let (mut net, _) = observed();
    // The interval starts with the registration, which was not retransmitted.
    for hour in 1..=48 {
        net.run_until(Instant::ZERO + seconds(hour * 3_600));
        // Frequent changes keep the state fresh, so that the client does not register again.
        net.change("light", "on", false);
    }
    net.run_for(seconds(3_600));
    let confirmable: Vec<_> = net
        .crossings
        .iter()
        .filter(|c| !c.from_client && view(&c.bytes).kind() == Type::Confirmable)
        .map(|c| c.at.since(Instant::ZERO).as_secs() / 3_600)
        .collect();
    assert_eq!(
        confirmable,
        Vec::<u64>::new(),
        "a client that renews is interested"
    );

    // A silent observer gets a CON notification.
    let (mut net, _) = observed();
    let forgotten = net.sent_by_client()[0].to_vec();
    net.server.handle_datagram(net.now, stranger(), &forgotten);
    net.drain();
    assert_eq!(net.server.observers(Subject(0)), 2);
    net.server_dead = true;
    let day = Instant::ZERO + seconds(24 * 3_600);
    let mut at = None;
    while at.is_none() {
        let carob_proto::endpoint::Output::Wait(Some(due)) = net.server.poll() else {
            panic!("the server waits");
        };
        net.server.handle_timeout(due);
        while let carob_proto::endpoint::Output::Transmit { to, bytes } = net.server.poll() {
            if to == stranger() && view(bytes).kind() == Type::Confirmable {
                at = Some(due);
            }
        }
    }
    assert!(
        at.unwrap() >= day && at.unwrap() <= day + seconds(2),
        "{at:?}"
    );
}

fn stranger() -> std::net::SocketAddr {
    ([10, 0, 0, 77], 5683).into()
}

fn observed_large() -> Net {
    let mut net = Net::plain();
    net.observable("light", "");
    net.app.resources.insert("light".into(), pattern(5_000));
    net.send_with(get("light"), observing());
    net.run_for(seconds(5));
    assert_eq!(bodies(&net), [pattern(5_000)]);
    net
}

fn bodies(net: &Net) -> Vec<bytes::Bytes> {
    let of = |(_, event): &(Instant, Event)| match event {
        Event::Notification { response, .. } => Some(response.bytes().clone()),
        _ => None,
    };
    net.events.iter().filter_map(of).collect()
}

#[test]
fn block_wise_notification_is_delivered_whole() {
    let mut net = observed_large();
    let next: bytes::Bytes = pattern(6_000).slice(700..);
    net.change("light", next.clone(), false);
    net.run_for(seconds(5));
    assert_eq!(bodies(&net), [pattern(5_000), next]);
    // Requests for further blocks have no Observe option (RFC 7959 2.6).
    let requests = net.sent_by_client();
    let rest: Vec<_> = requests
        .iter()
        .filter(|bytes| {
            view(bytes)
                .option(OptionNumber::BLOCK2)
                .map(BlockValue::decode)
                .is_some()
        })
        .collect();
    assert_eq!(rest.len(), 9);
    assert!(rest.iter().all(|bytes| observe_value(bytes).is_none()));
}

#[test]
fn a_new_state_cancels_the_body_of_the_old_one() {
    let mut net = observed_large();
    let (second, third) = (pattern(9_000).slice(1_000..), pattern(9_000).slice(3_000..));
    net.change("light", second, false);
    net.run_for(millis(50)); // two blocks of eight
    net.change("light", third.clone(), false);
    net.run_for(seconds(5));
    assert_eq!(bodies(&net), [pattern(5_000), third]);
}

#[test]
fn incomplete_notification_body_is_requested_again() {
    let mut net = observed_large();
    net.app.etags.insert("light".into(), b"2".to_vec());
    net.change("light", pattern(8_000), false);
    net.run_for(millis(25));
    // The server restarts during the transfer; further blocks are of another state.
    net.restart_server(4);
    net.app.etags.insert("light".into(), b"3".to_vec());
    net.run_for(seconds(60));
    assert!(matches!(stale(&net)[..], [(_, Some(Failure::Body(_)))]));
    assert_eq!(bodies(&net), [pattern(5_000), pattern(8_000)]);
    assert_eq!(net.server.observers(Subject(0)), 1);
}
