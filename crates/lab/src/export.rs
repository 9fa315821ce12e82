//! Rows as tables with a data dictionary: one line per metric, so that every line has the same
//! columns. Comma-separated values and JSON Lines are made here, other formats from [`Column`]s and [`Value`]s.

use std::sync::Arc;

use serde::Deserialize as _;
use serde_json::Map;

use crate::csv;
use crate::metrics::{Metric, Metrics};
use crate::run::{EachRow, Row};
use crate::statistics::{Statistic, Statistics};

/// A column with its entry in the data dictionary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Unit of its values: `1` for counts and shares, `-` for texts, `metric` for the unit in the
    /// column `unit`, `key` for the unit of the scenario key (bytes, seconds, bit/s, metres, per cent).
    pub unit: &'static str,
    /// Meaning.
    pub about: String,
    /// Type of its values.
    pub kind: ColumnKind,
}

/// Type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Text.
    Text,
    /// A number from 0 to 2^64 - 1.
    Count,
    /// A double.
    Number,
}

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A value of a [`ColumnKind::Text`]; lines of a row share it.
    Text(Arc<str>),
    /// A value of a [`ColumnKind::Text`] that is known beforehand.
    Name(&'static str),
    /// A value of a [`ColumnKind::Count`].
    Count(u64),
    /// A value of a [`ColumnKind::Number`].
    Number(f64),
    /// No value.
    Missing,
}

impl Column {
    /// A column.
    pub fn new(name: &str, unit: &'static str, kind: ColumnKind, about: &str) -> Self {
        Self {
            name: name.to_owned(),
            unit,
            about: about.to_owned(),
            kind,
        }
    }
}

impl Value {
    /// The text of a [`ColumnKind::Text`].
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Name(name) => Some(name),
            _ => None,
        }
    }

    /// The value in comma-separated values; nothing where there is none.
    pub fn plain(&self) -> String {
        match self {
            Self::Text(text) => text.to_string(),
            Self::Name(name) => (*name).to_owned(),
            Self::Count(count) => count.to_string(),
            Self::Number(number) => number.to_string(),
            Self::Missing => String::new(),
        }
    }
}

/// Swept values of a cell.
type Cell = Map<String, serde_json::Value>;

/// Rows of cells and algorithms with their statistics.
pub fn rows_csv(rows: &[Row]) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    text(&row_columns(&first.cell), rows.iter().flat_map(row_lines))
}

/// Single runs with seed and trace hash.
pub fn each_csv(rows: &[EachRow]) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    text(&each_columns(&first.cell), rows.iter().flat_map(each_lines))
}

/// A run as a line of a JSON Lines file: the row of `carob lab run --each --json` with the hash of its scenario.
pub fn each_json(row: &EachRow) -> String {
    let mut line = serde_json::to_value(row).expect("text keys and finite numbers");
    line["scenario_hash"] = row.scenario_hash.as_str().into();
    line["version"] = env!("CARGO_PKG_VERSION").into();
    line.to_string() + "\n"
}

/// Reads a line of [`each_json`], or one of `carob lab run --each --json`. Metrics that this version
/// does not know are left out.
pub fn read_each_json(line: &str) -> Option<EachRow> {
    let line: Map<String, serde_json::Value> = serde_json::from_str(line).ok()?;
    let text = |key: &str| Some(line.get(key)?.as_str()?.to_owned());
    let statistics = |(name, value): (&String, &serde_json::Value)| {
        let metric = Metric::named(name)?;
        Some((metric.name, Statistics::deserialize(value).ok()?))
    };
    Some(EachRow {
        scenario: text("scenario")?,
        cell: line.get("cell")?.as_object()?.clone(),
        algorithm: text("algorithm")?,
        seed: line.get("seed")?.as_u64()?,
        trace_hash: text("trace_hash")?,
        metrics: line
            .get("metrics")?
            .as_object()?
            .iter()
            .filter_map(statistics)
            .collect(),
        scenario_hash: text("scenario_hash").unwrap_or_default(),
        ..EachRow::default()
    })
}

fn text(columns: &[Column], lines: impl Iterator<Item = Vec<Value>>) -> String {
    let head = columns.iter().map(|column| column.name.clone()).collect();
    let lines = lines.map(|line| line.iter().map(Value::plain).collect());
    csv::text(std::iter::once(head).chain(lines))
}

/// Columns of [`row_lines`].
pub fn row_columns(cell: &Cell) -> Vec<Column> {
    let hash = "hash of the trace hashes of all runs; the trace hash of a single run";
    columns(
        cell,
        [
            Column::new(
                "runs",
                "1",
                ColumnKind::Count,
                "runs with consecutive seeds, pooled",
            ),
            Column::new("trace_hash", "-", ColumnKind::Text, hash),
        ],
    )
}

/// Columns of [`each_lines`].
pub fn each_columns(cell: &Cell) -> Vec<Column> {
    let hash = "hash of all events of the run, in hexadecimal";
    columns(
        cell,
        [
            Column::new("seed", "1", ColumnKind::Count, "seed of the run"),
            Column::new("trace_hash", "-", ColumnKind::Text, hash),
        ],
    )
}

fn columns<const N: usize>(cell: &Cell, own: [Column; N]) -> Vec<Column> {
    use ColumnKind::{Count, Number, Text};
    let mut all = vec![Column::new("scenario", "-", Text, "full name of the cell")];
    for key in cell.keys() {
        let about = format!("value of the swept setting `{key}`; see `carob lab keys`");
        all.push(Column::new(key, "key", Text, &about));
    }
    all.push(Column::new(
        "algorithm",
        "-",
        Text,
        "id of the algorithm (`carob cc list`)",
    ));
    all.extend(own);
    all.push(Column::new(
        "metric",
        "-",
        Text,
        "name of the metric (`carob lab metrics`)",
    ));
    for statistic in Statistic::ALL {
        all.push(Column::new(
            statistic.name(),
            "metric",
            Number,
            statistic.about(),
        ));
    }
    let hash = "hash of all settings of the cell; algorithm and seed are not in it";
    all.extend([
        Column::new("n", "1", Count, "number of values of the metric"),
        Column::new(
            "unit",
            "-",
            Text,
            "unit of the metric; `1` is a count or a share",
        ),
        Column::new("scenario_hash", "-", Text, hash),
        Column::new("version", "-", Text, "version of carob"),
    ]);
    all
}

/// A line for each metric of a row.
pub fn row_lines(row: &Row) -> Vec<Vec<Value>> {
    let runs = Value::Count(row.runs as u64);
    let own = [runs, Value::Text(row.trace_hash.as_str().into())];
    let front = front(&row.scenario, &row.cell, &row.algorithm, own);
    lines(&front, &row.metrics, &row.scenario_hash)
}

/// A line for each metric of a run.
pub fn each_lines(row: &EachRow) -> Vec<Vec<Value>> {
    let own = [
        Value::Count(row.seed),
        Value::Text(row.trace_hash.as_str().into()),
    ];
    let front = front(&row.scenario, &row.cell, &row.algorithm, own);
    lines(&front, &row.metrics, &row.scenario_hash)
}

fn front<const N: usize>(
    scenario: &str,
    cell: &Cell,
    algorithm: &str,
    own: [Value; N],
) -> Vec<Value> {
    let mut front = vec![Value::Text(scenario.into())];
    front.extend(cell.values().map(|value| Value::Text(plain(value).into())));
    front.push(Value::Text(algorithm.into()));
    front.extend(own);
    front
}

fn lines(front: &[Value], metrics: &Metrics, scenario_hash: &str) -> Vec<Vec<Value>> {
    let hash = Value::Text(scenario_hash.into());
    let line = |(metric, statistics): (&&'static str, &Statistics)| {
        let mut line = Vec::with_capacity(front.len() + Statistic::ALL.len() + 5);
        line.extend_from_slice(front);
        line.push(Value::Name(metric));
        line.extend(Statistic::ALL.map(|s| Value::Number(statistics.get(s))));
        line.push(Value::Count(statistics.n as u64));
        line.push(Value::Name(unit(metric)));
        line.push(hash.clone());
        line.push(Value::Name(env!("CARGO_PKG_VERSION")));
        line
    };
    metrics.iter().map(line).collect()
}

/// Unit of a metric.
fn unit(name: &str) -> &'static str {
    Metric::named(name).map_or("", |metric| metric.unit)
}

fn plain(value: &serde_json::Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_row_has_a_line_per_metric_that_reads_back() {
        let statistics = Statistics::of(&[1.5, 2.5]).expect("values");
        let cell = [
            ("error".to_owned(), "none".into()),
            ("n".to_owned(), 2.into()),
        ];
        let row = Row {
            scenario: "carob/a, b".to_owned(),
            cell: cell.into_iter().collect(),
            algorithm: "default".to_owned(),
            runs: 2,
            metrics: BTreeMap::from([("fct_s", statistics), ("loss", statistics)]),
            scenario_hash: String::new(),
            trace_hash: String::new(),
            ..Row::default()
        };
        let table = csv::Table::read(&rows_csv(&[row])).expect("valid");
        assert_eq!(table.len(), 2);
        assert_eq!(table.cell(0, "scenario"), Some("carob/a, b"));
        assert_eq!(table.cell(0, "error"), Some("none"));
        assert_eq!(table.cell(1, "metric"), Some("loss"));
        assert_eq!(table.number(1, "p50"), Some(2.0));
        assert_eq!(table.number(1, "n"), Some(2.0));
        assert_eq!(table.cell(0, "unit"), Some("s"));
        assert_eq!(table.cell(0, "version"), Some(env!("CARGO_PKG_VERSION")));
        assert_eq!(rows_csv(&[]), "");
    }

    #[test]
    fn run_round_trips_through_json_lines() {
        let statistics = Statistics::of(&[1.5, 2.5]).expect("values");
        let row = EachRow {
            scenario: "carob/a".to_owned(),
            cell: Cell::from_iter([("n".to_owned(), 2.into())]),
            algorithm: "default".to_owned(),
            seed: u64::MAX,
            trace_hash: "0abc".to_owned(),
            metrics: BTreeMap::from([("fct_s", statistics)]),
            scenario_hash: "0def".to_owned(),
            ..EachRow::default()
        };
        assert_eq!(read_each_json(&each_json(&row)), Some(row));
        assert_eq!(read_each_json("{}"), None);
    }
}
