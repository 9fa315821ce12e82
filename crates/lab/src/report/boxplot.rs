//! Box plots: one box per algorithm and cell, with a study's published values beside it.

use std::fmt::Write as _;

use super::chart::{Axis, Chart, Layer, Panel, Part, ROOM};
use super::comparison::varying;
use super::look::{COLOURS, Look, Looks};
use super::page::FigureBlock;
use super::scale::{Mapping, number};
use super::svg::Shape;
use crate::published::{self, Expected, Print, Study};
use crate::run::{Outcome, Row, Timed};
use crate::scenario::Cell;
use crate::scenario::value::Value;
use crate::statistics::{Statistic, Statistics};
use crate::summary;
use crate::text::distinct;

/// Radius of the marker at a median.
const MARKER: f64 = 3.4;
/// Above this ratio of largest to smallest value a plot is logarithmic.
const LINEAR_UP_TO: f64 = 30.0;
/// The most groups of boxes in one figure.
const GROUPS_MAX: usize = 12;
const READING: &str = "Boxes from the 25th to the 75th percentile, line at the median, whiskers from the 10th to the \
                       90th percentile, dots at minimum and maximum";

/// A box: its group on the horizontal axis, its algorithm, its times, and the published ones.
struct BoxMark<'a> {
    group: usize,
    algorithm: &'a str,
    times: &'a Statistics,
    published: Option<&'a Expected>,
}

impl BoxMark<'_> {
    /// A box around `x` in a slot of this width, both in groups.
    fn parts(&self, x: f64, slot: f64, look: Look) -> Vec<Part> {
        let s = self.times;
        // A box leaves the right third of its slot to published values.
        let (x, half) = match self.published {
            Some(_) => (x - slot * 0.13, slot * 0.24),
            None => (x, slot * 0.32),
        };
        let cap = |y| vec![(x - half * 0.5, y), (x + half * 0.5, y)];
        let stem = |from, to| vec![(x, from), (x, to)];
        let stems = vec![
            stem(s.p10, s.p25),
            stem(s.p75, s.p90),
            cap(s.p10),
            cap(s.p90),
        ];
        let (left, right) = (x - half, x + half);
        let ends = vec![(x, s.min), (x, s.max)];
        vec![
            Part::Line(look.with("whisker"), stems),
            Part::rect(&look.with("box"), (left, s.p25), (right, s.p75)),
            Part::span(&look.with("median"), (left, s.p50), (right, s.p50)),
            Part::of(look, MARKER, vec![(x, s.p50)]),
            Part::marks(&look.with("dot"), Shape::Dot, 0.0, ends),
        ]
    }

    fn tooltip(&self, place: &str, citation: &str) -> String {
        let s = self.times;
        let value = |v: f64| number(v, if v < 100.0 { 2 } else { 1 });
        let range = |name: &str, from, to| format!("{name} {} to {}", value(from), value(to));
        let mut text = format!(
            "{}, {place}: median {}, {}, {}, {}, n = {}",
            self.algorithm,
            value(s.p50),
            range("quartiles", s.p25, s.p75),
            range("10–90 %", s.p10, s.p90),
            range("range", s.min, s.max),
            s.n,
        );
        if let Some(median) = self.published.and_then(|p| p.value(Statistic::P50)) {
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                "; {citation}: median {} (measured: {:.3} of it)",
                value(median),
                s.p50 / median
            );
        }
        text
    }
}

/// Marks of published percentiles.
fn published_parts(row: &Expected, x: f64) -> Vec<Part> {
    let line = |class, from, to| {
        let (from, to) = (row.value(from)?, row.value(to)?);
        Some(Part::span(class, (x, from), (x, to)))
    };
    let diamond = |at| Part::marks("printed-mark", Shape::Diamond, 3.5, vec![(x, at)]);
    let parts = [
        line("printed-thin", Statistic::P10, Statistic::P90),
        line("printed-thick", Statistic::P25, Statistic::P75),
        row.value(Statistic::P50).map(diamond),
    ];
    parts.into_iter().flatten().collect()
}

/// Box plots of all cells; none if no flow completed. Many cells are split by the first key, so that boxes keep their width.
pub(super) fn box_plots(outcome: &Outcome<'_>, rows: &[Row], print: &Print) -> Vec<FigureBlock> {
    let timed = Timed::of(rows);
    let times = rows.iter().filter_map(|row| timed.times(row));
    let ends = times.fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), s| {
        (low.min(s.min), high.max(s.max))
    });
    if ends.0.is_infinite() {
        return Vec::new();
    }
    let scenario = outcome.plan().scenario();
    let names = distinct(rows.iter().map(Row::cell_name));
    let cells: Vec<&Cell> = names
        .iter()
        .filter_map(|name| scenario.cell(name))
        .collect();
    let keys = varying(&cells);
    let parts: Vec<&[&Cell]> = match keys.first().filter(|_| cells.len() > GROUPS_MAX) {
        None => vec![&cells],
        Some(key) => cells
            .chunk_by(|a, b| a.value(key) == b.value(key))
            .collect(),
    };
    let algorithms = summary::algorithms(rows);
    // Figures that share algorithms among them share their axis, too.
    let shared = (algorithms.len() > COLOURS && ends.1 > 0.0).then_some(ends);
    let mut blocks = Vec::new();
    for some in algorithms.chunks(COLOURS) {
        for cells in &parts {
            let groups: Vec<_> = cells.iter().map(|cell| group(cell, &keys)).collect();
            let mut boxes = Vec::new();
            for row in rows.iter().filter(|row| some.contains(&&*row.algorithm)) {
                let group = cells.iter().position(|cell| cell.name == row.cell_name());
                if let (Some(group), Some(times)) = (group, timed.times(row)) {
                    boxes.push(BoxMark {
                        group,
                        algorithm: &row.algorithm,
                        times,
                        published: print.find(&row.compare_with, &row.algorithm),
                    });
                }
            }
            boxes.sort_by_key(|mark| mark.group);
            blocks.push(box_plot(&groups, &boxes, timed, shared));
        }
    }
    blocks
}

/// The label of a cell, and a second-level label that neighbours share.
fn group(cell: &Cell, keys: &[String]) -> (String, String) {
    let value = |key: &str| cell.value(key).map_or_else(String::new, Value::bare);
    match keys {
        [] => (cell.name.clone(), String::new()),
        [only] => (value(only), only.clone()),
        [others @ .., last] => {
            let others = others.iter().map(|key| format!("{key} {}", value(key)));
            (value(last), others.collect::<Vec<_>>().join(", "))
        }
    }
}

fn box_plot(
    groups: &[(String, String)],
    boxes: &[BoxMark<'_>],
    timed: Timed,
    shared: Option<(f64, f64)>,
) -> FigureBlock {
    let study = boxes
        .iter()
        .find_map(|mark| published::study(&mark.published?.study));
    let citation = study.as_ref().map_or_else(String::new, Study::citation);
    let series = distinct(boxes.iter().map(|mark| mark.algorithm));
    let looks = Looks::of(series.iter().copied());
    let mut layers: Vec<Layer> = series.iter().map(|name| Layer::new(name)).collect();
    let mut published = Layer::new(&citation);
    let step = ROOM / groups.len().max(1) as f64;
    // Series that a group lacks leave no gap in it.
    for members in boxes.chunk_by(|a, b| a.group == b.group) {
        let slot = (step * 0.84 / members.len() as f64).min(64.0) / step;
        for (k, mark) in members.iter().enumerate() {
            let middle = mark.group as f64 + 0.5;
            let x = middle + slot * (k as f64 - (members.len() as f64 - 1.0) / 2.0);
            let (label, above) = &groups[mark.group];
            let place = format!("{above} {label}");
            let tip = mark.tooltip(place.trim_start(), &citation);
            if let Some(layer) = layers.iter_mut().find(|layer| layer.name == mark.algorithm) {
                layer.add(&tip, mark.parts(x, slot, looks.get(mark.algorithm)));
            }
            if let Some(row) = mark.published {
                published.add(&tip, published_parts(row, x + slot * 0.25));
            }
        }
    }
    let mut reading = READING.to_owned();
    if !published.items.is_empty() {
        // Writing to a String cannot fail.
        let _ = write!(
            reading,
            "; to the right of a box the values of {citation}: diamond at the median, thick line between the quartiles, \
             thin line as the whiskers"
        );
    }
    layers.push(published);
    let own = boxes.iter().map(|mark| (mark.times.min, mark.times.max));
    let own = own.fold((f64::INFINITY, 0.0_f64), |(low, high), (min, max)| {
        (low.min(min), high.max(max))
    });
    let (low, high) = shared.unwrap_or(own);
    let label = format!("{} (s)", timed.name());
    let y = if high > LINEAR_UP_TO * low {
        Axis::linear(&label, 6).mapped(Mapping::Logarithmic)
    } else {
        Axis::linear(&label, 6).with(0.0)
    };
    let x = Axis::grouped(groups.iter().cloned());
    let panel = Panel::new(x, y.with(low).with(high), layers);
    let chart = Chart::of(&format!("Box plots of {}", timed.of_what()), panel);
    FigureBlock::new(
        chart.picture(),
        format!("{}.", timed.name()),
        &(reading + "."),
    )
}
