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

fn documentation() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/json.md");
    std::fs::read_to_string(page).expect("the page is there")
}

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

fn undocumented(arguments: &[&str], page: &str) -> Vec<String> {
    let mut found = BTreeSet::new();
    for value in carob(arguments).json() {
        members(&value, &mut found);
    }
    assert!(!found.is_empty(), "{arguments:?} printed no object");
    let names = found.into_iter();
    names
        .filter(|name| !page.contains(&format!("`{name}`")))
        .map(|name| format!("{}: {name}", arguments[0]))
        .collect()
}

#[test]
fn members_of_responses_and_events_are_documented() {
    let page = documentation();
    let server = Server::start();
    let (hello, time, count) = (
        server.path("hello"),
        server.path("time"),
        server.path("count"),
    );
    let (none, up) = (server.path("none"), server.path(""));
    let commands: [&[&str]; 8] = [
        &["get", &hello, "--json", "--timing"],
        &["get", &none, "--json"],
        &["get", "coap://localhost:1/x", "--json", "--deadline", "1s"],
        &["post", &count, "1", "--no-response", "--json"],
        &["observe", &time, "--count", "1", "--json"],
        &["discover", &up, "--json"],
        &["ping", &up, "--json"],
        &["bench", &hello, "--requests", "10", "--json"],
    ];
    let missing: Vec<_> = (commands.iter())
        .flat_map(|arguments| undocumented(arguments, &page))
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn members_of_the_lab_and_of_controllers_are_documented() {
    let page = documentation();
    let commands: [&[&str]; 2] = [
        &["cc", "list", "--json"],
        &["lab", "run", "carob/default", "--seeds", "1", "--json"],
    ];
    let missing: Vec<_> = (commands.iter())
        .flat_map(|arguments| undocumented(arguments, &page))
        .collect();
    assert_eq!(missing, Vec::<String>::new());
}
