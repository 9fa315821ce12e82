//! Freshness of notifications: reordering detection (RFC 7641 3.4).

use carob_cc::time::{Duration, Instant};

/// Values of the Observe option in notifications have 24 bits.
pub(crate) const SEQUENCE_MAX: u32 = 0xff_ffff;

/// A notification that arrives this much later than another is newer, regardless of its number.
pub(crate) const SURELY_NEWER: Duration = Duration::from_secs(128);

/// The newest notification of an observation so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Newest {
    /// The value of the Observe option.
    pub(crate) sequence: u32,
    /// The time of arrival.
    pub(crate) at: Instant,
}

impl Newest {
    /// Returns whether a notification with number `sequence` that arrives `now` is newer than this
    /// one.
    ///
    /// RFC 7641 3.4: (V1 < V2 and V2 - V1 < 2^23) or (V1 > V2 and V1 - V2 > 2^23) or (T2 > T1 + 128
    /// s).
    pub(crate) fn is_older_than(&self, sequence: u32, now: Instant) -> bool {
        const HALF: u32 = 1 << 23;
        debug_assert!(self.sequence <= SEQUENCE_MAX, "24 bits");
        let (first, second) = (self.sequence, sequence & SEQUENCE_MAX);
        (first < second && second - first < HALF)
            || (first > second && first - second > HALF)
            || now > self.at + SURELY_NEWER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn newer(first: u32, second: u32, after: Duration) -> bool {
        let newest = Newest {
            sequence: first,
            at: Instant::ZERO,
        };
        newest.is_older_than(second, Instant::ZERO + after)
    }

    #[test]
    fn numbers_count_upwards_on_a_circle_of_24_bits() {
        let soon = Duration::from_secs(1);
        assert!(newer(1, 2, soon));
        assert!(!newer(2, 1, soon));
        assert!(!newer(2, 2, soon), "a duplicate is not newer");
        assert!(newer(SEQUENCE_MAX, 0, soon), "the circle closes");
        assert!(!newer(0, SEQUENCE_MAX, soon));
    }

    #[test]
    fn half_the_circle_is_the_boundary() {
        let half = 1 << 23;
        let soon = Duration::from_secs(1);
        assert!(newer(0, half - 1, soon));
        assert!(!newer(0, half, soon));
        assert!(newer(half + 1, 0, soon));
        assert!(!newer(half, 0, soon));
    }

    #[test]
    fn after_128_seconds_any_number_is_newer() {
        assert!(!newer(9, 3, SURELY_NEWER));
        assert!(newer(9, 3, SURELY_NEWER + Duration::from_micros(1)));
    }
}
