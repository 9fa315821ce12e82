//! Shapes of networks, and the positions of nodes.

use carob_sim::mesh::spec::{Position, Shape, TopologySpec};

use super::links::{self, MeasuredLinks};
use crate::scenario::cell::Cell;
use crate::scenario::error::ScenarioError;
use crate::scenario::impossible;

/// Nodes of the shape `chain` (Betzler et al. 2015, section 4.1).
const CHAIN: u16 = 17;

pub(super) fn of(cell: &Cell) -> Result<TopologySpec, ScenarioError> {
    let path = "mesh.topology";
    let text = cell.text(path)?;
    let measured = links::of(cell)?;
    let named = measured
        .as_ref()
        .map(|measured| Shape::Links(measured.graph.clone()));
    let shape = named.or_else(|| shape(text)).ok_or_else(|| {
        let why = format!(
            "{path} = \"{text}\": expected chain, chain-<nodes>, dumbbell, <columns>x<rows>, pint, wilab, pint-by-data, wilab-by-data, iotlab, pint-measured, wilab-measured, evalab-measured, marina-measured or links"
        );
        impossible(cell.place(path), why)
    })?;
    let measured = measured.as_ref();
    Ok(TopologySpec {
        shape,
        root: position(cell, "mesh.root", measured)?,
        sink: position(cell, "mesh.sink", measured)?,
        second_sink: position(cell, "mesh.second_sink", measured)?,
        outside: cell.time_or_none("mesh.outside")?,
        root_deaf: cell.time_or_none("mesh.root_deaf")?.unwrap_or_default(),
        edge_mm: cell.millimetres("mesh.edge")?,
        layout_seed: cell.whole("mesh.layout_seed")?,
    })
}

fn shape(text: &str) -> Option<Shape> {
    Some(match text {
        "chain" => Shape::Chain(CHAIN),
        "dumbbell" => Shape::Dumbbell,
        "pint" => Shape::Pint,
        "wilab" => Shape::Wilab,
        "pint-by-data" => Shape::PintByData,
        "wilab-by-data" => Shape::WilabByData,
        "iotlab" => Shape::IotLab,
        _ => match (text.strip_prefix("chain-"), text.split_once('x')) {
            (Some(nodes), _) => Shape::Chain(nodes.parse().ok()?),
            (None, Some((columns, rows))) => Shape::Grid(columns.parse().ok()?, rows.parse().ok()?),
            (None, None) => return None,
        },
    })
}

/// A position. With measured links, numbers are the nodes in the CSV.
fn position(
    cell: &Cell,
    path: &str,
    measured: Option<&MeasuredLinks>,
) -> Result<Position, ScenarioError> {
    let text = cell.text(path)?;
    Ok(match text {
        "usual" => Position::Usual,
        "root" if path != "mesh.root" => Position::Root,
        "corner" => Position::Corner,
        "opposite-corner" => Position::OppositeCorner,
        "centre" => Position::Centre,
        _ => Position::Node(links::node(measured, text).ok_or_else(|| {
            let why = format!(
                "{path} = \"{text}\": expected usual, root (of sinks), corner, opposite-corner, centre or the number of a node"
            );
            impossible(cell.place(path), why)
        })?),
    })
}
