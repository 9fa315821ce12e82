//! Delivery of notifications, and of messages in wireless networks: a table, and a summary of where
//! the choice of algorithm matters.

use super::differences::{chosen, series_of_metric, widest};
use super::medians::{each_lines, label, lines};
use super::transmission;
use crate::metrics::{self, Metric, Metrics};
use crate::run::{EachRow, Outcome, Row};
use crate::text::{TextTable, dash};

/// Legend of the columns for notifications.
const TOLD_COLUMNS: &str = "PDR is notifications received over generated, ratio that to the first \
algorithm's; then the shares that the server dropped or replaced by newer ones, that it had not \
sent in the end or whose subscribers it had taken off its list, and transmissions lost at the link's \
buffer and at random. CON is of those sent, delay the mean of those received.";

/// Legend of the columns for wireless networks.
const NETWORK_COLUMNS: &str = "PDR is messages received over made, ratio that to the first \
algorithm's; busy is the share that applications dropped, given up that of confirmable messages; \
sent is transmissions of each message. Frames dropped by MACs, packets without a route and changes of \
parents are of a run, delay the mean of what was received.";

/// The legend of the columns for these metrics.
pub(crate) fn legend(metrics: &Metrics) -> &'static str {
    if is_network(metrics) {
        NETWORK_COLUMNS
    } else {
        TOLD_COLUMNS
    }
}

/// Returns true for metrics of notifications or of a wireless network.
pub(crate) fn is_of(metrics: &Metrics) -> bool {
    metrics.contains_key(metrics::PDR.name) || is_network(metrics) && !has_requests(metrics)
}

/// Returns true for metrics of requests, which a wireless network may carry as a link does.
fn has_requests(metrics: &Metrics) -> bool {
    metrics.contains_key(metrics::SUCCESS_RATIO.name)
}

/// Returns true for metrics of a wireless network.
pub(crate) fn is_network(metrics: &Metrics) -> bool {
    metrics.contains_key(metrics::NODES.name)
}

fn mean(metrics: &Metrics, some: &[Metric]) -> Option<f64> {
    let all = some
        .iter()
        .map(|metric| metrics.get(metric.name).map(|s| s.mean));
    all.sum()
}

/// Format of a value.
#[derive(Clone, Copy)]
enum Show {
    /// As a share in per cent.
    Share,
    /// Number with a fixed number of decimals.
    Number(usize),
}

/// A column: its head, the metrics that make it up, and how their sum is shown.
type Column = (&'static str, &'static [Metric], Show);

/// Columns that a narrow terminal leaves out.
const OPTIONAL: &[&str] = &[
    "lost",
    "no route",
    "MAC drops",
    "sent",
    "buffer",
    "replaced",
    "not sent",
    "busy",
    "CON",
];

const OF_NOTIFICATIONS: &[Column] = &[
    (">dropped", &[metrics::SERVER_DROP_RATIO], Show::Share),
    (">replaced", &[metrics::SUPERSEDED_RATIO], Show::Share),
    (
        ">not sent",
        &[metrics::UNSENT_RATIO, metrics::UNLISTED_RATIO],
        Show::Share,
    ),
    (">buffer", &[metrics::LINK_DROP_RATIO], Show::Share),
    (">lost", &[metrics::LINK_LOSS_RATIO], Show::Share),
    (">CON", &[metrics::CON_RATIO], Show::Share),
    (">delay s", &[metrics::DELAY_S], Show::Number(2)),
];

const OF_NETWORKS: &[Column] = &[
    (">busy", &[metrics::APP_DROP_RATIO], Show::Share),
    (">given up", &[metrics::FAILED_RATIO], Show::Share),
    (
        ">sent",
        &[metrics::TRANSMISSIONS_PER_EXCHANGE],
        Show::Number(2),
    ),
    (">MAC drops", &[metrics::MAC_DROPS], Show::Number(0)),
    (">no route", &[metrics::ROUTE_DROPS], Show::Number(0)),
    (">parents", &[metrics::PARENT_RESETS], Show::Number(0)),
    (">delay s", &[metrics::DELAY_S], Show::Number(2)),
];

fn columns_of(is_network: bool) -> &'static [Column] {
    if is_network {
        OF_NETWORKS
    } else {
        OF_NOTIFICATIONS
    }
}

/// The heads of the columns, PDR and its ratio first.
fn heads(is_network: bool) -> Vec<&'static str> {
    let others = columns_of(is_network).iter().map(|column| column.0);
    [">PDR", ">ratio"].into_iter().chain(others).collect()
}

/// The columns of one row, `first` being the PDR that it is compared with.
fn columns(metrics: &Metrics, is_network: bool, first: Option<f64>) -> Vec<String> {
    let share = |share: f64| format!("{:.1} %", share * 100.0);
    let pdr = mean(metrics, &[metrics::PDR]);
    let ratio = pdr.zip(first.filter(|first| *first > 0.0));
    let others = columns_of(is_network).iter().map(|(_, names, show)| {
        let value = mean(metrics, names);
        match show {
            Show::Share => value.map_or_else(dash, share),
            Show::Number(decimals) => value.map_or_else(dash, |v| format!("{v:.decimals$}")),
        }
    });
    [
        pdr.map_or_else(dash, share),
        ratio.map_or_else(dash, |(pdr, first)| format!("{:.3}", pdr / first)),
    ]
    .into_iter()
    .chain(others)
    .collect()
}

/// One line per cell and algorithm.
pub(crate) fn table(rows: &[Row], hashes: bool) -> TextTable {
    let is_network = rows.iter().any(|row| is_network(&row.metrics));
    let mut before: Option<(&str, Option<f64>)> = None;
    let mut table = lines(rows, &heads(is_network), hashes, |row| {
        let first = match before {
            Some((cell, first)) if cell == row.scenario => first,
            _ => mean(&row.metrics, &[metrics::PDR]),
        };
        before = Some((&row.scenario, first));
        columns(&row.metrics, is_network, first)
    });
    table.optional(OPTIONAL);
    if let Some(note) = transmission::note(rows) {
        table.add_note(&note);
    }
    table
}

/// One line per run, with its seed and trace hash.
pub(crate) fn each_table(rows: &[EachRow]) -> TextTable {
    let is_network = rows.iter().any(|row| is_network(&row.metrics));
    let mut table = each_lines(rows, &heads(is_network), |row| {
        let first = rows
            .iter()
            .find(|first| first.scenario == row.scenario && first.seed == row.seed);
        let first = first.and_then(|first| mean(&first.metrics, &[metrics::PDR]));
        columns(&row.metrics, is_network, first)
    });
    table.optional(OPTIONAL);
    table
}

/// Where the choice of algorithm matters most.
pub(crate) fn reading(outcome: &Outcome<'_>, rows: &[Row]) -> Vec<String> {
    let series = series_of_metric(&outcome.each(), metrics::PDR.name);
    let what = if rows.iter().any(|row| is_network(&row.metrics)) {
        "messages"
    } else {
        "notifications"
    };
    let Some(widest) = widest(&series).filter(|widest| widest.by.least() > 0.0) else {
        return vec![format!(
            "No difference between the shares of {what} delivered is certain at 95 % with these seeds."
        )];
    };
    let row = rows.iter().find(|row| row.scenario == widest.scenario);
    let cell = row.map_or_else(String::new, |row| label(rows, row));
    let points = |share: f64| format!("{:.1}", share * 100.0);
    let mut sentences = vec![format!(
        "With {cell}, {} delivers {} points more of the {what} than {} (95 % interval {} to {}, {} \
         paired seeds).",
        widest.more,
        points(widest.by.mean.abs()),
        widest.less,
        points(widest.by.least()),
        points(widest.by.most()),
        widest.by.seeds,
    )];
    sentences.extend(chosen(widest.comparisons));
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Statistics;

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
            ..Row::default()
        }
    }

    #[test]
    fn mesh_columns_exist_without_traffic() {
        let mut row = row("pint-idle", "default", 0.5, 0.0);
        row.metrics = [("nodes", Statistics::of(&[22.0]).expect("a value"))].into();
        assert!(is_of(&row.metrics));
        let text = table(&[row], false).to_string();
        assert!(
            text.contains("MAC drops") && !text.contains("CON"),
            "{text}"
        );
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
    }
}
