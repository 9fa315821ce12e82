//! A wireless network from above: nodes, links by how much they deliver, and the tree of RPL.

use std::fmt::Write as _;

use super::picture::{Picture, WIDTH};
use super::sequence::TOOLTIPS_MAX;
use super::svg::{Svg, short, text_width};

/// Space around the network in pixels, in the wide and the narrow layout.
const MARGIN: f64 = 34.0;
/// Height of the legend's lines.
const LEGEND_LINE: f64 = 22.0;
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
/// Tree edges with their ETX beside them, at most.
const LABELLED_MAX: usize = 120;
/// Half the width and height of such a label, in pixels.
const LABEL: (f64, f64) = (13.0, 6.5);
/// Largest distance of a curve from the straight line.
const BULGE: f64 = 30.0;
/// Pairs of a link and a node up to which links bend around nodes.
const BENT_MAX: usize = 20_000_000;
/// Links of a node on average from which on each is drawn fainter.
const DENSE: usize = 8;
/// Links that deliver less are left out.
const FAINTEST: f64 = 0.1;
/// Links by delivery ratio: minimum, class, and text of the legend.
const QUALITIES: [(f64, &str, &str); 3] = [
    (0.9, "mesh-link good", "90 % or more"),
    (0.5, "mesh-link fair", "from 50 %"),
    (FAINTEST, "mesh-link poor", "from 10 %"),
];

/// A wireless network to draw.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// Nodes in millimetres: along, across, up.
    pub positions: Vec<(i32, i32, i32)>,
    /// Sender, receiver, and which part of the frames arrives. Nodes that are not there are left out.
    pub links: Vec<(u16, u16, f64)>,
    /// The preferred parent of each node, if there is a tree.
    pub parents: Option<Vec<Option<u16>>>,
    /// The ETX of each node's link to its parent, where it is known.
    pub etx: Vec<Option<f64>>,
    /// The root of the tree.
    pub root: u16,
    /// The destinations of messages.
    pub sinks: Vec<u16>,
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
    /// True if links bend around nodes.
    is_bent: bool,
}

/// A network's nodes, links and tree, with a legend.
///
/// Nodes at other heights are drawn above each other, each height from above. A network that is
/// too narrow to be legible is drawn wider across; the legend then states the factor. Links show
/// the delivery ratio of both ways, which an acknowledged frame needs.
pub fn topology_figure(network: &Network) -> Picture {
    let pairs = pairs(&network.links);
    let mut svg = Svg::default();
    let top = legend(&mut svg, network, &pairs) + MARGIN + 12.0;
    let mut plan = Plan::new(&network.positions, top);
    plan.is_bent = pairs.len() * plan.points.len() <= BENT_MAX;
    if plan.heights.len() > 1 {
        for (height, y) in &plan.heights {
            let metres = f64::from(*height) / 1e3;
            svg.text_upwards(
                "note middle",
                (13.0, *y),
                &format!("{} m up", short(metres)),
            );
        }
    }
    links(&mut svg, &pairs, &plan);
    tree(&mut svg, network, &plan);
    nodes(&mut svg, network, &plan);
    let height = scale_bar(&mut svg, &plan);
    let label = "Nodes and links of a wireless network";
    Picture(svg.finish(WIDTH, height, label, ""))
}

impl Plan {
    fn new(positions: &[(i32, i32, i32)], top: f64) -> Self {
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
        let room = WIDTH - 2.0 * MARGIN;
        let metre = (room / along.max(1.0)).min(TALLEST / across.max(1.0));
        // A metre is at most a third of the page.
        let metre = metre.min(room / 3.0);
        let wanted = if across > 0.0 { FLATTEST } else { 0.0 };
        let stretched = (wanted / (across * metre).max(1e-9)).max(1.0);
        let stretched = if across > 0.0 { stretched } else { 1.0 };
        let panel = across * metre * stretched;
        let indent = MARGIN + (room - along * metre) / 2.0;
        let row = |height: i32| heights.iter().position(|own| *own == height).unwrap_or(0);
        let above = |row: usize| top + row as f64 * (panel + BETWEEN);
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
            is_bent: true,
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
        if !self.is_bent || !self.points.iter().enumerate().any(is_in_way) {
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

/// A curve as path data, and its middle.
fn curve((a, control, b): Bend) -> (String, (f64, f64)) {
    let at = |point: (f64, f64)| format!("{} {}", short(point.0), short(point.1));
    let straight = (f64::midpoint(a.0, b.0), f64::midpoint(a.1, b.1));
    let data = if control == straight {
        format!("M{}L{}", at(a), at(b))
    } else {
        format!("M{}Q{} {}", at(a), at(control), at(b))
    };
    let middle = (
        f64::midpoint(straight.0, control.0),
        f64::midpoint(straight.1, control.1),
    );
    (data, middle)
}

/// Two nodes, the lower number first, and the delivery ratios there and back.
type Pair = ((u16, u16), [f64; 2]);

fn pairs(links: &[(u16, u16, f64)]) -> Vec<Pair> {
    let mut sorted: Vec<((u16, u16), usize, f64)> = links
        .iter()
        .filter(|(from, to, _)| from != to)
        .map(|(from, to, ratio)| {
            let pair = (*from.min(to), *from.max(to));
            (pair, usize::from(from > to), ratio.clamp(0.0, 1.0))
        })
        .collect();
    sorted.sort_by_key(|(pair, _, _)| *pair);
    let mut pairs: Vec<Pair> = Vec::new();
    for (pair, back, ratio) in sorted {
        match pairs.last_mut() {
            Some((last, both)) if *last == pair => both[back] = ratio,
            _ => {
                let mut both = [0.0; 2];
                both[back] = ratio;
                pairs.push((pair, both));
            }
        }
    }
    pairs
}

/// Which of [`QUALITIES`] a link has by its worse direction.
fn quality(both: [f64; 2]) -> Option<usize> {
    let worse = both[0].min(both[1]);
    QUALITIES.iter().position(|(least, _, _)| worse >= *least)
}

/// Draws the links; returns the number of those with a tooltip.
fn links(svg: &mut Svg, pairs: &[Pair], plan: &Plan) {
    let drawn = pairs.iter().filter(|(_, both)| quality(*both).is_some());
    let is_dense = drawn.count() > DENSE * plan.points.len();
    // The best on top.
    for (index, (_, class, _)) in QUALITIES.iter().enumerate().rev() {
        let class = if is_dense {
            format!("{class} dense")
        } else {
            (*class).to_owned()
        };
        let mut all = String::new();
        for ((a, b), both) in pairs {
            if quality(*both) != Some(index) {
                continue;
            }
            let Some(ends) = plan.bend(*a, *b) else {
                continue;
            };
            let (data, _) = curve(ends);
            if pairs.len() > TOOLTIPS_MAX {
                all.push_str(&data);
                continue;
            }
            let told = format!(
                "{a} to {b}: {:.0} %, back {:.0} %",
                both[0] * 100.0,
                both[1] * 100.0
            );
            svg.with_title(&told, |svg| svg.path(&class, &data));
        }
        if !all.is_empty() {
            svg.path(&class, &all);
        }
    }
}

fn tree(svg: &mut Svg, network: &Network, plan: &Plan) {
    let Some(parents) = &network.parents else {
        return;
    };
    let edges = parents.iter().zip(0..).filter_map(|(parent, node)| {
        let ends = plan.bend(node, (*parent)?)?;
        Some((usize::from(node), curve(ends)))
    });
    let edges: Vec<_> = edges.collect();
    for (_, (data, _)) in &edges {
        svg.path("mesh-tree", data);
    }
    if edges.len() > LABELLED_MAX {
        return;
    }
    let mut labels: Vec<(f64, f64)> = Vec::new();
    let is_over = |at: (f64, f64), other: (f64, f64), room: (f64, f64)| {
        (at.0 - other.0).abs() < room.0 && (at.1 - other.1).abs() < room.1
    };
    for (node, (_, (x, y))) in &edges {
        let Some(Some(etx)) = network.etx.get(*node) else {
            continue;
        };
        let is_free = |at: &(f64, f64)| {
            let label = |other: &(f64, f64)| is_over(*at, *other, (2.0 * LABEL.0, 2.0 * LABEL.1));
            let node = |other: &(f64, f64)| {
                let beside = (LABEL.0 + plan.radius + 4.0, LABEL.1 + plan.radius / 2.0);
                let above = (LABEL.0 + 2.0, LABEL.1 + plan.radius);
                is_over(*at, *other, beside) || is_over(*at, *other, above)
            };
            !labels.iter().any(label) && !plan.points.iter().any(node)
        };
        // On its edge, above it or below it, where there is room.
        let aside = LABEL.1 + 5.0;
        let places = [(*x, *y), (*x, y - aside), (*x, y + aside)];
        if let Some(at) = places.into_iter().find(is_free) {
            svg.text("note middle halo", (at.0, at.1 + 4.0), &format!("{etx:.2}"));
            labels.push(at);
        }
    }
}

fn nodes(svg: &mut Svg, network: &Network, plan: &Plan) {
    for ((point, place), node) in plan.points.iter().zip(&network.positions).zip(0..) {
        let (radius, class) = (plan.radius, class(network, node));
        let draw = |svg: &mut Svg| {
            mark(svg, class, *point, radius);
            if radius >= NUMBERED {
                let below = (point.0, point.1 + 3.5);
                let text = if class == "mesh-node" {
                    "letter middle"
                } else {
                    "letter middle on-dark"
                };
                svg.text(text, below, &node.to_string());
            }
        };
        if plan.points.len() > TOOLTIPS_MAX {
            draw(svg);
        } else {
            svg.with_title(&told(network, node, *place), draw);
        }
    }
}

/// The class of a node's mark.
fn class(network: &Network, node: u16) -> &'static str {
    match (network.root == node, network.sinks.contains(&node)) {
        (true, true) => "mesh-root-sink",
        (true, false) => "mesh-root",
        (false, true) => "mesh-sink",
        (false, false) => "mesh-node",
    }
}

/// Sinks are squares.
fn mark(svg: &mut Svg, class: &str, (x, y): (f64, f64), radius: f64) {
    if class.ends_with("sink") {
        svg.rect(class, x - radius, y - radius, 2.0 * radius, 2.0 * radius);
    } else {
        svg.circle(class, (x, y), radius);
    }
}

fn told(network: &Network, node: u16, (x, y, z): (i32, i32, i32)) -> String {
    let metres = [x, y, z].map(|mm| short(f64::from(mm) / 1e3)).join(", ");
    // Writing to a String cannot fail.
    let mut told = format!("node {node} at {metres} m");
    let parent = |node: u16| *network.parents.as_ref()?.get(usize::from(node))?;
    if let Some(first) = parent(node) {
        let _ = write!(told, "; parent {first}");
        if let Some(Some(etx)) = network.etx.get(usize::from(node)) {
            let _ = write!(told, " by ETX {etx:.2}");
        }
        let (mut at, mut hops) = (first, 1);
        // Parents may be a loop.
        while let Some(next) = parent(at).filter(|_| hops < network.positions.len()) {
            (at, hops) = (next, hops + 1);
        }
        if at == network.root {
            let _ = write!(told, "; {hops} hops to the root");
        }
    }
    told
}

/// Draws the legend of marks and lines. Returns the position of its end.
fn legend(svg: &mut Svg, network: &Network, pairs: &[Pair]) -> f64 {
    let (mut x, mut y) = (MARGIN, 18.0);
    let mut entry = |svg: &mut Svg, text: &str, draw: &dyn Fn(&mut Svg, f64, f64)| {
        let width = 34.0 + text_width(text) * 1.05 + 18.0;
        if x + width > WIDTH && x > MARGIN {
            (x, y) = (MARGIN, y + LEGEND_LINE);
        }
        draw(svg, x, y - 4.0);
        svg.text("legend", (x + 34.0, y), text);
        x += width;
        y
    };
    let marks = [
        ("mesh-root", "root"),
        ("mesh-root-sink", "root and sink"),
        ("mesh-sink", "sink"),
        ("mesh-node", "node"),
    ];
    let nodes = 0..network.positions.len() as u16;
    let classes: Vec<&str> = nodes.map(|node| class(network, node)).collect();
    let mut end = 0.0;
    for (class, text) in marks {
        if classes.contains(&class) {
            end = entry(svg, text, &|svg, x, y| mark(svg, class, (x + 22.0, y), 7.0));
        }
    }
    if network.parents.is_some() {
        let text = if network.etx.iter().any(Option::is_some) {
            "parent, with ETX"
        } else {
            "parent"
        };
        end = entry(svg, text, &|svg, x, y| {
            svg.path("mesh-tree", &format!("M{} {}h28", short(x), short(y)));
        });
    }
    let mut is_first = true;
    for (index, (_, class, text)) in QUALITIES.iter().enumerate() {
        if !pairs.iter().any(|(_, both)| quality(*both) == Some(index)) {
            continue;
        }
        let text = if is_first {
            format!("{text} both ways")
        } else {
            (*text).to_owned()
        };
        is_first = false;
        end = entry(svg, &text, &|svg, x, y| {
            svg.path(class, &format!("M{} {}h28", short(x), short(y)));
        });
    }
    end
}

/// A length that is easily read. Returns where the figure ends.
fn scale_bar(svg: &mut Svg, plan: &Plan) -> f64 {
    let margin = MARGIN;
    let y = plan.bottom + margin + 14.0;
    // Tenths of a metre to ten thousand kilometres, by 1, 2 and 5.
    let decades = (-1..8).map(|power| 10_f64.powi(power));
    let mut lengths = decades.flat_map(|unit| [unit, 2.0 * unit, 5.0 * unit]);
    if let Some(metres) = lengths.find(|metres| metres * plan.metre >= 50.0) {
        let end = margin + metres * plan.metre;
        svg.line("rule", (margin, y), (end, y));
        for x in [margin, end] {
            svg.line("rule", (x, y - 4.0), (x, y + 4.0));
        }
        let mut text = format!("{} m", short(metres));
        if plan.stretched > 1.05 {
            let times = plan.stretched;
            let _ = write!(text, " along; across drawn {times:.0} times as wide");
        }
        svg.text("note", (end + 8.0, y + 4.0), &text);
    }
    y + 16.0
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
    fn every_node_is_there_and_says_what_it_is() {
        let svg = topology_figure(&network(Shape::Grid(6, 6))).0;
        // One more of each in the legend.
        assert_eq!(count(&svg, "class=\"mesh-node\""), 34 + 1);
        assert_eq!(count(&svg, "class=\"mesh-root\""), 1 + 1);
        assert_eq!(count(&svg, "class=\"mesh-sink\""), 1 + 1);
        assert!(svg.contains("node 35 at 50, 50, 0 m"));
        let svg = topology_figure(&network(Shape::Pint)).0;
        assert_eq!(count(&svg, "class=\"mesh-node\""), 21 + 1);
        assert_eq!(count(&svg, "class=\"mesh-root-sink\""), 1 + 1);
        assert!(svg.contains(">3.5 m up<") && svg.contains(">0 m up<"));
    }

    #[test]
    fn links_are_drawn_once_by_their_worse_direction() {
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
    }

    #[test]
    fn links_bend_around_nodes_in_their_way() {
        let mut network = row();
        network.links = vec![(0, 1, 1.0), (1, 0, 1.0)];
        assert_eq!(count(&topology_figure(&network).0, "Q"), 0);
        network.links.extend([(0, 2, 1.0), (2, 0, 1.0)]);
        assert_eq!(count(&topology_figure(&network).0, "Q"), 1);
    }

    #[test]
    fn the_tree_has_its_etx_and_hops() {
        let mut network = row();
        network.parents = Some(vec![None, Some(0), Some(1)]);
        network.etx = vec![None, Some(1.25), Some(4.0)];
        let svg = topology_figure(&network).0;
        assert!(svg.contains(">1.25<") && svg.contains(">4.00<"));
        assert!(svg.contains("parent 1 by ETX 4.00; 2 hops to the root"));
        // Only nodes in a loop are that many hops away.
        network.parents = Some(vec![None, Some(2), Some(1), Some(8)]);
        let svg = topology_figure(&network).0;
        assert!(svg.contains("parent 2") && !svg.contains("hops"));
    }

    #[test]
    fn narrow_networks_are_drawn_wider_and_say_so() {
        let svg = topology_figure(&network(Shape::IotLab)).0;
        assert!(svg.contains("times as wide"));
        assert!(
            !topology_figure(&network(Shape::Wilab))
                .0
                .contains("times as wide")
        );
        assert!(
            !topology_figure(&network(Shape::Chain(17)))
                .0
                .contains("times as wide")
        );
    }

    #[test]
    fn any_network_can_be_drawn() {
        assert!(topology_figure(&Network::default()).0.starts_with("<svg"));
        let alone = Network {
            positions: vec![(0, 0, 0); 2],
            ..Network::default()
        };
        let far = Network {
            positions: vec![(i32::MIN, i32::MIN, 0), (i32::MAX, i32::MAX, 0)],
            ..Network::default()
        };
        let many = network(Shape::Chain(4_096));
        let high = Network {
            positions: (0..50).map(|n| (n, n, n)).collect(),
            ..Network::default()
        };
        for network in [alone, far, many, high] {
            let svg = topology_figure(&network).0;
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
