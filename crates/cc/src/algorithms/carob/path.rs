//! Round trips of a path: smoothed, deviation, latest, least and greatest.

use super::{CarobConstants, micros};
use crate::time::{Duration, Instant};

/// A bound over one to two periods of memory.
#[derive(Clone, Copy, Debug, Default)]
struct Bound {
    now: u32,
    before: u32,
}

/// Round trips of a path in microseconds; all 0 before the first sample.
#[derive(Debug, Default)]
pub(super) struct Path {
    srtt: u32,
    deviation: u32,
    latest: u32,
    least: Bound,
    greatest: Bound,
    /// The beginning of the current period of memory.
    since: Instant,
    /// Doublings of the margin.
    patience: u8,
    /// Exchanges in a row without a retransmission.
    calm: u8,
}

impl Path {
    pub(super) fn srtt(&self) -> Option<u32> {
        (self.srtt > 0).then_some(self.srtt)
    }

    /// The least round trip: the path without a queue.
    pub(super) fn base(&self) -> Option<u32> {
        let least = self.least;
        (self.srtt > 0).then_some(match least.before {
            0 => least.now,
            before => before.min(least.now),
        })
    }

    /// The greatest round trip.
    pub(super) fn greatest(&self) -> u32 {
        self.greatest.now.max(self.greatest.before)
    }

    /// Adds a certain round trip; returns whether a period of memory has ended.
    pub(super) fn sample(&mut self, constants: &CarobConstants, now: Instant, sample: u32) {
        if self.srtt == 0 {
            (self.srtt, self.deviation) = (sample, sample / 4);
            (self.least.now, self.greatest.now) = (sample, sample);
            self.since = now;
        } else {
            let error = self.srtt.abs_diff(sample);
            self.deviation = constants.beta.blend(self.deviation, error);
            self.srtt = constants.alpha.blend(self.srtt, sample).max(1);
        }
        self.latest = sample;
        self.least.now = self.least.now.min(sample);
        self.greatest.now = self.greatest.now.max(sample);
    }

    /// Begins another period of memory if this one is over; returns whether it did.
    pub(super) fn forget(&mut self, constants: &CarobConstants, now: Instant) -> bool {
        if now.since(self.since) <= constants.memory {
            return false;
        }
        self.since = now;
        self.least = Bound {
            now: self.latest,
            before: self.least.now,
        };
        self.greatest = Bound {
            now: self.latest,
            before: self.greatest.now,
        };
        true
    }

    /// Settles an exchange of which a known transmission was answered: those after it were not needed.
    pub(super) fn settle(&mut self, retransmissions: u8, copy: u8, constants: &CarobConstants) {
        if retransmissions > copy {
            self.patience = (self.patience + 1).min(constants.patience_max);
            self.calm = 0;
        } else if retransmissions == 0 {
            self.calm = self.calm.saturating_add(1);
            if self.calm >= constants.patience_period {
                self.patience = self.patience.saturating_sub(1);
                self.calm = 0;
            }
        } else {
            self.calm = 0;
        }
    }

    /// Returns whether the latest round trip shows a queue.
    pub(super) fn is_queued(&self, constants: &CarobConstants) -> bool {
        let base = self.base().unwrap_or(0);
        u64::from(self.latest) > constants.queued_factor.of(u64::from(base))
    }

    /// The time after which a message is lost if a later one has been answered.
    pub(super) fn time_threshold(&self, constants: &CarobConstants) -> Option<Duration> {
        let round_trip = micros(self.srtt()?.max(self.latest));
        let deviations = self.deviation.saturating_mul(u32::from(constants.gap_k));
        let threshold = round_trip
            .scale(constants.time_threshold)
            .max(round_trip + constants.granularity)
            .max(micros(self.srtt.saturating_add(deviations)));
        Some(threshold)
    }

    /// The RTO: srtt + max(k x deviation, srtt x margin, granularity), and no less than the latest
    /// round trip times its factor.
    pub(super) fn rto(&self, constants: &CarobConstants) -> Option<Duration> {
        self.patient_rto(constants, 0)
    }

    /// The same for a single exchange: with a margin that retransmissions which were not needed double,
    /// and short only if round trips are steady.
    pub(super) fn exchange_rto(&self, constants: &CarobConstants) -> Option<Duration> {
        let rto = self.patient_rto(constants, self.patience)?;
        let spread = self.greatest().saturating_sub(self.base()?);
        let margin = spread.saturating_mul(u32::from(constants.spread_factor));
        let least = micros(self.srtt.saturating_add(margin)).min(constants.short_timer);
        Some(rto.max(least))
    }

    fn patient_rto(&self, constants: &CarobConstants, patience: u8) -> Option<Duration> {
        let srtt = self.srtt()?;
        let least = constants.margin_min.down(srtt);
        let least = least.max(constants.granularity.as_micros_u32());
        let margin = self.deviation.saturating_mul(u32::from(constants.k)).max(least);
        let margin = margin.saturating_mul(1 << patience.min(16));
        let rto = micros(srtt.saturating_add(margin));
        Some(rto.max(micros(self.latest).scale(constants.latest_factor)))
    }
}
