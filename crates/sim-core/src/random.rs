//! Random streams derived from a seed and a label, with draws that are the same on every machine.
//!
//! A run has one seed and a stream for each purpose. A stream depends only on the seed, its label
//! and its index, so an added draw shifts no other stream. Two algorithms run with one seed meet
//! the same losses packet by packet (paired comparisons).

use carob_cc::random::Random;
use carob_cc::ratio::Ratio;
use carob_cc::time::Duration;
use rand_core::Rng as _;
use rand_pcg::Pcg64Mcg;

use crate::hash::{GOLDEN, fnv1a, mix};

/// One stream of random bits: PCG XSL-RR 128/64 (MCG), whose output is fixed for ever.
#[derive(Clone, Debug)]
pub struct Stream {
    generator: Pcg64Mcg,
}

impl Stream {
    /// The stream for `label` under `seed`.
    pub fn new(seed: u64, label: &str) -> Self {
        Self::derive(seed, label, 0)
    }

    /// The `index`-th of many streams that share a label, such as one per host.
    pub fn indexed(seed: u64, label: &str, index: u32) -> Self {
        Self::derive(seed, label, u64::from(index) + 1)
    }

    /// With `m` the SplitMix64 finaliser and `g` its increment:
    /// `low = m(m(m(seed + g) ^ fnv1a(label)) ^ m(number + g))`, `high = m(low + g)`; the
    /// generator's 128-bit state is `high:low` with its lowest bit set.
    fn derive(seed: u64, label: &str, number: u64) -> Self {
        let labelled = mix(mix(seed.wrapping_add(GOLDEN)) ^ fnv1a(label.as_bytes()));
        let low = mix(labelled ^ mix(number.wrapping_add(GOLDEN)));
        let high = mix(low.wrapping_add(GOLDEN));
        Self {
            generator: Pcg64Mcg::new((u128::from(high) << 64) | u128::from(low)),
        }
    }

    /// The next 64 uniformly distributed bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// Draws an event of this probability. One draw, regardless of the probability.
    #[inline]
    pub fn happens(&mut self, probability: Probability) -> bool {
        u64::from(self.next_u32()) < probability.threshold
    }

    /// A uniform draw from `[low, high]`, both ends included; `low` if the range is empty.
    pub fn uniform(&mut self, low: Duration, high: Duration) -> Duration {
        carob_cc::random::uniform(self, low, high)
    }

    /// An exponentially distributed draw with the given mean, by inverse transform: `-mean x
    /// ln(u)`.
    ///
    /// `u` has 53 random bits and is never 0, so a draw is at most 36.7 means. The logarithm is the
    /// `libm` crate's (FreeBSD msun in Rust), not the platform's, so that every machine rounds
    /// alike.
    pub fn exponential(&mut self, mean: Duration) -> Duration {
        let u = ((self.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        Duration::from_micros((-libm::log(u) * mean.as_micros() as f64 + 0.5) as u64)
    }

    /// A draw from the standard normal distribution, by Box and Muller: two draws of bits.
    pub fn normal(&mut self) -> f64 {
        let mut u = || ((self.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        let (radius, turn) = (u(), u());
        libm::sqrt(-2.0 * libm::log(radius)) * libm::cos(core::f64::consts::TAU * turn)
    }
}

impl Random for Stream {
    /// The upper half of the next 64 bits, the better mixed half of this generator.
    #[inline]
    fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }
}

/// A span of time for uniform draws, both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Lower end.
    pub low: Duration,
    /// Upper end.
    pub high: Duration,
}

/// A probability as a threshold for a 32-bit draw, resolved to 2^-32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Probability {
    /// Draws below it are hits: 0 is never, 2^32 always.
    threshold: u64,
}

impl Probability {
    /// Never.
    pub const NEVER: Self = Self { threshold: 0 };
    /// Always.
    pub const ALWAYS: Self = Self { threshold: 1 << 32 };

    /// `parts` in `whole`, rounded to the nearest 2^-32; 1 if `parts` exceed `whole`.
    ///
    /// # Panics
    ///
    /// If `whole` is 0.
    pub const fn of(parts: u64, whole: u64) -> Self {
        assert!(whole > 0, "a probability is a part of something");
        if parts >= whole {
            return Self::ALWAYS;
        }
        let (parts, whole) = (parts as u128, whole as u128);
        Self {
            threshold: (((parts << 32) + whole / 2) / whole) as u64,
        }
    }

    /// A probability in parts per million.
    pub const fn ppm(parts: u32) -> Self {
        Self::of(parts as u64, 1_000_000)
    }

    /// The probability times a ratio, at most 1.
    pub fn scale(self, factor: Ratio) -> Self {
        Self {
            threshold: factor.of(self.threshold).min(1 << 32),
        }
    }

    /// The threshold: draws of 32 bits below it are hits.
    pub const fn threshold(self) -> u64 {
        self.threshold
    }

    /// The probability as a float, for printing.
    pub fn as_f64(self) -> f64 {
        self.threshold as f64 / (1_u64 << 32) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_pinned_for_ever() {
        // Computed by a second implementation written from the documentation of `derive`. If these
        // change, every trace hash and every published row changes with them.
        let mut stream = Stream::new(1, "link/down/loss");
        assert_eq!(
            [stream.next_u64(), stream.next_u64()],
            [13822143834753902850, 16930395217033669719]
        );
        assert_eq!(
            Stream::indexed(1, "host", 0).next_u64(),
            16032865788451145264
        );
    }

    #[test]
    fn seed_label_and_index_each_give_another_stream() {
        let firsts = [
            Stream::new(1, "a").next_u64(),
            Stream::new(2, "a").next_u64(),
            Stream::new(1, "b").next_u64(),
            Stream::indexed(1, "a", 0).next_u64(),
            Stream::indexed(1, "a", 1).next_u64(),
        ];
        for (i, a) in firsts.iter().enumerate() {
            assert!(firsts[i + 1..].iter().all(|b| a != b));
        }
    }

    #[test]
    fn neighbouring_seeds_are_uncorrelated() {
        // Ones in the xor of neighbours' first words: 64,000 fair bits, sd 126.
        let ones: u32 = (0..1_000)
            .map(|s| {
                (Stream::new(s, "x").next_u64() ^ Stream::new(s + 1, "x").next_u64()).count_ones()
            })
            .sum();
        assert!((31_400..32_600).contains(&ones), "{ones}");
    }

    #[test]
    fn never_and_always_are_exact() {
        let mut stream = Stream::new(1, "x");
        assert!((0..10_000).all(|_| !stream.happens(Probability::ppm(0))));
        assert!((0..10_000).all(|_| stream.happens(Probability::ppm(1_000_000))));
        assert_eq!(Probability::ppm(2_000_000), Probability::ALWAYS);
    }

    #[test]
    fn frequency_matches_probability() {
        let mut stream = Stream::new(3, "x");
        let hits = (0..1_000_000)
            .filter(|_| stream.happens(Probability::ppm(20_000)))
            .count();
        // Binomial sd is 140.
        assert!((19_400..20_600).contains(&hits), "{hits}");
    }

    #[test]
    fn exponential_draws_have_their_mean_and_median() {
        let mut stream = Stream::new(5, "x");
        let mean = Duration::from_millis(100);
        let mut draws: Vec<u64> = (0..200_000)
            .map(|_| stream.exponential(mean).as_micros())
            .collect();
        let sum: u64 = draws.iter().sum();
        draws.sort_unstable();
        // Standard error of the mean 224 us; median is ln 2 times the mean.
        assert!(
            (99_000..101_000).contains(&(sum / 200_000)),
            "{}",
            sum / 200_000
        );
        assert!(
            (68_500..70_200).contains(&draws[100_000]),
            "{}",
            draws[100_000]
        );
    }
}
