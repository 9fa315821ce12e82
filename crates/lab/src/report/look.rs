//! Colours and markers of the names that a figure shows, no two alike.

use super::svg::Shape;
use crate::text::distinct;

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
/// Names with the same look in every figure.
const FIXED: [(&str, Look); 2] = [("default", Look::new(0, 0)), ("carob", Look::new(1, 1))];
/// Colours of other names in the order in which they are given: alike ones far from each other.
const ORDER: [usize; 6] = [1, 2, 3, 4, 6, 5];

/// The colour and the marker of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    colour: usize,
    marker: usize,
}

/// Looks of the names of a figure.
#[derive(Clone, Debug, Default)]
pub(super) struct Looks(Vec<(String, Look)>);

/// Places of the colour and marker of each name of a figure, for pages that draw by themselves.
pub fn looks<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<(usize, usize)> {
    let names: Vec<&str> = names.into_iter().collect();
    let all = Looks::of(names.iter().copied());
    let one = |name: &&str| (all.get(name).colour, all.get(name).marker);
    names.iter().map(one).collect()
}

/// A colour on light pages, such as `#0072b2`.
pub fn colour(place: usize) -> &'static str {
    super::svg::light(&format!("--{}", Look::new(place, 0).class()))
}

impl Looks {
    /// The looks of these names, of which the same one may occur often.
    pub(super) fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let shown = distinct(names);
        let has = |name: &str| shown.contains(&name);
        let is_free = |colour: &&usize| {
            let taken = |(name, look): &(&str, Look)| look.colour == **colour && has(name);
            !FIXED.iter().any(taken)
        };
        let colours: Vec<usize> = ORDER.iter().filter(is_free).copied().collect();
        let mut given = 0;
        let mut look = |name: &str| {
            if let Some((_, fixed)) = FIXED.iter().find(|(known, _)| *known == name) {
                return *fixed;
            }
            let (place, round) = (given % colours.len(), given / colours.len());
            given += 1;
            Look::new(colours[place], (1 + place + round) % MARKERS.len())
        };
        Self(
            shown
                .iter()
                .map(|name| ((*name).to_owned(), look(name)))
                .collect(),
        )
    }

    /// The look of a name.
    pub(super) fn get(&self, name: &str) -> Look {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or(FIXED[0].1, |(_, look)| *look)
    }
}

impl Look {
    const fn new(colour: usize, marker: usize) -> Self {
        Self { colour, marker }
    }

    /// The class of its colour.
    pub(super) fn class(self) -> String {
        format!("c{}", self.colour)
    }

    /// A class, and its colour's.
    pub(super) fn with(self, class: &str) -> String {
        format!("{class} c{}", self.colour)
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
    fn no_two_names_of_a_figure_look_alike() {
        let all = every_name(carob_sim::registry::Registry::BUILT_IN);
        let all: Vec<&str> = all.take(30).collect();
        let shown = looks(all.iter().copied());
        for (place, one) in shown.iter().enumerate() {
            assert!(!shown[place + 1..].contains(one), "{}", all[place]);
        }
        let few = looks(["default", "cocoa-plus", "fasor", "carob", "cocoa-s"]);
        for (place, (colour, _)) in few.iter().enumerate() {
            assert!(few[place + 1..].iter().all(|(other, _)| other != colour));
        }
    }

    #[test]
    fn default_coap_and_carob_look_the_same_in_every_figure() {
        for names in [&["fasor", "carob", "default"][..], &["default", "carob"]] {
            let of = Looks::of(names.iter().copied());
            assert_eq!(of.get("default"), Look::new(0, 0));
            assert_eq!(of.get("carob"), Look::new(1, 1));
        }
        assert_eq!(colour(0), "#0072b2");
    }
}
