//! `carob`: one controller for single exchanges, windows of exchanges, and NON notifications.
//!
//! The timer of an exchange follows round trips whose transmission is certain. A back-off that
//! losses with a standing queue made necessary carries over to the next exchanges. The window and
//! the pacing follow the delivery rate and the least round trip: queueing delay lowers the window,
//! loss only if the queue stands. Against a competitor that fills the queue, the window grows and
//! shrinks as that of New Reno would.
//!
//! `path` has the round trips, `timers` those of exchanges, `window` the window and its phases.
//! Rules, constants and their evidence: `docs/algorithms.md#carob`.

mod path;
mod timers;
mod window;

use crate::controller::{Controller, CopyTagging, GapDetection, Gauge, Timer, Window};
use crate::evidence::{
    Abandoned, Answer, Answered, Expired, Kind, Lost, Matched, PacketState, Reason, SendCandidate,
    Sent, Signal, Start,
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
        /// deviations added to the estimate
        k: u8,
        /// detection of losses by later answers in a window
        gap_detection: bool,
        /// time after which a message with a later answer is lost, as a multiple of the round trip
        time_threshold: Ratio,
        /// deviations added to the smoothed round-trip time for that time at least
        gap_k: u8,
        /// greatest number of doublings of the margin after retransmissions that were not needed
        patience_max: u8,
        /// exchanges without a retransmission after which the margin is halved again
        patience_period: u8,
        /// least margin of timers above the round trip: what clocks and schedulers may be late
        granularity: Duration,
        /// least margin of the RTO above the smoothed round-trip time, as a share of it
        margin_min: Ratio,
        /// least RTO as a multiple of the latest round trip
        latest_factor: Ratio,
        /// dither of a first timer as a share of it, once there is a sample
        dither: Ratio,
        /// limit of short timers: below it an RTO needs steady round trips, and a timer backs off faster
        short_timer: Duration,
        /// least margin of a short RTO, as a multiple of the greatest round trip less the least
        spread_factor: u8,
        /// factor of the back-off
        backoff: Ratio,
        /// factor of the back-off of short timers, up to their limit
        short_backoff: Ratio,
        /// greatest number of doublings carried over to later exchanges
        carry_max: u8,
        /// round trip above which a queue stands, as a multiple of the least
        queued_factor: Ratio,
        /// time after which half of the memory of round trips and rates is dropped
        memory: Duration,
        /// window after the first answer, in messages
        initial_window: u8,
        /// rounds with losses at a window of two messages, counted twice, that make it one; those without count back
        single_after: u8,
        /// answers without a loss after which a window of one message is two again; 0: never one
        single_answers: u8,
        /// whether queueing delay lowers the window
        delay_control: bool,
        /// queueing delay aimed at, as a share of the least round trip
        queue_target: Ratio,
        /// least queueing delay aimed at
        queue_target_min: Duration,
        /// least queue aimed at, in messages
        queue_messages: Ratio,
        /// round trip from which on more queue may make timers of RFC 7252 expire: half of ACK_TIMEOUT
        default_timers_near: Duration,
        /// round trip from which on they all have: ACK_TIMEOUT times ACK_RANDOM_FACTOR
        default_timers_past: Duration,
        /// factor of the window after losses with a standing queue
        loss_factor: Ratio,
        /// whether the window is lowered for two rounds to find the least round trip
        drain: bool,
        /// whether the window competes with a sender that fills the queue
        compete: bool,
        /// growth of the window in a round of competition, in messages
        compete_growth: Ratio,
        /// whether messages of a window are paced
        pacing: bool,
        /// pacing rate as a multiple of window / round trip
        pacing_gain: Ratio,
        /// limit of the pacing rate as a multiple of the highest delivery rate
        rate_limit: Ratio,
        /// the same in one of 16 rounds
        probe_rate_limit: Ratio,
        /// how transmissions of single exchanges are distinguished
        counting: CopyTagging,
        /// how those of a window are distinguished
        window_counting: CopyTagging,
        /// time between NON notifications before the first sample
        non_interval: Duration,
        /// of this many notifications one is sent as CON
        confirm_every: u8,
    }
}

/// The state of `carob` for one peer.
#[derive(Debug)]
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
            k: 4,
            gap_detection: true,
            time_threshold: Ratio::new(9, 8),
            gap_k: 3,
            patience_max: 6,
            patience_period: 32,
            granularity: Duration::from_millis(1),
            margin_min: Ratio::new(1, 4),
            latest_factor: Ratio::new(5, 4),
            dither: Ratio::new(1, 4),
            short_timer: Duration::from_secs(1),
            spread_factor: 8,
            backoff: Ratio::new(2, 1),
            short_backoff: Ratio::new(4, 1),
            carry_max: 4,
            queued_factor: Ratio::new(5, 4),
            memory: Duration::from_secs(60),
            initial_window: 6,
            single_after: 4,
            single_answers: 16,
            delay_control: true,
            queue_target: Ratio::new(1, 4),
            queue_target_min: Duration::from_millis(10),
            queue_messages: Ratio::new(1, 1),
            default_timers_near: Duration::from_secs(1),
            default_timers_past: Duration::from_secs(3),
            loss_factor: Ratio::new(7, 10),
            drain: true,
            compete: true,
            compete_growth: Ratio::new(1, 1),
            pacing: true,
            pacing_gain: Ratio::new(5, 4),
            rate_limit: Ratio::new(9, 8),
            probe_rate_limit: Ratio::new(5, 4),
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

    /// Timers of a window's messages begin anew while others are answered.
    const SHRINKS: bool = true;

    fn new(constants: &'static CarobConstants) -> Self {
        Self {
            constants,
            path: Path::default(),
            backoff: Backoff::default(),
            transfer: Transfer::default(),
            next_departure: Instant::ZERO,
            answered_departure: Instant::ZERO,
            unconfirmed: 0,
        }
    }
}

impl Carob {
    /// Time between NON notifications: the RTO with the back-off of exchanges, or the interval of
    /// RFC 7641 4.5.1 before the first sample.
    fn notification_interval(&self) -> Duration {
        let doublings = 1 << self.backoff.exponent();
        match self.path.rto(self.constants) {
            None => self.constants.non_interval,
            Some(rto) => rto.times(doublings).min(rto.max(timers::BACKOFF_MAX)),
        }
    }
}

impl Controller for Carob {
    fn first_timeout(&mut self, start: &Start<'_>, random: &mut dyn Random) -> Timer {
        let rto = self.path.rto(self.constants);
        if start.running == 0 {
            self.transfer.begin(start.now, rto);
        }
        self.transfer.on_start(start.running);
        let (constants, parameters) = (self.constants, start.parameters);
        if let (true, Some(rto)) = (self.transfer.is_windowed(), rto) {
            return timers::in_window(rto, self.transfer.silent_doublings(), parameters).into();
        }
        let rto = self.path.exchange_rto(constants);
        timers::first(constants, parameters, rto, self.backoff.exponent(), random).into()
    }

    fn next_timeout(&mut self, expired: &Expired<'_>, _: &mut dyn Random) -> Timer {
        let constants = self.constants;
        // In a window a loss is the window's concern: only silence backs its timers off.
        let timeout = match self.path.rto(constants) {
            Some(rto) if self.transfer.is_windowed() => {
                timers::in_window(rto, self.transfer.silent_doublings(), expired.parameters)
            }
            _ => timers::backed_off(expired.timeout, constants),
        };
        let is_last = expired.retransmissions.saturating_add(1) >= expired.parameters.max_retransmit;
        let timeout = timers::capped(timeout, expired.parameters);
        Timer {
            timeout: timers::until_given_up(timeout, is_last, expired.parameters),
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
            self.next_departure = next.min(sent.now + micros(srtt));
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
        let certain = match answered.matched {
            Matched::Exact(copy) => answered.transmissions.get(usize::from(copy)).zip(Some(copy)),
            Matched::Ambiguous { .. } => None,
        };
        let Some((sent, copy)) = certain else {
            if !self.transfer.is_windowed() {
                self.backoff.keep(answered.retransmissions());
            }
            self.transfer.deliver(answered.bytes.saturating_add(answered.also));
            return;
        };
        self.answered_departure = self.answered_departure.max(sent.at);
        let round_trip = answered.now.since(sent.at).as_micros_u32().max(1);
        self.path.sample(self.constants, answered.now, round_trip);
        if !self.transfer.is_windowed() {
            self.path.settle(answered.retransmissions(), copy, self.constants);
            let queued = self.path.is_queued(self.constants);
            self.backoff.settle(copy, queued, self.constants);
        }
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
        self.transfer.on_lost(lost.now, lost.silent, srtt);
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
        if !self.transfer.is_windowed() || !self.constants.gap_detection {
            return None;
        }
        Some(GapDetection {
            time_threshold: self.path.time_threshold(self.constants)?,
            answered_departure: self.answered_departure,
            answered: self.transfer.latest_answer(self.answered_departure),
        })
    }

    fn must_confirm(&self, departure: &SendCandidate<'_>) -> bool {
        departure.kind == Kind::Notification
            && self.unconfirmed + 1 >= self.constants.confirm_every
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
        visit("window", Gauge::Count(u64::from(self.transfer.window_bytes())));
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
mod tests;
