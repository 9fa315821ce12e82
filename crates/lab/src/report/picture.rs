//! Figures as files: the style is inside, with a value in the place of each variable, so that browsers, Inkscape and
//! librsvg show the same. Dark pages have other colours, which only browsers apply.

use super::FIGURE_STYLE;

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
    use crate::report::svg::Svg;

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
