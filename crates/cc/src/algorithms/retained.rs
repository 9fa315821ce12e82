//! Common part of TCP-style timers: an RTO before and after backoff, and bounds.
//!
//! The first timer of an exchange is the RTO; each later one doubles, and the doubled one stays
//! in force until a sample replaces it (RFC 6298 5.5 to 5.7, Karn's algorithm; Californium
//! 2.0.0). `docs/algorithms.md#tcp-style-timers`.

use crate::controller::{Gauge, Timer};
use crate::evidence::{Answer, Answered, Expired, Start};
use crate::random::{Random, uniform};
use crate::ratio::Ratio;
use crate::time::Duration;

constants! {
    /// Constants of every TCP-style timer.
    pub struct TimerConstants {
        /// longest first timer as a multiple of the RTO
        dither: Ratio,
        /// backoff factor
        backoff: Ratio,
        /// shortest first timer
        rto_min: Duration,
        /// longest RTO that is not backed off (0: no limit)
        estimate_max: Duration,
        /// true if a backed-off timer stays in force until the next sample
        retain_backoff: bool,
        /// resolution of times: whole multiples of this
        tick: Duration,
    }
}

impl TimerConstants {
    /// RFC 6298 as adapted to CoAP: no bounds, no dithering.
    pub(super) const UNBOUNDED: Self = Self {
        dither: Ratio::ONE,
        backoff: Ratio::new(2, 1),
        rto_min: Duration::ZERO,
        estimate_max: Duration::ZERO,
        retain_backoff: true,
        tick: Duration::from_micros(1),
    };

    /// Californium's bounds, in microseconds.
    pub(super) const BOUNDED: Self = Self {
        rto_min: Duration::from_millis(500),
        estimate_max: Duration::from_secs(32),
        ..Self::UNBOUNDED
    };

    /// Californium's bounds, in whole milliseconds as it computes.
    pub(super) const CALIFORNIUM: Self = Self {
        tick: Duration::from_millis(1),
        ..Self::BOUNDED
    };

    /// `duration` in ticks, rounded down.
    pub(super) fn ticks(&self, duration: Duration) -> u32 {
        duration.as_micros_u32() / self.tick.as_micros_u32().max(1)
    }

    /// The length of `ticks`.
    pub(super) fn span(&self, ticks: u32) -> Duration {
        self.tick.times(u64::from(ticks))
    }

    /// The round trip of the single transmission that `answered` can belong to, in ticks (Karn:
    /// none if there are several). A separate response after a lost ACK measures the application's
    /// delay.
    pub(super) fn certain_sample(&self, answered: &Answered<'_>) -> Option<u32> {
        if !answered.confirmable || answered.answer == Answer::Separate {
            return None;
        }
        answered.round_trip().map(|time| self.ticks(time).max(1))
    }

    fn limited(&self, rto: u32) -> u32 {
        if self.estimate_max.is_zero() {
            rto
        } else {
            rto.min(self.ticks(self.estimate_max))
        }
    }
}

/// An RTO and the timer that was backed off from it.
#[derive(Debug, Default)]
pub(super) struct Retained {
    /// In ticks; 0 before the first measurement.
    rto: u32,
    /// In ticks; 0 while the RTO is in force.
    backed_off: u32,
}

impl Retained {
    /// Adopts the RTO of a sample, in ticks.
    pub(super) fn sampled(&mut self, rto: u32, constants: &TimerConstants) {
        self.rto = constants.limited(rto).max(1);
        self.backed_off = 0;
    }

    /// The RTO of the last sample, in ticks; 0 before the first.
    pub(super) fn estimated(&self) -> u32 {
        self.rto
    }

    pub(super) fn first_timeout(
        &self,
        start: &Start<'_>,
        random: &mut dyn Random,
        constants: &TimerConstants,
    ) -> Timer {
        let parameters = start.parameters;
        let rto = match (self.backed_off, self.rto) {
            (0, 0) => parameters.ack_timeout,
            (0, rto) => constants.span(rto),
            (backed_off, _) if !parameters.safeguards => {
                return constants.span(backed_off).max(constants.rto_min).into();
            }
            (backed_off, _) => constants.span(backed_off),
        };
        let mut longest = rto.scale(constants.dither);
        // Undithered timers keep senders synchronized that started together (RFC 7252 4.8.1).
        if parameters.safeguards {
            longest = longest.max(rto.scale(parameters.ack_random_factor));
        }
        let mut dithered = uniform(random, rto, longest);
        if parameters.safeguards {
            // Its successors are whole ticks.
            dithered = constants.span(constants.ticks(dithered));
        }
        dithered.max(constants.rto_min).into()
    }

    pub(super) fn next_timeout(
        &mut self,
        expired: &Expired<'_>,
        constants: &TimerConstants,
    ) -> Timer {
        let before = expired.timeout;
        let mut timeout = before.scale(constants.backoff);
        if let Some(cap) = expired.parameters.rto_max {
            timeout = timeout.min(cap.max(before));
        }
        let ticks = constants.ticks(timeout).max(1);
        // RFC 6298 5.5 to 5.7 and Californium 2.0.0 retain the back-off; Californium 3.14.0 forgets it.
        if constants.retain_backoff {
            self.backed_off = ticks;
        }
        constants.span(ticks).into()
    }

    /// Visits the gauges: the RTO in force, and the estimate below it.
    pub(super) fn gauges(
        &self,
        constants: &TimerConstants,
        visit: &mut dyn FnMut(&'static str, Gauge),
    ) {
        let time = |ticks| Gauge::Time(constants.span(ticks));
        match (self.backed_off, self.rto) {
            (0, 0) => visit("state", Gauge::State("blind")),
            (0, rto) => visit("rto", time(rto)),
            (backed_off, 0) => visit("rto", time(backed_off)),
            (backed_off, rto) => {
                visit("rto", time(backed_off));
                visit("rto_estimated", time(rto));
            }
        }
    }
}
