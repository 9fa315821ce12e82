//! Empirical distribution of values: the share at or below each.

use super::chart::{self, Axis, Chart, Layer, Panel, Part};
use super::picture::Picture;
use super::scale::Mapping;
use super::shapes::Shape;

/// Steps of the line; larger samples are drawn by their quantiles.
const STEPS_MAX: usize = 400;
/// Shares that are marked, with their names.
const MARKED: [(f64, &str); 3] = [(0.5, "median"), (0.9, "p90"), (0.95, "p95")];

/// The distribution of positive values on a logarithmic axis; nothing without values. `unit` is the unit of the
/// values in tooltips.
pub fn distribution(values: &[f64], label: &str, axis: &str, unit: &str) -> Option<Picture> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|v| *v > 0.0).collect();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = (*sorted.first()?, *sorted.last()?);
    let line = std::iter::once((low, 0.0)).chain(steps(&sorted));
    let mut quantiles = Layer::new("");
    for (share, name) in MARKED {
        let value = quantile(&sorted, share);
        let mark = Part::Marks("mark c0".to_owned(), Shape::Disc, 4.0, vec![(value, share)]);
        quantiles = quantiles.item(&format!("{name}: {value:.4} {unit}"), vec![mark]);
    }
    let line = Part::Line("rto".to_owned(), vec![chart::steps(line, high)]);
    let panel = Panel {
        x: Axis::new(axis, Mapping::Logarithmic, (low, high), 8),
        y: Axis::new("Share at or below", Mapping::Linear, (0.0, 1.0), 5),
        layers: vec![Layer::new("").part(line), quantiles],
        ..Panel::default()
    };
    let chart = Chart::of(label, panel);
    Some(
        Chart {
            height: 260.0,
            ..chart
        }
        .picture(),
    )
}

/// The value at or below which a share of sorted values lies.
pub(super) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// Values, and the share at or below each.
pub(super) fn steps(sorted: &[f64]) -> Vec<(f64, f64)> {
    let count = sorted.len().min(STEPS_MAX);
    let step = |k: usize| {
        let share = (k + 1) as f64 / count as f64;
        (quantile(sorted, share), share)
    };
    (0..count).map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_at_the_largest_value_and_marks_percentiles() {
        let values: Vec<f64> = (1..=1_000).map(|k| f64::from(k) / 1e3).collect();
        let all = steps(&values);
        assert_eq!((all.len(), all[STEPS_MAX - 1]), (STEPS_MAX, (1.0, 1.0)));
        assert_eq!(steps(&[0.5, 2.0]), [(0.5, 0.5), (2.0, 1.0)]);
        let svg = distribution(&values, "Round trips", "Round trip, s", "s")
            .expect("values")
            .0;
        assert!(
            svg.contains("p95: 0.9500 s") && !svg.contains("NaN"),
            "{svg}"
        );
        assert_eq!(distribution(&[0.0], "", "", ""), None);
        assert!(distribution(&[0.2], "", "", "s").is_some());
    }
}
