//! Contract suite for controllers, which any implementation can run.
//!
//! [`Trial`] plays an engine that keeps its own guarantees ([`Controller`](crate::Controller)) and
//! draws everything else at random: round trips of every size, losses, ambiguous and late answers,
//! idle months, parallel exchanges, notifications, reports of several messages. It tests one
//! controller, or two of a kind whose clocks differ by a thousand seconds, and checks that
//!
//! - timers are at least a microsecond, and a first timer is at most [`FIRST_MAX`];
//! - a timer is no shorter than the one before it in its exchange, unless the family declares it;
//! - the window permits an exchange;
//! - a departure time is at most [`WAIT_MAX`] ahead, and never earlier when requested later;
//! - an RTO, if there is one, is not 0;
//! - two controllers agree: decisions depend on events and draws, not on the date, nor on anything
//!   outside the controller.
//!
//! Overflow is detected by running it with overflow checks, as tests and fuzzing do.
//!
//! [`Check`] runs many trials of a family, and its error explains the earliest breach that it found.
//!
//! ```
//! use carob_cc::{contract::{Lcg, Trial}, registry};
//!
//! let entry = registry::find("cocoa-03").unwrap();
//! let mut trial = Trial::new(entry.build(), entry.build(), entry.shrinks);
//! let mut random = Lcg(1);
//! for _ in 0..1000 {
//! trial.step(&mut random).unwrap();
//! }
//! ```

mod check;
mod trial;

pub use check::{Check, Violation};
pub use trial::Trial;

use core::fmt;

use crate::random::Random;
use crate::time::Duration;

/// Maximum of a first timer: 4 h.
pub const FIRST_MAX: Duration = Duration::from_secs(4 * 3600);
/// Maximum wait for a departure: 4 h.
pub const WAIT_MAX: Duration = Duration::from_secs(4 * 3600);

/// Violation of the contract.
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
    /// A window that permits no exchange.
    ClosedWindow,
    /// A departure time more than [`WAIT_MAX`] ahead.
    LongWait(Duration),
    /// A message that may depart earlier when requested later.
    EarlierWhenLater,
    /// An RTO of 0.
    NoRto,
    /// Two controllers with the same events decide differently.
    Differs {
        /// The decision.
        advice: &'static str,
    },
}

impl Breach {
    /// The rule of the contract that is violated.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::NoTimer => "a timer is at least a microsecond",
            Self::LongFirst(_) => "a first timer is at most 4 h",
            Self::Shrank { .. } => {
                "a timer is no shorter than the one before it in its exchange, unless Family::SHRINKS"
            }
            Self::ClosedWindow => "the window permits an exchange of at least one byte",
            Self::LongWait(_) => "a departure time is at most 4 h ahead",
            Self::EarlierWhenLater => "a departure time is never earlier when requested later",
            Self::NoRto => "the gauge \"rto\", if there is one, is not 0",
            Self::Differs { .. } => {
                "equal events and draws give equal decisions, at any date (no state outside the controller)"
            }
        }
    }
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
            Self::ClosedWindow => f.write_str("the window permits no exchange"),
            Self::LongWait(wait) => write!(f, "a message waits {wait}, longer than {WAIT_MAX}"),
            Self::EarlierWhenLater => {
                f.write_str("requested later, a message would depart earlier")
            }
            Self::NoRto => f.write_str("the RTO is 0"),
            Self::Differs { advice } => {
                write!(f, "two controllers with equal events differ in: {advice}")
            }
        }
    }
}

impl core::error::Error for Breach {}

/// Linear congruential stream for trials: fast, and equal on every machine.
#[derive(Clone, Copy, Debug)]
pub struct Lcg(pub u64);

impl Random for Lcg {
    fn next_u32(&mut self) -> u32 {
        // Knuth's MMIX multiplier; the high half has the better bits.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(self.0 >> 32).unwrap_or_default()
    }
}
