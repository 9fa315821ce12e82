//! The contract every controller keeps, as a suite that anyone can run.
//!
//! [`Trial`] plays an engine that keeps its own promises ([`Controller`](crate::Controller)) and
//! draws all else at random: round trips of every size, losses, ambiguous and late answers, idle
//! months, parallel exchanges, notifications. It holds a controller to it, or two of a kind, one of
//! which lives a thousand seconds later than the other, and checks that
//!
//! - timers are at least a microsecond, and a first timer is at most [`FIRST_MAX`];
//! - a timer is no shorter than the one before it in its exchange, unless the family says so;
//! - the window holds an exchange, a departure waits at most [`WAIT_MAX`] and comes no earlier for
//!   being asked later;
//! - an RTO, if there is one, is not 0;
//! - two controllers say the same: advice depends on what was told and drawn, not on the date,
//!   nor on anything outside the controller.
//!
//! That nothing overflows is checked by running it with overflow checks, as tests and fuzzing do.
//!
//! ```
//! use carob_cc::{contract::{Lcg, Trial}, registry};
//!
//! let entry = registry::find("cocoa-03").unwrap();
//! let mut trial = Trial::new(entry.build(), entry.build(), entry.shrinks);
//! let mut random = Lcg(1);
//! for _ in 0..1000 {
//!     trial.step(&mut random).unwrap();
//! }
//! ```

mod exchange;
mod trial;

pub use trial::Trial;

use core::fmt;

use crate::random::Random;
use crate::time::Duration;

/// No first timer is longer.
pub const FIRST_MAX: Duration = Duration::from_secs(4 * 3600);
/// Nothing waits longer for its departure.
pub const WAIT_MAX: Duration = Duration::from_secs(4 * 3600);

/// A promise that a controller did not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Breach {
    /// A timer of 0.
    NoTimer,
    /// A first timer beyond [`FIRST_MAX`].
    LongFirst(Duration),
    /// A timer shorter than the one before it.
    Shrank {
        /// The one before.
        before: Duration,
        /// The shorter one.
        after: Duration,
    },
    /// A window that holds nothing.
    ClosedWindow,
    /// A departure further off than [`WAIT_MAX`].
    LongWait(Duration),
    /// Asked later, a message would leave earlier.
    EarlierWhenLater,
    /// An RTO of 0.
    NoRto,
    /// Two controllers that were told the same say different things.
    Differs {
        /// What they were asked for.
        advice: &'static str,
    },
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTimer => f.write_str("a timer is 0"),
            Self::LongFirst(timer) => {
                write!(f, "a first timer of {timer} is longer than {FIRST_MAX}")
            }
            Self::Shrank { before, after } => {
                write!(f, "a timer shrank from {before} to {after} in its exchange")
            }
            Self::ClosedWindow => f.write_str("the window lets nothing out"),
            Self::LongWait(wait) => write!(f, "a message waits {wait}, longer than {WAIT_MAX}"),
            Self::EarlierWhenLater => f.write_str("asked later, a message would leave earlier"),
            Self::NoRto => f.write_str("the RTO is 0"),
            Self::Differs { advice } => {
                write!(f, "two controllers told the same differ in: {advice}")
            }
        }
    }
}

impl core::error::Error for Breach {}

/// A linear congruential stream for trials: fast, and the same everywhere.
#[derive(Clone, Copy, Debug)]
pub struct Lcg(pub u64);

impl Random for Lcg {
    fn next_u32(&mut self) -> u32 {
        // Knuth's MMIX multiplier; the high half is the good one.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(self.0 >> 32).unwrap_or_default()
    }
}
