//! Links between nodes, from positions or from a table.

use carob_sim_core::random::Probability;

use crate::Node;
use crate::spec::{Boundary, Delivery, RadioSpec};
use crate::topology::{Place, TableLink};

use super::curve::Curve;

/// The positions of nodes, or the links between them.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'a> {
    /// Position of each node.
    pub positions: &'a [Place],
    /// Interference region of each node; 0 where none is given.
    pub regions: &'a [u8],
    /// The links for [`Delivery::Table`]; other delivery models ignore it.
    pub table: Option<&'a [TableLink]>,
}

/// A link to a node that senses another's transmissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The receiving end.
    pub to: Node,
    /// Delivery probability on an otherwise idle medium. The mean, if each transmission draws its
    /// own.
    pub delivery: Probability,
}

/// All links in compressed rows, since every transmission walks over one row. A node's row has
/// first the nodes that may receive, then those that only suffer interference, each in order of
/// node.
#[derive(Clone, Debug, Default)]
pub struct Links {
    links: Vec<Link>,
    /// Start of each node's receivers, and start of its interfered nodes; a last entry closes the
    /// last row.
    starts: Vec<u32>,
}

impl Links {
    /// Computes the links of nodes. Table entries with an unknown node, or the same node at both
    /// ends, are ignored; the first of several entries for one link counts.
    pub fn new(ground: &Ground<'_>, radio: &RadioSpec) -> Self {
        let nodes = ground.positions.len();
        if matches!(radio.delivery, Delivery::Table) {
            return Self::from_table(nodes, ground.table.unwrap_or_default());
        }
        let mean = match &radio.delivery {
            Delivery::Fixed(ratio) => *ratio,
            Delivery::Drawn(points) => Curve::new(points).mean(),
            _ => Probability::ALWAYS,
        };
        let square = |mm: u32| u64::from(mm) * u64::from(mm);
        let range = square(radio.range_mm);
        let interference = square(radio.interference_mm);
        let edge = range.max(interference);
        Self::from_rows(nodes, |from, receivers, others| {
            for to in (0..nodes).filter(|to| *to != from) {
                let distance = squared(ground.positions[from], ground.positions[to]);
                let within = match radio.boundary {
                    Boundary::Strict => distance < u128::from(edge),
                    Boundary::Inclusive => distance <= u128::from(edge),
                };
                if !within {
                    continue;
                }
                let to = to as Node;
                if distance > u128::from(range) {
                    let delivery = Probability::NEVER;
                    others.push(Link { to, delivery });
                    continue;
                }
                // Within the range, the square of the distance is at most the square of the range, which fits in 64 bits.
                let delivery = match radio.delivery {
                    Delivery::ByDistance(ratio) => by_distance(distance as u64, range, ratio),
                    _ => mean,
                };
                receivers.push(Link { to, delivery });
            }
        })
    }

    fn from_table(nodes: usize, table: &[TableLink]) -> Self {
        let exists = |node: Node| usize::from(node) < nodes;
        let mut table: Vec<TableLink> = table.to_vec();
        table.retain(|link| exists(link.from) && exists(link.to) && link.from != link.to);
        // A stable sort: the first of several entries for one link stays.
        table.sort_by_key(|link| (link.from, link.to));
        table.dedup_by_key(|link| (link.from, link.to));
        let mut rest = table.iter().peekable();
        Self::from_rows(nodes, |from, receivers, others| {
            while let Some(entry) = rest.next_if(|link| usize::from(link.from) == from) {
                let (to, delivery) = (entry.to, entry.delivery);
                let receives = delivery > Probability::NEVER;
                let kind = if receives {
                    &mut *receivers
                } else {
                    &mut *others
                };
                kind.push(Link { to, delivery });
            }
        })
    }

    fn from_rows(nodes: usize, mut row: impl FnMut(usize, &mut Vec<Link>, &mut Vec<Link>)) -> Self {
        let mut all = Self::default();
        let (mut receivers, mut others) = (Vec::new(), Vec::new());
        for from in 0..nodes {
            row(from, &mut receivers, &mut others);
            all.starts.push(all.links.len() as u32);
            all.links.append(&mut receivers);
            all.starts.push(all.links.len() as u32);
            all.links.append(&mut others);
        }
        all.starts.push(all.links.len() as u32);
        all
    }

    /// The number of nodes.
    pub fn nodes(&self) -> usize {
        self.starts.len() / 2
    }

    /// Nodes that may receive this node's transmissions, in order.
    #[inline]
    pub fn receivers(&self, from: Node) -> &[Link] {
        self.part(usize::from(from) * 2)
    }

    /// Nodes that this node interferes with and that never receive from it, in order.
    #[inline]
    pub fn disturbed(&self, from: Node) -> &[Link] {
        self.part(usize::from(from) * 2 + 1)
    }

    #[inline]
    fn part(&self, place: usize) -> &[Link] {
        &self.links[self.starts[place] as usize..self.starts[place + 1] as usize]
    }

    /// The place of a node's first link among all of them.
    pub(super) fn first(&self, from: Node) -> usize {
        self.starts[usize::from(from) * 2] as usize
    }

    /// Delivery probability from the first node to the second; 0 without a link.
    pub fn delivery(&self, from: Node, to: Node) -> Probability {
        let receivers = self.receivers(from);
        match receivers.binary_search_by_key(&to, |link| link.to) {
            Ok(place) => receivers[place].delivery,
            Err(_) => Probability::NEVER,
        }
    }
}

/// The squared distance of two positions in mm^2.
pub(super) fn squared(a: Place, b: Place) -> u128 {
    // Three squares of differences of 32 bits exceed 64 bits.
    [(a.0, b.0), (a.1, b.1), (a.2, b.2)]
        .iter()
        .map(|(a, b)| u128::from(a.abs_diff(*b)).pow(2))
        .sum()
}

/// `1 - (d/R)^2 (1 - ratio)` of the squares of `d` and `R`, rounded to the nearest 2^-32.
fn by_distance(distance: u64, range: u64, ratio: Probability) -> Probability {
    if range == 0 {
        return ratio;
    }
    let lost = u128::from(Probability::ALWAYS.threshold() - ratio.threshold());
    let (distance, range) = (u128::from(distance), u128::from(range));
    let lost = (distance * lost + range / 2) / range;
    Curve::probability(Probability::ALWAYS.threshold() - lost as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(edge: i32) -> Vec<Place> {
        (0..36).map(|k| (k % 6 * edge, k / 6 * edge, 0)).collect()
    }

    fn nodes(links: &[Link]) -> Vec<Node> {
        links.iter().map(|link| link.to).collect()
    }

    fn links(positions: &[Place], radio: &RadioSpec) -> Links {
        let ground = Ground {
            positions,
            regions: &[],
            table: None,
        };
        Links::new(&ground, radio)
    }

    #[test]
    fn grid_neighbours_receive_and_diagonals_interfere() {
        let links = links(&grid(10_000), &RadioSpec::default());
        assert_eq!(links.nodes(), 36);
        // Node 14 is the third node of the third row; 12, 16, 2 and 26 are at exactly 20 m.
        assert_eq!(nodes(links.receivers(14)), [8, 13, 15, 20]);
        assert_eq!(nodes(links.disturbed(14)), [7, 9, 19, 21]);
        assert_eq!(nodes(links.receivers(0)), [1, 6]);
        assert_eq!(nodes(links.disturbed(0)), [7]);
    }

    #[test]
    fn inclusive_boundary_includes_nodes_at_the_range() {
        let radio = RadioSpec {
            boundary: Boundary::Inclusive,
            ..RadioSpec::default()
        };
        let links = links(&grid(10_000), &radio);
        assert_eq!(nodes(links.receivers(14)), [8, 13, 15, 20]);
        assert_eq!(nodes(links.disturbed(14)), [2, 7, 9, 12, 16, 19, 21, 26]);
    }

    #[test]
    fn no_reception_a_millimetre_beyond_the_range() {
        assert!(
            links(&grid(10_001), &RadioSpec::default())
                .receivers(14)
                .is_empty()
        );
        // With one range for both, a strict boundary excludes nodes at exactly that range.
        let radio = RadioSpec {
            interference_mm: 10_000,
            ..RadioSpec::default()
        };
        assert!(links(&grid(10_000), &radio).receivers(14).is_empty());
        assert_eq!(links(&grid(9_999), &radio).receivers(14).len(), 4);
    }

    #[test]
    fn delivery_falls_with_the_square_of_distance() {
        let radio = RadioSpec {
            delivery: Delivery::ByDistance(Probability::of(1, 5)),
            ..RadioSpec::default()
        };
        let links = links(&[(0, 0, 0), (5_000, 0, 0), (0, 10_000, 0)], &radio);
        assert_eq!(links.delivery(0, 1), Probability::of(4, 5));
        assert_eq!(links.delivery(0, 2), Probability::of(1, 5));
        assert_eq!(links.delivery(1, 2), Probability::NEVER);
    }

    #[test]
    fn link_table_is_exhaustive() {
        let half = Probability::of(1, 2);
        let entry = |from, to, delivery| TableLink { from, to, delivery };
        let table = [
            entry(2, 0, half),
            entry(0, 1, half),
            entry(0, 2, Probability::NEVER),
            entry(0, 1, Probability::ALWAYS),
            entry(1, 1, half),
            entry(0, 9, half),
            entry(9, 0, half),
        ];
        let ground = Ground {
            positions: &[(0, 0, 0); 3],
            regions: &[],
            table: Some(&table),
        };
        let radio = RadioSpec {
            delivery: Delivery::Table,
            ..RadioSpec::default()
        };
        let links = Links::new(&ground, &radio);
        assert_eq!(nodes(links.receivers(0)), [1]);
        assert_eq!(nodes(links.disturbed(0)), [2]);
        assert_eq!(links.delivery(0, 1), half);
        assert!(links.receivers(1).is_empty());
        assert_eq!(links.delivery(2, 0), half);
    }

    #[test]
    fn far_corners_of_the_world_do_not_overflow() {
        let corner = (i32::MIN, i32::MIN, i32::MIN);
        let other = (i32::MAX, i32::MAX, i32::MAX);
        let radio = RadioSpec {
            range_mm: u32::MAX,
            interference_mm: u32::MAX,
            delivery: Delivery::ByDistance(Probability::NEVER),
            ..RadioSpec::default()
        };
        let links = links(&[corner, other, (i32::MIN, i32::MIN, i32::MAX)], &radio);
        assert!(links.receivers(1).is_empty());
        assert!(links.receivers(0).is_empty(), "exactly at the range");
    }
}
