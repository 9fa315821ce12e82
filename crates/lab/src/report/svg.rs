//! SVG elements as text: escaped, with coordinates short enough for thousands of marks.

use std::fmt::Write as _;

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
}
