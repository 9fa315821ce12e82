//! Samples of runs, by cell, algorithm and metric: what claims are judged by.

use std::collections::BTreeMap;

use super::expression::Reference;
use crate::metrics::{self, Samples};
use crate::run::Outcome;

/// The samples of one metric: for each run, in the order of seeds, those of its flows.
pub type Runs = Vec<Vec<f64>>;

/// Samples of runs. Of everything, run `k` has the same seed.
#[derive(Clone, Debug, Default)]
pub struct Source {
    runs: BTreeMap<Reference, BTreeMap<String, Runs>>,
    seeds: usize,
}

impl Source {
    /// Adds the runs of a plan.
    pub fn add_outcome(&mut self, outcome: &Outcome<'_>) {
        for (job, record) in outcome.runs() {
            let reference = Reference {
                cell: job.cell.name.clone(),
                algorithm: job.algorithm.name.clone(),
            };
            let mut samples = Samples::new();
            metrics::collect(record, &mut samples);
            let metrics = self.runs.entry(reference).or_default();
            for (name, values) in samples {
                metrics.entry(name.to_owned()).or_default().push(values);
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
        let metrics = self.runs.entry(reference).or_default();
        metrics.insert(metric.to_owned(), runs);
        self.count();
    }

    fn count(&mut self) {
        let lengths = self.runs.values().flat_map(BTreeMap::values).map(Vec::len);
        self.seeds = lengths.max().unwrap_or(0);
    }

    /// The samples of a metric, if there are any.
    pub fn runs(&self, of: &Reference, metric: &str) -> Option<&Runs> {
        let runs = self.runs.get(of)?.get(metric)?;
        (!runs.iter().all(Vec::is_empty)).then_some(runs)
    }

    /// How many runs there are of each cell and algorithm.
    pub fn seeds(&self) -> usize {
        self.seeds
    }
}
