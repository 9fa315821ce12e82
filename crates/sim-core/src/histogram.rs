//! Histogram of times with logarithmic bins.

use carob_cc::time::Duration;

/// Bins of a [`Histogram`] per octave.
const PER_OCTAVE: u32 = 16;
/// The upper bound of a histogram's first bin, in microseconds.
const LEAST_LOG2: u32 = 10;
/// Octaves above it: up to 4.9 h.
const OCTAVES: u32 = 24;

/// A histogram of times with 16 bins per octave (each octave is divided evenly), so quantiles are
/// exact within 6.3 %. Count, sum and extremes are exact. Its size does not depend on the number of
/// samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Histogram {
    /// The number of samples.
    pub count: u64,
    /// The sum of samples.
    pub sum: Duration,
    /// The longest sample.
    pub max: Duration,
    /// Samples by bin, up to the last non-empty bin.
    pub bins: Vec<u32>,
}

impl Histogram {
    /// Adds a sample.
    pub fn add(&mut self, time: Duration) {
        self.count += 1;
        self.sum += time;
        self.max = self.max.max(time);
        let bin = Self::bin(time);
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += 1;
    }

    /// The mean, if there are samples.
    pub fn mean(&self) -> Option<Duration> {
        let mean = self.sum.as_micros().checked_div(self.count)?;
        Some(Duration::from_micros(mean))
    }

    /// The quantile of this share, in thousandths: the upper end of its bin, at most the longest
    /// sample.
    pub fn quantile(&self, thousandths: u32) -> Option<Duration> {
        if self.count == 0 {
            return None;
        }
        let wanted = (self.count * u64::from(thousandths)).div_ceil(1_000).max(1);
        let mut seen = 0;
        for (bin, count) in self.bins.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= wanted {
                return Some(Self::end(bin).min(self.max));
            }
        }
        Some(self.max)
    }

    /// The number of samples up to this time, by whole bins.
    pub fn at_most(&self, time: Duration) -> u64 {
        let last = Self::bin(time);
        let within = self.bins.iter().take(last + 1);
        within.map(|count| u64::from(*count)).sum()
    }

    /// Adds the samples of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
        if self.bins.len() < other.bins.len() {
            self.bins.resize(other.bins.len(), 0);
        }
        for (own, more) in self.bins.iter_mut().zip(&other.bins) {
            *own += more;
        }
    }

    /// The bin of a time.
    fn bin(time: Duration) -> usize {
        let micros = time.as_micros();
        if micros < 1 << LEAST_LOG2 {
            return 0;
        }
        let octave = micros.ilog2() - LEAST_LOG2;
        if octave >= OCTAVES {
            return (OCTAVES * PER_OCTAVE) as usize;
        }
        let part = (micros >> (octave + LEAST_LOG2 - PER_OCTAVE.ilog2())) as u32 - PER_OCTAVE;
        (octave * PER_OCTAVE + part) as usize + 1
    }

    /// The upper end of a bin, which is the lower end of the next.
    pub fn end(bin: usize) -> Duration {
        let bin = bin as u64;
        let per_octave = u64::from(PER_OCTAVE);
        let (octave, part) = (bin / per_octave, bin % per_octave);
        let base = 1 << LEAST_LOG2 << octave;
        Duration::from_micros(base + base * part / per_octave)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_within_a_sixteenth() {
        let mut histogram = Histogram::default();
        for millis in 1..=10_000 {
            histogram.add(Duration::from_millis(millis));
        }
        assert_eq!(histogram.mean(), Some(Duration::from_micros(5_000_500)));
        for thousandths in [10, 250, 500, 900, 999] {
            let exact = f64::from(thousandths) * 10_000.0;
            let quantile = histogram.quantile(thousandths).expect("there are times");
            let ratio = quantile.as_micros() as f64 / exact;
            assert!((1.0..1.07).contains(&ratio), "{thousandths}: {ratio}");
        }
        assert_eq!(
            histogram.quantile(1_000),
            Some(Duration::from_millis(10_000))
        );
    }

    #[test]
    fn bins_follow_each_other_without_gaps() {
        for micros in [
            0,
            1,
            1_023,
            1_024,
            1_087,
            1_088,
            2_047,
            2_048,
            1 << 33,
            1 << 40,
        ] {
            let time = Duration::from_micros(micros);
            let bin = Histogram::bin(time);
            if bin < (OCTAVES * PER_OCTAVE) as usize {
                assert!(time < Histogram::end(bin), "{micros}");
            }
            if bin > 0 {
                assert!(time >= Histogram::end(bin - 1), "{micros}");
            }
        }
    }

    #[test]
    fn two_histograms_add_up() {
        let [mut a, mut b] = [Histogram::default(), Histogram::default()];
        a.add(Duration::from_millis(1));
        b.add(Duration::from_secs(1));
        a.merge(&b);
        assert_eq!((a.count, a.max), (2, Duration::from_secs(1)));
        assert_eq!(a.at_most(Duration::from_millis(2)), 1);
        assert_eq!(a.at_most(Duration::from_secs(2)), 2);
    }
}
