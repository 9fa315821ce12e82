//! The RPL study's open settings, the interpretation of them, and the baseline that it is chosen by.

use carob_lab::claims::expression::Expression;
use carob_lab::scenario::{Scenario, builtin};
use serde::Deserialize;

const OPEN: &str = include_str!("../../../../papers/rpl/open.toml");
const INTERPRETATION: &str = include_str!("../../../../papers/rpl/interpretation.toml");
const BASELINE: &str = include_str!("../../../../papers/rpl/baseline.toml");
const LOAD: &str = include_str!("../../../../papers/rpl/measured_load.csv");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OpenFile {
    setting: Vec<Open>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Open {
    key: String,
    testbed: Option<String>,
    #[serde(default)]
    values: Vec<String>,
    low: Option<String>,
    high: Option<String>,
    scale: Option<String>,
    reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InterpretationFile {
    setting: Vec<Choice>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Choice {
    key: String,
    testbed: Option<String>,
    value: String,
    chosen_by: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BaselineFile {
    fact: Vec<Fact>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fact {
    quantity: String,
    value: f64,
    within: String,
    source: String,
}

/// Returns true if a setting of one testbed, or of both, is of this one.
fn is_of(testbed: Option<&String>, name: &str) -> bool {
    testbed.is_none_or(|testbed| testbed == name)
}

/// Reads the scenario of a testbed with other settings.
fn read(testbed: &str, set: &[String]) -> Result<Scenario, String> {
    let (file, _) = builtin::find(&format!("rpl/{testbed}-rpl")).expect("a scenario");
    Scenario::read(file.name, file.text, set).map_err(|errors| errors.to_string())
}

fn chosen_for(testbed: &str) -> Vec<Choice> {
    let file: InterpretationFile = toml::from_str(INTERPRETATION).unwrap();
    let mut all = file.setting;
    all.retain(|chosen| is_of(chosen.testbed.as_ref(), testbed));
    all
}

#[test]
fn every_plausible_value_of_an_open_setting_can_run() {
    let open: OpenFile = toml::from_str(OPEN).unwrap();
    for testbed in ["pint", "wilab"] {
        for setting in &open.setting {
            if !is_of(setting.testbed.as_ref(), testbed) {
                continue;
            }
            assert!(setting.reason.ends_with('.'), "{}", setting.key);
            let range = [&setting.low, &setting.high];
            assert_eq!(
                setting.values.is_empty(),
                range.iter().all(|end| end.is_some())
            );
            assert_eq!(setting.values.is_empty(), setting.scale.is_some());
            for value in setting.values.iter().chain(range.into_iter().flatten()) {
                let set = format!("{}={value}", setting.key);
                // Shares and regions are of measured links.
                let topology = format!("mesh.topology={testbed}-measured");
                let read = read(testbed, &[topology, set.clone()]);
                assert!(read.is_ok(), "{testbed}, {set}: {read:?}");
            }
        }
    }
}

#[test]
fn the_interpretation_settles_every_open_setting_within_what_is_plausible() {
    let open: OpenFile = toml::from_str(OPEN).unwrap();
    for testbed in ["pint", "wilab"] {
        let chosen = chosen_for(testbed);
        let set: Vec<String> = chosen
            .iter()
            .map(|chosen| format!("{}={}", chosen.key, chosen.value))
            .collect();
        let scenario = read(testbed, &set);
        assert!(scenario.is_ok(), "{testbed}: {scenario:?}");
        for one in &chosen {
            assert!(!one.chosen_by.is_empty());
            let same = chosen.iter().filter(|other| other.key == one.key);
            assert_eq!(same.count(), 1, "{testbed}: {}", one.key);
            let is_it = |open: &&Open| open.key == one.key && is_of(open.testbed.as_ref(), testbed);
            let open = open.setting.iter().find(is_it);
            let open = open.unwrap_or_else(|| panic!("{testbed}: {} is not open", one.key));
            let is_listed = open.values.is_empty() || open.values.contains(&one.value);
            assert!(is_listed, "{testbed}: {} = {}", one.key, one.value);
        }
    }
    let pint: Vec<Choice> = chosen_for("pint");
    let missing = open
        .setting
        .iter()
        .filter(|open| is_of(open.testbed.as_ref(), "pint"))
        .find(|open| !pint.iter().any(|chosen| chosen.key == open.key));
    assert!(missing.is_none(), "{:?}", missing.map(|open| &open.key));
}

#[test]
fn baseline_facts_are_of_default_coap_and_have_the_values_of_the_data() {
    let baseline: BaselineFile = toml::from_str(BASELINE).unwrap();
    assert_eq!(baseline.fact.len(), 10);
    for fact in &baseline.fact {
        let quantity = Expression::parse(&fact.quantity).unwrap();
        for of in quantity.references() {
            assert_eq!(of.algorithm, "default");
            let scenario = of
                .cell
                .rsplit_once('-')
                .map(|(family, _)| format!("rpl/{family}"));
            let (file, _) = builtin::find(&scenario.unwrap()).unwrap();
            let scenario = Scenario::read(file.name, file.text, &[]).unwrap();
            assert!(scenario.cell(&of.cell).is_some(), "{}", of.cell);
        }
        assert!(fact.within.ends_with(" %"), "{}", fact.within);
        let (_, row) = fact.source.split_once(": ").unwrap();
        let row = row.trim_end_matches(" s").replace(", ", ",");
        let value = fact.value;
        let row = format!("{row},default,{value},");
        assert!(LOAD.contains(&row), "{row}");
    }
}
