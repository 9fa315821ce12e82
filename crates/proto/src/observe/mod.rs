//! Observing resources (RFC 7641), both roles. State:
//!
//! - [`Newest`]: a client discards notifications that arrive out of order;
//! - `tokens`: the tokens of a client's observations;
//! - `observers`: a server's list of observers, with the version last sent to each;
//! - `state`: the representation that notifications carry.
//!
//! These modules neither build nor send messages. The modules `client`, `server` and `carrier` do that, as
//! parts of the layers of these names: a notification is an exchange under its peer's controller.

mod carrier;
pub(crate) mod client;
pub(crate) mod observers;
mod server;
pub(crate) mod state;
pub(crate) mod tokens;

use carob_cc::time::{Duration, Instant};

use crate::codec::{MessageView, OptionNumber};

/// The value of the Observe option in a request (RFC 7641 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observe {
    /// 0: registers the client in the list of observers, or refreshes the entry.
    Register,
    /// 1: removes the client from the list.
    Deregister,
}

impl Observe {
    /// The option's value.
    pub(crate) const fn value(self) -> u32 {
        match self {
            Self::Register => 0,
            Self::Deregister => 1,
        }
    }

    /// Decodes a value in a request. `None` for unassigned values, which are ignored like an
    /// elective option.
    pub(crate) const fn from_value(value: u32) -> Option<Self> {
        match value {
            0 => Some(Self::Register),
            1 => Some(Self::Deregister),
            _ => None,
        }
    }
}

/// Returns whether a request has an Observe option.
pub(crate) fn has_observe(message: &MessageView<'_>) -> bool {
    message.uint_option(OptionNumber::OBSERVE).is_some()
}

/// The observed representation of a resource, by a number of the application.
///
/// All observers of a subject receive the same notifications. Requests with different
/// representations, by query or by Accept, need different subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject(pub u64);

/// Values of the Observe option in notifications have 24 bits.
pub(crate) const SEQUENCE_MAX: u32 = 0xff_ffff;

/// A notification that arrives this much later than another is newer, regardless of its number.
pub(crate) const SURELY_NEWER: Duration = Duration::from_secs(128);

/// The newest notification of an observation so far, to detect reordering (RFC 7641 3.4).
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
        // A longer option is no sequence number; only 24 bits count (RFC 7641 2).
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
