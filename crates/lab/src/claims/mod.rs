//! What a study claims, judged by our runs.
//!
//! Each claim has a rule in `papers/<study>/rules/<part>.toml`: quantities of runs ([`expression`]) and
//! what the claim says of them ([`rule`]). Rules are written before the runs that they judge; no
//! verdict is written anywhere. A quantity has a 95 % interval: runs are drawn anew, the same seeds
//! for everything that is compared ([`interval`]).
//!
//! A claim that the study's own tables contradict is judged twice: by the text, and by the table.

pub mod expression;
pub mod interval;
pub mod kept;
pub mod part;
pub mod rule;
pub mod source;
pub mod unit;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::papers::{self, Claim};
use crate::reproduce::{self, Comparison};
use expression::Reference;
use interval::Interval;
pub use kept::{Kept, Making};
use rule::{Bound, Check, Condition, Rule};
use source::Source;

/// What our runs say about a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Every check holds.
    Holds,
    /// At least half of them do.
    HoldsPartly,
    /// Fewer do, and at least one fails.
    Fails,
    /// Fewer do, and the others cannot be told from chance, or were not run.
    Undecided,
}

impl Verdict {
    /// Its name in the machine interface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::HoldsPartly => "holds-partly",
            Self::Fails => "fails",
            Self::Undecided => "undecided",
        }
    }

    /// That of a claim whose checks came out like this.
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

/// How one check came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The quantity, as the rule writes it.
    pub quantity: String,
    /// Ours, with the 95 % interval; nothing if something it needs was not run.
    pub measured: Option<Interval>,
    /// What the claim says of it.
    pub expected: String,
    /// Whether that is so.
    pub verdict: Verdict,
}

/// A verdict and what it rests on.
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

    /// Its quantities in short: `36.2; 58.2 [57.9, 58.4]`.
    pub fn measured(&self) -> String {
        let one = |check: &Outcome| match &check.measured {
            Some(interval) => interval.to_string(),
            None => "not run".to_owned(),
        };
        join(self.checks.iter().map(one))
    }

    /// What is expected of them, in short.
    pub fn expected(&self) -> String {
        join(self.checks.iter().map(|check| check.expected.clone()))
    }
}

/// Texts in a row; what repeats is said once, with how often.
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

/// A claim and what our runs say about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judged {
    /// The claim's id.
    pub id: String,
    /// By the text.
    pub text: Judgement,
    /// By the study's own tables, where these say something else.
    pub table: Option<Judgement>,
}

impl Judged {
    /// The claim it is about.
    pub fn claim(&self) -> Option<Claim> {
        let (study, _) = self.id.split_once('-')?;
        papers::claims(study).into_iter().find(|c| c.id == self.id)
    }
}

/// Judges every claim that has a rule, in the order of the rules.
pub fn judge(rules: &[Rule], source: &Source, tables: &[Comparison]) -> Vec<Judged> {
    use rayon::prelude::*;
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
    let case = |n: usize, (quantity, condition): &(expression::Expression, Condition)| {
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

/// Each printed value of a table beside ours, as `carob lab reproduce` has it.
fn printed(table: u32, tables: &[Comparison]) -> Vec<Outcome> {
    let of_table = tables
        .iter()
        .filter(|c| c.expected.table == table && c.set.is_empty());
    of_table
        .map(|comparison| Outcome {
            quantity: format!(
                "{}(fct_s, {}, {})",
                comparison.statistic.name(),
                comparison.expected.algorithm,
                comparison.expected.cell
            ),
            measured: comparison.ours.map(Interval::point),
            expected: format!("about {}", interval::short(comparison.paper)),
            verdict: match comparison.verdict() {
                reproduce::Verdict::Holds => Verdict::Holds,
                reproduce::Verdict::Fails => Verdict::Fails,
                reproduce::Verdict::Undecided => Verdict::Undecided,
            },
        })
        .collect()
}

/// The verdict on one quantity; nothing if something it needs was not run.
fn decide(
    label: &str,
    quantity: &expression::Expression,
    condition: &Condition,
    source: &Source,
) -> Option<(Verdict, Option<Interval>)> {
    // A quantity and what it is held against are drawn together.
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
    use super::*;
    use crate::scenario::{Scenario, builtin, is_known};

    fn outcome(verdict: Verdict) -> Outcome {
        Outcome {
            quantity: String::new(),
            measured: None,
            expected: String::new(),
            verdict,
        }
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

    #[test]
    fn every_claim_belongs_to_one_part() {
        for study in papers::studies() {
            for claim in papers::claims(&study.short_name) {
                let begins =
                    |part: &&part::Part| part.begins.iter().any(|b| claim.scenario.starts_with(b));
                let parts = part::Part::of(&study.short_name).filter(begins);
                assert_eq!(parts.count(), 1, "{}: {}", claim.id, claim.scenario);
            }
        }
    }

    #[test]
    fn slow_rules_speak_of_cells_and_algorithms_that_there_are() {
        for part in part::PARTS {
            let files = part.scenarios.iter().map(|name| {
                let (file, _) = builtin::find(name).expect("a scenario");
                Scenario::read(file.name, file.text, &[]).expect("a valid one")
            });
            let scenarios: Vec<Scenario> = files.collect();
            let needed = needed(&rule::rules(part));
            // Each runs alone.
            let algorithms: BTreeSet<&String> = needed.iter().map(|of| &of.algorithm).collect();
            for (name, algorithm) in part
                .scenarios
                .iter()
                .flat_map(|name| algorithms.iter().map(move |algorithm| (name, algorithm)))
            {
                let (file, _) = builtin::find(name).expect("a scenario");
                let alone = [(*algorithm).clone()];
                let read = Scenario::with_algorithms(file.name, file.text, &[], Some(&alone));
                assert!(read.is_ok(), "{name}, {algorithm}: {read:?}");
            }
            for of in needed {
                let there = scenarios.iter().any(|s| s.cell(&of.cell).is_some());
                assert!(there, "{} {}: {}", part.study, part.name, of.cell);
                assert!(is_known(&of.algorithm), "{}", of.algorithm);
            }
        }
    }

    #[test]
    fn every_claim_about_a_part_has_a_rule_that_reads() {
        for part in part::PARTS {
            let rules = rule::rules(part);
            for claim in papers::claims(part.study) {
                let of_part = |begins: &&str| claim.scenario.starts_with(begins);
                let concerned = part.begins.iter().any(of_part);
                let has = rules.iter().any(|rule| rule.id == claim.id);
                assert_eq!(concerned, has, "{}", claim.id);
            }
        }
    }
}
