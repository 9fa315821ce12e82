//! Synthetic testbeds, modelled on testbeds with a published description only.
//!
//! Positions follow a building's plan with some scatter; links follow from distance, floors and
//! shadowing ([`super::propagation`]). All of it is drawn from the layout seed. Of up to
//! [`ATTEMPTS`] draws, the first with hops and neighbours within the description is used. Ranges
//! were chosen so that few draws suffice: a few for PINT and IoT-LAB, some fifty for WiLAB, whose
//! nodes all have 8 to 15 neighbours. They do not describe the radios that were used.
//!
//! Hop counts use links that carry at least half of the frames both ways. The upper limit also
//! applies along the paths of least ETX, which have no fewer hops. Neighbours are nodes with a
//! delivery ratio of at least a tenth.
//!
//! [`PINT_BY_DATA`] and [`WILAB_BY_DATA`] follow the raw data of the same study instead of its text:
//! they also have means of hops, of links per node and of near-perfect links within [`Means`]. About
//! one draw in five does.

use carob_sim_core::random::{Probability, Stream};

use super::propagation::Propagation;
use super::{Layout, Place, TableLink, TopologyError, paths};

/// Draws of a layout before a seed is given up.
const ATTEMPTS: u32 = 1_024;
/// Minimum ratio of links that carry a tree.
pub(super) const TREE_RATIO: Probability = Probability::ppm(500_000);
/// Minimum ratio of links to a neighbour.
pub(super) const NEIGHBOUR_RATIO: Probability = Probability::ppm(100_000);

/// A building with nodes in it, and the published description.
pub(super) struct Testbed {
    /// Nodes along each line; lines run the building's length.
    lines: &'static [Line],
    /// Distance along a line between its nodes, in millimetres.
    pitch_mm: i32,
    /// Maximum displacement of each horizontal coordinate, in millimetres.
    scatter_mm: i32,
    /// Length of the stretches of one interference region, in millimetres.
    region_mm: i32,
    propagation: Propagation,
    /// Least and greatest depth of the tree, in hops.
    pub(super) depth: [u16; 2],
    /// Fewest and most neighbours of a node.
    pub(super) neighbours: [usize; 2],
    /// Means that a layout must have.
    pub(super) means: Option<Means>,
}

/// Lowest and highest values of a layout's means. Links are pairs of nodes with an ETX of at most
/// [`Means::ETX_MAX`], the greatest that the study's RPL accepts.
pub(super) struct Means {
    /// Hops of the paths of least ETX.
    pub(super) hops: [f64; 2],
    /// Links per node.
    pub(super) links: [f64; 2],
    /// Share of the links with an ETX of at most [`Means::NEAR_PERFECT`].
    pub(super) near_perfect: [f64; 2],
}

/// Means of a layout: hops, links per node, share of near-perfect links.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) hops: f64,
    pub(super) links: f64,
    pub(super) near_perfect: f64,
}

/// Means of the measured links of PINT and WiLAB (Vallati et al. 2020, raw data): 2.3 hops at rest in
/// PINT and 2.4 to 3.6 in WiLAB, 7.5 and 7.7 links per node, half of PINT's links near perfect.
const BY_DATA: Means = Means {
    hops: [2.3, 2.6],
    links: [7.2, 8.2],
    near_perfect: [0.45, 0.55],
};

/// Nodes in a row along a building.
struct Line {
    nodes: u16,
    /// Position of the first along the building, in millimetres.
    start_mm: i32,
    /// Position across.
    across_mm: i32,
    /// Height.
    up_mm: i32,
    floor: u8,
    /// After this many nodes, this many positions stay empty.
    gap: Option<(u16, u16)>,
}

const fn line(nodes: u16, start_mm: i32, across_mm: i32, up_mm: i32, floor: u8) -> Line {
    Line {
        nodes,
        start_mm,
        across_mm,
        up_mm,
        floor,
        gap: None,
    }
}

/// One node at each end of a line of eight positions.
const fn both_ends(across_mm: i32) -> Line {
    Line {
        gap: Some((1, 6)),
        ..line(2, 0, across_mm, 0, 0)
    }
}

/// PINT (Vallati et al.): 22 nodes in offices on both sides of a corridor, on two floors, the root at
/// one end of the lower; up to 4 to 6 hops, 3 to 8 neighbours.
pub(super) const PINT: Testbed = Testbed {
    lines: &[
        line(6, 0, 0, 0, 0),
        line(5, 4_500, 8_000, 0, 0),
        line(6, 0, 0, 3_500, 1),
        line(5, 4_500, 8_000, 3_500, 1),
    ],
    pitch_mm: 9_000,
    scatter_mm: 1_500,
    region_mm: 23_000,
    propagation: Propagation {
        range_mm: 12_500,
        exponent: 3.5,
        floor: 14.0,
        shadowing: 3.0,
        asymmetry: 0.7,
    },
    depth: [4, 6],
    neighbours: [3, 8],
    means: None,
};

/// PINT with the means of its measured links: the same building with a longer range and a thinner
/// floor. Up to 4 to 5 hops, as at rest in the data.
pub(super) const PINT_BY_DATA: Testbed = Testbed {
    propagation: Propagation {
        range_mm: 16_000,
        floor: 6.0,
        ..PINT.propagation
    },
    depth: [3, 5],
    neighbours: [1, 13],
    means: Some(BY_DATA),
    ..PINT
};

/// WiLAB's floor 11 (same study): 26 nodes evenly along a corridor that runs around the building's
/// core, the root in a corner; up to 2 to 3 hops, 8 to 15 neighbours.
pub(super) const WILAB: Testbed = Testbed {
    lines: &[
        line(8, 0, 0, 0, 0),
        both_ends(4_000),
        both_ends(8_000),
        both_ends(12_000),
        both_ends(16_000),
        both_ends(20_000),
        line(8, 0, 24_000, 0, 0),
    ],
    pitch_mm: 4_000,
    scatter_mm: 300,
    region_mm: 10_000,
    propagation: Propagation {
        range_mm: 16_500,
        exponent: 3.5,
        floor: 0.0,
        shadowing: 1.5,
        asymmetry: 0.7,
    },
    depth: [2, 3],
    neighbours: [8, 15],
    means: None,
};

/// WiLAB with the means of the measured links: the same building with a shorter range and more
/// shadowing.
pub(super) const WILAB_BY_DATA: Testbed = Testbed {
    propagation: Propagation {
        range_mm: 13_500,
        exponent: 3.0,
        shadowing: 4.0,
        ..WILAB.propagation
    },
    depth: [3, 5],
    neighbours: [1, 13],
    means: Some(BY_DATA),
    ..WILAB
};

/// IoT-LAB's site in Grenoble (Betzler et al. 2016): 60 nodes in pairs along a corridor, one under the
/// floor and one above the ceiling, the root at one end; 4 to 6 hops.
pub(super) const IOT_LAB: Testbed = Testbed {
    lines: &[line(30, 0, 0, 0, 0), line(30, 1_000, 1_200, 2_800, 0)],
    pitch_mm: 2_500,
    scatter_mm: 300,
    region_mm: 19_000,
    propagation: Propagation {
        range_mm: 17_000,
        exponent: 3.0,
        floor: 0.0,
        shadowing: 3.0,
        asymmetry: 0.7,
    },
    depth: [4, 6],
    neighbours: [10, 45],
    means: None,
};

impl Means {
    /// Greatest ETX of a link, in thousandths (`MAX_LINK_METRIC` of the study).
    const ETX_MAX: u64 = 4_000;
    /// Greatest ETX of a near-perfect link, in thousandths.
    const NEAR_PERFECT: u64 = 1_050;

    fn include(&self, measured: Measured) -> bool {
        let within = |[low, high]: [f64; 2], value: f64| (low..=high).contains(&value);
        within(self.hops, measured.hops)
            && within(self.links, measured.links)
            && within(self.near_perfect, measured.near_perfect)
    }
}

impl Measured {
    /// The means of a table of links. None if a node has no path to the root.
    pub(super) fn of(nodes: usize, table: &[TableLink]) -> Option<Self> {
        let hops: Option<Vec<u16>> = paths::cheapest(nodes, table, 0).into_iter().collect();
        let hops = hops?.into_iter().map(f64::from).sum::<f64>();
        let pairs = table.iter().filter(|link| link.from < link.to);
        let all = pairs.filter_map(|link| paths::etx(table, link));
        let usable: Vec<u64> = all.filter(|etx| *etx <= Means::ETX_MAX).collect();
        let near_perfect = usable.iter().filter(|etx| **etx <= Means::NEAR_PERFECT);
        Some(Self {
            hops: hops / (nodes - 1) as f64,
            links: 2.0 * usable.len() as f64 / nodes as f64,
            near_perfect: near_perfect.count() as f64 / usable.len() as f64,
        })
    }
}

impl Testbed {
    /// The first layout of a seed that matches the testbed. Its root, node 0, is its sink.
    pub(super) fn layout(&self, seed: u64) -> Result<Layout, TopologyError> {
        let floors: Vec<u8> = self.lines.iter().flat_map(Line::floors).collect();
        let along = self.lines.iter();
        let planned: Vec<Place> = along.flat_map(|line| line.places(self.pitch_mm)).collect();
        for attempt in 0..ATTEMPTS {
            let mut stream = Stream::indexed(seed, "mesh/layout/places", attempt);
            let places: Vec<Place> = planned
                .iter()
                .map(|(x, y, z)| {
                    let x = x + self.scatter(&mut stream);
                    (x, y + self.scatter(&mut stream), *z)
                })
                .collect();
            let mut stream = Stream::indexed(seed, "mesh/layout/links", attempt);
            let table = self.propagation.table(&places, &floors, &mut stream);
            if self.matches(places.len(), &table) {
                let regions = self.regions(&planned, &floors);
                return Ok(Layout {
                    positions: places,
                    regions,
                    table: Some(table),
                    root: 0,
                    sink: None,
                    mirror: None,
                });
            }
        }
        Err(TopologyError::Seed(seed))
    }

    fn scatter(&self, stream: &mut Stream) -> i32 {
        let most = self.scatter_mm.unsigned_abs();
        let span = u64::from(2 * most + 1);
        // Uniform by the upper bits; the bias is below 2^-32 of a millimetre.
        ((u128::from(stream.next_u64()) * u128::from(span)) >> 64) as i32 - most as i32
    }

    /// Returns whether hops and neighbours are as described.
    fn matches(&self, nodes: usize, table: &[TableLink]) -> bool {
        let hops = paths::by_table(nodes, paths::two_way(table, TREE_RATIO), 0);
        let cheapest = paths::cheapest(nodes, table, 0);
        let (Some(hops), Some(cheapest)) = (deepest(&hops), deepest(&cheapest)) else {
            return false;
        };
        let mut neighbours = vec![0; nodes];
        for link in table.iter().filter(|link| link.delivery >= NEIGHBOUR_RATIO) {
            neighbours[usize::from(link.to)] += 1;
        }
        let [fewest, most] = self.neighbours;
        let has_means = |means: &Means| {
            Measured::of(nodes, table).is_some_and(|measured| means.include(measured))
        };
        hops >= self.depth[0]
            && cheapest <= self.depth[1]
            && neighbours.iter().all(|n| (fewest..=most).contains(n))
            && self.means.as_ref().is_none_or(has_means)
    }

    /// Regions: each floor in stretches, numbered along it.
    fn regions(&self, planned: &[Place], floors: &[u8]) -> Vec<u8> {
        let stretch = |place: &Place| (place.0 / self.region_mm) as u8;
        let stretches = planned.iter().map(stretch).max().unwrap_or(0) + 1;
        let all = planned.iter().zip(floors);
        all.map(|(place, floor)| floor * stretches + stretch(place))
            .collect()
    }
}

impl Line {
    fn floors(&self) -> impl Iterator<Item = u8> {
        (0..self.nodes).map(|_| self.floor)
    }

    fn places(&self, pitch_mm: i32) -> impl Iterator<Item = Place> {
        (0..self.nodes).map(move |node| {
            let empty = match self.gap {
                Some((after, places)) if node >= after => places,
                _ => 0,
            };
            let x = self.start_mm + i32::from(node + empty) * pitch_mm;
            (x, self.across_mm, self.up_mm)
        })
    }
}

/// The depth of the tree in hops, if all nodes have a path.
pub(super) fn deepest(hops: &[Option<u16>]) -> Option<u16> {
    let all: Option<Vec<u16>> = hops.iter().copied().collect();
    all?.into_iter().max()
}
