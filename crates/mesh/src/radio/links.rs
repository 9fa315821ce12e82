//! Links between nodes, from positions or from a table, with delivery ratios drawn from a cumulative distribution.

use carob_cc::random::Random as _;
use carob_sim_core::random::{Probability, Stream};

use crate::Node;
use crate::spec::{Boundary, Delivery, RadioSpec};
use crate::topology::{Place, TableLink};

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

/// A distribution of delivery ratios, piecewise linear between points.
#[derive(Clone, Debug, Default)]
pub(super) struct Curve {
    /// (cumulative share, ratio), both as thresholds of 32 bits.
    points: Vec<(u64, u64)>,
}

impl Curve {
    /// Creates the distribution from points (ratio, cumulative share). Shares below the first point
    /// map to its ratio and shares above the last point to its ratio. Without points every frame
    /// arrives.
    pub(super) fn new(points: &[(Probability, Probability)]) -> Self {
        let points = points
            .iter()
            .map(|(ratio, share)| (share.threshold(), ratio.threshold()));
        Self {
            points: points.collect(),
        }
    }

    /// Draws a ratio, as the threshold that a draw of 32 bits must be below.
    pub(super) fn draw(&self, stream: &mut Stream) -> u64 {
        self.at(u64::from(stream.next_u32()))
    }

    /// The quantile of a share.
    fn at(&self, share: u64) -> u64 {
        let beyond = self.points.partition_point(|point| point.0 <= share);
        let Some(&(high_share, high)) = self.points.get(beyond) else {
            return self.last();
        };
        let Some(&(low_share, low)) = beyond.checked_sub(1).map(|place| &self.points[place]) else {
            return high;
        };
        // At most 2^32 x (2^32 - 1): no overflow.
        let part = low.abs_diff(high) * share.saturating_sub(low_share)
            / high_share.saturating_sub(low_share).max(1);
        if low <= high { low + part } else { low - part }
    }

    fn last(&self) -> u64 {
        let always = Probability::ALWAYS.threshold();
        self.points.last().map_or(always, |point| point.1)
    }

    /// The mean ratio.
    pub(super) fn mean(&self) -> Probability {
        let always = Probability::ALWAYS.threshold();
        let Some(&first) = self.points.first() else {
            return Probability::ALWAYS;
        };
        let part = |low: u64, high: u64, ratios: u64| {
            u128::from(high.saturating_sub(low)) * u128::from(ratios)
        };
        let mut twice = part(0, first.0, 2 * first.1);
        for pair in self.points.windows(2) {
            twice += part(pair[0].0, pair[1].0, pair[0].1 + pair[1].1);
        }
        twice += part(
            self.points[self.points.len() - 1].0,
            always,
            2 * self.last(),
        );
        Self::probability((twice >> 33) as u64)
    }

    /// The probability with this threshold.
    pub(super) const fn probability(threshold: u64) -> Probability {
        Probability::of(threshold, 1 << 32)
    }
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

    /// A distribution read from a study's figure: ratios in percent by share.
    fn curve() -> Curve {
        let points = [
            (75, 0),
            (80, 5),
            (85, 12),
            (90, 25),
            (95, 50),
            (100, 100_u64),
        ];
        Curve::new(&points.map(|(ratio, share)| {
            let percent = |part| Probability::of(part, 100);
            (percent(ratio), percent(share))
        }))
    }

    #[test]
    fn the_mean_is_that_of_the_trapezoids() {
        // 0.05 x 77.5 + 0.07 x 82.5 + 0.13 x 87.5 + 0.25 x 92.5 + 0.5 x 97.5 = 92.9 %.
        let mean = curve().mean().as_f64();
        assert!((mean - 0.929).abs() < 1e-6, "{mean}");
    }

    #[test]
    fn draws_follow_the_curve() {
        let (curve, mut stream) = (curve(), Stream::new(1, "curve"));
        let draws = 200_000;
        let mut below = [0; 3];
        let mut sum = 0.0;
        for _ in 0..draws {
            let ratio = curve.draw(&mut stream) as f64 / (1_u64 << 32) as f64;
            assert!((0.75..=1.0).contains(&ratio));
            sum += ratio;
            for (count, limit) in below.iter_mut().zip([0.80, 0.875, 0.95]) {
                *count += i32::from(ratio <= limit);
            }
        }
        // Shares 0.05, 0.185 and 0.5; sds of the counts are below 224.
        for (count, share) in below.iter().zip([0.05, 0.185, 0.5]) {
            let expected = share * f64::from(draws);
            assert!((f64::from(*count) - expected).abs() < 900.0, "{below:?}");
        }
        assert!((sum / f64::from(draws) - 0.929).abs() < 0.001);
    }

    #[test]
    fn odd_curves_have_ratios_too() {
        let one = Probability::ALWAYS;
        let half = Probability::of(1, 2);
        let mut stream = Stream::new(1, "curve");
        assert_eq!(Curve::new(&[]).draw(&mut stream), one.threshold());
        assert_eq!(
            Curve::new(&[(half, half)]).draw(&mut stream),
            half.threshold()
        );
        assert_eq!(Curve::new(&[(half, half)]).mean(), half);
        let falling = Curve::new(&[(one, Probability::NEVER), (half, one)]);
        assert_eq!(falling.mean(), Probability::of(3, 4));
        assert!((0..1_000).all(|_| falling.draw(&mut stream) >= half.threshold()));
    }
}
