//! Distributions of values: the share at or below each.

use super::chart::{Axis, Chart, Layer, Panel, Part, steps};
use super::look::Looks;
use super::metric;
use super::page::FigureBlock;
use super::scale::significant;
use super::svg::Picture;
use crate::metrics::Metric;
use crate::run::{Outcome, Row};
use crate::summary::label;

/// Steps of a line; larger samples are drawn by their quantiles.
const STEPS_MAX: usize = 400;
/// Shares that are marked.
const MARKED: [f64; 3] = [0.5, 0.9, 0.95];
/// The most lines of a figure.
const LINES_MAX: usize = 24;
/// Ratio of the largest value to the smallest from which an axis of any values is logarithmic.
const DECADES: f64 = 20.0;

/// The distribution of positive values on a logarithmic axis; nothing without values. `unit` is the unit of the
/// values in tooltips.
pub fn distribution(values: &[f64], label: &str, axis: &str, unit: &str) -> Option<Picture> {
    let positive = values.iter().copied().filter(|v| *v > 0.0).collect();
    let lines = [(String::new(), sorted(positive)?)];
    let chart = chart(&lines, label, Axis::logarithmic(axis, 8), unit);
    let height = 260.0;
    Some(Chart { height, ..chart }.picture())
}

/// All values of a metric, a line for each cell and algorithm; none without a value, or with too many lines.
pub(super) fn of_metric(
    metric: &Metric,
    outcome: &Outcome<'_>,
    rows: &[Row],
) -> Option<FigureBlock> {
    let lines = rows.iter().zip(outcome.values(metric));
    let lines = lines.filter_map(|(row, values)| Some((name(rows, row), sorted(values)?)));
    let lines: Vec<(String, Vec<f64>)> = lines.collect();
    if lines.is_empty() || lines.len() > LINES_MAX {
        return None;
    }
    let all = || lines.iter().flat_map(|(_, values)| values).copied();
    let (low, high) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
    let axis = if low > 0.0 && high / low > DECADES {
        Axis::logarithmic(&metric::axis(metric), 7)
    } else {
        Axis::linear(&metric::axis(metric), 7)
    };
    let title = format!("Distribution of {}", metric.name);
    let picture = chart(&lines, &title, axis, metric::unit(metric)).picture();
    Some(FigureBlock::new(picture, title, metric.about))
}

/// A line for each name, with marks at [`MARKED`].
fn chart(lines: &[(String, Vec<f64>)], label: &str, x: Axis, unit: &str) -> Chart {
    let names = lines.iter().map(|line| line.0.as_str());
    let looks = Looks::of(names.filter(|name| !name.is_empty()));
    let end = lines
        .iter()
        .filter_map(|(_, values)| values.last().copied());
    let end = end.fold(f64::MIN, f64::max);
    let layers = lines.iter().map(|(name, values)| {
        let look = looks.get(name);
        let line = std::iter::once((values[0], 0.0)).chain(shares(values));
        let marked = MARKED.map(|share| (quantile(values, share), share));
        let [median, p90, p95] = marked.map(|(value, _)| significant(value));
        let tip = format!(
            "{name}: median {median}, p90 {p90}, p95 {p95} {unit}, {} values",
            values.len()
        );
        let parts = vec![
            Part::line(&look.with("whisker"), steps(line, end)),
            Part::of(look, 4.0, marked.into()),
        ];
        Layer::new(name).item(tip.trim_start_matches(": "), parts)
    });
    let y = Axis::linear("Share at or below", 5).within(0.0, 1.0);
    Chart::of(label, Panel::new(x, y, layers.collect()))
}

/// Algorithm and cell, as far as they differ.
fn name(rows: &[Row], row: &Row) -> String {
    let differ = |of: fn(&Row) -> &str| rows.iter().any(|other| of(other) != of(row));
    match (differ(|row| &row.scenario), differ(|row| &row.algorithm)) {
        (true, true) => format!("{}, {}", row.algorithm, label(rows, row)),
        (true, false) => label(rows, row),
        (false, _) => row.algorithm.clone(),
    }
}

fn sorted(mut values: Vec<f64>) -> Option<Vec<f64>> {
    values.retain(|value| !value.is_nan());
    values.sort_by(f64::total_cmp);
    (!values.is_empty()).then_some(values)
}

/// The value at or below which a share of sorted values lies.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// Values, and the share at or below each.
fn shares(sorted: &[f64]) -> Vec<(f64, f64)> {
    let count = sorted.len().min(STEPS_MAX);
    let shares = (1..=count).map(|k| k as f64 / count as f64);
    shares
        .map(|share| (quantile(sorted, share), share))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_at_the_largest_value_and_marks_percentiles() {
        let values: Vec<f64> = (1..=1_000).map(|k| f64::from(k) / 1e3).collect();
        let all = shares(&values);
        assert_eq!((all.len(), all[STEPS_MAX - 1]), (STEPS_MAX, (1.0, 1.0)));
        assert_eq!(shares(&[0.5, 2.0]), [(0.5, 0.5), (2.0, 1.0)]);
        let drawn = distribution(&values, "Round trips", "Round trip, s", "s");
        let svg = drawn.expect("values").0;
        assert!(svg.contains("<title>median 0.5000, p90 0.9000, p95 0.9500 s, 1000 values<"));
        assert_eq!(distribution(&[0.0], "", "", ""), None);
        assert!(distribution(&[0.2], "", "", "s").is_some());
    }
}
