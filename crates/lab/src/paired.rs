//! Paired differences: what changes between two algorithms under the same seed.

use crate::statistics::{Statistics, t_two_sided};

/// The fewest seeds from which algorithms are ranked.
pub const SEEDS_MIN: usize = 10;

/// The mean of paired differences, with an interval of 95 % that holds for all comparisons of a
/// table together (Bonferroni), since the largest of many differences is what is reported.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paired {
    /// The mean of `b - a`.
    pub mean: f64,
    /// Half the width of the interval.
    pub half: f64,
    /// Seeds in which both have a value.
    pub seeds: usize,
}

impl Paired {
    /// Compares two algorithms with one value for each seed; `None` if fewer than [`SEEDS_MIN`]
    /// seeds have both.
    pub fn of(a: &[Option<f64>], b: &[Option<f64>], comparisons: usize) -> Option<Self> {
        let both = a.iter().zip(b).filter_map(|(a, b)| a.zip(*b));
        let differences: Vec<f64> = both.map(|(a, b)| b - a).collect();
        let statistics = Statistics::of(&differences).filter(|s| s.n >= SEEDS_MIN)?;
        let coverage = 1.0 - 0.05 / comparisons.max(1) as f64;
        let n = statistics.n;
        Some(Self {
            mean: statistics.mean,
            half: t_two_sided(coverage, n - 1) * statistics.sd / (n as f64).sqrt(),
            seeds: n,
        })
    }

    /// Returns the end of the interval nearest to no difference; 0 if the interval includes it.
    pub fn least(&self) -> f64 {
        (self.mean.abs() - self.half).max(0.0)
    }

    /// Returns the end of the interval farthest from no difference.
    pub fn most(&self) -> f64 {
        self.mean.abs() + self.half
    }
}

/// Returns the number of comparisons of every two of so many.
pub fn pairs(of: usize) -> usize {
    of * of.saturating_sub(1) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(of: impl Fn(f64) -> f64, seeds: u32) -> Vec<Option<f64>> {
        (0..seeds).map(|k| Some(of(f64::from(k)))).collect()
    }

    #[test]
    fn constant_difference_is_certain_from_ten_seeds_on() {
        let (a, b) = (values(|k| k, 10), values(|k| k + 2.0, 10));
        let paired = Paired::of(&a, &b, 1).expect("enough seeds");
        assert_eq!((paired.mean, paired.least(), paired.seeds), (2.0, 2.0, 10));
        assert_eq!(Paired::of(&a[1..], &b[1..], 1), None);
        let mut gap = a.clone();
        gap[3] = None;
        assert_eq!(Paired::of(&gap, &b, 1), None, "nine pairs");
    }

    #[test]
    fn an_interval_for_many_comparisons_is_wider() {
        let (a, b) = (values(|_| 0.0, 20), values(|k| k % 3.0, 20));
        let of = |comparisons| Paired::of(&a, &b, comparisons).expect("enough seeds");
        // Student's t for 19 degrees of freedom: 2.093 at 95 %.
        let sd = Statistics::of(&b.iter().flatten().copied().collect::<Vec<_>>())
            .expect("some")
            .sd;
        assert!((of(1).half - 2.093 * sd / 20_f64.sqrt()).abs() < 1e-3);
        assert!(of(100).half > 1.5 * of(1).half);
    }
}
