//! Interpretations of Betzler et al. 2015 (CoCoA+), checked against its values for default CoAP: delivery ratios within
//! five points, delays and settling times within 15 %.

use carob_studies::calibration::{Calibrated, PointResult};

const BASELINE: &str = include_str!("../../papers/cocoaplus/baseline.toml");
/// Facts of each kind in `baseline.toml`: delivery ratios, settling times, delays.
const FACTS: usize = 6;

/// Number of facts of each kind that a point meets.
fn met(point: &PointResult) -> [usize; 3] {
    let mut met = [0; 3];
    for (index, fact) in point.facts.iter().enumerate() {
        met[index / FACTS] += usize::from(!fact.excludes());
    }
    met
}

#[test]
fn no_settings_meet_delays_and_delivery_within_15_per_cent() {
    assert!(BASELINE.contains("excluded_by = \"value\"") && !BASELINE.contains("50 %"));
    let ids = BASELINE
        .lines()
        .filter_map(|line| line.strip_prefix("id = \""));
    for (index, id) in ids.enumerate() {
        assert!(
            id.starts_with(["PDR", "settling", "delay"][index / FACTS]),
            "{id}"
        );
    }
    let kept = Calibrated::of("cocoaplus").expect("a study").kept();
    let kept = kept.expect("a result");
    let valid: Vec<_> = kept.points.iter().filter(|p| p.error.is_none()).collect();
    let all: Vec<_> = valid.iter().map(|point| met(point)).collect();
    // One point meets all delivery ratios; none meets all settling times or all delays.
    let with_all = |kind: usize| all.iter().filter(|met| met[kind] == FACTS).count();
    assert_eq!([0, 1, 2].map(with_all), [1, 0, 0]);
    // That point meets 3 of 6 delays; points with 4 delays meet at most 4 delivery ratios.
    let of_delivery = all.iter().filter(|met| met[0] == FACTS);
    assert_eq!(of_delivery.map(|met| met[2]).max(), Some(3));
    let of_delays = all.iter().filter(|met| met[2] >= 4);
    assert_eq!(of_delays.clone().map(|met| met[2]).max(), Some(4));
    assert_eq!(of_delays.map(|met| met[0]).max(), Some(4));
    // The chosen interpretation is the nearest to all facts together.
    let interpretation = &kept.points[kept.interpretation];
    assert_eq!(met(interpretation), [3, 2, 2]);
    let nearest = valid.iter().map(|point| point.score());
    assert_eq!(nearest.min_by(f64::total_cmp), Some(interpretation.score()));
}
