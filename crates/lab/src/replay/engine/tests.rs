//! Small cases worked by hand, and the order of the controller's evidence.

use std::cell::RefCell;

use super::*;
use carob_cc::random::Fixed;
use carob_cc::registry;

const LOW: TransmissionParameters = TransmissionParameters::DEFAULT;

fn seconds(times: &[Duration]) -> Vec<f64> {
    let all = times.iter().map(|time| time.as_micros() as f64 / 1e6);
    all.collect()
}

fn rtt(text: &str) -> Event {
    lost(0, text)
}

fn lost(lost: u8, rtt: &str) -> Event {
    Event::Answered {
        lost,
        rtt: rtt.parse().expect("a time"),
        known: false,
    }
}

/// Under a controller of the registry, which draws the low end of every range.
fn under(name: &str, parameters: &TransmissionParameters, events: &[Event]) -> Vec<Step> {
    let entry = registry::find(name).expect("a controller");
    let parameters = entry.suggested.apply(*parameters);
    let events = events.iter().copied();
    replay(events, &mut entry.build(), &parameters, &mut Fixed::low())
}

#[test]
fn lost_transmission_costs_its_timeout() {
    let steps = under("default", &LOW, &[rtt("400 ms"), lost(2, "400 ms")]);
    assert_eq!(seconds(&steps[0].timers), [2.0]);
    assert_eq!(steps[0].took(), Duration::from_millis(400));
    assert_eq!(seconds(&steps[1].timers), [2.0, 4.0, 8.0]);
    assert_eq!(steps[1].took(), Duration::from_millis(6_400));
    assert_eq!((steps[1].lost, steps[1].spurious), (2, 0));
}

#[test]
fn round_trip_beyond_rto_causes_spurious_retransmissions() {
    let steps = under("default", &LOW, &[rtt("6.5 s"), lost(1, "5 s")]);
    // Copies at 0, 2 and 6 s.
    assert_eq!(seconds(&steps[0].timers), [2.0, 4.0, 8.0]);
    assert_eq!((steps[0].lost, steps[0].spurious), (0, 2));
    assert_eq!(steps[0].took(), Duration::from_millis(6_500));
    // The second copy, sent after 2 s, is answered after 7; the third leaves at 6 s.
    assert_eq!(steps[1].timers.len(), 3);
    assert_eq!((steps[1].lost, steps[1].spurious), (1, 1));
    assert_eq!(steps[1].took(), Duration::from_secs(7));
}

#[test]
fn response_at_the_timeout_is_in_time() {
    let steps = under("default", &LOW, &[rtt("2 s")]);
    assert_eq!((steps[0].timers.len(), steps[0].spurious), (1, 0));
}

#[test]
fn unanswered_exchange_ends_after_the_last_timeout() {
    let steps = under(
        "default",
        &LOW,
        &[Event::Failed, lost(5, "1 s"), rtt("70 s")],
    );
    for step in &steps {
        assert_eq!(seconds(&step.timers), [2.0, 4.0, 8.0, 16.0, 32.0]);
        assert_eq!(step.took(), Duration::from_secs(62));
        assert_eq!(step.outcome, Outcome::GivenUp);
    }
    let of = |step: &Step| (step.lost, step.spurious);
    assert_eq!(
        [&steps[0], &steps[1], &steps[2]].map(of),
        [(5, 0), (5, 0), (0, 4)]
    );
}

#[test]
fn backed_off_timers_are_capped_but_never_below_the_one_before() {
    let mut capped = LOW;
    capped.rto_max = Some(Duration::from_secs(6));
    let steps = under("default", &capped, &[Event::Failed]);
    assert_eq!(seconds(&steps[0].timers), [2.0, 4.0, 6.0, 6.0, 6.0]);
    let mut capped = LOW;
    capped.rto_max = Some(Duration::from_secs(1));
    let steps = under("default", &capped, &[Event::Failed]);
    assert_eq!(seconds(&steps[0].timers), [2.0; 5]);
}

#[test]
fn a_weak_estimate_is_that_of_the_vectors() {
    // draft-ietf-core-cocoa-03, examples: weak estimates of 3 s lift 1.5 s to 1.875 s.
    let mut blind = LOW;
    blind.ack_timeout = Duration::from_millis(1_500);
    let pause = Event::Idle(Duration::from_millis(500));
    let steps = under("cocoa-03", &blind, &[rtt("500 ms"), pause, rtt("2 s")]);
    let rtos: Vec<Duration> = steps.iter().filter_map(|step| step.rto).collect();
    assert_eq!(seconds(&rtos), [1.5, 1.5, 1.875]);
    assert_eq!(seconds(&steps[2].timers), [1.5, 3.0]);
}

#[test]
fn idle_time_ages_the_estimate() {
    // The second copy leaves after 2 s, so 6 s are a weak sample: 6 + 3 = 9 s, a quarter of
    // which makes 2 s 3.75 s. Unused for four times that, it becomes 1 + 3.75/2.
    let pause = |seconds| Event::Idle(Duration::from_secs(seconds));
    let steps = under("cocoa-03", &LOW, &[rtt("6 s"), pause(15), pause(1)]);
    let rtos: Vec<Duration> = steps.iter().filter_map(|step| step.rto).collect();
    assert_eq!(seconds(&rtos), [3.75, 3.75, 2.875]);
}

#[test]
fn notifications_are_paced() {
    let told = Event::Notification {
        rtt: Duration::from_secs(1),
    };
    let steps = under("observe-static", &LOW, &[told, told]);
    let waited: Vec<u64> = steps.iter().map(|step| step.waited.as_secs()).collect();
    assert_eq!(waited, [0, 3]);
    assert!(
        steps
            .iter()
            .all(|step| step.outcome == Outcome::Unconfirmed)
    );
    assert_eq!(steps[1].ended, Instant::ZERO + Duration::from_secs(3));
}

/// Timers of a constant 1 s, and a record of the evidence.
#[derive(Debug, Default)]
struct Recorder {
    told: RefCell<Vec<String>>,
    counting: Option<CopyTagging>,
    confirms: bool,
}

impl Recorder {
    fn note(&self, now: Instant, what: std::fmt::Arguments<'_>) {
        let at = now.as_micros() as f64 / 1e6;
        self.told.borrow_mut().push(format!("{at} {what}"));
    }
}

impl Controller for Recorder {
    fn first_timeout(&mut self, start: &Start<'_>, _: &mut dyn Random) -> Timer {
        self.note(start.now, format_args!("first"));
        Duration::from_secs(1).into()
    }

    fn next_timeout(&mut self, expired: &Expired<'_>, _: &mut dyn Random) -> Timer {
        let (n, silent) = (expired.retransmissions, expired.silent);
        self.note(expired.now, format_args!("next after {n} silent {silent}"));
        Duration::from_secs(1).into()
    }

    fn on_answered(&mut self, answered: &Answered<'_>) {
        let n = answered.transmissions.len();
        let matched = answered.matched;
        self.note(answered.now, format_args!("answered {n} {matched:?}"));
    }

    fn on_lost(&mut self, lost: &Lost) {
        self.note(lost.now, format_args!("lost"));
    }

    fn on_late_answer(&mut self, late: &LateAnswer) {
        let (answers, sent, since) = (late.answers, late.sent, late.since_original);
        let abandoned = if late.abandoned { " abandoned" } else { "" };
        self.note(
            late.now,
            format_args!("late {answers} of {sent} after {since}{abandoned}"),
        );
    }

    fn on_abandoned(&mut self, abandoned: &Abandoned<'_>) {
        let n = abandoned.retransmissions;
        self.note(abandoned.now, format_args!("abandoned after {n}"));
    }

    fn must_confirm(&self, _: &SendCandidate<'_>) -> bool {
        self.confirms
    }

    fn copy_tagging(&self) -> CopyTagging {
        self.counting.unwrap_or(CopyTagging::Off)
    }
}

fn told(mut recorder: Recorder, events: &[Event]) -> Vec<String> {
    let mut parameters = LOW;
    parameters.max_retransmit = 2;
    let events = events.iter().copied();
    replay(events, &mut recorder, &parameters, &mut Fixed::low());
    recorder.told.into_inner()
}

#[test]
fn late_responses_arrive_during_later_exchanges() {
    let all = told(Recorder::default(), &[rtt("1.5 s"), lost(1, "1 s")]);
    assert_eq!(
        all,
        [
            "0 first",
            "1 lost",
            "1 next after 0 silent true",
            "1.5 answered 2 Ambiguous { earliest: 0, latest: 1 }",
            "1.5 first",
            // The copy of 1 s is answered, too; so the peer is not silent.
            "2.5 late 2 of 2 after 2.5 s",
            "2.5 lost",
            "2.5 next after 0 silent false",
            "3.5 answered 2 Ambiguous { earliest: 0, latest: 1 }",
        ]
    );
}

#[test]
fn responses_to_abandoned_exchanges_are_reported_as_late() {
    let pause = Event::Idle(Duration::from_secs(10));
    let all = told(Recorder::default(), &[lost(1, "3 s"), pause]);
    assert_eq!(all[5], "3 lost");
    assert_eq!(
        all[6..],
        [
            "3 abandoned after 2",
            "4 late 1 of 3 after 4 s abandoned",
            "5 late 2 of 3 after 5 s abandoned"
        ]
    );
}

#[test]
fn tagging_controller_learns_the_answered_transmission() {
    for counting in [
        CopyTagging::EveryCopy,
        CopyTagging::RepeatedCopies,
        CopyTagging::Token,
    ] {
        let recorder = Recorder {
            counting: Some(counting),
            ..Recorder::default()
        };
        let all = told(recorder, &[lost(1, "1.5 s")]);
        assert_eq!(
            all.last().map(String::as_str),
            Some("2.5 answered 3 Exact(1)")
        );
    }
    let known = Event::Answered {
        lost: 0,
        rtt: Duration::from_millis(1_500),
        known: true,
    };
    let all = told(Recorder::default(), &[known]);
    assert_eq!(
        all.last().map(String::as_str),
        Some("1.5 answered 2 Exact(0)")
    );
}

#[test]
fn a_notification_that_must_be_confirmed_is_an_exchange() {
    let recorder = Recorder {
        confirms: true,
        ..Recorder::default()
    };
    let event = Event::Notification {
        rtt: Duration::from_millis(500),
    };
    assert_eq!(
        told(recorder, &[event]),
        ["0 first", "0.5 answered 1 Exact(0)"]
    );
}
