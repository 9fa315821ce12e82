//! Box plots: one box per algorithm and cell, with a study's printed values beside it.

use std::fmt::Write as _;

use super::chart::{Axis, Chart, Layer, Panel, Part, ROOM};
use super::comparison::varying;
use super::look::{COLOURS, Looks};
use super::page::FigureBlock;
use super::resolved::Picture;
use super::scale::{Mapping, number};
use super::shapes::Shape;
use crate::expected::Expected;
use crate::run::{Outcome, Row};
use crate::scenario::Cell;
use crate::scenario::value::Value;
use crate::statistics::{Statistic, Statistics};
use crate::summary::{self, Print};
use crate::timed::Timed;

/// Radius of the marker at a median.
const MARKER: f64 = 3.4;
/// Above this ratio of largest to smallest value a plot is logarithmic.
const LINEAR_UP_TO: f64 = 30.0;
/// The most groups of boxes in one figure.
const GROUPS_MAX: usize = 12;

/// Percentiles that a study printed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Published {
    pub p10: Option<f64>,
    pub p25: Option<f64>,
    pub p50: Option<f64>,
    pub p75: Option<f64>,
    pub p90: Option<f64>,
}

impl Published {
    /// The percentiles of a published row.
    pub fn of(row: &Expected) -> Self {
        Self {
            p10: row.value(Statistic::P10),
            p25: row.value(Statistic::P25),
            p50: row.value(Statistic::P50),
            p75: row.value(Statistic::P75),
            p90: row.value(Statistic::P90),
        }
    }

    fn parts(&self, x: f64) -> Vec<Part> {
        let line = |class, from: Option<f64>, to: Option<f64>| {
            Some(Part::span(class, (x, from?), (x, to?)))
        };
        let diamond = |at| Part::marks("printed-mark", Shape::Diamond, 3.5, vec![(x, at)]);
        let parts = [
            line("printed-thin", self.p10, self.p90),
            line("printed-thick", self.p25, self.p75),
            self.p50.map(diamond),
        ];
        parts.into_iter().flatten().collect()
    }
}

/// One box.
#[derive(Clone, Debug)]
pub struct BoxMark {
    /// Index of its group on the horizontal axis.
    pub group: usize,
    /// Index of its series.
    pub series: usize,
    /// The statistics drawn.
    pub statistics: Statistics,
    /// The study's values, drawn beside it.
    pub published: Option<Published>,
}

/// A box plot of times in seconds: whiskers from the 10th to the 90th percentile, dots at minimum and maximum.
#[derive(Clone, Debug, Default)]
pub struct BoxPlot {
    /// The quantity, such as `Flow completion time`.
    pub name: String,
    /// The least and the largest value of all figures that share its axis; its own without.
    pub shared: Option<(f64, f64)>,
    /// Groups of boxes from left to right: label, and a second-level label that neighbours share.
    pub groups: Vec<(String, String)>,
    /// Names of series, in the order of their colours.
    pub series: Vec<String>,
    /// The boxes.
    pub boxes: Vec<BoxMark>,
    /// Name of the study's values in the legend, such as `Pesola 2020`.
    pub published_label: String,
}

impl BoxPlot {
    /// The mapping of its axis: logarithmic where times differ much.
    pub fn mapping(&self) -> Mapping {
        let ends = |(low, high): (f64, f64), (min, max): (f64, f64)| (min.min(low), max.max(high));
        let own = self
            .boxes
            .iter()
            .map(|one| (one.statistics.min, one.statistics.max));
        let own = || own.fold((f64::INFINITY, 0.0), ends);
        let (low, high) = self.shared.unwrap_or_else(own);
        if high > LINEAR_UP_TO * low {
            Mapping::Logarithmic
        } else {
            Mapping::Linear
        }
    }

    /// A sentence for the caption that explains the boxes.
    pub fn reading(&self) -> String {
        let mut text = "Boxes from the 25th to the 75th percentile, line at the median, whiskers from the 10th to \
                        the 90th percentile, dots at minimum and maximum"
            .to_owned();
        if self.boxes.iter().any(|b| b.published.is_some()) {
            text += "; to the right of a box the values printed in ";
            text += &self.published_label;
            text += ": diamond at the median, thick line between the quartiles, thin line as the whiskers";
        }
        text + "."
    }

    /// The figure as an SVG element.
    pub fn picture(&self, label: &str) -> Picture {
        let count = self.groups.len().max(1);
        let step = ROOM / count as f64;
        let mut layers: Vec<Layer> = self.series.iter().map(|name| Layer::new(name)).collect();
        let mut published = Layer::new(&self.published_label);
        let looks = Looks::of(self.series.iter().map(String::as_str));
        for group in 0..count {
            // Series that a group lacks leave no gap in it.
            let members: Vec<&BoxMark> = self.boxes.iter().filter(|b| b.group == group).collect();
            let slot = (step * 0.84 / members.len().max(1) as f64).min(64.0) / step;
            let first = group as f64 + 0.5 - slot * (members.len() as f64 - 1.0) / 2.0;
            for (k, mark) in members.iter().enumerate() {
                let x = first + slot * k as f64;
                if let Some(layer) = layers.get_mut(mark.series) {
                    layer.add(
                        &self.tooltip(mark),
                        mark.parts(x, slot, looks.get(&layer.name)),
                    );
                }
                if let Some(own) = mark.published {
                    published.add(&self.tooltip(mark), own.parts(x + slot * 0.25));
                }
            }
        }
        layers.push(published);
        let mapping = self.mapping();
        let mut y = Axis::linear(&format!("{} (s)", self.name), 6).mapped(mapping);
        if mapping == Mapping::Linear {
            y = y.with(0.0);
        }
        if let Some((low, high)) = self.shared {
            y = y.with(low).with(high);
        }
        let x = Axis::grouped(self.groups.iter().cloned());
        Chart::of(label, Panel::new(x, y, layers)).picture()
    }

    fn tooltip(&self, mark: &BoxMark) -> String {
        let s = &mark.statistics;
        let (first, second) = &self.groups[mark.group];
        let name = self.series.get(mark.series).map_or("", String::as_str);
        let value = |v: f64| number(v, if v < 100.0 { 2 } else { 1 });
        let range = |name: &str, from, to| format!("{name} {} to {}", value(from), value(to));
        let mut text = format!(
            "{name}, {second} {first}: median {}, {}, {}, {}, n = {}",
            value(s.p50),
            range("quartiles", s.p25, s.p75),
            range("10–90 %", s.p10, s.p90),
            range("range", s.min, s.max),
            s.n,
        );
        if let Some(median) = mark.published.and_then(|p| p.p50) {
            let (label, ratio) = (&self.published_label, s.p50 / median);
            let published = value(median);
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                "; {label}: median {published} (measured: {ratio:.3} of it)"
            );
        }
        text
    }
}

impl BoxMark {
    /// A box around `x` in a slot of this width, both in groups.
    fn parts(&self, x: f64, slot: f64, look: super::look::Look) -> Vec<Part> {
        let s = &self.statistics;
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
    let names = summary::distinct(rows.iter().map(Row::cell_name));
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
    // Figures of one run share their axis.
    let shared = (algorithms.len() > COLOURS && ends.1 > 0.0).then_some(ends);
    let mut blocks = Vec::new();
    for some in algorithms.chunks(COLOURS) {
        let theirs = |row: &&Row| some.contains(&row.algorithm.as_str());
        let rows: Vec<&Row> = rows.iter().filter(theirs).collect();
        blocks.extend(
            parts
                .iter()
                .map(|cells| box_plot(cells, &keys, &rows, timed, print, shared)),
        );
    }
    blocks
}

fn box_plot(
    cells: &[&Cell],
    keys: &[String],
    rows: &[&Row],
    timed: Timed,
    print: &Print,
    shared: Option<(f64, f64)>,
) -> FigureBlock {
    let mut plot = BoxPlot {
        name: timed.name().to_owned(),
        shared,
        ..BoxPlot::default()
    };
    for (group, cell) in cells.iter().enumerate() {
        let value = |key: &str| cell.value(key).map_or_else(String::new, Value::bare);
        plot.groups.push(match keys {
            [] => (cell.name.clone(), String::new()),
            [only] => (value(only), only.clone()),
            [others @ .., last] => {
                let others = others.iter().map(|key| format!("{key} {}", value(key)));
                (value(last), others.collect::<Vec<_>>().join(", "))
            }
        });
        for row in rows.iter().filter(|row| row.cell_name() == cell.name) {
            let Some(statistics) = timed.times(row) else {
                continue;
            };
            let known = plot.series.iter().position(|name| *name == row.algorithm);
            let series = known.unwrap_or_else(|| {
                plot.series.push(row.algorithm.clone());
                plot.series.len() - 1
            });
            let published = print.find(&row.compare_with, &row.algorithm);
            if let Some(study) = published.and_then(|p| print.study(&p.study)) {
                plot.published_label = study.citation();
            }
            plot.boxes.push(BoxMark {
                group,
                series,
                statistics: *statistics,
                published: published.map(Published::of),
            });
        }
    }
    let picture = plot.picture(&format!("Box plots of {}", timed.of_what()));
    FigureBlock::new(picture, format!("{}.", timed.name()), &plot.reading())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(values: &[f64], published: Option<Published>) -> BoxPlot {
        BoxPlot {
            name: "Flow completion time".to_owned(),
            groups: vec![("none".to_owned(), "1 client".to_owned())],
            series: vec!["default".to_owned()],
            boxes: vec![BoxMark {
                group: 0,
                series: 0,
                statistics: Statistics::of(values).expect("values"),
                published,
            }],
            published_label: "Pesola 2020".to_owned(),
            ..BoxPlot::default()
        }
    }

    #[test]
    fn a_tooltip_gives_ours_and_print() {
        let published = Published {
            p50: Some(285.695),
            ..Published::default()
        };
        let svg = plot(&[285.0, 286.0], Some(published)).picture("a label").0;
        for text in [
            "default, 1 client none: median 285.5",
            "Pesola 2020: median 285.7 (measured: 0.999 of it)",
            "printed-mark",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }

    #[test]
    fn a_caption_tells_how_to_read_the_figure() {
        assert!(!plot(&[1.0, 2.0], None).reading().contains("Pesola"));
        let beside = plot(&[1.0], Some(Published::default())).reading();
        assert!(beside.contains("Pesola 2020"), "{beside}");
    }

    #[test]
    fn equal_values_still_show_a_box() {
        let svg = plot(&[5.0, 5.0, 5.0], None).picture("a label").0;
        assert!(svg.contains("class=\"median c0\"") && !svg.contains("NaN"));
    }
}
