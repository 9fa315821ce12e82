//! Outlines of marks as path data. Each begins at its centre and goes on by relative commands, so that one
//! element holds thousands of them and a script moves a mark by its first two numbers.

use std::fmt::Write as _;

use super::svg::short;

/// The outline of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A line of no length, which a round cap makes a disc: a quarter of [`Shape::Disc`]'s bytes.
    Dot,
    Disc,
    Square,
    Diamond,
    Triangle,
    /// A triangle that points down.
    Cap,
    Cross,
    Plus,
    /// A horizontal stroke.
    Rung,
}

/// Corners of strokes, in radii.
type Strokes = &'static [&'static [(f64, f64)]];

impl Shape {
    /// The strokes, and whether they are closed.
    fn strokes(self) -> (Strokes, bool) {
        match self {
            Self::Dot | Self::Disc => (&[], true),
            Self::Square => (
                &[&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]],
                true,
            ),
            Self::Diamond => (&[&[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)]], true),
            Self::Triangle => (&[&[(0.0, -1.2), (1.2, 1.0), (-1.2, 1.0)]], true),
            Self::Cap => (&[&[(0.0, 1.2), (1.2, -1.0), (-1.2, -1.0)]], true),
            Self::Cross => (
                &[&[(-1.0, -1.0), (1.0, 1.0)], &[(-1.0, 1.0), (1.0, -1.0)]],
                false,
            ),
            Self::Plus => (
                &[&[(-1.2, 0.0), (1.2, 0.0)], &[(0.0, -1.2), (0.0, 1.2)]],
                false,
            ),
            Self::Rung => (&[&[(-1.0, 0.0), (1.0, 0.0)]], false),
        }
    }

    /// Path data of the mark around a point, with this radius in pixels.
    pub(super) fn path(self, (x, y): (f64, f64), r: f64) -> String {
        let mut data = format!("M{} {}", short(x), short(y));
        match self {
            Self::Dot => data.push_str("h0"),
            Self::Disc => {
                let (r, back, wide) = (short(r), short(-r), short(2.0 * r));
                // A String takes every write.
                let _ = write!(
                    data,
                    "m{back} 0a{r} {r} 0 1 0 {wide} 0a{r} {r} 0 1 0 -{wide} 0"
                );
            }
            _ => {
                let (strokes, is_closed) = self.strokes();
                let mut at = (0.0, 0.0);
                for stroke in strokes {
                    for (k, (a, b)) in stroke.iter().enumerate() {
                        let letter = if k == 0 { 'm' } else { 'l' };
                        let (dx, dy) = (a * r - at.0, b * r - at.1);
                        let _ = write!(data, "{letter}{} {}", short(dx), short(dy));
                        at = (a * r, b * r);
                    }
                }
                if is_closed {
                    data.push('Z');
                }
            }
        }
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_centred() {
        for shape in [Shape::Dot, Shape::Disc, Shape::Square, Shape::Plus] {
            let data = shape.path((10.0, 20.5), 3.0);
            assert!(data.starts_with("M10 20.5"), "{data}");
            assert_eq!(data.matches('M').count(), 1, "{data}");
        }
        assert_eq!(
            Shape::Cross.path((0.0, 0.0), 1.0),
            "M0 0m-1 -1l2 2m-2 0l2 -2"
        );
    }
}
