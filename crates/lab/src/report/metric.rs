//! Any metric of runs: means with their intervals as bars, and the distribution of all values.

use super::chart::{self, Axis, Chart, Layer, Panel, Part};
use super::distribution::{quantile, steps};
use super::look::Looks;
use super::page::FigureBlock;
use super::scale::Mapping;
use crate::metrics::Metric;
use crate::run::{Outcome, Row};
use crate::summary::{distinct, label};

/// Height of a bar in pixels, and the most bars of a figure.
const BAR: f64 = 18.0;
const BARS_MAX: usize = 160;
/// The most distributions of a figure.
const LINES_MAX: usize = 24;

/// Means of a metric with intervals of 95 %, a group of bars for each cell; none without a value, or with too many.
pub(super) fn bars(metric: &Metric, rows: &[Row]) -> Option<FigureBlock> {
    let found = rows
        .iter()
        .filter_map(|row| Some((row, row.metrics.get(metric.name)?)));
    let found: Vec<_> = found.collect();
    if found.is_empty() || found.len() > BARS_MAX {
        return None;
    }
    let looks = Looks::of(found.iter().map(|(row, _)| row.algorithm.as_str()));
    let names = distinct(found.iter().map(|(row, _)| row.algorithm.as_str()));
    let mut layers: Vec<Layer> = names.iter().map(|name| Layer::new(name)).collect();
    let (mut least, mut most) = (0.0_f64, 0.0_f64);
    let mut ticks: Vec<(f64, String)> = Vec::new();
    let mut y = 0.0;
    let mut cell = "";
    let mut first = 0.0;
    for (row, of) in &found {
        if row.scenario != cell {
            // Half a bar between cells, with the cell's name in the middle of its bars.
            y += if cell.is_empty() { 0.0 } else { 0.5 };
            (cell, first) = (&row.scenario, y);
            ticks.push((y, cell_name(rows, row)));
        }
        let look = looks.get(&row.algorithm);
        let class = look.class();
        let (mean, low, high) = (of.mean, of.mean - of.ci95, of.mean + of.ci95);
        (least, most) = (least.min(low), most.max(high));
        let middle = y + 0.5;
        let parts = vec![
            Part::Rect(
                format!("box {class}"),
                (0.0, y + 0.1),
                (mean, y + 0.9),
                None,
            ),
            Part::span(&format!("whisker {class}"), (low, middle), (high, middle)),
            Part::of(look, 3.0, vec![(mean, middle)]),
        ];
        let tip = format!(
            "{}, {}: {} ± {} {}, {} values",
            cell_name(rows, row),
            row.algorithm,
            digits(mean),
            digits(of.ci95),
            unit(metric),
            of.n
        );
        if let Some(place) = names.iter().position(|name| *name == row.algorithm) {
            layers[place] = std::mem::take(&mut layers[place]).item(&tip, parts);
        }
        y += 1.0;
        if let Some(tick) = ticks.last_mut() {
            tick.0 = f64::midpoint(first, y);
        }
    }
    let panel = Panel {
        x: Axis::new(
            &axis(metric),
            Mapping::Linear,
            (least, most.max(f64::MIN_POSITIVE)),
            6,
        ),
        y: Axis::given("", (0.0, y), ticks).turned(),
        layers,
        ..Panel::default()
    };
    let title = format!("{} by cell and algorithm", metric.name);
    let chart = Chart {
        height: (BAR * y).max(3.0 * BAR),
        ..Chart::of(&title, panel)
    };
    let caption = format!("{} Means with intervals of 95 %.", metric.about);
    Some(FigureBlock::new(chart.picture(), title, &caption))
}

/// The share of all values at or below each, a line for each cell and algorithm; none without a value, or with too
/// many lines.
pub(super) fn distribution(
    metric: &Metric,
    outcome: &Outcome<'_>,
    rows: &[Row],
) -> Option<FigureBlock> {
    let with_values = |(row, mut values): (&Row, Vec<f64>)| {
        values.retain(|value| !value.is_nan());
        values.sort_by(f64::total_cmp);
        (!values.is_empty()).then(|| (name(rows, row), values))
    };
    let lines = rows.iter().zip(outcome.values(metric));
    let lines: Vec<(String, Vec<f64>)> = lines.filter_map(with_values).collect();
    if lines.is_empty() || lines.len() > LINES_MAX {
        return None;
    }
    let low = lines
        .iter()
        .map(|line| line.1[0])
        .fold(f64::INFINITY, f64::min);
    let ends = lines.iter().filter_map(|line| line.1.last().copied());
    let high = ends.fold(f64::NEG_INFINITY, f64::max);
    let mapping = if low > 0.0 && high / low > 20.0 {
        Mapping::Logarithmic
    } else {
        Mapping::Linear
    };
    let looks = Looks::of(lines.iter().map(|line| line.0.as_str()));
    let layers = lines.iter().map(|(name, values)| {
        let class = format!("whisker {}", looks.get(name).class());
        let line = std::iter::once((values[0], 0.0)).chain(steps(values));
        let quantiles = [0.5, 0.9, 0.95].map(|share| digits(quantile(values, share)));
        let tip = format!(
            "{name}: median {}, p90 {}, p95 {} {}, {} values",
            quantiles[0],
            quantiles[1],
            quantiles[2],
            unit(metric),
            values.len()
        );
        let line = Part::Line(class, vec![chart::steps(line, high)]);
        let middle = Part::of(looks.get(name), 4.0, vec![(quantile(values, 0.5), 0.5)]);
        Layer::new(name).item(&tip, vec![line, middle])
    });
    let panel = Panel {
        x: Axis::new(&axis(metric), mapping, (low, high), 7),
        y: Axis::new("Share at or below", Mapping::Linear, (0.0, 1.0), 5),
        layers: layers.collect(),
        ..Panel::default()
    };
    let title = format!("Distribution of {}", metric.name);
    let picture = Chart::of(&title, panel).picture();
    Some(FigureBlock::new(picture, title, metric.about))
}

/// The cell's name, or what differs between cells.
fn cell_name(rows: &[Row], row: &Row) -> String {
    let text = label(rows, row);
    if text.is_empty() {
        row.cell_name().to_owned()
    } else {
        text
    }
}

/// Algorithm and cell, as far as they differ.
fn name(rows: &[Row], row: &Row) -> String {
    let differ = |of: fn(&Row) -> &str| rows.iter().any(|other| of(other) != of(row));
    match (differ(|row| &row.scenario), differ(|row| &row.algorithm)) {
        (true, true) => format!("{}, {}", row.algorithm, cell_name(rows, row)),
        (true, false) => cell_name(rows, row),
        (false, _) => row.algorithm.clone(),
    }
}

fn unit(metric: &Metric) -> &'static str {
    if metric.unit == "1" { "" } else { metric.unit }
}

fn axis(metric: &Metric) -> String {
    match unit(metric) {
        "" => metric.name.to_owned(),
        unit => format!("{} ({unit})", metric.name),
    }
}

/// Four significant digits.
fn digits(value: f64) -> String {
    let size = value.abs().max(1e-9).log10().floor() as i32;
    format!("{value:.*}", usize::try_from(3 - size).unwrap_or(0).min(6))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Statistics;

    #[test]
    fn each_mean_has_a_bar_with_its_interval() {
        let row = |scenario: &str, algorithm: &str, values: &[f64]| Row {
            scenario: scenario.to_owned(),
            algorithm: algorithm.to_owned(),
            metrics: Statistics::of(values)
                .map(|of| ("fct_s", of))
                .into_iter()
                .collect(),
            ..Row::default()
        };
        let rows = [
            row("a/one", "default", &[1.0, 3.0]),
            row("a/one", "carob", &[1.0]),
            row("a/two", "carob", &[4.0]),
            row("a/two", "default", &[]),
        ];
        let metric = Metric::named("fct_s").expect("a metric");
        let block = bars(metric, &rows).expect("values");
        let svg = block.picture.0;
        let legend = 2;
        assert_eq!(svg.matches("class=\"box c").count(), 3 + legend);
        assert!(
            svg.contains("<title>one, default: 2.000 ± 12.71 s, 2 values</title>"),
            "{svg}"
        );
        assert!(svg.contains(">fct_s (s)<") && !svg.contains("NaN"));
        let other = Metric::named("loss").expect("a metric");
        assert!(bars(other, &rows).is_none());
    }
}
