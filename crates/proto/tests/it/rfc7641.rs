//! RFC 7641 by requirement, on the wire (`vectors/requirements.toml`), as far as `observe.rs` does not cover it.

use crate::net::wire::{ack, blocks, con, empty, non, shapes, view};
use crate::net::{Net, config, get, millis, observing, pattern, seconds};
use carob_cc::time::Instant;
use carob_proto::codec::{Code, ContentFormat, OptionNumber, Type};
use carob_proto::congestion::CongestionControl;
use carob_proto::endpoint::{Config, RequestConfig, RequestId, Subject};
use carob_proto::{Request, Response};

/// A client that observes `/light` with state "off", after the registration.
fn observed(request: Request) -> (Net, RequestId) {
    let mut net = Net::plain();
    net.observable("light", "off");
    let id = net.send_with(request, observing());
    net.run_for(seconds(1));
    assert_eq!(net.server.observers(Subject(0)), 1);
    (net, id)
}

fn number(message: &[u8]) -> Option<u32> {
    view(message).uint_option(OptionNumber::OBSERVE)
}

/// Options of a message without Observe.
fn others(message: &[u8]) -> Vec<(u16, Vec<u8>)> {
    let all = view(message).options();
    let rest = all.filter(|option| option.number != OptionNumber::OBSERVE);
    rest.map(|option| (option.number.0, option.value.to_vec()))
        .collect()
}

/// A GET of `/light` with many kinds of options.
fn particular() -> Request {
    let mut request = get("light");
    let options = &mut request.options;
    options.push(OptionNumber::URI_HOST, b"h").unwrap();
    options.push(OptionNumber::URI_QUERY, b"a=1").unwrap();
    options.push(OptionNumber::URI_QUERY, b"b").unwrap();
    options.push(OptionNumber(65_000), b"own").unwrap();
    request
}

#[test]
fn a_registration_is_renewed_with_its_token_and_options() {
    let (mut net, _) = observed(particular());
    net.run_for(seconds(80));
    let [first, second] = net.sent_by_client()[..] else {
        panic!("one registration and one renewal");
    };
    assert_eq!((number(first), number(second)), (Some(0), Some(0)));
    assert_eq!(view(first).token(), view(second).token());
    assert_eq!(others(first), others(second));
    assert!(others(first).len() >= 5);
}

#[test]
fn deregistration_repeats_token_and_options() {
    let (mut net, id) = observed(particular());
    assert!(net.client.stop_observing(net.now, id));
    net.run_for(seconds(1));
    let [first, second] = net.sent_by_client()[..] else {
        panic!("one registration and one that takes it back");
    };
    assert_eq!((number(first), number(second)), (Some(0), Some(1)));
    assert_eq!(view(first).token(), view(second).token());
    assert_eq!(others(first), others(second));
    let answer = net.sent_by_server()[1];
    assert_eq!(
        (view(answer).payload(), number(answer)),
        (&b"off"[..], None)
    );
    assert_eq!(net.server.observers(Subject(0)), 0);
    assert!(net.client.is_idle());
    assert_eq!(net.client.usage().observations, 0);
}

#[test]
fn response_without_registration_has_no_observe() {
    let mut net = Net::new(
        Config::default(),
        config(|config| config.limits.observers = 0),
    );
    net.observable("light", "off");
    net.send_with(get("light"), observing());
    net.run_for(seconds(1));
    let answer = net.sent_by_server()[0];
    assert_eq!((view(answer).code(), number(answer)), (Code::CONTENT, None));
    assert_eq!(net.change("light", "on", false), 0);
}

#[test]
fn a_second_registration_with_the_same_token_replaces_the_first() {
    let (mut net, _) = observed(get("light"));
    let registration = net.sent_by_client()[0].to_vec();
    let again = con(Code::GET, 0x700).token_of(&registration).option(6, b"");
    net.inject_to_server(&again.path("light").bytes());
    assert_eq!(net.server.usage().observers, 1);
    let before = net.sent_by_server().len();
    net.change("light", "on", false);
    net.run_for(seconds(1));
    assert_eq!(net.sent_by_server().len(), before + 1, "notified twice");
}

#[test]
fn notifications_have_token_rising_number_and_first_format() {
    let mut net = Net::plain();
    net.observable("light", "off");
    let json = ContentFormat::JSON;
    net.app.formats.insert("light".into(), json);
    net.send_with(get("light"), observing());
    net.run_for(seconds(1));
    for n in 0..20 {
        let state = Response::content(json, format!("{n}"));
        net.server
            .notify(net.now, Subject(0), &state, n % 3 == 0)
            .unwrap();
        net.run_for(seconds(5));
    }
    let token = view(net.sent_by_client()[0]).token();
    let mut last = 0;
    let notifications = net.sent_by_server();
    assert_eq!(notifications.len(), 21);
    for message in notifications {
        let message_view = view(message);
        assert_eq!(
            (message_view.code(), message_view.token()),
            (Code::CONTENT, token)
        );
        assert_eq!(
            message_view.uint_option(OptionNumber::CONTENT_FORMAT),
            Some(50)
        );
        let number = number(message).unwrap();
        assert!(number > last, "{number} after {last}");
        last = number;
    }
    let told: Vec<_> = (0..20).map(|n| n.to_string()).collect();
    assert_eq!(net.states()[1..], told);
}

#[test]
fn observe_numbers_increase_slowly() {
    let (mut net, _) = observed(get("light"));
    net.observable("door", "shut");
    net.send_with(get("door"), observing());
    net.run_for(seconds(1));
    for n in 0..500 {
        net.change(
            if n % 2 == 0 { "light" } else { "door" },
            format!("{n}"),
            false,
        );
        net.run_for(millis(20));
    }
    let numbers: Vec<_> = net
        .sent_by_server()
        .iter()
        .filter_map(|m| number(m))
        .collect();
    let (first, last) = (numbers[0], *numbers.last().unwrap());
    assert!(numbers.len() >= 502 && (last - first) as usize <= numbers.len());
}

#[test]
fn observe_numbers_continue_after_a_new_registration() {
    let (mut net, _) = observed(get("light"));
    for state in ["on", "dim"] {
        net.change("light", state, false);
        net.run_for(seconds(1));
    }
    // The client is unreachable and removed from the observers.
    net.drop_if = Some(|from_client, _| !from_client);
    net.change("light", "lost", true);
    net.run_until(Instant::ZERO + seconds(110));
    assert_eq!(net.server.observers(Subject(0)), 0);
    net.drop_if = None;
    net.run_for(seconds(600));
    assert_eq!(
        net.server.observers(Subject(0)),
        1,
        "it has registered again"
    );
    let token = view(net.sent_by_client()[0]).token();
    let numbers: Vec<_> = net
        .sent_by_server()
        .iter()
        .filter(|message| view(message).token() == token)
        .filter_map(|message| number(message))
        .collect();
    assert!(numbers.len() >= 9, "{numbers:?}");
    // Retransmissions of a notification have the same number.
    assert!(numbers.is_sorted(), "{numbers:?}");
    assert!(numbers.last() > numbers.get(2), "{numbers:?}");
}

#[test]
fn unconfirmed_notifications_are_few_between_confirmed_ones() {
    let (mut net, _) = observed(get("light"));
    for n in 0..100 {
        net.change("light", format!("{n}"), false);
        net.run_for(millis(500));
    }
    let kinds = shapes(&net.sent_by_server()[1..]);
    assert_eq!(kinds.len(), 100);
    let runs: Vec<_> = kinds
        .split(|kind| kind == "CON 2.05")
        .map(<[String]>::len)
        .collect();
    assert_eq!(runs, [32, 32, 32, 1], "NON between CON");
    assert_eq!(net.states().last().unwrap(), "99");
    // An observer that does not acknowledge is removed.
    net.drop_if = Some(|from_client, _| from_client);
    net.crossings.clear();
    for n in 0..100 {
        net.change("light", format!("{n}"), false);
        net.run_for(seconds(5));
    }
    let told = net.sent_by_server();
    assert!(told.len() <= 32 + 5, "{} messages", told.len());
    assert_eq!(net.server.observers(Subject(0)), 0);
}

#[test]
fn state_of_lost_notification_arrives_eventually() {
    let mut net = Net::plain();
    net.observable("light", "off");
    // Max-Age of a week, so that the client does not register again.
    net.app.max_ages.insert("light".into(), 7 * 86_400);
    net.send_with(get("light"), observing());
    net.run_for(seconds(1));
    net.drop_if = Some(|_, _| true);
    net.change("light", "on", false);
    net.drop_if = None;
    net.run_for(seconds(25 * 3_600));
    assert_eq!(net.states(), ["off", "on"]);
    let kinds = shapes(&net.sent_by_client());
    assert_eq!(
        kinds,
        ["CON 0.01", "ACK 0.00"],
        "one notification and its acknowledgement"
    );
}

#[test]
fn any_ack_confirms_a_notification() {
    let (mut net, _) = observed(get("light"));
    net.drop_if = Some(|_, _| true);
    net.change("light", "on", true);
    let notification = net.sent_by_server()[1].to_vec();
    let id = view(&notification).message_id().0;
    net.inject_to_server(&ack(Code::CONTENT, id).payload(b"ignore me").bytes());
    net.run_for(seconds(200));
    assert_eq!(shapes(&net.sent_by_server()), ["ACK 2.05", "CON 2.05"]);
    assert_eq!(net.server.observers(Subject(0)), 1);
}

#[test]
fn notification_with_unknown_token_is_reset() {
    let (mut net, _) = observed(get("light"));
    let registration = net.sent_by_client()[0].to_vec();
    let told = |id, observe: u8| {
        let message = con(Code::CONTENT, id).option(6, &[observe]);
        message.payload(b"x")
    };
    net.inject_to_client(&told(0x900, 200).token(b"unknown").bytes());
    net.inject_to_client(&told(0x901, 201).token_of(&registration).bytes());
    // Old and duplicate CON notifications are acknowledged; a NON is not.
    let unconfirmed = non(Code::CONTENT, 0x903).option(6, &[202]).payload(b"x");
    net.inject_to_client(&unconfirmed.token_of(&registration).bytes());
    net.inject_to_client(&told(0x902, 150).token_of(&registration).bytes());
    net.inject_to_client(&told(0x902, 150).token_of(&registration).bytes());
    let expected = [
        empty(Type::Reset, 0x900),
        empty(Type::Acknowledgement, 0x901),
        empty(Type::Acknowledgement, 0x902),
        empty(Type::Acknowledgement, 0x902),
    ];
    assert_eq!(net.sent_by_client()[1..], expected);
    assert_eq!(net.states(), ["off", "x", "x"]);
}

#[test]
fn blockwise_notification_has_etag_and_rest_is_fetched() {
    let mut net = Net::plain();
    net.observable("light", "");
    net.app.resources.insert("light".into(), pattern(100));
    net.send_with(get("light"), observing());
    net.run_for(seconds(1));
    for (n, confirmable) in [false, true].into_iter().enumerate() {
        net.crossings.clear();
        net.change("light", pattern(5_000 + n), confirmable);
        net.run_for(seconds(2));
        let tags: Vec<_> = net
            .sent_by_server()
            .iter()
            .map(|message| view(message).option(OptionNumber::ETAG).map(<[u8]>::to_vec))
            .collect();
        assert_eq!(tags.len(), 5);
        assert!(tags[0].is_some() && tags.iter().all(|tag| *tag == tags[0]));
        let asked = blocks(&net.sent_by_client(), OptionNumber::BLOCK2);
        assert_eq!(asked.iter().flatten().count(), 4);
        let began = net.crossings[0].at;
        let ended = net.crossings.last().unwrap().at;
        assert_eq!(ended.since(began), millis(20 * 4));
    }
}

/// Pacing of notifications to one client (RFC 7641 4.5.1).
mod pacing {
    use super::*;

    const PATHS: [&str; 5] = ["a", "b", "c", "d", "e"];
    const NON: Type = Type::NonConfirmable;
    const CON: Type = Type::Confirmable;

    /// A client that observes resources `a`, `b` and so on, one per state.
    fn observed_at(server: Config, states: &[&'static str]) -> Net {
        let mut net = Net::new(Config::default(), server);
        for (path, state) in PATHS.iter().zip(states) {
            net.observable(path, state);
            net.send_with(get(path), observing());
            net.run_for(seconds(1));
        }
        assert_eq!(net.states(), states);
        net
    }

    /// Messages of the server from index `from`: milliseconds since `start`, type, payload.
    fn told(net: &Net, from: usize, start: Instant) -> Vec<(u64, Type, String)> {
        let of_server = net.crossings.iter().filter(|c| !c.from_client);
        let told = of_server.skip(from).map(|crossing| {
            let message = view(&crossing.bytes);
            let text = String::from_utf8_lossy(message.payload()).into_owned();
            (crossing.at.since(start).as_millis(), message.kind(), text)
        });
        told.collect()
    }

    fn paced() -> Config {
        config(|config| config.controller = CongestionControl::named("observe-static").unwrap())
    }

    fn texts(told: &[(u64, Type, &str)]) -> Vec<(u64, Type, String)> {
        told.iter()
            .map(|&(at, kind, text)| (at, kind, text.to_owned()))
            .collect()
    }

    #[test]
    fn burst_of_several_resources_to_one_client_leaves_every_3_s() {
        let mut net = observed_at(paced(), &["0", "0", "0", "0", "0"]);
        let (start, before) = (net.now, net.sent_by_server().len());
        for path in PATHS {
            net.change(path, path, false);
        }
        // A notification has the representation at the time of its transmission.
        net.run_for(seconds(7));
        net.change("e", "e again", false);
        net.run_for(seconds(20));
        let expected = [
            (0, NON, "a"),
            (3_000, NON, "b"),
            (6_000, NON, "c"),
            (9_000, NON, "d"),
            (12_000, NON, "e again"),
        ];
        assert_eq!(told(&net, before, start), texts(&expected));
        assert_eq!(net.states()[5..], ["a", "b", "c", "d", "e again"]);
        assert!(net.server.is_idle());
    }

    #[test]
    fn default_controller_does_not_pace_non_notifications() {
        let mut net = observed_at(Config::default(), &["0", "0", "0"]);
        let (start, before) = (net.now, net.sent_by_server().len());
        for path in &PATHS[..3] {
            net.change(path, *path, false);
        }
        net.run_for(seconds(5));
        let expected = [(0, NON, "a"), (0, NON, "b"), (0, NON, "c")];
        assert_eq!(told(&net, before, start), texts(&expected));
    }

    #[test]
    fn con_notification_waits_for_counted_non() {
        let mut net = observed_at(paced(), &["0", "0", "0"]);
        let (start, before) = (net.now, net.sent_by_server().len());
        net.change("a", "a", false);
        net.change("b", "b", true);
        net.change("c", "c", true);
        net.run_for(seconds(10));
        let expected = [(0, NON, "a"), (3_000, CON, "b"), (3_020, CON, "c")];
        assert_eq!(told(&net, before, start), texts(&expected));
    }

    #[test]
    fn pacing_is_per_client() {
        let mut net = observed_at(paced(), &["0"]);
        let registration = net.sent_by_client()[0].to_vec();
        let other = ([10, 0, 0, 77], 5683).into();
        net.server.handle_datagram(net.now, other, &registration);
        net.drain();
        let before = net.sent_by_server().len();
        net.change("a", "1", false);
        let told = net.sent_by_server()[before..].to_vec();
        assert_eq!(shapes(&told), ["NON 2.05", "NON 2.05"], "both at once");
    }

    #[test]
    fn requests_are_not_queued_behind_paced_notifications() {
        let mut net = observed_at(paced(), &["0", "0"]);
        net.change("a", "a", false);
        net.change("b", "b", false);
        let request = net
            .server
            .request(
                net.now,
                crate::net::client_address(),
                get("x"),
                RequestConfig::default(),
            )
            .unwrap();
        net.drain();
        let sent = shapes(&net.sent_by_server());
        assert_eq!(sent[2..], ["NON 2.05", "CON 0.01"]);
        net.server.cancel(net.now, request);
        net.run_for(seconds(4));
        assert_eq!(shapes(&net.sent_by_server())[4..], ["NON 2.05"]);
        assert_eq!(net.states()[2..], ["a", "b"]);
        assert!(net.server.is_idle());
    }

    #[test]
    fn deregistered_observer_loses_its_queued_notification() {
        let mut net = observed_at(paced(), &["0", "0"]);
        net.change("a", "a", false);
        net.change("b", "b", false);
        net.run_for(millis(100));
        net.server
            .handle_unreachable(net.now, crate::net::client_address());
        net.drain();
        let before = net.sent_by_server().len();
        net.run_for(seconds(10));
        assert_eq!(net.sent_by_server().len(), before);
        assert!(net.server.is_idle());
        assert_eq!(net.server.usage().observers, 0);
    }
}
