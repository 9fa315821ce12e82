//! Members of JSON output are documented in `docs/reference/json.md`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::harness::{Server, carob};

/// Objects with data as member names: metrics, error kinds, codes, controller values, swept keys.
const DATA: [&str; 8] = [
    "metrics",
    "errors",
    "codes",
    "state",
    "cell",
    "row",
    "parameters",
    "plausible",
];

/// Collects member names recursively.
fn members(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                found.insert(name.clone());
                if !DATA.contains(&name.as_str()) {
                    members(value, found);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| members(value, found)),
        _ => {}
    }
}

/// Checks the documentation of the members in the output of these commands.
fn check(commands: &[&str]) {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/json.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let mut missing = BTreeSet::new();
    for command in commands {
        let mut found = BTreeSet::new();
        for value in carob(*command).json() {
            members(&value, &mut found);
        }
        assert!(!found.is_empty(), "{command} printed no object");
        let names = found.into_iter();
        let names = names.filter(|name| !page.contains(&format!("`{name}`")));
        missing.extend(names.map(|name| format!("{command}: {name}")));
    }
    assert_eq!(missing, BTreeSet::new());
}

#[test]
fn members_of_responses_and_events_are_documented() {
    let server = Server::start();
    let uri = &server.uri;
    check(&[
        &format!("get {uri}/hello --json --timing"),
        &format!("get {uri}/none --json"),
        "get coap://localhost:1/x --json --deadline 1s",
        &format!("post {uri}/count 1 --no-response --json"),
        &format!("observe {uri}/time --count 1 --json"),
        &format!("discover {uri}/ --json"),
        &format!("ping {uri}/ --json"),
        &format!("bench {uri}/hello --requests 10 --json"),
    ]);
}

#[test]
fn members_of_the_lab_and_of_controllers_are_documented() {
    check(&["cc list --json", "lab run carob/default --seeds 1 --json"]);
}
