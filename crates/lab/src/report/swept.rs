//! A metric against any setting that was swept: a line for each name, a panel for each group.

use super::chart::{Axis, Chart, Panel, Shared};
use super::line_plot::Line;
use super::look::Looks;
use super::picture::Picture;
use super::scale::Mapping;

/// Height of a panel.
const HEIGHT: f64 = 220.0;
/// Ratio of the largest number to the smallest from which the axis is logarithmic.
const DECADES: f64 = 20.0;

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

/// Places of the values on the horizontal axis.
struct Places {
    at: Vec<f64>,
    axis: Axis,
    label: String,
}

impl SweptFigure {
    /// The figure in both layouts.
    pub fn picture(&self) -> Picture {
        let places = self.places();
        let several = self.panels.len() > 1;
        let lines = self.panels.iter().flat_map(|panel| &panel.lines);
        let looks = Looks::of(lines.map(|line| line.name.as_str()));
        let panels = self
            .panels
            .iter()
            .map(|panel| self.panel(panel, &places, &looks));
        let chart = Chart {
            label: format!("{} against {}", self.label, self.key),
            columns: if several { 2 } else { 1 },
            height: HEIGHT,
            right: 16.0,
            shared: if several {
                Shared::Both
            } else {
                Shared::Neither
            },
            x_label: places.label.clone(),
            y_label: self.label.clone(),
            panels: panels.collect(),
            ..Chart::default()
        };
        chart.picture()
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
        let read: Option<Vec<(f64, &str)>> =
            self.values.iter().map(|value| number(value)).collect();
        let read = read.filter(|all| all.len() > 1 && all.iter().all(|one| one.1 == all[0].1))?;
        let unit = read[0].1;
        Some((read.into_iter().map(|(number, _)| number).collect(), unit))
    }

    /// Mapping of numbers to the axis: logarithmic over a wide range.
    pub fn mapping(numbers: &[f64]) -> Mapping {
        let (low, high) = ends(numbers);
        if low > 0.0 && high / low >= DECADES {
            Mapping::Logarithmic
        } else {
            Mapping::Linear
        }
    }

    /// A numeric axis where all values are numbers of one unit, else equal parts.
    fn places(&self) -> Places {
        let Some((at, unit)) = self.numbers() else {
            let middle = |k: usize| k as f64 + 0.5;
            return Places {
                at: (0..self.values.len()).map(middle).collect(),
                axis: Axis::categories("", self.values.iter().cloned()),
                label: self.key.clone(),
            };
        };
        let axis = Axis::new("", Self::mapping(&at), ends(&at), 5);
        let unit = match unit {
            "" => String::new(),
            unit => format!(" ({unit})"),
        };
        let label = format!("{}{unit}", self.key);
        Places { at, axis, label }
    }

    fn panel(&self, panel: &SweptPanel, places: &Places, looks: &Looks) -> Panel {
        let ends = panel.lines.iter().flat_map(|line| &line.points);
        let ends = ends.flat_map(|(_, mean, half)| [mean - half, mean + half]);
        let (low, high) = ends.fold((0.0_f64, 0.0_f64), |(low, high), end| {
            (low.min(end), high.max(end))
        });
        let layer = |line: &SweptLine| {
            let points = line.points.iter();
            let points = points.map(|(place, mean, half)| (places.at[*place], *mean, *half));
            let drawn = Line {
                algorithm: line.name.clone(),
                points: points.collect(),
            };
            drawn.layer(looks, &|place| {
                format!("{}, {}", line.name, self.values[line.points[place].0])
            })
        };
        Panel {
            title: panel.title.clone(),
            x: places.axis.clone(),
            y: Axis::new("", Mapping::Linear, (low, high), 4),
            layers: panel.lines.iter().map(layer).collect(),
            ..Panel::default()
        }
    }
}

/// The smallest and the largest number.
fn ends(numbers: &[f64]) -> (f64, f64) {
    let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
    let high = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (low, high)
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

    fn figure(values: &[&str], titles: &[&str]) -> String {
        swept(values, titles).picture().0
    }

    #[test]
    fn numbers_are_in_their_order_and_other_values_as_given() {
        let ordered = swept(&["10 B", "9 B", "100 B"], &[""]).in_order();
        assert_eq!(ordered.values, ["9 B", "10 B", "100 B"]);
        let points = &ordered.panels[0].lines[0].points;
        assert_eq!(points[..], [(0, 3.0, 0.5), (1, 2.0, 0.5), (2, 4.0, 0.5)]);
        let words = swept(&["none", "high"], &[""]);
        assert_eq!(words.clone().in_order(), words);
    }

    #[test]
    fn numbers_of_one_unit_have_an_axis_of_numbers() {
        let svg = figure(&["64 B", "128 B", "256 B"], &[""]);
        assert!(
            svg.contains(">block (B)<") && svg.contains(">100<"),
            "{svg}"
        );
        assert!(svg.contains("<title>fasor, 256 B: 4.000 \u{b1} 0.500</title>"));
        assert!(svg.contains("data-x=\"linear") && !svg.contains("NaN"));
        let wide = figure(&["10", "100", "1000"], &[""]);
        assert!(wide.contains("data-x=\"log") && wide.contains(">block<"));
    }

    #[test]
    fn other_values_have_equal_parts() {
        for values in [&["none", "high"][..], &["400 ms", "2 s"], &["64 B"]] {
            let svg = figure(values, &["loss 1 %", "loss 5 %"]);
            for value in values {
                assert!(svg.contains(&format!(">{value}<")), "{value}: {svg}");
            }
            assert!(svg.contains(">loss 5 %<"));
        }
    }
}
