//! Records of runs: tables, statistics, paired comparisons, reports and files.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use carob_lab::export::{self, Column, ColumnKind, Value};
use carob_lab::metrics::{self, METRICS, Metric, Samples};
use carob_lab::report::{FIGURES, Report, Subject, comparison};
use carob_lab::run::{EachRow, Outcome, Plan, Records, Selection};
use carob_lab::scenario as lab;
use carob_lab::statistics::{Statistic, Statistics};
use carob_studies::papers;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::compare::Groups;
use crate::errors;
use crate::figures::{self, Drawn, Swept};
use crate::table::{Table, TableBuilder};

/// Swept settings and their values.
pub(crate) type Labels = Vec<(String, String)>;

/// One scenario of a batch with its swept values, and the records of its runs.
#[derive(Clone)]
pub(crate) struct Point {
    pub(crate) scenario: Arc<lab::Scenario>,
    pub(crate) name: String,
    pub(crate) set: Vec<String>,
    /// Swept settings and their values.
    pub(crate) labels: Labels,
    pub(crate) selection: Selection,
    pub(crate) records: Records,
}

impl Point {
    pub(crate) fn plan(&self) -> Plan<'_> {
        Plan::new(&self.scenario, &self.selection).expect("a plan was made of it before")
    }

    fn each(&self) -> Vec<EachRow> {
        let plan = self.plan();
        let outcome = plan.outcome_of(self.records.clone());
        self.labelled(outcome.each())
    }

    /// Whether a key of a cell, or of the sweep, has this value as written or shown.
    fn has(&self, cell: &lab::Cell, key: &str, value: &str) -> bool {
        let own = |(name, text): &(String, String)| name == key && text == value;
        let swept = cell.values.iter().find(|(name, _)| name == key);
        let shown = |of: &lab::value::Value| of.to_string() == value || of.bare() == value;
        self.labels.iter().any(own) || swept.is_some_and(|(_, of)| shown(of))
    }

    /// Rows with the swept values added to the cell's.
    pub(crate) fn labelled(&self, mut rows: Vec<EachRow>) -> Vec<EachRow> {
        for row in &mut rows {
            label(&mut row.cell, &self.labels);
        }
        rows
    }
}

pub(crate) fn label(
    cell: &mut serde_json::Map<String, serde_json::Value>,
    labels: &[(String, String)],
) {
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

    /// Checks the names of swept keys.
    fn known_keys(&self, keys: &[(String, String)]) -> PyResult<()> {
        let rows = self.points.first().map(Point::each).unwrap_or_default();
        let swept = rows.first().map(|row| &row.cell);
        let is_swept = |key: &str| swept.is_some_and(|cell| cell.contains_key(key));
        let Some((key, _)) = keys.iter().find(|(key, _)| !is_swept(key)) else {
            return Ok(());
        };
        let all: Vec<&str> = swept
            .iter()
            .flat_map(|cell| cell.keys().map(String::as_str))
            .collect();
        let what = format!("no swept key \"{key}\"; there are {}", all.join(", "));
        Err(PyValueError::new_err(what))
    }
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

    /// A row for each run and metric, with its statistics: as in `carob lab run --each --csv`.
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

    /// A row for each cell, algorithm and metric, over all runs: as in `carob lab run --csv`.
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

    /// The rows that `carob lab run --json` prints, or with `each` the rows of `--each --json`.
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

    /// Samples of a metric: one per response, flow or run.
    #[pyo3(signature = (metric, algorithm=None, cell=None, keys=Vec::new()))]
    fn samples(
        &self,
        py: Python<'_>,
        metric: &str,
        algorithm: Option<&str>,
        cell: Option<&str>,
        keys: Vec<(String, String)>,
    ) -> PyResult<Vec<f64>> {
        known(metric)?;
        self.known_keys(&keys)?;
        Ok(py.detach(|| {
            let mut samples = Samples::new();
            self.outcomes(|point, outcome| {
                for (job, record) in outcome.runs() {
                    let fits = |wanted: Option<&str>, name: &str| wanted.is_none_or(|w| w == name);
                    if fits(algorithm, &job.algorithm.name)
                        && fits(cell, &job.cell.name)
                        && keys
                            .iter()
                            .all(|(key, value)| point.has(job.cell, key, value))
                    {
                        metrics::collect(&record, &mut samples);
                    }
                }
            });
            samples.remove(metric).unwrap_or_default()
        }))
    }

    /// A row for each sample of a metric, with the labels of its run.
    fn sample_table(&self, py: Python<'_>, metric: &str) -> PyResult<Table> {
        let metric = known(metric)?;
        Ok(py.detach(|| {
            let mut table: Option<TableBuilder> = None;
            self.outcomes(|point, outcome| {
                let records = outcome.runs().map(|(_, record)| record);
                let rows = point.labelled(outcome.each());
                for (row, record) in rows.iter().zip(records) {
                    let mut samples = Samples::new();
                    metrics::collect(&record, &mut samples);
                    let (columns, front) = front(row);
                    let lines = samples.remove(metric.name).unwrap_or_default();
                    let line = |value: f64| [&front[..], &[Value::Number(value)]].concat();
                    let add = table.get_or_insert_with(|| {
                        let last =
                            Column::new(metric.name, metric.unit, ColumnKind::Number, metric.about);
                        TableBuilder::new([columns, vec![last]].concat())
                    });
                    add.add(lines.into_iter().map(line));
                }
            });
            table
                .unwrap_or_else(|| TableBuilder::new(Vec::new()))
                .finish()
        }))
    }

    /// A statistic of all samples of a metric.
    #[pyo3(signature = (metric, statistic="p50", algorithm=None, cell=None, keys=Vec::new()))]
    fn statistic(
        &self,
        py: Python<'_>,
        metric: &str,
        statistic: &str,
        algorithm: Option<&str>,
        cell: Option<&str>,
        keys: Vec<(String, String)>,
    ) -> PyResult<Option<f64>> {
        let Some(named) = Statistic::named(statistic) else {
            let all = Statistic::ALL.map(Statistic::name).join(", ");
            let what = format!("unknown statistic \"{statistic}\"; there are {all}");
            return Err(PyValueError::new_err(what));
        };
        let samples = self.samples(py, metric, algorithm, cell, keys)?;
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

    /// A figure of the report by name, or without one the first that there is; none where these runs
    /// lack its data.
    #[pyo3(signature = (name=None, metric=None))]
    fn _figure(
        &self,
        py: Python<'_>,
        name: Option<&str>,
        metric: Option<&str>,
    ) -> PyResult<Option<Drawn>> {
        let metric = metric.map(known).transpose()?;
        let chosen = match name {
            Some(name) => vec![figures::named(name)?],
            None => FIGURES.iter().collect(),
        };
        let [point] = &self.points[..] else {
            let what = "a figure of reports is of one scenario, and these runs are of a sweep\n\
                        hint: name the swept key: figure(over=...)";
            return Err(PyValueError::new_err(what));
        };
        py.detach(|| {
            let plan = point.plan();
            let outcome = plan.outcome_of(point.records.clone());
            for figure in chosen {
                if let Some(drawn) = figures::of_reports(figure, &outcome, metric)? {
                    return Ok(Some(drawn));
                }
            }
            Ok(None)
        })
    }

    /// Means of a metric against a key.
    fn _swept(&self, py: Python<'_>, metric: &str, over: &str) -> PyResult<Swept> {
        known(metric)?;
        py.detach(|| Swept::of(self.each(), metric, over))
    }

    /// Swept keys, in the order of the sweep.
    #[getter]
    fn swept_keys(&self) -> Vec<String> {
        let labels = self.points.first().map(|point| &point.labels);
        let keys = labels.into_iter().flatten().map(|(key, _)| key.clone());
        keys.collect()
    }

    /// The report as HTML.
    fn _report(&self, py: Python<'_>, command: String) -> PyResult<String> {
        let report = |point: &Point, command| {
            let plan = point.plan();
            let outcome = plan.outcome_of(point.records.clone());
            let subject = Subject {
                name: &point.name,
                outcome: &outcome,
                set: &point.set,
                command,
            };
            comparison(&subject, &papers::published()).map_err(|error| errors::scenario(error, ""))
        };
        py.detach(|| {
            if let [point] = &self.points[..] {
                return Ok(report(point, command)?.html());
            }
            let mut whole = Report {
                title: self
                    .points
                    .first()
                    .map_or_else(String::new, |point| point.name.clone()),
                lead: format!("A sweep of {} sets of settings.", self.points.len()),
                command: command.clone(),
                ..Report::default()
            };
            for point in &self.points {
                let settings = point
                    .labels
                    .iter()
                    .map(|(key, value)| format!("{key} {value}"));
                let settings = settings.collect::<Vec<_>>().join(", ");
                let mut part = report(point, command.clone())?;
                for section in &mut part.sections {
                    section.heading = format!("{settings}: {}", section.heading);
                }
                if let Some(first) = part.sections.first_mut() {
                    first.text.insert(0, part.lead);
                }
                whole.sections.append(&mut part.sections);
            }
            Ok(whole.html())
        })
    }

    /// Writes the runs to a JSON Lines file.
    fn _save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let shown = path.display().to_string();
        py.detach(|| {
            let file = File::create(&path).map_err(|error| failed(&shown, &error))?;
            let mut writer = BufWriter::new(file);
            self.each()
                .try_for_each(|row| writer.write_all(export::each_json(&row).as_bytes()))
                .and_then(|()| writer.flush())
                .map_err(|error| failed(&shown, &error))
        })
    }
}

/// Reads the runs of a JSON Lines file as [`Runs::long_table`] has them.
#[pyfunction]
pub(crate) fn load(py: Python<'_>, path: PathBuf) -> PyResult<Table> {
    let shown = path.display().to_string();
    py.detach(|| {
        let cannot = |error| PyOSError::new_err(format!("cannot read {shown}: {error}"));
        let file = File::open(&path).map_err(cannot)?;
        let mut table: Option<TableBuilder> = None;
        for (number, line) in BufReader::new(file).lines().enumerate() {
            let row = export::read_each_json(&line.map_err(cannot)?).ok_or_else(|| {
                errors::CarobError::new_err(format!(
                    "{shown}: line {} is no run\nhint: Runs.save() and `carob lab run --each --json` write runs",
                    number + 1
                ))
            })?;
            let add = table.get_or_insert_with(|| TableBuilder::new(export::each_columns(&row.cell)));
            add.add(export::each_lines(&row));
        }
        Ok(table.unwrap_or_else(|| TableBuilder::new(Vec::new())).finish())
    })
}

pub(crate) fn failed(shown: &str, error: &dyn std::error::Error) -> PyErr {
    PyOSError::new_err(format!("cannot write {shown}: {error}"))
}

/// The metric of a name.
fn known(metric: &str) -> PyResult<&'static Metric> {
    if let Some(known) = Metric::named(metric) {
        return Ok(known);
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
    let (mut columns, _) = front(first);
    for (column, key) in columns.iter_mut().skip(1).zip(first.cell.keys()) {
        // A swept key and a metric can have the same name, such as `loss`.
        if Metric::named(key).is_some()
            && let Ok(found) = lab::keys::resolve(key)
        {
            column.name = found.path;
        }
    }
    for metric in &metrics {
        let column = Column::new(metric.name, metric.unit, ColumnKind::Number, metric.about);
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
        let (_, mut line) = front(row);
        line.extend(metrics.iter().map(|metric| {
            let found = row.metrics.get(metric.name);
            found.map_or(Value::Missing, |statistics| Value::Number(statistics.mean))
        }));
        line.push(Value::Text(row.scenario_hash.as_str().into()));
        line.push(Value::Name(env!("CARGO_PKG_VERSION")));
        line
    }));
    table.finish()
}

/// Columns of a run before its values, and their values: cell, swept values, algorithm, seed, trace hash.
fn front(row: &EachRow) -> (Vec<Column>, Vec<Value>) {
    let mut columns = export::each_columns(&row.cell);
    let end = columns.iter().position(|column| column.name == "metric");
    columns.truncate(end.expect("its column"));
    // A row of the long table starts with the run's values; `resize` cuts the statistics off.
    let mut line = export::each_lines(row)
        .into_iter()
        .next()
        .unwrap_or_default();
    line.resize(columns.len(), Value::Missing);
    (columns, line)
}
