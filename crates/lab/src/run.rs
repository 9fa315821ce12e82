//! Runs: every cell with every algorithm and seed, in parallel, in an order that never changes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use carob_sim::capture::{Captured, Content};
use carob_sim::hash::fnv1a;
use carob_sim::spec::RunSpec;
pub use carob_sim::spec::{Recording, RunRecord};
use carob_sim::world::RunError;
use rayon::prelude::*;
use serde::Serialize;

use crate::journal::{self, Journal};
use crate::metrics::{self, Samples};
use crate::scenario::{Algorithm, Cell, Scenario};
use crate::statistics::Statistics;

/// The most runs one plan may have.
pub const RUNS_MAX: usize = 10_000_000;

/// Which part of a scenario to run.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only this cell, or those that fit this pattern ([`pattern`](crate::pattern)).
    pub cell: Option<String>,
    /// Run every algorithm in every selected cell, whatever the scenario's `only` lists say: what
    /// a person means who names both a cell and algorithms. It is also what happens where the
    /// lists leave nothing to run.
    pub everywhere: bool,
    /// Only this seed.
    pub seed: Option<u64>,
    /// So many seeds instead of the scenario's number.
    pub seeds: Option<u64>,
    /// What to keep of each run.
    pub record: Recording,
}

/// Why there is nothing to run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PlanError {
    /// The scenario has no cell of that name.
    UnknownCell {
        name: String,
        nearest: Option<String>,
    },
    /// No seeds.
    NothingToRun,
    /// More than [`RUNS_MAX`] runs.
    TooMany,
}

impl PlanError {
    /// There is no such cell; with the nearest there is.
    pub fn unknown_cell(scenario: &Scenario, name: &str) -> Self {
        Self::UnknownCell {
            name: name.to_owned(),
            nearest: nearest_cell(scenario, name),
        }
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownCell {
                name,
                nearest: Some(nearest),
            } => {
                write!(f, "no cell \"{name}\"; did you mean \"{nearest}\"?")
            }
            Self::UnknownCell {
                name,
                nearest: None,
            } => write!(f, "no cell \"{name}\""),
            Self::NothingToRun => f.write_str("no seeds, so nothing to run"),
            Self::TooMany => write!(f, "more than {RUNS_MAX} runs"),
        }
    }
}

impl std::error::Error for PlanError {}

/// Why a plan was not carried out.
#[derive(Debug)]
pub enum Impossible {
    /// A cell cannot be run as its scenario describes it.
    Run {
        /// Which cell.
        cell: String,
        /// Why.
        why: RunError,
    },
    /// The journal cannot be used.
    Journal(journal::Error),
}

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run { cell, why } => write!(f, "cell {cell} cannot be run: {why}"),
            Self::Journal(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Impossible {}

impl From<journal::Error> for Impossible {
    fn from(error: journal::Error) -> Self {
        Self::Journal(error)
    }
}

/// One run to do.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// Its cell.
    pub cell: &'a Cell,
    /// Its algorithm.
    pub algorithm: &'a Algorithm,
    /// Its seed.
    pub seed: u64,
}

/// A flat list of runs: cells, in each its algorithms, for each the seeds.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    scenario: &'a Scenario,
    jobs: Vec<Job<'a>>,
    record: Recording,
}

impl<'a> Plan<'a> {
    /// The runs of a selection.
    pub fn new(scenario: &'a Scenario, selection: &Selection) -> Result<Self, PlanError> {
        let cells: Vec<&Cell> = match &selection.cell {
            None => scenario.cells().iter().collect(),
            Some(name) => {
                let cells = scenario.cells_like(name);
                if cells.is_empty() {
                    return Err(PlanError::unknown_cell(scenario, name));
                }
                cells
            }
        };
        let (first, count) = match selection.seed {
            Some(seed) => (seed, 1),
            None => (
                scenario.first_seed(),
                selection.seeds.unwrap_or(scenario.seeds()),
            ),
        };
        let mut pairs: Vec<(&Cell, &Algorithm)> = cells
            .iter()
            .flat_map(|&cell| scenario.algorithms().iter().map(move |a| (cell, a)))
            .collect();
        if !selection.everywhere && pairs.iter().any(|(cell, a)| a.applies_to(cell)) {
            pairs.retain(|(cell, a)| a.applies_to(cell));
        }
        if pairs.is_empty() || count == 0 {
            return Err(PlanError::NothingToRun);
        }
        if (pairs.len() as u64).saturating_mul(count) > RUNS_MAX as u64 {
            return Err(PlanError::TooMany);
        }
        let jobs = pairs
            .iter()
            .flat_map(|&(cell, algorithm)| {
                (0..count).map(move |k| Job {
                    cell,
                    algorithm,
                    seed: first.wrapping_add(k),
                })
            })
            .collect();
        Ok(Self {
            scenario,
            jobs,
            record: selection.record,
        })
    }

    /// Every run, in order.
    pub fn jobs(&self) -> &[Job<'a>] {
        &self.jobs
    }

    /// The specification of a run.
    pub fn spec(&self, job: &Job<'_>) -> RunSpec {
        let mut spec = self.scenario.spec(job.cell, job.algorithm, job.seed);
        spec.record = self.record;
        spec
    }

    /// The scenario it runs.
    pub fn scenario(&self) -> &'a Scenario {
        self.scenario
    }

    /// What came of the runs, made elsewhere; one record for each of [`jobs`](Self::jobs).
    ///
    /// # Panics
    ///
    /// If there are more or fewer.
    pub fn outcome(&self, records: Vec<RunRecord>) -> Outcome<'_> {
        assert_eq!(records.len(), self.jobs.len(), "a record for each run");
        Outcome {
            plan: self,
            records,
        }
    }

    /// Does every run with `run`, which must depend on nothing but its argument, on all threads
    /// of the current rayon pool (see [`on_threads`]).
    ///
    /// The first run that cannot be made ends the plan. The outcome is in the order of
    /// [`jobs`](Self::jobs) however many threads there are. `progress` hears (done, of all) after
    /// each run, from any thread, counts in any order.
    pub fn execute(
        &self,
        run: impl Fn(&RunSpec) -> Result<RunRecord, RunError> + Sync,
        progress: impl Fn(usize, usize) + Sync,
    ) -> Result<Outcome<'_>, Impossible> {
        self.execute_with(None, run, progress)
    }

    /// As [`execute`](Self::execute), with a journal: what it has is not run again, and what it has
    /// not is kept there. One of the runs it has is made nevertheless, to see that it comes out the
    /// same. Runs with recordings neither come from it nor go there.
    pub fn execute_with(
        &self,
        journal: Option<&Journal>,
        run: impl Fn(&RunSpec) -> Result<RunRecord, RunError> + Sync,
        progress: impl Fn(usize, usize) + Sync,
    ) -> Result<Outcome<'_>, Impossible> {
        let journal = journal.filter(|_| self.record == Recording::default());
        let run = |job: &Job<'a>| {
            run(&self.spec(job)).map_err(|why| Impossible::Run {
                cell: job.cell.name.clone(),
                why,
            })
        };
        if let Some(journal) = journal
            && let Some(job) = self.jobs.iter().find(|job| journal.find(job).is_some())
        {
            journal.check(job, &run(job)?)?;
        }
        let done = AtomicUsize::new(0);
        let one = |job: &Job<'a>| {
            let kept = journal.and_then(|journal| journal.find(job));
            let record = match (kept, journal) {
                (Some(record), _) => record,
                (None, Some(journal)) => {
                    let record = run(job)?;
                    journal.keep(job, &record)?;
                    record
                }
                (None, None) => run(job)?,
            };
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, self.jobs.len());
            Ok(record)
        };
        // Runs differ in length by orders of magnitude; small parts keep threads busy.
        let records: Result<Vec<RunRecord>, Impossible> =
            self.jobs.par_iter().with_max_len(1).map(one).collect();
        Ok(Outcome {
            plan: self,
            records: records?,
        })
    }
}

/// Does `work` on a pool of so many threads, or of one per core; `None` if there can be no such
/// pool.
pub fn on_threads<T: Send>(threads: Option<usize>, work: impl FnOnce() -> T + Send) -> Option<T> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.unwrap_or(0))
        .build()
        .ok()?;
    Some(pool.install(work))
}

fn nearest_cell(scenario: &Scenario, name: &str) -> Option<String> {
    let distance = |cell: &Cell| crate::scenario::keys::distance(name, &cell.name);
    scenario
        .cells()
        .iter()
        .min_by_key(|cell| distance(cell))
        .filter(|cell| distance(cell) <= name.len() / 3)
        .map(|cell| cell.name.clone())
}

/// The records of a plan's runs.
#[derive(Clone, Debug)]
pub struct Outcome<'a> {
    plan: &'a Plan<'a>,
    records: Vec<RunRecord>,
}

/// All runs of one cell and algorithm, as in the machine interface.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    pub metrics: BTreeMap<&'static str, Statistics>,
    /// Hash of everything that decides the outcome, in hexadecimal.
    #[serde(skip)]
    pub scenario_hash: String,
    /// Hash of the trace hashes of all runs, or the trace hash of the only one, in hexadecimal.
    #[serde(skip)]
    pub trace_hash: String,
    /// The study's cell whose printed values are comparable, as `<study>/<cell>`.
    #[serde(skip)]
    pub compare_with: String,
}

/// A [`Row`] with the hashes that tell whether two programs did the same.
#[derive(Clone, Debug, Serialize)]
pub struct HashedRow<'a> {
    #[serde(flatten)]
    row: &'a Row,
    scenario_hash: &'a str,
    trace_hash: &'a str,
}

impl Row {
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
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    pub metrics: BTreeMap<&'static str, Statistics>,
}

impl<'a> Outcome<'a> {
    /// Each run with its record, in order.
    pub fn runs(&self) -> impl Iterator<Item = (&Job<'a>, &RunRecord)> {
        self.plan.jobs.iter().zip(&self.records)
    }

    /// Records of one cell and algorithm, by name.
    pub fn of<'b>(
        &'b self,
        cell: &'b str,
        algorithm: &'b str,
    ) -> impl Iterator<Item = (&'b Job<'a>, &'b RunRecord)> {
        self.runs()
            .filter(move |(job, _)| job.cell.name == cell && job.algorithm.name == algorithm)
    }

    /// One row per cell and algorithm, runs pooled.
    pub fn rows(&self) -> Vec<Row> {
        let mut before = 0;
        self.samples()
            .into_iter()
            .map(|(job, runs, samples)| Row {
                scenario: self.full_name(job.cell),
                cell: job.cell.to_json(),
                algorithm: job.algorithm.name.clone(),
                runs,
                metrics: metrics::summarise(&samples),
                scenario_hash: format!("{:016x}", job.cell.hash),
                trace_hash: {
                    before += runs;
                    trace_hash(&self.records[before - runs..before])
                },
                compare_with: job.cell.compare_with.clone(),
            })
            .collect()
    }

    /// The run of a cell and algorithm whose first flow took closest to the median of those that
    /// completed; the earliest of equals, and the first run if none completed.
    pub fn typical(&self, cell: &str, algorithm: &str) -> Option<Job<'a>> {
        let first_flow = |record: &RunRecord| record.flows.first()?.completion();
        let times: Vec<f64> = self
            .of(cell, algorithm)
            .filter_map(|(_, record)| Some(first_flow(record)?.as_micros() as f64))
            .collect();
        let median = Statistics::of(&times).map(|s| s.p50 as u64);
        let away = |record: &RunRecord| {
            let completion = first_flow(record).map(carob_cc::time::Duration::as_micros);
            completion
                .zip(median)
                .map_or(u64::MAX, |(time, median)| time.abs_diff(median))
        };
        self.of(cell, algorithm)
            .min_by_key(|(_, record)| away(record))
            .map(|(job, _)| *job)
    }

    /// The plan it came from.
    pub fn plan(&self) -> &'a Plan<'a> {
        self.plan
    }

    /// One row per run.
    pub fn each(&self) -> Vec<EachRow> {
        self.runs()
            .map(|(job, record)| {
                let mut samples = Samples::new();
                metrics::collect(record, &mut samples);
                EachRow {
                    scenario: self.full_name(job.cell),
                    cell: job.cell.to_json(),
                    algorithm: job.algorithm.name.clone(),
                    seed: job.seed,
                    trace_hash: format!("{:016x}", record.trace_hash),
                    metrics: metrics::summarise(&samples),
                }
            })
            .collect()
    }

    /// For every cell and algorithm: its first job, the number of runs, and their samples.
    pub fn samples(&self) -> Vec<(&Job<'a>, usize, Samples)> {
        let mut groups: Vec<(&Job<'a>, usize, Samples)> = Vec::new();
        for (job, record) in self.runs() {
            // Jobs of one pair follow each other.
            let same = |first: &Job<'_>| {
                std::ptr::eq(first.cell, job.cell) && std::ptr::eq(first.algorithm, job.algorithm)
            };
            if !groups.last().is_some_and(|(first, ..)| same(first)) {
                groups.push((job, 0, Samples::new()));
            }
            if let Some((_, runs, samples)) = groups.last_mut() {
                *runs += 1;
                metrics::collect(record, samples);
            }
        }
        groups
    }

    fn full_name(&self, cell: &Cell) -> String {
        format!("{}/{}", self.plan.scenario.study(), cell.name)
    }
}

/// One hash of the runs' traces, in hexadecimal.
fn trace_hash(records: &[RunRecord]) -> String {
    let hash = if let [one] = records {
        one.trace_hash
    } else {
        let all = records.iter().flat_map(|r| r.trace_hash.to_be_bytes());
        fnv1a(&all.collect::<Vec<u8>>())
    };
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use carob_cc::time::{Duration, Instant};
    use carob_sim::random::Stream;
    use carob_sim::spec::FlowRecord;

    use super::*;
    use crate::scenario::builtin;

    fn long() -> Scenario {
        let (built_in, _) = builtin::find("thesis/long").expect("a scenario");
        Scenario::read(built_in.name, built_in.text, &[]).expect("a valid one")
    }

    /// A stand-in for the simulator: flows of random length that depend on the spec only.
    #[allow(clippy::unnecessary_wraps, reason = "it stands in for `world::run`")]
    fn pretend(spec: &RunSpec) -> Result<RunRecord, RunError> {
        let mut stream = Stream::new(spec.seed, spec.controller.entry().name);
        let mut flow = || FlowRecord {
            finished: Some(
                Instant::ZERO + stream.uniform(Duration::from_secs(200), Duration::from_secs(400)),
            ),
            exchanges: 400,
            transmissions: 400,
            body_bytes: 102_400,
            ..FlowRecord::default()
        };
        let flows = (0..spec.clients).map(|_| flow()).collect();
        Ok(RunRecord {
            flows,
            trace_hash: spec.seed ^ 0xabc,
            ..RunRecord::default()
        })
    }

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
    fn output_does_not_depend_on_the_number_of_threads() {
        let one = rows_with(1);
        assert_eq!(one, rows_with(2));
        assert_eq!(one, rows_with(7));
    }

    #[test]
    fn a_plan_has_the_cells_the_study_measured() {
        let scenario = long();
        let plan = Plan::new(&scenario, &Selection::default()).expect("a plan");
        // UDP: 2 numbers of clients, 4 errors, the smallest buffer, 2 algorithms. New Reno: all of
        // 4 buffers; BBR: the same with one client. 20 seeds.
        let cells = 2 * 4 * 2 + 2 * 4 * 4 + 4 * 4;
        assert_eq!(cells, 64);
        assert_eq!(plan.jobs().len(), cells * 20);
        assert_eq!(plan.jobs()[0].seed, 1);
        assert_eq!(plan.jobs()[19].seed, 20);
    }

    #[test]
    fn a_cell_outside_the_study_runs_when_asked_for() {
        // Over UDP the study has the smallest buffer only.
        let (built_in, _) = builtin::find("thesis/long").expect("a scenario");
        let udp = ["run.algorithms=default,cocoa-001".to_owned()];
        let scenario = Scenario::read(built_in.name, built_in.text, &udp).expect("a valid one");
        let cell = Some("long-1c-none-inf".to_owned());
        let selection = Selection {
            cell,
            seed: Some(7),
            ..Selection::default()
        };
        let plan = Plan::new(&scenario, &selection).expect("a plan");
        assert_eq!(plan.jobs().len(), 2);
        assert!(plan.jobs().iter().all(|job| job.seed == 7));
    }

    #[test]
    fn a_wrong_cell_finds_its_nearest() {
        let cell = Some("long-1c-non-2500".to_owned());
        let error = Plan::new(
            &long(),
            &Selection {
                cell,
                ..Selection::default()
            },
        )
        .err();
        let text = error.expect("no such cell").to_string();
        assert!(
            text.contains("did you mean \"long-1c-none-2500\""),
            "{text}"
        );
    }

    #[test]
    fn the_typical_run_is_nearest_the_median() {
        let scenario = long();
        let plan = Plan::new(&scenario, &Selection::default()).expect("a plan");
        let seconds = |n| Instant::ZERO + Duration::from_secs(n);
        let outcome = plan
            .execute(
                |spec| {
                    let finished = (spec.seed != 9).then(|| seconds(spec.seed * spec.seed));
                    let flow = FlowRecord {
                        finished,
                        ..FlowRecord::default()
                    };
                    Ok(RunRecord {
                        flows: vec![flow],
                        ..RunRecord::default()
                    })
                },
                |_, _| {},
            )
            .expect("possible");
        // Squares of 1 to 20 without 9: the median of the 19 is 11 squared.
        let typical = outcome.typical("long-1c-none-2500", "default");
        assert_eq!(typical.map(|job| job.seed), Some(11));
        assert!(outcome.typical("long-1c-none-2500", "nobody").is_none());
    }

    #[test]
    fn progress_reaches_the_number_of_runs() {
        let scenario = long();
        let selection = Selection {
            seeds: Some(2),
            ..Selection::default()
        };
        let plan = Plan::new(&scenario, &selection).expect("a plan");
        let most = AtomicUsize::new(0);
        plan.execute(pretend, |done, all| {
            assert_eq!(all, 128);
            most.fetch_max(done, Ordering::Relaxed);
        })
        .expect("possible");
        assert_eq!(most.into_inner(), 128);
    }

    #[test]
    fn rows_have_the_shape_of_the_machine_interface() {
        let scenario = long();
        let selection = Selection {
            seeds: Some(3),
            ..Selection::default()
        };
        let plan = Plan::new(&scenario, &selection).expect("a plan");
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
}
