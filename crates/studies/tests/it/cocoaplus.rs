//! The settings tried for Betzler et al. 2015 (CoCoA+), held to 15 % of its delays and settling times.

use carob_lab::calibration::PointResult;
use carob_studies::calibration::Calibrated;

const BASELINE: &str = include_str!("../../papers/cocoaplus/baseline.toml");
/// The facts of `baseline.toml`, six of each kind: PDR within five points, the others within 50 %.
const FACTS: usize = 6;
/// 15 % of a value, in tolerances of 50 %.
const CLOSE: f64 = 15.0 / 50.0;

/// The met facts of a point: PDR within five points, settling times and delays within 15 %. The measured value
/// counts, not its interval.
fn met(point: &PointResult) -> [usize; 3] {
    let mut met = [0; 3];
    for (index, fact) in point.facts.iter().enumerate() {
        let kind = index / FACTS;
        let most = if kind == 0 { 1.0 } else { CLOSE };
        met[kind] += usize::from(fact.checks.iter().all(|check| check.deviation <= most));
    }
    met
}

#[test]
fn no_tried_settings_meet_delays_and_delivery_within_15_per_cent() {
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
    let valid = kept.points.iter().filter(|point| point.error.is_none());
    let all: Vec<_> = valid.map(met).collect();
    // Each kind alone: 9 points have every PDR, none every settling time or delay.
    let with_all = |kind: usize| all.iter().filter(|met| met[kind] == FACTS).count();
    assert_eq!([0, 1, 2].map(with_all), [9, 0, 0]);
    // Points with every PDR have 3 of 6 delays at most; the one with 5 delays has 2 of 6 PDR.
    let of_delivery = all.iter().filter(|met| met[0] == FACTS);
    assert_eq!(of_delivery.map(|met| met[2]).max(), Some(3));
    let of_delays: Vec<_> = all.iter().filter(|met| met[2] >= 5).collect();
    assert_eq!(of_delays.len(), 1);
    assert_eq!(of_delays[0][0], 2);
    // The interpretation is among those that meet most.
    let most = all.iter().map(|met| met.iter().sum::<usize>()).max();
    let of_interpretation = met(&kept.points[kept.interpretation]);
    assert_eq!(most, Some(10));
    assert_eq!(of_interpretation, [6, 1, 3]);
}
