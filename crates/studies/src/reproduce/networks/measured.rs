//! Our runs of the networks that a study printed: computed, or as last computed and kept.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::papers::PublishedMean;
use carob_lab::metrics::{self, Samples};
use carob_lab::run::{Plan, RunSetupError, Selection};
use carob_lab::scenario::{Scenario, ScenarioErrors, builtin};

/// Default number of seeds per cell and algorithm. With fewer, gaps of a few per cent do not differ
/// significantly from 0.
pub const SEEDS: u64 = 30;

/// Our runs of the cells a study printed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkRuns {
    /// The command that makes this.
    pub command: String,
    /// The program's version.
    pub version: String,
    /// Hashes of the scenarios, in hexadecimal, by full name.
    pub scenario_hashes: BTreeMap<String, String>,
    /// The first seed; the others follow.
    pub first_seed: u64,
    /// Seeds per cell and algorithm.
    pub seeds: u64,
    /// One per cell and algorithm.
    pub rows: Vec<NetworkRow>,
}

/// Our runs of one cell with one algorithm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkRow {
    /// The cell's name within its study.
    pub cell: String,
    /// The algorithm's registry id.
    pub algorithm: String,
    /// The metric.
    pub metric: String,
    /// Trace hash of the run with the first seed, in hexadecimal.
    pub first_trace_hash: String,
    /// The metric of each run, in the order of seeds; nothing where a run has none.
    pub values: Vec<Option<f64>>,
}

impl NetworkRuns {
    /// Runs every cell of `published`; runs with the same seed meet the same network and traffic.
    ///
    /// `set` has the arguments of `--set` for each scenario. `progress` is called with (done, of all)
    /// after each run, from any thread.
    pub fn compute(
        published: &[PublishedMean],
        set: &[String],
        seeds: u64,
        progress: impl Fn(usize, usize) + Sync,
    ) -> Result<Self, MeasureError> {
        let scenarios = scenarios(published, set)?;
        let all = published.len() * usize::try_from(seeds).unwrap_or(usize::MAX);
        let done = AtomicUsize::new(0);
        let (mut rows, mut first_seed) = (Vec::new(), 1);
        for (scenario, metric) in &scenarios {
            first_seed = scenario.first_seed();
            let told = || progress(done.fetch_add(1, Ordering::Relaxed) + 1, all);
            let done = run(scenario, metric, published, seeds, told);
            rows.extend(done.map_err(MeasureError::Run)?);
        }
        Ok(Self {
            command:
                "carob-studies reproduce cocoaplus --fresh --keep crates/studies/results/cocoaplus.json"
                    .to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            scenario_hashes: hashes(&scenarios),
            first_seed,
            seeds,
            rows,
        })
    }

    /// Those kept with the program.
    pub fn stored() -> Self {
        let text = include_str!("../../../results/cocoaplus.json");
        serde_json::from_str(text).expect("a test reads the file")
    }

    /// As a file to keep.
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string(self).expect("text keys and finite numbers");
        // A line for each row: numbers one below the other would be two thousand lines.
        text.replace("{\"cell\"", "\n{\"cell\"") + "\n"
    }

    /// A row by name.
    pub fn row(&self, cell: &str, algorithm: &str) -> Option<&NetworkRow> {
        let is_it = |row: &&NetworkRow| row.cell == cell && row.algorithm == algorithm;
        self.rows.iter().find(is_it)
    }

    /// Reasons why these are results of other scenarios than the program's; empty if they are not.
    /// Makes no run.
    pub fn stale(&self, published: &[PublishedMean]) -> Vec<String> {
        let mut why = Vec::new();
        for (name, hash) in hashes(&built_in(published)) {
            if self.scenario_hashes.get(&name) != Some(&hash) {
                why.push(format!("{name} has changed"));
            }
        }
        let missing = |mean: &&PublishedMean| self.row(&mean.cell, &mean.algorithm).is_none();
        for mean in published.iter().filter(missing) {
            why.push(format!("{} with {} was not run", mean.cell, mean.algorithm));
        }
        why
    }

    /// Rows whose first run has another trace hash today. Repeats the first run of every row.
    pub fn drifted(&self, published: &[PublishedMean]) -> Vec<String> {
        let mut why = Vec::new();
        for (scenario, metric) in &built_in(published) {
            for now in run(scenario, metric, published, 1, || {}).unwrap_or_default() {
                let stored = self.row(&now.cell, &now.algorithm);
                if stored.is_some_and(|stored| stored.first_trace_hash != now.first_trace_hash) {
                    why.push(format!(
                        "{} with {} runs differently now",
                        now.cell, now.algorithm
                    ));
                }
            }
        }
        why
    }
}

/// Why nothing was computed.
#[derive(Debug)]
pub enum MeasureError {
    /// A scenario does not take the settings.
    Set(ScenarioErrors),
    /// A run is impossible.
    Run(RunSetupError),
}

/// The scenarios of the printed cells, each with its metric.
fn scenarios(
    published: &[PublishedMean],
    set: &[String],
) -> Result<Vec<(Scenario, &'static str)>, MeasureError> {
    published
        .chunk_by(|a, b| a.scenario == b.scenario)
        .map(|rows| {
            let (file, _) = builtin::find(rows[0].scenario).expect("it is built in");
            let scenario = Scenario::read(file.name, file.text, set).map_err(MeasureError::Set)?;
            Ok((scenario, rows[0].metric))
        })
        .collect()
}

fn built_in(published: &[PublishedMean]) -> Vec<(Scenario, &'static str)> {
    scenarios(published, &[]).expect("a test reads every built-in scenario")
}

fn hashes(scenarios: &[(Scenario, &'static str)]) -> BTreeMap<String, String> {
    scenarios
        .iter()
        .map(|(scenario, _)| (scenario.name(), format!("{:016x}", scenario.hash())))
        .collect()
}

/// Runs the printed cells of a scenario.
fn run(
    scenario: &Scenario,
    metric: &str,
    published: &[PublishedMean],
    seeds: u64,
    progress: impl Fn() + Sync,
) -> Result<Vec<NetworkRow>, RunSetupError> {
    let selection = Selection {
        seeds: Some(seeds),
        ..Selection::default()
    };
    let Ok(plan) = Plan::new(scenario, &selection) else {
        return Ok(Vec::new());
    };
    let outcome = plan.execute(carob_sim::run, |_, _| progress())?;
    let name = scenario.name();
    let row = |mean: &PublishedMean| {
        let mut hash = None;
        let mut values = Vec::new();
        for (_, record) in outcome.of(&mean.cell, &mean.algorithm) {
            hash.get_or_insert(record.trace_hash);
            let mut samples = Samples::new();
            metrics::collect(&record, &mut samples);
            let value = samples.get(metric).and_then(|values| values.first());
            values.push(value.copied());
        }
        Some(NetworkRow {
            cell: mean.cell.clone(),
            algorithm: mean.algorithm.clone(),
            metric: metric.to_owned(),
            first_trace_hash: format!("{:016x}", hash?),
            values,
        })
    };
    let own = published.iter().filter(|mean| mean.scenario == name);
    Ok(own.filter_map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers;

    #[test]
    fn slow_kept_results_are_what_the_program_computes_today() {
        let stored = NetworkRuns::stored();
        let published = papers::cocoaplus_means();
        assert_eq!(stored.rows.len(), published.len());
        let mut why = stored.stale(&published);
        why.extend(stored.drifted(&published));
        assert!(
            why.is_empty(),
            "{}\nRun: cargo run --release -- {}",
            why.join("\n"),
            stored.command.trim_start_matches("carob ")
        );
    }

    #[test]
    fn slow_changed_runs_are_stale() {
        let published: Vec<PublishedMean> = papers::cocoaplus_means()
            .into_iter()
            .filter(|mean| mean.table == 2)
            .collect();
        let mut stored = NetworkRuns::stored();
        "0123".clone_into(&mut stored.rows[0].first_trace_hash);
        stored.rows.remove(1);
        stored.scenario_hashes.clear();
        assert_eq!(
            stored.stale(&published),
            [
                "cocoaplus/event has changed",
                "event-6x6-ideal with cocoa-v0 was not run",
            ]
        );
        assert_eq!(
            stored.drifted(&published),
            ["event-6x6-ideal with default runs differently now"]
        );
    }
}
