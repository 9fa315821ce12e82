//! The table of algorithms that share a link and whose flows run until the time limit.

use crate::metrics;
use crate::run::Row;
use crate::summary::lines;
use crate::text::{TextTable, dash};
use crate::transmission;

/// The legend of the columns.
pub(crate) const COLUMNS: &str = "received is what a client of the first kind receives, beside that \
of the second kind (medians); Jain's fairness index is of all clients of a run. Flows run until the \
time limit.";

/// One line per cell: what clients of both kinds receive, and how fairly.
pub(crate) fn table(rows: &[Row], hashes: bool) -> TextTable {
    let columns = [
        ">received bit/s",
        ">second bit/s",
        ">Jain",
        ">retransmissions",
        ">spurious",
    ];
    let mut table = lines(rows, &columns, hashes, |row| {
        let median = |metric: &str, decimals: usize| {
            let found = row.metrics.get(metric);
            found.map_or_else(dash, |s| format!("{:.decimals$}", s.p50))
        };
        let mean = |metric: &str| {
            let found = row.metrics.get(metric);
            found.map_or_else(dash, |s| format!("{:.1}", s.mean))
        };
        vec![
            median(metrics::RECEIVED_BPS.name, 0),
            median(metrics::SECOND_RECEIVED_BPS.name, 0),
            median(metrics::JAIN_RECEIVED.name, 2),
            mean(metrics::RETRANSMISSIONS.name),
            mean(metrics::SPURIOUS.name),
        ]
    });
    table.optional(&["spurious", "retransmissions", "algorithm"]);
    if let Some(note) = transmission::note(rows) {
        table.add_note(&note);
    }
    table
}
