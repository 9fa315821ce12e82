//! Matrices of squares: fairness of every pair of algorithms on a shared link, and findings against open settings.

use super::chart::{At, Axis, Chart, Direction, Layer, Panel, Part};
use super::page::FigureBlock;
use super::resolved::Picture;
use crate::metrics;
use crate::run::Row;
use crate::summary::distinct;

/// Side of the square of a pair in pixels.
const PAIR: f64 = 62.0;
/// A rate four times as high or as low has the strongest colour.
const STRONGEST: f64 = 4.0;
/// Width of a finding's bar, and side of its squares.
const BAR: f64 = 130.0;
const SQUARE: f64 = 24.0;

/// The square of a column and a line with a class of this strength on a ground, a pixel from its neighbours.
fn square((x, y): At, side: f64, class: &str, strength: f64) -> Vec<Part> {
    let (begin, end) = (1.0 / side, 1.0 - 1.0 / side);
    let (from, to) = ((x + begin, y + begin), (x + end, y + end));
    vec![
        Part::rect("heat-back", from, to),
        Part::faint(class, from, to, strength.clamp(0.0, 1.0)),
    ]
}

fn lines<'a>(names: impl IntoIterator<Item = &'a str>) -> Axis {
    Axis::categories("", names.into_iter().map(str::to_owned)).turned()
}

fn columns<'a>(label: &str, names: impl IntoIterator<Item = &'a str>, to: Direction) -> Axis {
    Axis::categories(label, names.into_iter().map(str::to_owned)).above(to)
}

/// Two panels beside each other, with their widths.
fn chart(label: &str, height: f64, widths: [f64; 2], panels: [Panel; 2]) -> Picture {
    let chart = Chart {
        widths: widths.into(),
        right: 12.0,
        ..Chart::grid(label, 2, height, panels.into())
    };
    chart.picture()
}

/// Result of one pair.
struct Pair<'a> {
    first: &'a str,
    second: &'a str,
    /// Median goodput of a client of the first kind, in bit/s.
    rate: f64,
    /// Jain's index of what all clients received; the median.
    jain: f64,
}

fn pair(row: &Row) -> Option<Pair<'_>> {
    Some(Pair {
        first: row.cell.get("first")?.as_str()?,
        second: row.cell.get("second")?.as_str()?,
        rate: row.metrics.get(metrics::RECEIVED_BPS.name)?.p50,
        jain: row.metrics.get(metrics::JAIN_RECEIVED.name)?.p50,
    })
}

/// A colour class and how strong it is: more than its own kind leaves it, or less.
fn colour(ratio: f64) -> (&'static str, f64) {
    let strength = (ratio.max(1e-9).ln() / STRONGEST.ln()).clamp(-1.0, 1.0);
    let is_less = strength < 0.0;
    let class = if is_less { "heat-less" } else { "heat-more" };
    (class, strength.abs())
}

/// A number short enough for a square.
fn brief(value: f64) -> String {
    match value {
        10.0.. => format!("{value:.0}"),
        0.1.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Every pair of the algorithms that meet themselves, too; nothing if there are none.
pub(super) fn pairs(rows: &[Row]) -> Option<FigureBlock> {
    let pairs: Vec<Pair<'_>> = rows.iter().filter_map(pair).collect();
    let own = |name: &str| {
        let mut own = pairs.iter().filter(|p| p.first == name && p.second == name);
        own.next().map_or(0.0, |pair| pair.rate)
    };
    let mut names = distinct(pairs.iter().map(|pair| pair.first));
    names.retain(|name| own(name) > 0.0);
    if names.len() < 2 {
        return None;
    }
    let place = |name: &str| Some(names.iter().position(|known| *known == name)? as f64);
    let panel = |title: &str, is_index: bool| {
        let mut squares = Layer::new("");
        for pair in &pairs {
            let (Some(line), Some(column)) = (place(pair.first), place(pair.second)) else {
                continue;
            };
            let among = own(pair.first);
            let ratio = pair.rate / among;
            let (class, strength, text) = if is_index {
                ("heat-jain", pair.jain, format!("{:.2}", pair.jain))
            } else {
                let (class, strength) = colour(ratio);
                (class, strength, brief(ratio))
            };
            let tip = format!(
                "{} beside {}: {:.2} kbit/s a client, {:.2} among its own kind; Jain's index {:.3}",
                pair.first,
                pair.second,
                pair.rate / 1e3,
                among / 1e3,
                pair.jain
            );
            let mut parts = square((column, line), PAIR, class, strength);
            parts.push(Part::text(
                "strong middle",
                (column + 0.5, line + 0.5),
                text,
            ));
            squares.add(&tip, parts);
        }
        let x = columns("beside so many of", names.iter().copied(), Direction::Level);
        Panel::new(x, lines(names.iter().copied()), vec![squares]).titled(title)
    };
    let panels = [
        panel("received, over that among its own kind", false),
        panel("Jain's index of all clients", true),
    ];
    let side = PAIR * names.len() as f64;
    let title = "Pairs of algorithms on a shared link";
    let caption = "Left: what a client of a line's algorithm receives beside clients of a column's, \
                   over what it receives where all have its own (blue: more, orange: less, strongest \
                   at four times). Right: Jain's index of what all clients of a run receive. Medians.";
    let picture = chart(title, side, [side, side], panels);
    Some(FigureBlock::new(picture, title.to_owned(), caption))
}

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

/// Findings against open settings: where each finding holds, and the settings that it depends on.
pub fn dependence_figure(settings: &[&str], rows: &[DependenceRow]) -> Picture {
    let [mut holds, mut partly, mut explains] = ["holds", "holds partly", ""].map(Layer::new);
    for (y, row) in (0..).map(f64::from).zip(rows) {
        let tip = format!(
            "{}: holds at {:.0} % of the points, partly at {:.0} %",
            row.name,
            row.holds * 100.0,
            row.partly * 100.0
        );
        let bar = |class, from, to| vec![Part::rect(class, (from, y + 0.17), (to, y + 0.83))];
        holds.add(&tip, bar("c0 mark", 0.0, row.holds));
        partly.add(&tip, bar("c0 box", row.holds, row.holds + row.partly));
        for ((x, explained), name) in (0..).map(f64::from).zip(&row.explained).zip(settings) {
            let tip = format!("{}: {name} explains {:.0} %", row.name, explained * 100.0);
            explains.add(&tip, square((x, y), SQUARE, "heat-less", *explained));
        }
    }
    let share = Axis::given("", (0.0, 1.0), Vec::new()).above(Direction::Upwards);
    let names = lines(rows.iter().map(|row| row.name.as_str()));
    let panels = [
        Panel::new(share, names, vec![holds, partly]).titled("share of points"),
        Panel::new(
            columns("", settings.iter().copied(), Direction::Upwards),
            lines(rows.iter().map(|_| "")),
            vec![explains],
        )
        .titled("depends on"),
    ];
    let widths = [BAR, SQUARE * settings.len() as f64];
    let height = SQUARE * rows.len() as f64;
    chart("Findings against open settings", height, widths, panels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_say_more_or_less_and_how_much() {
        assert_eq!(colour(1.0), ("heat-more", 0.0));
        assert_eq!(colour(4.0), ("heat-more", 1.0));
        assert_eq!(colour(0.25), ("heat-less", 1.0));
        assert_eq!(colour(0.0), ("heat-less", 1.0));
        let (class, strength) = colour(0.5);
        assert!(class == "heat-less" && (strength - 0.5).abs() < 1e-9);
    }

    #[test]
    fn numbers_are_short() {
        let texts = [12.34, 1.264, 0.257, 0.0123].map(brief);
        assert_eq!(texts, ["12", "1.26", "0.26", "0.012"]);
    }

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
