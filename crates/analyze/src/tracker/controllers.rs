//! Runs every controller of `carob-cc` on the events of a captured sender, and compares its first timeout of
//! each exchange with the outcome.
//!
//! The sender keeps its own timers, so controllers do not act: the times of retransmissions are those
//! of the capture. Draws from ranges are in their middle.

use carob_cc::TransmissionParameters;
use carob_cc::controller::{Controller as _, Timer};
use carob_cc::evidence::{
    Abandoned, Answer, Answered, Expired, Kind, LateAnswer, Lost, Reason, Sent, Start, Transmission,
};
use carob_cc::random::Fixed;
use carob_cc::registry::{self, AnyController};
use carob_cc::time::{Duration, Instant};
use serde::Serialize;

use super::exchange::ReplyKind;
use crate::sketch::{Quantiles, Sketch};

/// A draw in the middle of every range.
const MIDDLE: Fixed = Fixed(1 << 31);

/// One controller's names and parameters, common to all peers.
#[derive(Debug)]
struct Subject {
    name: &'static str,
    parameters: TransmissionParameters,
}

/// Results of one controller.
#[derive(Clone, Debug, Default)]
struct Counts {
    timeouts: Sketch,
    /// Exchanges of which the first transmission was answered, and those whose answer came after
    /// the timeout.
    answered: u64,
    too_short: u64,
    /// Exchanges of which the first transmission was lost, and the sum of their timeouts.
    lost: u64,
    waited_us: u64,
}

/// All controllers, and their results over all peers.
#[derive(Debug)]
pub(super) struct Panel {
    subjects: Vec<Subject>,
    counts: Vec<Counts>,
}

/// The controllers of one sender towards one peer.
#[derive(Debug)]
pub(super) struct Bank(Vec<AnyController>);

/// The controllers' part of an exchange.
#[derive(Debug)]
pub(super) struct Replay {
    /// First timeout of each controller, in microseconds.
    pub(super) first: Box<[u32]>,
    /// The running timer and the transmissions of each; empty once the exchange is answered.
    running: Vec<(Timer, Vec<Transmission>)>,
    bytes: u32,
}

/// A controller's timeouts on the exchanges of a capture.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ControllerResult {
    /// Registry id.
    pub name: &'static str,
    /// First timeouts of exchanges.
    pub timeout: Quantiles,
    /// Share of answered first transmissions whose answer came after the timeout, so that a
    /// retransmission would have been spurious; `None` without any.
    pub spurious: Option<f64>,
    /// Mean first timeout of exchanges whose first transmission was lost, in microseconds: the wait
    /// until the loss would have been repaired. `None` without losses.
    pub lost_wait_us: Option<u64>,
}

fn instant(at: u64) -> Instant {
    Instant::from_micros(at)
}

impl Panel {
    pub(super) fn new() -> Self {
        let subjects: Vec<Subject> = registry::entries()
            .map(|entry| Subject {
                name: entry.name,
                parameters: entry.suggested.apply(TransmissionParameters::DEFAULT),
            })
            .collect();
        let counts = vec![Counts::default(); subjects.len()];
        Self { subjects, counts }
    }

    /// Begins an exchange; returns its state.
    pub(super) fn begin(
        &self,
        bank: &mut Bank,
        at: u64,
        running: u16,
        kind: Kind,
        bytes: u32,
    ) -> Replay {
        let now = instant(at);
        let mut first = Vec::with_capacity(self.subjects.len());
        let mut timers = Vec::with_capacity(self.subjects.len());
        for (controller, subject) in bank.0.iter_mut().zip(&self.subjects) {
            let start = Start::new(now, &subject.parameters)
                .with_running(running)
                .with_kind(kind);
            let timer = controller.first_timeout(&start, &mut MIDDLE.clone());
            let sent = Sent::new(now, &subject.parameters, bytes).with_kind(kind);
            let state = controller.on_sent(&sent, &mut MIDDLE.clone());
            first.push(timer.timeout.as_micros_u32());
            timers.push((timer, vec![Transmission { at: now, state }]));
        }
        Replay {
            first: first.into_boxed_slice(),
            running: timers,
            bytes,
        }
    }

    /// A retransmission of the sender.
    pub(super) fn again(
        &self,
        bank: &mut Bank,
        replay: &mut Replay,
        at: u64,
        kind: Kind,
        silent: bool,
    ) {
        let now = instant(at);
        let each = bank.0.iter_mut().zip(&self.subjects);
        for ((controller, subject), (timer, sent)) in each.zip(&mut replay.running) {
            let parameters = &subject.parameters;
            let count = sent.len().min(usize::from(u8::MAX)) as u8;
            let last = sent.last().copied().unwrap_or_default();
            controller.on_lost(&Lost::new(now, last, replay.bytes, silent));
            let before = timer.timeout;
            let expired =
                Expired::new(now, parameters, timer.state, count - 1, before).with_silent(silent);
            *timer = controller.next_timeout(&expired, &mut MIDDLE.clone());
            if let Some(cap) = parameters.rto_max {
                timer.timeout = timer.timeout.min(cap.max(before));
            }
            let again = Sent::new(now, parameters, replay.bytes)
                .with_retransmissions(count)
                .with_kind(kind);
            let state = controller.on_sent(&again, &mut MIDDLE.clone());
            sent.push(Transmission { at: now, state });
        }
    }

    /// Transmissions kept for all controllers.
    #[cfg(test)]
    pub(super) fn transmissions(replay: &Replay) -> usize {
        replay.running.iter().map(|(_, sent)| sent.len()).sum()
    }

    /// The first reply.
    pub(super) fn answer(
        &self,
        bank: &mut Bank,
        replay: &mut Replay,
        at: u64,
        kind: ReplyKind,
        bytes: u32,
    ) {
        let now = instant(at);
        let each = bank.0.iter_mut().zip(&self.subjects);
        for ((controller, subject), (timer, sent)) in each.zip(&replay.running) {
            let parameters = &subject.parameters;
            if kind == ReplyKind::Reset {
                abandon(
                    controller,
                    parameters,
                    *timer,
                    now,
                    Reason::Reset,
                    sent.len(),
                );
                continue;
            }
            let answer = match kind {
                ReplyKind::Piggybacked => Answer::Piggybacked,
                ReplyKind::Separate => Answer::Separate,
                ReplyKind::Empty | ReplyKind::Reset => Answer::Empty,
            };
            let answered = Answered::new(now, parameters, timer.state, sent, timer.timeout)
                .with_answer(answer, bytes);
            controller.on_answered(&answered);
        }
        replay.running = Vec::new();
    }

    /// A further reply to an exchange of `sent` transmissions that began at `began`.
    pub(super) fn late(bank: &mut Bank, at: u64, sent: usize, answers: usize, began: u64) {
        let small = |count: usize| u8::try_from(count).unwrap_or(u8::MAX);
        let since = Duration::from_micros(at.saturating_sub(began));
        let late = LateAnswer::new(instant(at), small(sent), small(answers), since);
        for controller in &mut bank.0 {
            controller.on_late_answer(&late);
        }
    }

    /// The end of an exchange without a reply.
    pub(super) fn give_up(&self, bank: &mut Bank, replay: &mut Replay, at: u64) {
        let each = bank.0.iter_mut().zip(&self.subjects);
        for ((controller, subject), (timer, sent)) in each.zip(&replay.running) {
            let parameters = &subject.parameters;
            let reason = Reason::TimedOut;
            abandon(
                controller,
                parameters,
                *timer,
                instant(at),
                reason,
                sent.len(),
            );
        }
        replay.running = Vec::new();
    }

    /// Counts an exchange: `round_trip` of its first transmission, or its loss.
    pub(super) fn count(&mut self, replay: &Replay, round_trip: Option<u64>, is_lost: bool) {
        for (counts, first) in self.counts.iter_mut().zip(&replay.first) {
            let first = u64::from(*first);
            counts.timeouts.add(first);
            if let Some(round_trip) = round_trip {
                counts.answered += 1;
                counts.too_short += u64::from(first < round_trip);
            } else if is_lost {
                counts.lost += 1;
                counts.waited_us = counts.waited_us.saturating_add(first);
            }
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (counts, other) in self.counts.iter_mut().zip(&other.counts) {
            counts.timeouts.merge(&other.timeouts);
            counts.answered += other.answered;
            counts.too_short += other.too_short;
            counts.lost += other.lost;
            counts.waited_us = counts.waited_us.saturating_add(other.waited_us);
        }
    }

    /// Returns the results, in the order of the registry; none without exchanges.
    pub(super) fn results(&self) -> Vec<ControllerResult> {
        let each = self.subjects.iter().zip(&self.counts);
        each.filter(|(_, counts)| counts.timeouts.count() > 0)
            .map(|(subject, counts)| ControllerResult {
                name: subject.name,
                timeout: counts.timeouts.quantiles(),
                spurious: (counts.answered > 0)
                    .then(|| counts.too_short as f64 / counts.answered as f64),
                lost_wait_us: counts.waited_us.checked_div(counts.lost),
            })
            .collect()
    }
}

impl Bank {
    pub(super) fn new() -> Self {
        Self(registry::entries().map(|entry| entry.build()).collect())
    }
}

fn abandon(
    controller: &mut AnyController,
    parameters: &TransmissionParameters,
    timer: Timer,
    now: Instant,
    reason: Reason,
    sent: usize,
) {
    let retransmissions = u8::try_from(sent.saturating_sub(1)).unwrap_or(u8::MAX);
    let Timer { timeout, state } = timer;
    controller.on_abandoned(&Abandoned::new(
        now,
        parameters,
        state,
        reason,
        retransmissions,
        timeout,
    ));
}
