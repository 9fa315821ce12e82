//! Distributions of times.

use carob_cc::time::Duration;

use crate::random::Stream;

/// The 95th percentile of the standard normal distribution.
const NORMAL_P95: f64 = 1.644_853_626_951_472_7;

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
        }
    }

    /// The shortest possible time.
    pub const fn least(&self) -> Duration {
        match self {
            Self::Uniform { low, .. } => *low,
            Self::Exponential(_) | Self::LogNormal { .. } => Duration::ZERO,
        }
    }

    /// The mean.
    pub fn mean(&self) -> Duration {
        match self {
            Self::Uniform { low, high } => (*low + *high).half(),
            Self::Exponential(mean) => *mean,
            Self::LogNormal { median, p95 } => {
                let sigma = sigma(*median, *p95);
                scaled(*median, libm::exp(sigma * sigma / 2.0))
            }
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
    fn exponential_times_have_the_mean_of_their_own() {
        let distribution = TimeDistribution::Exponential(Duration::from_secs(4));
        assert!((mean(&draws(distribution)) / 4e6 - 1.0).abs() < 0.015);
        assert_eq!(distribution.mean(), Duration::from_secs(4));
        assert_eq!(distribution.least(), Duration::ZERO);
    }
}
