//! Who is before whom, in print and in ours.

use crate::papers::PrintedMean;
use crate::statistics::Statistics;

/// The algorithm that the study is about.
pub const SUBJECT: &str = "cocoa-plus";
/// The algorithm that others are compared with.
pub const BASE: &str = "default";
/// The pairs of a row, the one that decides first.
const PAIRS: [(&str, &str); 3] = [(SUBJECT, BASE), ("cocoa-v0", BASE), (SUBJECT, "cocoa-v0")];
/// Differences below this are of rounding.
const NOTHING: f64 = 1e-12;

/// How a value is to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Order {
    Below,
    /// Equal in print; in ours, not to be told apart.
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
    /// Their means in print.
    printed: (f64, f64),
    /// Our mean of the other.
    base: f64,
    /// The one less the other, by seed; nothing if fewer than two seeds have both.
    pub difference: Option<Statistics>,
}

impl Pair {
    /// In print, by the means.
    pub fn printed_order(&self) -> Order {
        let difference = self.printed.0 - self.printed.1;
        Order::of(difference, difference)
    }

    /// In ours; nothing if they were not run.
    pub fn order(&self) -> Option<Order> {
        let Statistics { mean, ci95, .. } = self.difference?;
        Some(Order::of(mean - ci95, mean + ci95))
    }

    /// Whether ours is as in print; nothing where it cannot be told.
    pub fn agrees(&self) -> Option<bool> {
        let (printed, ours) = (self.printed_order(), self.order()?);
        if printed == ours {
            Some(true)
        } else if ours == Order::Alike {
            None
        } else {
            Some(false)
        }
    }

    /// The difference in print, over the other.
    pub fn printed_gap(&self) -> f64 {
        self.printed.0 / self.printed.1 - 1.0
    }

    /// The difference in ours over the mean of the other, with half of its interval.
    pub fn gap(&self) -> Option<(f64, f64)> {
        let Statistics { mean, ci95, .. } = self.difference?;
        (self.base > 0.0).then(|| (mean / self.base, ci95 / self.base))
    }
}

/// The pairs of a row whose algorithms are all in print.
pub(super) fn pairs<'a>(
    printed: &[PrintedMean],
    values: impl Fn(&str) -> &'a [Option<f64>],
) -> Vec<Pair> {
    let mean = |name: &str| printed.iter().find(|p| p.algorithm == name).map(|p| p.mean);
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
            printed: (mean(first)?, mean(second)?),
            base: Statistics::of(&others).map_or(0.0, |s| s.mean),
            difference: Statistics::of(&differences).filter(|s| s.n > 1),
        })
    };
    PAIRS.into_iter().filter_map(pair).collect()
}

/// Algorithms from the highest mean to the lowest: `a > b` where the order is known, `a ~ b` where it
/// is not, and what is known of those further apart in brackets.
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
    fn rankings_show_what_is_known() {
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
    fn what_one_seed_lacks_is_left_out_of_both() {
        let printed: Vec<PrintedMean> = crate::papers::cocoaplus_means().drain(..3).collect();
        let (some, others) = (
            [Some(3.0), None, Some(5.0)],
            [Some(2.0), Some(9.0), Some(4.0)],
        );
        let pairs = pairs(&printed, |name| {
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
