//! Verdicts as last computed, kept with the program; or computed anew.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use carob_sim::hash::fnv1a;
use carob_sim::world;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::expression::Reference;
use super::part::Part;
use super::rule::{self, Rule};
use super::source::Source;
use super::{Judged, judge, metrics as metrics_of, needed};
use crate::journal::Journal;
use crate::metrics;
use crate::papers;
use crate::reproduce::{self, Ours, Tolerances};
use crate::run::{Impossible, Plan, Selection};
use crate::scenario::{Scenario, ScenarioErrors, builtin};

/// The verdicts on the claims of a part of a study, and what they were made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// The study's short name.
    pub study: String,
    /// The part's name.
    pub part: String,
    /// The command that makes this.
    pub command: String,
    /// The program's version.
    pub version: String,
    /// Hash of the scenarios, in hexadecimal.
    pub scenario_hash: String,
    /// Hash of the rules.
    pub rules_hash: String,
    /// The first seed; the others follow.
    pub first_seed: u64,
    /// Seeds per cell and algorithm.
    pub seeds: u64,
    /// Trace hash of the run with the first seed, by `cell algorithm`.
    pub first_trace_hashes: std::collections::BTreeMap<String, String>,
    /// The verdicts, in the order of the rules.
    pub claims: Vec<Judged>,
}

fn scenario(file: &str, algorithm: &str, set: &[String]) -> Option<Scenario> {
    let (file, _) = builtin::find(file)?;
    let algorithms = [algorithm.to_owned()];
    Scenario::with_algorithms(file.name, file.text, set, Some(&algorithms)).ok()
}

/// How runs are made.
#[derive(Clone, Copy, Debug, Default)]
pub struct Making<'a> {
    /// So many per cell and algorithm; the part's own number if 0.
    pub seeds: u64,
    /// Settings changed in every scenario, such as `reconnect=at-once`.
    pub set: &'a [String],
    /// Where runs come from and go to.
    pub journal: Option<&'a Journal>,
}

impl Making<'_> {
    /// Whether all scenarios of a part take its settings.
    pub fn check(&self, part: &Part) -> Result<(), ScenarioErrors> {
        for (file, _) in part.scenarios.iter().filter_map(|file| builtin::find(file)) {
            Scenario::read(file.name, file.text, self.set)?;
        }
        Ok(())
    }
}

fn scenario_hash(part: &Part) -> String {
    let texts = part.scenarios.iter().filter_map(|file| builtin::find(file));
    let hashes = texts.flat_map(|(file, _)| fnv1a(file.text.as_bytes()).to_be_bytes());
    format!("{:016x}", fnv1a(&hashes.collect::<Vec<u8>>()))
}

fn rules_hash(rules: &[Rule]) -> String {
    format!("{:016x}", fnv1a(format!("{rules:?}").as_bytes()))
}

/// Runs one cell with one algorithm; nothing if there is no such cell or algorithm.
fn run(
    part: &Part,
    of: &Reference,
    making: Making<'_>,
    source: &mut Source,
    wanted: &BTreeSet<String>,
    progress: impl Fn() + Sync,
) -> Result<Option<(u64, String)>, Impossible> {
    for file in part.scenarios {
        let Some(scenario) = scenario(file, &of.algorithm, making.set) else {
            continue;
        };
        if !scenario.cells().iter().any(|cell| cell.name == of.cell) {
            continue;
        }
        let selection = Selection {
            cell: Some(of.cell.clone()),
            everywhere: true,
            seeds: Some(making.seeds),
            record: metrics::recording(wanted),
            ..Selection::default()
        };
        let Ok(plan) = Plan::new(&scenario, &selection) else {
            continue;
        };
        let outcome = plan.execute_with(making.journal, world::run, |_, _| progress())?;
        source.add_outcome(&outcome, wanted);
        let hash = outcome
            .runs()
            .next()
            .map_or(0, |(_, record)| record.trace_hash);
        return Ok(Some((scenario.first_seed(), format!("{hash:016x}"))));
    }
    Ok(None)
}

impl Kept {
    /// Runs what the rules of a part speak of, and judges its claims.
    ///
    /// `progress` hears (done, of all) after each run, from any thread. Runs come from the journal
    /// and go there, if there is one.
    pub fn compute(
        part: &Part,
        mut making: Making<'_>,
        progress: impl Fn(usize, usize) + Sync,
    ) -> Result<Self, Impossible> {
        if making.seeds == 0 {
            making.seeds = part.seeds;
        }
        let seeds = making.seeds;
        let rules = rule::rules(part);
        let needed = needed(&rules);
        let all = needed.len() * usize::try_from(seeds).unwrap_or(usize::MAX);
        let done = AtomicUsize::new(0);
        let wanted = metrics_of(&rules);
        let mut source = Source::default();
        let (mut first_seed, mut hashes) = (1, std::collections::BTreeMap::new());
        for of in &needed {
            let told = || progress(done.fetch_add(1, Ordering::Relaxed) + 1, all);
            if let Some((first, hash)) = run(part, of, making, &mut source, &wanted, told)? {
                first_seed = first;
                hashes.insert(format!("{} {}", of.cell, of.algorithm), hash);
            }
        }
        let tables = reproduce::compare(
            &papers::thesis_fct(),
            &Ours::kept().rows,
            &Tolerances::thesis(),
        );
        Ok(Self {
            study: part.study.to_owned(),
            part: part.name.to_owned(),
            command: format!(
                "carob lab claims {} --part {} --fresh --keep crates/lab/results/claims",
                part.study, part.name
            ),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            scenario_hash: scenario_hash(part),
            rules_hash: rules_hash(&rules),
            first_seed,
            seeds,
            first_trace_hashes: hashes,
            claims: judge(&rules, &source, &tables),
        })
    }

    /// Those kept with the program, if there are any of this part.
    pub fn of(part: &Part) -> Option<Self> {
        let text = (!part.kept.is_empty()).then_some(part.kept)?;
        Some(serde_json::from_str(text).expect("a test reads the file"))
    }

    /// The part they are of.
    pub fn part(&self) -> Option<&'static Part> {
        Part::of(&self.study).find(|part| part.name == self.part)
    }

    /// As a file to keep.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("text keys and finite numbers");
        text + "\n"
    }

    /// Why these are verdicts on something else than the program's scenarios and rules; nothing if
    /// they are not. Makes no run, so that verdicts can be told at once.
    pub fn stale(&self) -> Vec<String> {
        let Some(part) = self.part() else {
            return vec!["there is no such part any more".to_owned()];
        };
        let rules = rule::rules(part);
        let mut why = Vec::new();
        if self.scenario_hash != scenario_hash(part) {
            why.push("the scenarios have changed".to_owned());
        }
        if self.rules_hash != rules_hash(&rules) {
            why.push("the rules have changed".to_owned());
        }
        why
    }

    /// What runs otherwise today than when it was judged. Makes the first runs of cells and
    /// algorithms again, as many as it is told, spread evenly: a change that matters shows in
    /// their trace hashes.
    pub fn drifted(&self, most: usize) -> Vec<String> {
        let Some(part) = self.part() else {
            return Vec::new();
        };
        let needed = needed(&rule::rules(part));
        let step = needed.len().div_ceil(most.max(1)).max(1);
        let once = Making {
            seeds: 1,
            ..Making::default()
        };
        let runs_differently = |of: &&Reference| {
            let name = format!("{} {}", of.cell, of.algorithm);
            let now = run(
                part,
                of,
                once,
                &mut Source::default(),
                &BTreeSet::new(),
                || {},
            );
            let now = now.ok().flatten().map(|(_, hash)| hash);
            let differs = self.first_trace_hashes.get(&name) != now.as_ref();
            differs.then(|| format!("{name} runs differently now"))
        };
        let sample: Vec<&Reference> = needed.iter().step_by(step).collect();
        let found = sample.par_iter().filter_map(runs_differently);
        found.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::part::PARTS;
    use super::*;

    /// Runs of each part that are made again.
    const SAMPLE: usize = 32;

    #[test]
    fn slow_kept_verdicts_are_what_the_program_finds_today() {
        for part in PARTS {
            let name = format!("{} {}", part.study, part.name);
            let kept = Kept::of(part).unwrap_or_else(|| panic!("{name} has no verdicts"));
            let mut why = kept.stale();
            why.extend(kept.drifted(SAMPLE));
            assert!(
                why.is_empty(),
                "{}\nRun: cargo run --release -- {}",
                why.join("\n"),
                kept.command.trim_start_matches("carob ")
            );
        }
    }
}
