//! Fault: outages of the link, in both directions.
//!
//! Packets that are sent during an outage are lost before they use the link. Those that are on the link
//! or in its buffer already arrive.

use carob_cc::time::{Duration, Instant};

use super::{FaultError, check_times, is_within};
use crate::engine::Engine;
use crate::net::Network;

/// Outages of the link, for datagrams and segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outages {
    /// Beginning of the first outage.
    pub first: Duration,
    /// Time between the beginnings of two outages; zero for a single one.
    pub interval: Duration,
    /// Duration of each, above zero.
    pub duration: Duration,
}

impl Outages {
    pub(super) fn check(&self, time_limit: Duration) -> Result<(), FaultError> {
        if self.duration.is_zero() {
            let why = "an outage takes some time";
            let name = "outage_duration";
            return Err(FaultError { name, why });
        }
        let names = ["outage", "outage_interval"];
        check_times(names, self.first, self.interval, self.duration, time_limit)
    }

    fn has(&self, now: Instant) -> bool {
        is_within(now, self.first, self.interval, self.duration)
    }
}

impl<N: Network> Engine<'_, N> {
    /// Returns whether the link is out.
    pub(crate) fn is_link_out(&self) -> bool {
        let outages = self.spec.faults.outages;
        outages.is_some_and(|outages| outages.has(self.now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_begins_at_its_time_and_ends_before_its_end() {
        let s = Duration::from_secs;
        let mut outages = Outages {
            first: s(10),
            interval: Duration::ZERO,
            duration: s(5),
        };
        let is_out = |outages: &Outages, micros| outages.has(Instant::from_micros(micros));
        for (micros, out) in [
            (9_999_999, false),
            (10_000_000, true),
            (14_999_999, true),
            (15_000_000, false),
            (30_000_000, false),
        ] {
            assert_eq!(is_out(&outages, micros), out, "{micros}");
        }
        outages.interval = s(20);
        for (micros, out) in [
            (29_999_999, false),
            (30_000_000, true),
            (35_000_000, false),
            (50_000_000, true),
        ] {
            assert_eq!(is_out(&outages, micros), out, "{micros}");
        }
    }
}
