//! The controller contract: calls made by the engine, and its use of advice.

use crate::net::wire::{reply, view};
use std::sync::{Arc, Mutex};

use crate::net::{Faults, Net, get, millis, pattern, put, seconds};
use carob_cc::TransmissionParameters;
use carob_cc::controller::{Controller, GapDetection, Timer, Window};
use carob_cc::evidence::{
    Abandoned, Answer, Answered, ExchangeState, Expired, LateAnswer, Lost, Matched, PacketState,
    SendCandidate, Sent, Signal, Start,
};
use carob_cc::random::Random;
use carob_cc::time::{Duration, Instant};
use carob_proto::codec::{Code, OptionNumber, Type};
use carob_proto::congestion::CongestionControl;
use carob_proto::endpoint::{Config, QBlockMode, RequestConfig};

#[derive(Default, Debug)]
struct Seen {
    calls: Vec<String>,
    last: Option<Instant>,
}

/// A controller that records all calls and returns fixed values.
#[derive(Debug)]
struct Recorder {
    seen: Arc<Mutex<Seen>>,
    advice: Advice,
    sent: u64,
    next: Instant,
    answered: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Advice {
    timeout: Duration,
    window: u16,
    gap: Duration,
    confirm: bool,
    threshold: Option<Duration>,
    /// Timeout of the path; each loss doubles it until a response arrives.
    path_timeout: Duration,
}

impl Default for Advice {
    fn default() -> Self {
        Self {
            timeout: seconds(2),
            window: 1,
            gap: Duration::ZERO,
            confirm: false,
            threshold: None,
            path_timeout: Duration::ZERO,
        }
    }
}

impl Recorder {
    fn note(&mut self, now: Instant, call: String) {
        let mut seen = self.seen.lock().unwrap();
        assert!(
            seen.last.is_none_or(|last| last <= now),
            "time runs backwards at {call}"
        );
        seen.last = Some(now);
        seen.calls.push(call);
    }
}

impl Controller for Recorder {
    fn first_timeout(&mut self, start: &Start<'_>, _: &mut dyn Random) -> Timer {
        self.note(start.now, format!("first running={}", start.running));
        Timer {
            timeout: self.advice.timeout,
            state: ExchangeState(100),
        }
    }

    fn next_timeout(&mut self, e: &Expired<'_>, _: &mut dyn Random) -> Timer {
        let call = format!(
            "next n={} after={} memo={} silent={}",
            e.retransmissions, e.timeout, e.state.0, e.silent
        );
        self.note(e.now, call);
        Timer {
            timeout: e.timeout.times(2),
            state: ExchangeState(e.state.0 + 1),
        }
    }

    fn on_sent(&mut self, sent: &Sent<'_>, _: &mut dyn Random) -> PacketState {
        self.sent += 1;
        self.next = sent.now + self.advice.gap;
        let call = format!(
            "sent n={} con={} alone={}",
            sent.retransmissions, sent.confirmable, sent.application_limited
        );
        self.note(sent.now, call);
        PacketState(self.sent)
    }

    fn on_lost(&mut self, lost: &Lost) {
        self.advice.path_timeout = self.advice.path_timeout.times(2);
        self.note(
            lost.now,
            format!(
                "lost stamp={} silent={}",
                lost.transmission.state.0, lost.silent
            ),
        );
    }

    fn on_answered(&mut self, a: &Answered<'_>) {
        let departures = a.transmissions.iter().map(|t| t.at);
        self.answered = departures.fold(self.answered, Instant::max);
        self.advice.path_timeout = self.advice.path_timeout.min(self.advice.timeout);
        let stamps: Vec<_> = a.transmissions.iter().map(|t| t.state.0).collect();
        let how = match (a.answer, a.matched) {
            (Answer::Empty, _) => "empty",
            (_, Matched::Exact(_)) => "exact",
            _ => "ambiguous",
        };
        self.note(
            a.now,
            format!(
                "answered {how} stamps={stamps:?} timer={} memo={}",
                a.timeout, a.state.0
            ),
        );
    }

    fn on_response(&mut self, a: &Answered<'_>) {
        self.note(a.now, "response".to_owned());
    }

    fn on_late_answer(&mut self, late: &LateAnswer) {
        self.note(
            late.now,
            format!("late sent={} answers={}", late.sent, late.answers),
        );
    }

    fn on_abandoned(&mut self, a: &Abandoned<'_>) {
        self.note(
            a.now,
            format!("abandoned {:?} n={}", a.reason, a.retransmissions),
        );
    }

    fn on_signal(&mut self, now: Instant, signal: Signal) {
        self.note(now, format!("signal {signal:?}"));
    }

    fn window(&self, _: Instant, _: &TransmissionParameters) -> Window {
        Window {
            exchanges: self.advice.window,
            bytes: u32::MAX,
        }
    }

    fn earliest_departure_time(&self, candidate: &SendCandidate<'_>) -> Instant {
        self.next.max(candidate.now)
    }

    fn gap_detection(&self) -> Option<GapDetection> {
        self.advice.threshold.map(|time_threshold| GapDetection {
            time_threshold,
            answered_departure: self.answered,
            timeout: self.advice.path_timeout,
            repairs: 1,
        })
    }

    fn must_confirm(&self, _: &SendCandidate<'_>) -> bool {
        self.advice.confirm
    }
}

fn recorded(advice: Advice) -> (Net, Arc<Mutex<Seen>>) {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let mut config = Config::default();
    config.parameters.safeguards = false;
    let shared = Arc::clone(&seen);
    config.controller = CongestionControl::Custom(Arc::new(move |_| {
        Box::new(Recorder {
            seen: Arc::clone(&shared),
            advice,
            sent: 0,
            next: Instant::ZERO,
            answered: Instant::ZERO,
        })
    }));
    (Net::new(config, Config::default()), seen)
}

fn calls(seen: &Arc<Mutex<Seen>>) -> Vec<String> {
    seen.lock().unwrap().calls.clone()
}

#[test]
fn exchange_without_loss_makes_three_calls() {
    let (mut net, seen) = recorded(Advice::default());
    net.send(get("x"));
    net.run_for(seconds(10));
    let expected = [
        "first running=0",
        "sent n=0 con=true alone=true",
        "answered exact stamps=[1] timer=2 s memo=100",
    ];
    assert_eq!(calls(&seen), expected);
}

#[test]
fn retransmitted_exchange_reports_copies_and_late_replies() {
    let (mut net, seen) = recorded(Advice {
        timeout: millis(15),
        ..Advice::default()
    });
    net.send(get("x"));
    net.run_for(seconds(10));
    // Round trip 40 ms; the retransmission is sent at 15 ms; both are answered.
    let expected = [
        "first running=0",
        "sent n=0 con=true alone=true",
        "lost stamp=1 silent=true",
        "next n=0 after=15 ms memo=100 silent=true",
        "sent n=1 con=true alone=true",
        "answered ambiguous stamps=[1, 2] timer=30 ms memo=101",
        "late sent=2 answers=2",
    ];
    assert_eq!(calls(&seen), expected);
}

#[test]
fn silent_peer_makes_five_loss_calls_and_one_abandoned() {
    let (mut net, seen) = recorded(Advice::default());
    net.server_dead = true;
    net.send(get("x"));
    net.run_for(seconds(100));
    let calls = calls(&seen);
    assert_eq!(calls.iter().filter(|c| c.starts_with("lost")).count(), 5);
    assert_eq!(calls.iter().filter(|c| c.starts_with("next")).count(), 4);
    assert_eq!(calls.last().unwrap(), "abandoned TimedOut n=4");
    assert_eq!(
        calls.iter().filter(|c| c.starts_with("abandoned")).count(),
        1
    );
}

#[test]
fn separate_response_is_reported_after_the_ack() {
    let (mut net, seen) = recorded(Advice::default());
    net.app.delay = seconds(1);
    net.send(get("x"));
    net.run_for(seconds(10));
    let calls = calls(&seen);
    assert!(calls[2].starts_with("answered empty"), "{calls:?}");
    assert_eq!(calls[3], "response");
}

#[test]
fn cancelled_exchange_is_abandoned_and_queued_one_not_started() {
    let (mut net, seen) = recorded(Advice::default());
    net.server_dead = true;
    let first = net.send(get("x"));
    let second = net.send(get("y"));
    net.client.cancel(net.now, second);
    net.client.cancel(net.now, first);
    net.drain();
    assert_eq!(calls(&seen)[2..], ["abandoned Cancelled n=0"]);
}

/// Transmission times of the client in ms, if the first of two requests is lost and the second is sent 5 ms later. The
/// round-trip time is 20 ms.
fn departures(threshold: Option<Duration>, second: bool) -> Vec<u64> {
    let (mut net, _) = recorded(Advice {
        window: 2,
        threshold,
        ..Advice::default()
    });
    net.server_dead = true;
    net.send(get("x"));
    net.drain();
    net.server_dead = false;
    net.run_for(millis(5));
    if second {
        net.send(get("x"));
    }
    net.run_for(seconds(10));
    let sent = net.crossings.iter().filter(|crossing| crossing.from_client);
    sent.map(|crossing| crossing.at.as_micros() / 1_000)
        .collect()
}

#[test]
fn later_answer_shows_a_loss_after_the_time_threshold() {
    assert_eq!(departures(None, true), [0, 5, 2_000]);
    // The later response arrives at 25 ms; the next check of the threshold is at 27.5 ms.
    assert_eq!(departures(Some(millis(22)), true), [0, 5, 27]);
    assert_eq!(departures(Some(millis(30)), true), [0, 5, 30]);
    // A threshold longer than the timer has no effect.
    assert_eq!(departures(Some(seconds(9)), true), [0, 5, 2_000]);
    // Without a later response, the timer applies.
    assert_eq!(departures(Some(millis(30)), false), [0, 2_000]);
}

#[test]
fn path_timeout_lengthens_timers_of_messages_already_sent() {
    let (mut net, _) = recorded(Advice {
        timeout: millis(100),
        window: 3,
        threshold: Some(seconds(9)),
        path_timeout: millis(100),
        ..Advice::default()
    });
    net.server_dead = true;
    for _ in 0..3 {
        net.send(get("x"));
    }
    net.run_for(millis(850));
    // The first loss doubles the path's timeout, so that the others wait until 200 ms, and so on. During an outage, one
    // message is sent per doubling instead of all.
    assert_eq!(net.client_times(), [0, 0, 0, 100, 200, 400].map(millis));
}

#[test]
fn timer_lengthened_by_the_path_is_not_served_late() {
    let (mut net, seen) = recorded(Advice {
        timeout: seconds(3),
        window: 4,
        threshold: Some(seconds(200)),
        path_timeout: seconds(3),
        ..Advice::default()
    });
    net.drop_if = Some(|_, bytes| bytes.ends_with(b"lost"));
    net.server_dead = true;
    for path in ["x", "x", "x", "lost"] {
        net.send(get(path));
    }
    net.run_for(seconds(11));
    net.server_dead = false;
    net.run_for(seconds(150));
    // The last message waited for the path's timeout of 24 s and then doubled its own. Its last retransmission is after
    // MAX_TRANSMIT_SPAN (45 s), although no timer was served late.
    let times = net.client_times();
    assert_eq!(times[times.len() - 4..], [24, 30, 42, 66].map(seconds));
    let calls = calls(&seen);
    assert_eq!(calls.last().expect("calls"), "abandoned TimedOut n=4");
}

#[test]
fn a_gap_repairs_a_message_once_until_its_timer() {
    let (mut net, seen) = recorded(Advice {
        window: 2,
        threshold: Some(millis(30)),
        ..Advice::default()
    });
    net.server_dead = true;
    net.send(get("lost"));
    net.drain();
    for _ in 0..20 {
        net.server_dead = false;
        net.send(get("x"));
        net.run_for(millis(45));
        net.server_dead = true;
        net.run_for(millis(45));
    }
    let repairs = calls(&seen);
    let repairs = repairs
        .iter()
        .filter(|call| call.starts_with("next"))
        .count();
    assert_eq!(repairs, 1, "within 2 s: {:?}", net.client_times());
}

#[test]
fn safeguards_bound_timers_and_outlast_an_outage() {
    let advice = Advice {
        timeout: millis(15),
        ..Advice::default()
    };
    for safeguards in [false, true] {
        let (mut net, seen) = recorded(advice);
        let mut sending = RequestConfig::default();
        let mut parameters = TransmissionParameters::DEFAULT;
        parameters.safeguards = safeguards;
        sending.parameters = Some(parameters);
        net.server_dead = true;
        net.send_with(get("x"), sending);
        net.run_for(seconds(30));
        net.server_dead = false;
        net.run_for(seconds(60));
        let calls = calls(&seen);
        let last = calls.last().expect("calls");
        if safeguards {
            assert!(last.starts_with("answered"), "{calls:?}");
            let times = net.client_times();
            assert_eq!(times[1], millis(200), "RTO_MIN");
            let gaps: Vec<_> = times
                .windows(2)
                .map(|pair| pair[1].saturating_sub(pair[0]))
                .collect();
            assert!(gaps.windows(2).all(|pair| pair[1] >= pair[0]), "{gaps:?}");
        } else {
            assert_eq!(last, "abandoned TimedOut n=4");
        }
    }
}

#[test]
fn last_transmission_has_its_whole_timer() {
    let (mut net, seen) = recorded(Advice {
        window: 2,
        threshold: Some(millis(30)),
        ..Advice::default()
    });
    net.server_dead = true;
    let mut sending = RequestConfig::default();
    let mut parameters = TransmissionParameters::DEFAULT;
    parameters.max_retransmit = 0;
    sending.parameters = Some(parameters);
    net.send_with(get("x"), sending);
    net.drain();
    net.server_dead = false;
    net.run_for(millis(5));
    net.send(get("x"));
    let has_lost = || calls(&seen).iter().any(|call| call.starts_with("lost"));
    net.run_for(millis(1_900));
    assert!(
        !has_lost(),
        "a later message was answered: {:?}",
        calls(&seen)
    );
    net.run_for(millis(200));
    assert!(has_lost(), "2 s are over");
}

#[test]
fn parallel_exchanges_are_counted() {
    let (mut net, seen) = recorded(Advice {
        window: 3,
        ..Advice::default()
    });
    for _ in 0..3 {
        net.send(get("x"));
    }
    let firsts: Vec<_> = calls(&seen)
        .into_iter()
        .filter(|c| c.starts_with("first"))
        .collect();
    assert_eq!(
        firsts,
        ["first running=0", "first running=1", "first running=2"]
    );
}

#[test]
fn pacing_spaces_messages() {
    let advice = Advice {
        window: 9,
        gap: millis(250),
        ..Advice::default()
    };
    let (mut net, _) = recorded(advice);
    for _ in 0..4 {
        net.send(get("x"));
    }
    net.run_for(seconds(5));
    assert_eq!(net.client_times(), [0, 250, 500, 750].map(millis));
}

#[test]
fn controller_upgrades_non_to_con() {
    let (mut net, seen) = recorded(Advice {
        confirm: true,
        ..Advice::default()
    });
    let mut sending = RequestConfig::default();
    sending.confirmable = false;
    net.send_with(get("x"), sending);
    let kind = view(net.sent_by_client()[0]).kind();
    assert_eq!(kind, Type::Confirmable);
    assert_eq!(calls(&seen)[1], "sent n=0 con=true alone=true");
}

#[test]
fn empty_window_permits_one_exchange() {
    let (mut net, _) = recorded(Advice {
        window: 0,
        ..Advice::default()
    });
    net.app.resources.insert("x".into(), "y".into());
    net.send(get("x"));
    net.send(get("x"));
    net.run_for(seconds(5));
    assert_eq!(net.responses().len(), 2);
}

#[test]
fn too_many_requests_reaches_the_controller_with_max_age() {
    for (code, age, expected) in [
        (
            Code::TOO_MANY_REQUESTS,
            Some(7),
            "signal SlowDown(Duration { micros: 7000000 })",
        ),
        (
            Code::SERVICE_UNAVAILABLE,
            None,
            "signal SlowDown(Duration { micros: 60000000 })",
        ),
    ] {
        let (mut net, seen) = recorded(Advice::default());
        net.server_dead = true;
        net.send(get("x"));
        let mut refusal = reply(code, net.sent_by_client()[0]);
        if let Some(age) = age {
            refusal = refusal.uint(OptionNumber::MAX_AGE, age);
        }
        net.inject_to_client(&refusal.bytes());
        assert_eq!(calls(&seen).last().unwrap(), expected);
    }
}

#[test]
fn timeout_cap_applies_to_backed_off_timers_only() {
    let (mut net, seen) = recorded(Advice {
        timeout: seconds(5),
        ..Advice::default()
    });
    net.server_dead = true;
    let mut sending = RequestConfig::default();
    let mut parameters = TransmissionParameters::DEFAULT;
    parameters.rto_max = Some(seconds(4));
    sending.parameters = Some(parameters);
    net.send_with(get("x"), sending);
    net.run_for(seconds(100));
    let times: Vec<_> = net.client_times().iter().map(|t| t.as_secs()).collect();
    assert_eq!(times, [0, 5, 10, 15, 20], "never below the first timer");
    assert!(calls(&seen).contains(&"abandoned TimedOut n=4".to_owned()));
}

/// With every registered controller, requests are answered and observers notified.
#[test]
fn every_controller_serves_requests_and_notifications() {
    for entry in carob_cc::registry::entries() {
        let mut config = Config::default();
        config.controller = CongestionControl::Registered(entry);
        let mut net = Net::new(config.clone(), config).seeded(7);
        net.faults = Faults {
            loss: 10,
            duplication: 10,
            jitter: millis(200),
        };
        for path in ["a", "b", "c"] {
            net.observable(path, "0");
            net.send(get(path));
        }
        net.run_for(seconds(300));
        assert_eq!(net.responses().len(), 3, "{}", entry.name);
        net.faults = Faults::default();
        let mut sending = RequestConfig::default();
        sending.observe = true;
        for path in ["a", "b", "c"] {
            net.send_with(get(path), sending.clone());
            net.run_for(seconds(1));
        }
        for (n, path) in ["a", "b", "c", "a", "b", "c"].into_iter().enumerate() {
            net.change(path, format!("{path}{n}"), n % 2 == 1);
        }
        net.run_for(seconds(30));
        let states = net.states();
        for last in ["a3", "b4", "c5"] {
            assert!(
                states.iter().any(|state| state == last),
                "{}: {states:?}",
                entry.name
            );
        }
        assert!(net.server.is_idle(), "{}", entry.name);
    }
}

/// Numbers of started exchanges and of exchange end events.
fn started_and_ended(seen: &Arc<Mutex<Seen>>) -> (usize, usize) {
    let calls = calls(seen);
    let count = |names: &[&str]| {
        let is = |call: &&String| names.iter().any(|name| call.starts_with(name));
        calls.iter().filter(is).count()
    };
    (count(&["first"]), count(&["answered", "lost", "abandoned"]))
}

fn q_block(confirmable: bool) -> RequestConfig {
    let mut sending = RequestConfig::default();
    sending.q_block = Some(QBlockMode::On);
    sending.confirmable = confirmable;
    sending
}

#[test]
fn each_block_of_a_silent_peer_ends_once() {
    for window in [1, 12] {
        let (mut net, seen) = recorded(Advice {
            window,
            ..Advice::default()
        });
        net.server_dead = true;
        net.send_with(put("x", pattern(40 * 1024)), q_block(false));
        net.run_for(seconds(600));
        assert!(net.failure().is_some());
        let (begun, ended) = started_and_ended(&seen);
        assert!(begun >= 12, "{begun}");
        assert_eq!(ended, begun, "window {window}");
    }
}

#[test]
fn each_block_of_a_cancelled_body_ends_once() {
    let (mut net, seen) = recorded(Advice {
        window: 12,
        ..Advice::default()
    });
    let id = net.send_with(put("x", pattern(40 * 1024)), q_block(false));
    net.run_for(millis(15));
    net.client.cancel(net.now, id);
    net.drain();
    let (begun, ended) = started_and_ended(&seen);
    assert!(begun > 1, "{begun}");
    assert_eq!(ended, begun);
}
