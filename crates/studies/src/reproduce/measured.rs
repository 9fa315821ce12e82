//! Our runs of a study: computed, or as last computed and kept with the program.

use std::sync::atomic::{AtomicUsize, Ordering};

use carob_lab::metrics;
use carob_lab::published::Expected;
use carob_lab::run::{Plan, RunSetupError, Selection};
use carob_lab::scenario::{Scenario, builtin, is_known};
use carob_lab::statistics::Statistics;
use carob_sim::registry::Registry;
use serde::{Deserialize, Serialize};

use crate::comparison::{Measured, Tolerances, label};
use crate::papers;

/// Default number of seeds per cell and algorithm.
pub const SEEDS: u64 = 200;

/// An alternative to an open setting, compared with the unchanged profile.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    /// The algorithm it is of.
    pub algorithm: String,
    /// Settings, as arguments of `--set`.
    pub set: Vec<String>,
    /// Description, one sentence.
    pub about: String,
}

/// The readings of the thesis, `papers/thesis/readings.toml`.
pub fn thesis_readings() -> Vec<Reading> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        reading: Vec<Reading>,
    }
    let text = include_str!("../../papers/thesis/readings.toml");
    let file: File = toml::from_str(text).expect("a test reads the file");
    file.reading
}

/// The tolerances of the thesis, `papers/thesis/tolerances.toml`.
pub fn thesis_tolerances() -> Tolerances {
    let text = include_str!("../../papers/thesis/tolerances.toml");
    Tolerances::read(text).expect("a test reads the file")
}

/// Our runs of the cells a study printed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredRuns {
    /// The command that makes this.
    pub command: String,
    /// The program's version.
    pub version: String,
    /// Full name of the scenario.
    pub scenario: String,
    /// Its hash, in hexadecimal.
    pub scenario_hash: String,
    /// The first seed; the others follow.
    pub first_seed: u64,
    /// Seeds per cell and algorithm.
    pub seeds: u64,
    /// One per cell, algorithm and reading.
    pub rows: Vec<MeasuredRow>,
}

/// Our runs of one cell with one algorithm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredRow {
    /// The cell's name within its study.
    pub cell: String,
    /// The algorithm's registry id.
    pub algorithm: String,
    /// Settings besides the profile; empty for the profile itself.
    pub set: Vec<String>,
    /// Trace hash of the run with the first seed, in hexadecimal.
    pub first_trace_hash: String,
    /// Flow completion times in seconds.
    pub fct_s: Statistics,
}

impl MeasuredRow {
    /// As a value to compare with a published one.
    pub fn measured(&self) -> Measured {
        Measured {
            cell: self.cell.clone(),
            algorithm: self.algorithm.clone(),
            metric: metrics::FCT_S.name.to_owned(),
            set: self.set.clone(),
            statistics: self.fct_s,
        }
    }
}

/// Cell, algorithm and settings of runs to make.
struct Part {
    scenario: Scenario,
    cell: String,
    algorithm: String,
    set: Vec<String>,
}

impl MeasuredRuns {
    /// Runs every printed cell with every algorithm of the scenario, and with each reading.
    ///
    /// `progress` is called with (done, of all) after each run, from any thread.
    pub fn compute(
        seeds: u64,
        progress: impl Fn(usize, usize) + Sync,
    ) -> Result<Self, RunSetupError> {
        let parts = parts(&papers::thesis_fct());
        let base = long(&[], None);
        let all = parts.len() * usize::try_from(seeds).unwrap_or(usize::MAX);
        let done = AtomicUsize::new(0);
        let rows: Result<Vec<Option<MeasuredRow>>, RunSetupError> = parts
            .iter()
            .map(|part| {
                part.run(seeds, || {
                    progress(done.fetch_add(1, Ordering::Relaxed) + 1, all);
                })
            })
            .collect();
        Ok(Self {
            command:
                "carob-studies reproduce thesis --fresh --keep crates/studies/results/thesis.json"
                    .to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: base.name(),
            scenario_hash: format!("{:016x}", base.hash()),
            first_seed: base.first_seed(),
            seeds,
            rows: rows?.into_iter().flatten().collect(),
        })
    }

    /// Those kept with the program.
    pub fn stored() -> Self {
        let text = include_str!("../../results/thesis.json");
        serde_json::from_str(text).expect("a test reads the file")
    }

    /// As a file to keep.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self).expect("text keys and finite numbers");
        text + "\n"
    }

    /// Why the program would not compute the same today; nothing if it would.
    ///
    /// Makes the first run of every row again, which takes milliseconds: any change of scenario,
    /// controller, protocol or simulator that matters shows in their trace hashes.
    pub fn stale(&self) -> Vec<String> {
        let mut why = Vec::new();
        let hash = format!("{:016x}", long(&[], None).hash());
        if self.scenario_hash != hash {
            why.push(format!("{} has changed", self.scenario));
        }
        let parts = parts(&papers::thesis_fct());
        for part in &parts {
            let stored = self.rows.iter().find(|row| part.is_of(row));
            let name = format!("{} with {}", part.cell, part.label());
            match (stored, part.run(1, || {})) {
                (Some(stored), Ok(Some(now)))
                    if stored.first_trace_hash == now.first_trace_hash => {}
                (None, _) => why.push(format!("{name} was not run")),
                (Some(_), _) => why.push(format!("{name} runs differently now")),
            }
        }
        why
    }
}

impl Part {
    fn is_of(&self, row: &MeasuredRow) -> bool {
        row.cell == self.cell && row.algorithm == self.algorithm && row.set == self.set
    }

    fn label(&self) -> String {
        label(&self.algorithm, &self.set)
    }

    /// `None` if no flow completed.
    fn run(
        &self,
        seeds: u64,
        progress: impl Fn() + Sync,
    ) -> Result<Option<MeasuredRow>, RunSetupError> {
        let selection = Selection {
            cell: Some(self.cell.clone()),
            everywhere: true,
            seeds: Some(seeds),
            ..Selection::default()
        };
        let Ok(plan) = Plan::new(&self.scenario, &selection) else {
            return Ok(None);
        };
        let outcome = plan.execute(carob_sim::run, |_, _| progress())?;
        let first = outcome.runs().next().map_or(0, |(_, r)| r.trace_hash);
        let rows = outcome.rows();
        let fct = rows
            .first()
            .and_then(|row| row.metrics.get(metrics::FCT_S.name));
        Ok(fct.map(|fct| MeasuredRow {
            cell: self.cell.clone(),
            algorithm: self.algorithm.clone(),
            set: self.set.clone(),
            first_trace_hash: format!("{first:016x}"),
            fct_s: *fct,
        }))
    }
}

fn long(set: &[String], algorithm: Option<&str>) -> Scenario {
    let (file, _) = builtin::find("thesis/long").expect("it is built in");
    let algorithms = algorithm.map(|a| vec![a.to_owned()]);
    Scenario::with_algorithms(file.name, file.text, set, algorithms.as_deref())
        .expect("a test reads the scenario with every reading")
}

/// Printed cells with the algorithms there are, in printed order; readings after the profile.
fn parts(published: &[Expected]) -> Vec<Part> {
    let readings = thesis_readings();
    let known = |row: &&Expected| is_known(&row.algorithm, Registry::BUILT_IN);
    published
        .iter()
        .filter(known)
        .flat_map(|row| {
            let own = readings.iter().filter(|r| r.algorithm == row.algorithm);
            std::iter::once(Vec::new())
                .chain(own.map(|r| r.set.clone()))
                .map(|set| Part {
                    scenario: long(&set, Some(&row.algorithm)),
                    cell: row.cell.clone(),
                    algorithm: row.algorithm.clone(),
                    set,
                })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values_have_bounds_and_rules_published_rows() {
        let tolerances = thesis_tolerances();
        let published = papers::thesis_fct();
        for row in &published {
            for (statistic, _) in &row.values {
                let bound = tolerances.of(&row.cell, &row.algorithm, *statistic);
                assert!(bound.share > 0.0, "{statistic:?}");
            }
        }
        assert_eq!(tolerances.unused(&published), Vec::<String>::new());
    }

    #[test]
    fn slow_kept_results_are_what_the_program_computes_today() {
        let stored = MeasuredRuns::stored();
        let why = stored.stale();
        assert!(
            why.is_empty(),
            "{}\nRun: cargo run --release -- {}",
            why.join("\n"),
            stored.command.trim_start_matches("carob ")
        );
    }

    #[test]
    fn slow_changed_runs_are_stale() {
        let mut stored = MeasuredRuns::stored();
        "0123".clone_into(&mut stored.rows[0].first_trace_hash);
        "0123".clone_into(&mut stored.scenario_hash);
        let why = stored.stale();
        assert!(why[0].contains("thesis/long has changed"), "{why:?}");
        assert!(why[1].contains("long-1c-none-2500 with default"), "{why:?}");
    }

    #[test]
    fn slow_both_readings_of_cocoa_are_run_in_each_printed_cell() {
        let parts = parts(&papers::thesis_fct());
        // Six cells with a buffer of 2500 bytes; default, and cocoa-001 in two readings. TCP: New
        // Reno in six cells with four buffers each, BBR in the four of one client.
        assert_eq!(parts.len(), 6 * 3 + (6 + 4) * 4);
        let readings = parts.iter().filter(|p| !p.set.is_empty()).count();
        assert_eq!(readings, 6);
    }
}
