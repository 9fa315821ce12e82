//! Figures as files, with the properties of classes as attributes, so that every program that reads SVG shows the
//! same. Dark pages have other colours, which only browsers apply.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::FIGURE_STYLE;

/// Width of every figure in user units; the page scales it.
pub(super) const WIDTH: f64 = 860.0;

/// A figure as an SVG element for an HTML page, with a tooltip for each mark that has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture(pub String);

impl Picture {
    /// An SVG file for light and dark pages.
    pub fn standalone(&self) -> String {
        resolved(&self.0, Pages::LightAndDark)
    }

    /// An SVG file on a white ground, for any viewer.
    pub fn on_white(&self) -> String {
        resolved(&self.0, Pages::Any)
    }
}

/// A white ground.
const GROUND: &str = "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>";

/// A rule of the style: its element, its classes, its declarations.
struct Rule<'a> {
    element: Option<&'a str>,
    classes: Vec<&'a str>,
    declarations: Vec<(&'a str, &'a str)>,
}

impl Rule<'_> {
    fn fits(&self, element: &str, classes: &[&str]) -> bool {
        self.element.is_none_or(|own| own == element)
            && self.classes.iter().all(|own| classes.contains(own))
    }

    /// More classes go over fewer, then an element over none.
    fn rank(&self) -> (usize, bool) {
        (self.classes.len(), self.element.is_some())
    }
}

/// A value by its variable, such as `--ink`.
type Variables<'a> = BTreeMap<&'a str, &'a str>;

fn declarations(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let pairs = text.split(';').filter_map(|pair| pair.split_once(':'));
    pairs.map(|(name, value)| (name.trim(), value.trim()))
}

/// The colours of pages in the light, and in the dark.
fn variables<'a>() -> [Variables<'a>; 2] {
    let mut blocks = FIGURE_STYLE.split(":root {").skip(1);
    [(); 2].map(|()| {
        let block = blocks.next().unwrap_or_default();
        let block = block.split('}').next().unwrap_or_default();
        declarations(block)
            .filter(|(name, _)| name.starts_with("--"))
            .collect()
    })
}

/// A colour of pages in the light by its variable, such as `--c0`; black for an unknown one.
pub(super) fn light(variable: &str) -> &'static str {
    let [light, _] = variables();
    light.get(variable).copied().unwrap_or("#000000")
}

/// The rules for figures, except rules for hovering.
fn rules<'a>() -> Vec<Rule<'a>> {
    let mut rules = Vec::new();
    for block in FIGURE_STYLE.split('}') {
        let Some((selectors, body)) = block.split_once('{') else {
            continue;
        };
        for selector in selectors.split(',').map(str::trim) {
            let Some(own) = selector.strip_prefix("svg.figure") else {
                continue;
            };
            if own.contains(':') {
                continue;
            }
            let mut parts = own.trim().split('.');
            let element = parts.next().filter(|name| !name.is_empty());
            rules.push(Rule {
                element: if own.is_empty() { Some("svg") } else { element },
                classes: parts.collect(),
                declarations: declarations(body).collect(),
            });
        }
    }
    rules.sort_by_key(Rule::rank);
    rules
}

/// A value with its variables replaced; `colour` is the series' class.
fn value(text: &str, colour: Option<&str>, variables: &Variables<'_>) -> String {
    let name = text
        .strip_prefix("var(")
        .and_then(|rest| rest.strip_suffix(')'));
    let Some(name) = name else {
        return text.to_owned();
    };
    let own = colour.map(|class| format!("--{class}"));
    let name = match &own {
        Some(own) if name == "--c" => own,
        _ => name,
    };
    let found = variables.get(name).copied();
    found.unwrap_or("currentColor").to_owned()
}

/// The class of a series' colour, such as `c3`.
fn colour_of<'a>(classes: &[&'a str]) -> Option<&'a str> {
    let is_colour = |class: &&&str| {
        let digits = class.strip_prefix('c');
        digits.is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))
    };
    classes.iter().find(is_colour).copied()
}

/// Pages that show a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pages {
    /// Light ones, and dark ones by the reader's setting.
    LightAndDark,
    /// Any: the figure has a white background.
    Any,
}

/// The figure with attributes in the place of its style.
pub(super) fn resolved(svg: &str, pages: Pages) -> String {
    let ([light, dark], rules) = (variables(), rules());
    let mut text = String::with_capacity(2 * svg.len());
    for (k, piece) in svg.split('<').enumerate() {
        if k == 0 {
            text.push_str(piece);
            continue;
        }
        // Values of attributes are escaped, so the first bracket ends the tag.
        let (tag, rest) = piece.split_once('>').unwrap_or((piece, ""));
        text.push('<');
        let (open, end) = tag.strip_suffix('/').map_or((tag, ""), |open| (open, "/"));
        let open = without_data(open);
        text.push_str(&open);
        if !open.starts_with(['/', '!', '?']) {
            attributes(&mut text, &open, &rules, &light);
        }
        text.push_str(end);
        text.push('>');
        match pages {
            Pages::LightAndDark if k == 1 => text.push_str(&in_the_dark(&rules, &dark)),
            Pages::Any if k == 1 => text.push_str(GROUND),
            _ => {}
        }
        text.push_str(rest);
    }
    text
}

/// A tag without the attributes that a page's script reads.
fn without_data(tag: &str) -> Cow<'_, str> {
    if !tag.contains(" data-") {
        return Cow::Borrowed(tag);
    }
    let mut parts = tag.split(" data-");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // What follows the second quotation mark.
        let rest = part.splitn(3, '"').nth(2);
        kept.push_str(rest.unwrap_or_default());
    }
    Cow::Owned(kept)
}

fn attributes(text: &mut String, tag: &str, rules: &[Rule<'_>], variables: &Variables<'_>) {
    let element = tag.split([' ', '\n']).next().unwrap_or_default();
    let classes = tag
        .split_once("class=\"")
        .and_then(|(_, rest)| rest.split_once('"'));
    let classes: Vec<&str> = classes.map_or_else(Vec::new, |(all, _)| all.split(' ').collect());
    let mut all: BTreeMap<&str, String> = BTreeMap::new();
    for rule in rules.iter().filter(|rule| rule.fits(element, &classes)) {
        for (name, written) in &rule.declarations {
            all.insert(name, value(written, colour_of(&classes), variables));
        }
    }
    for (name, value) in all {
        let is_there = tag.contains(&format!(" {name}=\""));
        if !is_there && value != "inherit" && name != "font-variant-numeric" {
            // Writing to a String cannot fail.
            let _ = write!(text, " {name}=\"{}\"", value.replace('"', "'"));
        }
    }
}

/// The colours of pages in the dark, as a style that goes over the attributes.
fn in_the_dark(rules: &[Rule<'_>], variables: &Variables<'_>) -> String {
    let mut text = "<style>@media (prefers-color-scheme: dark) {\n".to_owned();
    for rule in rules {
        let of_series = rule
            .declarations
            .iter()
            .any(|(_, value)| *value == "var(--c)");
        let colours = (0..7).map(|k| format!("c{k}"));
        let colours: Vec<Option<String>> = if of_series {
            colours.map(Some).collect()
        } else {
            vec![None]
        };
        for colour in colours {
            let own: Vec<String> = rule
                .declarations
                .iter()
                .filter(|(_, written)| written.starts_with("var("))
                .map(|(name, written)| {
                    format!("{name}: {}", value(written, colour.as_deref(), variables))
                })
                .collect();
            if own.is_empty() {
                continue;
            }
            let classes = rule.classes.iter().copied().chain(colour.as_deref());
            let classes: String = classes.flat_map(|class| [".", class]).collect();
            let element = rule.element.unwrap_or_default();
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{element}{classes} {{ {}; }}", own.join("; "));
        }
    }
    text + "}</style>"
}

#[cfg(test)]
mod tests {
    use super::super::svg::Svg;
    use super::*;

    #[test]
    fn every_mark_has_its_colour_as_an_attribute() {
        let mut svg = Svg::default();
        svg.rect("box c1", 0.0, 0.0, 1.0, 1.0);
        svg.line("median c2", (0.0, 0.0), (1.0, 1.0));
        svg.line("mesh-link good", (0.0, 0.0), (1.0, 1.0));
        svg.text("tick middle", (0.0, 0.0), "a > b");
        svg.rect_faint("heat-more", (0.0, 0.0), (1.0, 1.0), 0.5);
        let text = resolved(&svg.finish(10.0, 10.0, "label", ""), Pages::LightAndDark);
        assert!(
            !text.contains("var(") && !text.contains("currentColor"),
            "{text}"
        );
        for part in [
            "<rect class=\"box c1\" x=\"0\" y=\"0\" width=\"1\" height=\"1\" fill=\"#d55e00\" fill-opacity=\".22\" stroke=\"#d55e00\"",
            "stroke=\"#009e73\" stroke-width=\"3\"/>",
            "stroke-opacity=\".75\" stroke-width=\"1.6\"/>",
            "fill=\"#5b6670\" font-size=\"12px\" text-anchor=\"middle\">a &gt; b</text>",
            "fill-opacity=\"0.50\" fill=\"#0072b2\"/>",
            ".box.c0 { fill: #56a8e8; stroke: #56a8e8; }",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn a_file_has_nothing_that_only_pages_use() {
        let mut svg = Svg::default();
        let key = "class=\"key\" data-key=\"a &gt; b\" aria-label=\"c\"";
        svg.group(key, |svg| svg.rect("box c2", 0.0, 0.0, 1.0, 1.0));
        let text = resolved(&svg.finish(10.0, 10.0, "label", ""), Pages::Any);
        assert!(!text.contains("data-"), "{text}");
        assert!(
            text.contains("<g class=\"key\" aria-label=\"c\">"),
            "{text}"
        );
    }

    #[test]
    fn a_figure_for_any_page_has_its_own_ground_and_no_style() {
        let mut svg = Svg::default();
        svg.rect("box c1", 0.0, 0.0, 1.0, 1.0);
        let text = resolved(&svg.finish(10.0, 10.0, "label", ""), Pages::Any);
        let (ground, mark) = (text.find(GROUND), text.find("class=\"box c1\""));
        assert!(ground.is_some() && ground < mark, "{text}");
        assert!(
            !text.contains("<style>") && !text.contains("var("),
            "{text}"
        );
    }
}
