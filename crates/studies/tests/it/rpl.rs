//! The RPL study's baseline facts, and the data that they are of.

use carob_studies::calibration::Calibrated;

const LOAD: &str = include_str!("../../../../papers/rpl/measured_load.csv");

#[test]
fn baseline_facts_of_default_coap_match_the_data() {
    let study = Calibrated::of("rpl").expect("a study");
    let calibration = study.calibration().expect("its files read");
    assert_eq!(calibration.facts.len(), 10);
    for fact in &calibration.facts {
        let (_, row) = fact.about.split_once(": ").expect("file and row");
        let row = row.trim_end_matches(" s").replace(", ", ",");
        for (quantity, condition) in fact.text.iter().flat_map(|check| &check.cases) {
            assert!(
                quantity
                    .references()
                    .iter()
                    .all(|of| of.algorithm == "default")
            );
            let carob_lab::claims::rule::Condition::Band { low, high } = condition else {
                panic!("{condition}");
            };
            let value = f64::midpoint(*low, *high).round();
            let row = format!("{row},default,{value},");
            assert!(LOAD.contains(&row), "{row}");
        }
    }
}
