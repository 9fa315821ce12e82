//! Verdicts on claims: the conditions of rules ([`rule`](super::rule)), held against intervals of quantities.
//!
//! A quantity has a 95 % interval: runs are resampled, with the same seeds for everything that is compared. A claim
//! that the study's own tables contradict is judged twice: by the text, and by the table.

use std::collections::BTreeSet;

use carob_lab::quantity::{Expression, Reference, Source};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::interval::{self, Interval};
use super::rule::{Bound, Check, Condition, Rule};
use crate::comparison::{Comparison, Verdict};

impl Verdict {
    /// The verdict of a claim from its checks.
    fn of(checks: &[Outcome]) -> Self {
        let count = |verdict| checks.iter().filter(|c| c.verdict == verdict).count();
        let holds = count(Self::Holds);
        if checks.is_empty() {
            Self::Undecided
        } else if holds == checks.len() {
            Self::Holds
        } else if holds * 2 >= checks.len() {
            Self::HoldsPartly
        } else if count(Self::Fails) > 0 {
            Self::Fails
        } else {
            Self::Undecided
        }
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The quantity, as the rule writes it.
    pub quantity: String,
    /// Measured, with the 95 % interval; `None` if a run it needs is missing.
    pub measured: Option<Interval>,
    /// The condition of the claim, in words.
    pub expected: String,
    /// Verdict on the condition.
    pub verdict: Verdict,
}

/// A verdict and its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Each check.
    pub checks: Vec<Outcome>,
}

impl Judgement {
    fn of(checks: Vec<Outcome>) -> Self {
        Self {
            verdict: Verdict::of(&checks),
            checks,
        }
    }

    /// The verdict with other tolerances of the stated numbers: the checks of the same rule, and `share` for printed
    /// tables, by the measured values alone. None if the claim states no number. Orderings keep their verdict.
    pub fn within(&self, checks: &[Check], tables: &[Comparison], share: f64) -> Option<Verdict> {
        let inside = |value: Option<Interval>, low: f64, high: f64| match value {
            None => Verdict::Undecided,
            Some(value) if (low..=high).contains(&value.value) => Verdict::Holds,
            Some(_) => Verdict::Fails,
        };
        let mut outcomes = self.checks.iter().cloned();
        let (mut all, mut stated) = (Vec::new(), false);
        for check in checks {
            for (_, condition) in &check.cases {
                let mut outcome = outcomes.next()?;
                if let Condition::Band { low, high } = condition {
                    outcome.verdict = inside(outcome.measured, *low, *high);
                    stated = true;
                }
                all.push(outcome);
            }
            for comparison in check
                .printed
                .into_iter()
                .flat_map(|table| of_table(table, tables))
            {
                let mut outcome = outcomes.next()?;
                let (low, high) = (1.0 - share, 1.0 + share);
                outcome.verdict = inside(
                    outcome.measured,
                    comparison.paper * low,
                    comparison.paper * high,
                );
                stated = true;
                all.push(outcome);
            }
        }
        stated.then(|| Verdict::of(&all))
    }

    /// Its quantities in short: `36.2; 58.2 [57.9, 58.4]`.
    pub fn measured(&self) -> String {
        let one = |check: &Outcome| match &check.measured {
            Some(interval) => interval.to_string(),
            None => "not run".to_owned(),
        };
        join(self.checks.iter().map(one))
    }

    /// The conditions, joined to one line.
    pub fn expected(&self) -> String {
        join(self.checks.iter().map(|check| check.expected.clone()))
    }
}

/// Joins texts; repeated ones are written once, with their number.
fn join(texts: impl Iterator<Item = String>) -> String {
    let mut parts: Vec<(String, usize)> = Vec::new();
    for text in texts {
        match parts.last_mut() {
            Some((last, count)) if *last == text => *count += 1,
            _ => parts.push((text, 1)),
        }
    }
    let parts = parts.into_iter().map(|(text, count)| match count {
        1 => text,
        count => format!("{text} ({count} times)"),
    });
    parts.collect::<Vec<_>>().join("; ")
}

/// A claim and its judgement by our runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judged {
    /// The claim's id.
    pub id: String,
    /// By the text.
    pub text: Judgement,
    /// By the study's own tables, where these contradict the text.
    pub table: Option<Judgement>,
}

/// Judges every claim that has a rule, in the order of the rules.
pub fn judge(rules: &[Rule], source: &Source, tables: &[Comparison]) -> Vec<Judged> {
    let one = |rule: &Rule| {
        let all = |checks: &[Check]| -> Vec<Outcome> {
            let each = |check: &Check| check_all(&rule.id, check, source, tables);
            checks.iter().flat_map(each).collect()
        };
        Judged {
            id: rule.id.clone(),
            text: Judgement::of(all(&rule.text)),
            table: (!rule.table.is_empty()).then(|| Judgement::of(all(&rule.table))),
        }
    };
    rules.par_iter().map(one).collect()
}

/// Every case of a check.
fn check_all(id: &str, check: &Check, source: &Source, tables: &[Comparison]) -> Vec<Outcome> {
    if let Some(table) = check.printed {
        return printed(table, tables);
    }
    let case = |n: usize, (quantity, condition): &(Expression, Condition)| {
        let label = format!("{id}/{n}");
        let verdict_and_value = decide(&label, quantity, condition, source);
        let (verdict, measured) = verdict_and_value.unwrap_or((Verdict::Undecided, None));
        Outcome {
            quantity: quantity.text().to_owned(),
            measured,
            expected: condition.to_string(),
            verdict,
        }
    };
    check
        .cases
        .iter()
        .enumerate()
        .map(|(n, c)| case(n, c))
        .collect()
}

/// The values of a table under the profiles as they are.
fn of_table(table: u32, tables: &[Comparison]) -> impl Iterator<Item = &Comparison> {
    tables
        .iter()
        .filter(move |c| c.expected.table == table && c.set.is_empty())
}

/// Each published value of a table with the measured one, as in `carob-studies reproduce`.
fn printed(table: u32, tables: &[Comparison]) -> Vec<Outcome> {
    of_table(table, tables)
        .map(|comparison| Outcome {
            quantity: format!(
                "{}(fct_s, {}, {})",
                comparison.statistic.name(),
                comparison.expected.algorithm,
                comparison.expected.cell
            ),
            measured: comparison.measured.map(Interval::point),
            expected: format!("about {}", interval::short(comparison.paper)),
            verdict: comparison.verdict(),
        })
        .collect()
}

/// The verdict on one quantity; nothing if something it needs was not run.
fn decide(
    label: &str,
    quantity: &Expression,
    condition: &Condition,
    source: &Source,
) -> Option<(Verdict, Option<Interval>)> {
    // A quantity and its reference are resampled together.
    let (low, high) = match condition {
        Condition::Band { low, high } => (Some(*low), Some(*high)),
        Condition::Below(bound) | Condition::Above(bound) => {
            let value = interval::of(label, quantity, source)?;
            let difference = match bound {
                Bound::Number(number) => value.shifted(-number),
                Bound::Quantity(other) => interval::of(label, &quantity.minus(other), source)?,
            };
            let sign = if matches!(condition, Condition::Below(_)) {
                difference.negated()
            } else {
                difference
            };
            // The interval of the difference excludes 0, on one side or the other.
            let verdict = if sign.low > 0.0 {
                Verdict::Holds
            } else if sign.high < 0.0 {
                Verdict::Fails
            } else {
                Verdict::Undecided
            };
            return Some((verdict, Some(value)));
        }
    };
    let value = interval::of(label, quantity, source)?;
    let inside = |x: f64| low.is_none_or(|low| x >= low) && high.is_none_or(|high| x <= high);
    let overlaps =
        low.is_none_or(|low| value.high >= low) && high.is_none_or(|high| value.low <= high);
    let verdict = if inside(value.value) {
        Verdict::Holds
    } else if overlaps {
        Verdict::Undecided
    } else {
        Verdict::Fails
    };
    Some((verdict, Some(value)))
}

/// The cells and algorithms that the rules speak of, each once, in order.
pub fn needed(rules: &[Rule]) -> Vec<Reference> {
    let mut all: Vec<Reference> = rules
        .iter()
        .flat_map(|rule| rule.text.iter().chain(&rule.table))
        .flat_map(Check::references)
        .collect();
    all.sort();
    all.dedup();
    all
}

/// The metrics that the rules are made of.
pub fn metrics(rules: &[Rule]) -> BTreeSet<String> {
    let checks = rules
        .iter()
        .flat_map(|rule| rule.text.iter().chain(&rule.table));
    let cases = checks.flat_map(|check| &check.cases);
    let mut all = BTreeSet::new();
    for (quantity, condition) in cases {
        all.extend(quantity.metrics().into_iter().map(str::to_owned));
        if let Condition::Below(Bound::Quantity(other)) | Condition::Above(Bound::Quantity(other)) =
            condition
        {
            all.extend(other.metrics().into_iter().map(str::to_owned));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::rule;
    use super::*;

    fn outcome(verdict: Verdict) -> Outcome {
        Outcome {
            quantity: String::new(),
            measured: None,
            expected: String::new(),
            verdict,
        }
    }

    #[test]
    fn stated_numbers_are_judged_again_with_another_tolerance() {
        let text = r#"
            [[claim]]
            id = "some-1"
            about = "a number, a range and an ordering"
            [[claim.text]]
            quantity = "10"
            about = 10
            within = "50 %"
            [[claim.text]]
            quantity = "10"
            between = [0, 10]
            [[claim.text]]
            quantity = "10"
            below = 20
        "#;
        let rules = rule::read_within(text, Some(0.1)).expect("rules");
        let judged = |values: [f64; 3]| {
            let checks = values.map(|value| Outcome {
                measured: Some(Interval::point(value)),
                ..outcome(Verdict::Holds)
            });
            Judgement::of(checks.to_vec()).within(&rules[0].text, &[], 0.1)
        };
        assert_eq!(judged([9.1, 10.9, 30.0]), Some(Verdict::Holds));
        assert_eq!(judged([8.9, 11.1, 30.0]), Some(Verdict::Fails));
        assert_eq!(
            judged([8.9, -0.1, 30.0]),
            Some(Verdict::Fails),
            "0 has no share"
        );
        assert_eq!(Judgement::of(Vec::new()).within(&[], &[], 0.1), None);
    }

    #[test]
    fn half_is_partly_and_a_failure_outweighs_doubt_only_below_that() {
        use Verdict::{Fails, Holds, HoldsPartly, Undecided};
        for (checks, verdict) in [
            (&[][..], Undecided),
            (&[Holds, Holds], Holds),
            (&[Holds, Fails], HoldsPartly),
            (&[Holds, Undecided, Undecided], Undecided),
            (&[Holds, Fails, Undecided], Fails),
            (&[Fails], Fails),
        ] {
            let checks: Vec<_> = checks.iter().map(|v| outcome(*v)).collect();
            assert_eq!(Verdict::of(&checks), verdict, "{checks:?}");
        }
    }
}
