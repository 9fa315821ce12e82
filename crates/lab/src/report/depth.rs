//! Depth and density of a wireless network: hops to the root and neighbours of each node.

use carob_sim::mesh::record::NodeRecord;

use super::frame::{Frame, WIDTH, left_margin};
use super::scale::{Mapping, Scale};
use super::svg::Svg;
use crate::run::{Outcome, Row};

const AREA: f64 = 130.0;
const BETWEEN: f64 = 26.0;
const TOP: f64 = 20.0;
/// The most nodes whose bars can be distinguished.
const NODES_MAX: usize = 120;

/// A node's number in one run, if it has one.
type Number = fn(&NodeRecord) -> Option<f64>;

const PANELS: [(&str, Number, &str); 2] = [
    ("Hops to the root", |node| node.hops.map(f64::from), "c0"),
    ("Neighbours", |node| Some(f64::from(node.neighbours)), "c2"),
];

/// Bars of each node in the first cell: means of all runs, and from the least to the most.
pub(super) fn draw(outcome: &Outcome<'_>, rows: &[Row]) -> Option<String> {
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
    let mut svg = Svg::default();
    let mut bottom = TOP;
    for (row, (label, of, class)) in PANELS.into_iter().enumerate() {
        let numbers: Vec<Vec<f64>> = nodes
            .iter()
            .map(|runs| runs.iter().filter_map(of).collect())
            .collect();
        let high = numbers.iter().flatten().copied().fold(0.0, f64::max);
        let top = TOP + (AREA + BETWEEN) * row as f64;
        bottom = top + AREA;
        let y = Scale::new(Mapping::Linear, (0.0, high), 5, (bottom, top));
        let frame = Frame {
            left: left_margin(&y),
            right: WIDTH - 16.0,
            top,
            bottom,
        };
        frame.y_axis(&mut svg, &y, label);
        svg.line("rule", (frame.left, bottom), (frame.right, bottom));
        let step = frame.width() / nodes.len() as f64;
        for (node, numbers) in numbers.iter().enumerate() {
            let middle = frame.left + (node as f64 + 0.5) * step;
            if step >= 12.0 || node % 5 == 0 {
                svg.text("tick middle", (middle, bottom + 15.0), &node.to_string());
            }
            if numbers.is_empty() {
                continue;
            }
            let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
            let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
            let most = numbers.iter().copied().fold(0.0, f64::max);
            let title = format!(
                "node {node}: {mean:.1} {}, {low} to {most}",
                label.to_lowercase()
            );
            svg.with_title(&title, |svg| {
                let height = bottom - y.at(mean);
                let wide = (step * 0.64).min(22.0);
                svg.rect(
                    &format!("box {class}"),
                    middle - wide / 2.0,
                    y.at(mean),
                    wide,
                    height,
                );
                if most > low {
                    svg.line(
                        &format!("whisker {class}"),
                        (middle, y.at(low)),
                        (middle, y.at(most)),
                    );
                }
            });
        }
    }
    let middle = WIDTH / 2.0;
    svg.text("axis middle", (middle, bottom + 36.0), "Node");
    Some(svg.finish(
        WIDTH,
        bottom + 48.0,
        &format!("Hops to the root and neighbours of each node of {cell}"),
    ))
}

#[cfg(test)]
mod tests {
    use carob_sim::engine;

    use super::*;
    use crate::run::{Plan, Selection};
    use crate::scenario::{Scenario, builtin};

    #[test]
    fn every_node_has_two_bars() {
        let (file, _) = builtin::find("rpl/pint-idle").expect("a scenario");
        let scenario = Scenario::read(file.name, file.text, &[]).expect("a valid one");
        let selection = Selection {
            seeds: Some(2),
            ..Selection::default()
        };
        let plan = Plan::new(&scenario, &selection).expect("a plan");
        let outcome = plan.execute(engine::run, |_, _| {}).expect("possible");
        let svg = draw(&outcome, &outcome.rows()).expect("a figure");
        assert_eq!(svg.matches("class=\"box").count(), 22 * 2, "{svg}");
        assert!(!svg.contains("NaN"));
    }
}
