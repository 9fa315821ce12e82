//! Quantities of runs: expressions over samples, and the runs that they need.

mod expression;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use carob_sim::registry::Registry;

use crate::metrics::{self, Samples};
use crate::run::{Outcome, Plan, RunSetupError, Selection};
use crate::scenario::{Scenario, ScenarioErrors};
pub use expression::{Expression, Facts, Reference, SyntaxError};

/// The samples of one metric: for each run, in the order of seeds, one per flow.
pub type Runs = Vec<Vec<f64>>;

/// Samples with their order.
#[derive(Clone, Debug, Default)]
struct Sampled {
    runs: Runs,
    /// Every sample with the number of its run, smallest first; computed on first use.
    sorted: OnceLock<Vec<(f64, u32)>>,
}

/// Samples of runs. Of everything, run `k` has the same seed.
#[derive(Clone, Debug, Default)]
pub struct Source {
    all: BTreeMap<Reference, BTreeMap<String, Sampled>>,
    seeds: usize,
}

impl Source {
    /// Adds the runs of a plan, of each these metrics; a run that has none of one counts, too.
    pub fn add_outcome(&mut self, outcome: &Outcome<'_>, wanted: &BTreeSet<String>) {
        for (job, record) in outcome.runs() {
            let reference = Reference {
                cell: job.cell.name.clone(),
                algorithm: job.algorithm.name.clone(),
            };
            let mut samples = Samples::new();
            metrics::collect(&record, &mut samples);
            let metrics = self.all.entry(reference).or_default();
            for name in wanted {
                let sampled = metrics.entry(name.clone()).or_default();
                let values = samples.remove(name.as_str()).unwrap_or_default();
                sampled.runs.push(values);
                sampled.sorted.take();
            }
        }
        self.count();
    }

    /// Adds the samples of one metric.
    pub fn add(&mut self, algorithm: &str, cell: &str, metric: &str, runs: Runs) {
        let reference = Reference {
            cell: cell.to_owned(),
            algorithm: algorithm.to_owned(),
        };
        let metrics = self.all.entry(reference).or_default();
        let sampled = Sampled {
            runs,
            ..Sampled::default()
        };
        metrics.insert(metric.to_owned(), sampled);
        self.count();
    }

    fn count(&mut self) {
        let all = self.all.values().flat_map(BTreeMap::values);
        self.seeds = all.map(|sampled| sampled.runs.len()).max().unwrap_or(0);
    }

    fn sampled(&self, of: &Reference, metric: &str) -> Option<&Sampled> {
        let sampled = self.all.get(of)?.get(metric)?;
        (!sampled.runs.iter().all(Vec::is_empty)).then_some(sampled)
    }

    /// The samples of a metric, if there are any.
    pub fn runs(&self, of: &Reference, metric: &str) -> Option<&Runs> {
        Some(&self.sampled(of, metric)?.runs)
    }

    /// A quantile of the samples of the runs that were drawn, each as often as it was, by linear
    /// interpolation between order statistics (type 7).
    pub fn quantile(
        &self,
        of: &Reference,
        metric: &str,
        draw: &[usize],
        share: f64,
    ) -> Option<f64> {
        let sampled = self.sampled(of, metric)?;
        let mut times = vec![0; sampled.runs.len()];
        let mut count = 0;
        for run in draw {
            if let Some(samples) = sampled.runs.get(*run) {
                times[*run] += 1;
                count += samples.len();
            }
        }
        let place = share * count.checked_sub(1)? as f64;
        let (below, part) = (place.floor() as usize, place.fract());
        let sorted = sampled.sorted.get_or_init(|| sort(&sampled.runs));
        let (mut passed, mut low) = (0, None);
        for (value, run) in sorted {
            passed += times[*run as usize];
            if low.is_none() && passed > below {
                low = Some(*value);
            }
            if (passed > below + 1 || part == 0.0)
                && let Some(low) = low
            {
                return Some(low + part * (value - low));
            }
        }
        low
    }

    /// Number of runs of each cell and algorithm.
    pub fn seeds(&self) -> usize {
        self.seeds
    }
}

fn sort(runs: &Runs) -> Vec<(f64, u32)> {
    let numbered = runs.iter().zip(0..);
    let mut all: Vec<(f64, u32)> = numbered
        .flat_map(|(samples, run)| samples.iter().map(move |sample| (*sample, run)))
        .collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

/// A scenario file that quantities refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioFile {
    /// Its name, `<study>/<family>`.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Settings of the runs that quantities need.
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
