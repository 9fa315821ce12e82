//! Means of any metric of runs.

use super::intervals::{PairedGroup, PairedRow, PairedRows};
use super::page::FigureBlock;
use super::scale::significant;
use crate::metrics::Metric;
use crate::run::Row;
use crate::summary::label;

/// The most bars of a figure.
const BARS_MAX: usize = 160;

/// Means of a metric with intervals of 95 %, a group of bars for each cell; none without a value, or with too many.
pub(super) fn bars(metric: &Metric, rows: &[Row]) -> Option<FigureBlock> {
    let mut groups: Vec<PairedGroup> = Vec::new();
    for row in rows {
        let Some(of) = row.metrics.get(metric.name) else {
            continue;
        };
        let heading = label(rows, row);
        let (mean, half) = (significant(of.mean), significant(of.ci95));
        let bar = PairedRow {
            name: row.algorithm.clone(),
            look: row.algorithm.clone(),
            value: of.mean,
            interval: (of.mean - of.ci95, of.mean + of.ci95),
            text: format!("{mean} \u{b1} {half}"),
            tip: format!(
                "{heading}, {}: {mean} \u{b1} {half} {}, {} values",
                row.algorithm,
                unit(metric),
                of.n
            ),
        };
        match groups.last_mut() {
            Some(group) if group.heading == heading => group.rows.push(bar),
            _ => groups.push(PairedGroup {
                heading,
                rows: vec![bar],
            }),
        }
    }
    let bars: usize = groups.iter().map(|group| group.rows.len()).sum();
    if !(1..=BARS_MAX).contains(&bars) {
        return None;
    }
    let rows = PairedRows {
        label: axis(metric),
        groups,
        ..PairedRows::default()
    };
    let title = format!("{} by cell and algorithm", metric.name);
    let caption = format!("{} Means with intervals of 95 %.", metric.about);
    Some(FigureBlock::new(rows.picture(), title, &caption))
}

pub(super) fn unit(metric: &Metric) -> &'static str {
    if metric.unit == "1" { "" } else { metric.unit }
}

/// The metric's name with its unit.
pub(super) fn axis(metric: &Metric) -> String {
    match unit(metric) {
        "" => metric.name.to_owned(),
        unit => format!("{} ({unit})", metric.name),
    }
}
