//! Records of runs: tables, statistics, paired comparisons, reports and files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use carob_lab::export::{self, Column, ColumnKind, Value};
use carob_lab::metrics::{self, METRICS, Samples};
use carob_lab::paired::Paired;
use carob_lab::parquet::{Origin, ParquetError, ParquetWriter};
use carob_lab::report::{Subject, comparison};
use carob_lab::run::{EachRow, Outcome, Plan, Records, Selection};
use carob_lab::scenario as lab;
use carob_lab::statistics::{Statistic, Statistics};
use carob_studies::papers;
use pyo3::exceptions::{PyKeyError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{self, VersionMismatchError};
use crate::scenario::{Scenario, selection};
use crate::table::{Table, TableBuilder};

/// One scenario of a batch with the swept values it stands for, and the records of its runs.
#[derive(Clone)]
pub(crate) struct Point {
    pub(crate) scenario: Arc<lab::Scenario>,
    pub(crate) name: String,
    pub(crate) set: Vec<String>,
    /// Swept settings and their values.
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) selection: Selection,
    pub(crate) records: Records,
}

impl Point {
    fn plan(&self) -> Plan<'_> {
        Plan::new(&self.scenario, &self.selection).expect("a plan was made of it before")
    }

    fn each(&self) -> Vec<EachRow> {
        let plan = self.plan();
        let outcome = plan.outcome_of(self.records.clone());
        self.labelled(outcome.each())
    }

    /// Rows with the swept values among those of the cell.
    fn labelled(&self, mut rows: Vec<EachRow>) -> Vec<EachRow> {
        for row in &mut rows {
            label(&mut row.cell, &self.labels);
        }
        rows
    }
}

fn label(cell: &mut serde_json::Map<String, serde_json::Value>, labels: &[(String, String)]) {
    for (key, value) in labels {
        cell.insert(key.clone(), value.clone().into());
    }
}

/// Records of runs, in the order of points, cells, algorithms and seeds.
#[pyclass(frozen, subclass, module = "carob")]
pub(crate) struct Runs {
    points: Vec<Point>,
}

impl Runs {
    pub(crate) fn of(points: Vec<Point>) -> Self {
        Self { points }
    }

    fn outcomes<T>(&self, mut of: impl FnMut(&Point, &Outcome<'_>) -> T) -> Vec<T> {
        let one = |point: &Point| {
            let plan = point.plan();
            let outcome = plan.outcome_of(point.records.clone());
            of(point, &outcome)
        };
        self.points.iter().map(one).collect()
    }

    fn each(&self) -> impl Iterator<Item = EachRow> {
        self.points.iter().flat_map(Point::each)
    }

    fn hash(&self) -> String {
        batch_hash(self.points.iter())
    }
}

/// Hash of everything that decides the rows.
fn batch_hash<'a>(points: impl Iterator<Item = &'a Point>) -> String {
    let hashes = points.flat_map(|point| point.plan().hash().to_be_bytes());
    let hash = carob_lab::content_hash(&hashes.collect::<Vec<u8>>());
    format!("{hash:016x}")
}

#[pymethods]
impl Runs {
    fn __len__(&self) -> usize {
        self.points.iter().map(|point| point.records.len()).sum()
    }

    #[getter]
    fn scenario_names(&self) -> Vec<String> {
        let names: BTreeSet<&String> = self.points.iter().map(|point| &point.name).collect();
        names.into_iter().cloned().collect()
    }

    /// Algorithms, in the order of the scenario.
    #[getter]
    fn algorithms(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for point in &self.points {
            for job in point.plan().jobs() {
                if !all.contains(&job.algorithm.name) {
                    all.push(job.algorithm.name.clone());
                }
            }
        }
        all
    }

    /// Hash of the trace hashes of all runs, in hexadecimal.
    #[getter]
    fn trace_hash(&self) -> String {
        let mut bytes = Vec::new();
        self.outcomes(|_, outcome| {
            for (_, record) in outcome.runs() {
                bytes.extend(record.trace_hash.to_be_bytes());
            }
        });
        format!("{:016x}", carob_lab::content_hash(&bytes))
    }

    /// A row for each run, with a column for each metric.
    fn table(&self, py: Python<'_>) -> Table {
        py.detach(|| {
            let rows: Vec<EachRow> = self.each().collect();
            wide(&rows)
        })
    }

    /// A row for each run and metric, with its statistics: what `carob lab run --each --parquet` has.
    fn long_table(&self, py: Python<'_>) -> Table {
        py.detach(|| {
            let mut rows = self.each().peekable();
            let columns = rows.peek().map(|row| export::each_columns(&row.cell));
            let mut table = TableBuilder::new(columns.unwrap_or_default());
            for row in rows {
                table.add(export::each_lines(&row));
            }
            table.finish()
        })
    }

    /// A row for each cell, algorithm and metric, over all runs: what `carob lab run --parquet` has.
    fn summary_table(&self, py: Python<'_>) -> Table {
        py.detach(|| {
            let rows = self.outcomes(|point, outcome| {
                let mut rows = outcome.rows();
                for row in &mut rows {
                    label(&mut row.cell, &point.labels);
                }
                rows
            });
            let mut rows = rows.into_iter().flatten().peekable();
            let columns = rows.peek().map(|row| export::row_columns(&row.cell));
            let mut table = TableBuilder::new(columns.unwrap_or_default());
            for row in rows {
                table.add(export::row_lines(&row));
            }
            table.finish()
        })
    }

    /// The rows that `carob lab run --json` prints, or with `each` those of `--each --json`.
    #[pyo3(signature = (each=false))]
    fn json(&self, py: Python<'_>, each: bool) -> String {
        py.detach(|| {
            let line =
                |row: serde_json::Result<String>| row.expect("text keys, finite numbers") + "\n";
            if each {
                let rows = self.each();
                return rows.map(|row| line(serde_json::to_string(&row))).collect();
            }
            let rows = self.outcomes(|_, outcome| outcome.rows());
            let rows = rows.iter().flatten();
            rows.map(|row| line(serde_json::to_string(row))).collect()
        })
    }

    /// Samples of a metric: of flows one each, of runs one each.
    #[pyo3(signature = (metric, algorithm=None, cell=None))]
    fn samples(
        &self,
        py: Python<'_>,
        metric: &str,
        algorithm: Option<&str>,
        cell: Option<&str>,
    ) -> PyResult<Vec<f64>> {
        known(metric)?;
        Ok(py.detach(|| {
            let mut samples = Samples::new();
            self.outcomes(|_, outcome| {
                for (job, record) in outcome.runs() {
                    let fits = |wanted: Option<&str>, name: &str| wanted.is_none_or(|w| w == name);
                    if fits(algorithm, &job.algorithm.name) && fits(cell, &job.cell.name) {
                        metrics::collect(&record, &mut samples);
                    }
                }
            });
            samples.remove(metric).unwrap_or_default()
        }))
    }

    /// A statistic of all samples of a metric.
    #[pyo3(signature = (metric, statistic="p50", algorithm=None, cell=None))]
    fn statistic(
        &self,
        py: Python<'_>,
        metric: &str,
        statistic: &str,
        algorithm: Option<&str>,
        cell: Option<&str>,
    ) -> PyResult<Option<f64>> {
        let Some(named) = Statistic::named(statistic) else {
            let all = Statistic::ALL.map(Statistic::name).join(", ");
            let what = format!("unknown statistic \"{statistic}\"; there are {all}");
            return Err(PyValueError::new_err(what));
        };
        let samples = self.samples(py, metric, algorithm, cell)?;
        Ok(Statistics::of(&samples).map(|all| all.get(named)))
    }

    /// Paired differences; the class `Comparison` of Python has them.
    fn _compare<'py>(
        &self,
        py: Python<'py>,
        metric: &str,
        by: &str,
        against: &str,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        known(metric)?;
        let groups = Groups::of(self.each(), metric, by)?;
        groups.compared(py, by, against)
    }

    /// The report as HTML.
    fn _report(&self, py: Python<'_>, command: String) -> PyResult<String> {
        let [point] = &self.points[..] else {
            let what = "a report is of one scenario, and these runs are of a sweep";
            return Err(PyValueError::new_err(what));
        };
        py.detach(|| {
            let plan = point.plan();
            let outcome = plan.outcome_of(point.records.clone());
            let subject = Subject {
                name: &point.name,
                outcome: &outcome,
                set: &point.set,
                command,
            };
            let report = comparison(&subject, &papers::published());
            report
                .map(|report| report.html())
                .map_err(|error| errors::scenario(error, ""))
        })
    }

    /// Writes the rows of [`long_table`](Self::long_table) to a Parquet file.
    fn _save(&self, py: Python<'_>, path: PathBuf, command: &str) -> PyResult<usize> {
        let shown = path.display().to_string();
        py.detach(|| {
            let name = self.points.first().map_or("", |point| &point.name);
            let (hash, mut rows) = (self.hash(), self.each().peekable());
            let columns = rows.peek().map(|row| export::each_columns(&row.cell));
            let origin = Origin {
                name,
                command,
                hash: &hash,
            };
            let file = File::create(&path).map_err(|error| failed(&shown, &error))?;
            let wrong = |error: ParquetError| failed(&shown, &error);
            let mut writer = ParquetWriter::new(file, columns.unwrap_or_default(), &origin, &[])
                .map_err(wrong)?;
            for row in rows {
                writer.add(export::each_lines(&row)).map_err(wrong)?;
            }
            writer.finish().map_err(wrong)
        })
    }
}

fn failed(shown: &str, error: &dyn std::error::Error) -> PyErr {
    PyOSError::new_err(format!("cannot write {shown}: {error}"))
}

/// Checks the name of a metric.
fn known(metric: &str) -> PyResult<()> {
    if METRICS.iter().any(|known| known.name == metric) {
        return Ok(());
    }
    let near = carob_cc::registry::nearest(metric, METRICS.iter().map(|known| known.name));
    let near: Vec<&str> = near.collect();
    let near = match &near[..] {
        [] => String::new(),
        near => format!("; did you mean {}?", near.join(" or ")),
    };
    let what = format!("unknown metric \"{metric}\"{near}\nhint: carob.metrics() has all");
    Err(PyValueError::new_err(what))
}

/// A row for each run: the mean of each metric over the run's flows.
fn wide(rows: &[EachRow]) -> Table {
    let Some(first) = rows.first() else {
        return TableBuilder::new(Vec::new()).finish();
    };
    let present: BTreeSet<&str> = rows
        .iter()
        .flat_map(|row| row.metrics.keys().copied())
        .collect();
    let metrics: Vec<_> = METRICS
        .iter()
        .filter(|metric| present.contains(metric.name))
        .collect();
    let mut columns = export::each_columns(&first.cell);
    let end = columns
        .iter()
        .position(|column| column.name == "metric")
        .expect("its column");
    columns.truncate(end);
    for metric in &metrics {
        let column = Column::new(metric.name, metric.unit(), ColumnKind::Number, metric.about);
        columns.push(column);
    }
    let hash = "hash of all settings of the cell; algorithm and seed are not in it";
    columns.push(Column::new("scenario_hash", "-", ColumnKind::Text, hash));
    columns.push(Column::new(
        "version",
        "-",
        ColumnKind::Text,
        "version of carob",
    ));
    let mut table = TableBuilder::new(columns);
    table.add(rows.iter().map(|row| {
        // The front of a long line is that of the run.
        let mut line = export::each_lines(row)
            .into_iter()
            .next()
            .unwrap_or_default();
        line.resize(end, Value::Missing);
        line.extend(metrics.iter().map(|metric| {
            let found = row.metrics.get(metric.name);
            found.map_or(Value::Missing, |statistics| Value::Number(statistics.mean))
        }));
        line.push(Value::Text(row.scenario_hash.clone()));
        line.push(Value::Text(env!("CARGO_PKG_VERSION").to_owned()));
        line
    }));
    table.finish()
}

/// Values of a metric by group, arm and seed.
struct Groups {
    seeds: BTreeSet<u64>,
    all: Vec<(BTreeMap<String, String>, Vec<(String, Arm)>)>,
}

type Arm = BTreeMap<u64, f64>;

impl Groups {
    /// Groups runs by everything but the key `by`, whose values are the arms.
    fn of(rows: impl Iterator<Item = EachRow>, metric: &str, by: &str) -> PyResult<Self> {
        let mut groups = Self {
            seeds: BTreeSet::new(),
            all: Vec::new(),
        };
        for row in rows {
            let plain = |value: &serde_json::Value| {
                value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned)
            };
            let mut keys: BTreeMap<String, String> = row
                .cell
                .iter()
                .map(|(key, value)| (key.clone(), plain(value)))
                .collect();
            keys.insert("algorithm".to_owned(), row.algorithm.clone());
            let Some(arm) = keys.remove(by) else {
                let known: Vec<String> = keys.into_keys().collect();
                let what = format!(
                    "no column \"{by}\" to compare by; there are {}",
                    known.join(", ")
                );
                return Err(PyKeyError::new_err(what));
            };
            groups.seeds.insert(row.seed);
            let arms = groups.arms(keys);
            let place = arms
                .iter()
                .position(|(name, _)| *name == arm)
                .unwrap_or_else(|| {
                    arms.push((arm, Arm::new()));
                    arms.len() - 1
                });
            if let Some(statistics) = row.metrics.get(metric) {
                arms[place].1.insert(row.seed, statistics.mean);
            }
        }
        Ok(groups)
    }

    fn arms(&mut self, keys: BTreeMap<String, String>) -> &mut Vec<(String, Arm)> {
        let place = self.all.iter().position(|(known, _)| *known == keys);
        let place = place.unwrap_or_else(|| {
            self.all.push((keys, Vec::new()));
            self.all.len() - 1
        });
        &mut self.all[place].1
    }

    fn compared<'py>(
        &self,
        py: Python<'py>,
        by: &str,
        against: &str,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let pairs: Vec<_> = (self.all.iter())
            .filter_map(|(keys, arms)| {
                let (_, base) = arms.iter().find(|(name, _)| name == against)?;
                let others = arms.iter().filter(|(name, _)| name != against);
                Some(others.map(move |(name, arm)| (keys, name, arm, base)))
            })
            .flatten()
            .collect();
        if pairs.is_empty() {
            let arms = self
                .all
                .iter()
                .flat_map(|(_, arms)| arms.iter().map(|(name, _)| name));
            let arms: BTreeSet<&String> = arms.collect();
            let arms: Vec<&str> = arms.into_iter().map(String::as_str).collect();
            let what = format!(
                "nothing to compare with {by} \"{against}\"; there are {}",
                arms.join(", ")
            );
            return Err(PyValueError::new_err(what));
        }
        let count = pairs.len();
        pairs
            .into_iter()
            .map(|(keys, name, arm, base)| self.pair(py, (keys, name, against), (arm, base), count))
            .collect()
    }

    fn pair<'py>(
        &self,
        py: Python<'py>,
        (keys, name, against): (&BTreeMap<String, String>, &str, &str),
        (arm, base): (&Arm, &Arm),
        comparisons: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let of = |arm: &Arm| -> Vec<Option<f64>> {
            self.seeds
                .iter()
                .map(|seed| arm.get(seed).copied())
                .collect()
        };
        let (values, bases) = (of(arm), of(base));
        let both = || bases.iter().zip(&values).filter_map(|(a, b)| a.zip(*b));
        let median = |values: Vec<f64>| Statistics::of(&values).map(|all| all.p50);
        let seeds = both().count();
        let lower = both().filter(|(base, value)| value < base).count();
        let paired = Paired::of(&bases, &values, comparisons);
        let row = PyDict::new(py);
        row.set_item("group", keys.clone())?;
        row.set_item("value", name)?;
        row.set_item("against", against)?;
        row.set_item("seeds", seeds)?;
        row.set_item("median", median(arm.values().copied().collect()))?;
        row.set_item("median_against", median(base.values().copied().collect()))?;
        row.set_item("difference", mean_difference(both()))?;
        row.set_item("low", paired.map(|paired| paired.mean - paired.half))?;
        row.set_item("high", paired.map(|paired| paired.mean + paired.half))?;
        let share = (seeds > 0).then(|| lower as f64 / seeds as f64);
        row.set_item("lower", share)?;
        Ok(row)
    }
}

/// The mean of the paired differences.
fn mean_difference(both: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let differences: Vec<f64> = both.map(|(base, value)| value - base).collect();
    Statistics::of(&differences).map(|all| all.mean)
}

/// A batch of scenarios whose runs are made elsewhere, in any order of parts.
#[pyclass(module = "carob")]
pub(crate) struct Batches {
    points: Vec<Point>,
    /// Number of runs of each point.
    jobs: Vec<usize>,
    /// A file that takes the rows instead of memory, its name and its number of rows.
    file: Option<(ParquetWriter<File>, String)>,
}

#[pymethods]
impl Batches {
    /// A batch of points: scenarios, each with its swept settings and values.
    #[new]
    #[pyo3(signature = (points, cell=None, everywhere=false, seed=None, seeds=None))]
    fn new(
        points: Vec<(Bound<'_, Scenario>, Vec<(String, String)>)>,
        cell: Option<String>,
        everywhere: bool,
        seed: Option<u64>,
        seeds: Option<u64>,
    ) -> PyResult<Self> {
        let selection = selection(cell, everywhere, seed, seeds);
        let mut batches = Self {
            points: Vec::with_capacity(points.len()),
            jobs: Vec::with_capacity(points.len()),
            file: None,
        };
        for (scenario, labels) in points {
            let scenario = scenario.get();
            batches.jobs.push(scenario.plan(&selection)?.jobs().len());
            batches.points.push(scenario.point(labels, &selection));
        }
        Ok(batches)
    }

    /// Number of runs of each point.
    #[getter]
    fn jobs(&self) -> Vec<usize> {
        self.jobs.clone()
    }

    /// Lets rows go to a Parquet file instead of memory.
    fn write_to(&mut self, path: PathBuf, command: &str) -> PyResult<()> {
        let shown = path.display().to_string();
        let Some(first) = self.points.first() else {
            return Err(PyValueError::new_err("no runs to write"));
        };
        let (plan, hash) = (first.plan(), batch_hash(self.points.iter()));
        let mut cell = plan.jobs()[0].cell.to_json();
        label(&mut cell, &first.labels);
        let origin = Origin {
            name: &first.name,
            command,
            hash: &hash,
        };
        let file = File::create(&path).map_err(|error| failed(&shown, &error))?;
        let writer = ParquetWriter::new(file, export::each_columns(&cell), &origin, &[]);
        let writer = writer.map_err(|error| failed(&shown, &error))?;
        drop(plan);
        self.file = Some((writer, shown));
        Ok(())
    }

    /// Takes the records of the runs `start..` of a point. Parts come in order.
    fn add(&mut self, py: Python<'_>, point: usize, start: usize, records: &[u8]) -> PyResult<()> {
        py.detach(|| {
            let records = Records::from_bytes(records)
                .map_err(|error| VersionMismatchError::new_err(error.to_string()))?;
            let Self { points, file, .. } = self;
            let point = &mut points[point];
            let Some((writer, shown)) = file else {
                if point.records.len() != start {
                    return Err(PyValueError::new_err("parts must come in order"));
                }
                point.records.append(records);
                return Ok(());
            };
            let plan = point.plan();
            let part = plan.part(start..start + records.len());
            let rows = point.labelled(part.outcome_of(records).each());
            let added = writer.add(rows.iter().flat_map(export::each_lines));
            added.map_err(|error| failed(shown, &error))
        })
    }

    /// The runs, once all parts are there.
    fn runs(&mut self) -> PyResult<Runs> {
        let complete =
            (self.points.iter().zip(&self.jobs)).all(|(point, jobs)| point.records.len() == *jobs);
        if !complete {
            return Err(PyValueError::new_err("parts are missing"));
        }
        Ok(Runs::of(std::mem::take(&mut self.points)))
    }

    /// Completes the file; returns its number of rows.
    fn finish(&mut self) -> PyResult<usize> {
        let Some((writer, shown)) = self.file.take() else {
            return Err(PyValueError::new_err("no file was named"));
        };
        writer.finish().map_err(|error| failed(&shown, &error))
    }
}
