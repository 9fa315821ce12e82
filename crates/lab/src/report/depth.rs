//! Depth and density of a wireless network: hops to the root and neighbours of each node.

use carob_sim::mesh::record::NodeRecord;

use super::chart::{Axis, Chart, Layer, Panel, Part, ROOM};
use super::page::FigureBlock;
use super::picture::Picture;
use super::scale::Mapping;
use crate::run::{Outcome, Row};

const AREA: f64 = 130.0;
/// The most nodes whose bars can be distinguished.
const NODES_MAX: usize = 120;

/// A node's number in one run, if it has one.
type Number = fn(&NodeRecord) -> Option<f64>;

const PANELS: [(&str, Number, &str); 2] = [
    ("Hops to the root", |node| node.hops.map(f64::from), "c0"),
    ("Neighbours", |node| Some(f64::from(node.neighbours)), "c2"),
];

/// Hops and neighbours of each node in the first cell.
pub(super) fn figure(outcome: &Outcome<'_>, rows: &[Row]) -> Option<FigureBlock> {
    let caption = "Hops to the root as runs of the first cell end, and nodes that hear at least every other \
                   frame: means of all runs, and from the least to the most.";
    let title = "Hops and neighbours.".to_owned();
    Some(FigureBlock::new(draw(outcome, rows)?, title, caption))
}

/// Bars of each node in the first cell: means of all runs, and from the least to the most.
fn draw(outcome: &Outcome<'_>, rows: &[Row]) -> Option<Picture> {
    let first = rows.first()?;
    let cell = first.cell_name();
    let mut nodes: Vec<Vec<NodeRecord>> = Vec::new();
    for (_, record) in outcome.of(cell, &first.algorithm) {
        let mesh = record.mesh.as_ref()?;
        nodes.resize(nodes.len().max(mesh.nodes.len()), Vec::new());
        for (all, node) in nodes.iter_mut().zip(&mesh.nodes) {
            all.push(node.clone());
        }
    }
    if nodes.is_empty() || nodes.len() > NODES_MAX {
        return None;
    }
    let every = if ROOM / nodes.len() as f64 >= 12.0 {
        1
    } else {
        5
    };
    let name = |node: usize| match node % every {
        0 => node.to_string(),
        _ => String::new(),
    };
    let panel = |(label, of, class): (&str, Number, &str)| {
        let numbers = nodes.iter();
        let numbers = numbers.map(|runs| runs.iter().filter_map(of).collect());
        let numbers: Vec<Vec<f64>> = numbers.collect();
        let high = numbers.iter().flatten().copied().fold(0.0, f64::max);
        let mut bars = Layer::new("");
        for (node, numbers) in numbers
            .iter()
            .enumerate()
            .filter(|(_, all)| !all.is_empty())
        {
            let middle = node as f64 + 0.5;
            let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
            let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
            let most = numbers.iter().copied().fold(0.0, f64::max);
            let (from, to) = ((middle - 0.32, 0.0), (middle + 0.32, mean));
            let mut parts = vec![Part::Rect(format!("box {class}"), from, to, None)];
            if most > low {
                let class = format!("whisker {class}");
                parts.push(Part::span(&class, (middle, low), (middle, most)));
            }
            let what = label.to_lowercase();
            bars = bars.item(
                &format!("node {node}: {mean:.1} {what}, {low} to {most}"),
                parts,
            );
        }
        Panel {
            x: Axis::categories("", (0..nodes.len()).map(name)),
            y: Axis::new(label, Mapping::Linear, (0.0, high), 5),
            layers: vec![bars],
            ..Panel::default()
        }
    };
    let chart = Chart {
        label: format!("Hops to the root and neighbours of each node of {cell}"),
        height: AREA,
        right: 16.0,
        x_label: "Node".to_owned(),
        panels: PANELS.into_iter().map(panel).collect(),
        ..Chart::default()
    };
    Some(chart.picture())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::simulated;

    #[test]
    fn every_node_has_two_bars() {
        let outcome = simulated("rpl/pint-idle", &[], 2);
        let svg = draw(&outcome, &outcome.rows()).expect("a figure").0;
        assert_eq!(svg.matches("class=\"box").count(), 22 * 2, "{svg}");
        assert!(!svg.contains("NaN"));
    }
}
