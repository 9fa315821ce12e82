//! Wireless scenarios: all of them run and have their metrics.

use std::collections::BTreeMap;

use carob_lab::run::{Plan, Row, Selection};
use carob_lab::scenario::{Scenario, builtin};

const SCENARIOS: [&str; 15] = [
    "cocoaplus/aging-threshold",
    "cocoaplus/backoff-factors",
    "cocoaplus/constant",
    "cocoaplus/event",
    "cocoaplus/mixed",
    "nonobserve/iotlab60",
    "rpl/pint-by-data",
    "rpl/pint-idle",
    "rpl/pint-rpl",
    "rpl/pint-static",
    "rpl/pint-variants",
    "rpl/related-bursty",
    "rpl/related-variants",
    "rpl/wilab-idle",
    "rpl/wilab-rpl",
];

fn rows(name: &str, cell: Option<&str>, set: &[&str]) -> Vec<Row> {
    let (file, _) = builtin::find(name).expect("a scenario");
    let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
    let scenario = Scenario::read(file.name, file.text, &set).expect("a valid one");
    let cell = cell.map_or_else(|| scenario.cells()[0].name.clone(), str::to_owned);
    let selection = Selection {
        cell: Some(cell),
        seeds: Some(1),
        ..Selection::default()
    };
    let plan = Plan::new(&scenario, &selection).expect("something to run");
    plan.execute(carob_sim::run, |_, _| ())
        .expect("it runs")
        .rows()
}

#[test]
fn slow_every_network_runs_with_message_counts() {
    for name in SCENARIOS {
        let idle = name.ends_with("-idle");
        for row in rows(name, None, &["workload.duration=200 s"]) {
            let mean = |metric: &str| row.metrics.get(metric).map(|s| s.mean);
            let nodes = mean("nodes").expect("it has nodes");
            assert!(nodes > 4.0, "{name}");
            let made = mean("generated").expect("messages are counted");
            assert_eq!(made == 0.0, idle, "{name}: {made}");
            let pdr = mean("pdr");
            assert_eq!(pdr.is_none(), idle, "{name}");
            assert!(pdr.is_none_or(|pdr| pdr > 0.0 && pdr <= 1.0), "{name}");
            let bursts = ["cocoaplus/event", "cocoaplus/mixed"].contains(&name);
            assert_eq!(mean("settling_s").is_some(), bursts, "{name}");
        }
    }
}

#[test]
fn a_name_cut_short_is_all_loads_and_a_load_that_was_set_one() {
    let scenario = |set: &[&str]| {
        let (file, cell) = builtin::find("cocoaplus/constant-6x6-lossy").expect("a scenario");
        assert_eq!(cell, Some("constant-6x6-lossy"));
        let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
        Scenario::read(file.name, file.text, &set).expect("a valid one")
    };
    let all = scenario(&[]);
    assert_eq!(all.cells_like("constant-6x6-lossy").len(), 10);
    assert_eq!(all.cells_like("constant-6x6-lossy-6kbit").len(), 1);
    let one = scenario(&["load=\"4.5 kbit/s\""]);
    let names: Vec<&str> = one
        .cells_like("constant-6x6-lossy")
        .iter()
        .map(|cell| cell.name.as_str())
        .collect();
    assert_eq!(names, ["constant-6x6-lossy-4500bit"]);
}

#[test]
fn offered_load_is_the_total_of_all_nodes() {
    let set = [
        "load=4 kbit/s",
        "workload.duration=300 s",
        "traffic.gaps=fixed",
    ];
    let rows = rows("cocoaplus/constant", Some("constant-chain-ideal"), &set);
    let made: BTreeMap<&str, f64> = rows
        .iter()
        .map(|row| (row.algorithm.as_str(), row.metrics["generated"].mean))
        .collect();
    // 4,000 bit/s in messages of 96 bytes for 300 s; a node sends one more or less, depending on its phase.
    let wanted = 4_000.0 * 300.0 / (96.0 * 8.0);
    assert_eq!(made.len(), 3);
    for (algorithm, count) in made {
        assert!((count - wanted).abs() <= 16.0, "{algorithm}: {count}");
    }
}
