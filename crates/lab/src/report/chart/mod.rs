//! One drawing for every figure with axes: scales, axes, legend and layers, in a grid of panels.
//!
//! Panels share axes by [`Shared`]. The legend has a key for each name of a layer. Data
//! attributes state the scales of a panel and the names of its layers, so that the script of a page hides series,
//! changes a scale to logarithms, and zooms.

mod axis;
mod layer;

pub(super) use axis::Axis;
pub(super) use layer::{At, Layer, Part, steps};

use std::fmt::Write as _;

use super::scale::Scale;
use super::svg::{Picture, WIDTH};
use super::svg::{Svg, escape, text_width};

/// Room for panels in a row, without the axis of the first: widths in pixels that figures choose by.
pub(super) const ROOM: f64 = 780.0;
/// Room above a panel with a title, and between rows without.
const TITLE: f64 = 26.0;
const BETWEEN: f64 = 14.0;
/// Room for the label of an axis.
const LABEL: f64 = 24.0;
/// Between panels of a row.
const GAP: f64 = 26.0;
/// Where the legend begins.
const KEYS: f64 = 44.0;
/// Texts are wider where the page's fonts are missing.
const WIDER: f64 = 1.12;

/// A figure with axes.
#[derive(Clone, Debug, Default)]
pub(super) struct Chart {
    /// Its name for those who do not see it.
    pub(super) label: String,
    /// Panels of a row; 0 is 1.
    pub(super) columns: usize,
    /// Height of a panel in pixels.
    pub(super) height: f64,
    /// Room on the right in pixels.
    pub(super) right: f64,
    pub(super) shared: Shared,
    /// Label below all panels.
    pub(super) x_label: String,
    /// Label beside all panels.
    pub(super) y_label: String,
    /// True for time series, which a reader of a page may zoom.
    pub(super) zooms: bool,
    pub(super) panels: Vec<Panel>,
}

/// Axes that panels have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Shared {
    /// None.
    #[default]
    Neither,
    /// Both, for all panels.
    Both,
    /// The horizontal for all panels, the vertical for a row.
    Rows,
}

/// A part of a figure with its axes.
#[derive(Clone, Debug, Default)]
pub(super) struct Panel {
    pub(super) title: String,
    /// Texts to the right of it at values of the vertical axis.
    pub(super) beside: Vec<(f64, String)>,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) layers: Vec<Layer>,
}

/// The drawing area of a panel between its margins.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    /// Vertical position of the title.
    title: f64,
    /// True for the first panel of a row.
    is_first: bool,
    /// True for the last panel of a column.
    is_last: bool,
}

impl Chart {
    /// One panel of a usual height.
    pub(super) fn of(label: &str, panel: Panel) -> Self {
        Self::grid(label, 1, 330.0, vec![panel])
    }

    /// Panels of a height in rows.
    pub(super) fn grid(label: &str, columns: usize, height: f64, panels: Vec<Panel>) -> Self {
        Self {
            label: label.to_owned(),
            columns,
            height,
            right: 16.0,
            panels,
            ..Self::default()
        }
    }

    /// Panels side by side on common axes, over the time in seconds.
    pub(super) fn over_time(label: &str, panels: Vec<Panel>) -> Self {
        let (columns, height) = match panels.len() {
            0..=1 => (1, 330.0),
            _ => (2, 190.0),
        };
        Self {
            shared: Shared::Both,
            x_label: "Time (s)".to_owned(),
            zooms: true,
            ..Self::grid(label, columns, height, panels)
        }
    }

    /// With a label below all panels.
    pub(super) fn below(mut self, label: &str) -> Self {
        label.clone_into(&mut self.x_label);
        self
    }

    /// The figure as an SVG element.
    pub(super) fn picture(mut self) -> Picture {
        self.share();
        let mut svg = Svg::default();
        let mut top = self.legend(&mut svg);
        let columns = self.columns.max(1);
        let lefts = self.lefts(columns);
        let has_x_label = self.panels.iter().any(|panel| !panel.x.label.is_empty());
        let count = self.panels.len();
        for (row, panels) in self.panels.chunks(columns).enumerate() {
            let above = Self::above(row, panels);
            let mut below: f64 = 4.0;
            for (column, panel) in panels.iter().enumerate() {
                let place = row * columns + column;
                let frame = Frame {
                    left: lefts[column].0,
                    right: lefts[column].1,
                    top: top + above,
                    bottom: top + above + self.height,
                    title: top + TITLE - 9.0,
                    is_first: column == 0 || self.labels_all(),
                    is_last: place + columns >= count || self.labels_all(),
                };
                below = below.max(panel.below(frame.is_last));
                let label = escape(&format!("{} {}", panel.title, panel.y.label));
                svg.group(&panel.data(&frame, &label), |svg| panel.draw(svg, &frame));
            }
            top += above + self.height + below;
        }
        if self.panels.is_empty() {
            top += self.height;
        }
        let (left, right) = (lefts[0].0, lefts[lefts.len() - 1].1);
        let middle = f64::midpoint(left, right);
        if !self.y_label.is_empty() {
            svg.text_upwards("axis middle", (14.0, top / 2.0), &self.y_label);
        }
        if !self.x_label.is_empty() {
            svg.text("axis middle", (middle, top + 14.0), &self.x_label);
        }
        if !self.x_label.is_empty() || has_x_label {
            top += LABEL;
        }
        let zoom = if self.zooms { " data-zoom=\"x\"" } else { "" };
        Picture(svg.finish(right + self.right, top + 4.0, &self.label, zoom))
    }

    /// Gives axes room for all layers, and panels the ranges that they share.
    fn share(&mut self) {
        for Panel { x, y, layers, .. } in &mut self.panels {
            let places = layers.iter().flat_map(Layer::parts).flat_map(Part::places);
            for (along, up) in places {
                x.include(along);
                y.include(up);
            }
        }
        let columns = self.columns.max(1);
        let group = |place: usize| match self.shared {
            Shared::Neither | Shared::Both => 0,
            Shared::Rows => place / columns,
        };
        if self.shared == Shared::Neither {
            return;
        }
        let joined = |place: usize| {
            let Panel { mut x, mut y, .. } = self.panels[place].clone();
            for (other, panel) in self.panels.iter().enumerate() {
                x.join(&panel.x);
                if group(other) == group(place) {
                    y.join(&panel.y);
                }
            }
            (x, y)
        };
        let axes: Vec<(Axis, Axis)> = (0..self.panels.len()).map(joined).collect();
        for (panel, axes) in self.panels.iter_mut().zip(axes) {
            (panel.x, panel.y) = axes;
        }
    }

    /// Returns true if each panel has labels at its axes.
    fn labels_all(&self) -> bool {
        self.shared == Shared::Neither
    }

    /// Left and right end of each column.
    fn lefts(&self, columns: usize) -> Vec<(f64, f64)> {
        let margin = |column: usize| {
            let own = self.panels.iter().skip(column).step_by(columns);
            let widest = own.map(|panel| panel.y.margin()).fold(18.0, f64::max);
            if column > 0 && !self.labels_all() {
                GAP
            } else if self.y_label.is_empty() {
                widest
            } else {
                widest + 22.0
            }
        };
        let used = columns.min(self.panels.len()).max(1);
        let margins: Vec<f64> = (0..used).map(margin).collect();
        let rest = WIDTH - self.right - margins.iter().sum::<f64>();
        let mut at = 0.0;
        let ends = margins.iter().map(|margin| {
            let left = at + margin;
            at = left + rest / used as f64;
            (left, at)
        });
        ends.collect()
    }

    /// Room above the panels of a row.
    fn above(row: usize, panels: &[Panel]) -> f64 {
        match (panels.iter().any(|panel| !panel.title.is_empty()), row) {
            (true, _) => TITLE,
            (false, 0) => 6.0,
            (false, _) => BETWEEN,
        }
    }

    /// Draws the keys of all names in lines; returns their height.
    fn legend(&self, svg: &mut Svg) -> f64 {
        let layers = self.panels.iter().flat_map(|panel| &panel.layers);
        let mut keys: Vec<&Layer> = Vec::new();
        for layer in layers.filter(|layer| !layer.name.is_empty() && !layer.items.is_empty()) {
            if !keys.iter().any(|key| key.name == layer.name) {
                keys.push(layer);
            }
        }
        let right = WIDTH - 10.0;
        let (mut x, mut y) = (KEYS, 14.0);
        let mut next = |width: f64| {
            if x + width > right + 22.0 && x > KEYS {
                (x, y) = (KEYS, y + 20.0);
            }
            x += width;
            (x - width, y)
        };
        for key in &keys {
            let at = next(26.0 + WIDER * text_width(&key.name) + 22.0);
            let name = format!("class=\"key\" data-key=\"{}\"", escape(&key.name));
            svg.group(&name, |svg| {
                key.key(svg, (at.0 + 9.0, at.1));
                svg.text("legend", (at.0 + 24.0, at.1 + 4.0), &key.name);
            });
        }
        if keys.is_empty() { 6.0 } else { y + 14.0 }
    }
}

impl Panel {
    pub(super) fn new(x: Axis, y: Axis, layers: Vec<Layer>) -> Self {
        Self {
            x,
            y,
            layers,
            ..Self::default()
        }
    }

    pub(super) fn titled(self, title: &str) -> Self {
        let title = title.to_owned();
        Self { title, ..self }
    }

    /// Room below it.
    fn below(&self, is_last: bool) -> f64 {
        4.0 + if is_last { self.x.height() } else { 0.0 }
    }

    fn scales(&self, frame: &Frame) -> (Scale, Scale) {
        let x = self.x.scale((frame.left, frame.right));
        (x, self.y.scale((frame.bottom, frame.top)))
    }

    /// The attributes that a page's script reads: both scales, and the least value above zero where the
    /// vertical axis may change to logarithms and back.
    fn data(&self, frame: &Frame, label: &str) -> String {
        let (x, y) = self.scales(frame);
        let mut data = format!(
            "class=\"panel\" data-x=\"{}\" data-y=\"{}\"",
            x.data(),
            y.data()
        );
        if self.y.is_of_numbers() {
            let parts = self.layers.iter().flat_map(Layer::parts);
            let heights = parts.flat_map(Part::places).map(|at| at.1);
            let above = heights.filter(|height| *height > 0.0);
            let least = above.fold(f64::INFINITY, f64::min);
            if least.is_finite() {
                // A String takes every write.
                let _ = write!(data, " data-least=\"{least:e}\"");
            }
        }
        data + &format!(" aria-label=\"{}\"", label.trim())
    }

    fn draw(&self, svg: &mut Svg, frame: &Frame) {
        let (x, y) = self.scales(frame);
        if !self.title.is_empty() {
            svg.text("axis strong", (frame.left, frame.title), &self.title);
        }
        svg.group("data-axis=\"y\"", |svg| {
            self.y.draw_vertical(svg, &y, frame);
        });
        svg.group("data-axis=\"x\"", |svg| {
            self.x.draw_horizontal(svg, &x, frame);
            if !self.y.is_of_numbers() && self.x.is_of_numbers() {
                for tick in &x.ticks {
                    let x = x.at(tick.at);
                    svg.line("grid", (x, frame.top), (x, frame.bottom));
                }
            }
        });
        svg.group("class=\"layers\"", |svg| {
            for layer in self.layers.iter().filter(|layer| !layer.items.is_empty()) {
                if layer.name.is_empty() {
                    layer.draw(svg, &x, &y);
                } else {
                    let name = format!("data-series=\"{}\"", escape(&layer.name));
                    svg.group(&name, |svg| layer.draw(svg, &x, &y));
                }
            }
        });
        for (at, text) in &self.beside {
            svg.text("note", (frame.right + 14.0, y.at(*at) + 4.0), text);
        }
    }
}
