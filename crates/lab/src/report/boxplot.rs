//! Box plots: one box per algorithm and cell, with a study's printed values beside it.

use std::fmt::Write as _;

use super::frame::{DrawKey, Frame, Key, WIDTH, left_margin, legend};
use super::look::Look;
use super::scale::{Mapping, Scale, number};
use super::svg::{Svg, short};
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

const HEIGHT: f64 = 440.0;
/// Radius of the marker at a median.
const MARKER: f64 = 3.4;
/// Above this ratio of largest to smallest value a plot is logarithmic.
const LINEAR_UP_TO: f64 = 30.0;

impl BoxPlot {
    /// A plot of flow completion times, logarithmic where they differ much.
    pub fn of_completion_times(
        groups: Vec<(String, String)>,
        series: Vec<String>,
        boxes: Vec<BoxMark>,
        published_label: String,
    ) -> Self {
        let low = boxes.iter().map(|b| b.statistics.min);
        let low = low.fold(f64::INFINITY, f64::min);
        let high = boxes.iter().map(|b| b.statistics.max).fold(0.0, f64::max);
        Self {
            y_label: "Flow completion time (s)".to_owned(),
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

    /// The figure as an SVG element.
    pub fn svg(&self, label: &str) -> String {
        let mut svg = Svg::default();
        let legend_height = self.legend(&mut svg);
        let bottom = HEIGHT - 64.0;
        let top = 14.0 + legend_height;
        let scale = Scale::new(self.mapping, self.range(), 6, (bottom, top));
        let frame = Frame {
            left: left_margin(&scale),
            right: WIDTH - 10.0,
            top,
            bottom,
        };
        frame.y_axis(&mut svg, &scale, &self.y_label);
        let step = frame.width() / self.groups.len().max(1) as f64;
        self.group_labels(&mut svg, &frame, step);
        // Series that a group lacks leave no gap in it.
        for group in 0..self.groups.len() {
            let members: Vec<&BoxMark> = self.boxes.iter().filter(|b| b.group == group).collect();
            let slot = (step * 0.84 / members.len().max(1) as f64).min(64.0);
            let centre = frame.left + step * (group as f64 + 0.5);
            let first = centre - slot * (members.len() as f64 - 1.0) / 2.0;
            for (k, mark) in members.iter().enumerate() {
                self.draw(&mut svg, &scale, mark, first + slot * k as f64, slot);
            }
        }
        svg.line("rule", (frame.left, bottom), (frame.right, bottom));
        svg.finish(WIDTH, HEIGHT, label)
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

    fn legend(&self, svg: &mut Svg) -> f64 {
        let mut draws: Vec<(String, Box<DrawKey>)> = Vec::new();
        for name in &self.series {
            let look = Look::of(name);
            let class = format!("box {}", look.class());
            draws.push((
                name.clone(),
                Box::new(move |svg, (x, y)| {
                    svg.rect(&class, x - 8.0, y - 5.5, 16.0, 11.0);
                    look.mark(svg, (x, y), 3.0);
                }),
            ));
        }
        if self.boxes.iter().any(|b| b.published.is_some()) {
            draws.push((
                self.published_label.clone(),
                Box::new(|svg, (x, y)| {
                    svg.line("printed-thin", (x, y - 8.0), (x, y + 8.0));
                    svg.line("printed-thick", (x, y - 5.0), (x, y + 5.0));
                    svg.path("printed-mark", &diamond(x, y));
                }),
            ));
        }
        let keys: Vec<Key<'_>> = draws
            .iter()
            .map(|(label, draw)| Key {
                label,
                draw: draw.as_ref(),
            })
            .collect();
        legend(svg, 64.0, 14.0, WIDTH - 10.0, &keys)
    }

    fn group_labels(&self, svg: &mut Svg, frame: &Frame, step: f64) {
        let mut start = 0;
        for (k, (label, second)) in self.groups.iter().enumerate() {
            let centre = frame.left + step * (k as f64 + 0.5);
            svg.text("tick middle", (centre, frame.bottom + 19.0), label);
            let ends = self.groups.get(k + 1).is_none_or(|next| next.1 != *second);
            if ends && !second.is_empty() {
                let from = frame.left + step * start as f64 + 10.0;
                let to = frame.left + step * (k as f64 + 1.0) - 10.0;
                let y = frame.bottom + 30.0;
                svg.line("rule", (from, y), (to, y));
                svg.text("axis middle", (f64::midpoint(from, to), y + 19.0), second);
            }
            if ends {
                start = k + 1;
            }
        }
    }

    fn draw(&self, svg: &mut Svg, scale: &Scale, mark: &BoxMark, x: f64, slot: f64) {
        let s = &mark.statistics;
        let look = Look::of(self.series.get(mark.series).map_or("", String::as_str));
        let colour = look.class();
        // The box leaves the right third of its slot to the printed values.
        let shift = if mark.published.is_some() {
            -slot * 0.13
        } else {
            0.0
        };
        let half = slot * if mark.published.is_some() { 0.24 } else { 0.32 };
        let x = x + shift;
        let (low, high) = match self.whiskers {
            Whiskers::P10P90 => (s.p10, s.p90),
            Whiskers::MinMax => (s.min, s.max),
        };
        svg.with_title(&self.tooltip(mark), |svg| {
            let stem = format!("whisker {colour}");
            for (from, to) in [(low, s.p25), (s.p75, high)] {
                svg.line(&stem, (x, scale.at(from)), (x, scale.at(to)));
            }
            for end in [low, high] {
                let y = scale.at(end);
                svg.line(&stem, (x - half * 0.5, y), (x + half * 0.5, y));
            }
            let (top, bottom) = (scale.at(s.p75), scale.at(s.p25));
            // A box thinner than a line would vanish.
            let height = (bottom - top).max(2.0);
            let top = f64::midpoint(top, bottom) - height / 2.0;
            svg.rect(&format!("box {colour}"), x - half, top, 2.0 * half, height);
            let y = scale.at(s.p50);
            svg.line(&format!("median {colour}"), (x - half, y), (x + half, y));
            look.mark(svg, (x, y), MARKER.min(half));
            if self.whiskers == Whiskers::P10P90 {
                for end in [s.min, s.max] {
                    svg.circle(&format!("dot {colour}"), (x, scale.at(end)), 1.8);
                }
            }
            if let Some(published) = mark.published {
                draw_published(svg, scale, &published, x + half + slot * 0.14);
            }
        });
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

fn draw_published(svg: &mut Svg, scale: &Scale, published: &Published, x: f64) {
    if let (Some(low), Some(high)) = (published.low, published.high) {
        svg.line("printed-thin", (x, scale.at(low)), (x, scale.at(high)));
    }
    if let (Some(low), Some(high)) = (published.p25, published.p75) {
        svg.line("printed-thick", (x, scale.at(low)), (x, scale.at(high)));
    }
    if let Some(median) = published.p50 {
        svg.path("printed-mark", &diamond(x, scale.at(median)));
    }
}

fn diamond(x: f64, y: f64) -> String {
    let r = 4.5;
    format!(
        "M{} {}L{} {}L{} {}L{} {}Z",
        short(x),
        short(y - r),
        short(x + r),
        short(y),
        short(x),
        short(y + r),
        short(x - r),
        short(y)
    )
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
        let svg = plot(&[285.0, 286.0], Some(published)).svg("a label");
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
        let svg = plot(&[5.0, 5.0, 5.0], None).svg("a label");
        assert!(
            svg.contains("height=\"2\"") && !svg.contains("NaN"),
            "{svg}"
        );
    }
}
