//! Lines: means of a metric against a setting.

use super::chart::{Axis, Chart, Layer, Panel, Part, Shared};
use super::comparison::varying;
use super::look::{COLOURS, Looks};
use super::metric;
use super::page::FigureBlock;
use super::scale::Mapping;
use super::svg::Picture;
use crate::metrics::Metric;
use crate::run::{Outcome, Row};
use crate::scenario::Cell;
use crate::scenario::value::Value;
use crate::summary;
use crate::text::distinct;

/// Fewer numbers make no line.
const NUMBERS_MIN: usize = 3;
/// Ratio of the largest number to the smallest from which the axis of a setting is logarithmic.
const DECADES: f64 = 20.0;
/// The most panels for other settings.
const PANELS_MAX: usize = 24;

/// Means against the values of a setting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SweptFigure {
    /// The setting.
    pub key: String,
    /// Its values as written, such as `64 B`, in order.
    pub values: Vec<String>,
    /// Label of the vertical axis, with its unit.
    pub label: String,
    /// The panels, in rows of two.
    pub panels: Vec<SweptPanel>,
}

/// Lines with a common title.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SweptPanel {
    /// The title; may be empty.
    pub title: String,
    /// The lines.
    pub lines: Vec<SweptLine>,
}

/// Means of one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SweptLine {
    /// An algorithm, or another name; it decides colour and marker.
    pub name: String,
    /// Place of the setting's value, mean, and half of the interval of 95 %.
    pub points: Vec<(usize, f64, f64)>,
}

/// The figure of a run whose cells differ in a number, with a panel for each combination of other settings; none
/// with fewer than three numbers, or with too many panels. Of several numbers, the axis has the one with the most
/// values.
pub(super) fn figure(metric: &Metric, outcome: &Outcome<'_>, rows: &[Row]) -> Option<FigureBlock> {
    let scenario = outcome.plan().scenario();
    let cell = |row: &Row| scenario.cell(row.cell_name());
    let cells: Vec<&Cell> = rows.iter().filter_map(cell).collect();
    let mut others = varying(&cells);
    let values_of = |key: &String| {
        let values = cells.iter().filter_map(|cell| cell.value(key));
        distinct(values.map(in_one_unit))
    };
    let swept = others.iter().map(|key| (key.clone(), values_of(key)));
    let swept = swept.filter(|(_, values)| values.len() >= NUMBERS_MIN);
    let swept = swept.filter(|(_, values)| numbers(values).is_some());
    let (key, values) = swept.max_by_key(|(_, values)| values.len())?;
    others.retain(|other| *other != key);
    let mut names = summary::algorithms(rows);
    names.truncate(COLOURS);
    let mut panels: Vec<SweptPanel> = Vec::new();
    for row in rows {
        let (Some(of), Some(cell)) = (row.metrics.get(metric.name), cell(row)) else {
            continue;
        };
        let own = in_one_unit(cell.value(&key)?);
        let place = values.iter().position(|value| *value == own)?;
        let named = others
            .iter()
            .filter_map(|key| Some(format!("{key} {}", cell.value(key)?)));
        let title = named.collect::<Vec<_>>().join(", ");
        let panel = panels.iter().position(|panel| panel.title == title);
        let panel = panel.unwrap_or_else(|| {
            let line = |name: &&str| SweptLine {
                name: (*name).to_owned(),
                points: Vec::new(),
            };
            let lines = names.iter().map(line).collect();
            panels.push(SweptPanel { title, lines });
            panels.len() - 1
        });
        let mut lines = panels[panel].lines.iter_mut();
        if let Some(line) = lines.find(|line| line.name == row.algorithm) {
            line.points.push((place, of.mean, of.ci95));
        }
    }
    if !(1..=PANELS_MAX).contains(&panels.len()) {
        return None;
    }
    let title = format!("{} against {key}", metric.name);
    let caption = format!("{} Means with intervals of 95 %.", metric.about);
    let label = metric::axis(metric);
    let figure = SweptFigure {
        key,
        values,
        label,
        panels,
    };
    let picture = figure.in_order().picture();
    Some(FigureBlock::new(picture, title, &caption))
}

/// The text of a value: times in seconds and rates in kbit/s.
fn in_one_unit(value: &Value) -> String {
    match value {
        Value::Rate(bps) => format!("{} kbit/s", *bps as f64 / 1e3),
        Value::Time(Some(time)) => format!("{} s", time.as_micros() as f64 / 1e6),
        other => other.to_string(),
    }
}

/// The layer of a line; `tip` returns the name of a point by index, for its tooltip.
fn layer(
    name: &str,
    points: &[(f64, f64, f64)],
    looks: &Looks,
    tip: &dyn Fn(usize) -> String,
) -> Layer {
    let look = looks.get(name);
    let mark = |number, mean| Part::of(look, 3.4, vec![(number, mean)]);
    let intervals = points
        .iter()
        .map(|(n, mean, half)| vec![(*n, mean - half), (*n, mean + half)]);
    let means = points.iter().map(|(number, mean, _)| (*number, *mean));
    let mut layer = Layer::new(name);
    if let Some((number, mean, _)) = points.first() {
        let lines = vec![
            Part::line(&look.with("median"), means.collect()),
            Part::Line(look.with("whisker"), intervals.collect()),
            mark(*number, *mean),
        ];
        layer.add("", lines);
    }
    for (k, (number, mean, half)) in points.iter().enumerate() {
        let tip = format!("{}: {mean:.3} \u{b1} {half:.3}", tip(k));
        layer.add(&tip, vec![mark(*number, *mean)]);
    }
    layer
}

impl SweptFigure {
    /// The figure as an SVG element: a numeric axis where all values are numbers of one unit, else equal parts.
    pub fn picture(&self) -> Picture {
        let numbers = self.numbers();
        let (x, unit) = match &numbers {
            Some((all, unit)) => (Axis::linear("", 5).mapped(Self::mapping(all)), *unit),
            None => (Axis::categories(self.values.iter().cloned()), ""),
        };
        let at = |place: usize| match &numbers {
            Some((all, _)) => all[place],
            None => place as f64 + 0.5,
        };
        let lines = self.panels.iter().flat_map(|panel| &panel.lines);
        let looks = Looks::of(lines.map(|line| line.name.as_str()));
        let panels = self.panels.iter().map(|panel| {
            let layers = panel.lines.iter().map(|SweptLine { name, points }| {
                let tip = |k: usize| format!("{name}, {}", self.values[points[k].0]);
                let points = points
                    .iter()
                    .map(|(place, mean, half)| (at(*place), *mean, *half));
                let points: Vec<_> = points.collect();
                layer(name, &points, &looks, &tip)
            });
            let y = Axis::linear("", 4).with(0.0);
            Panel::new(x.clone(), y, layers.collect()).titled(&panel.title)
        });
        let label = format!("{} against {}", self.label, self.key);
        let below = match unit {
            "" => self.key.clone(),
            unit => format!("{} ({unit})", self.key),
        };
        let (columns, shared) = match self.panels.len() {
            0..=1 => (1, Shared::Neither),
            _ => (2, Shared::Both),
        };
        let chart = Chart::grid(&label, columns, 220.0, panels.collect()).below(&below);
        let y_label = self.label.clone();
        Chart {
            shared,
            y_label,
            ..chart
        }
        .picture()
    }

    /// The same figure with its values in the order of their numbers, where all are numbers of one unit.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        let Some((numbers, _)) = self.numbers() else {
            return self;
        };
        let mut order: Vec<usize> = (0..numbers.len()).collect();
        order.sort_by(|a, b| numbers[*a].total_cmp(&numbers[*b]));
        let mut places = vec![0; order.len()];
        for (place, value) in order.iter().enumerate() {
            places[*value] = place;
        }
        self.values = order.iter().map(|k| self.values[*k].clone()).collect();
        let panels = self.panels.iter_mut();
        for line in panels.flat_map(|panel| &mut panel.lines) {
            for (place, ..) in &mut line.points {
                *place = places[*place];
            }
            line.points.sort_by_key(|point| point.0);
        }
        self
    }

    /// Numbers of the values and their unit, where all are numbers of one unit.
    pub fn numbers(&self) -> Option<(Vec<f64>, &str)> {
        numbers(&self.values)
    }

    /// Mapping of numbers to the axis: logarithmic over a wide range.
    pub fn mapping(numbers: &[f64]) -> Mapping {
        let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let high = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if low > 0.0 && high / low >= DECADES {
            Mapping::Logarithmic
        } else {
            Mapping::Linear
        }
    }
}

/// Numbers of values and their unit, where all are numbers of one unit.
fn numbers(values: &[String]) -> Option<(Vec<f64>, &str)> {
    let read: Option<Vec<(f64, &str)>> = values.iter().map(|value| number(value)).collect();
    let read = read.filter(|all| all.len() > 1 && all.iter().all(|one| one.1 == all[0].1))?;
    let unit = read[0].1;
    Some((read.into_iter().map(|(number, _)| number).collect(), unit))
}

/// The number of a value and its unit.
fn number(value: &str) -> Option<(f64, &str)> {
    let (digits, unit) = value.split_once(' ').unwrap_or((value, ""));
    let number = digits.parse::<f64>().ok().filter(|n| n.is_finite())?;
    Some((number, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn swept(values: &[&str], titles: &[&str]) -> SweptFigure {
        let points = (0..values.len()).map(|k| (k, 2.0 + k as f64, 0.5));
        let line = |name: &str| SweptLine {
            name: name.to_owned(),
            points: points.clone().collect(),
        };
        let panel = |title: &&str| SweptPanel {
            title: (*title).to_owned(),
            lines: vec![line("default"), line("fasor")],
        };
        SweptFigure {
            key: "block".to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
            label: "fct_s (s)".to_owned(),
            panels: titles.iter().map(panel).collect(),
        }
    }

    #[test]
    fn numbers_of_one_unit_have_an_axis_of_numbers_in_order() {
        let ordered = swept(&["10 B", "9 B", "100 B"], &[""]).in_order();
        assert_eq!(ordered.values, ["9 B", "10 B", "100 B"]);
        let points = &ordered.panels[0].lines[0].points;
        assert_eq!(points[..], [(0, 3.0, 0.5), (1, 2.0, 0.5), (2, 4.0, 0.5)]);
        let svg = ordered.picture().0;
        assert!(svg.contains(">block (B)<") && svg.contains("data-x=\"linear"));
        assert!(svg.contains("<title>fasor, 100 B: 4.000 \u{b1} 0.500</title>"));
        let wide = swept(&["10", "100", "1000"], &[""]).picture().0;
        assert!(wide.contains("data-x=\"log") && wide.contains(">block<"));
    }

    #[test]
    fn other_values_have_equal_parts_as_given() {
        for values in [&["none", "high"][..], &["400 ms", "2 s"], &["64 B"]] {
            let figure = swept(values, &["loss 1 %", "loss 5 %"]);
            assert_eq!(figure.clone().in_order(), figure);
            let svg = figure.picture().0;
            for value in values {
                assert!(svg.contains(&format!(">{value}<")), "{value}: {svg}");
            }
            assert!(svg.contains(">loss 5 %<"));
        }
    }
}
