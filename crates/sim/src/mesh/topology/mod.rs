//! Where the nodes of a network are, which of them hear each other, and who does what.
//!
//! Regular shapes (`regular.rs`) are exact and leave to the medium who hears whom. Look-alikes of
//! testbeds (`lookalike.rs`) are drawn from a seed and bring a table of links (`propagation.rs`).
//!
//! A node's region says which noise from outside it meets. Regular shapes are cut into squares of
//! three by three nodes; buildings by floor and stretch of corridor.

mod lookalike;
pub mod paths;
mod propagation;
mod regular;

use std::fmt;

use super::spec::{Delivery, Position, RadioSpec, Shape, TopologySpec};
use super::{NODES_MAX, Node};
use crate::random::Probability;

/// The longest distance between neighbours of regular shapes, in millimetres. The largest network
/// with it has coordinates that fit 31 bits.
pub const EDGE_MAX_MM: u32 = 500_000;

/// Where a node is, in millimetres: along, across, up.
pub type Place = (i32, i32, i32);

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableLink {
    /// Who sends.
    pub from: Node,
    /// Who may hear it.
    pub to: Node,
    /// How likely a frame is to arrive where nothing else is on the air. Never: `to` notices the
    /// signal, and it spoils others, but nothing of it can be read.
    pub delivery: Probability,
}

/// A network's nodes before they do anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// By node.
    pub positions: Vec<Place>,
    /// Which noise from outside each node meets, from 0 on without gaps.
    pub regions: Vec<u8>,
    /// Of shapes that say by themselves who hears whom, sorted by sender and receiver.
    pub table: Option<Vec<TableLink>>,
    /// The root of RPL, and the router to what is outside.
    pub root: Node,
    /// The primary sink; of the dumbbell's two, the one that its position names.
    pub sink: Node,
    /// The secondary sink; of the dumbbell's two, the one that its position names.
    pub second_sink: Node,
    /// Nodes that make messages, in order: all but the root and the primary sinks.
    pub generators: Vec<Node>,
    /// The primary sink of each node.
    sinks: Vec<Node>,
    /// The secondary sink of each node.
    second_sinks: Vec<Node>,
}

/// Why there can be no such topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopologyError {
    /// A shape without nodes, or of more than [`NODES_MAX`].
    Nodes(u32),
    /// A position names a node that is not there.
    NoSuchNode {
        /// The one named.
        node: Node,
        /// How many there are, numbered from 0.
        nodes: usize,
    },
    /// Nodes of regular shapes at no distance, or beyond [`EDGE_MAX_MM`].
    Edge(u32),
    /// The root and the primary sinks are all there is.
    NoGenerator,
    /// The sink is outside the mesh, and also a node of it that is not the root.
    Outside,
    /// Nothing that this seed gives looks like the testbed.
    Seed(u64),
    /// Links are to have the ratios of a table, but the shape has none.
    NoTable,
    /// This node has no way to the root, over as many hops as it may take.
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

/// A shape's nodes, and what is particular about it.
struct Layout {
    positions: Vec<Place>,
    regions: Vec<u8>,
    table: Option<Vec<TableLink>>,
    root: Node,
    /// Where its primary sink is; none where the root is.
    sink: Option<Node>,
    /// The node at the same place on the other side, of shapes with two sides.
    mirror: Option<fn(Node) -> Node>,
}

impl Topology {
    /// The nodes of a network.
    ///
    /// The secondary sink is beside the root unless its position says otherwise: the nearest node,
    /// the lowest number among equals, that is neither root nor primary sink. The dumbbell has two
    /// of each sink, one a mirror image of the other: nodes send to the primary sink of the other
    /// side and to the secondary of their own. Its bar belongs half to each, its middle to the first.
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

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.positions.len()
    }

    /// The primary sink of a node; that of all if there is no such node.
    pub fn sink_of(&self, node: Node) -> Node {
        *self.sinks.get(node as usize).unwrap_or(&self.sink)
    }

    /// The secondary sink of a node; itself if it is one.
    pub fn second_sink_of(&self, node: Node) -> Node {
        let sink = self.second_sinks.get(node as usize);
        *sink.unwrap_or(&self.second_sink)
    }

    /// Whether a node is a primary sink.
    pub fn is_sink(&self, node: Node) -> bool {
        self.sinks.contains(&node)
    }

    /// Whether every node can reach the root with such radios, if only after many attempts.
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
        match spec.shape {
            Shape::Chain(nodes) => regular::chain(nodes, edge),
            Shape::Grid(columns, rows) => regular::grid(columns, rows, edge),
            Shape::Dumbbell => regular::dumbbell(edge),
            Shape::Pint => lookalike::PINT.layout(seed),
            Shape::Wilab => lookalike::WILAB.layout(seed),
            Shape::IotLab => lookalike::IOT_LAB.layout(seed),
        }
    }
}

/// Whether a node of the dumbbell belongs to its second side.
fn is_second_side(node: Node) -> bool {
    node >= regular::SECOND_SIDE
}

/// The node at a position. Corners are those nearest to and farthest from where all coordinates are
/// least, by their sum.
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

/// The middle of the box around all of them, rounded towards zero.
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

/// The distance between two places in millimetres, squared.
pub fn squared(a: Place, b: Place) -> u64 {
    let part = |a: i32, b: i32| u64::from(a.abs_diff(b)).pow(2);
    let level = part(a.0, b.0).saturating_add(part(a.1, b.1));
    level.saturating_add(part(a.2, b.2))
}

#[cfg(test)]
mod tests;
