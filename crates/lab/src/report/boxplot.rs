//! Box plots: one box per algorithm and cell, with a study's printed values beside it.

use std::fmt::Write as _;

use super::chart::{Axis, Chart, Layer, Panel, Part, ROOM};
use super::look::Looks;
use super::picture::Picture;
use super::scale::{Mapping, number};
use super::shapes::Shape;
use crate::expected::Expected;
use crate::statistics::{Statistic, Statistics};

/// The range of the whiskers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whiskers {
    /// 10th and 90th percentile; minimum and maximum are dots.
    P10P90,
    /// Minimum and maximum.
    MinMax,
}

/// Percentiles a study printed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Published {
    pub low: Option<f64>,
    pub p25: Option<f64>,
    pub p50: Option<f64>,
    pub p75: Option<f64>,
    pub high: Option<f64>,
}

impl Published {
    /// The percentiles of a published row.
    pub fn of(row: &Expected) -> Self {
        Self {
            low: row.value(Statistic::P10),
            p25: row.value(Statistic::P25),
            p50: row.value(Statistic::P50),
            p75: row.value(Statistic::P75),
            high: row.value(Statistic::P90),
        }
    }
}

impl Published {
    fn parts(&self, x: f64) -> Vec<Part> {
        let line = |class, from: Option<f64>, to: Option<f64>| {
            Some(Part::span(class, (x, from?), (x, to?)))
        };
        let median = self.p50.map(|median| {
            let class = "printed-mark".to_owned();
            Part::Marks(class, Shape::Diamond, 3.5, vec![(x, median)])
        });
        let lines = [
            line("printed-thin", self.low, self.high),
            line("printed-thick", self.p25, self.p75),
        ];
        lines.into_iter().chain([median]).flatten().collect()
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

/// A box plot.
#[derive(Clone, Debug)]
pub struct BoxPlot {
    /// The quantity with its unit, such as `Flow completion time (s)`.
    pub y_label: String,
    /// Linear from zero, or logarithmic.
    pub mapping: Mapping,
    /// The least and the largest value of all figures that share its axis; its own without.
    pub shared: Option<(f64, f64)>,
    /// Groups of boxes from left to right: label, and a second-level label that neighbours share.
    pub groups: Vec<(String, String)>,
    /// Names of series, in the order of their colours.
    pub series: Vec<String>,
    /// The boxes.
    pub boxes: Vec<BoxMark>,
    /// The range of the whiskers.
    pub whiskers: Whiskers,
    /// Name of the study's values in the legend, such as `Pesola 2020`.
    pub published_label: String,
}

/// Radius of the marker at a median.
const MARKER: f64 = 3.4;
/// Above this ratio of largest to smallest value a plot is logarithmic.
const LINEAR_UP_TO: f64 = 30.0;

impl BoxPlot {
    /// A plot of times in seconds with this name, logarithmic where they differ much.
    pub fn of_times(
        name: &str,
        groups: Vec<(String, String)>,
        series: Vec<String>,
        boxes: Vec<BoxMark>,
        published_label: String,
    ) -> Self {
        let low = boxes.iter().map(|b| b.statistics.min);
        let low = low.fold(f64::INFINITY, f64::min);
        let high = boxes.iter().map(|b| b.statistics.max).fold(0.0, f64::max);
        Self {
            y_label: format!("{name} (s)"),
            shared: None,
            mapping: if high > LINEAR_UP_TO * low {
                Mapping::Logarithmic
            } else {
                Mapping::Linear
            },
            groups,
            series,
            boxes,
            whiskers: Whiskers::P10P90,
            published_label,
        }
    }

    /// With the axis of several figures, whose values are from `low` to `high`.
    #[must_use]
    pub fn sharing(mut self, low: f64, high: f64) -> Self {
        self.mapping = if high > LINEAR_UP_TO * low {
            Mapping::Logarithmic
        } else {
            Mapping::Linear
        };
        self.shared = Some((low, high));
        self
    }

    /// A sentence for the caption that explains the boxes.
    pub fn reading(&self) -> String {
        let whiskers = match self.whiskers {
            Whiskers::P10P90 => {
                "whiskers from the 10th to the 90th percentile, dots at minimum and maximum"
            }
            Whiskers::MinMax => "whiskers from minimum to maximum",
        };
        let published = if self.boxes.iter().any(|b| b.published.is_some()) {
            format!(
                "; to the right of a box the values printed in {}: diamond at the median, thick line between the quartiles, thin line as the whiskers",
                self.published_label
            )
        } else {
            String::new()
        };
        format!(
            "Boxes from the 25th to the 75th percentile, line at the median, {whiskers}{published}."
        )
    }

    /// The figure in both layouts.
    pub fn picture(&self, label: &str) -> Picture {
        let count = self.groups.len().max(1);
        let step = ROOM / count as f64;
        let mut layers: Vec<Layer> = self.series.iter().map(|name| Layer::new(name)).collect();
        let mut published = Layer::new(&self.published_label);
        for group in 0..count {
            // Series that a group lacks leave no gap in it.
            let members: Vec<&BoxMark> = self.boxes.iter().filter(|b| b.group == group).collect();
            let slot = (step * 0.84 / members.len().max(1) as f64).min(64.0) / step;
            let first = group as f64 + 0.5 - slot * (members.len() as f64 - 1.0) / 2.0;
            for (k, mark) in members.iter().enumerate() {
                let (x, tip) = (first + slot * k as f64, self.tooltip(mark));
                if let Some(layer) = layers.get_mut(mark.series) {
                    *layer = std::mem::take(layer).item(&tip, self.parts(mark, x, slot));
                }
                if let Some(own) = mark.published {
                    published = published.item(&tip, own.parts(x + slot * 0.25));
                }
            }
        }
        let panel = Panel {
            x: Axis::grouped(self.groups.iter().cloned()),
            y: Axis::new(&self.y_label, self.mapping, self.range(), 6),
            layers: layers.into_iter().chain([published]).collect(),
            ..Panel::default()
        };
        Chart::of(label, panel).picture()
    }

    fn range(&self) -> (f64, f64) {
        let (mut low, mut high) = self.shared.unwrap_or((f64::INFINITY, 0.0));
        for mark in &self.boxes {
            let p = mark.published.unwrap_or_default();
            for value in [
                p.low,
                p.high,
                Some(mark.statistics.min),
                Some(mark.statistics.max),
            ] {
                low = value.map_or(low, |v| low.min(v));
                high = value.map_or(high, |v| high.max(v));
            }
        }
        match self.mapping {
            Mapping::Linear => (0.0, high),
            Mapping::Logarithmic if low.is_finite() => (low, high),
            Mapping::Logarithmic => (0.1, 1.0),
        }
    }

    /// A box around `x` in a slot of this width, both in groups.
    fn parts(&self, mark: &BoxMark, x: f64, slot: f64) -> Vec<Part> {
        let s = &mark.statistics;
        let looks = Looks::of(self.series.iter().map(String::as_str));
        let look = looks.get(self.series.get(mark.series).map_or("", String::as_str));
        let colour = look.class();
        // A box leaves the right third of its slot to published values.
        let (x, half) = match mark.published {
            Some(_) => (x - slot * 0.13, slot * 0.24),
            None => (x, slot * 0.32),
        };
        let (low, high) = match self.whiskers {
            Whiskers::P10P90 => (s.p10, s.p90),
            Whiskers::MinMax => (s.min, s.max),
        };
        let cap = |y| vec![(x - half * 0.5, y), (x + half * 0.5, y)];
        let stems = vec![
            vec![(x, low), (x, s.p25)],
            vec![(x, s.p75), (x, high)],
            cap(low),
            cap(high),
        ];
        let mut parts = vec![
            Part::Line(format!("whisker {colour}"), stems),
            Part::Rect(
                format!("box {colour}"),
                (x - half, s.p25),
                (x + half, s.p75),
                None,
            ),
            Part::span(
                &format!("median {colour}"),
                (x - half, s.p50),
                (x + half, s.p50),
            ),
            Part::of(look, MARKER, vec![(x, s.p50)]),
        ];
        if self.whiskers == Whiskers::P10P90 {
            let dots = vec![(x, s.min), (x, s.max)];
            parts.push(Part::Marks(format!("dot {colour}"), Shape::Dot, 0.0, dots));
        }
        parts
    }

    fn tooltip(&self, mark: &BoxMark) -> String {
        let s = &mark.statistics;
        let (first, second) = &self.groups[mark.group];
        let name = self.series.get(mark.series).map_or("", String::as_str);
        let value = |v: f64| number(v, if v < 100.0 { 2 } else { 1 });
        let mut text = format!(
            "{name}, {second} {first}: median {}, quartiles {} to {}, 10–90 % {} to {}, range {} to {}, n = {}",
            value(s.p50),
            value(s.p25),
            value(s.p75),
            value(s.p10),
            value(s.p90),
            value(s.min),
            value(s.max),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(values: &[f64], published: Option<Published>) -> BoxPlot {
        let statistics = Statistics::of(values).expect("values");
        BoxPlot {
            shared: None,
            y_label: "Flow completion time (s)".to_owned(),
            mapping: Mapping::Linear,
            groups: vec![("none".to_owned(), "1 client".to_owned())],
            series: vec!["default".to_owned()],
            boxes: vec![BoxMark {
                group: 0,
                series: 0,
                statistics,
                published,
            }],
            whiskers: Whiskers::MinMax,
            published_label: "Pesola 2020".to_owned(),
        }
    }

    #[test]
    fn a_tooltip_gives_ours_and_print() {
        let published = Published {
            p50: Some(285.695),
            ..Published::default()
        };
        let svg = plot(&[285.0, 286.0], Some(published)).picture("a label").0;
        assert!(
            svg.contains("default, 1 client none: median 285.5"),
            "{svg}"
        );
        assert!(
            svg.contains("Pesola 2020: median 285.7 (measured: 0.999 of it)"),
            "{svg}"
        );
        assert!(svg.contains("printed-mark"));
    }

    #[test]
    fn a_caption_tells_how_to_read_the_figure() {
        let plain = plot(&[1.0, 2.0], None);
        assert!(plain.reading().contains("whiskers from minimum to maximum"));
        assert!(!plain.reading().contains("Pesola"));
        assert!(
            plot(&[1.0], Some(Published::default()))
                .reading()
                .contains("Pesola 2020")
        );
    }

    #[test]
    fn equal_values_still_show_a_box() {
        let svg = plot(&[5.0, 5.0, 5.0], None).picture("a label").0;
        assert!(
            svg.contains("class=\"median c0\"") && !svg.contains("NaN"),
            "{svg}"
        );
    }
}
