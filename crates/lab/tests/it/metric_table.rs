//! The table of metrics: each metric has values from its stated source, and programs use only metrics in the table.

use carob_lab::metrics::{How, METRICS, Metric};
use carob_lab::run::{Plan, Selection};
use carob_lab::scenario::{Scenario, builtin};
use std::fs;
use std::path::Path;

/// Metrics with their number of values in one run.
fn values(name: &str, set: &[&str], algorithm: &str) -> Vec<(&'static Metric, usize)> {
    let (file, cell) = builtin::find(name).expect("a scenario");
    let mut set: Vec<String> = set.iter().map(|one| (*one).to_owned()).collect();
    set.push(format!("run.algorithms={algorithm}"));
    let scenario = Scenario::read(file.name, file.text, &set).expect("a valid one");
    let selection = Selection {
        cell: cell.map(str::to_owned),
        seeds: Some(1),
        ..Selection::default()
    };
    let plan = Plan::new(&scenario, &selection).expect("a plan");
    let outcome = plan.execute(carob_sim::run, |_, _| {}).expect("possible");
    let rows = outcome.rows();
    let metrics = rows[0].metrics.iter();
    let named = |name: &str| Metric::named(name).expect("a metric of the table");
    metrics.map(|(name, of)| (named(name), of.n)).collect()
}

#[test]
fn metric_values_have_the_stated_source() {
    let flows = values(
        "thesis/short-random-50c-low-2500",
        &["requests=5"],
        "default",
    );
    for (metric, count) in &flows {
        match metric.how {
            How::Run => assert_eq!(*count, 1, "{}", metric.name),
            How::Flow | How::FlowOrNode | How::FlowOrRun | How::FlowSubscriberOrNode => {
                assert!((2..=50).contains(count), "{}: {count}", metric.name);
            }
            How::Response => assert!((200..=250).contains(count), "{}: {count}", metric.name),
            How::Node | How::SubscriberOrRun | How::SampleOrRun => panic!("{}", metric.name),
            How::Sample | How::Timer | How::RunOfTimers => panic!("{} is recorded", metric.name),
        }
    }
    let set = ["duration=60 s", "warm_up=30 s"];
    let mesh = values("rpl/pint-rpl-1s", &set, "default");
    for (metric, count) in &mesh {
        match metric.how {
            How::Run | How::FlowOrRun | How::SampleOrRun | How::SubscriberOrRun => {
                assert_eq!(*count, 1, "{}", metric.name);
            }
            How::Node | How::FlowOrNode | How::FlowSubscriberOrNode => {
                assert!((2..=22).contains(count), "{}: {count}", metric.name);
            }
            // Flow metrics do not exist in mesh networks.
            _ => panic!("{}", metric.name),
        }
    }
    assert!(flows.len() > 20 && mesh.len() > 60);
}

#[test]
fn names_are_unique_and_units_follow_from_them() {
    for (place, metric) in METRICS.iter().enumerate() {
        let others = METRICS[place + 1..].iter();
        assert!(others.clone().all(|other| other.name != metric.name));
        let ends = [
            ("_bps", "bit/s"),
            ("_Bps", "B/s"),
            ("_rps", "1/s"),
            ("_bytes", "B"),
        ];
        for (end, unit) in ends {
            assert_eq!(
                metric.name.ends_with(end),
                metric.unit == unit,
                "{}",
                metric.name
            );
        }
        if metric.unit == "s" {
            assert!(metric.name.ends_with("_s"), "{}", metric.name);
        }
        assert!(metric.about.ends_with('.'), "{}", metric.name);
    }
}

/// Paths and texts of programs that read metrics.
fn programs() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders: Vec<_> = [
        "crates/lab/src",
        "crates/studies/src",
        "crates/cli/src",
        "xtask/src",
    ]
    .iter()
    .map(|folder| root.join(folder))
    .collect();
    let mut texts = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = fs::read_to_string(&path).expect("a text");
                texts.push((path.display().to_string(), text));
            }
        }
    }
    texts
}

/// Names of metrics that a program looks up in rows.
fn looked_up(text: &str) -> Vec<&str> {
    let lookups = [
        ".metrics.get(\"",
        ".metrics.contains_key(\"",
        ".metrics[\"",
        "[\"metrics\"][\"",
        " number(row, \"",
        "mean(with, \"",
        "mean(without, \"",
    ];
    let names = lookups.iter().flat_map(|lookup| text.split(lookup).skip(1));
    names.filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn no_program_looks_up_a_metric_that_the_table_lacks() {
    let mut count = 0;
    for (path, text) in programs() {
        for name in looked_up(&text) {
            assert!(Metric::named(name).is_some(), "{path}: {name}");
            count += 1;
        }
    }
    assert!(count > 0, "the names of some lookups are texts");
    assert_eq!(looked_up("row.metrics.get(\"nothing\")"), ["nothing"]);
}
