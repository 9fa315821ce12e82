//! Delivery ratios drawn from a cumulative distribution.

use carob_cc::random::Random as _;
use carob_sim_core::random::{Probability, Stream};

/// A distribution of delivery ratios, piecewise linear between points.
#[derive(Clone, Debug, Default)]
pub(super) struct Curve {
    /// (cumulative share, ratio), both as thresholds of 32 bits.
    points: Vec<(u64, u64)>,
}

impl Curve {
    /// Creates the distribution from points (ratio, cumulative share). Shares below the first point
    /// map to its ratio and shares above the last point to its ratio. Without points every frame
    /// arrives.
    pub(super) fn new(points: &[(Probability, Probability)]) -> Self {
        let points = points
            .iter()
            .map(|(ratio, share)| (share.threshold(), ratio.threshold()));
        Self {
            points: points.collect(),
        }
    }

    /// Draws a ratio, as the threshold that a draw of 32 bits must be below.
    pub(super) fn draw(&self, stream: &mut Stream) -> u64 {
        self.at(u64::from(stream.next_u32()))
    }

    /// The quantile of a share.
    fn at(&self, share: u64) -> u64 {
        let beyond = self.points.partition_point(|point| point.0 <= share);
        let Some(&(high_share, high)) = self.points.get(beyond) else {
            return self.last();
        };
        let Some(&(low_share, low)) = beyond.checked_sub(1).map(|place| &self.points[place]) else {
            return high;
        };
        // At most 2^32 x (2^32 - 1): no overflow.
        let part = low.abs_diff(high) * share.saturating_sub(low_share)
            / high_share.saturating_sub(low_share).max(1);
        if low <= high { low + part } else { low - part }
    }

    fn last(&self) -> u64 {
        let always = Probability::ALWAYS.threshold();
        self.points.last().map_or(always, |point| point.1)
    }

    /// The mean ratio.
    pub(super) fn mean(&self) -> Probability {
        let always = Probability::ALWAYS.threshold();
        let Some(&first) = self.points.first() else {
            return Probability::ALWAYS;
        };
        let part = |low: u64, high: u64, ratios: u64| {
            u128::from(high.saturating_sub(low)) * u128::from(ratios)
        };
        let mut twice = part(0, first.0, 2 * first.1);
        for pair in self.points.windows(2) {
            twice += part(pair[0].0, pair[1].0, pair[0].1 + pair[1].1);
        }
        twice += part(
            self.points[self.points.len() - 1].0,
            always,
            2 * self.last(),
        );
        Self::probability((twice >> 33) as u64)
    }

    /// The probability with this threshold.
    pub(super) const fn probability(threshold: u64) -> Probability {
        Probability::of(threshold, 1 << 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A distribution read from a study's figure: ratios in percent by share.
    fn curve() -> Curve {
        let points = [
            (75, 0),
            (80, 5),
            (85, 12),
            (90, 25),
            (95, 50),
            (100, 100_u64),
        ];
        Curve::new(&points.map(|(ratio, share)| {
            let percent = |part| Probability::of(part, 100);
            (percent(ratio), percent(share))
        }))
    }

    #[test]
    fn the_mean_is_that_of_the_trapezoids() {
        // 0.05 x 77.5 + 0.07 x 82.5 + 0.13 x 87.5 + 0.25 x 92.5 + 0.5 x 97.5 = 92.9 %.
        let mean = curve().mean().as_f64();
        assert!((mean - 0.929).abs() < 1e-6, "{mean}");
    }

    #[test]
    fn draws_follow_the_curve() {
        let (curve, mut stream) = (curve(), Stream::new(1, "curve"));
        let draws = 200_000;
        let mut below = [0; 3];
        let mut sum = 0.0;
        for _ in 0..draws {
            let ratio = curve.draw(&mut stream) as f64 / (1_u64 << 32) as f64;
            assert!((0.75..=1.0).contains(&ratio));
            sum += ratio;
            for (count, limit) in below.iter_mut().zip([0.80, 0.875, 0.95]) {
                *count += i32::from(ratio <= limit);
            }
        }
        // Shares 0.05, 0.185 and 0.5; sds of the counts are below 224.
        for (count, share) in below.iter().zip([0.05, 0.185, 0.5]) {
            let expected = share * f64::from(draws);
            assert!((f64::from(*count) - expected).abs() < 900.0, "{below:?}");
        }
        assert!((sum / f64::from(draws) - 0.929).abs() < 0.001);
    }

    #[test]
    fn odd_curves_have_ratios_too() {
        let one = Probability::ALWAYS;
        let half = Probability::of(1, 2);
        let mut stream = Stream::new(1, "curve");
        assert_eq!(Curve::new(&[]).draw(&mut stream), one.threshold());
        assert_eq!(
            Curve::new(&[(half, half)]).draw(&mut stream),
            half.threshold()
        );
        assert_eq!(Curve::new(&[(half, half)]).mean(), half);
        let falling = Curve::new(&[(one, Probability::NEVER), (half, one)]);
        assert_eq!(falling.mean(), Probability::of(3, 4));
        assert!((0..1_000).all(|_| falling.draw(&mut stream) >= half.threshold()));
    }
}
