//! One controller and a script of events, as the endpoint would run them.

use std::collections::BTreeMap;

use carob_cc::TransmissionParameters;
use carob_cc::controller::{Controller, CopyTagging, Timer};
use carob_cc::evidence::{
    Abandoned, Answer, Answered, Expired, Kind, LateAnswer, Lost, Matched, Reason, SendCandidate,
    Sent, Start, Transmission,
};
use carob_cc::random::Random;
use carob_cc::time::{Duration, Instant};

use super::script::Event;

/// Size of a message, in bytes; controllers that set timers do not look at it.
const MESSAGE_BYTES: u32 = 40;

/// The end of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The exchange was answered.
    Answered,
    /// The last timer of the exchange ran out.
    GivenUp,
    /// A notification was sent as NON, without an acknowledgement.
    Unconfirmed,
    /// A pause.
    Idle,
}

/// The result of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Delay of the message by the controller.
    pub waited: Duration,
    /// When the first transmission left or the pause began.
    pub began: Instant,
    /// When it was over.
    pub ended: Instant,
    /// The timer of every transmission, in order; none where nothing is acknowledged.
    pub timers: Vec<Duration>,
    /// Transmissions that were lost; these are the first ones.
    pub lost: u8,
    /// Transmissions that left although an earlier one was on its way to be answered.
    pub spurious: u8,
    /// The end of the event.
    pub outcome: Outcome,
    /// The controller's overall RTO before dithering, at the end, if it keeps one.
    pub rto: Option<Duration>,
}

impl Step {
    /// From the first transmission to the end.
    pub fn took(&self) -> Duration {
        self.ended.since(self.began)
    }
}

/// Runs events under a controller; gives a step for each.
///
/// An exchange begins when the event before it is over. Its timers are the controller's, capped as
/// the endpoint caps them. A transmission that is not lost is answered one round trip after it left, at the
/// same instant before a timer that runs out; answers to further transmissions come when their time is,
/// be that in the middle of a later exchange, and the controller receives them as late answers.
/// Which transmission was answered is known if there was but one, if the event has it, or if the
/// controller tags transmissions ([`CopyTagging`]).
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

/// Treatment of an exchange by the path.
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
        let candidate = SendCandidate::new(asked, self.parameters, MESSAGE_BYTES)
            .with_kind(kind)
            .with_confirmable(confirmable);
        let earliest = self.controller.earliest_departure_time(&candidate);
        self.advance(earliest);
        self.now.since(asked)
    }

    fn notification(&mut self, rtt: Duration) -> Step {
        let kind = Kind::Notification;
        let waited = self.wait_to_leave(kind, false);
        let candidate = SendCandidate::new(self.now, self.parameters, MESSAGE_BYTES)
            .with_kind(kind)
            .with_confirmable(false);
        if self.controller.must_confirm(&candidate) {
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
            self.transmit(fate.kind, &mut sent);
            timers.push(timer.timeout);
            let runs_out = self.now + timer.timeout;
            let survivor = sent.get(usize::from(fate.lost));
            let answer = survivor
                .zip(fate.rtt)
                .map(|(transmission, rtt)| transmission.at + rtt);
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
            // The first transmission that is not lost is needed; those after it are not.
            step.spurious = (sent.len() as u8 - step.lost).saturating_sub(1);
        }
        step
    }

    fn transmit(&mut self, kind: Kind, sent: &mut Vec<Transmission>) {
        let transmission = Sent::new(self.now, self.parameters, MESSAGE_BYTES)
            .with_retransmissions(sent.len() as u8)
            .with_kind(kind);
        let state = self.controller.on_sent(&transmission, &mut *self.random);
        sent.push(Transmission {
            at: self.now,
            state,
        });
    }

    /// The running timer ran out: the timer of the next transmission, if there may be one.
    fn expired(&mut self, timer: Timer, sent: &[Transmission]) -> Option<Timer> {
        let last = sent.last().copied().unwrap_or_default();
        let retransmissions = (sent.len() - 1) as u8;
        let silent = self.last_heard <= last.at;
        let lost = Lost::new(self.now, last, MESSAGE_BYTES, silent);
        self.controller.on_lost(&lost);
        if retransmissions >= self.parameters.max_retransmit {
            let Timer { timeout, state } = timer;
            let reason = Reason::TimedOut;
            let given_up = Abandoned::new(
                self.now,
                self.parameters,
                state,
                reason,
                retransmissions,
                timeout,
            );
            self.controller.on_abandoned(&given_up);
            return None;
        }
        let (parameters, before) = (self.parameters, timer.timeout);
        let expired = Expired::new(self.now, parameters, timer.state, retransmissions, before)
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
        let told = fate.known || self.controller.copy_tagging() != CopyTagging::Off;
        let matched = if latest == 0 || told {
            Matched::Exact(fate.lost)
        } else {
            Matched::Ambiguous {
                earliest: 0,
                latest,
            }
        };
        let Timer { timeout, state } = timer;
        let answer = match fate.kind {
            Kind::Request => Answer::Piggybacked,
            _ => Answer::Empty,
        };
        let answered = Answered::new(self.now, self.parameters, state, sent, timeout)
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
        for transmission in &sent[heard..] {
            let key = (transmission.at + rtt, self.arrivals);
            self.arrivals += 1;
            self.under_way.insert(key, self.ended.len() - 1);
        }
    }
}

#[cfg(test)]
mod tests;
