//! The RPL study's baseline facts match its data.

use carob_studies::calibration::Calibrated;
use carob_studies::claims::rule::Condition;

/// Carried load in the raw data.
const LOAD: &str = include_str!("../../papers/rpl/measured_load.csv");
/// Round-trip times, hops, neighbours, frames and parents in the raw data.
const FACTS: &str = include_str!("../../papers/rpl/measured_facts.csv");

#[test]
fn baseline_facts_of_default_coap_match_the_data() {
    let study = Calibrated::of("rpl").expect("a study");
    let calibration = study.calibration().expect("its files read");
    let (mut loads, mut given_up) = (0, 0);
    for fact in &calibration.facts {
        let (file, row) = fact.about.split_once(": ").expect("file and row");
        let row = row
            .trim_end_matches(" s")
            .replace("RPL", "rpl")
            .replace(", ", ",");
        for (quantity, condition) in fact.text.iter().flat_map(|check| &check.cases) {
            let of = quantity.references();
            assert!(of.iter().all(|of| of.algorithm == "default"));
            let Condition::Band { low, high } = condition else {
                panic!("{condition}");
            };
            let value = f64::midpoint(*low, *high);
            if file == "measured_load.csv" {
                loads += 1;
                let row = format!("{row},default,{},", value.round());
                assert!(LOAD.contains(&row), "{row}");
                continue;
            }
            assert_eq!(file, "measured_facts.csv");
            if quantity.metrics().contains(&"mac_no_ack_ratio") {
                given_up += 1;
                let value = (value * 1e4).round() / 1e4;
                let row = format!("pint,{row},default,frames given up (ratio),{value},");
                assert!(FACTS.contains(&row), "{row}");
            }
        }
    }
    assert_eq!((loads, given_up, calibration.facts.len()), (10, 7, 26));
}
