//! A wireless network from above: nodes, links by how much they deliver, and the tree of RPL.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use carob_sim::mesh::{self, IdleNetwork};
use carob_sim::spec::{NetworkSpec, RunError};

use super::chart::{At, Axis, Chart, Layer, Panel, Part};
use super::svg::Picture;
use super::svg::Shape;
use super::svg::short;
use crate::scenario::{Algorithm, Cell, Scenario};

/// The most elements with a tooltip each.
pub(super) const TOOLTIPS_MAX: usize = 4_000;
/// Width of the panel in pixels, which are the units of its axes, and space around the network.
const ACROSS: f64 = 826.0;
const MARGIN: f64 = 34.0;
/// Room for the scale bar.
const BAR: f64 = 30.0;
/// The most that one height of nodes takes, and the least across where they are in more than a row.
const TALLEST: f64 = 620.0;
const FLATTEST: f64 = 110.0;
/// Between two heights of nodes.
const BETWEEN: f64 = 80.0;
/// The most heights that are drawn apart.
const HEIGHTS_MAX: usize = 6;
/// Smallest and largest radius of a node, and the radius from which its number fits.
const RADIUS: [f64; 2] = [1.5, 10.0];
const NUMBERED: f64 = 6.5;
/// Largest distance of a curve from the straight line.
const BULGE: f64 = 30.0;
/// Links of a node on average from which on each is drawn fainter.
const DENSE: usize = 8;
/// Links that deliver less are left out.
const FAINTEST: f64 = 0.1;
/// Links by delivery ratio: minimum, class, and text of the legend.
const QUALITIES: [(f64, &str, &str); 3] = [
    (0.9, "mesh-link good", "90 % or more both ways"),
    (0.5, "mesh-link fair", "from 50 % both ways"),
    (FAINTEST, "mesh-link poor", "from 10 % both ways"),
];
/// Marks of nodes by class, and text of the legend. Sinks are squares.
const NODES: [(&str, &str, Shape); 4] = [
    ("mesh-root", "root", Shape::Disc),
    ("mesh-root-sink", "root and sink", Shape::Square),
    ("mesh-sink", "sink", Shape::Square),
    ("mesh-node", "node", Shape::Disc),
];

/// The network of a cell with the tree that RPL has made in a run with this seed;
/// nothing if the cell has none.
pub fn topology(
    scenario: &Scenario,
    cell: &Cell,
    algorithm: &Algorithm,
    seed: u64,
) -> Result<Option<Picture>, RunError> {
    let spec = scenario.spec(cell, algorithm, seed);
    let NetworkSpec::Mesh(network) = &spec.network else {
        return Ok(None);
    };
    let idle = mesh::idle_network(network, spec.seed).map_err(RunError::Mesh)?;
    Ok(Some(topology_figure(&Network::from(idle))))
}

/// A wireless network to draw.
#[derive(Clone, Debug, Default)]
struct Network {
    /// Nodes in millimetres: along, across, up.
    positions: Vec<(i32, i32, i32)>,
    /// Sender, receiver, and which part of the frames arrives.
    links: Vec<(u16, u16, f64)>,
    parents: Vec<Option<u16>>,
    /// The ETX of each node's link to its parent, where it is known.
    etx: Vec<Option<f64>>,
    root: u16,
    sinks: Vec<u16>,
}

impl From<IdleNetwork> for Network {
    fn from(idle: IdleNetwork) -> Self {
        let nodes = 0..idle.topology.nodes() as u16;
        let links = idle.links.iter();
        let percent = |etx: &Option<u32>| etx.map(|etx| f64::from(etx) / 100.0);
        Self {
            sinks: nodes.filter(|node| idle.topology.is_sink(*node)).collect(),
            links: links
                .map(|(from, to, part)| (*from, *to, part.as_f64()))
                .collect(),
            parents: idle.parents,
            etx: idle.etx.iter().map(percent).collect(),
            root: idle.topology.root,
            positions: idle.topology.positions,
        }
    }
}

/// The ends of a curve, and between them its control point.
type Bend = ((f64, f64), (f64, f64), (f64, f64));

/// Where nodes are on the page.
struct Plan {
    points: Vec<(f64, f64)>,
    /// Heights that are drawn apart, the highest first, with the middle of each.
    heights: Vec<(i32, f64)>,
    radius: f64,
    /// Pixels of a metre along, and how much more it is across.
    metre: f64,
    stretched: f64,
    bottom: f64,
}

/// A network's nodes, links and tree, with a legend.
///
/// Nodes at other heights are drawn above each other, each height from above. A network that is
/// too narrow to be legible is drawn wider across; the legend then states the factor. Links show
/// the delivery ratio of both ways, which an acknowledged frame needs.
fn topology_figure(network: &Network) -> Picture {
    let pairs = pairs(&network.links);
    let plan = Plan::new(&network.positions);
    let mut around = scale_bar(&plan);
    for (height, y) in plan.heights.iter().filter(|_| plan.heights.len() > 1) {
        let text = format!("{} m up", short(f64::from(*height) / 1e3));
        around = around.part(Part::text("note", (0.0, *y), text));
    }
    let mut layers = vec![around];
    layers.extend(links(&pairs, &plan));
    layers.push(tree(network, &plan));
    layers.extend(nodes(network, &plan));
    let height = plan.bottom + MARGIN + BAR;
    let pixels = |to: (f64, f64)| Axis::given(to, Vec::new());
    let panel = Panel::new(pixels((0.0, ACROSS)), pixels((height, 0.0)), layers);
    Chart::grid(
        "Nodes and links of a wireless network",
        1,
        height,
        vec![panel],
    )
    .picture()
}

impl Plan {
    fn new(positions: &[(i32, i32, i32)]) -> Self {
        let mut heights: Vec<i32> = positions.iter().map(|place| place.2).collect();
        heights.sort_unstable_by(|a, b| b.cmp(a));
        heights.dedup();
        if heights.len() > HEIGHTS_MAX {
            heights.truncate(1);
        }
        let [(left, along), (upper, across)] = [
            extent(positions.iter().map(|place| place.0)),
            extent(positions.iter().map(|place| place.1)),
        ];
        let room = ACROSS - 2.0 * MARGIN;
        let metre = (room / along.max(1.0)).min(TALLEST / across.max(1.0));
        // A metre is at most a third of the page.
        let metre = metre.min(room / 3.0);
        let wanted = if across > 0.0 { FLATTEST } else { 0.0 };
        let stretched = (wanted / (across * metre).max(1e-9)).max(1.0);
        let stretched = if across > 0.0 { stretched } else { 1.0 };
        let panel = across * metre * stretched;
        let indent = MARGIN + (room - along * metre) / 2.0;
        let row = |height: i32| heights.iter().position(|own| *own == height).unwrap_or(0);
        let above = |row: usize| MARGIN + row as f64 * (panel + BETWEEN);
        let point = |(x, y, z): &(i32, i32, i32)| {
            let x = indent + (f64::from(*x) / 1e3 - left) * metre;
            let y = (f64::from(*y) / 1e3 - upper) * metre * stretched;
            (x, above(row(*z)) + y)
        };
        let points: Vec<(f64, f64)> = positions.iter().map(point).collect();
        let radius = (nearest(&points) * 0.32).clamp(RADIUS[0], RADIUS[1]);
        let rows = heights.len().max(1);
        Self {
            heights: (0..heights.len())
                .map(|row| (heights[row], above(row) + panel / 2.0))
                .collect(),
            radius,
            metre,
            stretched,
            bottom: above(rows - 1) + panel,
            points,
        }
    }

    fn point(&self, node: u16) -> Option<(f64, f64)> {
        self.points.get(usize::from(node)).copied()
    }

    /// Where the curve between two nodes bends to: beside the middle if another node is in the way.
    fn bend(&self, from: u16, to: u16) -> Option<Bend> {
        let (a, b) = (self.point(from.min(to))?, self.point(from.max(to))?);
        let middle = (f64::midpoint(a.0, b.0), f64::midpoint(a.1, b.1));
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let length = dx.hypot(dy).max(1e-9);
        let is_in_way = |(node, point): (usize, &(f64, f64))| {
            let (px, py) = (point.0 - a.0, point.1 - a.1);
            let (ahead, aside) = ((px * dx + py * dy) / length, (px * dy - py * dx) / length);
            let is_end = node == usize::from(from) || node == usize::from(to);
            !is_end && (0.0..=length).contains(&ahead) && aside.abs() < self.radius + 1.5
        };
        if !self.points.iter().enumerate().any(is_in_way) {
            return Some((a, middle, b));
        }
        // The curve passes half as far from the middle as its control point.
        let aside = (0.22 * length).min(2.0 * BULGE) / length;
        let control = (middle.0 + dy * aside, middle.1 - dx * aside);
        Some((a, control, b))
    }
}

/// The least of them and how far they extend, in metres.
fn extent(all: impl Iterator<Item = i32> + Clone) -> (f64, f64) {
    let low = f64::from(all.clone().min().unwrap_or(0)) / 1e3;
    let high = f64::from(all.max().unwrap_or(0)) / 1e3;
    (low, high - low)
}

/// The least distance between two points. In thousands of nodes all are seen, once.
fn nearest(points: &[(f64, f64)]) -> f64 {
    let mut by_x = points.to_vec();
    by_x.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut least = f64::INFINITY;
    for (index, a) in by_x.iter().enumerate() {
        for b in &by_x[index + 1..] {
            if b.0 - a.0 >= least {
                break;
            }
            least = least.min((b.0 - a.0).hypot(b.1 - a.1));
        }
    }
    least
}

/// Points of a quadratic curve, two where it is straight.
fn curve((a, control, b): Bend) -> Vec<At> {
    const PIECES: u8 = 12;
    let at = |t: f64| {
        let of = |a: f64, c: f64, b: f64| {
            (1.0 - t) * (1.0 - t) * a + 2.0 * t * (1.0 - t) * c + t * t * b
        };
        (of(a.0, control.0, b.0), of(a.1, control.1, b.1))
    };
    let straight = (f64::midpoint(a.0, b.0), f64::midpoint(a.1, b.1));
    if control == straight {
        return vec![a, b];
    }
    let points = (0..=PIECES).map(|k| at(f64::from(k) / f64::from(PIECES)));
    points.collect()
}

/// Delivery ratios there and back by two nodes, the lower number first.
type Pairs = BTreeMap<(u16, u16), [f64; 2]>;

fn pairs(links: &[(u16, u16, f64)]) -> Pairs {
    let mut pairs = Pairs::new();
    for (from, to, ratio) in links.iter().filter(|(from, to, _)| from != to) {
        let both = pairs.entry((*from.min(to), *from.max(to))).or_default();
        both[usize::from(from > to)] = ratio.clamp(0.0, 1.0);
    }
    pairs
}

/// Which of [`QUALITIES`] a link has by its worse direction.
fn quality(both: [f64; 2]) -> Option<usize> {
    let worse = both[0].min(both[1]);
    QUALITIES.iter().position(|(least, _, _)| worse >= *least)
}

/// Layers of the links, the best on top. Of many links each is drawn fainter, or straight and without a tooltip.
fn links(pairs: &Pairs, plan: &Plan) -> Vec<Layer> {
    let drawn = pairs.values().filter(|both| quality(**both).is_some());
    let is_dense = drawn.count() > DENSE * plan.points.len();
    let layer = |(index, (_, class, name)): (usize, &(f64, &str, &str))| {
        let class = format!("{class}{}", if is_dense { " dense" } else { "" });
        let own = pairs
            .iter()
            .filter(|(_, both)| quality(**both) == Some(index));
        if pairs.len() > TOOLTIPS_MAX {
            let ends = own.filter_map(|((a, b), _)| Some(vec![plan.point(*a)?, plan.point(*b)?]));
            return Layer::new(name).part(Part::Line(class, ends.collect()));
        }
        own.fold(Layer::new(name), |layer, ((a, b), both)| {
            let Some(bend) = plan.bend(*a, *b) else {
                return layer;
            };
            let [there, back] = both.map(|ratio| ratio * 100.0);
            let tip = format!("{a} to {b}: {there:.0} %, back {back:.0} %");
            layer.item(&tip, vec![Part::line(&class, curve(bend))])
        })
    };
    QUALITIES.iter().enumerate().rev().map(layer).collect()
}

/// Edges of the tree, with the ETX of those where it is known.
fn tree(network: &Network, plan: &Plan) -> Layer {
    let edges = network.parents.iter().zip(0..);
    edges.fold(Layer::new("parent"), |mut layer, (parent, node)| {
        let bend = parent.and_then(|parent| Some((parent, plan.bend(node, parent)?)));
        if let Some((parent, bend)) = bend {
            let etx = network.etx.get(usize::from(node)).copied().flatten();
            let etx = etx.map_or_else(String::new, |etx| format!(" by ETX {etx:.2}"));
            let tip = format!("{node} to parent {parent}{etx}");
            layer.add(&tip, vec![Part::line("mesh-tree", curve(bend))]);
        }
        layer
    })
}

/// Layers of the nodes by class.
fn nodes(network: &Network, plan: &Plan) -> Vec<Layer> {
    let mut layers = NODES.map(|(_, name, _)| Layer::new(name));
    for ((point, place), node) in plan.points.iter().zip(&network.positions).zip(0..) {
        let kind = match (network.root == node, network.sinks.contains(&node)) {
            (true, false) => 0,
            (true, true) => 1,
            (false, true) => 2,
            (false, false) => 3,
        };
        let (class, _, shape) = NODES[kind];
        let mut parts = vec![Part::marks(class, shape, plan.radius, vec![*point])];
        if plan.radius >= NUMBERED {
            let on_dark = if kind == 3 { "" } else { " on-dark" };
            let text = format!("letter middle{on_dark}");
            parts.push(Part::text(&text, *point, node.to_string()));
        }
        let has_tip = plan.points.len() <= TOOLTIPS_MAX;
        let tip = has_tip.then(|| told(network, node, *place));
        layers[kind].add(&tip.unwrap_or_default(), parts);
    }
    layers.into()
}

fn told(network: &Network, node: u16, (x, y, z): (i32, i32, i32)) -> String {
    let metres = [x, y, z].map(|mm| short(f64::from(mm) / 1e3)).join(", ");
    let parent = |node: u16| *network.parents.get(usize::from(node))?;
    // Parents may be a loop.
    let path = std::iter::successors(Some(node), |at| parent(*at));
    let mut path = path.take(network.positions.len());
    let hops = path.position(|at| at == network.root);
    let hops = hops.filter(|hops| *hops > 0);
    let hops = hops.map_or_else(String::new, |hops| format!("; {hops} hops to the root"));
    format!("node {node} at {metres} m{hops}")
}

/// A length that is easily read.
fn scale_bar(plan: &Plan) -> Layer {
    let y = plan.bottom + MARGIN + 14.0;
    // Tenths of a metre to ten thousand kilometres, by 1, 2 and 5.
    let decades = (-1..8).map(|power| 10_f64.powi(power));
    let mut lengths = decades.flat_map(|unit| [unit, 2.0 * unit, 5.0 * unit]);
    let Some(metres) = lengths.find(|metres| metres * plan.metre >= 50.0) else {
        return Layer::new("");
    };
    let end = MARGIN + metres * plan.metre;
    let mut text = format!("{} m", short(metres));
    if plan.stretched > 1.05 {
        let times = plan.stretched;
        // Writing to a String cannot fail.
        let _ = write!(text, " along; across drawn {times:.0} times as wide");
    }
    let cap = |x| vec![(x, y - 4.0), (x, y + 4.0)];
    let lines = vec![vec![(MARGIN, y), (end, y)], cap(MARGIN), cap(end)];
    Layer::new("")
        .part(Part::Line("rule".to_owned(), lines))
        .part(Part::text("note", (end + 8.0, y), text))
}

#[cfg(test)]
mod tests {
    use carob_sim::mesh::spec::{Shape, TopologySpec};
    use carob_sim::mesh::topology::Topology;

    use super::*;

    fn network(shape: Shape) -> Network {
        let spec = TopologySpec {
            shape,
            ..TopologySpec::default()
        };
        let topology = Topology::new(&spec).expect("a topology");
        let table = topology.table.iter().flatten();
        Network {
            links: table
                .map(|link| (link.from, link.to, link.delivery.as_f64()))
                .collect(),
            root: topology.root,
            sinks: vec![topology.sink],
            positions: topology.positions,
            ..Network::default()
        }
    }

    /// Three nodes in a row, 5 m apart.
    fn row() -> Network {
        Network {
            positions: vec![(0, 0, 0), (5_000, 0, 0), (10_000, 0, 0)],
            sinks: vec![2],
            ..Network::default()
        }
    }

    fn count(svg: &str, part: &str) -> usize {
        svg.matches(part).count()
    }

    #[test]
    fn every_node_is_drawn_with_a_title() {
        let grid = topology_figure(&network(Shape::Grid(6, 6))).0;
        let pint = topology_figure(&network(Shape::Pint)).0;
        // One more of each in the legend.
        for (svg, class, nodes) in [
            (&grid, "mesh-node", 34),
            (&grid, "mesh-root", 1),
            (&grid, "mesh-sink", 1),
            (&pint, "mesh-node", 21),
            (&pint, "mesh-root-sink", 1),
        ] {
            assert_eq!(
                count(svg, &format!("class=\"{class}\"")),
                nodes + 1,
                "{class}"
            );
        }
        assert!(grid.contains("node 35 at 50, 50, 0 m"));
        assert!(pint.contains(">3.5 m up<") && pint.contains(">0 m up<"));
    }

    #[test]
    fn links_are_drawn_once_by_their_worse_direction_and_bend_around_nodes() {
        let mut network = row();
        network.links = vec![(0, 1, 0.95), (1, 0, 0.6), (1, 2, 0.99), (2, 1, 0.9)];
        // One way only; and of nodes that are not there.
        network
            .links
            .extend([(0, 2, 1.0), (0, 7, 1.0), (9, 9, 1.0)]);
        let svg = topology_figure(&network).0;
        assert_eq!(count(&svg, "mesh-link good"), 1 + 1);
        assert_eq!(count(&svg, "mesh-link fair"), 1 + 1);
        assert_eq!(count(&svg, "mesh-link poor"), 0);
        assert!(svg.contains("0 to 1: 95 %, back 60 %"));
        assert_eq!(count(&svg, "L"), 0, "straight along the row");
        network.links.push((2, 0, 1.0));
        assert!(count(&topology_figure(&network).0, "L") > 8);
    }

    #[test]
    fn tree_has_its_etx_and_hops_even_in_loop() {
        let mut network = row();
        network.parents = vec![None, Some(0), Some(1)];
        network.etx = vec![None, Some(1.25), Some(4.0)];
        let svg = topology_figure(&network).0;
        assert!(svg.contains("2 to parent 1 by ETX 4.00") && svg.contains("; 2 hops to the root"));
        network.parents = vec![None, Some(2), Some(1), Some(8)];
        let svg = topology_figure(&network).0;
        assert!(svg.contains("1 to parent 2 by") && !svg.contains("hops"));
    }

    #[test]
    fn any_network_can_be_drawn() {
        let far = Network {
            positions: vec![(i32::MIN, i32::MIN, 0), (i32::MAX, i32::MAX, 0)],
            ..Network::default()
        };
        let high = Network {
            positions: (0..50).map(|n| (n, n, n)).collect(),
            ..Network::default()
        };
        let alone = Network {
            positions: vec![(0, 0, 0); 2],
            ..Network::default()
        };
        let narrow = network(Shape::IotLab);
        assert!(topology_figure(&narrow).0.contains("times as wide"));
        let chain = network(Shape::Chain(4_096));
        for network in [Network::default(), alone, far, chain, high] {
            let svg = topology_figure(&network).0;
            assert!(
                svg.starts_with("<svg") && !svg.contains("NaN") && !svg.contains("inf"),
                "{svg}"
            );
        }
    }
}
