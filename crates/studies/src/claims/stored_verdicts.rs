//! Stored verdicts of the last computation, and their recomputation.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use carob_lab::quantity::{FirstRun, Making, Reference, ScenarioFile, Source, measure};
use carob_lab::run::RunSetupError;
use carob_lab::scenario::builtin;
use carob_sim::hash::fnv1a;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::part::Part;
use super::rule::Rule;
use super::{Judged, judge, metrics, needed, rules};
use crate::reproduce::{self, MeasuredRuns};

/// The verdicts on the claims of a part of a study, and their inputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredVerdicts {
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

fn scenario_hash(part: &Part) -> String {
    let texts = part.scenarios.iter().filter_map(|file| builtin::find(file));
    let hashes =
        texts.flat_map(|(file, _)| fnv1a(builtin::settings(file.text).as_bytes()).to_be_bytes());
    format!("{:016x}", fnv1a(&hashes.collect::<Vec<u8>>()))
}

fn rules_hash(rules: &[Rule]) -> String {
    format!("{:016x}", fnv1a(format!("{rules:?}").as_bytes()))
}

/// The scenarios of a part, as files.
pub fn files(part: &Part) -> Vec<ScenarioFile> {
    let found = part.scenarios.iter().filter_map(|file| builtin::find(file));
    found
        .map(|(file, _)| ScenarioFile {
            name: file.name.to_owned(),
            text: file.text.to_owned(),
        })
        .collect()
}

impl StoredVerdicts {
    /// Makes the runs for the rules of a part, and judges its claims.
    ///
    /// `progress` is called with (done, of all) after each run, from any thread.
    pub fn compute(
        part: &Part,
        mut making: Making<'_>,
        progress: impl Fn(usize, usize) + Sync,
    ) -> Result<Self, RunSetupError> {
        if making.seeds == 0 {
            making.seeds = part.seeds;
        }
        let seeds = making.seeds;
        let rules = rules(part);
        let needed = needed(&rules);
        let all = needed.len() * usize::try_from(seeds).unwrap_or(usize::MAX);
        let done = AtomicUsize::new(0);
        let wanted = metrics(&rules);
        let files = files(part);
        let mut source = Source::default();
        let (mut first_seed, mut hashes) = (1, std::collections::BTreeMap::new());
        for of in &needed {
            let told = || progress(done.fetch_add(1, Ordering::Relaxed) + 1, all);
            let run = measure(&files, of, making, &mut source, &wanted, told)?;
            if let Some(FirstRun { seed, hash }) = run {
                first_seed = seed;
                hashes.insert(format!("{} {}", of.cell, of.algorithm), hash);
            }
        }
        let tables = reproduce::compare(&MeasuredRuns::stored().rows);
        Ok(Self {
            study: part.study.to_owned(),
            part: part.name.to_owned(),
            command: format!(
                "carob-studies claims {} --part {} --fresh --keep crates/studies/results/claims",
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

    /// Reasons why these are verdicts on other scenarios or rules than the program's; empty if they
    /// are not. Makes no run.
    pub fn stale(&self) -> Vec<String> {
        let Some(part) = self.part() else {
            return vec!["there is no such part any more".to_owned()];
        };
        let rules = rules(part);
        let mut why = Vec::new();
        if self.scenario_hash != scenario_hash(part) {
            why.push("the scenarios have changed".to_owned());
        }
        if self.rules_hash != rules_hash(&rules) {
            why.push("the rules have changed".to_owned());
        }
        why
    }

    /// Cells and algorithms whose first run has another trace hash today. Repeats the first runs of
    /// at most `most` cells and algorithms, spread evenly.
    pub fn drifted(&self, most: usize) -> Vec<String> {
        let Some(part) = self.part() else {
            return Vec::new();
        };
        let needed = needed(&rules(part));
        let step = needed.len().div_ceil(most.max(1)).max(1);
        let once = Making {
            seeds: 1,
            ..Making::default()
        };
        let files = files(part);
        let runs_differently = |of: &&Reference| {
            let name = format!("{} {}", of.cell, of.algorithm);
            let now = measure(
                &files,
                of,
                once,
                &mut Source::default(),
                &BTreeSet::new(),
                || {},
            );
            let now = now.ok().flatten().map(|first| first.hash);
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
    fn nightly_stored_verdicts_are_up_to_date() {
        for part in PARTS {
            let name = format!("{} {}", part.study, part.name);
            let kept = StoredVerdicts::of(part).unwrap_or_else(|| panic!("{name} has no verdicts"));
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
