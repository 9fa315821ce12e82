//! Values with intervals, one row each.

use super::chart::{Axis, Chart, Layer, Panel, Part};
use super::picture::Picture;
use super::scale::Mapping;
use super::shapes::Shape;

/// Width of the scale, and height of a row.
const SCALE: f64 = 420.0;
const ROW: f64 = 24.0;

/// A value with its interval.
#[derive(Clone, Debug, PartialEq)]
pub struct IntervalRow {
    /// Its name.
    pub name: String,
    /// The value.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// True if it is marked.
    pub is_marked: bool,
}

/// A row of a dot and its interval for each value, from 0 on. `rule` is a value with a line through all
/// rows; `label` names the quantity.
pub fn interval_figure(label: &str, rule: f64, rows: &[IntervalRow]) -> Picture {
    let most = rows.iter().map(|row| row.high).fold(rule, f64::max);
    let mut dots = Layer::new("");
    for (y, row) in (0..).map(|k| f64::from(k) + 0.5).zip(rows) {
        let (name, value, low, high) = (&row.name, row.value, row.low, row.high);
        let series = if row.is_marked { "c0" } else { "c5" };
        let parts = vec![
            Part::span(&format!("{series} median"), (low, y), (high, y)),
            Part::Marks(format!("{series} mark"), Shape::Disc, 4.0, vec![(value, y)]),
        ];
        dots = dots.item(
            &format!("{name}: {value:.3} ({low:.3} to {high:.3})"),
            parts,
        );
    }
    let line = Part::uprights("printed-thin", std::iter::once(rule));
    let panel = Panel {
        x: Axis::new(label, Mapping::Linear, (0.0, most.max(1e-9)), 6),
        y: Axis::categories("", rows.iter().map(|row| row.name.clone())).turned(),
        layers: vec![Layer::new("").part(line), dots],
        ..Panel::default()
    };
    let chart = Chart {
        height: ROW * rows.len() as f64,
        widths: vec![SCALE],
        ..Chart::of(label, panel)
    };
    chart.picture()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_a_dot_with_its_interval() {
        let row = |name: &str, value: f64, is_marked| IntervalRow {
            name: name.to_owned(),
            value,
            low: value - 0.1,
            high: value + 0.1,
            is_marked,
        };
        let rows = [row("a < b", 0.5, true), row("c", 1.2, false)];
        let svg = interval_figure("Cost", 1.0, &rows).0;
        assert!(svg.contains("a &lt; b: 0.500 (0.400 to 0.600)"), "{svg}");
        assert_eq!(svg.matches(" mark\" d=").count(), 2);
    }
}
