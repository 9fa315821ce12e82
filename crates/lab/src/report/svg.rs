//! SVG: elements as text, marks, and figures as files.
//!
//! Coordinates are short enough for thousands of marks. An outline begins at its centre and goes on by relative commands, so
//! that one element holds thousands of marks and a script moves one by its first two numbers.
//!
//! In a file, the style is inside, with a value in the place of each variable, so that browsers, Inkscape and librsvg show
//! the same. Dark pages have other colours, which only browsers apply.

use std::fmt::Write as _;

use super::FIGURE_STYLE;

/// A drawing under construction. Colours come from CSS classes, so one drawing serves light and
/// dark pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Svg {
    body: String,
}

impl Svg {
    /// `<rect>`
    pub(super) fn rect(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64) {
        self.push(format_args!(
            "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
            short(x),
            short(y),
            short(width.max(0.0)),
            short(height.max(0.0)),
        ));
    }

    /// `<line>`
    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.push(format_args!(
            "<line class=\"{class}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>",
            short(from.0),
            short(from.1),
            short(to.0),
            short(to.1),
        ));
    }

    /// `<path>`
    pub(super) fn path(&mut self, class: &str, data: &str) {
        self.push(format_args!("<path class=\"{class}\" d=\"{data}\"/>"));
    }

    /// `<text>`; `class` may have `middle` or `end` for its anchor.
    pub(super) fn text(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        self.push(format_args!(
            "<text class=\"{class}\" x=\"{}\" y=\"{}\">{}</text>",
            short(x),
            short(y),
            escape(text),
        ));
    }

    /// `<text>` turned a quarter to the left.
    pub(super) fn text_upwards(&mut self, class: &str, (x, y): (f64, f64), text: &str) {
        self.push(format_args!(
            "<text class=\"{class}\" transform=\"translate({} {}) rotate(-90)\">{}</text>",
            short(x),
            short(y),
            escape(text),
        ));
    }

    /// A group of elements with a tooltip.
    pub(super) fn with_title(&mut self, title: &str, draw: impl FnOnce(&mut Self)) {
        self.push(format_args!(
            "<g class=\"tip\"><title>{}</title>",
            escape(title)
        ));
        draw(self);
        self.body.push_str("</g>\n");
    }

    /// A group of elements with data attributes or a class for the page's script.
    pub(super) fn group(&mut self, attributes: &str, draw: impl FnOnce(&mut Self)) {
        self.push(format_args!("<g {attributes}>"));
        draw(self);
        self.body.push_str("</g>\n");
    }

    /// The drawing as an element for an HTML page; it scales with the page's width.
    /// `more` are further attributes of it.
    pub(super) fn finish(self, width: f64, height: f64, label: &str, more: &str) -> String {
        format!(
            "<svg class=\"figure\"{more} viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\" xmlns=\"http://www.w3.org/2000/svg\">\n{}</svg>\n",
            short(width),
            short(height),
            escape(label),
            self.body,
        )
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.body.write_fmt(element);
        self.body.push('\n');
    }
}

/// A pixel with one decimal at most.
pub(super) fn short(pixels: f64) -> String {
    let text = format!("{pixels:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

/// Text made safe for elements and attributes.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            c => safe.push(c),
        }
    }
    safe
}

/// About how wide a text is in the page's font at 12 pixels.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars()
        .map(|c| match c {
            'i' | 'l' | 'j' | 't' | 'f' | 'r' | ' ' | '.' | ',' | ':' | '-' | '(' | ')' => 4.0,
            'm' | 'w' | 'M' | 'W' => 10.0,
            'A'..='Z' => 8.2,
            '\u{202f}' => 2.5,
            _ => 6.8,
        })
        .sum()
}

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

/// Width of every figure in user units; the page scales it.
pub(super) const WIDTH: f64 = 860.0;

/// A white ground.
const GROUND: &str = "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>";

/// A figure as an SVG element for an HTML page, with a tooltip for each mark that has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture(pub String);

impl Picture {
    /// An SVG file for light and dark pages.
    pub fn standalone(&self) -> String {
        let [light, dark] = styles();
        self.with(&format!(
            "<style>\n{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n</style>\n"
        ))
    }

    /// An SVG file on a white ground, for any page.
    pub fn on_white(&self) -> String {
        let [light, _] = styles();
        self.with(&format!("<style>\n{light}</style>\n{GROUND}\n"))
    }

    /// The element with a head in front of its content.
    fn with(&self, head: &str) -> String {
        // Values of attributes are escaped, so the first bracket ends the tag.
        let (tag, content) = self.0.split_once(">\n").unwrap_or_default();
        format!("{tag}>\n{head}{content}")
    }
}

/// Variables of light pages and of dark ones, such as `--ink`, with their values.
fn variables() -> [Vec<(&'static str, &'static str)>; 2] {
    let mut blocks = FIGURE_STYLE.split(":root {").skip(1);
    [(); 2].map(|()| {
        let block = blocks.next().and_then(|rest| rest.split('}').next());
        let pairs = block.unwrap_or_default().split(';');
        let pairs = pairs.filter_map(|pair| pair.split_once(':'));
        let pairs = pairs.map(|(name, value)| (name.trim(), value.trim()));
        pairs.filter(|(name, _)| name.starts_with("--")).collect()
    })
}

/// The rules of light pages and of dark ones without variables and without rules for a pointer.
fn styles() -> [String; 2] {
    let is_rule = |line: &&str| line.starts_with(['s', '.']) && !line.contains(":hover");
    let rules: Vec<&str> = FIGURE_STYLE.lines().filter(is_rule).collect();
    let rules = rules.join("\n") + "\n";
    variables().map(|variables| {
        variables.iter().fold(rules.clone(), |text, (name, value)| {
            text.replace(&format!("var({name})"), value)
        })
    })
}

/// A colour of light pages by its variable, such as `--c0`; black for an unknown one.
pub(super) fn light(variable: &str) -> &'static str {
    let [light, _] = variables();
    let mut found = light.into_iter().filter(|(name, _)| *name == variable);
    found.next().map_or("#000000", |(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_element() {
        let mut svg = Svg::default();
        svg.with_title("a < b & \"c\"", |svg| {
            svg.text("label", (1.0, 2.5), "</text>");
        });
        let text = svg.finish(10.0, 10.0, "\"x\"", "");
        assert!(text.contains("<title>a &lt; b &amp; &quot;c&quot;</title>"));
        assert!(text.contains(">&lt;/text&gt;</text>"));
        assert!(text.contains("aria-label=\"&quot;x&quot;\""));
    }

    #[test]
    fn coordinates_are_short() {
        assert_eq!(short(12.0), "12");
        assert_eq!(short(12.345), "12.3");
    }

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

    #[test]
    fn svg_files_have_inline_styles_without_variables() {
        let mut svg = Svg::default();
        svg.rect("box c1", 0.0, 0.0, 1.0, 1.0);
        let picture = Picture(svg.finish(10.0, 10.0, "a > b", ""));
        let (both, white) = (picture.standalone(), picture.on_white());
        for text in [&both, &white] {
            assert!(text.contains(".c1 { color: #d55e00; }"), "{text}");
            assert!(!text.contains("var(") && !text.contains(":hover"), "{text}");
            assert!(text.ends_with("height=\"1\"/>\n</svg>\n"), "{text}");
        }
        assert!(both.contains(".c1 { color: #f58a4b; }") && !both.contains(GROUND));
        assert!(white.contains(GROUND) && !white.contains("@media"));
    }
}
