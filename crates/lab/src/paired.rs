//! Paired differences: what changes between two algorithms under the same seed.

use serde::Serialize;

use crate::statistics::{Statistics, t_two_sided};

/// The fewest seeds from which algorithms are ranked.
pub const SEEDS_MIN: usize = 10;

/// The mean of paired differences, with an interval of 95 % that holds for all comparisons of a
/// table together (Bonferroni), since the largest of many differences is reported.
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

/// The ratio of the means of paired values, `b / a`, with an interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PairedRatio {
    /// The ratio of the means.
    pub value: f64,
    /// The lower end of the interval, at least 0.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl PairedRatio {
    /// Compares values in pairs, with an interval of this coverage (Taylor series of the ratio, Student's t;
    /// Cochran 1977, 6.4); `None` for fewer than two pairs, or if the mean of `a` is not positive. The interval
    /// includes the one without the largest pair: its series is of no use where one pair is most of both sums.
    pub fn of(pairs: &[(f64, f64)], coverage: f64) -> Option<Self> {
        let all = Self::of_all(pairs, coverage)?;
        let largest = (0..pairs.len()).max_by(|i, j| {
            f64::total_cmp(&(pairs[*i].0 + pairs[*i].1), &(pairs[*j].0 + pairs[*j].1))
        })?;
        let rest = [&pairs[..largest], &pairs[largest + 1..]].concat();
        Some(Self::of_all(&rest, coverage).map_or(all, |rest| Self {
            value: all.value,
            low: all.low.min(rest.low),
            high: all.high.max(rest.high),
        }))
    }

    fn of_all(pairs: &[(f64, f64)], coverage: f64) -> Option<Self> {
        let n = pairs.len();
        let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / n as f64;
        let (a, b) = (mean(|pair| pair.0), mean(|pair| pair.1));
        if n < 2 || a <= 0.0 {
            return None;
        }
        let value = b / a;
        let residuals: Vec<f64> = pairs.iter().map(|(a, b)| b - value * a).collect();
        let sd = Statistics::of(&residuals)?.sd;
        let half = t_two_sided(coverage, n - 1) * sd / (n as f64).sqrt() / a;
        Some(Self {
            value,
            low: (value - half).max(0.0),
            high: value + half,
        })
    }
}

/// Returns the number of pairs among `n` values.
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
    fn interval_of_a_ratio_holds_the_true_one_in_95_of_100_samples() {
        let mut random = carob_sim::random::Stream::new(7, "ratios");
        let mut uniform = || random.next_u64() as f64 / u64::MAX as f64;
        let mut held = 0;
        for _ in 0..1_000 {
            // Exponential times with means of 2 and 1, and a common part of 0.5.
            let pairs: Vec<(f64, f64)> = (0..40)
                .map(|_| {
                    let common = uniform();
                    let [a, b] = [2.0, 1.0].map(|mean| -mean * (1.0 - uniform()).ln());
                    (common + a, common + b)
                })
                .collect();
            let ratio = PairedRatio::of(&pairs, 0.95).expect("pairs");
            held += u32::from(ratio.low <= 0.6 && 0.6 <= ratio.high);
        }
        assert!((920..=970).contains(&held), "{held} of 1000 hold 1.5 / 2.5");
        assert_eq!(PairedRatio::of(&[(1.0, 2.0)], 0.95), None);
        let equal = PairedRatio::of(&[(1.0, 0.5), (2.0, 1.0)], 0.95).expect("pairs");
        assert_eq!((equal.value, equal.low, equal.high), (0.5, 0.5, 0.5));
    }

    #[test]
    fn one_long_pair_does_not_settle_a_ratio() {
        let mut pairs = vec![(0.001, 0.001); 4];
        pairs.extend([(0.001, 0.0005), (0.0008, 0.002), (0.0013, 0.0012)]);
        pairs.push((2.35, 2.53));
        let ratio = PairedRatio::of(&pairs, 0.95).expect("pairs");
        assert!(ratio.low < 1.0 && 1.0 < ratio.high, "{ratio:?}");
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
