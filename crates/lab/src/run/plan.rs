//! Plans of runs, and their execution.

use std::fmt::{self, Write as _};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use carob_sim::hash::fnv1a;
use carob_sim::spec::RunError;
use carob_sim::spec::{Recording, RunRecord, RunSpec};
use rayon::prelude::*;

use super::outcome::{Outcome, StoredRecord};
use crate::scenario::{Algorithm, Cell, Scenario, ScenarioErrors};

/// The most runs one plan may have.
pub const RUNS_MAX: usize = 10_000_000;

/// Which part of a scenario to run.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only this cell, or those that fit this pattern ([`pattern`](crate::pattern)).
    pub cell: Option<String>,
    /// Run every algorithm in every selected cell, ignoring the scenario's `only` lists. Meant for
    /// commands that name both a cell and algorithms. It is also what happens where the
    /// lists leave nothing to run.
    pub everywhere: bool,
    /// Only this seed.
    pub seed: Option<u64>,
    /// Number of seeds instead of the scenario's.
    pub seeds: Option<u64>,
    /// The recording of each run.
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
    /// The cells are named after other algorithms than those chosen (`mix.first`).
    OfOthers,
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
                write!(f, "unknown cell \"{name}\"; did you mean \"{nearest}\"?")
            }
            Self::UnknownCell {
                name,
                nearest: None,
            } => write!(f, "unknown cell \"{name}\""),
            Self::NothingToRun => f.write_str("no seeds, so nothing to run"),
            Self::OfOthers => f.write_str(
                "these cells are named after other algorithms than those chosen (mix.first); \
                 choose that of a cell, or leave the choice to the scenario",
            ),
            Self::TooMany => write!(f, "more than {RUNS_MAX} runs"),
        }
    }
}

impl std::error::Error for PlanError {}

/// Why a plan was not carried out.
#[derive(Debug)]
pub enum RunSetupError {
    /// A cell cannot be run as its scenario describes it.
    Run {
        /// Which cell.
        cell: String,
        /// Why.
        why: RunError,
    },
    /// A scenario file cannot be read, or does not take the settings.
    Scenario {
        /// Its name.
        name: String,
        /// The errors with their lines.
        errors: ScenarioErrors,
    },
}

impl fmt::Display for RunSetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run { cell, why } => write!(f, "cell {cell} cannot be run: {why}"),
            Self::Scenario { name, errors } => write!(
                f,
                "scenario {name} cannot be read: {errors}\ncorrect it; `carob lab keys` lists every key"
            ),
        }
    }
}

impl std::error::Error for RunSetupError {}

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

/// The specification of the last run, which serves further seeds of its cell and algorithm.
#[derive(Debug)]
pub(super) struct LastSpec<'a>(Mutex<Option<(Job<'a>, Arc<RunSpec>)>>);

impl<'a> LastSpec<'a> {
    pub(super) const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// The specification of a run of a plan.
    pub(super) fn of(&self, plan: &Plan<'a>, job: &Job<'a>) -> RunSpec {
        let is_same = |(last, _): &&(Job<'a>, Arc<RunSpec>)| {
            ptr::eq(last.cell, job.cell) && ptr::eq(last.algorithm, job.algorithm)
        };
        // Held for the look only, not for making one.
        let last = self.0.lock().ok();
        let known = last.and_then(|last| Some(Arc::clone(&last.as_ref().filter(is_same)?.1)));
        if let Some(known) = known {
            return RunSpec {
                seed: job.seed,
                ..RunSpec::clone(&known)
            };
        }
        let spec = plan.spec(job);
        if let Ok(mut last) = self.0.lock() {
            *last = Some((*job, Arc::new(spec.clone())));
        }
        spec
    }
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
        pairs.retain(|(cell, a)| a.may_run_in(cell));
        if pairs.is_empty() {
            return Err(PlanError::OfOthers);
        }
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

    /// A plan of consecutive runs of this one.
    ///
    /// # Panics
    ///
    /// If there are fewer runs.
    pub fn part(&self, runs: Range<usize>) -> Self {
        Self {
            scenario: self.scenario,
            jobs: self.jobs[runs].to_vec(),
            record: self.record,
        }
    }

    /// Hash of everything that decides the rows: cells, algorithms and seeds.
    pub fn hash(&self) -> u64 {
        let mut text = String::new();
        for job in &self.jobs {
            // A String takes every write.
            let _ = writeln!(
                text,
                "{:016x} {} {}",
                job.cell.hash, job.algorithm.name, job.seed
            );
        }
        fnv1a(text.as_bytes())
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

    /// The outcome of runs made elsewhere; one record for each of [`jobs`](Self::jobs).
    ///
    /// # Panics
    ///
    /// If there are more or fewer.
    pub fn outcome(&self, records: Vec<RunRecord>) -> Outcome<'_> {
        assert_eq!(records.len(), self.jobs.len(), "a record for each run");
        let records = records.into_iter();
        let kept = records.map(|record| StoredRecord::of(record, self.record));
        Outcome::new(self, kept.collect())
    }

    /// Does every run with `run`, which must depend on nothing but its argument, on all threads
    /// of the current rayon pool (see [`on_threads`](super::on_threads)).
    ///
    /// The first run that cannot be made ends the plan. The outcome is in the order of
    /// [`jobs`](Self::jobs) however many threads there are. `progress` is called with (done, of all) after
    /// each run, from any thread, counts in any order.
    pub fn execute(
        &self,
        run: impl Fn(&RunSpec) -> Result<RunRecord, RunError> + Sync,
        progress: impl Fn(usize, usize) + Sync,
    ) -> Result<Outcome<'_>, RunSetupError> {
        let specs = LastSpec::new();
        let run = |job: &Job<'a>| {
            run(&specs.of(self, job)).map_err(|why| RunSetupError::Run {
                cell: job.cell.name.clone(),
                why,
            })
        };
        let done = AtomicUsize::new(0);
        let one = |job: &Job<'a>| {
            let kept = StoredRecord::of(run(job)?, self.record);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, self.jobs.len());
            Ok(kept)
        };
        // Runs differ in length by orders of magnitude; small parts keep threads busy.
        let kept: Result<Vec<StoredRecord>, RunSetupError> =
            self.jobs.par_iter().with_max_len(1).map(one).collect();
        Ok(Outcome::new(self, kept?))
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::{long, plan, pretend};
    use crate::scenario::builtin;

    #[test]
    fn specifications_match_their_jobs_in_any_order() {
        let scenario = long();
        let plan = plan(&scenario, 2);
        let specs = LastSpec::new();
        let jobs = plan.jobs();
        let text = |spec: RunSpec| format!("{spec:?}");
        for job in jobs.iter().chain(jobs.iter().rev().step_by(3)) {
            assert_eq!(text(specs.of(&plan, job)), text(plan.spec(job)));
        }
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
    fn cell_outside_the_study_runs_on_request() {
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
    fn progress_reaches_the_number_of_runs() {
        let scenario = long();
        let plan = plan(&scenario, 2);
        let most = AtomicUsize::new(0);
        plan.execute(pretend, |done, all| {
            assert_eq!(all, 128);
            most.fetch_max(done, Ordering::Relaxed);
        })
        .expect("possible");
        assert_eq!(most.into_inner(), 128);
    }
}
