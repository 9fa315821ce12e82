//! Values beside a baseline, one row each with its interval, in groups.

use super::chart::{Axis, Chart, Layer, Panel, Part};
use super::look::{Look, Looks};
use super::picture::Picture;
use super::scale::Mapping;
use super::svg::text_width;

/// Height of a row.
const ROW: f64 = 22.0;
/// Height of the heading of a group, and the gap before it.
const HEADING: f64 = 30.0;
/// Radius of a marker.
const MARKER: f64 = 5.0;
/// Width of the values at the right, at least, and the gap beside them.
const VALUES: f64 = 150.0;
const GAP: f64 = 24.0;

/// A value beside the baseline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PairedRow {
    /// Name of the row.
    pub name: String,
    /// Name that decides colour and marker: an algorithm, or the row's name.
    pub look: String,
    /// The value, in the unit of the axis.
    pub value: f64,
    /// Ends of the interval; equal to the value without one.
    pub interval: (f64, f64),
    /// The values in a few words, at the right.
    pub text: String,
    /// Text of the tooltip.
    pub tip: String,
}

/// Rows with a common heading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PairedGroup {
    /// The heading; shown where there are several groups.
    pub heading: String,
    /// The rows, from the top.
    pub rows: Vec<PairedRow>,
}

/// A figure of rows with intervals around a baseline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PairedRows {
    /// Label of the axis, with its unit.
    pub label: String,
    /// Mapping of values to the axis.
    pub mapping: Mapping,
    /// The baseline's value: 0 of differences, 1 of ratios.
    pub baseline: f64,
    /// The groups, from the top.
    pub groups: Vec<PairedGroup>,
}

impl PairedRow {
    /// A bar from the baseline to a mark with its interval.
    fn layer(&self, y: f64, baseline: f64, look: Look) -> Layer {
        let class = look.class();
        let (top, bottom) = (y - ROW / 2.0, y + ROW / 2.0);
        let ends = (f64::NEG_INFINITY, f64::INFINITY);
        let bar = format!("ratio-bar {class}");
        let (value, (low, high)) = (self.value, self.interval);
        let (from, to) = ((baseline, y - 5.0), (value, y + 5.0));
        let parts = vec![
            Part::Rect("hover".to_owned(), (ends.0, top), (ends.1, bottom), None),
            Part::Rect(bar, from, to, Some(0.25)),
            Part::span(&format!("median {class}"), (low, y), (high, y)),
            Part::of(look, MARKER, vec![(value, y)]),
        ];
        Layer::new("").item(&self.tip, parts)
    }
}

impl PairedRows {
    /// The figure in both layouts.
    pub fn picture(&self) -> Picture {
        // A single group is named by the title.
        let several = self.groups.len() > 1;
        let rule = Part::uprights("printed-thin", std::iter::once(self.baseline));
        let (mut layers, mut headings) = (vec![Layer::new("").part(rule)], Vec::new());
        let looks = self.groups.iter().flat_map(|group| &group.rows);
        let looks = Looks::of(looks.map(|row| row.look.as_str()));
        let (mut names, mut beside) = (Vec::new(), Vec::new());
        let (mut y, mut range) = (0.0, (self.baseline, self.baseline));
        for group in &self.groups {
            if several {
                headings.push((y + HEADING - 8.0, 0.0, group.heading.clone()));
                y += HEADING;
            }
            for row in &group.rows {
                range = (range.0.min(row.interval.0), range.1.max(row.interval.1));
                let middle = y + ROW / 2.0;
                names.push((middle, row.name.clone()));
                beside.push((middle, row.text.clone()));
                layers.push(row.layer(middle, self.baseline, looks.get(&row.look)));
                y += ROW;
            }
        }
        let widths = beside.iter().map(|(_, text)| text_width(text) + GAP);
        let right = widths.fold(VALUES, f64::max);
        let panel = Panel {
            x: Axis::new(&self.label, self.mapping, range, 6),
            y: Axis::given("", (y, 0.0), names).outer(headings),
            layers,
            beside,
            ..Panel::default()
        };
        let chart = Chart {
            height: y,
            right,
            ..Chart::of(&self.label, panel)
        };
        chart.picture()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, value: f64, half: f64) -> PairedRow {
        PairedRow {
            name: name.to_owned(),
            look: name.to_owned(),
            value,
            interval: (value - half, value + half),
            text: format!("{value}"),
            tip: format!("{name}: {value}"),
        }
    }

    fn figure(groups: Vec<PairedGroup>) -> String {
        let label = "Difference of fct_s (s)".to_owned();
        let rows = PairedRows {
            label,
            groups,
            ..PairedRows::default()
        };
        rows.picture().0
    }

    #[test]
    fn a_row_has_its_values_and_the_axis_its_ticks() {
        let rows = vec![row("a < b", -4.0, 1.0), row("fasor", 2.0, 0.0)];
        let svg = figure(vec![PairedGroup {
            heading: "alone".to_owned(),
            rows,
        }]);
        assert!(
            svg.contains("a &lt; b: -4") && !svg.contains("NaN"),
            "{svg}"
        );
        assert!(!svg.contains(">alone<"), "a single group has no heading");
        for tick in ["\u{2212}4", "0", "2"] {
            assert!(svg.contains(&format!(">{tick}<")), "{tick}: {svg}");
        }
        assert_eq!(svg.matches("ratio-bar").count(), 2);
    }

    #[test]
    fn long_values_have_room() {
        let long = PairedRow {
            text: "2600 (2890 to 2310), and more words than usual".to_owned(),
            ..row("fasor", 1.0, 0.5)
        };
        let svg = |row: PairedRow| {
            figure(vec![PairedGroup {
                heading: String::new(),
                rows: vec![row],
            }])
        };
        let end = |svg: &str| {
            let line = svg.split("class=\"rule\"").nth(1).expect("an axis");
            let end = line
                .split("x2=\"")
                .nth(1)
                .and_then(|rest| rest.split_once('"'));
            end.expect("its end").0.parse::<f64>().expect("a number")
        };
        let (usual, narrower) = (end(&svg(row("fasor", 1.0, 0.5))), end(&svg(long)));
        assert!(narrower < usual - 100.0, "{usual} {narrower}");
    }

    #[test]
    fn several_groups_have_headings() {
        let group = |heading: &str| PairedGroup {
            heading: heading.to_owned(),
            rows: vec![row("fasor", 1.0, 0.5)],
        };
        let svg = figure(vec![group("loss 1 %"), group("loss 5 %")]);
        assert!(svg.contains(">loss 1 %<") && svg.contains(">loss 5 %<"));
    }
}
