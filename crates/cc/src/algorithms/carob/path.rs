//! Round trips of a path: smoothed, deviation, latest, least and greatest.

use super::{CarobConstants, micros};
use crate::parameters::TransmissionParameters;
use crate::time::{Duration, Instant};

/// What clocks and schedulers may be late.
const GRANULARITY: Duration = Duration::from_millis(1);

/// Round trips between these may make timers of RFC 7252 expire: half of ACK_TIMEOUT, and ACK_TIMEOUT times
/// ACK_RANDOM_FACTOR.
pub(super) const NEAR: core::ops::Range<u32> = 1_000_000..3_000_000;

/// Returns whether a longer queue would make timers of RFC 7252 expire, which other senders have on the
/// path, which would then send everything twice.
pub(super) fn is_near_default_timers(round_trip: u32) -> bool {
    NEAR.contains(&round_trip)
}

/// A bound over one to two periods of memory.
#[derive(Clone, Copy, Debug, Default)]
struct Bound {
    now: u32,
    before: u32,
}

/// Round trips of a path in microseconds; all 0 before the first sample.
#[derive(Clone, Debug, Default)]
pub(super) struct Path {
    srtt: u32,
    deviation: u32,
    latest: u32,
    least: Bound,
    greatest: Bound,
    /// The beginning of the current period of memory.
    since: Instant,
}

impl Path {
    pub(super) fn srtt(&self) -> Option<u32> {
        (self.srtt > 0).then_some(self.srtt)
    }

    pub(super) fn deviation(&self) -> u32 {
        self.deviation
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

    /// The latest round trip.
    pub(super) fn latest(&self) -> u32 {
        self.latest
    }

    /// The time after which a message is lost if a later one has been answered.
    pub(super) fn time_threshold(&self, constants: &CarobConstants) -> Option<Duration> {
        let round_trip = micros(self.srtt()?.max(self.latest));
        let threshold = round_trip
            .scale(constants.time_threshold)
            .max(round_trip + GRANULARITY)
            .max(micros(
                self.srtt.saturating_add(self.deviation.saturating_mul(3)),
            ));
        Some(threshold)
    }

    /// The RTO: srtt + max(4 x deviation, srtt x tolerance, granularity), and no less than the latest round
    /// trip with its tolerance.
    pub(super) fn rto(&self, constants: &CarobConstants) -> Option<Duration> {
        let srtt = self.srtt()?;
        let least = constants
            .tolerance
            .down(srtt)
            .max(GRANULARITY.as_micros_u32());
        let margin = self.deviation.saturating_mul(4).max(least);
        let latest = self
            .latest
            .saturating_add(constants.tolerance.down(self.latest));
        Some(micros(srtt.saturating_add(margin).max(latest)))
    }

    /// The same for a single exchange: below ACK_TIMEOUT only if round trips are steady.
    pub(super) fn exchange_rto(
        &self,
        constants: &CarobConstants,
        parameters: &TransmissionParameters,
    ) -> Option<Duration> {
        let rto = self.rto(constants)?;
        let limit = self.base()?.saturating_mul(u32::from(constants.steady));
        let steady = self.greatest() <= limit;
        Some(if steady {
            rto
        } else {
            rto.max(parameters.ack_timeout)
        })
    }
}

/// Round trips of the path at one answer, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trips {
    pub(super) base: u32,
    smoothed: u32,
    deviation: u32,
    greatest: u32,
}

impl Trips {
    pub(super) fn of(path: &Path, latest: u32) -> Self {
        Self {
            base: path.base().unwrap_or(latest),
            smoothed: path.srtt().unwrap_or(latest),
            deviation: path.deviation(),
            greatest: path.greatest(),
        }
    }

    #[cfg(test)]
    pub(super) const fn new(base: u32, smoothed: u32, greatest: u32) -> Self {
        Self {
            base,
            smoothed,
            deviation: 0,
            greatest,
        }
    }

    fn range(self) -> u32 {
        self.greatest.saturating_sub(self.base)
    }

    /// Returns whether a remaining queue may be told from a path whose long round trips vary by themselves.
    pub(super) fn tells_queue(self) -> bool {
        self.base < NEAR.end || self.deviation < self.range() / 4
    }

    /// Returns whether round trips vary as over a radio that many share: the back-off of its nodes delays packets by
    /// multiples of the least round trip, while some still take that.
    pub(super) fn vary(self, steady: u8) -> bool {
        self.smoothed / 2 > self.base && self.greatest / u32::from(steady.max(1)) > self.base
    }

    /// Returns whether the smoothed one is longer than the path without a queue and `queue` together.
    pub(super) fn are_beyond(self, queue: u32) -> bool {
        self.smoothed > self.base.saturating_add(queue)
    }

    /// Returns whether the smoothed round trip is above a number of eighths of the way from least to greatest,
    /// if these show a queue: they are further apart than half the target.
    pub(super) fn exceed(self, eighths: u32, target: u32) -> bool {
        let range = self.range();
        range > target / 2 && self.smoothed.saturating_sub(self.base) > range / 8 * eighths
    }
}
