//! Common parts of figures: margins, axes, grid, legend.

use super::scale::Scale;
use super::svg::{Svg, text_width};

/// Width of every figure in user units; the page scales it.
pub(super) const WIDTH: f64 = 860.0;
/// Series colours there are; later series begin again.
pub(super) const COLOURS: usize = 7;

/// The drawing area between the margins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) top: f64,
    pub(super) bottom: f64,
}

impl Frame {
    pub(super) fn width(&self) -> f64 {
        self.right - self.left
    }

    /// Horizontal grid lines, tick labels and the label, if any, of a vertical axis.
    pub(super) fn y_axis(&self, svg: &mut Svg, scale: &Scale, label: &str) {
        let mut widest: f64 = 0.0;
        for &tick in &scale.ticks {
            let (y, text) = (scale.at(tick), scale.label(tick));
            svg.line("grid", (self.left, y), (self.right, y));
            svg.text("tick end", (self.left - 8.0, y + 4.0), &text);
            widest = widest.max(text_width(&text));
        }
        if label.is_empty() {
            return;
        }
        let x = (self.left - 8.0 - widest - 14.0).max(12.0);
        svg.text_upwards(
            "axis middle",
            (x, f64::midpoint(self.top, self.bottom)),
            label,
        );
    }

    /// Horizontal grid lines alone, where a neighbour has the labels.
    pub(super) fn y_grid(&self, svg: &mut Svg, scale: &Scale) {
        for &tick in &scale.ticks {
            let y = scale.at(tick);
            svg.line("grid", (self.left, y), (self.right, y));
        }
    }

    /// Tick marks, labels and the label, if any, of a horizontal axis.
    pub(super) fn x_axis(&self, svg: &mut Svg, scale: &Scale, label: &str) {
        svg.line("rule", (self.left, self.bottom), (self.right, self.bottom));
        for &tick in &scale.ticks {
            let x = scale.at(tick);
            svg.line("rule", (x, self.bottom), (x, self.bottom + 5.0));
            svg.text("tick middle", (x, self.bottom + 19.0), &scale.label(tick));
        }
        if label.is_empty() {
            return;
        }
        let middle = f64::midpoint(self.left, self.right);
        svg.text("axis middle", (middle, self.bottom + 40.0), label);
    }
}

/// Draws the key of a legend entry around a point.
pub(super) type DrawKey = dyn Fn(&mut Svg, (f64, f64));

/// An entry of a legend: its text and how its key is drawn at a point.
pub(super) struct Key<'a> {
    pub(super) label: &'a str,
    pub(super) draw: &'a DrawKey,
}

/// Legends are larger than 12 pixels, and where the page's fonts are missing the next one is wide.
const LEGEND_WIDER: f64 = 1.12;

/// Draws a legend in one line from the left; wraps where it must. Gives its height.
pub(super) fn legend(svg: &mut Svg, left: f64, top: f64, right: f64, keys: &[Key<'_>]) -> f64 {
    let (mut x, mut y) = (left, top);
    for key in keys {
        let width = 26.0 + LEGEND_WIDER * text_width(key.label) + 22.0;
        if x + width > right + 22.0 && x > left {
            x = left;
            y += 20.0;
        }
        (key.draw)(svg, (x + 9.0, y));
        svg.text("legend", (x + 24.0, y + 4.0), key.label);
        x += width;
    }
    y + 20.0 - top
}

/// Width of the left margin that tick labels and the axis label need.
pub(super) fn left_margin(scale: &Scale) -> f64 {
    let widest = scale
        .ticks
        .iter()
        .map(|t| text_width(&scale.label(*t)))
        .fold(0.0, f64::max);
    widest + 44.0
}
