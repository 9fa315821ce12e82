//! Shapes of networks, and the positions of nodes.

use carob_sim::mesh::spec::{Position, Shape, TopologySpec};

use super::links::{self, MeasuredLinks};
use crate::scenario::cell::Cell;
use crate::scenario::error::ScenarioError;
use crate::scenario::impossible;

/// Nodes of the shape `chain` (Betzler et al. 2015, section 4.1).
const CHAIN: u16 = 17;

keys! {
    /// Keys of topologies.
    pub(in crate::scenario) KEYS;

    TopologySpec {
        _: "mesh.topology", Text, "6x6",
            "Shape of the network: `chain` (17 nodes) or `chain-<n>`, `dumbbell` (two grids of 3x3, joined by 3 nodes), `<columns>x<rows>`, look-alikes of testbeds: `pint` (22 nodes), `wilab` (26), `iotlab` (60), and the first two with the hops and links of the measured ones, `pint-by-data` and `wilab-by-data`; their measured links: `pint-measured`, `wilab-measured`; those of an office (34) and a marina (23): `evalab-measured`, `marina-measured`; or `links`, those of `mesh.links`.";
        _: "mesh.root", Text, "usual",
            "Where RPL's root is: the shape's `usual` place, `corner`, `opposite-corner`, `centre`, or a node's number.";
        _: "mesh.sink", Text, "usual",
            "Node of the primary sink, or `root`.";
        _: "mesh.second_sink", Text, "usual",
            "Node of the secondary sink.";
        outside: "mesh.outside", TimeOrNone, "none",
            "If set, the sink is a host beyond the root, with this delay each way.";
        _: "mesh.root_deaf", TimeOrNone, "none",
            "Time for which the root receives nothing after each frame addressed to it, as a border router does while it writes the packet to a serial line.";
        edge_mm: "mesh.edge", Length, "10 m",
            "Distance between neighbours in regular shapes.";
        layout_seed: "mesh.layout_seed", Whole(0, u64::MAX >> 1), "0",
            "Seed of generated shapes, which are the same in every run.";
    }
}

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
        root_deaf: cell.get::<Option<_>>("mesh.root_deaf")?.unwrap_or_default(),
        ..cell.fields()?
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
