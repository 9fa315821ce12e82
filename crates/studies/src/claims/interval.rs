//! The 95 % interval of a quantity over seeds.
//!
//! By the paired bootstrap: runs are drawn with replacement, the same seeds for all runs that a
//! quantity compares, and the interval lies between the 2.5th and the 97.5th percentile of the
//! quantities of all draws (B. Efron, R. J. Tibshirani: "An Introduction to the Bootstrap", 1993,
//! chapter 13). Draws come from a stream named after the claim, so they are the same every time.

use std::fmt;

use carob_lab::quantity::{Expression, Source};
use carob_sim::random::Stream;
use serde::{Deserialize, Serialize};

/// Draws of runs.
const DRAWS: usize = 1_000;
/// The seed of the draws' streams.
const SEED: u64 = 1;

/// A quantity and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// The quantity of all runs.
    pub value: f64,
    /// The interval's lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Interval {
    /// Without an interval.
    pub const fn point(value: f64) -> Self {
        Self {
            value,
            low: value,
            high: value,
        }
    }

    pub(super) fn shifted(self, by: f64) -> Self {
        Self {
            value: self.value + by,
            low: self.low + by,
            high: self.high + by,
        }
    }

    pub(super) fn negated(self) -> Self {
        Self {
            value: -self.value,
            low: -self.high,
            high: -self.low,
        }
    }
}

/// A number with three significant digits, or all before the point.
pub(crate) fn short(value: f64) -> String {
    let size = value.abs();
    let digits = match size {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [value, low, high] = [self.value, self.low, self.high].map(short);
        if low == value && high == value {
            f.write_str(&value)
        } else {
            write!(f, "{value} [{low}, {high}]")
        }
    }
}

/// A quantity with its interval; nothing if something it needs was not run.
pub(super) fn of(label: &str, quantity: &Expression, source: &Source) -> Option<Interval> {
    let seeds = source.seeds();
    let all: Vec<usize> = (0..seeds).collect();
    let value = quantity.value(source, &all)?;
    if quantity.references().is_empty() || seeds < 2 {
        return Some(Interval::point(value));
    }
    let mut stream = Stream::new(SEED, label);
    let mut draw = vec![0; seeds];
    let mut values = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        for place in &mut draw {
            *place = ((u128::from(stream.next_u64()) * seeds as u128) >> 64) as usize;
        }
        values.extend(quantity.value(source, &draw));
    }
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values.get((share * values.len() as f64) as usize).copied();
    Some(Interval {
        value,
        low: at(0.025).unwrap_or(value),
        high: at(0.975).unwrap_or(value),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_mean_is_as_wide_as_theory_has_it() {
        let mut source = Source::default();
        // 400 values of standard deviation 1/sqrt(12), evenly spread over [0, 1).
        let runs = (0..400).map(|k| vec![f64::from(k) / 400.0]).collect();
        source.add("a", "b", "fct_s", runs);
        let quantity = Expression::parse("mean(fct_s, a, b)").expect("it reads");
        let interval = of("test", &quantity, &source).expect("it was run");
        let half = 1.96 / 12_f64.sqrt() / 20.0;
        assert!((interval.value - 0.49875).abs() < 1e-9);
        assert!(
            (interval.high - interval.low - 2.0 * half).abs() < 0.15 * half,
            "{interval}"
        );
        assert_eq!(
            of("test", &quantity, &source),
            Some(interval),
            "every time the same"
        );
    }

    #[test]
    fn paired_interval_is_narrower() {
        let mut source = Source::default();
        let noise = |k: u32| f64::from(k * 7_919 % 100);
        source.add(
            "a",
            "c",
            "fct_s",
            (0..100).map(|k| vec![noise(k)]).collect(),
        );
        source.add(
            "b",
            "c",
            "fct_s",
            (0..100).map(|k| vec![noise(k) + 1.0]).collect(),
        );
        let interval = |text: &str| {
            let quantity = Expression::parse(text).expect("it reads");
            of("test", &quantity, &source).expect("it was run")
        };
        let difference = interval("mean(fct_s, b, c) - mean(fct_s, a, c)");
        assert!((difference.low - 1.0).abs() < 1e-9 && (difference.high - 1.0).abs() < 1e-9);
        let part = interval("mean(fct_s, a, c)");
        assert!(part.high - part.low > 5.0);
    }

    #[test]
    fn numbers_have_the_digits_that_mean_something() {
        for (value, text) in [
            (0.12345, "0.123"),
            (1.5, "1.5"),
            (32.866, "32.9"),
            (1105.2, "1105"),
        ] {
            assert_eq!(short(value), text);
        }
    }
}
