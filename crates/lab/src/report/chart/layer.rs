//! Layers of a panel: marks, lines, areas, rectangles and texts at values, with tooltips.

use std::fmt::Write as _;

use crate::report::look::Look;
use crate::report::scale::Scale;
use crate::report::svg::Shape;
use crate::report::svg::{Svg, short};

/// A place in the units of both axes.
pub(in crate::report) type At = (f64, f64);

/// Marks with one entry in the legend, which hides and shows them together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::report) struct Layer {
    /// Text of the legend; none without.
    pub(in crate::report) name: String,
    pub(in crate::report) items: Vec<Item>,
}

/// Parts with one tooltip.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::report) struct Item {
    pub(super) tip: String,
    pub(super) parts: Vec<Part>,
}

/// An element of a layer; `class` is the CSS class.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::report) enum Part {
    /// Marks of one kind in one element.
    Marks(String, Shape, f64, Vec<At>),
    /// Lines through places, in one element.
    Line(String, Vec<Vec<At>>),
    /// A rectangle between two corners.
    Rect(String, At, At),
    /// Rectangles between two corners each, in one element.
    Rects(String, Vec<(At, At)>),
    /// A text.
    Text(String, At, String),
}

impl Layer {
    pub(in crate::report) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            items: Vec::new(),
        }
    }

    /// With parts that share a tooltip; an empty one is none.
    pub(in crate::report) fn item(mut self, tip: &str, parts: Vec<Part>) -> Self {
        self.add(tip, parts);
        self
    }

    /// Adds parts that share a tooltip; an empty one is none.
    pub(in crate::report) fn add(&mut self, tip: &str, parts: Vec<Part>) {
        let tip = tip.to_owned();
        self.items.push(Item { tip, parts });
    }

    /// With a part without tooltip, if it shows anything.
    pub(in crate::report) fn part(self, part: Part) -> Self {
        if part.is_empty() {
            return self;
        }
        self.item("", vec![part])
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = &Part> {
        self.items.iter().flat_map(|item| &item.parts)
    }

    pub(super) fn draw(&self, svg: &mut Svg, x: &Scale, y: &Scale) {
        for Item { tip, parts } in &self.items {
            let all = |svg: &mut Svg| parts.iter().for_each(|part| part.draw(svg, x, y));
            if tip.is_empty() {
                all(svg);
            } else {
                svg.with_title(tip, all);
            }
        }
    }

    /// Draws the key of the legend around a point.
    pub(super) fn key(&self, svg: &mut Svg, (x, y): At) {
        let parts = self.items.first().map_or(&[][..], |item| &item.parts);
        let has = |is: fn(&Part) -> bool| parts.iter().any(is);
        let is_filled = |part: &Part| matches!(part, Part::Rect(..) | Part::Rects(..));
        let is_mark = |part: &Part| matches!(part, Part::Marks(..));
        for part in parts {
            match part {
                Part::Rect(class, ..) | Part::Rects(class, _) if class != "hover" => {
                    svg.rect(class, x - 8.0, y - 5.5, 16.0, 11.0);
                }
                Part::Marks(class, shape, size, _) => {
                    let size = if *size > 0.0 {
                        size.clamp(2.4, 4.0)
                    } else {
                        0.0
                    };
                    svg.path(class, &shape.path((x, y), size));
                }
                Part::Line(class, runs) => {
                    let is_whisker = class.starts_with("whisker") && has(is_mark);
                    if is_whisker || has(is_filled) {
                        continue;
                    }
                    let run = runs.first().map_or(&[][..], |run| run);
                    let is_upright = run.len() == 2 && run[0].0.to_bits() == run[1].0.to_bits();
                    let (dx, dy) = if is_upright { (0.0, 7.0) } else { (9.0, 0.0) };
                    svg.line(class, (x - dx, y - dy), (x + dx, y + dy));
                }
                _ => {}
            }
        }
    }
}

impl Part {
    /// Marks in the colour and the shape of an algorithm.
    pub(in crate::report) fn of(look: Look, size: f64, at: Vec<At>) -> Self {
        Self::Marks(format!("mark {}", look.class()), look.shape(), size, at)
    }

    /// Marks of a class.
    pub(in crate::report) fn marks(class: &str, shape: Shape, size: f64, at: Vec<At>) -> Self {
        Self::Marks(class.to_owned(), shape, size, at)
    }

    /// A line through places.
    pub(in crate::report) fn line(class: &str, through: Vec<At>) -> Self {
        Self::Line(class.to_owned(), vec![through])
    }

    /// A rectangle between two corners.
    pub(in crate::report) fn rect(class: &str, from: At, to: At) -> Self {
        Self::Rect(class.to_owned(), from, to)
    }

    /// A text.
    pub(in crate::report) fn text(class: &str, at: At, text: String) -> Self {
        Self::Text(class.to_owned(), at, text)
    }

    /// A line between two places.
    pub(in crate::report) fn span(class: &str, from: At, to: At) -> Self {
        Self::line(class, vec![from, to])
    }

    /// Lines over the whole height.
    pub(in crate::report) fn uprights(class: &str, all: impl Iterator<Item = f64>) -> Self {
        let line = |x| vec![(x, f64::NEG_INFINITY), (x, f64::INFINITY)];
        Self::Line(class.to_owned(), all.map(line).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Marks(_, _, _, at) => at.is_empty(),
            Self::Line(_, runs) => runs.iter().all(Vec::is_empty),
            Self::Rects(_, all) => all.is_empty(),
            Self::Rect(..) | Self::Text(..) => false,
        }
    }

    /// The places that axes have room for.
    pub(super) fn places(&self) -> Vec<At> {
        match self {
            Self::Marks(_, _, _, at) => at.clone(),
            Self::Line(_, runs) => runs.concat(),
            Self::Rect(_, from, to) => vec![*from, *to],
            Self::Rects(_, all) => all.iter().flat_map(|(from, to)| [*from, *to]).collect(),
            Self::Text(..) => Vec::new(),
        }
    }

    fn draw(&self, svg: &mut Svg, x: &Scale, y: &Scale) {
        let place = |at: &At| (x.at(at.0), y.at(at.1));
        match self {
            Self::Marks(class, shape, size, all) => {
                let data: String = all.iter().map(|at| shape.path(place(at), *size)).collect();
                svg.path(class, &data);
            }
            Self::Line(class, runs) => {
                let data = runs.iter().map(|run| path(run.iter().map(place)));
                svg.path(class, &data.collect::<String>());
            }
            Self::Rect(class, from, to) => {
                let ((x0, y0), (x1, y1)) = (place(from), place(to));
                svg.rect(
                    class,
                    x0.min(x1),
                    y0.min(y1),
                    (x1 - x0).abs(),
                    (y1 - y0).abs(),
                );
            }
            Self::Rects(class, all) => {
                let corners =
                    |((x0, y0), (x1, y1)): (At, At)| [(x0, y0), (x1, y0), (x1, y1), (x0, y1)];
                let data = all
                    .iter()
                    .map(|(from, to)| path(corners((place(from), place(to))).into_iter()));
                svg.path(class, &data.collect::<String>());
            }
            Self::Text(class, at, text) => {
                let (x, y) = place(at);
                svg.text(class, (x, y + 4.0), text);
            }
        }
    }
}

/// Path data through points, without those that are drawn where the one before is.
fn path(points: impl Iterator<Item = At>) -> String {
    let mut data = String::new();
    let mut last: Option<(String, String)> = None;
    for (x, y) in points {
        let (x, y) = (short(x), short(y));
        // A String takes every write.
        let _ = match &last {
            None => write!(data, "M{x} {y}"),
            Some((px, py)) if *px == x && *py == y => Ok(()),
            Some((_, py)) if *py == y => write!(data, "H{x}"),
            Some((px, _)) if *px == x => write!(data, "V{y}"),
            Some(_) => write!(data, "L{x} {y}"),
        };
        last = Some((x, y));
    }
    data
}

/// Corners of steps: each value holds until the next one, the last until `end`.
pub(in crate::report) fn steps(values: impl IntoIterator<Item = At>, end: f64) -> Vec<At> {
    let mut corners: Vec<At> = Vec::new();
    for (x, y) in values {
        if let Some((_, before)) = corners.last().copied() {
            if before.to_bits() == y.to_bits() {
                continue;
            }
            corners.push((x, before));
        }
        corners.push((x, y));
    }
    if let Some((_, last)) = corners.last().copied() {
        corners.push((end, last));
    }
    corners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rectangles_of_one_kind_are_one_element() {
        let scale = Scale::given((0.0, 10.0), Vec::new(), (0.0, 100.0));
        let all = vec![((1.0, 0.0), (2.0, 5.0)), ((3.0, 0.0), (4.0, 1.0))];
        let mut svg = Svg::default();
        Part::Rects("a".to_owned(), all).draw(&mut svg, &scale, &scale);
        let text = svg.finish(100.0, 100.0, "", "");
        let element = "<path class=\"a\" d=\"M10 0H20V50H10M30 0H40V10H30\"/>";
        assert!(text.contains(element), "{text}");
    }

    #[test]
    fn steps_hold_a_value_until_the_next() {
        let corners = steps([(0.0, 1.0), (1.0, 1.0), (2.0, 3.0)], 4.0);
        assert_eq!(corners, [(0.0, 1.0), (2.0, 1.0), (2.0, 3.0), (4.0, 3.0)]);
        assert_eq!(path(corners.into_iter()), "M0 1H2V3H4");
        assert!(steps([], 1.0).is_empty());
    }
}
