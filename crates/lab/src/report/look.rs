//! One colour and one marker for each algorithm name, the same in every figure.

use super::shapes::Shape;

/// Shapes of markers.
const MARKERS: [Shape; 6] = [
    Shape::Disc,
    Shape::Square,
    Shape::Diamond,
    Shape::Triangle,
    Shape::Cross,
    Shape::Cap,
];
/// Colours of the palette.
pub(super) const COLOURS: usize = 7;

/// The looks of algorithms: name, colour, marker. Those that studies compare differ in colour.
const LOOKS: &[(&str, usize, usize)] = &[
    ("default", 0, 0),
    ("cocoa-001", 1, 0),
    ("cocoa-plus", 2, 0),
    ("tcp-newreno", 3, 0),
    ("tcp-bbr1", 4, 0),
    ("cocoa-v0", 3, 1),
    ("observe-static", 6, 0),
    ("cocoa-03", 1, 1),
    ("cocoa-002", 1, 2),
    ("cocoa-004-text", 1, 3),
    ("cocoa-004-as-run", 2, 1),
    ("cocoa-californium", 5, 1),
    ("cocoa-contiki", 6, 1),
    ("cocoa-s", 4, 1),
    ("cocoa-strong", 6, 5),
    ("cocoa-fast", 2, 2),
    ("cocoa-4state", 6, 2),
    ("cocoa-e", 5, 2),
    ("pcocoa", 3, 2),
    ("cocoa-plus-plus", 4, 2),
    ("default-fb1", 0, 1),
    ("default-fb2", 0, 2),
    ("cocoa-fb1", 1, 4),
    ("cocoa-fb2", 1, 5),
    ("fasor", 2, 3),
    ("fasor-option", 2, 4),
    ("fasor-token", 2, 5),
    ("rtt-count", 6, 3),
    ("rfc6298", 3, 3),
    ("linux-rto", 4, 3),
    ("linux-rto-kernel", 4, 4),
    ("peak-hopper", 5, 3),
    ("peak-hopper-cal", 5, 4),
    ("basic-rto", 6, 4),
    ("carob", 5, 5),
    ("tcp-cubic", 3, 4),
    ("nb-iot", 0, 3),
    ("lte-m", 0, 4),
    ("thread", 3, 5),
    ("lan", 4, 5),
];

/// The colour and the marker of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    colour: usize,
    marker: usize,
}

/// Places of an algorithm's colour and marker among those of the figures, for pages that draw by themselves.
pub fn look(algorithm: &str) -> (usize, usize) {
    let look = Look::of(algorithm);
    (look.colour, look.marker)
}

/// Colour of an algorithm on light pages, such as `#0072b2`.
pub fn colour(algorithm: &str) -> &'static str {
    super::resolved::light(&format!("--{}", Look::of(algorithm).class()))
}

impl Look {
    /// The look of an algorithm, and of any other name. A footnote mark is ignored. An algorithm
    /// with constants after its name has its colour and another marker.
    pub(super) fn of(label: &str) -> Self {
        let (name, rest) = label.split_once(' ').unwrap_or((label, ""));
        let with_constants = !rest.trim_matches(['*', ' ']).is_empty();
        let known = LOOKS.iter().find(|(known, ..)| *known == name);
        let hash = carob_sim::hash::fnv1a(name.as_bytes()) as usize;
        let (colour, marker) = known.map_or(
            (hash % COLOURS, hash / COLOURS % MARKERS.len()),
            |(_, colour, marker)| (*colour, *marker),
        );
        Self {
            colour,
            marker: (marker + 2 * usize::from(with_constants)) % MARKERS.len(),
        }
    }

    /// The class of its colour.
    pub(super) fn class(self) -> String {
        format!("c{}", self.colour)
    }

    /// Its marker.
    pub(super) fn shape(self) -> Shape {
        MARKERS[self.marker]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::every_name;

    #[test]
    fn every_algorithm_has_a_look_that_no_other_has() {
        for name in every_name(carob_sim::registry::Registry::BUILT_IN) {
            assert!(LOOKS.iter().any(|(known, ..)| *known == name), "{name}");
        }
        for (k, (name, ..)) in LOOKS.iter().enumerate() {
            let others = LOOKS[k + 1..].iter().map(|(other, ..)| *other);
            for other in others {
                assert_ne!(Look::of(name), Look::of(other), "{name} {other}");
            }
        }
        assert_eq!(Look::of("fasor *"), Look::of("fasor"));
        assert_eq!((colour("default"), colour("fasor")), ("#0072b2", "#009e73"));
        let (plain, other) = (Look::of("cocoa-001"), Look::of("cocoa-001 (cc.k_weak=4)"));
        assert_eq!(plain.colour, other.colour);
        assert_ne!(plain.marker, other.marker);
    }
}
