//! What became of notifications in short: a table for people, and where the choice of algorithm
//! matters.

use std::collections::BTreeMap;

use crate::marks::mark;
use crate::run::{EachRow, Row};
use crate::statistics::Statistics;
use crate::summary::{dash, label};
use crate::text::{Align, TextTable};

/// What the columns of the tables of deliveries mean.
pub const COLUMNS: &str = "PDR is notifications received over generated, ratio that to the first \
algorithm's; then the shares that the server dropped or replaced by newer ones, that it had not \
sent in the end or whose subscribers it had taken off its list, and copies lost at the link's \
buffer and at random. CON is of those sent, delay the mean of those received.";

type Metrics = BTreeMap<&'static str, Statistics>;

/// Whether these are metrics of notifications.
pub(crate) fn is_of(metrics: &Metrics) -> bool {
    metrics.contains_key("pdr")
}

fn mean(metrics: &Metrics, names: &[&str]) -> Option<f64> {
    let all = names.iter().map(|name| metrics.get(name).map(|s| s.mean));
    all.sum()
}

const COLUMN_NAMES: [&str; 9] = [
    "PDR", "ratio", "dropped", "replaced", "not sent", "buffer", "lost", "CON", "delay s",
];

/// The columns of one row, `first` being the PDR that it is compared with.
fn columns(metrics: &Metrics, first: Option<f64>) -> Vec<String> {
    let share = |names: &[&str]| {
        let found = mean(metrics, names);
        found.map_or_else(dash, |share| format!("{:.1} %", share * 100.0))
    };
    let pdr = mean(metrics, &["pdr"]);
    let ratio = pdr.zip(first.filter(|first| *first > 0.0));
    let delay = mean(metrics, &["delay_s"]);
    vec![
        share(&["pdr"]),
        ratio.map_or_else(dash, |(pdr, first)| format!("{:.3}", pdr / first)),
        share(&["server_drop_ratio"]),
        share(&["superseded_ratio"]),
        share(&["unsent_ratio", "unlisted_ratio"]),
        share(&["link_drop_ratio"]),
        share(&["link_loss_ratio"]),
        share(&["con_ratio"]),
        delay.map_or_else(dash, |delay| format!("{delay:.2}")),
    ]
}

/// One line per cell and algorithm.
pub(crate) fn table(rows: &[Row], hashes: bool) -> TextTable {
    let mut header = names(&["cell", "algorithm"], Align::Left);
    header.extend(names(&["runs"], Align::Right));
    header.extend(names(&COLUMN_NAMES, Align::Right));
    if hashes {
        header.extend(names(&["trace hash"], Align::Left));
    }
    let mut table = TextTable::new(header);
    let mut before: Option<(&str, Option<f64>)> = None;
    for row in rows {
        let pdr = mean(&row.metrics, &["pdr"]);
        let (is_first, first) = match before {
            Some((cell, first)) if cell == row.scenario => (false, first),
            _ => (true, pdr),
        };
        before = Some((&row.scenario, first));
        let cell = if is_first {
            row.scenario.clone()
        } else {
            String::new()
        };
        let mut line = vec![cell, row.algorithm.clone(), row.runs.to_string()];
        line.extend(columns(&row.metrics, first));
        if hashes {
            line.push(row.trace_hash.clone());
        }
        table.add(line);
    }
    mark(&mut table, "algorithm");
    table
}

/// One line per run, with its seed and trace hash.
pub(crate) fn each_table(rows: &[EachRow]) -> TextTable {
    let mut header = names(&["cell", "algorithm"], Align::Left);
    header.extend(names(&["seed"], Align::Right));
    header.extend(names(&COLUMN_NAMES, Align::Right));
    header.extend(names(&["trace hash"], Align::Left));
    let mut table = TextTable::new(header);
    for row in rows {
        let first = rows
            .iter()
            .find(|first| first.scenario == row.scenario && first.seed == row.seed);
        let first = first.and_then(|first| mean(&first.metrics, &["pdr"]));
        let mut line = vec![
            row.scenario.clone(),
            row.algorithm.clone(),
            row.seed.to_string(),
        ];
        line.extend(columns(&row.metrics, first));
        line.push(row.trace_hash.clone());
        table.add(line);
    }
    mark(&mut table, "algorithm");
    table
}

fn names(names: &[&str], align: Align) -> Vec<(String, Align)> {
    names
        .iter()
        .map(|name| ((*name).to_owned(), align))
        .collect()
}

/// Where the choice of algorithm matters most.
pub(crate) fn reading(rows: &[Row]) -> Vec<String> {
    let cells = rows.chunk_by(|a, b| a.scenario == b.scenario);
    let extremes = cells.filter_map(|cell| {
        let pdr = |row: &&Row| mean(&row.metrics, &["pdr"]).unwrap_or(0.0);
        let best = cell.iter().max_by(|a, b| pdr(a).total_cmp(&pdr(b)))?;
        let worst = cell.iter().min_by(|a, b| pdr(a).total_cmp(&pdr(b)))?;
        Some((pdr(&best) - pdr(&worst), best, worst))
    });
    let widest = extremes.max_by(|a, b| a.0.total_cmp(&b.0));
    let Some((apart, best, worst)) = widest.filter(|(apart, ..)| *apart > 0.01) else {
        return Vec::new();
    };
    let of = |row: &Row| mean(&row.metrics, &["pdr"]).unwrap_or(0.0) * 100.0;
    vec![format!(
        "The choice matters most with {}: {} delivers {:.1} % of the notifications, {} {:.1} %, \
         {:.0} points less.",
        label(rows, best),
        best.algorithm,
        of(best),
        worst.algorithm,
        of(worst),
        apart * 100.0,
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cell: &str, algorithm: &str, pdr: f64, dropped: f64) -> Row {
        let one = |value: f64| Statistics::of(&[value]).expect("a value");
        Row {
            scenario: format!("nonobserve/{cell}"),
            cell: serde_json::Map::new(),
            algorithm: algorithm.to_owned(),
            runs: 1,
            metrics: [("pdr", one(pdr)), ("server_drop_ratio", one(dropped))].into(),
            scenario_hash: String::new(),
            trace_hash: String::new(),
            compare_with: String::new(),
        }
    }

    #[test]
    fn ratios_are_to_the_first_algorithm_of_the_same_cell() {
        let rows = [
            row("a", "default", 0.5, 0.0),
            row("a", "cocoa-002", 0.75, 0.1),
            row("b", "default", 0.8, 0.0),
            row("b", "cocoa-002", 0.4, 0.6),
        ];
        let text = table(&rows, false).to_string();
        let line = |n: usize| text.lines().nth(n + 2).expect("a line").to_owned();
        assert!(
            line(1).contains("75.0 %") && line(1).contains("1.500"),
            "{text}"
        );
        assert!(
            line(3).contains("0.500") && line(3).contains("60.0 %"),
            "{text}"
        );
        let words = reading(&rows).join(" ");
        assert!(
            words.contains("default delivers 80.0 %") && words.contains("40 points less"),
            "{words}"
        );
    }
}
