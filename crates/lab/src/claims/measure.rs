//! Runs that rules speak of.

use std::collections::BTreeSet;

use carob_sim::engine;

use super::expression::Reference;
use super::source::Source;
use crate::journal::Journal;
use crate::metrics;
use crate::run::{Plan, RunSetupError, Selection};
use crate::scenario::{Scenario, ScenarioErrors};

/// A scenario file that rules speak of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioFile {
    /// Its name, `<study>/<family>`.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Settings of the runs that rules need.
#[derive(Clone, Copy, Debug, Default)]
pub struct Making<'a> {
    /// Number of seeds per cell and algorithm; the study's own number if 0.
    pub seeds: u64,
    /// Settings changed in every scenario, such as `reconnect=at-once`.
    pub set: &'a [String],
    /// Where runs come from and go to.
    pub journal: Option<&'a Journal>,
}

impl Making<'_> {
    /// Checks that all scenarios accept the settings.
    pub fn check(&self, files: &[ScenarioFile]) -> Result<(), ScenarioErrors> {
        for file in files {
            Scenario::read(&file.name, &file.text, self.set)?;
        }
        Ok(())
    }
}

/// The first run of a cell with an algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstRun {
    /// Its seed.
    pub seed: u64,
    /// Its trace hash, in hexadecimal.
    pub hash: String,
}

/// Runs one cell with one algorithm and adds the metrics wanted to a source; `None` if no file has
/// such a cell, or it cannot run the algorithm.
pub fn measure(
    files: &[ScenarioFile],
    of: &Reference,
    making: Making<'_>,
    source: &mut Source,
    wanted: &BTreeSet<String>,
    progress: impl Fn() + Sync,
) -> Result<Option<FirstRun>, RunSetupError> {
    let algorithms = [of.algorithm.clone()];
    for file in files {
        let scenario =
            Scenario::with_algorithms(&file.name, &file.text, making.set, Some(&algorithms));
        let Ok(scenario) = scenario else {
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
        let outcome = plan.execute_with(making.journal, engine::run, |_, _| progress())?;
        source.add_outcome(&outcome, wanted);
        let first = outcome.runs().next();
        let hash = first.map_or(0, |(_, record)| record.trace_hash);
        return Ok(Some(FirstRun {
            seed: scenario.first_seed(),
            hash: format!("{hash:016x}"),
        }));
    }
    Ok(None)
}
