//! The table of algorithms that share a link and whose flows run until the time limit.

use super::medians::lines;
use super::transmission;
use crate::metrics;
use crate::run::{Row, Timed};
use crate::text::{TextTable, dash};

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

/// Returns whether flows of two kinds share a link and none completes, so that rates are what counts.
pub(crate) fn is_shared(rows: &[Row]) -> bool {
    let timed = Timed::of(rows);
    let completes = |row: &Row| timed.times(row).is_some();
    let has_rate = |row: &Row| row.metrics.contains_key(metrics::SECOND_RECEIVED_BPS.name);
    !rows.iter().any(completes) && rows.iter().any(has_rate)
}
