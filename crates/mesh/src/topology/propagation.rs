//! Indoor propagation: log-distance path loss with shadowing by link.
//!
//! A link's margin over its receiver's sensitivity, in dB, is
//!
//! ```text
//! margin = 10 n log10(R / d) - F floors + S(link) +- A(link)
//! ```
//!
//! with the distance `d` of at least a metre, the exponent `n`, and the range `R` of 50 % delivery
//! without shadowing. `F` is the loss per floor. `S` is normal and the same in both directions
//! (walls and furniture). `A` is normal, added in one direction and subtracted in the other
//! (transmit power, sensitivity and noise, which differ by device). The delivery ratio is `1 / (1 +
//! exp(-margin / g))`: from 10 to 90 % within `4.4 g`.
//!
//! Logarithm and exponential are the `libm` crate's, so that every machine agrees on every bit.

use carob_sim_core::random::{Probability, Stream};

use super::super::Node;
use super::{Place, TableLink, squared};

/// The propagation parameters of a building.
pub(super) struct Propagation {
    /// `R`.
    pub(super) range_mm: u32,
    /// `n`.
    pub(super) exponent: f64,
    /// `F` in dB.
    pub(super) floor: f64,
    /// Standard deviation of `S` in dB.
    pub(super) shadowing: f64,
    /// Standard deviation of `A` in dB.
    pub(super) asymmetry: f64,
}

/// `g` in dB: ratios go from 10 to 90 % within 6.6 dB, as the grey region of 802.15.4 radios
/// indoors.
const GREY: f64 = 1.5;
/// Below this margin in dB a signal is neither sensed nor interferes. Between it and [`RATIO_MIN`]
/// it only interferes.
const SENSED_MIN: f64 = -9.0;
/// Ratios below this, in parts per million, count as 0.
const RATIO_MIN: u32 = 20_000;

impl Propagation {
    /// Links between nodes on these floors, sorted by sender and receiver.
    pub(super) fn table(
        &self,
        places: &[Place],
        floors: &[u8],
        stream: &mut Stream,
    ) -> Vec<TableLink> {
        let mut table = Vec::new();
        for (a, here) in places.iter().enumerate() {
            for (b, there) in places.iter().enumerate().skip(a + 1) {
                // Drawn for every pair, so that no link's draws depend on another's distance.
                let shadowing = self.shadowing * normal(stream);
                let asymmetry = self.asymmetry * normal(stream);
                let metres = libm::sqrt(squared(*here, *there) as f64).max(1_000.0) / 1_000.0;
                let range = f64::from(self.range_mm) / 1_000.0;
                let between = f64::from(floors[a].abs_diff(floors[b]));
                let both = 10.0 * self.exponent * libm::log10(range / metres)
                    - self.floor * between
                    + shadowing;
                let (a, b) = (a as Node, b as Node);
                let directions = [(a, b, both + asymmetry), (b, a, both - asymmetry)];
                table.extend(directions.into_iter().filter_map(link));
            }
        }
        table.sort_by_key(|link| (link.from, link.to));
        table
    }
}

/// The link of a direction with this margin, if it is sensed at all.
fn link((from, to, margin): (Node, Node, f64)) -> Option<TableLink> {
    let ratio = 1.0 / (1.0 + libm::exp(-margin / GREY));
    let ppm = (ratio * 1e6 + 0.5) as u32;
    let delivery = match ppm {
        0..RATIO_MIN => Probability::NEVER,
        _ => Probability::ppm(ppm),
    };
    (margin >= SENSED_MIN).then_some(TableLink { from, to, delivery })
}

/// The margin in dB of a link with this delivery ratio: the inverse of [`link`]. Links that only
/// interfere have the middle of their range.
pub(crate) fn margin_of(delivery: Probability) -> f64 {
    let least = f64::from(RATIO_MIN) / 1e6;
    let ratio = delivery.as_f64();
    let margin = |ratio: f64| GREY * libm::log(ratio / (1.0 - ratio));
    if ratio == 0.0 {
        return f64::midpoint(SENSED_MIN, margin(least));
    }
    // The logit of 0 and 1 is infinite.
    margin(ratio.clamp(1e-6, 1.0 - 1e-6))
}

/// A normal draw, exact within a thousandth in its bulk: the sum of twelve uniform draws, never
/// beyond six standard deviations.
fn normal(stream: &mut Stream) -> f64 {
    let draws = (0..12).map(|_| (stream.next_u64() >> 11) as f64 / (1_u64 << 53) as f64);
    draws.sum::<f64>() - 6.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: Propagation = Propagation {
        range_mm: 10_000,
        exponent: 3.0,
        floor: 12.0,
        shadowing: 0.0,
        asymmetry: 0.0,
    };

    fn ratio(propagation: &Propagation, mm: i32, floors: [u8; 2]) -> Option<f64> {
        let places = [(0, 0, 0), (mm, 0, 0)];
        let table = propagation.table(&places, &floors, &mut Stream::new(1, "test"));
        let there = table.iter().find(|link| link.from == 0);
        there.map(|link| link.delivery.as_f64())
    }

    #[test]
    fn half_of_all_frames_arrive_at_the_range_and_fewer_beyond() {
        assert_eq!(ratio(&OPEN, 10_000, [0, 0]), Some(0.5));
        // By hand: 3 dB of margin are 1 / (1 + e^-2), 30 log10(10/8) = 2.907.
        let nearer = ratio(&OPEN, 8_000, [0, 0]).expect("a link");
        assert!((nearer - 0.8741).abs() < 0.0005, "{nearer}");
        // Sensed only: 30 log10(10/17) = -6.9.
        assert_eq!(ratio(&OPEN, 17_000, [0, 0]), Some(0.0));
        // Not even sensed: -9.03.
        assert_eq!(ratio(&OPEN, 20_000, [0, 0]), None);
        // Twelve dB of a ceiling are a factor of 2.512 in distance.
        let through = ratio(&OPEN, 3_981, [0, 1]).expect("a link");
        assert!((through - 0.5).abs() < 0.001, "{through}");
    }

    #[test]
    fn shadowing_is_symmetric_and_asymmetry_opposite() {
        let places: Vec<Place> = (0..40).map(|n| (n * 9_000, 0, 0)).collect();
        let floors = vec![0; 40];
        let mut shadowed = Propagation {
            shadowing: 4.0,
            ..OPEN
        };
        let table = shadowed.table(&places, &floors, &mut Stream::new(1, "test"));
        let back = |link: &TableLink| super::super::paths::ratio(&table, link.to, link.from);
        assert!(table.iter().all(|link| back(link) == link.delivery));
        shadowed.asymmetry = 1.0;
        let skewed = shadowed.table(&places, &floors, &mut Stream::new(1, "test"));
        let back = |link: &TableLink| super::super::paths::ratio(&skewed, link.to, link.from);
        let uneven = skewed.iter().filter(|link| back(link) != link.delivery);
        assert!(uneven.count() > 40);
    }

    #[test]
    fn normal_draws_have_mean_zero_and_deviation_one() {
        let mut stream = Stream::new(1, "test");
        let draws: Vec<f64> = (0..100_000).map(|_| normal(&mut stream)).collect();
        let mean = draws.iter().sum::<f64>() / 1e5;
        let square = draws.iter().map(|draw| draw * draw).sum::<f64>() / 1e5;
        // Standard errors 0.0032 and 0.0045.
        assert!(mean.abs() < 0.013, "{mean}");
        assert!((square - 1.0).abs() < 0.018, "{square}");
    }
}
