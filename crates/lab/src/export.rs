//! Rows as comma-separated values: one line per metric, so that every line has the same columns.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::csv;
use crate::run::{EachRow, Row};
use crate::statistics::{Statistic, Statistics};

/// Rows of cells and algorithms with their statistics.
pub fn rows_csv(rows: &[Row]) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    let mut header = head(&first.cell);
    header.extend(["algorithm", "runs", "metric"].map(str::to_owned));
    header.extend(Statistic::ALL.map(|s| s.name().to_owned()));
    header.push("n".to_owned());
    let lines = rows.iter().flat_map(|row| {
        let own = [row.algorithm.clone(), row.runs.to_string()];
        lines(&row.scenario, &row.cell, own, &row.metrics)
    });
    csv::text(std::iter::once(header).chain(lines))
}

/// Single runs with seed and trace hash.
pub fn each_csv(rows: &[EachRow]) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    let mut header = head(&first.cell);
    header.extend(["algorithm", "seed", "trace_hash", "metric"].map(str::to_owned));
    header.extend(Statistic::ALL.map(|s| s.name().to_owned()));
    header.push("n".to_owned());
    let lines = rows.iter().flat_map(|row| {
        let own = [
            row.algorithm.clone(),
            row.seed.to_string(),
            row.trace_hash.clone(),
        ];
        lines(&row.scenario, &row.cell, own, &row.metrics)
    });
    csv::text(std::iter::once(header).chain(lines))
}

/// A line for each metric: the cell, the row's own columns, the statistics.
fn lines<const N: usize>(
    scenario: &str,
    cell: &Map<String, Value>,
    own: [String; N],
    metrics: &BTreeMap<&'static str, Statistics>,
) -> Vec<Vec<String>> {
    let mut front = vec![scenario.to_owned()];
    front.extend(cell.values().map(plain));
    front.extend(own);
    let line = |(metric, statistics): (&&'static str, &Statistics)| {
        let mut line = front.clone();
        line.push((*metric).to_owned());
        line.extend(numbers(statistics));
        line
    };
    metrics.iter().map(line).collect()
}

fn head(cell: &Map<String, Value>) -> Vec<String> {
    std::iter::once("scenario".to_owned())
        .chain(cell.keys().cloned())
        .collect()
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn numbers(statistics: &Statistics) -> impl Iterator<Item = String> {
    let values = Statistic::ALL.map(|s| statistics.get(s).to_string());
    values
        .into_iter()
        .chain(std::iter::once(statistics.n.to_string()))
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
        assert_eq!(rows_csv(&[]), "");
    }
}
