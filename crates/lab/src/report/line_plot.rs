//! Metrics of runs against a number that is swept, a line for each algorithm: the size of a crowd, or
//! the load of a wireless network.

use super::chart::{Axis, Chart, Layer, Panel, Part};
use super::comparison::varying;
use super::look::{COLOURS, Looks};
use super::page::FigureBlock;
use super::picture::Picture;
use super::scale::Mapping;
use crate::metrics::{self, Metric};
use crate::run::{Outcome, Row};
use crate::scenario::Cell;
use crate::scenario::value::Value;
use crate::statistics::Statistics;
use crate::summary;

/// Fewer numbers make no line.
const NUMBERS_MIN: usize = 3;
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
pub(super) const CLIENTS: Sweep = Sweep {
    key: "clients",
    name: "Clients",
    unit: "clients",
    title: "What comes of a crowd as it grows",
    mapping: Mapping::Linear,
    others_max: 1,
    metrics: [
        (metrics::THROUGHPUT_RPS, "Requests answered per second", 1.0),
        (
            metrics::RETRANSMISSIONS_PER_EXCHANGE,
            "Retransmissions per request",
            1.0,
        ),
        (metrics::ANSWERED_RATIO, "Share of requests answered", 1.0),
        (
            metrics::FIRST_ATTEMPT_RATIO,
            "Share answered at the first attempt",
            1.0,
        ),
    ],
};

/// Messages of wireless networks.
pub(super) const LOAD: Sweep = Sweep {
    key: "load",
    name: "Offered load, kbit/s",
    unit: "kbit/s",
    title: "What a network carries as its nodes send more",
    mapping: Mapping::Linear,
    others_max: 2,
    metrics: [
        (metrics::THROUGHPUT_BPS, "Carried, kbit/s", 1e3),
        (metrics::PDR, "Share of messages received", 1.0),
        (
            metrics::APP_DROP_RATIO,
            "Share dropped at their senders",
            1.0,
        ),
        (metrics::RTO_INIT_S, "Mean first timer, s", 1.0),
    ],
};

/// The same where each node sends at its own pace, which spans decades.
pub(super) const PERIOD: Sweep = Sweep {
    key: "period",
    name: "Messages a second from each node",
    unit: "a second",
    title: "What a network carries as its nodes send more",
    mapping: Mapping::Logarithmic,
    others_max: 1,
    metrics: [
        (metrics::CARRIED_BYTES_PS, "Carried, B/s", 1.0),
        (metrics::PARENT_RESETS, "Changes of parents", 1.0),
        (
            metrics::TRANSMISSIONS_PER_EXCHANGE,
            "Transmissions per exchange",
            1.0,
        ),
        (
            metrics::ROUTE_DROPS,
            "Packets dropped for lack of a route",
            1.0,
        ),
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

/// Height of a panel's drawing area.
const AREA: f64 = 180.0;

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) algorithm: String,
    /// (number, mean, half of the 95 % interval)
    pub(super) points: Vec<(f64, f64, f64)>,
}

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
    let panels = panels(axis, outcome, rows)?;
    let against = axis.name.to_lowercase();
    let caption = format!("Means of all runs with their 95 % intervals, against: {against}.");
    let title = format!("{}.", axis.title);
    Some(FigureBlock::new(draw(axis, &panels), title, &caption))
}

fn panels(axis: &Sweep, outcome: &Outcome<'_>, rows: &[Row]) -> Option<Vec<Plot>> {
    let scenario = outcome.plan().scenario();
    let cells: Vec<(&Row, &Cell)> = rows
        .iter()
        .filter_map(|row| Some((row, scenario.cell(row.cell_name())?)))
        .collect();
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
    let mut series = summary::algorithms(rows);
    series.truncate(COLOURS);
    let lines = |(metric, _, unit): (Metric, &str, f64), of: &dyn Fn(&Cell) -> bool| -> Vec<Line> {
        let line = |name: &str| {
            let own = cells.iter();
            let own = own.filter(|(row, cell)| row.algorithm == name && of(cell));
            let points = own.filter_map(|(row, cell)| {
                let Statistics { mean, ci95, .. } = row.metrics.get(metric.name)?;
                Some((axis.number(cell)?, mean / unit, ci95 / unit))
            });
            Line {
                algorithm: name.to_owned(),
                points: points.collect(),
            }
        };
        series.iter().copied().map(line).collect()
    };
    if others.is_empty() {
        let panel = |metric: (Metric, &str, f64)| Plot {
            title: metric.1.to_owned(),
            is_share: metric.0.name.ends_with("_ratio") || metric.0 == metrics::PDR,
            lines: lines(metric, &|_| true),
        };
        return Some(axis.metrics.into_iter().map(panel).collect());
    }
    let values_of = |cell: &Cell| -> Vec<Option<Value>> {
        others.iter().map(|key| cell.value(key).cloned()).collect()
    };
    let values = summary::distinct(all.iter().map(|cell| values_of(cell)));
    if values.len() > PANELS_MAX {
        return None;
    }
    let panel = |own: &Vec<Option<Value>>| {
        let named = others.iter().zip(own.iter().flatten());
        let named: Vec<String> = match &others[..] {
            [_] => named.map(|(key, value)| format!("{key} {value}")).collect(),
            _ => named.map(|(_, value)| value.to_string()).collect(),
        };
        Plot {
            title: format!("{first_title}, {}", named.join(" ")),
            is_share: false,
            lines: lines(axis.metrics[0], &|cell| values_of(cell) == *own),
        }
    };
    Some(values.iter().map(panel).collect())
}

fn draw(axis: &Sweep, panels: &[Plot]) -> Picture {
    let lines = panels.iter().flat_map(|plot| &plot.lines);
    let looks = Looks::of(lines.map(|line| line.algorithm.as_str()));
    let chart = Chart {
        label: axis.title.to_owned(),
        columns: 2,
        height: AREA,
        right: 16.0,
        x_label: axis.name.to_owned(),
        panels: panels.iter().map(|plot| plot.panel(axis, &looks)).collect(),
        ..Chart::default()
    };
    chart.picture()
}

impl Plot {
    fn points(&self) -> impl Iterator<Item = &(f64, f64, f64)> {
        self.lines.iter().flat_map(|line| &line.points)
    }

    fn panel(&self, axis: &Sweep, looks: &Looks) -> Panel {
        let most = |of: fn(&(f64, f64, f64)) -> f64| self.points().map(of).fold(0.0, f64::max);
        let high = if self.is_share {
            1.0
        } else {
            most(|(_, mean, half)| mean + half).max(1e-3)
        };
        let least = self.points().map(|p| p.0).fold(f64::INFINITY, f64::min);
        let low = match axis.mapping {
            Mapping::Linear => 0.0,
            Mapping::Logarithmic => least,
        };
        Panel {
            title: self.title.clone(),
            x: Axis::new("", axis.mapping, (low, most(|p| p.0)), 5),
            y: Axis::new("", Mapping::Linear, (0.0, high), 4),
            layers: self
                .lines
                .iter()
                .map(|l| l.of_numbers(axis.unit, looks))
                .collect(),
            ..Panel::default()
        }
    }
}

impl Line {
    /// The layer with the number and its unit in tooltips.
    fn of_numbers(&self, unit: &str, looks: &Looks) -> Layer {
        self.layer(looks, &|place| format!("{} {unit}", self.points[place].0))
    }

    /// The layer; `name` returns the name of a point by index, for its tooltip.
    pub(super) fn layer(&self, looks: &Looks, name: &dyn Fn(usize) -> String) -> Layer {
        let look = looks.get(&self.algorithm);
        let class = look.class();
        let points = || self.points.iter().copied();
        let means = vec![points().map(|(number, mean, _)| (number, mean)).collect()];
        let intervals = points().map(|(n, mean, half)| vec![(n, mean - half), (n, mean + half)]);
        let first = points().next().map(|(number, mean, _)| (number, mean));
        let lines = vec![
            Part::Line(format!("median {class}"), means),
            Part::Line(format!("whisker {class}"), intervals.collect()),
            Part::of(look, 3.4, first.into_iter().collect()),
        ];
        let mut layer = Layer::new(&self.algorithm);
        if first.is_some() {
            layer = layer.item("", lines);
        }
        for (place, (number, mean, half)) in points().enumerate() {
            let tip = format!("{}: {mean:.3} \u{b1} {half:.3}", name(place));
            layer = layer.item(&tip, vec![Part::of(look, 3.4, vec![(number, mean)])]);
        }
        layer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::simulated;

    const FEW: [&str; 2] = ["requests=1", "run.algorithms=default,rtt-count"];

    #[test]
    fn scenario_has_panel_per_metric_and_line_per_algorithm() {
        let outcome = &simulated("retrycount/clients", &FEW, 2);
        let panels = panels(&CLIENTS, outcome, &outcome.rows()).expect("a figure");
        let series = panels[0].lines.iter().map(|line| line.algorithm.as_str());
        assert_eq!(series.collect::<Vec<_>>(), ["default", "rtt-count"]);
        assert_eq!(panels.len(), CLIENTS.metrics.len());
        for panel in &panels {
            let clients = |line: &Line| line.points.iter().map(|p| p.0).collect::<Vec<_>>();
            let all = [1.0, 10.0, 25.0, 50.0, 75.0, 100.0];
            assert!(panel.lines.iter().all(|line| clients(line) == all));
        }
        // One request each: 100 clients cannot be faster than the link, which takes 62.4 ms a packet.
        let most = panels[0].points().map(|p| p.1).fold(0.0, f64::max);
        assert!(most > 8.0 && most < 16.1, "{most}");
        let svg = figure(&CLIENTS, outcome, &outcome.rows())
            .expect("a figure")
            .picture
            .0;
        // One in each panel, and one in the legend.
        let lines = svg.matches("class=\"median c1\"").count();
        assert_eq!(lines, CLIENTS.metrics.len() + 1);
        assert!(!svg.contains("NaN") && svg.contains(">Clients<"));
    }

    #[test]
    fn second_swept_setting_has_panels_and_third_no_figure() {
        let outcome = &simulated("retrycount/service", &FEW, 2);
        let panels = panels(&CLIENTS, outcome, &outcome.rows()).expect("a figure");
        assert_eq!(panels.len(), 7);
        assert!(panels[1].title.ends_with("service 40 ms"));
        let set = ["clients=1", "requests=1", "run.algorithms=default"];
        let outcome = &simulated("thesis/short", &set, 2);
        assert!(figure(&CLIENTS, outcome, &outcome.rows()).is_none());
    }

    #[test]
    fn network_loads_in_kilobits_with_panel_per_topology() {
        let set = [
            "duration=60 s",
            "traffic.gaps=fixed",
            "run.algorithms=default,cocoa-plus",
        ];
        let outcome = &simulated("cocoaplus/constant-chain-lossy", &set, 2);
        let of_loads = panels(&LOAD, outcome, &outcome.rows()).expect("a figure");
        assert_eq!(of_loads.len(), LOAD.metrics.len());
        let first = &of_loads[0].lines[0].points;
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
        assert!(figure(&CLIENTS, outcome, &outcome.rows()).is_none());
        let set = ["duration=10 s", "run.algorithms=default"];
        let outcome = &simulated("rpl/pint-rpl", &set, 2);
        let of_periods = panels(&PERIOD, outcome, &outcome.rows()).expect("a figure");
        let points = &of_periods[0].lines[0].points;
        assert_eq!((points.len(), points[0].0, points[8].0), (9, 10.0, 0.1));
        let svg = figure(&PERIOD, outcome, &outcome.rows())
            .expect("a figure")
            .picture
            .0;
        assert!(!svg.contains("NaN") && svg.contains(">0.1<"), "{svg}");
        assert!(figure(&LOAD, outcome, &outcome.rows()).is_none());
        let set = ["warm_up=1 s", "duration=10 s", "run.algorithms=default"];
        let outcome = &simulated("cocoaplus/constant", &set, 2);
        let of_loads = panels(&LOAD, outcome, &outcome.rows()).expect("a figure");
        assert_eq!(of_loads.len(), 12);
        assert!(
            of_loads[1].title.ends_with(", chain lossy"),
            "{}",
            of_loads[1].title
        );
    }
}
