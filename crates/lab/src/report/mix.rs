//! Fairness of every pair of algorithms on a shared link: a matrix as a heat map.

use super::svg::{Svg, text_width};
use crate::run::Row;

/// Side of a square in pixels.
const SQUARE: f64 = 62.0;
/// Between the two panels.
const GAP: f64 = 56.0;
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

fn pairs(rows: &[Row]) -> Vec<Pair<'_>> {
    let pair = |row| {
        let Row { cell, metrics, .. }: &Row = row;
        Some(Pair {
            first: cell.get("first")?.as_str()?,
            second: cell.get("second")?.as_str()?,
            rate: metrics.get("received_bps")?.p50,
            jain: metrics.get("jain_received")?.p50,
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

/// Every pair of the algorithms that meet themselves, too; nothing if there are none.
pub(super) fn draw(rows: &[Row]) -> Option<String> {
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
    let labels = names.iter().map(|name| text_width(name));
    let left = labels.fold(0.0, f64::max) + 34.0;
    let side = SQUARE * names.len() as f64;
    let top = 62.0;
    let mut svg = Svg::default();
    for (panel, title) in [
        "received, over that among its own kind",
        "Jain's index of all clients",
    ]
    .into_iter()
    .enumerate()
    {
        let x0 = left + panel as f64 * (side + GAP);
        svg.text("axis strong", (x0, 18.0), title);
        svg.text("axis middle", (x0 + side / 2.0, 38.0), "beside so many of");
        for (column, name) in names.iter().enumerate() {
            let x = x0 + (column as f64 + 0.5) * SQUARE;
            svg.text("note middle", (x, 56.0), name);
        }
        for (line, first) in names.iter().enumerate() {
            let y = top + line as f64 * SQUARE;
            if panel == 0 {
                svg.text("tick end", (x0 - 8.0, y + SQUARE / 2.0 + 4.0), first);
            }
            for (column, second) in names.iter().enumerate() {
                let met = |p: &&Pair<'_>| p.first == *first && p.second == *second;
                let Some(pair) = pairs.iter().find(met) else {
                    continue;
                };
                let among = own(first).map_or(1.0, |p| p.rate);
                let x = x0 + column as f64 * SQUARE;
                let (class, strength, value) = if panel == 0 {
                    let ratio = pair.rate / among;
                    let (class, strength) = colour(ratio);
                    (class, strength, brief(ratio))
                } else {
                    let index = pair.jain;
                    ("heat-jain", index.clamp(0.0, 1.0), format!("{index:.2}"))
                };
                let told = format!(
                    "{first} beside {second}: {:.2} kbit/s a client, {:.2} among its own kind; \
                     Jain's index {:.3}",
                    pair.rate / 1e3,
                    among / 1e3,
                    pair.jain
                );
                svg.with_title(&told, |svg| {
                    let (inner, size) = ((x + 1.0, y + 1.0), SQUARE - 2.0);
                    svg.rect("heat-back", inner.0, inner.1, size, size);
                    svg.rect_faint(class, inner, (size, size), strength);
                    let middle = (x + SQUARE / 2.0, y + SQUARE / 2.0 + 4.0);
                    svg.text("strong middle", middle, &value);
                });
            }
        }
    }
    let (width, height) = (left + 2.0 * side + GAP + 12.0, top + side + 12.0);
    Some(svg.finish(width, height, "Pairs of algorithms on a shared link"))
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
