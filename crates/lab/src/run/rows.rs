//! Results as rows, for each cell and algorithm and for each run, and packed records of consecutive runs, to be made in one
//! process and evaluated in another.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use carob_sim::hash::fnv1a;
use carob_sim::spec::{RunError, RunRecord, RunSpec};
use rayon::prelude::*;
use serde::Serialize;

use super::outcome::{Outcome, StoredRecord};
use super::plan::{Job, LastSpec, Plan, RunSetupError};
use super::timed::Timed;
use crate::metrics::{self, Metric, Metrics, Samples};
use crate::record_codec::{EncodedRecord, version};
use crate::scenario::Cell;

/// All runs of one cell and algorithm, as in the machine interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// Full name of the cell, such as `thesis/long-1c-none-2500`.
    pub scenario: String,
    /// The swept values.
    pub cell: serde_json::Map<String, serde_json::Value>,
    /// The algorithm's registry id.
    pub algorithm: String,
    /// Number of runs.
    pub runs: usize,
    /// Statistics by metric.
    pub metrics: Metrics,
    /// Hash of everything that decides the outcome, in hexadecimal.
    #[serde(skip)]
    pub scenario_hash: String,
    /// Hash of the trace hashes of all runs, or the trace hash of the only one, in hexadecimal.
    #[serde(skip)]
    pub trace_hash: String,
    /// The study's cell whose printed values are comparable, as `<study>/<cell>`.
    #[serde(skip)]
    pub compare_with: String,
    /// The same where a change of the link or the workload rules the comparison out, and the keys
    /// that are changed.
    #[serde(skip)]
    pub not_compared: Option<(String, Vec<String>)>,
    /// The cell's full name with the changes of the command line, for people.
    #[serde(skip)]
    pub title: String,
    /// The swept values with their units, for people.
    #[serde(skip)]
    pub values: Vec<(String, String)>,
    /// The transmission parameters of the algorithm in the cell, as (name, value); none over TCP.
    #[serde(skip)]
    pub transmission: Vec<(&'static str, String)>,
    /// Which times people compare.
    #[serde(skip)]
    pub timed: Timed,
}

/// A [`Row`] with hashes, which are equal if two programs did the same.
#[derive(Clone, Debug, Serialize)]
pub struct HashedRow<'a> {
    #[serde(flatten)]
    row: &'a Row,
    scenario_hash: &'a str,
    trace_hash: &'a str,
}

impl Row {
    /// The cell's name within its study.
    pub fn cell_name(&self) -> &str {
        let split = self.scenario.split_once('/');
        split.map_or(&self.scenario, |(_, cell)| cell)
    }

    /// The row with its hashes.
    pub fn hashed(&self) -> HashedRow<'_> {
        HashedRow {
            row: self,
            scenario_hash: &self.scenario_hash,
            trace_hash: &self.trace_hash,
        }
    }
}

/// One run, as in the machine interface with `--each`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EachRow {
    /// Full name of the cell.
    pub scenario: String,
    /// The swept values.
    pub cell: serde_json::Map<String, serde_json::Value>,
    /// The algorithm's registry id.
    pub algorithm: String,
    /// Its seed.
    pub seed: u64,
    /// Hash of everything that happened, in hexadecimal.
    pub trace_hash: String,
    /// Statistics by metric, over the run's flows.
    pub metrics: Metrics,
    /// Hash of everything but algorithm and seed that decides the outcome, in hexadecimal.
    #[serde(skip)]
    pub scenario_hash: String,
    /// The cell's full name with the changes of the command line, for people.
    #[serde(skip)]
    pub title: String,
    /// Which times people compare.
    #[serde(skip)]
    pub timed: Timed,
}

impl Outcome<'_> {
    /// The values of a metric, pooled over the runs of a cell and algorithm, in the order of the rows. Times that a
    /// wireless network keeps in histograms are a thousand quantiles of them, within 6 %.
    pub fn values(&self, metric: &Metric) -> Vec<Vec<f64>> {
        let pooled = self.pairs().map(|(_, kept)| {
            let (mut samples, mut spread) = (Samples::new(), metrics::Spread::default());
            for kept in kept {
                let record = kept.record();
                metrics::collect(&record, &mut samples);
                spread.add(metric, &record);
            }
            let values = spread.values();
            if values.is_empty() {
                samples.remove(metric.name).unwrap_or_default()
            } else {
                values
            }
        });
        pooled.collect()
    }

    /// One row per cell and algorithm, runs pooled.
    pub fn rows(&self) -> Vec<Row> {
        self.pairs()
            .filter_map(|(jobs, kept)| {
                let job = jobs.first()?;
                let (mut samples, mut hashes) = (Samples::new(), Vec::new());
                for kept in kept {
                    let record = kept.record();
                    metrics::collect(&record, &mut samples);
                    hashes.push(record.trace_hash);
                }
                Some(Row {
                    scenario: self.full_name(job.cell),
                    cell: job.cell.to_json(),
                    algorithm: job.algorithm.name.clone(),
                    runs: jobs.len(),
                    metrics: metrics::summarise(&samples),
                    scenario_hash: format!("{:016x}", job.cell.hash),
                    trace_hash: trace_hash(&hashes),
                    compare_with: job.cell.compare_with.clone(),
                    not_compared: job.cell.not_compared.clone(),
                    title: self.title(job.cell),
                    values: values(job.cell),
                    transmission: self.transmission(job),
                    timed: timed(job.cell),
                })
            })
            .collect()
    }

    /// One row per run.
    pub fn each(&self) -> Vec<EachRow> {
        self.runs()
            .map(|(job, record)| {
                let mut samples = Samples::new();
                metrics::collect(&record, &mut samples);
                EachRow {
                    scenario: self.full_name(job.cell),
                    cell: job.cell.to_json(),
                    algorithm: job.algorithm.name.clone(),
                    seed: job.seed,
                    trace_hash: format!("{:016x}", record.trace_hash),
                    metrics: metrics::summarise(&samples),
                    scenario_hash: format!("{:016x}", job.cell.hash),
                    title: self.title(job.cell),
                    timed: timed(job.cell),
                }
            })
            .collect()
    }

    fn title(&self, cell: &Cell) -> String {
        format!("{}/{}", self.plan().scenario().study(), cell.title())
    }

    fn transmission(&self, job: &Job<'_>) -> Vec<(&'static str, String)> {
        let parameters = self.plan().scenario().transmission(job.cell, job.algorithm);
        parameters.into_iter().map(|p| (p.name, p.value)).collect()
    }

    fn full_name(&self, cell: &Cell) -> String {
        format!("{}/{}", self.plan().scenario().study(), cell.name)
    }
}

fn timed(cell: &Cell) -> Timed {
    let is = |key: &str, value: &str| cell.setting(key).as_deref() == Some(value);
    let is_periodic = matches!(cell.get::<carob_cc::time::Duration>("workload.request_period"), Ok(period) if !period.is_zero());
    if is_periodic || is("run.network", "mesh") && is("workload.kind", "exchanges") {
        Timed::Responses
    } else {
        Timed::Flows
    }
}

fn values(cell: &Cell) -> Vec<(String, String)> {
    let values = cell.values.iter();
    values
        .map(|(key, value)| (key.clone(), value.to_string()))
        .collect()
}

/// One hash of the runs' traces, in hexadecimal.
fn trace_hash(hashes: &[u64]) -> String {
    let hash = if let [one] = hashes {
        *one
    } else {
        let all = hashes.iter().flat_map(|hash| hash.to_be_bytes());
        fnv1a(&all.collect::<Vec<u8>>())
    };
    format!("{hash:016x}")
}

/// Records of consecutive runs of a plan, packed.
///
/// Only a program of the same version reads the bytes.
#[derive(Clone, Debug, Default)]
pub struct Records(Vec<EncodedRecord>);

/// Bytes that are no records of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordsError {
    /// Another version of the program.
    Version,
    /// A byte that was lost or changed.
    Damaged,
}

impl fmt::Display for RecordsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => {
                "records of another version of carob; install the same version everywhere"
            }
            Self::Damaged => "damaged records; run the batch again",
        })
    }
}

impl std::error::Error for RecordsError {}

impl Records {
    /// Returns the number of runs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the records of the runs that follow.
    pub fn append(&mut self, mut following: Self) {
        self.0.append(&mut following.0);
    }

    /// Returns the records as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = version().to_le_bytes().to_vec();
        for record in &self.0 {
            let record = record.bytes();
            bytes.extend_from_slice(&(record.len() as u32).to_le_bytes());
            bytes.extend_from_slice(record);
        }
        bytes
    }

    /// Reads records from bytes.
    ///
    /// # Errors
    ///
    /// [`RecordsError`] if another version wrote them, or if they are damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RecordsError> {
        let (first, mut rest) = bytes.split_first_chunk().ok_or(RecordsError::Damaged)?;
        if u64::from_le_bytes(*first) != version() {
            return Err(RecordsError::Version);
        }
        let mut records = Vec::new();
        while !rest.is_empty() {
            let (length, after) = rest.split_first_chunk().ok_or(RecordsError::Damaged)?;
            let length = u32::from_le_bytes(*length) as usize;
            let (record, after) = after
                .split_at_checked(length)
                .ok_or(RecordsError::Damaged)?;
            records.push(EncodedRecord::from_bytes(record).ok_or(RecordsError::Damaged)?);
            rest = after;
        }
        Ok(Self(records))
    }
}

impl Plan<'_> {
    /// Makes consecutive runs with `run`, on all threads of the current rayon pool, and packs their
    /// records. Returns `None` where `cancelled` became true before the last one.
    ///
    /// `progress` is called with the number of runs that are done, from any thread.
    ///
    /// # Errors
    ///
    /// [`RunSetupError`] of the first run that cannot be made.
    ///
    /// # Panics
    ///
    /// If the plan has fewer runs.
    pub fn records(
        &self,
        runs: Range<usize>,
        run: impl Fn(&RunSpec) -> Result<RunRecord, RunError> + Sync,
        cancelled: &AtomicBool,
        progress: impl Fn(usize) + Sync,
    ) -> Result<Option<Records>, RunSetupError> {
        let done = AtomicUsize::new(0);
        let specs = LastSpec::new();
        let one = |job| {
            if cancelled.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let record = run(&specs.of(self, job)).map_err(|why| RunSetupError::Run {
                cell: job.cell.name.clone(),
                why,
            })?;
            let packed = EncodedRecord::of(&record);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
            Ok(Some(packed))
        };
        let jobs = self.jobs()[runs].par_iter().with_max_len(1);
        let packed: Result<Vec<Option<EncodedRecord>>, RunSetupError> = jobs.map(one).collect();
        let packed: Option<Vec<EncodedRecord>> = packed?.into_iter().collect();
        Ok(packed.map(Records))
    }

    /// Returns the outcome of records made elsewhere; one for each of [`jobs`](Self::jobs).
    ///
    /// # Panics
    ///
    /// If there are more or fewer.
    pub fn outcome_of(&self, records: Records) -> Outcome<'_> {
        assert_eq!(records.len(), self.jobs().len(), "a record for each run");
        let records = records.0.into_iter();
        Outcome::new(self, records.map(StoredRecord::EncodedRecord).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::{long, plan, pretend};
    use crate::run::{Plan, Selection};

    fn rows_with(threads: usize) -> String {
        let scenario = long();
        let plan = Plan::new(&scenario, &Selection::default()).expect("a plan");
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .expect("a pool");
        let outcome = pool
            .install(|| plan.execute(pretend, |_, _| {}))
            .expect("possible");
        serde_json::to_string(&(outcome.rows(), outcome.each())).expect("plain data")
    }

    #[test]
    fn slow_output_does_not_depend_on_the_number_of_threads() {
        let one = rows_with(1);
        assert_eq!(one, rows_with(2));
        assert_eq!(one, rows_with(7));
    }

    #[test]
    fn rows_have_the_shape_of_the_machine_interface() {
        let scenario = long();
        let plan = plan(&scenario, 3);
        let outcome = plan.execute(pretend, |_, _| {}).expect("possible");
        let row = serde_json::to_value(&outcome.rows()[10]).expect("plain data");
        assert_eq!(row["scenario"], "thesis/long-1c-low-2500");
        assert_eq!(row["cell"]["clients"], 1);
        assert_eq!(row["algorithm"], "default");
        assert_eq!(row["runs"], 3);
        assert_eq!(row["metrics"]["fct_s"]["n"], 3);
        let four = serde_json::to_value(outcome.rows().last()).expect("plain data");
        assert_eq!(four["metrics"]["fct_s"]["n"], 12);
        let each = serde_json::to_value(&outcome.each()[1]).expect("plain data");
        assert_eq!(
            (&each["seed"], &each["trace_hash"]),
            (&2.into(), &"0000000000000abe".into())
        );
    }

    #[test]
    fn records_in_parts_and_through_bytes_give_the_same_rows() {
        let scenario = long();
        let plan = plan(&scenario, 2);
        let never = AtomicBool::new(false);
        let part = |runs| {
            let records = plan.records(runs, pretend, &never, |_| {});
            let records = records.expect("possible").expect("not cancelled");
            Records::from_bytes(&records.to_bytes()).expect("own bytes")
        };
        let mut all = part(0..5);
        all.append(part(5..plan.jobs().len()));
        let whole = plan.execute(pretend, |_, _| {}).expect("possible");
        assert_eq!(plan.outcome_of(all).each(), whole.each());
    }

    #[test]
    fn cancelled_runs_have_no_records() {
        let scenario = long();
        let plan = Plan::new(&scenario, &Selection::default()).expect("a plan");
        let cancelled = AtomicBool::new(false);
        let stop = |done| cancelled.store(done >= 10, Ordering::Relaxed);
        let records = plan.records(0..plan.jobs().len(), pretend, &cancelled, stop);
        assert!(records.expect("possible").is_none());
    }

    #[test]
    fn damaged_or_foreign_records_are_refused() {
        let scenario = long();
        let plan = Plan::new(&scenario, &Selection::default()).expect("a plan");
        let never = AtomicBool::new(false);
        let records = plan.records(0..1, pretend, &never, |_| {});
        let mut bytes = records
            .expect("possible")
            .expect("not cancelled")
            .to_bytes();
        let cut = &bytes[..bytes.len() - 1];
        assert_eq!(Records::from_bytes(cut).err(), Some(RecordsError::Damaged));
        assert_eq!(Records::from_bytes(&[]).err(), Some(RecordsError::Damaged));
        bytes[0] ^= 1;
        let error = Records::from_bytes(&bytes).err();
        assert_eq!(error, Some(RecordsError::Version));
    }
}
