//! Observing resources as a peer sees it (RFC 7641): registration, notifications, their order,
//! their end.

#![allow(clippy::unwrap_used, reason = "a test stops where it is surprised")]

mod net;

use carob_cc::random::Random;
use carob_cc::time::{Duration, Instant};
use carob_proto::codec::{Code, MessageId, MessageView, OptionNumber, Type, Writer};
use carob_proto::endpoint::{Config, Event, Failure, RequestError, RequestId, Sending, Subject};
use carob_proto::{Request, Response};
use net::{Faults, Net, client_address, get, millis, pattern, put, seconds};

fn observing() -> Sending {
    let mut sending = Sending::default();
    sending.observe = true;
    sending
}

/// A client that observes `/light`, whose state is "off"; the first exchange is over.
fn observed() -> (Net, RequestId) {
    observed_with(Config::default())
}

fn observed_with(server: Config) -> (Net, RequestId) {
    let mut net = Net::new(Config::default(), server);
    net.observable("light", "off");
    let id = net.send_with(get("light"), observing());
    net.run_for(seconds(1));
    assert_eq!(net.states(), ["off"]);
    (net, id)
}

fn view(bytes: &[u8]) -> MessageView<'_> {
    MessageView::parse(bytes).unwrap()
}

fn observe_value(bytes: &[u8]) -> Option<u32> {
    view(bytes).uint_option(OptionNumber::OBSERVE)
}

fn stale(net: &Net) -> Vec<(u64, Option<Failure>)> {
    let of = |(at, event): &(Instant, Event)| match event {
        Event::Stale { failure, .. } => Some((at.since(Instant::ZERO).as_millis(), *failure)),
        _ => None,
    };
    net.events.iter().filter_map(of).collect()
}

/// A notification as our server would send it, with what a test wants different.
fn notification(net: &Net, kind: Type, id: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let token = view(net.sent_by_client()[0]).token();
    let mut buffer = [0; 128];
    let mut writer = Writer::new(&mut buffer, kind, Code::CONTENT, MessageId(id), &token).unwrap();
    writer.uint_option(OptionNumber::OBSERVE, sequence).unwrap();
    writer.uint_option(OptionNumber::MAX_AGE, 1_000).unwrap();
    writer.payload(payload).unwrap();
    let length = writer.finish();
    buffer[..length].to_vec()
}

mod registration {
    use super::*;

    #[test]
    fn a_registration_asks_with_0_and_is_answered_with_a_number() {
        let (net, _) = observed();
        assert_eq!(observe_value(net.sent_by_client()[0]), Some(0));
        assert!(observe_value(net.sent_by_server()[0]).is_some());
        assert_eq!(net.server.observers(Subject(0)), 1);
        assert!(net.response().is_none(), "the request lives on");
    }

    #[test]
    fn a_resource_that_cannot_be_observed_is_answered_once() {
        let mut net = Net::plain();
        net.app.resources.insert("x".into(), "y".into());
        net.send_with(get("x"), observing());
        net.run_for(seconds(200));
        assert_eq!(&net.response().unwrap().bytes()[..], b"y");
        assert_eq!(observe_value(net.sent_by_server()[0]), None);
        assert!(net.client.is_idle());
        assert_eq!(net.client.usage().observations, 0);
    }

    #[test]
    fn an_error_lists_nobody() {
        let mut net = Net::plain();
        net.observable("light", "off");
        net.app.resources.clear();
        net.send_with(get("light"), observing());
        net.run_for(seconds(1));
        assert_eq!(net.response().unwrap().code, Code::NOT_FOUND);
        assert_eq!(observe_value(net.sent_by_server()[0]), None);
        assert_eq!(net.server.observers(Subject(0)), 0);
    }

    #[test]
    fn only_safe_methods_observe() {
        let mut net = Net::plain();
        let outcome = net.client.request(
            net.now,
            net::server_address(),
            put("light", "on".into()),
            observing(),
        );
        assert_eq!(outcome, Err(RequestError::NotObservable));
        // And a server lists nobody for one that does not know.
        net.observable("light", "off");
        let mut request = put("light", "on".into());
        request.options.set_uint(OptionNumber::OBSERVE, 0).unwrap();
        net.send(request);
        net.run_for(seconds(1));
        assert_eq!(net.server.observers(Subject(0)), 0);
    }

    #[test]
    fn fetch_observes_like_get() {
        let mut net = Net::plain();
        net.observable("light", "off");
        let mut request = Request::new(Code::FETCH).with_path("light").unwrap();
        request.payload = "{}".into();
        net.send_with(request, observing());
        net.run_for(seconds(1));
        net.change("light", "on", false);
        net.run_for(seconds(1));
        assert_eq!(net.states(), ["off", "on"]);
    }

    #[test]
    fn the_same_token_again_refreshes_the_entry_and_adds_none() {
        let (mut net, _) = observed();
        let mut again = net.sent_by_client()[0].to_vec();
        again[2..4].copy_from_slice(&0x7777_u16.to_be_bytes());
        net.inject_to_server(&again);
        assert_eq!(net.server.observers(Subject(0)), 1);
        assert_eq!(net.server.usage().observers, 1);
    }

    #[test]
    fn at_the_limit_requests_are_answered_and_not_listed() {
        let mut config = Config::default();
        config.limits.observers = 1;
        let (mut net, _) = observed_with(config);
        net.observable("door", "shut");
        net.send_with(get("door"), observing());
        net.run_for(seconds(1));
        assert_eq!(&net.response().unwrap().bytes()[..], b"shut");
        assert_eq!(net.server.usage().observers, 1);
    }

    #[test]
    fn one_peer_cannot_take_all_places() {
        let mut config = Config::default();
        config.limits.observers_of_peer = 2;
        let (mut net, _) = observed_with(config);
        for path in ["a", "b"] {
            net.observable(path, "x");
            net.send_with(get(path), observing());
            net.run_for(seconds(1));
        }
        assert_eq!(net.server.usage().observers, 2);
        assert_eq!(net.responses().len(), 1);
    }

    #[test]
    fn what_changes_while_a_registration_is_answered_is_not_missed() {
        let mut net = Net::plain();
        net.observable("light", "off");
        net.app.delay = seconds(3);
        net.send_with(get("light"), observing());
        net.run_for(seconds(1));
        assert_eq!(net.change("light", "on", false), 1);
        net.run_for(seconds(10));
        // The answer reads the new state, and the notification tells it once more: better twice
        // than never.
        assert_eq!(net.states(), ["on", "on"]);
    }
}

mod notifying {
    use super::*;

    #[test]
    fn each_change_is_told_in_order() {
        let (mut net, _) = observed();
        for state in ["on", "off", "dim"] {
            assert_eq!(net.change("light", state, false), 1);
            net.run_for(seconds(1));
        }
        assert_eq!(net.states(), ["off", "on", "off", "dim"]);
        let numbers: Vec<_> = net
            .sent_by_server()
            .iter()
            .map(|bytes| observe_value(bytes).unwrap())
            .collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        let first = view(net.sent_by_client()[0]).token();
        for bytes in net.sent_by_server() {
            assert_eq!(view(bytes).token(), first);
        }
    }

    #[test]
    fn a_notification_without_need_of_an_answer_gets_none() {
        let (mut net, _) = observed();
        net.change("light", "on", false);
        net.run_for(seconds(20));
        assert_eq!(view(net.sent_by_server()[1]).kind(), Type::NonConfirmable);
        assert_eq!(net.sent_by_client().len(), 1);
        assert!(net.server.is_idle());
    }

    #[test]
    fn a_confirmable_notification_is_acknowledged() {
        let (mut net, _) = observed();
        net.change("light", "on", true);
        net.run_for(seconds(20));
        let sent = view(net.sent_by_server()[1]);
        assert_eq!(sent.kind(), Type::Confirmable);
        let answer = view(net.sent_by_client()[1]);
        assert_eq!(answer.kind(), Type::Acknowledgement);
        assert_eq!(answer.message_id(), sent.message_id());
        assert!(net.server.is_idle());
        assert_eq!(net.server.observers(Subject(0)), 1);
    }

    #[test]
    fn a_duplicated_notification_is_delivered_once_and_acknowledged_twice() {
        let (mut net, _) = observed();
        net.faults = Faults {
            duplication: 100,
            ..Faults::default()
        };
        net.change("light", "on", true);
        net.run_for(seconds(1));
        assert_eq!(net.states(), ["off", "on"]);
        assert_eq!(net.sent_by_client().len(), 3);
    }

    #[test]
    fn a_late_notification_is_acknowledged_and_not_delivered() {
        let (mut net, _) = observed();
        let newer = notification(&net, Type::NonConfirmable, 1, 20, b"on");
        let older = notification(&net, Type::Confirmable, 2, 19, b"dim");
        net.inject_to_client(&newer);
        net.inject_to_client(&older);
        assert_eq!(net.states(), ["off", "on"]);
        assert_eq!(view(net.sent_by_client()[1]).kind(), Type::Acknowledgement);
    }

    #[test]
    fn after_128_seconds_a_smaller_number_is_newer() {
        let (mut net, _) = observed();
        net.inject_to_client(&notification(&net, Type::NonConfirmable, 1, 20, b"on"));
        net.run_for(seconds(129));
        net.inject_to_client(&notification(&net, Type::NonConfirmable, 2, 3, b"dim"));
        assert_eq!(net.states(), ["off", "on", "dim"]);
    }

    #[test]
    fn a_state_that_was_not_acknowledged_is_superseded_by_a_newer_one() {
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
            "a message of its own"
        );
        assert_eq!(second.payload(), b"dim");
        // It left when the timer of the first one ran out, not before.
        let crossing = net.crossings.iter().filter(|c| !c.from_client).nth(2);
        let waited = crossing.unwrap().at.since(Instant::ZERO);
        assert!(waited >= seconds(3) && waited <= seconds(4), "{waited:?}");
        assert!(net.server.is_idle());
    }

    #[test]
    fn a_superseding_notification_takes_over_count_and_timer() {
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

    #[test]
    fn what_was_acknowledged_is_followed_by_what_changed_meanwhile() {
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
    fn a_snapshot_shows_what_a_peer_is_sent_and_what_waits() {
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
        assert_eq!(net.server.snapshot(net.now, net::server_address()), None);
    }

    #[test]
    fn an_error_is_the_last_notification() {
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
    fn a_state_in_another_format_ends_the_observation_as_not_acceptable() {
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
    fn a_state_that_fits_no_message_is_refused_at_once() {
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
    fn once_a_day_interest_is_confirmed() {
        let (mut net, _) = observed();
        // Without retransmissions of the registration the day begins with it.
        for hour in 1..=48 {
            net.run_until(Instant::ZERO + seconds(hour * 3_600));
            // Keep the client's own timers out of it.
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

        // One that never says anything is asked.
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
}

mod ending {
    use super::*;

    #[test]
    fn a_client_that_lost_interest_refuses_the_next_notification() {
        for confirmable in [false, true] {
            let (mut net, id) = observed();
            assert!(net.client.cancel(net.now, id));
            net.change("light", "on", confirmable);
            net.run_for(seconds(1));
            assert_eq!(view(net.sent_by_client()[1]).kind(), Type::Reset);
            assert_eq!(net.server.observers(Subject(0)), 0, "{confirmable}");
            assert_eq!(net.change("light", "off", confirmable), 0);
            assert_eq!(net.states(), ["off"]);
            assert!(net.server.is_idle());
        }
    }

    #[test]
    fn giving_an_observation_back_takes_it_off_the_list() {
        let (mut net, id) = observed();
        assert!(net.client.stop_observing(net.now, id));
        net.run_for(seconds(1));
        let request = net.sent_by_client()[1];
        assert_eq!(observe_value(request), Some(1));
        assert_eq!(view(request).token(), view(net.sent_by_client()[0]).token());
        assert_eq!(net.server.observers(Subject(0)), 0);
        assert_eq!(&net.response().unwrap().bytes()[..], b"off");
        assert!(net.client.is_idle());
        assert_eq!(net.client.usage().observations, 0);
    }

    #[test]
    fn a_notification_that_nobody_acknowledges_ends_the_observation() {
        let (mut net, _) = observed();
        net.server_dead = true;
        net.change("light", "on", true);
        net.run_for(seconds(200));
        assert_eq!(net.server.observers(Subject(0)), 0);
        assert!(net.server.is_idle());
    }

    #[test]
    fn a_peer_that_cannot_be_reached_observes_nothing() {
        let (mut net, _) = observed();
        net.server.handle_unreachable(net.now, client_address());
        net.drain();
        assert_eq!(net.server.usage().observers, 0);
        assert!(matches!(net.server_events[..], [(_, Event::Unobserved(_))]));
    }

    #[test]
    fn a_notification_with_an_option_that_must_be_understood_is_refused() {
        let (mut net, _) = observed();
        let token = view(net.sent_by_client()[0]).token();
        let mut buffer = [0; 64];
        let kind = Type::Confirmable;
        let mut writer =
            Writer::new(&mut buffer, kind, Code::CONTENT, MessageId(7), &token).unwrap();
        writer.uint_option(OptionNumber::OBSERVE, 9).unwrap();
        writer.option(OptionNumber(2_049), b"x").unwrap();
        let length = writer.finish();
        net.inject_to_client(&buffer[..length]);
        assert_eq!(
            net.failure(),
            Some(Failure::UnknownOption(OptionNumber(2_049)))
        );
        assert_eq!(net.sent_by_client()[1], [0x70, 0, 0, 7]);
    }

    #[test]
    fn shutting_down_ends_observations() {
        let (mut net, _) = observed();
        net.client.shut_down(net.now);
        net.drain();
        assert_eq!(net.failure(), Some(Failure::ShutDown));
        assert!(net.client.is_idle());
    }
}

mod renewing {
    use super::*;

    #[test]
    fn a_state_older_than_promised_is_stale_and_renewed() {
        let (mut net, _) = observed();
        net.app
            .resources
            .insert("light".into(), "changed in silence".into());
        net.run_until(Instant::ZERO + seconds(80));
        // The default Max-Age is 60 s, counted from when the response arrived.
        assert_eq!(stale(&net), [(60_020, None)]);
        let renewal = net.crossings.iter().filter(|c| c.from_client).nth(1);
        let at = renewal.unwrap().at.since(Instant::ZERO);
        assert!(at >= seconds(65) && at <= seconds(76), "{at:?}");
        assert_eq!(observe_value(net.sent_by_client()[1]), Some(0));
        assert_eq!(
            view(net.sent_by_client()[1]).token(),
            view(net.sent_by_client()[0]).token()
        );
        assert_eq!(net.states(), ["off", "changed in silence"]);
        assert_eq!(net.server.observers(Subject(0)), 1);
    }

    #[test]
    fn a_notification_in_time_keeps_it_fresh() {
        let (mut net, _) = observed();
        for _ in 0..5 {
            net.run_for(seconds(50));
            net.change("light", "on", false);
        }
        net.run_for(seconds(50));
        assert_eq!(stale(&net), []);
        assert_eq!(net.sent_by_client().len(), 1);
    }

    #[test]
    fn max_age_of_each_state_counts() {
        let mut net = Net::plain();
        net.observable("light", "off");
        net.app.max_ages.insert("light".into(), 5);
        net.send_with(get("light"), observing());
        net.run_for(seconds(4));
        net.app.max_ages.insert("light".into(), 300);
        net.change("light", "on", false);
        net.run_for(seconds(290));
        assert_eq!(stale(&net), []);
        net.run_for(seconds(20));
        assert_eq!(stale(&net).len(), 1);
    }

    #[test]
    fn an_observation_survives_a_restart_of_the_server() {
        let (mut net, _) = observed();
        for _ in 0..9 {
            net.change("light", "on", false);
            net.run_for(seconds(1));
        }
        net.restart_server(77);
        assert_eq!(net.change("light", "after the restart", false), 0);
        net.run_for(seconds(90));
        assert_eq!(net.states().last().unwrap(), "after the restart");
        net.change("light", "and on", false);
        net.run_for(seconds(1));
        assert_eq!(net.states().last().unwrap(), "and on");
    }

    #[test]
    fn an_observation_survives_a_server_that_is_away_for_long() {
        let (mut net, _) = observed();
        net.server_dead = true;
        net.run_for(seconds(1_800));
        let failures: Vec<_> = stale(&net).iter().skip(1).map(|s| s.1).collect();
        assert!(failures.len() >= 3, "{failures:?}");
        let timed_out = |f: &Option<Failure>| matches!(f, Some(Failure::TimedOut { .. }));
        assert!(failures.iter().all(timed_out), "{failures:?}");
        let tries: Vec<_> = stale(&net).iter().map(|s| s.0).collect();
        let gaps: Vec<_> = tries.windows(2).map(|w| w[1] - w[0]).collect();
        assert!(gaps.last() > gaps.first(), "tries grow rarer: {gaps:?}");
        net.server_dead = false;
        net.restart_server(5);
        net.app.resources.insert("light".into(), "back".into());
        net.run_for(seconds(1_200));
        assert_eq!(net.states().last().unwrap(), "back");
        assert!(net.failure().is_none());
    }

    #[test]
    fn a_server_that_is_busy_is_asked_again_when_it_said() {
        let (mut net, _) = observed();
        net.server_dead = true;
        while net.sent_by_client().len() < 2 {
            net.run_for(millis(100));
        }
        let request = net.sent_by_client()[1].to_vec();
        let view = view(&request);
        let token = view.token();
        let mut buffer = [0; 64];
        let (kind, code) = (Type::Acknowledgement, Code::SERVICE_UNAVAILABLE);
        let mut writer = Writer::new(&mut buffer, kind, code, view.message_id(), &token).unwrap();
        writer.uint_option(OptionNumber::MAX_AGE, 500).unwrap();
        let length = writer.finish();
        net.inject_to_client(&buffer[..length]);
        let now = net.now;
        net.server_dead = false;
        let sent = net.sent_by_client().len();
        net.run_until(now + seconds(499));
        assert_eq!(net.sent_by_client().len(), sent);
        net.run_until(now + seconds(501));
        assert_eq!(net.sent_by_client().len(), sent + 1);
        assert_eq!(net.states(), ["off", "off"]);
    }

    #[test]
    fn a_renewal_that_finds_nothing_ends_the_observation() {
        let (mut net, _) = observed();
        net.restart_server(3);
        net.app.resources.clear();
        net.run_for(seconds(90));
        assert_eq!(net.response().unwrap().code, Code::NOT_FOUND);
        assert!(net.client.is_idle());
    }

    #[test]
    fn a_notification_during_a_renewal_does_not_end_the_renewal() {
        let (mut net, _) = observed();
        net.run_until(Instant::ZERO + seconds(62));
        net.app.mute = true;
        net.run_until(Instant::ZERO + seconds(76));
        let renewal = net.sent_by_client().len();
        assert_eq!(renewal, 2);
        net.inject_to_client(&notification(&net, Type::NonConfirmable, 900, 8, b"on"));
        assert_eq!(net.states(), ["off", "on"]);
        net.app.mute = false;
        net.restart_server(9);
        net.run_for(seconds(30));
        // The server that was asked again has counted from 1: what arrived meanwhile is newer.
        assert_eq!(net.states(), ["off", "on"]);
        net.run_for(seconds(90));
        assert!(net.response().is_none() && net.failure().is_none());
    }
}

mod blockwise {
    use super::*;

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
    fn a_notification_of_several_blocks_is_delivered_whole() {
        let mut net = observed_large();
        let next: bytes::Bytes = pattern(6_000).slice(700..);
        net.change("light", next.clone(), false);
        net.run_for(seconds(5));
        assert_eq!(bodies(&net), [pattern(5_000), next]);
        // The rest is asked for without the Observe option (RFC 7959 2.6).
        let requests = net.sent_by_client();
        let rest: Vec<_> = requests
            .iter()
            .filter(|bytes| view(bytes).block_option(OptionNumber::BLOCK2).is_some())
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
    fn a_body_that_cannot_be_completed_is_renewed() {
        let mut net = observed_large();
        net.app.etags.insert("light".into(), b"2".to_vec());
        net.change("light", pattern(8_000), false);
        net.run_for(millis(25));
        // The server forgets what it had promised; the rest is of another state.
        net.restart_server(4);
        net.app.etags.insert("light".into(), b"3".to_vec());
        net.run_for(seconds(60));
        assert!(matches!(stale(&net)[..], [(_, Some(Failure::Body(_)))]));
        assert_eq!(bodies(&net), [pattern(5_000), pattern(8_000)]);
        assert_eq!(net.server.observers(Subject(0)), 1);
    }

    #[test]
    fn the_block_size_of_the_registration_is_kept_to() {
        let mut client = Config::default();
        client.block_size = carob_proto::codec::BlockSize::from_bytes_at_most(64).unwrap();
        client.negotiate_early = true;
        let mut net = Net::new(client, Config::default());
        net.observable("light", "");
        net.app.resources.insert("light".into(), pattern(200));
        net.send_with(get("light"), observing());
        net.run_for(seconds(5));
        net.change("light", pattern(300), false);
        net.run_for(seconds(5));
        assert_eq!(bodies(&net), [pattern(200), pattern(300)]);
        let longest = net
            .sent_by_server()
            .iter()
            .map(|b| view(b).payload().len())
            .max();
        assert_eq!(longest, Some(64));
    }
}

/// Loss, duplication and reordering: what is observed in the end is the last state.
#[test]
fn in_the_end_every_observer_knows_the_last_state() {
    for seed in 0..40 {
        let mut net = Net::plain().seeded(seed);
        net.observable("light", "state 0");
        net.faults = Faults {
            loss: 20,
            duplication: 20,
            jitter: millis(400),
        };
        net.send_with(get("light"), observing());
        net.run_for(seconds(5));
        let mut random = net::Stream(seed);
        for n in 1..=30 {
            net.change("light", format!("state {n}"), true);
            let pause = u64::from(random.next_u32() % 2_000);
            net.run_for(Duration::from_millis(pause));
        }
        net.faults = Faults::default();
        net.run_for(seconds(2_000));
        assert_eq!(net.states().last().unwrap(), "state 30", "seed {seed}");
        let numbers: Vec<u32> = net
            .states()
            .iter()
            .map(|s| s[6..].parse().unwrap())
            .collect();
        assert!(numbers.is_sorted(), "seed {seed}: {numbers:?}");
        assert_eq!(net.server.usage().exchanges, 0, "seed {seed}");
    }
}
