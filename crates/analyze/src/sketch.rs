//! A histogram of times in buckets that grow by 1.6 %: quantiles of any number of values in bounded
//! memory.

use std::collections::BTreeMap;

use serde::Serialize;

/// Buckets for each doubling, so that a quantile is within 0.8 % of a value.
const BUCKETS_PER_OCTAVE: u32 = 64;

/// Counts of times by their logarithm, with exact extremes and sum.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sketch {
    /// At most 64 x 64 buckets, of which few are used.
    buckets: BTreeMap<u16, u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

/// Quantiles of a sketch, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Quantiles {
    /// Number of values.
    pub count: u64,
    /// Smallest value.
    pub min_us: u64,
    /// Median.
    pub p50_us: u64,
    /// 90th percentile.
    pub p90_us: u64,
    /// 95th percentile.
    pub p95_us: u64,
    /// 99th percentile.
    pub p99_us: u64,
    /// Largest value.
    pub max_us: u64,
    /// Mean.
    pub mean_us: u64,
}

fn bucket_of(value: u64) -> u16 {
    let octave = value.max(1).ilog2();
    if octave < 6 {
        return value as u16;
    }
    let within = (value >> (octave - 6)) as u32 - BUCKETS_PER_OCTAVE;
    ((octave - 5) * BUCKETS_PER_OCTAVE + within) as u16
}

/// The middle of a bucket.
fn value_of(bucket: u16) -> u64 {
    let (octave, within) = (
        u32::from(bucket) / BUCKETS_PER_OCTAVE,
        u64::from(u32::from(bucket) % BUCKETS_PER_OCTAVE),
    );
    if octave == 0 {
        return within;
    }
    let shift = octave - 1;
    let low = (u64::from(BUCKETS_PER_OCTAVE) + within) << shift;
    low + ((1 << shift) >> 1)
}

impl Sketch {
    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        if self.count == 0 {
            self.min = value;
        }
        *self.buckets.entry(bucket_of(value)).or_default() += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Counts all values of another sketch.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = match self.count {
            0 => other.min,
            _ => self.min.min(other.min),
        };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
        for (bucket, count) in &other.buckets {
            *self.buckets.entry(*bucket).or_default() += count;
        }
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the mean; 0 without values.
    pub fn mean(&self) -> u64 {
        let mean = self.sum / u128::from(self.count.max(1));
        u64::try_from(mean).unwrap_or(u64::MAX)
    }

    /// Returns the value below which this share (0 to 1) of all lies; 0 without values.
    pub fn quantile(&self, share: f64) -> u64 {
        let rank = (share.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, count) in &self.buckets {
            seen += count;
            if seen >= rank {
                return value_of(*bucket).clamp(self.min, self.max);
            }
        }
        self.max
    }

    /// Returns the number of values below this one, by their buckets.
    pub fn count_below(&self, value: u64) -> u64 {
        self.buckets.range(..bucket_of(value)).map(|(_, n)| n).sum()
    }

    /// Returns the usual quantiles.
    pub fn quantiles(&self) -> Quantiles {
        Quantiles {
            count: self.count,
            min_us: self.min,
            p50_us: self.quantile(0.5),
            p90_us: self.quantile(0.9),
            p95_us: self.quantile(0.95),
            p99_us: self.quantile(0.99),
            max_us: self.max,
            mean_us: self.mean(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_in_order_and_hold_their_middle() {
        let buckets: Vec<u16> = (0..100_000).map(bucket_of).collect();
        assert!(buckets.is_sorted());
        for value in (0..100_000).chain((1..40).map(|k| (1 << k) * 3)) {
            let middle = value_of(bucket_of(value));
            assert_eq!(bucket_of(middle), bucket_of(value), "{value}");
            assert!(middle.abs_diff(value) * 64 <= value, "{value} {middle}");
        }
        assert!(bucket_of(u64::MAX) < 64 * 64);
        assert!(value_of(bucket_of(u64::MAX)) > u64::MAX / 2);
    }

    #[test]
    fn quantiles_are_within_a_bucket() {
        let mut sketch = Sketch::default();
        for value in 1..=10_000 {
            sketch.add(value * 100);
        }
        for (share, expected) in [(0.5, 500_000), (0.9, 900_000), (0.99, 990_000)] {
            let found = sketch.quantile(share);
            assert!(
                found.abs_diff(expected) * 100 <= expected,
                "{share}: {found}"
            );
        }
        let all = sketch.quantiles();
        assert_eq!(
            (all.min_us, all.max_us, all.mean_us),
            (100, 1_000_000, 500_050)
        );
        let mut twice = Sketch::default();
        twice.merge(&sketch);
        twice.merge(&sketch);
        assert_eq!(twice.quantile(0.5), sketch.quantile(0.5));
        assert_eq!(twice.count(), 20_000);
        assert_eq!(Sketch::default().quantiles(), Quantiles::default());
    }
}
