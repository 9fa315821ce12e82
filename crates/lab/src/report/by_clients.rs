//! What comes of a crowd as it grows: metrics of runs against the number of clients, a line for each
//! algorithm.

use super::comparison::varying;
use super::frame::{COLOURS, DrawKey, Frame, Key, WIDTH, legend};
use super::page::FigureBlock;
use super::scale::{Mapping, Scale};
use super::svg::Svg;
use crate::run::{Outcome, Row};
use crate::scenario::Cell;
use crate::scenario::value::Value;
use crate::statistics::Statistics;

/// The swept key that the horizontal axis shows.
const CLIENTS: &str = "clients";
/// Fewer numbers of clients make no line.
const NUMBERS_MIN: usize = 3;
/// What panels show: a metric, and what it is called.
const METRICS: [(&str, &str); 4] = [
    ("throughput_rps", "Requests answered per second"),
    (
        "retransmissions_per_exchange",
        "Retransmissions per request",
    ),
    ("answered_ratio", "Share of requests answered"),
    ("first_attempt_ratio", "Share answered at the first attempt"),
];
/// Height of a panel's drawing area.
const AREA: f64 = 180.0;
/// Room above a panel for its title, and below it for tick labels.
const AROUND: (f64, f64) = (28.0, 34.0);

/// One line.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    series: usize,
    /// (clients, mean, half of the 95 % interval)
    points: Vec<(f64, f64, f64)>,
}

/// One panel.
#[derive(Clone, Debug, PartialEq)]
struct Panel {
    title: String,
    /// Whether its values are shares of 1.
    is_share: bool,
    lines: Vec<Line>,
}

/// The figure of a run whose cells differ in the number of clients, and at most in one thing more;
/// nothing if they do not, or if no requests were answered.
pub(super) fn figure(outcome: &Outcome<'_>, rows: &[Row]) -> Option<FigureBlock> {
    let (panels, series) = panels(outcome, rows)?;
    Some(FigureBlock {
        svg: draw(&panels, &series),
        title: "What comes of a crowd as it grows.".to_owned(),
        caption: "Means of all runs with their 95 % intervals, against the number of clients."
            .to_owned(),
    })
}

fn panels(outcome: &Outcome<'_>, rows: &[Row]) -> Option<(Vec<Panel>, Vec<String>)> {
    let scenario = outcome.plan().scenario();
    let cells: Vec<(&Row, &Cell)> = rows
        .iter()
        .filter_map(|row| Some((row, scenario.cell(row.cell_name())?)))
        .collect();
    let all: Vec<&Cell> = cells.iter().map(|(_, cell)| *cell).collect();
    let mut others = varying(&all);
    others.retain(|key| key != CLIENTS);
    let clients = |cell: &Cell| match cell.value(CLIENTS) {
        Some(Value::Whole(n)) => Some(*n),
        _ => None,
    };
    let mut numbers: Vec<u64> = cells.iter().filter_map(|(_, cell)| clients(cell)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let has_requests = rows
        .iter()
        .all(|row| row.metrics.contains_key(METRICS[0].0));
    if numbers.len() < NUMBERS_MIN || others.len() > 1 || !has_requests {
        return None;
    }
    let mut series: Vec<String> = Vec::new();
    for row in rows {
        if !series.contains(&row.algorithm) {
            series.push(row.algorithm.clone());
        }
    }
    series.truncate(COLOURS);
    let lines = |metric: &str, of: &dyn Fn(&Cell) -> bool| -> Vec<Line> {
        let line = |(index, name): (usize, &String)| {
            let own = cells.iter();
            let own = own.filter(|(row, cell)| row.algorithm == *name && of(cell));
            let points = own.filter_map(|(row, cell)| {
                let Statistics { mean, ci95, .. } = row.metrics.get(metric)?;
                Some((clients(cell)? as f64, *mean, *ci95))
            });
            Line {
                series: index,
                points: points.collect(),
            }
        };
        series.iter().enumerate().map(line).collect()
    };
    let panels = match others.first() {
        None => METRICS
            .iter()
            .map(|(metric, title)| Panel {
                title: (*title).to_owned(),
                is_share: metric.ends_with("_ratio"),
                lines: lines(metric, &|_| true),
            })
            .collect(),
        Some(key) => {
            let mut values: Vec<&Value> = Vec::new();
            for (_, cell) in &cells {
                values.extend(cell.value(key).filter(|value| !values.contains(value)));
            }
            let (metric, title) = METRICS[0];
            let panel = |value: &&Value| Panel {
                title: format!("{title}, {key} {value}"),
                is_share: false,
                lines: lines(metric, &|cell| cell.value(key) == Some(*value)),
            };
            values.iter().map(panel).collect()
        }
    };
    Some((panels, series))
}

fn draw(panels: &[Panel], series: &[String]) -> String {
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
        panel.draw(&mut svg, &frame);
    }
    let bottom = top + step * panels.len().div_ceil(2) as f64;
    let middle = f64::midpoint(margin, right);
    svg.text("axis middle", (middle, bottom + 8.0), "Clients");
    svg.finish(WIDTH, bottom + 20.0, "What comes of a crowd as it grows")
}

fn keys(svg: &mut Svg, series: &[String]) -> f64 {
    let draws: Vec<(&str, Box<DrawKey>)> = series
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let draw = move |svg: &mut Svg, (x, y): (f64, f64)| {
                svg.line(&format!("median c{index}"), (x - 9.0, y), (x + 9.0, y));
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

    fn draw(&self, svg: &mut Svg, frame: &Frame) {
        let most = |of: fn(&(f64, f64, f64)) -> f64| self.points().map(of).fold(0.0, f64::max);
        let high = if self.is_share {
            1.0
        } else {
            most(|(_, mean, half)| mean + half).max(1e-3)
        };
        let linear = Mapping::Linear;
        let y = Scale::new(linear, (0.0, high), 4, (frame.bottom, frame.top));
        let x = Scale::new(linear, (0.0, most(|p| p.0)), 5, (frame.left, frame.right));
        frame.y_axis(svg, &y, "");
        frame.x_axis(svg, &x, "");
        for line in &self.lines {
            line.draw(svg, &x, &y);
        }
    }
}

impl Line {
    fn draw(&self, svg: &mut Svg, x: &Scale, y: &Scale) {
        let place = |(clients, mean, _): &(f64, f64, f64)| (x.at(*clients), y.at(*mean));
        let (line, whisker) = (
            format!("median c{}", self.series),
            format!("whisker c{}", self.series),
        );
        for pair in self.points.windows(2) {
            svg.line(&line, place(&pair[0]), place(&pair[1]));
        }
        for (clients, mean, half) in &self.points {
            let at = x.at(*clients);
            svg.line(&whisker, (at, y.at(mean - half)), (at, y.at(mean + half)));
        }
        for (clients, mean, half) in &self.points {
            let title = format!("{clients} clients: {mean:.3} \u{b1} {half:.3}");
            let at = (x.at(*clients), y.at(*mean));
            svg.with_title(&title, |svg| {
                svg.circle(&format!("dot c{}", self.series), at, 3.0);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use carob_sim::world;

    use super::*;
    use crate::run::{Plan, Selection};
    use crate::scenario::{Scenario, builtin};

    fn with<T>(name: &str, set: &[&str], look: impl Fn(&Outcome<'_>) -> T) -> T {
        let (file, _) = builtin::find(name).expect("a scenario");
        let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
        let scenario = Scenario::read(file.name, file.text, &set).expect("a valid one");
        let selection = Selection {
            seeds: Some(2),
            ..Selection::default()
        };
        let plan = Plan::new(&scenario, &selection).expect("a plan");
        look(&plan.execute(world::run, |_, _| {}).expect("possible"))
    }

    const FEW: [&str; 2] = ["requests=1", "run.algorithms=default,rtt-count"];

    #[test]
    fn one_scenario_has_a_panel_for_each_metric_and_a_line_for_each_algorithm() {
        with("retrycount/clients", &FEW, |outcome| {
            let (panels, series) = panels(outcome, &outcome.rows()).expect("a figure");
            assert_eq!(series, ["default", "rtt-count"]);
            assert_eq!(panels.len(), METRICS.len());
            for panel in &panels {
                let clients = |line: &Line| line.points.iter().map(|p| p.0).collect::<Vec<_>>();
                let all = [1.0, 10.0, 25.0, 50.0, 75.0, 100.0];
                assert!(panel.lines.iter().all(|line| clients(line) == all));
            }
            // One request each: 100 clients cannot be faster than the server.
            let most = panels[0].points().map(|p| p.1).fold(0.0, f64::max);
            assert!(most > 20.0 && most < 50.0, "{most}");
            let svg = figure(outcome, &outcome.rows()).expect("a figure").svg;
            // Between six numbers of clients, and one in the legend.
            let lines = svg.matches("class=\"median c1\"").count();
            assert_eq!(lines, METRICS.len() * 5 + 1);
            assert!(!svg.contains("NaN") && svg.contains(">Clients<"));
        });
    }

    #[test]
    fn what_is_swept_besides_has_panels_and_more_than_that_no_figure() {
        with("retrycount/service", &FEW, |outcome| {
            let (panels, _) = panels(outcome, &outcome.rows()).expect("a figure");
            assert_eq!(panels.len(), 7);
            assert!(panels[1].title.ends_with("service 40 ms"));
        });
        let set = ["clients=1", "requests=1", "run.algorithms=default"];
        with("thesis/short", &set, |outcome| {
            assert!(figure(outcome, &outcome.rows()).is_none());
        });
    }
}
