//! Peak-Hopper: the longer of a slowly decaying RTO and a reaction to a growing round trip.
//!
//! `delta` is the relative change of the round trip, `B` twice that or the rest of an earlier one.
//! The RTO is the largest of `D` times itself, `1 + B` times the last two round trips' maximum, and
//! that maximum plus two ticks of 50 ms. `peak-hopper-cal` has two defects of Californium: an
//! integer division, so that `delta` is 0 unless the round trip changes by at least its own length,
//! and a comparison of the second sample with 0. `docs/algorithms.md#peak-hopper`; the paper by
//! Ekstrom and Ludwig was not available.

use super::retained::{Retained, TimerConstants};
use crate::controller::{Controller, Gauge, Timer};
use crate::evidence::{Answered, Expired, Start};
use crate::random::Random;
use crate::ratio::Ratio;
use crate::registry::{Family, Profile, Suggested};
use crate::time::{Duration, Instant};

variants! {
    /// Computation of the round trip's change.
    pub enum Change {
        /// As a fraction, from the second sample on.
        Real = "real",
        /// In integers, without the first sample's change: Californium's slips.
        Whole = "whole",
    }
}

constants! {
    /// Constants of Peak-Hopper.
    pub struct PeakHopperConstants {
        /// computation of the round trip's change
        change: Change,
        /// decay of the RTO and of the reaction, per sample
        decay: Ratio,
        /// largest reaction
        reaction_max: Ratio,
        /// RTO after the first sample as a multiple of it
        first: Ratio,
        /// by how much the RTO exceeds the last two samples at least
        sample_margin: Duration,
        ..timer: TimerConstants
    }
}

/// Fixed-point one of the reaction.
const ONE: u32 = 1 << 30;

/// Peak-Hopper's state for one peer.
#[derive(Debug)]
pub struct PeakHopper {
    constants: &'static PeakHopperConstants,
    retained: Retained,
    /// The last sample, in ticks; 0 before the first.
    last: u32,
    /// The value that the next sample is compared with, in ticks.
    compared: u32,
    /// `B` as a multiple of 2^-30.
    reaction: u32,
}

impl PeakHopper {
    /// `delta` in fixed point.
    fn change(&self, sample: u32) -> u32 {
        // No division by zero below: `certain_sample` returns at least one tick.
        let difference = sample.abs_diff(self.compared);
        let delta = match self.constants.change {
            Change::Real => u64::from(difference) * u64::from(ONE) / u64::from(sample),
            Change::Whole => u64::from(difference / sample) * u64::from(ONE),
        };
        u32::try_from(delta).unwrap_or(u32::MAX)
    }

    fn later(&mut self, sample: u32) -> u32 {
        let constants = self.constants;
        let scaled = |ratio: Ratio, value: u32| {
            u32::try_from(ratio.of(u64::from(value))).unwrap_or(u32::MAX)
        };
        let left = scaled(constants.decay, self.reaction);
        self.reaction = self
            .change(sample)
            .saturating_mul(2)
            .max(left)
            .min(scaled(constants.reaction_max, ONE));
        let longest = sample.max(self.compared);
        // Added in 64 bits: a `reaction_max` of 3 or more does not leave room for the 1.
        let grown =
            u64::from(longest) * (u64::from(ONE) + u64::from(self.reaction)) / u64::from(ONE);
        let margin = constants.timer.ticks(constants.sample_margin);
        let least = longest.max(self.last).saturating_add(margin);
        let before = self.retained.estimated();
        let decayed = if constants.timer.tick > Duration::from_micros(1) {
            constants.decay.down(before) // as Californium rounds
        } else {
            scaled(constants.decay, before)
        };
        decayed
            .max(u32::try_from(grown).unwrap_or(u32::MAX))
            .max(least)
    }
}

const fn profile(
    name: &'static str,
    about: &'static str,
    source: &'static str,
    change: Change,
    timer: TimerConstants,
) -> Profile<PeakHopperConstants> {
    Profile {
        name,
        about,
        source,
        project_choice: None,
        constants: PeakHopperConstants {
            change,
            decay: Ratio::new(23, 24),
            reaction_max: Ratio::ONE,
            first: Ratio::new(7, 4),
            sample_margin: Duration::from_millis(100),
            timer,
        },
        suggested: Suggested {
            max_retransmit: None,
            rto_max: Some(Duration::from_secs(60)),
        },
    }
}

impl Family for PeakHopper {
    type Constants = PeakHopperConstants;
    const PROFILES: &'static [Profile<PeakHopperConstants>] = &[
        profile(
            "peak-hopper",
            "Peak-Hopper: slow decay, quick reaction to a growing RTT, backoff retained",
            "Californium 3.14.0, PeakhopperRto.java (retention: 2.0.0); \
             docs/algorithms.md#peak-hopper",
            Change::Real,
            TimerConstants::BOUNDED,
        ),
        profile(
            "peak-hopper-cal",
            "Peak-Hopper as in Californium: the RTT's change in integer arithmetic",
            "Californium 3.14.0, PeakhopperRto.java (retention: 2.0.0); \
             docs/algorithms.md#peak-hopper-cal",
            Change::Whole,
            TimerConstants::CALIFORNIUM,
        ),
    ];

    fn new(constants: &'static PeakHopperConstants) -> Self {
        Self {
            constants,
            retained: Retained::default(),
            last: 0,
            compared: 0,
            reaction: 0,
        }
    }
}

impl Controller for PeakHopper {
    fn first_timeout(&mut self, start: &Start<'_>, random: &mut dyn Random) -> Timer {
        self.retained
            .first_timeout(start, random, &self.constants.timer)
    }

    fn next_timeout(&mut self, expired: &Expired<'_>, _: &mut dyn Random) -> Timer {
        self.retained.next_timeout(expired, &self.constants.timer)
    }

    fn on_answered(&mut self, answered: &Answered<'_>) {
        let constants = self.constants;
        let Some(sample) = constants.timer.certain_sample(answered) else {
            return;
        };
        let rto = if self.last == 0 {
            constants.first.down(sample)
        } else {
            self.later(sample)
        };
        // Californium compares the second sample with 0, not with the first one.
        if self.last > 0 || constants.change == Change::Real {
            self.compared = sample;
        }
        self.last = sample;
        self.retained.sampled(rto, &constants.timer);
    }

    fn gauges(&self, _: Instant, visit: &mut dyn FnMut(&'static str, Gauge)) {
        let timer = &self.constants.timer;
        self.retained.gauges(timer, visit);
        if self.last > 0 {
            visit("round_trip", Gauge::Time(timer.span(self.last)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_reaction_max_does_not_overflow() {
        const CONSTANTS: PeakHopperConstants = PeakHopperConstants {
            reaction_max: Ratio::new(4, 1),
            ..PeakHopper::PROFILES[0].constants
        };
        let mut hopper = PeakHopper::new(&CONSTANTS);
        (hopper.last, hopper.compared) = (1_000_000, 1_000_000);
        // The round trip falls to a thousandth, so the reaction is at its limit: just below 4.
        let rto = hopper.later(1_000);
        assert!((4_900_000..=5_000_000).contains(&rto), "{rto}");
    }
}
