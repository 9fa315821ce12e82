//! Randomness as an argument: the stream that a driver passes to controllers.

use crate::time::Duration;

/// Stream of random bits, supplied by the driver.
///
/// The simulator derives one per (seed, label); a real endpoint passes a cryptographic one.
///
/// ```
/// use carob_cc::random::{Random, uniform};
/// use carob_cc::time::Duration;
///
/// /// A short xorshift generator, for tests only.
/// struct XorShift(u32);
///
/// impl Random for XorShift {
///     fn next_u32(&mut self) -> u32 {
///         self.0 ^= self.0 << 13;
///         self.0 ^= self.0 >> 17;
///         self.0 ^= self.0 << 5;
///         self.0
///     }
/// }
///
/// let (low, high) = (Duration::from_secs(2), Duration::from_secs(3));
/// let timeout = uniform(&mut XorShift(1), low, high);
/// assert!((low..=high).contains(&timeout));
/// ```
pub trait Random {
    /// Returns the next 32 uniformly distributed bits.
    fn next_u32(&mut self) -> u32;
}

impl<R: Random + ?Sized> Random for &mut R {
    fn next_u32(&mut self) -> u32 {
        (**self).next_u32()
    }
}

/// Draws uniformly from `[low, high]`, both ends included; `low` if the range is empty.
pub fn uniform(random: &mut dyn Random, low: Duration, high: Duration) -> Duration {
    // Multiply and shift, without division: span + 1 is at most 2^32, so the product fits in 64 bits, and
    // the probability of a value is off by less than 2^-32.
    let span = u64::from(high.saturating_sub(low).as_micros_u32());
    let draw = ((span + 1) * u64::from(random.next_u32())) >> 32;
    low + Duration::from_micros(draw)
}

/// A stream that repeats one value: for vectors that fix the outcome of dithering.
#[derive(Clone, Copy, Debug)]
pub struct Fixed(pub u32);

impl Fixed {
    /// Returns a stream in which every draw from a range is its low end.
    pub const fn low() -> Self {
        Self(0)
    }

    /// Returns a stream in which every draw from a range is its high end.
    pub const fn high() -> Self {
        Self(u32::MAX)
    }
}

impl Random for Fixed {
    fn next_u32(&mut self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_range_are_reached() {
        let (low, high) = (Duration::from_secs(2), Duration::from_secs(3));
        assert_eq!(uniform(&mut Fixed::low(), low, high), low);
        assert_eq!(uniform(&mut Fixed::high(), low, high), high);
    }

    #[test]
    fn an_empty_range_gives_its_low_end() {
        let low = Duration::from_secs(2);
        assert_eq!(uniform(&mut Fixed::high(), low, Duration::ZERO), low);
    }
}
