//! `carob`: one controller for single exchanges, windows of exchanges, and NON notifications.
//!
//! The timer of an exchange follows round trips whose transmission is certain. A back-off that
//! losses with a persistent queue made necessary carries over to the next exchanges. The window and
//! the pacing follow the delivery rate and the least round trip: queueing delay lowers the window,
//! loss only if the queue persists. Against a competitor that fills the queue, the window grows and
//! shrinks as New Reno's would.
//!
//! `path` has the round trips, `timers` the timers of exchanges, `window` the window and its phases.
//! Rules, constants and their evidence: `docs/algorithms.md#carob`.

mod contention;
mod path;
mod timers;
mod window;

use crate::controller::{Controller, CopyTagging, GapDetection, Gauge, Timer, Window};
use crate::evidence::{
    Abandoned, Answer, Answered, Expired, Kind, LateAnswer, LossReason, Lost, Matched, PacketState,
    Reason, SendCandidate, Sent, Signal, Start,
};
use crate::parameters::TransmissionParameters;
use crate::random::Random;
use crate::ratio::Ratio;
use crate::registry::{Family, Profile, Suggested};
use crate::time::{Duration, Instant};

use path::Path;
use timers::Backoff;
use window::{Outcome, Transfer};

constants! {
    /// Constants of `carob`.
    pub struct CarobConstants {
        /// gain of the smoothed round-trip time
        alpha: Ratio,
        /// gain of its deviation
        beta: Ratio,
        /// margin of timers above the round trip and target of the queueing delay, as a share
        tolerance: Ratio,
        /// period after which the older half of least and greatest round trip and rate is dropped
        memory: Duration,
        /// greatest round trip, as a multiple of the least, up to which a timer may be shorter than ACK_TIMEOUT
        steady: u8,
        /// time after which a message with a later answer is lost, as a multiple of the round trip
        time_threshold: Ratio,
        /// retransmissions of a message for a gap until its timer expires, at most
        gap_repairs: u8,
        /// window after the first answer, in messages
        initial_window: u8,
        /// factor of the window after congestion losses
        loss_factor: Ratio,
        /// messages over which losses are counted before the window reacts
        loss_period: u8,
        /// rounds after losses behind a long queue in which the window keeps the queue short
        caution: u8,
        /// share of the capacity below which a sender takes losses for congestion
        shared: Ratio,
        /// least window as a part of a message, and growth per round on a shared path as a part of the window
        fraction: u8,
        /// whether the window competes with a sender that fills the queue
        compete: bool,
        /// whether messages of a window are paced
        pacing: bool,
        /// pacing rate at most, as a multiple of the highest delivery rate
        rate_limit: Ratio,
        /// how transmissions of single exchanges are distinguished
        counting: CopyTagging,
        /// how the timers of a window are distinguished
        window_counting: CopyTagging,
        /// time between NON notifications before the first sample
        non_interval: Duration,
        /// notifications since a CON, of which the last is CON again if it leaves at the pace of the interval
        confirm_every: u8,
    }
}

/// The state of `carob` for one peer.
#[derive(Clone, Debug)]
pub struct Carob {
    constants: &'static CarobConstants,
    path: Path,
    backoff: Backoff,
    transfer: Transfer,
    /// The earliest time of the next paced message.
    next_departure: Instant,
    /// The departure of the latest message that was certainly answered.
    answered_departure: Instant,
    /// NON notifications since the last CON.
    unconfirmed: u8,
    /// NON notifications a round trip.
    pace: u8,
}

/// The state kept with a transmission: bytes delivered when it was sent, and its size.
#[derive(Clone, Copy)]
struct Stamp {
    delivered: u32,
    bytes: u32,
}

impl From<Stamp> for PacketState {
    fn from(stamp: Stamp) -> Self {
        Self(u64::from(stamp.delivered) << 32 | u64::from(stamp.bytes))
    }
}

impl From<PacketState> for Stamp {
    fn from(state: PacketState) -> Self {
        Self {
            delivered: low_half(state.0 >> 32),
            bytes: low_half(state.0),
        }
    }
}

impl Family for Carob {
    type Constants = CarobConstants;
    const PROFILES: &'static [Profile<CarobConstants>] = &[Profile {
        name: "carob",
        about: "non-standard: window and pacing by delivery rate and minimum RTT, timers by \
                unambiguous RTT samples",
        source: "docs/adr/0033-carob-controller.md; docs/algorithms.md#carob",
        project_choice: Some("all of it: no publication has this controller"),
        constants: CarobConstants {
            alpha: Ratio::new(1, 8),
            beta: Ratio::new(1, 4),
            tolerance: Ratio::new(1, 4),
            memory: Duration::from_secs(60),
            steady: 4,
            time_threshold: Ratio::new(9, 8),
            gap_repairs: 2,
            initial_window: 6,
            loss_factor: Ratio::new(1, 2),
            loss_period: 16,
            caution: 64,
            shared: Ratio::new(1, 2),
            fraction: 16,
            compete: true,
            pacing: true,
            rate_limit: Ratio::new(6, 5),
            counting: CopyTagging::RepeatedCopies,
            window_counting: CopyTagging::Token,
            non_interval: Duration::from_secs(3),
            confirm_every: 8,
        },
        suggested: Suggested {
            max_retransmit: None,
            rto_max: Some(Duration::from_secs(60)),
        },
    }];

    fn new(constants: &'static CarobConstants) -> Self {
        Self {
            constants,
            path: Path::default(),
            backoff: Backoff::default(),
            transfer: Transfer::default(),
            next_departure: Instant::ZERO,
            answered_departure: Instant::ZERO,
            unconfirmed: 0,
            pace: 1,
        }
    }
}

impl Carob {
    /// Adds a lower bound of the round trip of a window as a sample, if it is longer than the mean.
    fn sample_bound(&mut self, now: Instant, least: Duration) {
        let least = least.as_micros_u32();
        if self.transfer.is_windowed() && self.path.srtt().is_some_and(|srtt| least > srtt) {
            self.path.sample(self.constants, now, least);
        }
    }

    /// Keeps the back-off of an exchange whose answer may belong to several copies.
    fn keep_backoff(&mut self, answered: &Answered<'_>) {
        self.backoff.keep(answered.retransmissions());
        let latest = match answered.matched {
            Matched::Ambiguous { latest, .. } => answered.transmissions.get(usize::from(latest)),
            Matched::Exact(_) => None,
        };
        let rto = self.path.rto(self.constants).unwrap_or(Duration::ZERO);
        if latest.is_some_and(|copy| answered.now.since(copy.at) > rto) {
            self.backoff.slow();
        }
    }

    /// RTO of a window of n messages: one more message in the queue of the path lengthens the round
    /// trip by up to 1/n.
    fn windowed_rto(&self, rto: Duration) -> Duration {
        let messages = u32::from(self.transfer.messages().unwrap_or(1));
        let round_trip = self.path.srtt().unwrap_or(0).max(self.path.latest());
        let longer = round_trip.saturating_add(round_trip / messages.max(1));
        let tolerance = self.constants.tolerance.down(longer);
        rto.max(micros(longer.saturating_add(tolerance)))
    }

    /// Time between NON notifications: a round trip, the smoothed or the latest one, divided by the pace,
    /// with the back-off of exchanges; or before the first sample 3 s (RFC 7641 4.5.1).
    fn notification_interval(&self) -> Duration {
        self.path
            .srtt()
            .map_or(self.constants.non_interval, |srtt| {
                let round_trip = srtt.min(self.path.latest());
                let interval = micros(round_trip / u32::from(self.pace.max(1)));
                timers::doubled(interval, self.backoff.exponent())
            })
    }

    /// Doubles the pace of notifications after a round trip without a queue, to half of `confirm_every`: the
    /// next sample is two round trips away at most. A queue brings it back to one a round trip.
    fn adjust_pace(&mut self, round_trip: u32, base: u32) {
        let target = base.saturating_add(self.constants.tolerance.down(base));
        let most = self.constants.confirm_every / 2;
        self.pace = if round_trip > target {
            1
        } else {
            self.pace.saturating_mul(2).min(most)
        };
    }
}

impl Controller for Carob {
    fn first_timeout(&mut self, start: &Start<'_>, random: &mut dyn Random) -> Timer {
        let rto = self.path.rto(self.constants);
        let idle = self.transfer.idle(start.now);
        if start.running == 0 {
            self.transfer.begin(start.now, rto);
            self.backoff.decay(idle, rto);
        }
        self.transfer.on_start(start.running);
        let (constants, parameters) = (self.constants, start.parameters);
        if let (true, Some(rto)) = (self.transfer.has_window_timers(), rto) {
            let rto = self.windowed_rto(rto);
            return timers::in_window(rto, self.transfer.backoff(), parameters).into();
        }
        let rto = self.path.exchange_rto(constants, parameters);
        let timeout = timers::first(parameters, rto, self.backoff, random);
        // After idle no timer is longer than RFC 7252's first.
        if start.running == 0 && rto.is_some() && idle > parameters.ack_timeout.times(2) {
            return timeout.min(timers::blind(parameters, random)).into();
        }
        timeout.into()
    }

    fn next_timeout(&mut self, expired: &Expired<'_>, random: &mut dyn Random) -> Timer {
        let constants = self.constants;
        let rto = self.path.rto(constants);
        let timeout = match rto {
            // A gap is no timeout: the timer does not back off.
            _ if expired.reason == LossReason::Gap => {
                expired.timeout.max(rto.unwrap_or(expired.timeout))
            }
            Some(rto) if self.transfer.has_window_timers() => expired.timeout.times(2).max(rto),
            // One early retransmission; the others keep RFC 7252's pace, dithered as its timers are: those
            // of all devices would else meet, and the last leave at two thirds of MAX_TRANSMIT_SPAN.
            Some(_) => {
                let blind = timers::blind(expired.parameters, random);
                expired.timeout.times(2).max(blind)
            }
            None => expired.timeout.times(2),
        };
        Timer {
            timeout: timers::capped(timeout, expired.parameters),
            state: expired.state,
        }
    }

    fn on_sent(&mut self, sent: &Sent<'_>, _: &mut dyn Random) -> PacketState {
        if sent.kind == Kind::Notification && !sent.confirmable {
            self.unconfirmed = self.unconfirmed.saturating_add(1);
            self.next_departure = sent.now + self.notification_interval();
            return PacketState::default();
        }
        if sent.kind == Kind::Notification {
            self.unconfirmed = 0;
        }
        self.transfer.on_sent(sent.now, sent.application_limited);
        if self.constants.pacing
            && let Some(srtt) = self.path.srtt()
            && let Some(gap) = self.transfer.gap(srtt, self.constants)
        {
            // At most one gap is made up for after a pause; retransmissions, which are not paced,
            // hold the others up for a round trip at most.
            let next = self.next_departure.max(sent.now - gap) + gap;
            self.next_departure = next.min(sent.now + micros(srtt).max(gap));
        }
        Stamp {
            delivered: self.transfer.delivered(),
            bytes: sent.bytes,
        }
        .into()
    }

    fn on_answered(&mut self, answered: &Answered<'_>) {
        if !answered.confirmable || answered.answer == Answer::Separate {
            return;
        }
        self.transfer.on_heard(answered.now);
        let certain = match answered.matched {
            Matched::Exact(copy) => {
                let spurious = answered.retransmissions().saturating_sub(copy);
                self.transfer.undo_losses(spurious);
                answered.transmissions.get(usize::from(copy))
            }
            Matched::Ambiguous { .. } => None,
        };
        let Some(sent) = certain else {
            if !self.transfer.is_windowed() {
                self.keep_backoff(answered);
            }
            self.transfer
                .deliver(answered.bytes.saturating_add(answered.also));
            // The answer belongs to the latest copy that can have caused it, or to an earlier one.
            if let Matched::Ambiguous { latest, .. } = answered.matched
                && let Some(copy) = answered.transmissions.get(usize::from(latest))
            {
                self.sample_bound(answered.now, answered.now.since(copy.at));
            }
            return;
        };
        self.answered_departure = self.answered_departure.max(sent.at);
        let round_trip = answered.now.since(sent.at).as_micros_u32().max(1);
        // The first sample has nothing to be compared with.
        if let Some(base) = self.path.base() {
            self.adjust_pace(round_trip, base);
        }
        self.path.sample(self.constants, answered.now, round_trip);
        self.backoff.clear();
        let stamp = Stamp::from(sent.state);
        let outcome = Outcome {
            now: answered.now,
            sent_at: sent.at,
            round_trip,
            bytes: stamp.bytes.max(answered.bytes),
            also: answered.also,
            recent: answered.recent,
            delivered_then: stamp.delivered,
        };
        self.transfer
            .on_answered(&outcome, &mut self.path, self.constants);
    }

    fn on_lost(&mut self, lost: &Lost) {
        let srtt = self.path.srtt().unwrap_or(0);
        let by_timer = lost.reason == LossReason::Timer;
        if by_timer {
            self.pace = 1;
        }
        self.transfer.on_lost(lost.now, by_timer, lost.silent, srtt);
    }

    fn on_late_answer(&mut self, late: &LateAnswer) {
        if late.abandoned && self.transfer.is_windowed() {
            self.sample_bound(late.now, late.since_original);
        }
    }

    fn on_abandoned(&mut self, abandoned: &Abandoned<'_>) {
        if abandoned.reason == Reason::TimedOut {
            self.backoff.keep(abandoned.retransmissions);
        }
    }

    fn on_signal(&mut self, _: Instant, signal: Signal) {
        match signal {
            Signal::SlowDown(_) => self.transfer.halve(),
            Signal::Unreachable => {}
        }
    }

    fn window(&self, _: Instant, parameters: &TransmissionParameters) -> Window {
        Window {
            exchanges: self.transfer.messages().unwrap_or(parameters.nstart).max(1),
            bytes: u32::MAX,
        }
    }

    fn earliest_departure_time(&self, candidate: &SendCandidate<'_>) -> Instant {
        let single = candidate.kind != Kind::Notification && !self.transfer.is_paced();
        if single {
            candidate.now
        } else {
            self.next_departure.max(candidate.now)
        }
    }

    fn gap_detection(&self) -> Option<GapDetection> {
        if !self.transfer.is_windowed() {
            return None;
        }
        Some(GapDetection {
            time_threshold: self.path.time_threshold(self.constants)?,
            answered_departure: self.answered_departure,
            timeout: timers::doubled(
                self.windowed_rto(self.path.rto(self.constants)?),
                self.transfer.backoff_of_sent(),
            ),
            repairs: self.constants.gap_repairs,
        })
    }

    fn must_confirm(&self, departure: &SendCandidate<'_>) -> bool {
        if departure.kind != Kind::Notification {
            return false;
        }
        // Notifications with longer pauses gain nothing from a sample, and each CON without an ACK may
        // end an observation (RFC 7641 4.5).
        let pause = departure.now.since(self.next_departure);
        let is_paced = pause <= self.notification_interval().scale(self.constants.tolerance);
        let every = self.constants.confirm_every;
        // A path may recover in the time that `every` intervals take if they are long.
        let is_old = self.path.srtt().is_some()
            && departure.now.since(self.answered_departure)
                > self.constants.non_interval.times(u64::from(every));
        is_paced && (self.unconfirmed + 1 >= every || is_old)
    }

    fn copy_tagging(&self) -> CopyTagging {
        if self.transfer.is_windowed() {
            self.constants.window_counting
        } else {
            self.constants.counting
        }
    }

    fn gauges(&self, _: Instant, visit: &mut dyn FnMut(&'static str, Gauge)) {
        if let (Some(rto), Some(srtt), Some(base)) = (
            self.path.rto(self.constants),
            self.path.srtt(),
            self.path.base(),
        ) {
            visit("rto", Gauge::Time(rto));
            visit("srtt", Gauge::Time(micros(srtt)));
            visit("base", Gauge::Time(micros(base)));
        }
        visit(
            "window",
            Gauge::Count(u64::from(self.transfer.window_bytes())),
        );
        visit("rate", Gauge::Count(u64::from(self.transfer.capacity())));
        visit("mode", Gauge::State(self.transfer.mode()));
    }
}

/// The low 32 bits.
fn low_half(value: u64) -> u32 {
    u32::try_from(value & u64::from(u32::MAX)).unwrap_or_default()
}

fn micros(micros: u32) -> Duration {
    Duration::from_micros(u64::from(micros))
}

#[cfg(test)]
mod states;
#[cfg(test)]
mod tests;
