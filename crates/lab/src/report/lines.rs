//! Lines: metrics of runs against a number that is swept, such as the size of a crowd or the load of a wireless
//! network, and any metric against any setting.

use super::chart::{Axis, Chart, Layer, Panel, Part, Shared};
use super::comparison::varying;
use super::look::{COLOURS, Looks};
use super::page::FigureBlock;
use super::resolved::Picture;
use super::scale::Mapping;
use crate::metrics::{self, Metric};
use crate::run::{Outcome, Row};
use crate::scenario::Cell;
use crate::scenario::value::Value;
use crate::summary;

/// Fewer numbers make no line.
const NUMBERS_MIN: usize = 3;
/// Ratio of the largest number to the smallest from which the axis of a setting is logarithmic.
const DECADES: f64 = 20.0;
/// The most panels for a second swept key.
const PANELS_MAX: usize = 24;

/// A swept number, and the metrics drawn against it.
pub(super) struct Sweep {
    /// The swept key.
    key: &'static str,
    /// Label of the axis.
    name: &'static str,
    /// One of it, in tooltips.
    unit: &'static str,
    /// Title of the figure.
    title: &'static str,
    /// Mapping of the numbers to the axis.
    mapping: Mapping,
    /// The keys that may be swept besides; a panel for each of their values.
    others_max: usize,
    /// Metrics of the panels: key, label and divisor. Panels of other swept keys show the first.
    metrics: [(Metric, &'static str, f64); 4],
}

/// Requests of crowds.
#[rustfmt::skip]
pub(super) const CLIENTS: Sweep = Sweep {
    key: "clients", name: "Clients", unit: "clients", title: "What comes of a crowd as it grows",
    mapping: Mapping::Linear, others_max: 1,
    metrics: [
        (metrics::THROUGHPUT_RPS, "Requests answered per second", 1.0),
        (metrics::RETRANSMISSIONS_PER_EXCHANGE, "Retransmissions per request", 1.0),
        (metrics::ANSWERED_RATIO, "Share of requests answered", 1.0),
        (metrics::FIRST_ATTEMPT_RATIO, "Share answered at the first attempt", 1.0),
    ],
};

/// Messages of wireless networks.
#[rustfmt::skip]
pub(super) const LOAD: Sweep = Sweep {
    key: "load", name: "Offered load, kbit/s", unit: "kbit/s", title: "What a network carries as its nodes send more",
    mapping: Mapping::Linear, others_max: 2,
    metrics: [
        (metrics::THROUGHPUT_BPS, "Carried, kbit/s", 1e3),
        (metrics::PDR, "Share of messages received", 1.0),
        (metrics::APP_DROP_RATIO, "Share dropped at their senders", 1.0),
        (metrics::RTO_INIT_S, "Mean first timer, s", 1.0),
    ],
};

/// The same where each node sends at its own pace, which spans decades.
#[rustfmt::skip]
pub(super) const PERIOD: Sweep = Sweep {
    key: "period", name: "Messages a second from each node", unit: "a second", title: LOAD.title,
    mapping: Mapping::Logarithmic, others_max: 1,
    metrics: [
        (metrics::CARRIED_BYTES_PS, "Carried, B/s", 1.0),
        (metrics::PARENT_RESETS, "Changes of parents", 1.0),
        (metrics::TRANSMISSIONS_PER_EXCHANGE, "Transmissions per exchange", 1.0),
        (metrics::ROUTE_DROPS, "Packets dropped for lack of a route", 1.0),
    ],
};

impl Sweep {
    /// A cell's number.
    fn number(&self, cell: &Cell) -> Option<f64> {
        match cell.value(self.key) {
            Some(Value::Whole(n)) => Some(*n as f64),
            Some(Value::Rate(bps)) => Some(*bps as f64 / 1e3),
            Some(Value::Time(Some(time))) if !time.is_zero() => Some(1e6 / time.as_micros() as f64),
            _ => None,
        }
    }
}

/// A line: the name of an algorithm, and (number, mean, half of the 95 % interval).
type Line = (String, Vec<(f64, f64, f64)>);

/// One panel.
#[derive(Clone, Debug, PartialEq)]
struct Plot {
    title: String,
    /// True for values that are shares of 1.
    is_share: bool,
    lines: Vec<Line>,
}

/// The figure of a run whose cells differ in the axis' number and in little more; nothing if they do
/// not, or if they do not have its metrics.
pub(super) fn figure(axis: &Sweep, outcome: &Outcome<'_>, rows: &[Row]) -> Option<FigureBlock> {
    let plots = plots(axis, outcome, rows)?;
    let against = axis.name.to_lowercase();
    let caption = format!("Means of all runs with their 95 % intervals, against: {against}.");
    let names = plots.iter().flat_map(|plot| &plot.lines);
    let looks = Looks::of(names.map(|line| line.0.as_str()));
    let panels = plots.iter().map(|plot| plot.panel(axis, &looks));
    let chart = Chart::grid(axis.title, 2, 180.0, panels.collect()).below(axis.name);
    let title = format!("{}.", axis.title);
    Some(FigureBlock::new(chart.picture(), title, &caption))
}

fn plots(axis: &Sweep, outcome: &Outcome<'_>, rows: &[Row]) -> Option<Vec<Plot>> {
    let scenario = outcome.plan().scenario();
    let cell = |row| Some((row, scenario.cell(Row::cell_name(row))?));
    let cells: Vec<(&Row, &Cell)> = rows.iter().filter_map(cell).collect();
    let all: Vec<&Cell> = cells.iter().map(|(_, cell)| *cell).collect();
    let mut others = varying(&all);
    others.retain(|key| key != axis.key);
    let mut numbers: Vec<f64> = all.iter().filter_map(|cell| axis.number(cell)).collect();
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    let (first, first_title, _) = axis.metrics[0];
    let has_metric = rows.iter().all(|row| row.metrics.contains_key(first.name));
    if numbers.len() < NUMBERS_MIN || others.len() > axis.others_max || !has_metric {
        return None;
    }
    let mut names = summary::algorithms(rows);
    names.truncate(COLOURS);
    let values_of = |cell: &Cell| -> Vec<Option<Value>> {
        others.iter().map(|key| cell.value(key).cloned()).collect()
    };
    let plot = |(metric, title, unit): (Metric, &str, f64), of: &[Option<Value>]| {
        let named = others.iter().zip(of.iter().flatten());
        let named: Vec<String> = match &others[..] {
            [_] => named.map(|(key, value)| format!("{key} {value}")).collect(),
            _ => named.map(|(_, value)| value.to_string()).collect(),
        };
        let line = |name: &&str| {
            let own = cells
                .iter()
                .filter(|(row, cell)| row.algorithm == *name && values_of(cell) == of);
            let points = own.filter_map(|(row, cell)| {
                let of = row.metrics.get(metric.name)?;
                Some((axis.number(cell)?, of.mean / unit, of.ci95 / unit))
            });
            ((*name).to_owned(), points.collect())
        };
        Plot {
            title: [title, &named.join(" ")].join(if named.is_empty() { "" } else { ", " }),
            is_share: metric.name.ends_with("_ratio") || metric == metrics::PDR,
            lines: names.iter().map(line).collect(),
        }
    };
    if others.is_empty() {
        return Some(axis.metrics.map(|metric| plot(metric, &[])).into());
    }
    let values = summary::distinct(all.iter().map(|cell| values_of(cell)));
    let first = |of: &Vec<Option<Value>>| plot((first, first_title, axis.metrics[0].2), of);
    (values.len() <= PANELS_MAX).then(|| values.iter().map(first).collect())
}

impl Plot {
    fn panel(&self, axis: &Sweep, looks: &Looks) -> Panel {
        let mut x = Axis::linear("", 5).mapped(axis.mapping);
        if axis.mapping == Mapping::Linear {
            x = x.with(0.0);
        }
        let y = Axis::linear("", 4).above_zero();
        let y = if self.is_share { y.within(0.0, 1.0) } else { y };
        let layer = |(name, points): &Line| {
            layer(name, points, looks, &|k| {
                format!("{} {}", points[k].0, axis.unit)
            })
        };
        Panel::new(x, y, self.lines.iter().map(layer).collect()).titled(&self.title)
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

impl SweptFigure {
    /// The figure as an SVG element: a numeric axis where all values are numbers of one unit, else equal parts.
    pub fn picture(&self) -> Picture {
        let numbers = self.numbers();
        let (x, unit) = match &numbers {
            Some((all, unit)) => (Axis::linear("", 5).mapped(Self::mapping(all)), *unit),
            None => (Axis::categories("", self.values.iter().cloned()), ""),
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
        let read: Option<Vec<(f64, &str)>> =
            self.values.iter().map(|value| number(value)).collect();
        let read = read.filter(|all| all.len() > 1 && all.iter().all(|one| one.1 == all[0].1))?;
        let unit = read[0].1;
        Some((read.into_iter().map(|(number, _)| number).collect(), unit))
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

/// The number of a value and its unit.
fn number(value: &str) -> Option<(f64, &str)> {
    let (digits, unit) = value.split_once(' ').unwrap_or((value, ""));
    let number = digits.parse::<f64>().ok().filter(|n| n.is_finite())?;
    Some((number, unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::simulated;

    const FEW: [&str; 2] = ["requests=1", "run.algorithms=default,rtt-count"];

    fn of(sweep: &Sweep, outcome: &Outcome<'_>) -> Vec<Plot> {
        plots(sweep, outcome, &outcome.rows()).expect("a figure")
    }

    fn drawn(sweep: &Sweep, outcome: &Outcome<'_>) -> Option<String> {
        Some(figure(sweep, outcome, &outcome.rows())?.picture.0)
    }

    #[test]
    fn scenario_has_panel_per_metric_and_line_per_algorithm() {
        let outcome = &simulated("retrycount/clients", &FEW, 2);
        let panels = of(&CLIENTS, outcome);
        let series = panels[0].lines.iter().map(|line| line.0.as_str());
        assert_eq!(series.collect::<Vec<_>>(), ["default", "rtt-count"]);
        assert_eq!(panels.len(), CLIENTS.metrics.len());
        for panel in &panels {
            let clients = |line: &Line| line.1.iter().map(|p| p.0).collect::<Vec<_>>();
            let all = [1.0, 10.0, 25.0, 50.0, 75.0, 100.0];
            assert!(panel.lines.iter().all(|line| clients(line) == all));
        }
        // One request each: 100 clients cannot be faster than the link, which takes 62.4 ms a packet.
        let most = panels[0]
            .lines
            .iter()
            .flat_map(|line| &line.1)
            .map(|p| p.1)
            .fold(0.0, f64::max);
        assert!(most > 8.0 && most < 16.1, "{most}");
        let svg = drawn(&CLIENTS, outcome).expect("a figure");
        // One in each panel, and one in the legend.
        let lines = svg.matches("class=\"median c1\"").count();
        assert_eq!(lines, CLIENTS.metrics.len() + 1);
        assert!(!svg.contains("NaN") && svg.contains(">Clients<"));
    }

    #[test]
    fn second_swept_setting_has_panels_and_third_no_figure() {
        let outcome = &simulated("retrycount/service", &FEW, 2);
        let panels = of(&CLIENTS, outcome);
        assert_eq!(panels.len(), 7);
        assert!(panels[1].title.ends_with("service 40 ms"));
        let set = ["clients=1", "requests=1", "run.algorithms=default"];
        let outcome = &simulated("thesis/short", &set, 2);
        assert!(drawn(&CLIENTS, outcome).is_none());
    }

    #[test]
    fn network_loads_in_kilobits_with_panel_per_topology() {
        let set = [
            "duration=60 s",
            "traffic.gaps=fixed",
            "run.algorithms=default,cocoa-plus",
        ];
        let outcome = &simulated("cocoaplus/constant-chain-lossy", &set, 2);
        let of_loads = of(&LOAD, outcome);
        assert_eq!(of_loads.len(), LOAD.metrics.len());
        let first = &of_loads[0].lines[0].1;
        let loads: Vec<f64> = first.iter().map(|point| point.0).collect();
        assert_eq!((loads.len(), loads[0], loads[9]), (10, 1.0, 10.0));
        // No more is carried than offered, in the same unit, but for a message of each node.
        assert!(
            first
                .iter()
                .all(|(offered, carried, _)| carried < &(offered + 0.3))
        );
        assert!(first[0].1 > 0.5, "{first:?}");
        assert!(of_loads[1].is_share && !of_loads[3].is_share);
        assert!(drawn(&CLIENTS, outcome).is_none());
        let set = ["duration=10 s", "run.algorithms=default"];
        let outcome = &simulated("rpl/pint-rpl", &set, 2);
        let of_periods = of(&PERIOD, outcome);
        let points = &of_periods[0].lines[0].1;
        assert_eq!((points.len(), points[0].0, points[8].0), (9, 10.0, 0.1));
        let svg = drawn(&PERIOD, outcome).expect("a figure");
        assert!(!svg.contains("NaN") && svg.contains(">0.1<"), "{svg}");
        assert!(drawn(&LOAD, outcome).is_none());
        let set = ["warm_up=1 s", "duration=10 s", "run.algorithms=default"];
        let outcome = &simulated("cocoaplus/constant", &set, 2);
        let of_loads = of(&LOAD, outcome);
        assert_eq!(of_loads.len(), 12);
        assert!(
            of_loads[1].title.ends_with(", chain lossy"),
            "{}",
            of_loads[1].title
        );
    }

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

    fn svg(values: &[&str], titles: &[&str]) -> String {
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
        let bytes = svg(&["64 B", "128 B", "256 B"], &[""]);
        assert!(
            bytes.contains(">block (B)<") && bytes.contains(">100<"),
            "{bytes}"
        );
        assert!(bytes.contains("<title>fasor, 256 B: 4.000 \u{b1} 0.500</title>"));
        assert!(bytes.contains("data-x=\"linear") && !bytes.contains("NaN"));
        let wide = svg(&["10", "100", "1000"], &[""]);
        assert!(wide.contains("data-x=\"log") && wide.contains(">block<"));
    }

    #[test]
    fn other_values_have_equal_parts() {
        for values in [&["none", "high"][..], &["400 ms", "2 s"], &["64 B"]] {
            let words = svg(values, &["loss 1 %", "loss 5 %"]);
            for value in values {
                assert!(words.contains(&format!(">{value}<")), "{value}: {words}");
            }
            assert!(words.contains(">loss 5 %<"));
        }
    }
}
