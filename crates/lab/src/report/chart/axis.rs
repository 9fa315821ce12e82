//! Axes of panels: ranges, ticks and labels.

use super::{Frame, WIDER};
use crate::report::scale::{Mapping, Scale, Tick};
use crate::report::svg::{Svg, text_width};

/// Room for tick labels, and for a second level of them.
const TICKS: f64 = 28.0;
const OUTER: f64 = 26.0;
/// The range of no values.
const NOTHING: (f64, f64) = (f64::INFINITY, f64::NEG_INFINITY);

/// An axis without its place.
#[derive(Clone, Debug, Default)]
pub(in crate::report) struct Axis {
    pub(super) label: String,
    mapping: Mapping,
    range: (f64, f64),
    /// True where values outside the range are drawn at its ends.
    is_fixed: bool,
    pub(super) ticks: Ticks,
    /// A second level of labels: from, to, text.
    pub(super) outer: Vec<(f64, f64, String)>,
}

/// Ticks of an axis.
#[derive(Clone, Debug)]
pub(super) enum Ticks {
    /// Round numbers, about this many, with a grid.
    Round(usize),
    /// Texts at the middle of equal parts.
    Categories(Vec<Tick>),
    /// Texts at values.
    Given(Vec<Tick>),
}

impl Default for Ticks {
    fn default() -> Self {
        Self::Categories(Vec::new())
    }
}

impl Ticks {
    pub(super) fn texts(&self) -> &[Tick] {
        match self {
            Self::Round(_) => &[],
            Self::Categories(ticks) | Self::Given(ticks) => ticks,
        }
    }

    fn are_round(&self) -> bool {
        matches!(self, Self::Round(_))
    }
}

impl Axis {
    /// About this many round numbers around all values of the panel's layers.
    pub(in crate::report) fn linear(label: &str, wanted: usize) -> Self {
        Self {
            label: label.to_owned(),
            range: NOTHING,
            ticks: Ticks::Round(wanted),
            ..Self::default()
        }
    }

    /// The same with equal distances for equal ratios; values below zero are drawn at its end.
    pub(in crate::report) fn logarithmic(label: &str, wanted: usize) -> Self {
        Self::linear(label, wanted).mapped(Mapping::Logarithmic)
    }

    /// With another mapping.
    pub(in crate::report) fn mapped(mut self, mapping: Mapping) -> Self {
        self.mapping = mapping;
        self
    }

    /// With room for a value.
    pub(in crate::report) fn with(mut self, value: f64) -> Self {
        self.include(value);
        self
    }

    /// With room for these values and no others.
    pub(in crate::report) fn within(mut self, low: f64, high: f64) -> Self {
        (self.range, self.is_fixed) = ((low, high), true);
        self
    }

    /// Texts at the middle of equal parts, from 0.5 on.
    pub(in crate::report) fn categories(texts: impl IntoIterator<Item = String>) -> Self {
        let ticks = (0..).map(|k| f64::from(k) + 0.5).zip(texts);
        let ticks: Vec<Tick> = ticks.map(|(at, text)| Tick { at, text }).collect();
        Self {
            range: (0.0, ticks.len().max(1) as f64),
            is_fixed: true,
            ticks: Ticks::Categories(ticks),
            ..Self::default()
        }
    }

    /// Texts at values, on exactly this range.
    pub(in crate::report) fn given(range: (f64, f64), ticks: Vec<(f64, String)>) -> Self {
        let tick = |(at, text)| Tick { at, text };
        Self {
            range,
            is_fixed: true,
            ticks: Ticks::Given(ticks.into_iter().map(tick).collect()),
            ..Self::default()
        }
    }

    /// Texts at the middle of equal parts, each with a second-level text that neighbours share.
    pub(in crate::report) fn grouped(texts: impl IntoIterator<Item = (String, String)>) -> Self {
        let (texts, groups): (Vec<String>, Vec<String>) = texts.into_iter().unzip();
        let mut outer: Vec<(f64, f64, String)> = Vec::new();
        for (at, group) in (0..).map(f64::from).zip(groups) {
            match outer.last_mut() {
                Some((_, to, last)) if *last == group => *to = at + 1.0,
                _ => outer.push((at, at + 1.0, group)),
            }
        }
        outer.retain(|(_, _, group)| !group.is_empty());
        Self::categories(texts).outer(outer)
    }

    /// With a second level of labels, each over a range of values.
    pub(in crate::report) fn outer(mut self, outer: Vec<(f64, f64, String)>) -> Self {
        self.outer = outer;
        self
    }

    pub(super) fn scale(&self, pixels: (f64, f64)) -> Scale {
        let range = match self.mapping {
            _ if (self.range.0 + self.range.1).is_finite() => self.range,
            Mapping::Linear => (0.0, 1.0),
            Mapping::Logarithmic => (0.1, 1.0),
        };
        match &self.ticks {
            Ticks::Round(wanted) => Scale::new(self.mapping, range, *wanted, pixels),
            ticks => Scale::given(range, ticks.texts().to_vec(), pixels),
        }
    }

    /// Width that labels need to the left of a panel.
    pub(super) fn margin(&self) -> f64 {
        let ticks = self.scale((1.0, 0.0)).ticks;
        let widest = ticks.iter().map(|tick| text_width(&tick.text));
        let widest = widest.fold(0.0, f64::max);
        let wider = if self.ticks.are_round() { 1.0 } else { WIDER };
        wider * widest + if self.label.is_empty() { 18.0 } else { 40.0 }
    }

    /// Returns true for round numbers.
    pub(super) fn is_of_numbers(&self) -> bool {
        self.ticks.are_round()
    }

    /// Widens its range to a value.
    pub(super) fn include(&mut self, value: f64) {
        let has_place = self.mapping == Mapping::Linear || value > 0.0;
        if value.is_finite() && has_place && !self.is_fixed {
            self.widen((value, value));
        }
    }

    /// Widens its range to include another's.
    pub(super) fn join(&mut self, other: &Self) {
        self.widen(other.range);
    }

    fn widen(&mut self, (low, high): (f64, f64)) {
        self.range = (self.range.0.min(low), self.range.1.max(high));
    }
}

impl Axis {
    /// Returns true for an axis that is not drawn: one of given ticks without any.
    fn is_hidden(&self) -> bool {
        matches!(&self.ticks, Ticks::Given(ticks) if ticks.is_empty())
    }

    /// Height of its ticks below a panel.
    pub(super) fn height(&self) -> f64 {
        if self.is_hidden() {
            return 0.0;
        }
        let texts = self.ticks.texts().iter().map(|tick| &tick.text);
        let lines = texts.map(|text| text.split('\n').count()).max();
        let outer = if self.outer.is_empty() { 0.0 } else { OUTER };
        TICKS + 15.0 * (lines.unwrap_or(1) as f64 - 1.0) + outer
    }

    pub(super) fn draw_horizontal(&self, svg: &mut Svg, scale: &Scale, frame: &Frame) {
        let middle = f64::midpoint(frame.left, frame.right);
        if self.is_hidden() {
            return;
        }
        let y = frame.bottom;
        svg.line("rule", (frame.left, y), (frame.right, y));
        for tick in &scale.ticks {
            let x = scale.at(tick.at);
            if !matches!(self.ticks, Ticks::Categories(_)) {
                svg.line("rule", (x, y), (x, y + 5.0));
            }
            let lines = tick.text.split('\n').enumerate();
            for (line, text) in lines.filter(|_| frame.is_last) {
                svg.text("tick middle", (x, y + 19.0 + 15.0 * line as f64), text);
            }
        }
        if !frame.is_last {
            return;
        }
        let below = y + self.height();
        for (from, to, text) in &self.outer {
            let (from, to) = (scale.at(*from) + 10.0, scale.at(*to) - 10.0);
            let line = below - OUTER + 4.0;
            svg.line("rule", (from, line), (to, line));
            svg.text("axis middle", (f64::midpoint(from, to), below - 4.0), text);
        }
        if !self.label.is_empty() {
            svg.text("axis middle", (middle, below + 12.0), &self.label);
        }
    }

    pub(super) fn draw_vertical(&self, svg: &mut Svg, scale: &Scale, frame: &Frame) {
        let mut widest: f64 = 0.0;
        for tick in &scale.ticks {
            let y = scale.at(tick.at);
            if self.ticks.are_round() {
                svg.line("grid", (frame.left, y), (frame.right, y));
            }
            if frame.is_first {
                svg.text("tick end", (frame.left - 8.0, y + 4.0), &tick.text);
                widest = widest.max(text_width(&tick.text));
            }
        }
        for (from, _, text) in &self.outer {
            svg.text("strong", (4.0, scale.at(*from)), text);
        }
        if frame.is_first && !self.label.is_empty() {
            let x = (frame.left - 22.0 - widest).max(12.0);
            let middle = f64::midpoint(frame.top, frame.bottom);
            svg.text_upwards("axis middle", (x, middle), &self.label);
        }
    }
}
