//! The claims of the five studies: their parts, the facts that rules use, and the verdicts kept.
//!
//! Each claim has a rule in `papers/<study>/rules/<part>.toml`: quantities of runs
//! ([`carob_lab::quantity`]) and the claim's conditions on them ([`rule`]). Rules are written before the runs that
//! they judge; no verdict is written in them.

mod interval;
mod judgement;
pub mod part;
pub mod rule;
mod standing;
mod stored_verdicts;
pub mod sweep;
pub mod unit;

pub use crate::comparison::Verdict;
pub use interval::Interval;
pub(crate) use interval::short;
pub use judgement::{Judged, Judgement, Outcome, judge, metrics, needed};
pub use part::{PARTS, Part};
pub use standing::{ClaimStatus, ClaimStatuses};
pub use stored_verdicts::{StoredVerdicts, files};

use crate::papers::{self, Claim};
use rule::Rule;

/// The rules of a part of a study.
///
/// # Panics
///
/// Never: a test reads every built-in rule.
pub fn rules(part: &Part) -> Vec<Rule> {
    rule::read(part.rules).expect("a test reads every built-in rule")
}

/// The same rules with a share of each published number as its tolerance.
fn rules_within(part: &Part, share: f64) -> Vec<Rule> {
    let rules = rule::read_within(part.rules, Some(share));
    rules.expect("a test reads every built-in rule")
}

/// The claim that was judged.
pub fn claim(judged: &Judged) -> Option<Claim> {
    let (study, _) = judged.id.split_once('-')?;
    papers::claims(study)
        .into_iter()
        .find(|claim| claim.id == judged.id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use carob_lab::scenario::{Scenario, builtin, is_known};
    use carob_sim::registry::Registry;

    use super::*;

    #[test]
    fn every_claim_belongs_to_one_part() {
        for study in papers::studies() {
            for claim in papers::claims(&study.short_name) {
                let begins =
                    |part: &&Part| part.begins.iter().any(|b| claim.scenario.starts_with(b));
                let parts = Part::of(&study.short_name).filter(begins);
                assert_eq!(parts.count(), 1, "{}: {}", claim.id, claim.scenario);
            }
        }
    }

    #[test]
    fn slow_rules_name_existing_cells_and_algorithms() {
        for part in PARTS {
            let files = part.scenarios.iter().map(|name| {
                let (file, _) = builtin::find(name).expect("a scenario");
                Scenario::read(file.name, file.text, &[]).expect("a valid one")
            });
            let scenarios: Vec<Scenario> = files.collect();
            let needed = needed(&rules(part));
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
                assert!(
                    is_known(&of.algorithm, Registry::BUILT_IN),
                    "{}",
                    of.algorithm
                );
            }
        }
    }

    #[test]
    fn every_claim_about_a_part_has_a_rule_that_reads() {
        for part in PARTS {
            let rules = rules(part);
            for claim in papers::claims(part.study) {
                let of_part = |begins: &&str| claim.scenario.starts_with(begins);
                let concerned = part.begins.iter().any(of_part);
                let has = rules.iter().any(|rule| rule.id == claim.id);
                assert_eq!(concerned, has, "{}", claim.id);
            }
        }
    }
}
