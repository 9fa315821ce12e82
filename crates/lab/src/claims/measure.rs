//! Runs that rules speak of.

use carob_sim::registry::Registry;
use std::collections::BTreeSet;

use super::expression::Reference;
use super::source::Source;
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
    /// The controllers that names may refer to.
    pub registry: Registry,
}

impl Making<'_> {
    /// Checks that all scenarios accept the settings.
    pub fn check(&self, files: &[ScenarioFile]) -> Result<(), ScenarioErrors> {
        for file in files {
            Scenario::registered(self.registry, &file.name, &file.text, self.set, None)?;
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
///
/// # Errors
/// If a file, up to that with the cell, cannot be read or does not take the settings.
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
        let scenario = Scenario::registered(
            making.registry,
            &file.name,
            &file.text,
            making.set,
            Some(&algorithms),
        );
        let Ok(scenario) = scenario else {
            // A file that reads with its own algorithms cannot run this one.
            Scenario::read(&file.name, &file.text, making.set).map_err(|errors| {
                let name = file.name.clone();
                RunSetupError::Scenario { name, errors }
            })?;
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
        let outcome = plan.execute(carob_sim::run, |_, _| progress())?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::builtin;

    fn files(text: impl Fn(&str) -> String) -> Vec<ScenarioFile> {
        let (file, _) = builtin::find("carob/default").expect("a scenario");
        let first = ScenarioFile {
            name: "own/first".to_owned(),
            text: text(file.text),
        };
        let second = ScenarioFile {
            name: file.name.to_owned(),
            text: file.text.to_owned(),
        };
        vec![first, second]
    }

    fn measured(
        files: &[ScenarioFile],
        algorithm: &str,
        set: &[String],
    ) -> Result<Option<FirstRun>, RunSetupError> {
        let of = Reference {
            algorithm: algorithm.to_owned(),
            cell: "default-none".to_owned(),
        };
        let making = Making {
            seeds: 1,
            set,
            ..Making::default()
        };
        let wanted = BTreeSet::from(["fct_s".to_owned()]);
        measure(files, &of, making, &mut Source::default(), &wanted, || {})
    }

    #[test]
    fn unreadable_file_is_an_error_with_its_place() {
        let bad = files(|text| text.replacen("[workload]", "[workloat]", 1));
        assert_ne!(bad[0].text, bad[1].text);
        let error = measured(&bad, "default", &[]).expect_err("the first cannot be read");
        let text = error.to_string();
        assert!(text.contains("own/first:20:1"), "{text}");
        assert!(
            text.contains("workloat") && text.contains("carob lab keys"),
            "{text}"
        );
    }

    #[test]
    fn settings_that_a_file_does_not_take_are_an_error() {
        let all = files(str::to_owned);
        let set = ["no_such_key=1".to_owned()];
        let error = measured(&all, "default", &set).expect_err("no such key");
        assert!(error.to_string().contains("no_such_key"), "{error}");
    }

    #[test]
    fn an_algorithm_that_no_file_runs_is_no_error() {
        let all = files(str::to_owned);
        assert!(matches!(measured(&all, "nobody", &[]), Ok(None)));
        assert!(matches!(measured(&all, "default", &[]), Ok(Some(_))));
    }
}
