//! One controller and a script of events, as the endpoint would run them.

use std::collections::BTreeMap;

use carob_cc::TransmissionParameters;
use carob_cc::controller::{Controller, Counting, Timer};
use carob_cc::evidence::{
    Abandoned, Answer, Answered, Departure, Expired, Kind, LateAnswer, Lost, Matched, Reason, Sent,
    Start, Transmission,
};
use carob_cc::random::Random;
use carob_cc::time::{Duration, Instant};

use super::script::Event;

/// Size of a message, in bytes; controllers that set timers do not look at it.
const MESSAGE_BYTES: u32 = 40;

/// How an event ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The exchange was answered.
    Answered,
    /// The last timer of the exchange ran out.
    GivenUp,
    /// A notification left as NON, of which nothing more is heard.
    Unconfirmed,
    /// A pause.
    Idle,
}

/// What came of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// How long the controller held the message back.
    pub waited: Duration,
    /// When the first copy left or the pause began.
    pub began: Instant,
    /// When it was over.
    pub ended: Instant,
    /// The timer of every copy, in order; none where nothing is acknowledged.
    pub timers: Vec<Duration>,
    /// Copies that were lost; these are the first ones.
    pub lost: u8,
    /// Copies that left although an earlier one was on its way to be answered.
    pub spurious: u8,
    /// How it ended.
    pub outcome: Outcome,
    /// The controller's overall RTO before dithering, at the end, if it keeps one.
    pub rto: Option<Duration>,
}

impl Step {
    /// From the first copy to the end.
    pub fn took(&self) -> Duration {
        self.ended.since(self.began)
    }
}

/// Runs events under a controller; gives a step for each.
///
/// An exchange begins when the event before it is over. Its timers are the controller's, capped as
/// the endpoint caps them. A copy that is not lost is answered one round trip after it left, at the
/// same instant before a timer that runs out; answers to further copies come when their time is,
/// be that in the middle of a later exchange, and the controller hears of them as of late answers.
/// Which copy was answered is known if there was but one, if the event says so, or if the
/// controller has copies told apart ([`Counting`]).
pub fn replay(
    events: impl IntoIterator<Item = Event>,
    controller: &mut dyn Controller,
    parameters: &TransmissionParameters,
    random: &mut dyn Random,
) -> Vec<Step> {
    let mut stage = Stage {
        controller,
        parameters,
        random,
        now: Instant::ZERO,
        last_heard: Instant::ZERO,
        ended: Vec::new(),
        under_way: BTreeMap::new(),
        arrivals: 0,
    };
    let events = events.into_iter();
    events.map(|event| stage.play(event)).collect()
}

/// An exchange that is over, of which more answers may come.
struct Ended {
    began: Instant,
    sent: u8,
    answers: u8,
    abandoned: bool,
}

struct Stage<'a> {
    controller: &'a mut dyn Controller,
    parameters: &'a TransmissionParameters,
    random: &'a mut dyn Random,
    now: Instant,
    last_heard: Instant,
    ended: Vec<Ended>,
    /// Answers to exchanges that are over, by arrival and order of sending: the place in `ended`.
    under_way: BTreeMap<(Instant, u64), usize>,
    arrivals: u64,
}

/// What the path does to an exchange.
#[derive(Clone, Copy)]
struct Fate {
    lost: u8,
    rtt: Option<Duration>,
    known: bool,
    kind: Kind,
}

impl Stage<'_> {
    fn play(&mut self, event: Event) -> Step {
        match event {
            Event::Answered { lost, rtt, known } => self.exchange(Fate {
                lost,
                rtt: Some(rtt),
                known,
                kind: Kind::Request,
            }),
            Event::Failed => self.exchange(Fate {
                lost: u8::MAX,
                rtt: None,
                known: false,
                kind: Kind::Request,
            }),
            Event::Notification { rtt } => self.notification(rtt),
            Event::Idle(pause) => {
                let began = self.now;
                self.advance(began + pause);
                self.step(Duration::ZERO, began, Vec::new(), Outcome::Idle)
            }
        }
    }

    fn step(
        &self,
        waited: Duration,
        began: Instant,
        timers: Vec<Duration>,
        outcome: Outcome,
    ) -> Step {
        Step {
            waited,
            began,
            ended: self.now,
            timers,
            lost: 0,
            spurious: 0,
            outcome,
            rto: self.controller.rto(self.now),
        }
    }

    /// Lets time pass, and hands over what arrives meanwhile.
    fn advance(&mut self, to: Instant) {
        while let Some(entry) = self.under_way.first_entry() {
            if entry.key().0 > to {
                break;
            }
            let ((at, _), place) = entry.remove_entry();
            let ended = &mut self.ended[place];
            ended.answers = ended.answers.saturating_add(1);
            let late = LateAnswer::new(at, ended.sent, ended.answers, at.since(ended.began))
                .with_abandoned(ended.abandoned);
            self.last_heard = at;
            self.controller.on_late_answer(&late);
        }
        self.now = self.now.max(to);
    }

    /// Waits until the controller lets a message go; gives how long that took.
    fn wait_to_leave(&mut self, kind: Kind, confirmable: bool) -> Duration {
        let asked = self.now;
        let departure = Departure::new(asked, self.parameters, MESSAGE_BYTES)
            .with_kind(kind)
            .with_confirmable(confirmable);
        let earliest = self.controller.departure(&departure);
        self.advance(earliest);
        self.now.since(asked)
    }

    fn notification(&mut self, rtt: Duration) -> Step {
        let kind = Kind::Notification;
        let waited = self.wait_to_leave(kind, false);
        let departure = Departure::new(self.now, self.parameters, MESSAGE_BYTES)
            .with_kind(kind)
            .with_confirmable(false);
        if self.controller.must_confirm(&departure) {
            let fate = Fate {
                lost: 0,
                rtt: Some(rtt),
                known: false,
                kind,
            };
            return self.confirmable(waited, fate);
        }
        let sent = Sent::new(self.now, self.parameters, MESSAGE_BYTES)
            .with_kind(kind)
            .with_confirmable(false);
        self.controller.on_sent(&sent, &mut *self.random);
        self.step(waited, self.now, Vec::new(), Outcome::Unconfirmed)
    }

    fn exchange(&mut self, fate: Fate) -> Step {
        let waited = self.wait_to_leave(fate.kind, true);
        self.confirmable(waited, fate)
    }

    /// An exchange that may leave now.
    fn confirmable(&mut self, waited: Duration, fate: Fate) -> Step {
        let began = self.now;
        let start = Start::new(began, self.parameters).with_kind(fate.kind);
        let mut timer = self.controller.first_timeout(&start, &mut *self.random);
        let mut sent: Vec<Transmission> = Vec::new();
        let mut timers = Vec::new();
        let outcome = loop {
            self.send_copy(fate.kind, &mut sent);
            timers.push(timer.timeout);
            let runs_out = self.now + timer.timeout;
            let survivor = sent.get(usize::from(fate.lost));
            let answer = survivor.zip(fate.rtt).map(|(copy, rtt)| copy.at + rtt);
            if let Some(at) = answer.filter(|at| *at <= runs_out) {
                self.advance(at);
                self.answered(fate, timer, &sent);
                break Outcome::Answered;
            }
            self.advance(runs_out);
            match self.expired(timer, &sent) {
                Some(next) => timer = next,
                None => break Outcome::GivenUp,
            }
        };
        self.end(began, fate, outcome, &sent);
        let mut step = self.step(waited, began, timers, outcome);
        step.lost = fate.lost.min(sent.len() as u8);
        if fate.rtt.is_some() {
            // The first copy that is not lost is needed; those after it are not.
            step.spurious = (sent.len() as u8 - step.lost).saturating_sub(1);
        }
        step
    }

    fn send_copy(&mut self, kind: Kind, sent: &mut Vec<Transmission>) {
        let copy = Sent::new(self.now, self.parameters, MESSAGE_BYTES)
            .with_retransmissions(sent.len() as u8)
            .with_kind(kind);
        let stamp = self.controller.on_sent(&copy, &mut *self.random);
        sent.push(Transmission {
            at: self.now,
            stamp,
        });
    }

    /// The running timer ran out: the timer of the next copy, if there may be one.
    fn expired(&mut self, timer: Timer, sent: &[Transmission]) -> Option<Timer> {
        let last = sent.last().copied().unwrap_or_default();
        let retransmissions = (sent.len() - 1) as u8;
        let silent = self.last_heard <= last.at;
        let lost = Lost::new(self.now, last, MESSAGE_BYTES, silent);
        self.controller.on_lost(&lost);
        if retransmissions >= self.parameters.max_retransmit {
            let Timer { timeout, memo } = timer;
            let reason = Reason::TimedOut;
            let given_up = Abandoned::new(
                self.now,
                self.parameters,
                memo,
                reason,
                retransmissions,
                timeout,
            );
            self.controller.on_abandoned(&given_up);
            return None;
        }
        let (parameters, before) = (self.parameters, timer.timeout);
        let expired = Expired::new(self.now, parameters, timer.memo, retransmissions, before)
            .with_silent(silent);
        let mut next = self.controller.next_timeout(&expired, &mut *self.random);
        if let Some(cap) = parameters.rto_max {
            next.timeout = next.timeout.min(cap.max(before));
        }
        Some(next)
    }

    fn answered(&mut self, fate: Fate, timer: Timer, sent: &[Transmission]) {
        self.last_heard = self.now;
        let latest = (sent.len() - 1) as u8;
        let told = fate.known || self.controller.counting() != Counting::Off;
        let matched = if latest == 0 || told {
            Matched::Exact(fate.lost)
        } else {
            Matched::Ambiguous {
                earliest: 0,
                latest,
            }
        };
        let Timer { timeout, memo } = timer;
        let answer = match fate.kind {
            Kind::Request => Answer::Piggybacked,
            _ => Answer::Empty,
        };
        let answered = Answered::new(self.now, self.parameters, memo, sent, timeout)
            .with_matched(matched)
            .with_answer(answer, MESSAGE_BYTES);
        self.controller.on_answered(&answered);
    }

    /// Remembers an exchange that is over for the answers that are still to come.
    fn end(&mut self, began: Instant, fate: Fate, outcome: Outcome, sent: &[Transmission]) {
        let Some(rtt) = fate.rtt else { return };
        let abandoned = outcome == Outcome::GivenUp;
        let heard = usize::from(fate.lost) + usize::from(!abandoned);
        if heard >= sent.len() {
            return;
        }
        self.ended.push(Ended {
            began,
            sent: sent.len() as u8,
            answers: u8::from(!abandoned),
            abandoned,
        });
        for copy in &sent[heard..] {
            let key = (copy.at + rtt, self.arrivals);
            self.arrivals += 1;
            self.under_way.insert(key, self.ended.len() - 1);
        }
    }
}

#[cfg(test)]
mod tests {
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
    fn a_lost_copy_costs_its_timer() {
        let steps = under("default", &LOW, &[rtt("400 ms"), lost(2, "400 ms")]);
        assert_eq!(seconds(&steps[0].timers), [2.0]);
        assert_eq!(steps[0].took(), Duration::from_millis(400));
        assert_eq!(seconds(&steps[1].timers), [2.0, 4.0, 8.0]);
        assert_eq!(steps[1].took(), Duration::from_millis(6_400));
        assert_eq!((steps[1].lost, steps[1].spurious), (2, 0));
    }

    #[test]
    fn a_round_trip_beyond_the_timer_brings_copies_that_nobody_needed() {
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
    fn an_answer_as_the_timer_runs_out_is_in_time() {
        let steps = under("default", &LOW, &[rtt("2 s")]);
        assert_eq!((steps[0].timers.len(), steps[0].spurious), (1, 0));
    }

    #[test]
    fn what_is_never_answered_is_given_up_after_the_last_timer() {
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
    fn a_pause_ages_what_is_known() {
        // The second copy leaves after 2 s, so 6 s are a weak sample: 6 + 3 = 9 s, a quarter of
        // which makes 2 s 3.75 s. Unused for four times that, it becomes 1 + 3.75/2.
        let pause = |seconds| Event::Idle(Duration::from_secs(seconds));
        let steps = under("cocoa-03", &LOW, &[rtt("6 s"), pause(15), pause(1)]);
        let rtos: Vec<Duration> = steps.iter().filter_map(|step| step.rto).collect();
        assert_eq!(seconds(&rtos), [3.75, 3.75, 2.875]);
    }

    #[test]
    fn notifications_leave_when_they_may() {
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

    /// Timers of 1 s that stay, and notes of what was told.
    #[derive(Debug, Default)]
    struct Recorder {
        told: RefCell<Vec<String>>,
        counting: Option<Counting>,
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

        fn must_confirm(&self, _: &Departure<'_>) -> bool {
            self.confirms
        }

        fn counting(&self) -> Counting {
            self.counting.unwrap_or(Counting::Off)
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
    fn late_answers_come_in_the_middle_of_what_follows() {
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
    fn answers_to_what_was_given_up_are_told_as_such() {
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
    fn who_tells_copies_apart_learns_which_was_answered() {
        for counting in [
            Counting::EveryCopy,
            Counting::RepeatedCopies,
            Counting::Token,
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
}
