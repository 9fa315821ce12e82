//! Values beside a baseline, one row each with its interval, in groups; completion times relative to a baseline
//! algorithm, paired by seed.

use super::chart::{Axis, Chart, Layer, Panel, Part};
use super::look::{Look, Looks};
use super::page::FigureBlock;
use super::scale::Mapping;
use super::svg::Picture;
use super::svg::text_width;
use crate::paired::Paired;
use crate::run::{Outcome, Row, Timed};
use crate::summary::{self, Series, label};

/// Height of a row.
const ROW: f64 = 22.0;
/// Height of the heading of a group, and the gap before it.
const HEADING: f64 = 30.0;
/// Radius of a marker.
const MARKER: f64 = 5.0;
/// Width of the values at the right, at least, and the gap beside them.
const VALUES: f64 = 150.0;
const GAP: f64 = 24.0;
/// The most ratios of one figure; box plots show more.
const RATIOS_MAX: usize = 90;
/// The algorithm that others are compared with, where a cell has it; else the cell's first.
const BASELINE: &str = "default";

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
        let (top, bottom) = (y - ROW / 2.0, y + ROW / 2.0);
        let (value, (low, high)) = (self.value, self.interval);
        let (from, to) = ((baseline, y - 5.0), (value, y + 5.0));
        let parts = vec![
            Part::rect("hover", (f64::NEG_INFINITY, top), (f64::INFINITY, bottom)),
            Part::rect(&look.with("ratio-bar"), from, to),
            Part::span(&look.with("median"), (low, y), (high, y)),
            Part::of(look, MARKER, vec![(value, y)]),
        ];
        Layer::new("").item(&self.tip, parts)
    }
}

impl PairedRows {
    /// The figure as an SVG element.
    pub fn picture(&self) -> Picture {
        // A single group is named by the title.
        let several = self.groups.len() > 1;
        let rule = Part::uprights("printed-thin", std::iter::once(self.baseline));
        let (mut layers, mut headings) = (vec![Layer::new("").part(rule)], Vec::new());
        let rows = self.groups.iter().flat_map(|group| &group.rows);
        let looks = Looks::of(rows.map(|row| row.look.as_str()));
        let (mut names, mut beside) = (Vec::new(), Vec::new());
        let mut y = 0.0;
        for group in &self.groups {
            if several {
                headings.push((y + HEADING - 8.0, 0.0, group.heading.clone()));
                y += HEADING;
            }
            for row in &group.rows {
                let middle = y + ROW / 2.0;
                names.push((middle, row.name.clone()));
                beside.push((middle, row.text.clone()));
                layers.push(row.layer(middle, self.baseline, looks.get(&row.look)));
                y += ROW;
            }
        }
        let widths = beside.iter().map(|(_, text)| text_width(text) + GAP);
        let right = widths.fold(VALUES, f64::max);
        let x = Axis::linear(&self.label, 6).mapped(self.mapping);
        let names = Axis::given((y, 0.0), names).outer(headings);
        let panel = Panel {
            beside,
            ..Panel::new(x.with(self.baseline), names, layers)
        };
        let chart = Chart::grid(&self.label, 1, y, vec![panel]);
        Chart { right, ..chart }.picture()
    }
}

/// A point and an interval for each algorithm of each cell; `None` with fewer than ten seeds, one algorithm, or too
/// many lines.
pub(super) fn ratios(outcome: &Outcome<'_>, rows: &[Row]) -> Option<FigureBlock> {
    let timed = Timed::of(rows);
    let series = summary::series(outcome, |record| Some(timed.of_run(record)?.ln()));
    let cells = series.chunk_by(|a, b| a.scenario == b.scenario);
    let cells: Vec<&[Series]> = cells.filter(|cell| cell.len() > 1).collect();
    let comparisons = cells.iter().map(|cell| cell.len() - 1).sum();
    let (mut groups, mut baselines): (Vec<PairedGroup>, Vec<&str>) = (Vec::new(), Vec::new());
    for cell in cells {
        let named = cell.iter().find(|series| series.algorithm == BASELINE);
        let baseline = named.unwrap_or(&cell[0]);
        let ratio = |series: &Series| {
            if std::ptr::eq(series, baseline) {
                return Some(ratio(&series.algorithm, None));
            }
            let paired = Paired::of(&baseline.values, &series.values, comparisons)?;
            Some(ratio(&series.algorithm, Some(paired)))
        };
        let mut ratios: Vec<PairedRow> = cell.iter().filter_map(ratio).collect();
        if ratios.len() < 2 {
            continue;
        }
        ratios.sort_by(|a, b| a.value.total_cmp(&b.value));
        let row = rows.iter().find(|row| row.scenario == baseline.scenario);
        baselines.push(baseline.algorithm.as_str());
        groups.push(PairedGroup {
            heading: row.map_or_else(String::new, |row| label(rows, row)),
            rows: ratios,
        });
    }
    let all: usize = groups.iter().map(|group| group.rows.len()).sum();
    if groups.is_empty() || all > RATIOS_MAX {
        return None;
    }
    baselines.dedup();
    let baseline = match baselines[..] {
        [one] => one,
        _ => "the first algorithm",
    };
    let caption = format!(
        "Geometric means of the ratio in runs with the same seed, with intervals that hold for all {} \
         comparisons together at 95 % (Student's t, Bonferroni). A ratio of 0.5 is half of the time.",
        all - groups.len()
    );
    let rows = PairedRows {
        label: format!("{} relative to {baseline}", timed.noun()),
        mapping: Mapping::Logarithmic,
        baseline: 1.0,
        groups,
    };
    let title = format!("{} relative to {baseline}.", timed.heading());
    Some(FigureBlock::new(rows.picture(), title, &caption))
}

/// The row of an algorithm from logarithms of the ratio, none for the baseline.
fn ratio(algorithm: &str, paired: Option<Paired>) -> PairedRow {
    let (mean, half) = paired.map_or((0.0, 0.0), |p| (p.mean, p.half));
    let [value, low, high] = [mean, mean - half, mean + half].map(f64::exp);
    let (text, seeds) = match paired {
        None => ("1, baseline".to_owned(), String::new()),
        Some(paired) => (
            format!("{value:.2} ({low:.2} to {high:.2})"),
            format!(", {} paired seeds", paired.seeds),
        ),
    };
    PairedRow {
        name: algorithm.to_owned(),
        look: algorithm.to_owned(),
        value,
        interval: (low, high),
        tip: format!("{algorithm}: {text}{seeds}"),
        text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, value: f64, half: f64, text: &str) -> PairedRow {
        PairedRow {
            name: name.to_owned(),
            look: name.to_owned(),
            value,
            interval: (value - half, value + half),
            text: text.to_owned(),
            tip: format!("{name}: {value}"),
        }
    }

    fn figure(headings: &[&str], rows: &[PairedRow]) -> String {
        let group = |heading: &&str| PairedGroup {
            heading: (*heading).to_owned(),
            rows: rows.to_vec(),
        };
        let rows = PairedRows {
            label: "Difference of fct_s (s)".to_owned(),
            groups: headings.iter().map(group).collect(),
            ..PairedRows::default()
        };
        rows.picture().0
    }

    #[test]
    fn rows_have_values_and_several_groups_headings() {
        let rows = [row("a < b", -4.0, 1.0, "-4"), row("fasor", 2.0, 0.0, "2")];
        let svg = figure(&["alone"], &rows);
        assert!(svg.contains("a &lt; b: -4") && !svg.contains("NaN"));
        for tick in ["\u{2212}4", "0", "2"] {
            assert!(svg.contains(&format!(">{tick}<")), "{tick}: {svg}");
        }
        assert_eq!(svg.matches("ratio-bar").count(), 2);
        assert!(!svg.contains(">alone<"));
        let svg = figure(&["loss 1 %", "loss 5 %"], &rows);
        assert!(svg.contains(">loss 1 %<") && svg.contains(">loss 5 %<"));
    }
}
