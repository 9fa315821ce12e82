//! Keys that a scenario must have, all of them at once.

use std::collections::BTreeMap;

use super::error::{Place, Problem, ScenarioError};
use super::keys;
use super::value::{Kind, Value};
use super::{Axis, Scenario, Setting, missing};

/// Keys of every scenario.
const REQUIRED: [&str; 2] = ["run.algorithms", "workload.kind"];

/// Study of a scenario that names none.
const NO_STUDY: &str = "own";

/// The most keys that are looked for in one cell.
const MISSING_MAX: usize = 64;

/// Adds missing names of the file and of the sweep's keys.
pub(super) fn name_by_file(
    name: &str,
    settings: &mut BTreeMap<String, Setting>,
    axes: &[Axis],
    whole: &Place,
) {
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let file = file.strip_suffix(".toml").unwrap_or(file);
    let family = match settings.get("family").map(|setting| &setting.value) {
        Some(Value::Text(family)) => family.clone(),
        _ => file.to_owned(),
    };
    let cell = axes
        .iter()
        .fold(family, |cell, axis| format!("{cell}-{{{}}}", axis.short));
    for (path, text) in [
        ("about", file),
        ("study", NO_STUDY),
        ("family", file),
        ("cell", &cell),
    ] {
        settings.entry(path.to_owned()).or_insert_with(|| Setting {
            value: Value::Text(text.to_owned()),
            place: whole.clone(),
        });
    }
}

/// The missing keys among those that every scenario needs.
pub(super) fn absent(whole: &Place, settings: &BTreeMap<String, Setting>) -> Vec<ScenarioError> {
    let keys = REQUIRED.iter().filter(|key| !settings.contains_key(**key));
    keys.map(|key| missing(whole, key)).collect()
}

/// Puts something in their place, but for the kind of the workload, on which others depend.
pub(super) fn stand_in(settings: &mut BTreeMap<String, Setting>) {
    let algorithms = || Setting {
        value: Value::Texts(vec!["default".to_owned()]),
        place: Place::Scenario(String::new()),
    };
    settings
        .entry("run.algorithms".to_owned())
        .or_insert_with(algorithms);
}

/// Keys without default that the first cell needs for its algorithms and does not have.
pub(super) fn missing_in(scenario: &Scenario, whole: &Place) -> Vec<ScenarioError> {
    let mut all = Vec::new();
    if !scenario.settings.contains_key("workload.kind") {
        return all;
    }
    for algorithm in &scenario.algorithms {
        let Some(mut cell) = scenario.cells.first().cloned() else {
            continue;
        };
        for _ in 0..MISSING_MAX {
            let Err(ScenarioError {
                problem: Problem::MissingKey { key },
                ..
            }) = cell.spec(algorithm, 0)
            else {
                break;
            };
            let Some(value) = keys::exact(&key).and_then(|found| sample(found.kind)) else {
                break;
            };
            all.push(missing(whole, &key));
            let place = whole.clone();
            cell.settings.insert(key, Setting { value, place });
        }
    }
    all
}

/// Some value of a kind.
fn sample(kind: Kind) -> Option<Value> {
    let text = match kind {
        Kind::Text | Kind::Texts | Kind::Tcp(_) => "default".to_owned(),
        Kind::Word(words) => (*words.first()?).to_owned(),
        Kind::Whole(low, high) => low.max(1).min(high).to_string(),
        Kind::Number => "1".to_owned(),
        Kind::Time | Kind::TimeOrNone | Kind::Span | Kind::Distribution => "1 s".to_owned(),
        Kind::Rate => "1 Mbit/s".to_owned(),
        Kind::Bytes(low, high) => format!("{} B", low.max(64).min(high)),
        Kind::Buffer => "inf".to_owned(),
        Kind::Percent => "1 %".to_owned(),
        Kind::Length => "1 m".to_owned(),
        Kind::Decibels => "3 dB".to_owned(),
        Kind::Power => "1 mW".to_owned(),
    };
    Value::read(kind, &text)
}
