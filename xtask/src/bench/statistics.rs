//! The two summaries the benchmarks quote.

/// The middle value, or the mean of the two middle ones; `None` of nothing.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The median of `value / base`, each pair taken in the same round.
///
/// Machines drift; two figures of one round share the drift, so their ratio is steadier than the
/// ratio of two medians.
pub(super) fn median_ratio(values: &[f64], bases: &[f64]) -> Option<f64> {
    let ratios: Vec<f64> = values
        .iter()
        .zip(bases)
        .map(|(value, base)| value / base)
        .collect();
    median(&ratios)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: Option<f64>, expected: f64) -> bool {
        found.is_some_and(|found| (found - expected).abs() < 1e-12)
    }

    #[test]
    fn the_median_ignores_one_outlier() {
        assert!(close(median(&[3.0, 100.0, 1.0]), 3.0));
        assert!(close(median(&[1.0, 2.0, 4.0, 100.0]), 3.0));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn ratios_are_paired_before_the_median() {
        // The machine ran at half speed in the second round; the ratio does not notice.
        assert!(close(median_ratio(&[2.0, 4.0, 2.0], &[1.0, 2.0, 1.0]), 2.0));
    }
}
