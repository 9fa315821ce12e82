//! Order of algorithms, published and measured.

use crate::papers::PublishedMean;
use carob_lab::statistics::Statistics;

/// The algorithm that the study is about.
pub const SUBJECT: &str = "cocoa-plus";
/// The algorithm that others are compared with.
pub const BASE: &str = "default";
/// The pairs of a row, the one that decides first.
const PAIRS: [(&str, &str); 3] = [(SUBJECT, BASE), ("cocoa-v0", BASE), (SUBJECT, "cocoa-v0")];
/// Differences below this are of rounding.
const NOTHING: f64 = 1e-12;

/// Order of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Order {
    Below,
    /// Equal published values, or measured ones that cannot be distinguished.
    Alike,
    Above,
}

impl Order {
    fn of(low: f64, high: f64) -> Self {
        if low > NOTHING {
            Self::Above
        } else if high < -NOTHING {
            Self::Below
        } else {
            Self::Alike
        }
    }
}

/// Two algorithms in one row.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The one.
    pub first: &'static str,
    /// The other.
    pub second: &'static str,
    /// Their published means.
    published: (f64, f64),
    /// Our mean of the other.
    base: f64,
    /// The one less the other, by seed; nothing if fewer than two seeds have both.
    pub difference: Option<Statistics>,
}

impl Pair {
    /// The published order, by the means.
    pub fn published_order(&self) -> Order {
        let difference = self.published.0 - self.published.1;
        Order::of(difference, difference)
    }

    /// The measured order; `None` if they were not run.
    pub fn order(&self) -> Option<Order> {
        let Statistics { mean, ci95, .. } = self.difference?;
        Some(Order::of(mean - ci95, mean + ci95))
    }

    /// Agreement of the measured order with the published one; `None` where an order is unknown.
    pub fn agrees(&self) -> Option<bool> {
        let (published, measured) = (self.published_order(), self.order()?);
        if published == measured {
            Some(true)
        } else if measured == Order::Alike {
            None
        } else {
            Some(false)
        }
    }

    /// The published difference, over the other.
    pub fn published_gap(&self) -> f64 {
        self.published.0 / self.published.1 - 1.0
    }

    /// The measured difference over the mean of the other, with half of its interval.
    pub fn gap(&self) -> Option<(f64, f64)> {
        let Statistics { mean, ci95, .. } = self.difference?;
        (self.base > 0.0).then(|| (mean / self.base, ci95 / self.base))
    }
}

/// The pairs of a row whose algorithms all have published means.
pub(super) fn pairs<'a>(
    published: &[PublishedMean],
    values: impl Fn(&str) -> &'a [Option<f64>],
) -> Vec<Pair> {
    let mean = |name: &str| {
        published
            .iter()
            .find(|p| p.algorithm == name)
            .map(|p| p.mean)
    };
    let pair = |(first, second): (&'static str, &'static str)| {
        let both: Vec<(f64, f64)> = values(first)
            .iter()
            .zip(values(second))
            .filter_map(|(a, b)| Some(((*a)?, (*b)?)))
            .collect();
        let differences: Vec<f64> = both.iter().map(|(a, b)| a - b).collect();
        let others: Vec<f64> = both.iter().map(|(_, b)| *b).collect();
        Some(Pair {
            first,
            second,
            published: (mean(first)?, mean(second)?),
            base: Statistics::of(&others).map_or(0.0, |s| s.mean),
            difference: Statistics::of(&differences).filter(|s| s.n > 1),
        })
    };
    PAIRS.into_iter().filter_map(pair).collect()
}

/// Algorithms from the highest mean to the lowest: `a > b` where the order is known, `a ~ b` where it
/// is not, and known orders of pairs further apart in brackets.
pub fn ranking(means: &[(&str, f64)], order: impl Fn(&str, &str) -> Order) -> String {
    let mut sorted = means.to_vec();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut text = String::new();
    for (k, (name, _)) in sorted.iter().enumerate() {
        if k > 0 {
            let known = order(sorted[k - 1].0, name) != Order::Alike;
            text.push_str(if known { " > " } else { " ~ " });
        }
        text.push_str(name);
    }
    let apart = |k: usize| order(sorted[k].0, sorted[k + 1].0) == Order::Alike;
    if let [(first, _), _, (last, _)] = sorted[..]
        && apart(0)
        && apart(1)
        && order(first, last) != Order::Alike
    {
        text.extend([" (", first, " > ", last, ")"]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rankings_show_significant_orders() {
        let means = [("a", 1.0), ("b", 3.0), ("c", 2.0)];
        let all = |_: &str, _: &str| Order::Above;
        assert_eq!(ranking(&means, all), "b > c > a");
        assert_eq!(ranking(&means, |_, _| Order::Alike), "b ~ c ~ a");
        let ends = |x: &str, y: &str| {
            if (x, y) == ("b", "a") {
                Order::Above
            } else {
                Order::Alike
            }
        };
        assert_eq!(ranking(&means, ends), "b ~ c ~ a (b > a)");
    }

    #[test]
    fn missing_seeds_are_excluded_from_both() {
        let published: Vec<PublishedMean> = crate::papers::cocoaplus_means().drain(..3).collect();
        let (some, others) = (
            [Some(3.0), None, Some(5.0)],
            [Some(2.0), Some(9.0), Some(4.0)],
        );
        let pairs = pairs(&published, |name| {
            if name == SUBJECT {
                &some[..]
            } else {
                &others[..]
            }
        });
        let first = &pairs[0];
        assert_eq!((first.first, first.second), (SUBJECT, BASE));
        assert_eq!(first.difference.map(|s| (s.mean, s.n)), Some((1.0, 2)));
        assert_eq!(first.gap(), Some((1.0 / 3.0, 0.0)));
        assert_eq!(first.order(), Some(Order::Above));
    }
}
