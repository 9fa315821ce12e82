//! Metrics of runs against a number that is swept, a line for each algorithm: what comes of a crowd as
//! it grows, and of a wireless network as its nodes send more.

use super::comparison::varying;
use super::frame::{COLOURS, DrawKey, Frame, Key, WIDTH, legend};
use super::look::Look;
use super::page::FigureBlock;
use super::scale::{Mapping, Scale};
use super::svg::Svg;
use crate::run::{Outcome, Row};
use crate::scenario::Cell;
use crate::scenario::value::Value;
use crate::statistics::Statistics;

/// Fewer numbers make no line.
const NUMBERS_MIN: usize = 3;
/// The most panels of what is swept besides.
const PANELS_MAX: usize = 24;

/// A swept number, and what is drawn against it.
pub(super) struct Axis {
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
    metrics: [(&'static str, &'static str, f64); 4],
}

/// Requests of crowds.
pub(super) const CLIENTS: Axis = Axis {
    key: "clients",
    name: "Clients",
    unit: "clients",
    title: "What comes of a crowd as it grows",
    mapping: Mapping::Linear,
    others_max: 1,
    metrics: [
        ("throughput_rps", "Requests answered per second", 1.0),
        (
            "retransmissions_per_exchange",
            "Retransmissions per request",
            1.0,
        ),
        ("answered_ratio", "Share of requests answered", 1.0),
        (
            "first_attempt_ratio",
            "Share answered at the first attempt",
            1.0,
        ),
    ],
};

/// Messages of wireless networks.
pub(super) const LOAD: Axis = Axis {
    key: "load",
    name: "Offered load, kbit/s",
    unit: "kbit/s",
    title: "What a network carries as its nodes send more",
    mapping: Mapping::Linear,
    others_max: 2,
    metrics: [
        ("throughput_bps", "Carried, kbit/s", 1e3),
        ("pdr", "Share of messages received", 1.0),
        ("app_drop_ratio", "Share dropped at their senders", 1.0),
        ("rto_init_s", "Mean first timer, s", 1.0),
    ],
};

/// The same where each node sends at its own pace, which spans decades.
pub(super) const PERIOD: Axis = Axis {
    key: "period",
    name: "Messages a second from each node",
    unit: "a second",
    title: "What a network carries as its nodes send more",
    mapping: Mapping::Logarithmic,
    others_max: 1,
    metrics: [
        ("carried_Bps", "Carried, B/s", 1.0),
        ("parent_resets", "Changes of parents", 1.0),
        (
            "transmissions_per_exchange",
            "Transmissions per exchange",
            1.0,
        ),
        ("route_drops", "Packets dropped for lack of a route", 1.0),
    ],
};

impl Axis {
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
/// Room above a panel for its title, and below it for tick labels.
const AROUND: (f64, f64) = (28.0, 34.0);

/// One line.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    look: Look,
    /// (number, mean, half of the 95 % interval)
    points: Vec<(f64, f64, f64)>,
}

/// One panel.
#[derive(Clone, Debug, PartialEq)]
struct Panel {
    title: String,
    /// True for values that are shares of 1.
    is_share: bool,
    lines: Vec<Line>,
}

/// The figure of a run whose cells differ in the axis' number and in little more; nothing if they do
/// not, or if they do not have its metrics.
pub(super) fn figure(axis: &Axis, outcome: &Outcome<'_>, rows: &[Row]) -> Option<FigureBlock> {
    let (panels, series) = panels(axis, outcome, rows)?;
    Some(FigureBlock {
        svg: draw(axis, &panels, &series),
        title: format!("{}.", axis.title),
        caption: format!(
            "Means of all runs with their 95 % intervals, against: {}.",
            axis.name.to_lowercase()
        ),
    })
}

fn panels(axis: &Axis, outcome: &Outcome<'_>, rows: &[Row]) -> Option<(Vec<Panel>, Vec<String>)> {
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
    let has_metric = rows.iter().all(|row| row.metrics.contains_key(first));
    if numbers.len() < NUMBERS_MIN || others.len() > axis.others_max || !has_metric {
        return None;
    }
    let mut series: Vec<String> = Vec::new();
    for row in rows {
        if !series.contains(&row.algorithm) {
            series.push(row.algorithm.clone());
        }
    }
    series.truncate(COLOURS);
    let lines = |(metric, _, unit): (&str, &str, f64), of: &dyn Fn(&Cell) -> bool| -> Vec<Line> {
        let line = |name: &String| {
            let own = cells.iter();
            let own = own.filter(|(row, cell)| row.algorithm == *name && of(cell));
            let points = own.filter_map(|(row, cell)| {
                let Statistics { mean, ci95, .. } = row.metrics.get(metric)?;
                Some((axis.number(cell)?, mean / unit, ci95 / unit))
            });
            Line {
                look: Look::of(name),
                points: points.collect(),
            }
        };
        series.iter().map(line).collect()
    };
    if others.is_empty() {
        let panel = |metric: (&str, &str, f64)| Panel {
            title: metric.1.to_owned(),
            is_share: metric.0.ends_with("_ratio") || metric.0 == "pdr",
            lines: lines(metric, &|_| true),
        };
        return Some((axis.metrics.into_iter().map(panel).collect(), series));
    }
    let values_of = |cell: &Cell| -> Vec<Option<Value>> {
        others.iter().map(|key| cell.value(key).cloned()).collect()
    };
    let mut values: Vec<Vec<Option<Value>>> = Vec::new();
    for cell in &all {
        let own = values_of(cell);
        if !values.contains(&own) {
            values.push(own);
        }
    }
    if values.len() > PANELS_MAX {
        return None;
    }
    let panel = |own: &Vec<Option<Value>>| {
        let named = others.iter().zip(own.iter().flatten());
        let named: Vec<String> = match &others[..] {
            [_] => named.map(|(key, value)| format!("{key} {value}")).collect(),
            _ => named.map(|(_, value)| value.to_string()).collect(),
        };
        Panel {
            title: format!("{first_title}, {}", named.join(" ")),
            is_share: false,
            lines: lines(axis.metrics[0], &|cell| values_of(cell) == *own),
        }
    };
    Some((values.iter().map(panel).collect(), series))
}

fn draw(axis: &Axis, panels: &[Panel], series: &[String]) -> String {
    let mut svg = Svg::default();
    let top = 14.0 + keys(&mut svg, series);
    let right = WIDTH - 16.0;
    // Each panel has an axis of its own, and all of them the same room for it.
    let margin = 84.0;
    let width = (right - 2.0 * margin) / 2.0 + 8.0;
    let step = AROUND.0 + AREA + AROUND.1;
    for (k, panel) in panels.iter().enumerate() {
        let left = margin - 8.0 + (width + margin - 8.0) * (k % 2) as f64;
        let area_top = top + step * (k / 2) as f64 + AROUND.0;
        let frame = Frame {
            left,
            right: left + width,
            top: area_top,
            bottom: area_top + AREA,
        };
        svg.text("axis strong", (left, area_top - 10.0), &panel.title);
        panel.draw(&mut svg, &frame, axis);
    }
    let bottom = top + step * panels.len().div_ceil(2) as f64;
    let middle = f64::midpoint(margin, right);
    svg.text("axis middle", (middle, bottom + 8.0), axis.name);
    svg.finish(WIDTH, bottom + 20.0, axis.title)
}

fn keys(svg: &mut Svg, series: &[String]) -> f64 {
    let draws: Vec<(&str, Box<DrawKey>)> = series
        .iter()
        .map(|name| {
            let look = Look::of(name);
            let draw = move |svg: &mut Svg, (x, y): (f64, f64)| {
                svg.line(
                    &format!("median {}", look.class()),
                    (x - 9.0, y),
                    (x + 9.0, y),
                );
                look.mark(svg, (x, y), 3.4);
            };
            (name.as_str(), Box::new(draw) as Box<DrawKey>)
        })
        .collect();
    let keys: Vec<Key<'_>> = draws
        .iter()
        .map(|(label, draw)| Key { label, draw })
        .collect();
    legend(svg, 64.0, 14.0, WIDTH - 16.0, &keys)
}

impl Panel {
    fn points(&self) -> impl Iterator<Item = &(f64, f64, f64)> {
        self.lines.iter().flat_map(|line| &line.points)
    }

    fn draw(&self, svg: &mut Svg, frame: &Frame, axis: &Axis) {
        let most = |of: fn(&(f64, f64, f64)) -> f64| self.points().map(of).fold(0.0, f64::max);
        let high = if self.is_share {
            1.0
        } else {
            most(|(_, mean, half)| mean + half).max(1e-3)
        };
        let linear = Mapping::Linear;
        let y = Scale::new(linear, (0.0, high), 4, (frame.bottom, frame.top));
        let least = self.points().map(|p| p.0).fold(f64::INFINITY, f64::min);
        let low = match axis.mapping {
            Mapping::Linear => 0.0,
            Mapping::Logarithmic => least,
        };
        let ends = (frame.left, frame.right);
        let x = Scale::new(axis.mapping, (low, most(|p| p.0)), 5, ends);
        frame.y_axis(svg, &y, "");
        frame.x_axis(svg, &x, "");
        for line in &self.lines {
            line.draw(svg, &x, &y, axis.unit);
        }
    }
}

impl Line {
    fn draw(&self, svg: &mut Svg, x: &Scale, y: &Scale, unit: &str) {
        let place = |(number, mean, _): &(f64, f64, f64)| (x.at(*number), y.at(*mean));
        let (line, whisker) = (
            format!("median {}", self.look.class()),
            format!("whisker {}", self.look.class()),
        );
        for pair in self.points.windows(2) {
            svg.line(&line, place(&pair[0]), place(&pair[1]));
        }
        for (number, mean, half) in &self.points {
            let at = x.at(*number);
            svg.line(&whisker, (at, y.at(mean - half)), (at, y.at(mean + half)));
        }
        for (number, mean, half) in &self.points {
            let title = format!("{number} {unit}: {mean:.3} \u{b1} {half:.3}");
            let at = (x.at(*number), y.at(*mean));
            svg.with_title(&title, |svg| {
                self.look.mark(svg, at, 3.4);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use carob_sim::engine;

    use super::*;
    use crate::run::{Plan, Selection};
    use crate::scenario::{Scenario, builtin};

    fn with<T>(name: &str, set: &[&str], look: impl Fn(&Outcome<'_>) -> T) -> T {
        let (file, cell) = builtin::find(name).expect("a scenario");
        let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
        let scenario = Scenario::read(file.name, file.text, &set).expect("a valid one");
        let selection = Selection {
            cell: cell.map(str::to_owned),
            seeds: Some(2),
            ..Selection::default()
        };
        let plan = Plan::new(&scenario, &selection).expect("a plan");
        look(&plan.execute(engine::run, |_, _| {}).expect("possible"))
    }

    const FEW: [&str; 2] = ["requests=1", "run.algorithms=default,rtt-count"];

    #[test]
    fn scenario_has_panel_per_metric_and_line_per_algorithm() {
        with("retrycount/clients", &FEW, |outcome| {
            let (panels, series) = panels(&CLIENTS, outcome, &outcome.rows()).expect("a figure");
            assert_eq!(series, ["default", "rtt-count"]);
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
                .svg;
            // Between six numbers of clients, and one in the legend.
            let lines = svg.matches("class=\"median c6\"").count();
            assert_eq!(lines, CLIENTS.metrics.len() * 5 + 1);
            assert!(!svg.contains("NaN") && svg.contains(">Clients<"));
        });
    }

    #[test]
    fn second_swept_setting_has_panels_and_third_no_figure() {
        with("retrycount/service", &FEW, |outcome| {
            let (panels, _) = panels(&CLIENTS, outcome, &outcome.rows()).expect("a figure");
            assert_eq!(panels.len(), 7);
            assert!(panels[1].title.ends_with("service 40 ms"));
        });
        let set = ["clients=1", "requests=1", "run.algorithms=default"];
        with("thesis/short", &set, |outcome| {
            assert!(figure(&CLIENTS, outcome, &outcome.rows()).is_none());
        });
    }

    #[test]
    fn network_loads_in_kilobits_with_panel_per_topology() {
        let set = [
            "duration=60 s",
            "traffic.gaps=fixed",
            "run.algorithms=default,cocoa-plus",
        ];
        with("cocoaplus/constant-chain-lossy", &set, |outcome| {
            let (panels, _) = panels(&LOAD, outcome, &outcome.rows()).expect("a figure");
            assert_eq!(panels.len(), LOAD.metrics.len());
            let first = &panels[0].lines[0].points;
            let loads: Vec<f64> = first.iter().map(|point| point.0).collect();
            assert_eq!((loads.len(), loads[0], loads[9]), (10, 1.0, 10.0));
            // No more is carried than offered, in the same unit, but for a message of each node.
            assert!(
                first
                    .iter()
                    .all(|(offered, carried, _)| carried < &(offered + 0.3))
            );
            assert!(first[0].1 > 0.5, "{first:?}");
            assert!(panels[1].is_share && !panels[3].is_share);
            assert!(figure(&CLIENTS, outcome, &outcome.rows()).is_none());
        });
        let set = ["duration=10 s", "run.algorithms=default"];
        with("rpl/pint-rpl", &set, |outcome| {
            let (panels, _) = panels(&PERIOD, outcome, &outcome.rows()).expect("a figure");
            let points = &panels[0].lines[0].points;
            assert_eq!((points.len(), points[0].0, points[8].0), (9, 10.0, 0.1));
            let svg = figure(&PERIOD, outcome, &outcome.rows())
                .expect("a figure")
                .svg;
            assert!(!svg.contains("NaN") && svg.contains(">0.1<"), "{svg}");
            assert!(figure(&LOAD, outcome, &outcome.rows()).is_none());
        });
        let set = ["warm_up=1 s", "duration=10 s", "run.algorithms=default"];
        with("cocoaplus/constant", &set, |outcome| {
            let (panels, _) = panels(&LOAD, outcome, &outcome.rows()).expect("a figure");
            assert_eq!(panels.len(), 12);
            assert!(
                panels[1].title.ends_with(", chain lossy"),
                "{}",
                panels[1].title
            );
        });
    }
}
