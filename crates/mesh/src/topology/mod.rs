//! Topologies: positions, links and roles of the nodes of a network.
//!
//! Regular shapes (`regular.rs`) are exact; their links follow from the medium's ranges. Synthetic
//! testbeds (`synthetic_testbed.rs`) are drawn from a seed, with a table of links
//! (`propagation.rs`). Graphs of links, such as measured ones, are given (`link_graph.rs`).
//!
//! A node's region selects its external interference. Regular shapes are cut into squares of three
//! by three nodes; buildings by floor and stretch of corridor.

mod link_graph;
pub mod paths;
mod propagation;
mod regular;
mod synthetic_testbed;

use std::fmt;

use carob_sim_core::random::Probability;

pub use super::spec::TableLink;

use super::spec::{Delivery, Position, RadioSpec, Shape, TopologySpec};
use super::{NODES_MAX, Node};

pub(crate) use propagation::margin_of;

/// The longest distance between neighbours of regular shapes, in millimetres. The coordinates of
/// the largest network with it fit 31 bits.
pub const EDGE_MAX_MM: u32 = 500_000;

/// A position in millimetres: along, across, up.
pub type Place = (i32, i32, i32);

/// The nodes of a network and their roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// By node.
    pub positions: Vec<Place>,
    /// Interference region of each node, numbered from 0 without gaps.
    pub regions: Vec<u8>,
    /// Links of shapes that define them, sorted by sender and receiver.
    pub table: Option<Vec<TableLink>>,
    /// The root of RPL, and the border router.
    pub root: Node,
    /// The primary sink; of the dumbbell's two, the one that its position names.
    pub sink: Node,
    /// The secondary sink; of the dumbbell's two, the one that its position names.
    pub second_sink: Node,
    /// Nodes that generate messages, in order: all but the root and the primary sinks.
    pub generators: Vec<Node>,
    /// The primary sink of each node.
    sinks: Vec<Node>,
    /// The secondary sink of each node.
    second_sinks: Vec<Node>,
}

/// An invalid topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopologyError {
    /// A shape without nodes, or of more than [`NODES_MAX`].
    Nodes(u32),
    /// A position names an unknown node.
    NoSuchNode {
        /// The named node.
        node: Node,
        /// The number of nodes, numbered from 0.
        nodes: usize,
    },
    /// Nodes of regular shapes at no distance, or beyond [`EDGE_MAX_MM`].
    Edge(u32),
    /// No nodes but the root and the primary sinks.
    NoGenerator,
    /// The sink is outside the mesh, and also a node of it other than the root.
    Outside,
    /// No layout of this seed matches the testbed's description.
    Seed(u64),
    /// The delivery model needs a table of links, but the shape has none.
    NoTable,
    /// This node has no route to the root of any length.
    Apart(Node),
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nodes(n) => write!(f, "{n} nodes; a network has 1 to {NODES_MAX}"),
            Self::NoSuchNode { node, nodes } => write!(
                f,
                "there is no node {node}: the network's nodes are 0 to {}",
                nodes.saturating_sub(1)
            ),
            Self::Edge(mm) => write!(
                f,
                "{mm} mm between neighbours; it is 1 to {EDGE_MAX_MM} mm"
            ),
            Self::NoGenerator => f.write_str(
                "no node is left to make messages beside the root and the sink: take more nodes, or one node as both",
            ),
            Self::Outside => f.write_str(
                "the sink is a host beyond the root, so its position in the network can only be the root's",
            ),
            Self::Seed(seed) => write!(
                f,
                "no layout of seed {seed} is like the testbed; take another seed"
            ),
            Self::NoTable => f.write_str(
                "links cannot have the ratios of a table: only look-alikes of testbeds have one",
            ),
            Self::Apart(node) => write!(
                f,
                "node {node} has no way to the root: the radio's range is too short for this shape"
            ),
        }
    }
}

impl std::error::Error for TopologyError {}

/// A shape's nodes and its particular positions.
struct Layout {
    positions: Vec<Place>,
    regions: Vec<u8>,
    table: Option<Vec<TableLink>>,
    root: Node,
    /// Its primary sink; none for the root.
    sink: Option<Node>,
    /// The corresponding node on the other side, of shapes with two sides.
    mirror: Option<fn(Node) -> Node>,
}

impl Topology {
    /// Builds a topology.
    ///
    /// By default the secondary sink is beside the root: the nearest node, the lowest number among
    /// equals, that is neither root nor primary sink. The dumbbell has two of each sink, one a
    /// mirror image of the other: nodes send to the primary sink of the other side and to the
    /// secondary of this side. Its bar belongs half to each side, its middle to the first.
    pub fn new(spec: &TopologySpec) -> Result<Self, TopologyError> {
        let layout = Layout::new(spec)?;
        let places = &layout.positions;
        let root = match spec.root {
            Position::Usual | Position::Root => layout.root,
            other => find(other, places, layout.root)?,
        };
        let sink = match (spec.sink, spec.outside) {
            (Position::Usual, Some(_)) => root,
            (Position::Usual, None) => layout.sink.unwrap_or(root),
            (other, _) => find(other, places, root)?,
        };
        if spec.outside.is_some() && sink != root {
            return Err(TopologyError::Outside);
        }
        let mirror = match spec.outside {
            Some(_) => None,
            None => layout.mirror,
        };
        let other_sink = mirror.map_or(sink, |mirror| mirror(sink));
        let second_sink = match spec.second_sink {
            Position::Usual => {
                let taken = [root, sink, other_sink];
                let free = (0..places.len() as Node).filter(|node| !taken.contains(node));
                free.min_by_key(|node| squared(places[*node as usize], places[root as usize]))
                    .unwrap_or(sink)
            }
            other => find(other, places, root)?,
        };

        let nodes = 0..places.len() as Node;
        let generators: Vec<Node> = nodes
            .clone()
            .filter(|node| ![root, sink, other_sink].contains(node))
            .collect();
        if generators.is_empty() {
            return Err(TopologyError::NoGenerator);
        }
        let sinks = nodes.clone().map(|node| match mirror {
            Some(mirror) if is_second_side(node) == is_second_side(sink) => mirror(sink),
            _ => sink,
        });
        let second_sinks = nodes.map(|node| match layout.mirror {
            Some(mirror) if is_second_side(node) != is_second_side(second_sink) => {
                mirror(second_sink)
            }
            _ => second_sink,
        });
        Ok(Self {
            sinks: sinks.collect(),
            second_sinks: second_sinks.collect(),
            positions: layout.positions,
            regions: layout.regions,
            table: layout.table,
            root,
            sink,
            second_sink,
            generators,
        })
    }

    /// The number of nodes.
    pub fn nodes(&self) -> usize {
        self.positions.len()
    }

    /// The primary sink of a node; the common one for an unknown node.
    pub fn sink_of(&self, node: Node) -> Node {
        *self.sinks.get(node as usize).unwrap_or(&self.sink)
    }

    /// The secondary sink of a node; itself if it is one.
    pub fn second_sink_of(&self, node: Node) -> Node {
        let sink = self.second_sinks.get(node as usize);
        *sink.unwrap_or(&self.second_sink)
    }

    /// Returns whether a node is a primary sink.
    pub fn is_sink(&self, node: Node) -> bool {
        self.sinks.contains(&node)
    }

    /// Checks that every node can reach the root with these radios, if only after many attempts.
    pub fn check(&self, radio: &RadioSpec) -> Result<(), TopologyError> {
        let hops = match (&radio.delivery, &self.table) {
            (Delivery::Table, None) => return Err(TopologyError::NoTable),
            (Delivery::Table, Some(table)) => {
                let hears = |link: &&TableLink| link.delivery > Probability::NEVER;
                paths::by_table(self.nodes(), table.iter().filter(hears), self.root)
            }
            _ => paths::by_range(&self.positions, radio.range_mm, self.root),
        };
        match hops.iter().position(Option::is_none) {
            Some(node) => Err(TopologyError::Apart(node as Node)),
            None => Ok(()),
        }
    }
}

impl Layout {
    fn new(spec: &TopologySpec) -> Result<Self, TopologyError> {
        let edge = spec.edge_mm;
        let seed = spec.layout_seed;
        match &spec.shape {
            Shape::Chain(nodes) => regular::chain(*nodes, edge),
            Shape::Grid(columns, rows) => regular::grid(*columns, *rows, edge),
            Shape::Dumbbell => regular::dumbbell(edge),
            Shape::Pint => synthetic_testbed::PINT.layout(seed),
            Shape::Wilab => synthetic_testbed::WILAB.layout(seed),
            Shape::PintByData => synthetic_testbed::PINT_BY_DATA.layout(seed),
            Shape::WilabByData => synthetic_testbed::WILAB_BY_DATA.layout(seed),
            Shape::IotLab => synthetic_testbed::IOT_LAB.layout(seed),
            Shape::Links(graph) => link_graph::layout(graph),
        }
    }
}

/// Returns whether a node of the dumbbell belongs to its second side.
fn is_second_side(node: Node) -> bool {
    node >= regular::SECOND_SIDE
}

/// The node at a position. Corners are the nodes nearest to and farthest from the least
/// coordinates, by their sum.
fn find(position: Position, places: &[Place], root: Node) -> Result<Node, TopologyError> {
    let nodes = 0..places.len() as Node;
    let sum = |node: &Node| {
        let (x, y, z) = places[*node as usize];
        i64::from(x) + i64::from(y) + i64::from(z)
    };
    let found = match position {
        Position::Usual | Position::Root => Some(root),
        Position::Corner => nodes.min_by_key(sum),
        // The highest number among equals.
        Position::OppositeCorner => nodes.max_by_key(sum),
        Position::Centre => {
            let middle = middle(places);
            nodes.min_by_key(|node| squared(places[*node as usize], middle))
        }
        Position::Node(node) => Some(node).filter(|node| usize::from(*node) < places.len()),
    };
    let nodes = places.len();
    found.ok_or(match position {
        Position::Node(node) => TopologyError::NoSuchNode { node, nodes },
        _ => TopologyError::Nodes(0),
    })
}

/// The middle of the bounding box, rounded towards zero.
fn middle(places: &[Place]) -> Place {
    let middle = |coordinate: fn(&Place) -> i32| {
        let all = places.iter().map(coordinate);
        let low = all.clone().min().unwrap_or(0);
        let high = all.max().unwrap_or(0);
        low.midpoint(high)
    };
    (
        middle(|place| place.0),
        middle(|place| place.1),
        middle(|place| place.2),
    )
}

/// The squared distance between two positions in mm^2.
pub fn squared(a: Place, b: Place) -> u64 {
    let part = |a: i32, b: i32| u64::from(a.abs_diff(b)).pow(2);
    // Saturating: the sum of three squares of 32 bits exceeds 64 bits.
    let level = part(a.0, b.0).saturating_add(part(a.1, b.1));
    level.saturating_add(part(a.2, b.2))
}

#[cfg(test)]
mod tests;
