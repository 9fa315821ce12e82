//! Values with intervals, one row each.

use super::svg::{Svg, short, text_width};

/// Width of the scale, and height of a row.
const SCALE: f64 = 420.0;
const ROW: f64 = 24.0;
/// Grid lines, about.
const TICKS: f64 = 6.0;

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
pub fn interval_figure(label: &str, rule: f64, rows: &[IntervalRow]) -> String {
    let names = rows.iter().map(|row| text_width(&row.name));
    let left = 1.15 * names.fold(0.0, f64::max) + 20.0;
    let most = rows
        .iter()
        .map(|row| row.high)
        .fold(rule, f64::max)
        .max(1e-9);
    let x = |value: f64| left + value / most * SCALE;
    let (top, bottom) = (12.0, 12.0 + ROW * rows.len() as f64);
    let mut svg = Svg::default();
    let step = step(most / TICKS);
    let mut tick = 0.0;
    while tick <= most * 1.001 {
        svg.line("grid", (x(tick), top), (x(tick), bottom));
        svg.text("tick middle", (x(tick), bottom + 16.0), &short(tick));
        tick += step;
    }
    svg.line("rule", (x(rule), top), (x(rule), bottom));
    for (place, row) in rows.iter().enumerate() {
        let y = top + (place as f64 + 0.5) * ROW;
        let (name, value, low, high) = (&row.name, row.value, row.low, row.high);
        let told = format!("{name}: {value:.3} ({low:.3} to {high:.3})");
        let (series, class) = if row.is_marked {
            ("c0", "tick end strong")
        } else {
            ("c5", "tick end")
        };
        svg.with_title(&told, |svg| {
            svg.text(class, (left - 12.0, y + 4.0), name);
            svg.line(&format!("{series} median"), (x(low), y), (x(high), y));
            svg.circle(&format!("{series} mark"), (x(value), y), 4.0);
        });
    }
    svg.text("axis middle", (left + SCALE / 2.0, bottom + 36.0), label);
    svg.finish(left + SCALE + 24.0, bottom + 44.0, label)
}

/// The least of 1, 2 or 5 times a power of ten that is not below `value`.
fn step(value: f64) -> f64 {
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|factor| factor * power);
    steps
        .into_iter()
        .find(|step| *step >= value)
        .unwrap_or(10.0 * power)
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
        let svg = interval_figure("Cost", 1.0, &rows);
        assert!(svg.contains("a &lt; b: 0.500 (0.400 to 0.600)"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 2);
    }

    #[test]
    fn steps_are_round() {
        for (value, expected) in [(0.2, 0.2), (0.21, 0.5), (0.9, 1.0), (30.0, 50.0)] {
            assert!((step(value) - expected).abs() < 1e-9, "{value}");
        }
    }
}
