//! Fairness of every pair of algorithms on a shared link: a matrix as a heat map.

use super::chart::{At, Axis, Chart, Direction, Layer, Panel, Part};
use super::page::FigureBlock;
use super::picture::Picture;
use crate::metrics;
use crate::run::Row;

/// Side of a square in pixels.
const SQUARE: f64 = 62.0;
/// A rate four times as high or as low has the strongest colour.
const STRONGEST: f64 = 4.0;

/// Result of one pair.
struct Pair<'a> {
    first: &'a str,
    second: &'a str,
    /// Median goodput of a client of the first kind, in bit/s.
    rate: f64,
    /// Jain's index of what all clients received; the median.
    jain: f64,
}

impl Pair<'_> {
    fn tip(&self, among: f64) -> String {
        format!(
            "{} beside {}: {:.2} kbit/s a client, {:.2} among its own kind; Jain's index {:.3}",
            self.first,
            self.second,
            self.rate / 1e3,
            among / 1e3,
            self.jain
        )
    }
}

fn pairs(rows: &[Row]) -> Vec<Pair<'_>> {
    let pair = |row| {
        let Row { cell, metrics, .. }: &Row = row;
        Some(Pair {
            first: cell.get("first")?.as_str()?,
            second: cell.get("second")?.as_str()?,
            rate: metrics.get(metrics::RECEIVED_BPS.name)?.p50,
            jain: metrics.get(metrics::JAIN_RECEIVED.name)?.p50,
        })
    };
    rows.iter().filter_map(pair).collect()
}

/// A colour class and how strong it is: more than its own kind leaves it, or less.
fn colour(ratio: f64) -> (&'static str, f64) {
    let strength = (ratio.max(1e-9).ln() / STRONGEST.ln()).clamp(-1.0, 1.0);
    let class = if strength < 0.0 {
        "heat-less"
    } else {
        "heat-more"
    };
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

/// The heat map; nothing without pairs.
pub(super) fn figure(rows: &[Row]) -> Option<FigureBlock> {
    let caption = "Left: what a client of a line's algorithm receives beside clients of a column's, \
                   over what it receives where all have its own (blue: more, orange: less, strongest \
                   at four times). Right: Jain's index of what all clients of a run receive. Medians.";
    let title = "Pairs of algorithms on a shared link".to_owned();
    Some(FigureBlock::new(draw(rows)?, title, caption))
}

/// Every pair of the algorithms that meet themselves, too; nothing if there are none.
fn draw(rows: &[Row]) -> Option<Picture> {
    let pairs = pairs(rows);
    let own = |name: &str| pairs.iter().find(|p| p.first == name && p.second == name);
    let mut names: Vec<&str> = Vec::new();
    for pair in &pairs {
        if !names.contains(&pair.first) && own(pair.first).is_some_and(|p| p.rate > 0.0) {
            names.push(pair.first);
        }
    }
    if names.len() < 2 {
        return None;
    }
    let side = SQUARE * names.len() as f64;
    let panel = |(title, is_index): (&str, bool)| {
        let mut cells = Layer::new("");
        for (line, first) in names.iter().enumerate() {
            let among = own(first).map_or(1.0, |p| p.rate);
            for (column, second) in names.iter().enumerate() {
                let met = |p: &&Pair<'_>| p.first == *first && p.second == *second;
                if let Some(pair) = pairs.iter().find(met) {
                    let parts = cell((column as f64, line as f64), pair, among, is_index);
                    cells = cells.item(&pair.tip(among), parts);
                }
            }
        }
        let texts = || names.iter().map(|name| (*name).to_owned());
        Panel {
            title: title.to_owned(),
            x: Axis::categories("beside so many of", texts()).above(Direction::Level),
            y: Axis::categories("", texts()).turned(),
            layers: vec![cells],
            ..Panel::default()
        }
    };
    let panels = [
        ("received, over that among its own kind", false),
        ("Jain's index of all clients", true),
    ];
    let chart = Chart {
        label: "Pairs of algorithms on a shared link".to_owned(),
        columns: 2,
        height: side,
        widths: vec![side, side],
        right: 12.0,
        panels: panels.map(panel).into(),
        ..Chart::default()
    };
    Some(chart.picture())
}

/// The square of a pair, with its value.
fn cell((x, y): At, pair: &Pair<'_>, among: f64, is_index: bool) -> Vec<Part> {
    let (class, strength, value) = if is_index {
        let index = pair.jain;
        ("heat-jain", index.clamp(0.0, 1.0), format!("{index:.2}"))
    } else {
        let (class, strength) = colour(pair.rate / among);
        (class, strength, brief(pair.rate / among))
    };
    let (from, to) = ((x + 0.016, y + 0.016), (x + 0.984, y + 0.984));
    let middle = (x + 0.5, y + 0.5);
    vec![
        Part::Rect("heat-back".to_owned(), from, to, None),
        Part::Rect(class.to_owned(), from, to, Some(strength)),
        Part::Text("strong middle".to_owned(), middle, value, false),
    ]
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
}
