//! Findings against open settings: where each finding holds, and the settings that it depends on.

use super::chart::{Axis, Chart, Direction, Layer, Panel, Part};
use super::picture::Picture;

/// Width of a row's bar, and side of a square.
const BAR: f64 = 130.0;
const SQUARE: f64 = 24.0;

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

/// The matrix in both layouts.
pub fn dependence_figure(settings: &[&str], rows: &[DependenceRow]) -> Picture {
    let [mut holds, mut partly, mut explains] = ["holds", "holds partly", ""].map(Layer::new);
    let rect = |class: &str, from, to| Part::Rect(class.to_owned(), from, to, None);
    for (y, row) in (0..).map(f64::from).zip(rows) {
        let tip = format!(
            "{}: holds at {:.0} % of the points, partly at {:.0} %",
            row.name,
            row.holds * 100.0,
            row.partly * 100.0
        );
        let bar =
            |class: &str, from: f64, to: f64| vec![rect(class, (from, y + 0.17), (to, y + 0.83))];
        let both = row.holds + row.partly;
        holds = holds.item(&tip, bar("c0 mark", 0.0, row.holds));
        partly = partly.item(&tip, bar("c0 box", row.holds, both));
        for ((x, explained), name) in (0..).map(f64::from).zip(&row.explained).zip(settings) {
            let (from, to) = ((x + 0.04, y + 0.04), (x + 0.96, y + 0.96));
            let strength = Some(explained.clamp(0.0, 1.0));
            let tip = format!("{}: {name} explains {:.0} %", row.name, explained * 100.0);
            let square = Part::Rect("heat-less".to_owned(), from, to, strength);
            explains = explains.item(&tip, vec![rect("heat-back", from, to), square]);
        }
    }
    let lines = |texts: Vec<String>| Axis::categories("", texts).turned();
    let names = rows.iter().map(|row| row.name.clone()).collect();
    let share = Panel {
        title: "share of points".to_owned(),
        x: Axis::given("", (0.0, 1.0), Vec::new()).above(Direction::Upwards),
        y: lines(names),
        layers: vec![holds, partly],
        ..Panel::default()
    };
    let settings_axis = settings.iter().map(|name| (*name).to_owned());
    let depends = Panel {
        title: "depends on".to_owned(),
        x: Axis::categories("", settings_axis).above(Direction::Upwards),
        y: lines(vec![String::new(); rows.len()]),
        layers: vec![explains],
        ..Panel::default()
    };
    let chart = Chart {
        label: "Findings against open settings".to_owned(),
        columns: 2,
        height: SQUARE * rows.len() as f64,
        widths: vec![BAR, SQUARE * settings.len() as f64],
        right: 12.0,
        panels: vec![share, depends],
        ..Chart::default()
    };
    chart.picture()
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
        let svg = dependence_figure(&["service", "queue", "copies"], &rows).0;
        for text in [
            "study-01: holds at 50 % of the points, partly at 25 %",
            "study-02: copies explains 100 %",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert_eq!(svg.matches("explains").count(), 6);
    }
}
