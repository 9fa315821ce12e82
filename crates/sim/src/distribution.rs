//! Distributions of times.

use carob_cc::ratio::Ratio;
use carob_cc::time::Duration;

use crate::random::Stream;

/// The 95th percentile of the standard normal distribution.
const NORMAL_P95: f64 = 1.644_853_626_951_472_7;

/// The most quantiles of a distribution.
pub const QUANTILES_MAX: usize = 8;

/// Shares of a billion.
const BILLION: u64 = 1_000_000_000;

/// Quantiles of a distribution, in parts per million with their times, both ascending: linear between
/// them, constant below the first and above the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantiles {
    points: [(u32, Duration); QUANTILES_MAX],
    count: usize,
}

impl Quantiles {
    /// Quantiles at these points; none if they do not ascend, or are none or too many.
    pub fn new(points: &[(u32, Duration)]) -> Option<Self> {
        let ascend = points.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1);
        let fits = (1..=QUANTILES_MAX).contains(&points.len());
        let is_share = points.last()?.0 <= 1_000_000;
        (ascend && fits && is_share).then(|| {
            let mut all = [(0, Duration::ZERO); QUANTILES_MAX];
            all[..points.len()].copy_from_slice(points);
            Self {
                points: all,
                count: points.len(),
            }
        })
    }

    /// The points.
    pub fn points(&self) -> &[(u32, Duration)] {
        &self.points[..self.count]
    }

    /// The time at a share of a billion.
    fn at(&self, share: u64) -> Duration {
        let points = self.points();
        let place = |point: &(u32, Duration)| u64::from(point.0) * 1_000;
        let next = points.partition_point(|point| place(point) <= share);
        let (Some(before), Some(after)) = (
            next.checked_sub(1).and_then(|last| points.get(last)),
            points.get(next),
        ) else {
            return points[next.min(points.len() - 1)].1;
        };
        let width = u128::from(place(after) - place(before));
        let rise = u128::from(after.1.saturating_sub(before.1).as_micros());
        let part = rise * u128::from(share - place(before)) / width;
        before.1 + Duration::from_micros(part as u64)
    }

    fn mean(&self) -> Duration {
        let points = self.points();
        let (first, last) = (points[0], points[points.len() - 1]);
        let weight = |share: u32, time: Duration| u128::from(share) * u128::from(time.as_micros());
        // Linear between two points, so a trapezoid each; constant outside of them.
        let inner = points.windows(2).map(|pair| {
            let both = pair[0].1 + pair[1].1;
            weight(pair[1].0 - pair[0].0, both) / 2
        });
        let ends = weight(first.0, first.1) + weight(1_000_000 - last.0, last.1);
        Duration::from_micros(((ends + inner.sum::<u128>()) / 1_000_000) as u64)
    }
}

/// A distribution of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeDistribution {
    /// Uniform from `low` to `high`, both included; a constant if they are equal.
    Uniform {
        /// Shortest.
        low: Duration,
        /// Longest.
        high: Duration,
    },
    /// Exponential with this mean.
    Exponential(Duration),
    /// Lognormal.
    LogNormal {
        /// The median; above 0.
        median: Duration,
        /// The 95th percentile; at least the median.
        p95: Duration,
    },
    /// By its quantiles.
    Quantiles(Quantiles),
}

impl Default for TimeDistribution {
    fn default() -> Self {
        Self::constant(Duration::ZERO)
    }
}

impl TimeDistribution {
    /// Always the same time.
    pub const fn constant(time: Duration) -> Self {
        Self::Uniform {
            low: time,
            high: time,
        }
    }

    /// Returns whether every time is 0.
    pub const fn is_zero(&self) -> bool {
        match self {
            Self::Uniform { high, .. } => high.is_zero(),
            Self::Exponential(mean) => mean.is_zero(),
            Self::LogNormal { p95, .. } => p95.is_zero(),
            Self::Quantiles(of) => of.points[of.count - 1].1.is_zero(),
        }
    }

    /// The shortest possible time.
    pub const fn least(&self) -> Duration {
        match self {
            Self::Uniform { low, .. } => *low,
            Self::Exponential(_) | Self::LogNormal { .. } => Duration::ZERO,
            Self::Quantiles(of) => of.points[0].1,
        }
    }

    /// The same with every time multiplied by a factor.
    #[must_use]
    pub fn scaled(&self, factor: Ratio) -> Self {
        match *self {
            Self::Uniform { low, high } => Self::Uniform {
                low: low.scale(factor),
                high: high.scale(factor),
            },
            Self::Exponential(mean) => Self::Exponential(mean.scale(factor)),
            Self::LogNormal { median, p95 } => Self::LogNormal {
                median: median.scale(factor),
                p95: p95.scale(factor),
            },
            Self::Quantiles(mut of) => {
                for (_, time) in &mut of.points[..of.count] {
                    *time = time.scale(factor);
                }
                Self::Quantiles(of)
            }
        }
    }

    /// The mean.
    pub fn mean(&self) -> Duration {
        match self {
            Self::Uniform { low, high } => (*low + *high).half(),
            Self::Exponential(mean) => *mean,
            Self::LogNormal { median, p95 } => {
                // exp(mu + sigma^2 / 2), where exp(mu) is the median.
                let sigma = sigma(*median, *p95);
                scaled(*median, libm::exp(sigma * sigma / 2.0))
            }
            Self::Quantiles(of) => of.mean(),
        }
    }

    /// A time drawn from it. One draw of the stream; two if it is lognormal.
    pub fn draw(&self, stream: &mut Stream) -> Duration {
        match self {
            Self::Uniform { low, high } => stream.uniform(*low, *high),
            Self::Exponential(mean) => stream.exponential(*mean),
            Self::LogNormal { median, p95 } => {
                let deviation = sigma(*median, *p95) * stream.normal();
                scaled(*median, libm::exp(deviation))
            }
            Self::Quantiles(of) => {
                // The upper half of the product is uniform below a billion, without a division.
                let draw = u128::from(stream.next_u64()) * u128::from(BILLION);
                of.at((draw >> 64) as u64)
            }
        }
    }
}

/// The deviation of the logarithm.
fn sigma(median: Duration, p95: Duration) -> f64 {
    let ratio = p95.as_micros() as f64 / median.as_micros().max(1) as f64;
    libm::log(ratio.max(1.0)) / NORMAL_P95
}

fn scaled(time: Duration, factor: f64) -> Duration {
    Duration::from_micros((time.as_micros() as f64 * factor + 0.5) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sorted draws in microseconds.
    fn draws(distribution: TimeDistribution) -> Vec<u64> {
        let mut stream = Stream::new(3, "x");
        let mut all: Vec<u64> = (0..100_000)
            .map(|_| distribution.draw(&mut stream).as_micros())
            .collect();
        all.sort_unstable();
        all
    }

    fn mean(all: &[u64]) -> f64 {
        all.iter().sum::<u64>() as f64 / all.len() as f64
    }

    #[test]
    fn scaled_times_have_a_scaled_mean() {
        let s = Duration::from_secs;
        let quantiles = Quantiles::new(&[(500_000, s(1)), (1_000_000, s(9))]).expect("ascending");
        for distribution in [
            TimeDistribution::Uniform {
                low: s(1),
                high: s(3),
            },
            TimeDistribution::Exponential(s(2)),
            TimeDistribution::LogNormal {
                median: s(2),
                p95: s(6),
            },
            TimeDistribution::Quantiles(quantiles),
        ] {
            let twice = distribution.scaled(Ratio::new(2, 1)).mean();
            let apart = twice.abs_diff(distribution.mean() + distribution.mean());
            assert!(apart <= Duration::from_micros(2), "{distribution:?}");
        }
    }

    #[test]
    fn lognormal_draws_have_their_median_p95_and_mean() {
        let distribution = TimeDistribution::LogNormal {
            median: Duration::from_secs(2),
            p95: Duration::from_secs(6),
        };
        let all = draws(distribution);
        // Standard errors: 0.3 % of the median, 0.5 % of the 95th percentile.
        assert!(
            (1_970_000..2_030_000).contains(&all[50_000]),
            "{}",
            all[50_000]
        );
        assert!(
            (5_880_000..6_120_000).contains(&all[95_000]),
            "{}",
            all[95_000]
        );
        // e^(sigma^2 / 2) with sigma = ln 3 / 1.64485 is 1.24993.
        let expected = distribution.mean().as_micros() as f64;
        assert!((2_499_000.0..2_501_000.0).contains(&expected), "{expected}");
        assert!(
            (mean(&all) / expected - 1.0).abs() < 0.015,
            "{}",
            mean(&all)
        );
    }

    #[test]
    fn constant_and_uniform_times_stay_in_their_range() {
        let second = Duration::from_secs(1);
        let all = draws(TimeDistribution::constant(second));
        assert_eq!((all[0], all[99_999]), (1_000_000, 1_000_000));
        let all = draws(TimeDistribution::Uniform {
            low: second,
            high: second.times(3),
        });
        assert!(all[0] >= 1_000_000 && all[99_999] <= 3_000_000);
        assert!((mean(&all) / 2e6 - 1.0).abs() < 0.01);
    }

    #[test]
    fn exponential_times_have_the_given_mean() {
        let distribution = TimeDistribution::Exponential(Duration::from_secs(4));
        assert!((mean(&draws(distribution)) / 4e6 - 1.0).abs() < 0.015);
        assert_eq!(distribution.mean(), Duration::from_secs(4));
        assert_eq!(distribution.least(), Duration::ZERO);
    }

    #[test]
    fn draws_of_quantiles_have_them_and_their_mean() {
        let s = Duration::from_secs;
        let points = [
            (0, s(1)),
            (500_000, s(2)),
            (950_000, s(4)),
            (1_000_000, s(16)),
        ];
        let distribution = TimeDistribution::Quantiles(Quantiles::new(&points).expect("quantiles"));
        let all = draws(distribution);
        for (place, expected) in [(25_000, 1.5), (50_000, 2.0), (95_000, 4.0), (97_500, 10.0)] {
            let measured = all[place] as f64 / 1e6;
            assert!(
                (measured / expected - 1.0).abs() < 0.05,
                "{place}: {measured}"
            );
        }
        // 0.5 x 1.5 + 0.45 x 3 + 0.05 x 10.
        assert_eq!(distribution.mean(), Duration::from_millis(2_600));
        assert!((mean(&all) / 2.6e6 - 1.0).abs() < 0.015, "{}", mean(&all));
        for wrong in [
            &[][..],
            &[(2, s(1)), (1, s(2))],
            &[(1, s(2)), (2, s(1))],
            &[(2_000_000, s(1))],
        ] {
            assert_eq!(Quantiles::new(wrong), None, "{wrong:?}");
        }
    }
}
