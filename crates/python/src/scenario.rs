//! Scenarios, and batches of their runs for other processes.

use carob_lab::metrics::METRICS;
use carob_lab::run::{Plan, Records, Selection, on_threads};
use carob_lab::scenario::{self as lab, ScenarioErrors, builtin};
use carob_sim::registry::Registry;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use crate::errors;
use crate::runs::{Labels, Point, Runs};

/// The largest scenario file, in bytes.
const FILE_BYTES_MAX: usize = 1 << 20;
/// Polling interval of signals and progress.
pub(crate) const POLL: Duration = Duration::from_millis(50);

/// A scenario that was read and checked.
#[pyclass(frozen, subclass, module = "carob")]
pub(crate) struct Scenario {
    /// Built-in name or path, as typed.
    name: String,
    text: String,
    set: Vec<String>,
    algorithms: Option<Vec<String>>,
    pub(crate) read: Arc<lab::Scenario>,
}

#[pymethods]
impl Scenario {
    /// Reads a built-in scenario, a `.toml` file, or `text`.
    #[new]
    #[pyo3(signature = (name, text=None, settings=Vec::new(), algorithms=None))]
    fn new(
        name: &str,
        text: Option<String>,
        settings: Vec<String>,
        algorithms: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let text = match text {
            Some(text) => text,
            None => text_of(name)?,
        };
        let read = lab::Scenario::with_algorithms(name, &text, &settings, algorithms.as_deref());
        Ok(Self {
            name: name.to_owned(),
            text,
            set: settings,
            algorithms,
            read: Arc::new(read.map_err(|errors| wrong(&errors))?),
        })
    }

    /// Returns the arguments that recreate it in another process.
    fn __getnewargs__(&self) -> (String, String, Vec<String>, Option<Vec<String>>) {
        let algorithms = self.algorithms.clone();
        let (name, text) = (self.name.clone(), self.text.clone());
        (name, text, self.set.clone(), algorithms)
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn title(&self) -> String {
        self.read.title(&self.name)
    }

    #[getter]
    fn about(&self) -> &str {
        self.read.about()
    }

    #[getter]
    fn text(&self) -> &str {
        &self.text
    }

    #[getter]
    fn settings(&self) -> Vec<String> {
        self.set.clone()
    }

    #[getter]
    fn hash(&self) -> String {
        format!("{:016x}", self.read.hash())
    }

    #[getter]
    fn cells(&self) -> Vec<String> {
        let cells = self.read.cells().iter();
        cells.map(|cell| cell.name.clone()).collect()
    }

    #[getter]
    fn algorithms(&self) -> Vec<String> {
        let algorithms = self.read.algorithms().iter();
        algorithms.map(|one| one.name.clone()).collect()
    }

    #[getter]
    fn seeds(&self) -> u64 {
        self.read.seeds()
    }

    #[getter]
    fn first_seed(&self) -> u64 {
        self.read.first_seed()
    }

    /// Facts of the network and the workload, as (name, value).
    fn network(&self) -> Vec<(String, String)> {
        let cells: Vec<&lab::Cell> = self.read.cells().iter().collect();
        self.read.network(&cells)
    }

    /// Makes the runs in this process.
    #[pyo3(signature = (cell=None, everywhere=false, seed=None, seeds=None, threads=None, progress=None))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn _run(
        &self,
        py: Python<'_>,
        cell: Option<String>,
        everywhere: bool,
        seed: Option<u64>,
        seeds: Option<u64>,
        threads: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Runs> {
        let selection = selection(cell, everywhere, seed, seeds);
        let records = {
            let plan = self.plan(&selection)?;
            let runs = 0..plan.jobs().len();
            make(py, &plan, runs, threads, progress.as_ref())?
        };
        Ok(Runs::of(vec![Point {
            scenario: self.read.clone(),
            name: self.name.clone(),
            set: self.set.clone(),
            labels: Vec::new(),
            selection,
            records,
        }]))
    }
}

impl Scenario {
    pub(crate) fn plan(&self, selection: &Selection) -> PyResult<Plan<'_>> {
        Plan::new(&self.read, selection)
            .map_err(|error| errors::scenario(error, "Scenario.cells has the names of all cells"))
    }

    pub(crate) fn point(&self, labels: Labels, selection: &Selection) -> Point {
        Point {
            scenario: self.read.clone(),
            name: self.name.clone(),
            set: self.set.clone(),
            labels,
            selection: selection.clone(),
            records: Records::default(),
        }
    }
}

pub(crate) fn selection(
    cell: Option<String>,
    everywhere: bool,
    seed: Option<u64>,
    seeds: Option<u64>,
) -> Selection {
    Selection {
        cell,
        everywhere,
        seed,
        seeds,
        ..Selection::default()
    }
}

/// Makes consecutive runs of a plan without the GIL; Ctrl-C ends them.
fn make(
    py: Python<'_>,
    plan: &Plan<'_>,
    runs: std::ops::Range<usize>,
    threads: Option<usize>,
    progress: Option<&Py<PyAny>>,
) -> PyResult<Records> {
    let of_all = runs.len();
    let (done, cancelled) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || {
        plan.records(runs, carob_sim::run, &cancelled, |count| {
            done.fetch_max(count, Ordering::Relaxed);
        })
    };
    let (sender, receiver) = mpsc::channel();
    // `detach` wants a `Send` closure, and `&Receiver` is not `Send`, but `&Mutex<Receiver>` is.
    let receiver = Mutex::new(receiver);
    std::thread::scope(|scope| {
        scope.spawn(move || sender.send(on_threads(threads, work)));
        let mut failed = None;
        loop {
            let outcome = py.detach(|| {
                let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
                receiver.recv_timeout(POLL)
            });
            if failed.is_none() {
                let count = done.load(Ordering::Relaxed);
                let called =
                    progress.map_or(Ok(()), |call| call.call1(py, (count, of_all)).map(drop));
                if let Err(error) = py.check_signals().and(called) {
                    cancelled.store(true, Ordering::Relaxed);
                    failed = Some(error);
                }
            }
            match outcome {
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(errors::CarobError::new_err("a run panicked"));
                }
                Ok(outcome) => {
                    if let Some(error) = failed {
                        return Err(error);
                    }
                    let outcome = outcome.ok_or_else(|| {
                        PyValueError::new_err("threads: this process cannot start so many")
                    })?;
                    let records = outcome.map_err(|error| errors::scenario(error, ""))?;
                    return Ok(records.expect("cancelled after a failure only"));
                }
            }
        }
    })
}

/// Makes the runs `start..end` of a scenario on one thread, and returns their packed records.
#[pyfunction]
#[pyo3(signature = (scenario, cell, everywhere, seed, seeds, start, end))]
#[allow(
    clippy::too_many_arguments,
    reason = "a plain call from other processes"
)]
pub(crate) fn run_batch<'py>(
    py: Python<'py>,
    scenario: &Bound<'py, Scenario>,
    cell: Option<String>,
    everywhere: bool,
    seed: Option<u64>,
    seeds: Option<u64>,
    start: usize,
    end: usize,
) -> PyResult<Bound<'py, PyBytes>> {
    let selection = selection(cell, everywhere, seed, seeds);
    let plan = scenario.get().plan(&selection)?;
    let runs = start..end.clamp(start, plan.jobs().len());
    let records = make(py, &plan, runs, Some(1), None)?;
    Ok(PyBytes::new(py, &records.to_bytes()))
}

fn text_of(name: &str) -> PyResult<String> {
    let path = Path::new(name);
    let is_file = path
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("toml"));
    if is_file {
        let failed =
            |error: std::io::Error| PyOSError::new_err(format!("cannot read {name}: {error}"));
        return carob_lab::files::read_text(path, FILE_BYTES_MAX).map_err(|error| {
            if error.kind() == std::io::ErrorKind::FileTooLarge {
                let what = format!("{name}: a scenario is at most {FILE_BYTES_MAX} bytes");
                return PyValueError::new_err(what);
            }
            failed(error)
        });
    }
    if let Some(one) = builtin::ALL.iter().find(|one| one.name == name) {
        return Ok(one.text.to_owned());
    }
    let near = builtin::nearest(name).map(|near| format!("did you mean \"{near}\"? "));
    let hint = format!(
        "{}carob.scenarios() has all names; a file ends in .toml",
        near.unwrap_or_default()
    );
    let what = format_args!("unknown scenario \"{name}\"");
    Err(errors::scenario(what, &hint))
}

fn wrong(errors: &ScenarioErrors) -> PyErr {
    let hint = match errors.first().place {
        lab::Place::Algorithms(_) => {
            "carob.controllers() has all; tcp-newreno, tcp-cubic, tcp-bbr1 and tcp-bbr3 are over TCP"
        }
        _ => "`carob lab keys` lists every key; units are written, as in \"400 ms\"",
    };
    errors::scenario(errors, hint)
}

/// Names and questions of the built-in scenarios.
#[pyfunction]
pub(crate) fn scenarios() -> Vec<(&'static str, String)> {
    let about = |one: &builtin::BuiltIn| {
        let read = lab::Scenario::read(one.name, one.text, &[]);
        read.map(|read| read.about().to_owned()).unwrap_or_default()
    };
    builtin::ALL
        .iter()
        .map(|one| (one.name, about(one)))
        .collect()
}

/// Names, descriptions and sources of the controllers.
#[pyfunction]
pub(crate) fn controllers() -> Vec<(&'static str, &'static str, &'static str)> {
    let entries = Registry::BUILT_IN.entries();
    entries
        .map(|entry| (entry.name, entry.about, entry.source))
        .collect()
}

/// Names, units and descriptions of the metrics.
#[pyfunction]
pub(crate) fn metrics() -> Vec<(&'static str, &'static str, &'static str)> {
    let metrics = METRICS.iter();
    metrics
        .map(|metric| (metric.name, metric.unit, metric.about))
        .collect()
}
