//! Time in whole microseconds, as a `u64`.
//!
//! Controllers, protocol engine and simulator share this choice: a microsecond resolves the 16 us
//! symbols of IEEE 802.15.4 and loopback round trips, and a `u64` of them lasts 584,000 years.
//! Arithmetic saturates; rounding, where there is any, is to nearest (half up).

use core::fmt;
use core::ops::{Add, AddAssign, Sub};
use core::str::FromStr;

use crate::ratio::Ratio;

/// A point in time: microseconds since an epoch the driver chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Instant {
    micros: u64,
}

/// A length of time in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Duration {
    micros: u64,
}

impl Instant {
    /// The driver's epoch.
    pub const ZERO: Self = Self { micros: 0 };
    /// Later than any event: "never".
    pub const FAR_FUTURE: Self = Self { micros: u64::MAX };

    /// Creates the instant `micros` microseconds after the epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Self { micros }
    }

    /// Returns the microseconds since the epoch.
    pub const fn as_micros(self) -> u64 {
        self.micros
    }

    /// Returns the time since `earlier`; zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration {
            micros: self.micros.saturating_sub(earlier.micros),
        }
    }
}

impl Duration {
    /// Zero.
    pub const ZERO: Self = Self { micros: 0 };
    /// The longest representable duration.
    pub const MAX: Self = Self { micros: u64::MAX };

    /// Creates a duration of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self { micros }
    }

    /// Creates a duration of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self {
            micros: millis.saturating_mul(1_000),
        }
    }

    /// Creates a duration of `secs` seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self {
            micros: secs.saturating_mul(1_000_000),
        }
    }

    /// Returns whole microseconds.
    pub const fn as_micros(self) -> u64 {
        self.micros
    }

    /// Returns microseconds in 32 bits, as controllers keep them; saturates at 71.6 minutes.
    pub fn as_micros_u32(self) -> u32 {
        u32::try_from(self.micros).unwrap_or(u32::MAX)
    }

    /// Returns whole milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.micros / 1_000
    }

    /// Returns whole seconds, rounded down.
    pub const fn as_secs(self) -> u64 {
        self.micros / 1_000_000
    }

    /// Returns whether the duration is zero.
    pub const fn is_zero(self) -> bool {
        self.micros == 0
    }

    /// Multiplies by a ratio, rounded to the nearest microsecond.
    pub fn scale(self, factor: Ratio) -> Self {
        Self {
            micros: factor.of(self.micros),
        }
    }

    /// Multiplies by a whole factor.
    pub const fn times(self, factor: u64) -> Self {
        Self {
            micros: self.micros.saturating_mul(factor),
        }
    }

    /// Returns half of the duration, rounded down.
    pub const fn half(self) -> Self {
        Self {
            micros: self.micros / 2,
        }
    }

    /// Subtracts; zero if `other` is longer.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self {
            micros: self.micros.saturating_sub(other.micros),
        }
    }

    /// Returns the absolute difference of two durations.
    pub const fn abs_diff(self, other: Self) -> Self {
        Self {
            micros: self.micros.abs_diff(other.micros),
        }
    }
}

impl From<core::time::Duration> for Duration {
    fn from(d: core::time::Duration) -> Self {
        Self {
            micros: u64::try_from(d.as_micros()).unwrap_or(u64::MAX),
        }
    }
}

impl From<Duration> for core::time::Duration {
    fn from(d: Duration) -> Self {
        Self::from_micros(d.micros)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, d: Duration) -> Self {
        Self {
            micros: self.micros.saturating_add(d.micros),
        }
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;
    fn sub(self, d: Duration) -> Self {
        Self {
            micros: self.micros.saturating_sub(d.micros),
        }
    }
}

impl Add for Duration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            micros: self.micros.saturating_add(other.micros),
        }
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl fmt::Display for Duration {
    /// `1.5 s`, `400 ms`, `16 us`: the largest suitable unit, in text that [`FromStr`] parses back
    /// exactly.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.micros {
            0 => return f.write_str("0 s"),
            n if n < 1_000 => (1, "us"),
            n if n < 1_000_000 => (1_000, "ms"),
            _ => (1_000_000, "s"),
        };
        let (whole, mut rest) = (self.micros / unit, self.micros % unit);
        write!(f, "{whole}")?;
        if rest > 0 {
            f.write_str(".")?;
            let mut digit = unit / 10;
            while rest > 0 && digit > 0 {
                write!(f, "{}", rest / digit)?;
                rest %= digit;
                digit /= 10;
            }
        }
        write!(f, " {name}")
    }
}

/// Error of a text that is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurationError;

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "not a duration: write a number and a unit (us, ms, s, min, h), as in \"400 ms\"",
        )
    }
}

impl core::error::Error for DurationError {}

impl FromStr for Duration {
    type Err = DurationError;

    /// Reads `"400 ms"`, `"2s"`, `"1.5 min"`; the unit is required.
    fn from_str(text: &str) -> Result<Self, DurationError> {
        let text = text.trim();
        let split = text
            .find(|c: char| c.is_ascii_alphabetic())
            .ok_or(DurationError)?;
        let (number, unit) = (text[..split].trim(), &text[split..]);
        let unit = match unit {
            "us" => 1,
            "ms" => 1_000,
            "s" => 1_000_000,
            "min" => 60_000_000,
            "h" => 3_600_000_000,
            _ => return Err(DurationError),
        };
        let micros = if number.contains('/') {
            let ratio: Ratio = number.parse().map_err(|_| DurationError)?;
            Some(ratio.of(unit))
        } else {
            decimal(number, unit)
        };
        micros.map(Self::from_micros).ok_or(DurationError)
    }
}

/// `number`, a decimal with up to six places, times `unit`.
///
/// Whole units apart from the rest: a ratio holds no more than 71 minutes of microseconds.
fn decimal(number: &str, unit: u64) -> Option<u64> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (whole, rest) = number.split_once('.').unwrap_or((number, "0"));
    // Six places are a microsecond of a second.
    if !digits(whole) || !digits(rest) || rest.len() > 6 {
        return None;
    }
    let denominator = rest.bytes().fold(1, |d, _| d * 10);
    let rest = Ratio::new(rest.parse().ok()?, denominator).of(unit);
    let whole: u64 = whole.parse().ok()?;
    whole.checked_mul(unit)?.checked_add(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::string::ToString;

    #[test]
    fn text_reads_back() {
        for micros in [
            0,
            1,
            999,
            1_000,
            1_500,
            400_000,
            2_156_250,
            93_000_000,
            1_234_567_891,
            6_216_049_296,
            86_400_000_001,
        ] {
            let d = Duration::from_micros(micros);
            assert_eq!(d.to_string().parse::<Duration>(), Ok(d), "{d}");
        }
        assert_eq!("1.5 min".parse::<Duration>(), Ok(Duration::from_secs(90)));
    }

    #[test]
    fn a_bare_number_is_refused() {
        for text in [
            "",
            "5",
            "s",
            "5 parsecs",
            "-1 s",
            "1..2 s",
            "1e3 s",
            "1. s",
            ".5 s",
            "1.+2 s",
        ] {
            assert_eq!(text.parse::<Duration>(), Err(DurationError), "{text}");
        }
    }

    #[test]
    fn time_never_wraps() {
        assert_eq!(
            Instant::FAR_FUTURE + Duration::from_secs(1),
            Instant::FAR_FUTURE
        );
        assert_eq!(Instant::ZERO.since(Instant::from_micros(5)), Duration::ZERO);
    }
}
