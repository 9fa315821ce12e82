//! Depth and density of a wireless network: hops to the root and neighbours of each node.

use carob_sim::mesh::record::NodeRecord;

use super::chart::{Axis, Chart, Layer, Panel, Part, ROOM};
use super::page::FigureBlock;
use crate::run::{Outcome, Row};
use crate::statistics::Statistics;

const AREA: f64 = 130.0;
/// The most nodes whose bars can be distinguished.
const NODES_MAX: usize = 120;

/// A node's number in one run, if it has one.
type Number = fn(&NodeRecord) -> Option<f64>;

const PANELS: [(&str, Number, &str); 2] = [
    ("Hops to the root", |node| node.hops.map(f64::from), "c0"),
    ("Neighbours", |node| Some(f64::from(node.neighbours)), "c2"),
];

/// Bars of each node in the first cell: means of all runs, and from the least to the most.
pub(super) fn figure(outcome: &Outcome<'_>, rows: &[Row]) -> Option<FigureBlock> {
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
    let panels = PANELS.into_iter().map(|shown| panel(&nodes, shown));
    let label = format!("Hops to the root and neighbours of each node of {cell}");
    let chart = Chart::grid(&label, 1, AREA, panels.collect()).below("Node");
    let caption = "Hops to the root as runs of the first cell end, and nodes that hear at least every other \
                   frame: means of all runs, and from the least to the most.";
    let title = "Hops and neighbours.".to_owned();
    Some(FigureBlock::new(chart.picture(), title, caption))
}

fn panel(nodes: &[Vec<NodeRecord>], (label, of, class): (&str, Number, &str)) -> Panel {
    let is_wide = ROOM / nodes.len() as f64 >= 12.0;
    let name = |node: usize| match node % if is_wide { 1 } else { 5 } {
        0 => node.to_string(),
        _ => String::new(),
    };
    let mut bars = Layer::new("");
    for (node, runs) in nodes.iter().enumerate() {
        let numbers = runs.iter().filter_map(of).collect::<Vec<f64>>();
        let Some(all) = Statistics::of(&numbers) else {
            continue;
        };
        let (x, what) = (node as f64 + 0.5, label.to_lowercase());
        let (from, to) = ((x - 0.32, 0.0), (x + 0.32, all.mean));
        let mut parts = vec![Part::rect(&format!("box {class}"), from, to)];
        if all.max > all.min {
            parts.push(Part::span(
                &format!("whisker {class}"),
                (x, all.min),
                (x, all.max),
            ));
        }
        let tip = format!(
            "node {node}: {:.1} {what}, {} to {}",
            all.mean, all.min, all.max
        );
        bars.add(&tip, parts);
    }
    let x = Axis::categories((0..nodes.len()).map(name));
    Panel::new(x, Axis::linear(label, 5).with(0.0), vec![bars])
}
