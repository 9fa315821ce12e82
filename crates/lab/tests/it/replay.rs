//! The replay against the endpoint: what the simulator's endpoint logged, replayed under the same
//! controller, sets the same timers.
//!
//! Dithering is switched off by constants, since the two draw from different streams.

use std::collections::BTreeMap;

use carob_cc::controller::{Controller as _, CopyTagging};
use carob_lab::engine;
use carob_lab::replay::{Dither, Event, Subject, log};
use carob_lab::run::{Plan, Recording, Selection};
use carob_lab::scenario::{Scenario, builtin};
use serde_json::Value;

/// The log of the only client of a run, a line of JSON an event.
fn log_of(cell: &str, algorithm: &str, set: &[&str]) -> String {
    let (file, _) = builtin::find("thesis/long").expect("a scenario");
    let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
    let names = [algorithm.to_owned()];
    let scenario = Scenario::with_algorithms(file.name, file.text, &set, Some(&names));
    let scenario = scenario.expect("a valid one");
    let selection = Selection {
        cell: Some(cell.to_owned()),
        everywhere: true,
        seed: Some(7),
        record: Recording {
            log: Recording::LOG_MAX,
            ..Recording::default()
        },
        ..Selection::default()
    };
    let plan = Plan::new(&scenario, &selection).expect("a plan");
    let outcome = plan.execute(engine::run, |_, _| {}).expect("possible");
    let (_, record) = outcome.runs().next().expect("a run");
    let of_client = record.log.iter().filter(|(host, _)| *host == 0);
    let lines: Vec<String> = of_client
        .map(|(_, trace)| trace.json().to_string())
        .collect();
    lines.join("\n")
}

/// The timers of each exchange in a log, in microseconds.
fn timers(log: &str) -> Vec<Vec<u64>> {
    let mut exchanges: Vec<Vec<u64>> = Vec::new();
    let mut latest: BTreeMap<u64, usize> = BTreeMap::new();
    for line in log.lines() {
        let event: Value = serde_json::from_str(line).expect("JSON");
        if event["event"] != "sent" {
            continue;
        }
        let id = event["id"].as_u64().expect("an ID");
        let timer = event["timeout_us"].as_u64().expect("a timer");
        if event["retransmissions"] == 0 {
            latest.insert(id, exchanges.len());
            exchanges.push(Vec::new());
        }
        exchanges[latest[&id]].push(timer);
    }
    exchanges
}

/// Replays the log of a run under its controller; gives the copies sent beyond the first ones, and
/// of those the spurious ones.
fn replayed(cell: &str, algorithm: &str, scenario_set: &[&str], set: &[&str]) -> (u32, u32) {
    let logged = log_of(cell, algorithm, &[scenario_set, set].concat());
    let reading = log::read("log", &logged, None).expect("a log");
    // The end of one exchange is the beginning of the next.
    let pauses = |s: &&carob_lab::replay::Scripted| matches!(s.event, Event::Idle(_));
    assert_eq!(reading.script.events.iter().find(pauses), None);
    let parameters = match algorithm {
        "default" => &["max_retransmit=20", "rto_max=60 s"][..],
        _ => &["max_retransmit=20"],
    };
    let set: Vec<String> = (set.iter().chain(parameters))
        .map(|s| (*s).to_owned())
        .collect();
    let subjects = Subject::all(&[algorithm.to_owned()], &set).expect("a controller");
    let run = subjects[0].run(&reading.script, Dither::Middle);
    let measured: Vec<Vec<u64>> = run
        .steps
        .iter()
        .map(|step| step.timers.iter().map(|timer| timer.as_micros()).collect())
        .collect();
    let logged = timers(&logged);
    // The last exchange may be cut off by the end of the run.
    assert!(logged.len() - measured.len() <= 1, "{algorithm}");
    if let Some(k) = (0..measured.len()).find(|k| measured[*k] != logged[*k]) {
        let both = (&measured[k], &logged[k]);
        panic!("{cell} under {algorithm}, exchange {k}: ours and logged {both:?}");
    }
    let totals = run.totals();
    (totals.retransmissions, totals.spurious)
}

/// The controllers that can be kept from drawing, with the setting that does it.
///
/// Left out are those that cannot (FASOR dithers by the round trip, CoCoA++ backs off by chance), and
/// those that have copies told apart, which the peer must take part in.
fn settled() -> Vec<(&'static str, &'static str)> {
    let entries = carob_cc::registry::entries();
    let all = entries.filter_map(|entry| {
        let mut dithers = false;
        (entry.settings()).describe(&mut |constant| dithers |= constant.name == "dither");
        let counts = entry.build().copy_tagging() != CopyTagging::Off;
        let set = match entry.family() {
            _ if counts => return None,
            "cocoa_plus_plus" => return None,
            "default" | "observe_static" | "full_backoff" => "ack_random_factor=1",
            _ if dithers => "cc.dither=1",
            _ => return None,
        };
        Some((entry.name, set))
    });
    all.collect()
}

#[test]
fn slow_losses_set_the_same_timers_as_in_the_endpoint() {
    let all = settled();
    assert!(all.len() > 20, "{all:?}");
    for (algorithm, set) in all {
        let (again, spurious) = replayed("long-1c-high-2500", algorithm, &[], &[set]);
        assert!(
            again > 50 && spurious < again,
            "{algorithm}: {again}, {spurious}"
        );
    }
}

#[test]
fn slow_spurious_retransmissions_set_timers_as_in_endpoint() {
    // A delay of 2.5 s, with room for every copy on the way.
    let slow = ["down.delay=2.5 s"];
    for (algorithm, set) in settled() {
        let (again, spurious) = replayed("long-1c-none-inf", algorithm, &slow, &[set]);
        // The run may be over before the second answer to its last request, which then counts as
        // lost.
        assert!(
            again > 0 && again - spurious <= 1,
            "{algorithm}: {again}, {spurious}"
        );
    }
}
