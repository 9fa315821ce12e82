//! Samples of runs, by cell, algorithm and metric: what claims are judged by.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use super::expression::Reference;
use crate::metrics::{self, Samples};
use crate::run::Outcome;

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
