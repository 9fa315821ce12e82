//! Gains and factors as ratios of whole numbers.

use core::fmt;
use core::str::FromStr;

/// A non-negative rational number, `numerator / denominator`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    numerator: u32,
    denominator: u32,
}

impl Ratio {
    /// One.
    pub const ONE: Self = Self::new(1, 1);

    /// Creates `numerator / denominator`. A zero denominator is a bug of the caller.
    pub const fn new(numerator: u32, denominator: u32) -> Self {
        assert!(denominator > 0, "a ratio needs a denominator");
        Self {
            numerator,
            denominator,
        }
    }

    /// Multiplies `value` by the ratio, rounded to nearest (half up), saturating.
    pub fn of(self, value: u64) -> u64 {
        let (n, d) = (u64::from(self.numerator), u64::from(self.denominator));
        // Whole and rest apart, so that no product overflows before it must.
        let rest = (value % d) * n + d / 2;
        (value / d).saturating_mul(n).saturating_add(rest / d)
    }

    /// Multiplies `value` by the ratio, rounded down, saturating.
    pub fn down(self, value: u32) -> u32 {
        let product = u64::from(value) * u64::from(self.numerator);
        u32::try_from(product / u64::from(self.denominator)).unwrap_or(u32::MAX)
    }

    /// The reciprocal; zero for zero.
    #[must_use]
    pub const fn inverse(self) -> Self {
        if self.numerator == 0 {
            return self;
        }
        Self::new(self.denominator, self.numerator)
    }

    /// Computes `(1 - self) x old + self x new`: one step of an exponentially weighted mean.
    ///
    /// Rounded to nearest once, on the sum. `self` must be at most one.
    pub fn blend(self, old: u32, new: u32) -> u32 {
        let (n, d) = (u64::from(self.numerator), u64::from(self.denominator));
        debug_assert!(n <= d, "a gain above one");
        // Two products of 32 bits each, of which the second factors add up to d: no overflow.
        let sum = u64::from(old) * d.saturating_sub(n) + u64::from(new) * n;
        u32::try_from((sum + d / 2) / d).unwrap_or(u32::MAX)
    }
}

impl fmt::Display for Ratio {
    /// As a decimal where it is short (`1.5`), else as a fraction (`1/3`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (n, d) = (u64::from(self.numerator), u64::from(self.denominator));
        let scaled = n * 1_000_000;
        if !scaled.is_multiple_of(d) {
            return write!(f, "{n}/{d}");
        }
        write!(f, "{}", n / d)?;
        let mut rest = (scaled / d) % 1_000_000;
        if rest > 0 {
            f.write_str(".")?;
            let mut digit = 100_000;
            while rest > 0 {
                write!(f, "{}", rest / digit)?;
                rest %= digit;
                digit /= 10;
            }
        }
        Ok(())
    }
}

/// Error of a text that is not a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RatioError;

impl fmt::Display for RatioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a ratio: a decimal (\"1.5\") or a fraction (\"1/8\")")
    }
}

impl core::error::Error for RatioError {}

impl FromStr for Ratio {
    type Err = RatioError;

    /// Reads `"2"`, `"1.5"` (up to six decimals) or `"1/8"`.
    fn from_str(text: &str) -> Result<Self, RatioError> {
        let digits = |s: &str| -> Result<u32, RatioError> {
            if s.is_empty() || !s.bytes().all(|b| b.is_ascii_digit()) {
                return Err(RatioError);
            }
            s.parse().map_err(|_| RatioError)
        };
        let text = text.trim();
        if let Some((n, d)) = text.split_once('/') {
            let (n, d) = (digits(n.trim())?, digits(d.trim())?);
            return if d == 0 {
                Err(RatioError)
            } else {
                Ok(Self::new(n, d))
            };
        }
        let Some((whole, decimals)) = text.split_once('.') else {
            return Ok(Self::new(digits(text)?, 1));
        };
        if decimals.len() > 6 {
            return Err(RatioError);
        }
        let denominator = decimals.bytes().fold(1_u32, |d, _| d * 10);
        let numerator = digits(whole)?
            .checked_mul(denominator)
            .and_then(|n| n.checked_add(digits(decimals).ok()?))
            .ok_or(RatioError)?;
        Ok(Self::new(numerator, denominator))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::string::ToString;

    #[test]
    fn products_round_to_nearest() {
        assert_eq!(Ratio::new(13, 10).of(10_140_000), 13_182_000);
        assert_eq!(Ratio::new(1, 3).of(10), 3);
        assert_eq!(Ratio::new(1, 2).of(3), 2);
        assert_eq!(Ratio::new(3, 1).of(u64::MAX), u64::MAX);
    }

    #[test]
    fn a_blend_is_a_weighted_mean() {
        // E_w = 3 s mixed into RTO = 1.5 s with weight 1/4, twice (draft-ietf-core-cocoa-03).
        let quarter = Ratio::new(1, 4);
        assert_eq!(quarter.blend(1_500_000, 3_000_000), 1_875_000);
        assert_eq!(quarter.blend(1_875_000, 3_000_000), 2_156_250);
    }

    #[test]
    fn text_reads_back() {
        for text in ["1.5", "1.3", "2", "0.25", "0.125", "1/3"] {
            assert_eq!(text.parse::<Ratio>().unwrap().to_string(), text);
        }
        for text in ["", ".", "1.", "-1", "1/0", "x", "1.2345678"] {
            assert_eq!(text.parse::<Ratio>(), Err(RatioError), "{text}");
        }
    }
}
