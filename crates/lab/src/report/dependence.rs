//! Findings against open settings: where each finding holds, and the settings that it depends on.

use super::svg::{Svg, text_width};

/// Width and height of a row's bar, and side of a square.
const BAR: f64 = 130.0;
const SQUARE: f64 = 24.0;
const GAP: f64 = 18.0;

/// A finding in the plausible set.
#[derive(Clone, Debug, PartialEq)]
pub struct DependenceRow {
    /// Its id.
    pub name: String,
    /// Share of the points in which it holds.
    pub holds: f64,
    /// Share in which it holds partly.
    pub partly: f64,
    /// For each setting, the share of the variance that it explains.
    pub explained: Vec<f64>,
}

/// The matrix as a standalone SVG.
pub fn dependence_figure(settings: &[&str], rows: &[DependenceRow]) -> String {
    let widest = |texts: &mut dyn Iterator<Item = &str>| texts.map(text_width).fold(0.0, f64::max);
    let left = 1.15 * widest(&mut rows.iter().map(|row| &*row.name)) + 16.0;
    let top = widest(&mut settings.iter().copied()) + 30.0;
    let squares = left + BAR + GAP;
    let bottom = top + SQUARE * rows.len() as f64;
    let mut svg = Svg::default();
    svg.text("axis strong", (left, 16.0), "share of points");
    svg.rect("c0 mark", left, top - 34.0, 10.0, 10.0);
    svg.text("note", (left + 15.0, top - 25.0), "holds");
    svg.rect("c0 box", left + 60.0, top - 34.0, 10.0, 10.0);
    svg.text("note", (left + 75.0, top - 25.0), "holds partly");
    svg.text("axis strong", (squares, 16.0), "depends on");
    for (column, name) in settings.iter().enumerate() {
        let x = squares + (column as f64 + 0.5) * SQUARE + 4.0;
        svg.text_upwards("note", (x, top - 6.0), name);
    }
    for (line, row) in rows.iter().enumerate() {
        let y = top + line as f64 * SQUARE;
        let told = format!(
            "{}: holds at {:.0} % of the points, partly at {:.0} %",
            row.name,
            row.holds * 100.0,
            row.partly * 100.0
        );
        svg.with_title(&told, |svg| {
            svg.text("tick end", (left - 8.0, y + 16.0), &row.name);
            svg.rect("heat-back", left, y + 4.0, BAR, SQUARE - 8.0);
            let (holds, partly) = (row.holds * BAR, row.partly * BAR);
            svg.rect("c0 mark", left, y + 4.0, holds, SQUARE - 8.0);
            svg.rect("c0 box", left + holds, y + 4.0, partly, SQUARE - 8.0);
        });
        for (column, explained) in row.explained.iter().enumerate() {
            let x = squares + column as f64 * SQUARE;
            let name = settings.get(column).copied().unwrap_or_default();
            let told = format!("{}: {name} explains {:.0} %", row.name, explained * 100.0);
            svg.with_title(&told, |svg| {
                let (inner, size) = ((x + 1.0, y + 1.0), SQUARE - 2.0);
                svg.rect("heat-back", inner.0, inner.1, size, size);
                svg.rect_faint("heat-less", inner, (size, size), explained.clamp(0.0, 1.0));
            });
        }
    }
    let width = squares + SQUARE * settings.len() as f64 + 12.0;
    super::standalone(&svg.finish(width, bottom + 12.0, "Findings against open settings"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_has_a_bar_and_a_square_for_each_setting() {
        let row = |name: &str, holds| DependenceRow {
            name: name.to_owned(),
            holds,
            partly: 0.25,
            explained: vec![0.5, 0.0, 1.0],
        };
        let rows = [row("study-01", 0.5), row("study-02", 0.0)];
        let svg = dependence_figure(&["service", "queue", "copies"], &rows);
        for text in [
            "study-01: holds at 50 % of the points, partly at 25 %",
            "study-02: copies explains 100 %",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert_eq!(svg.matches("explains").count(), 6);
    }
}
