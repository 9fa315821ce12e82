//! Trace and record hashes of runs of every built-in scenario. A refactoring changes none of them.
//!
//! Run times are limited, so that the table takes seconds. The record hash covers flows, counters, notifications,
//! network, packets and bins. Every other run records nothing, like runs of studies.

use std::fmt::Write as _;

use carob_cc::time::Duration;
use carob_lab::run::{Plan, Recording, RunRecord, Selection};
use carob_lab::scenario::{Scenario, builtin};
use carob_sim::hash::fnv1a;
use carob_sim::spec::RunSpec;
use rayon::prelude::*;

/// Expected hashes: scenario, cell, algorithm, seed, recording, events, trace hash, record hash.
const EXPECTED: &str = include_str!("trace_hashes.tsv");

/// Number of runs selected from a scenario with more cells and algorithms.
const RUNS_OF_SCENARIO: usize = 24;

/// Settings that limit the run time of a scenario.
fn limits(text: &str) -> &'static [&'static str] {
    if text.contains("network = \"mesh\"") {
        &["workload.warm_up=90 s", "run.time_limit=300 s"]
    } else if text.contains("kind = \"mesh\"") {
        if text.contains("study = \"nonobserve\"") {
            return &["workload.warm_up=90 s", "workload.duration=20 s"];
        }
        &["workload.warm_up=90 s", "workload.duration=60 s"]
    } else if text.contains("kind = \"notifications\"") {
        &["workload.warm_up=60 s", "workload.duration=60 s"]
    } else {
        &["run.time_limit=60 s"]
    }
}

fn recording(is_on: bool) -> Recording {
    if !is_on {
        return Recording::default();
    }
    Recording {
        events: 2_000,
        samples: 200,
        log: 2_000,
        packets: 2_000,
        bin: Duration::from_secs(1),
        ..Recording::default()
    }
}

/// Counters added after the table was made, as printed for runs without impairments.
const NO_IMPAIRMENTS: &str = ", policed: 0, corrupted: 0, reordered: 0, duplicated: 0";

/// Hash of a run's results except the trace hash.
fn record_hash(record: &RunRecord) -> u64 {
    let mut text = String::new();
    write!(text, "{:?}{:?}", record.flows, record.others).unwrap();
    let link = format!("{:?}", record.link).replace(NO_IMPAIRMENTS, "");
    write!(text, "{link}{:?}", record.server).unwrap();
    write!(text, "{:?}{:?}", record.notifications, record.mesh).unwrap();
    write!(text, "{:?}{:?}", record.ended, record.events).unwrap();
    // Hosts and number of protocol events; their types belong to other crates and may be renamed.
    let hosts: Vec<u32> = record.log.iter().map(|(host, _)| *host).collect();
    write!(text, "{hosts:?}{:?}", record.packets).unwrap();
    write!(text, "{:?}", record.bins).unwrap();
    fnv1a(text.as_bytes())
}

/// Runs of a scenario: all, or a selection at equal distances.
fn runs(file: &builtin::BuiltIn) -> Vec<(String, RunSpec)> {
    let set: Vec<String> = limits(file.text).iter().map(|s| (*s).to_owned()).collect();
    let scenario = Scenario::read(file.name, file.text, &set).unwrap();
    let selection = Selection {
        seeds: Some(1),
        ..Selection::default()
    };
    let plan = Plan::new(&scenario, &selection).unwrap();
    let count = plan.jobs().len();
    let picked = count.min(RUNS_OF_SCENARIO);
    let pick = |k: usize| {
        let job = &plan.jobs()[k * count / picked];
        // Varied seeds.
        let seed = job.seed + k as u64 % 3;
        let mut spec = scenario.spec(job.cell, job.algorithm, seed);
        let is_recorded = k % 2 == 1;
        spec.record = recording(is_recorded);
        let (scenario, cell, algorithm) = (file.name, &job.cell.name, &job.algorithm.name);
        let name = format!("{scenario}\t{cell}\t{algorithm}\t{seed}\t{is_recorded}");
        (name, spec)
    };
    (0..picked).map(pick).collect()
}

#[test]
fn every_builtin_scenario_keeps_its_hashes() {
    let runs: Vec<_> = builtin::ALL.iter().flat_map(runs).collect();
    let line = |(name, spec): &(String, RunSpec)| {
        let record = carob_sim::run(spec).unwrap();
        let (trace, result) = (record.trace_hash, record_hash(&record));
        let events = record.events_handled;
        format!("{name}\t{events}\t{trace:016x}\t{result:016x}\n")
    };
    let now: Vec<String> = runs.par_iter().with_max_len(1).map(line).collect();
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/trace_hashes.tsv");
    std::fs::write(path, now.concat()).unwrap();
    let known: Vec<&str> = EXPECTED.split_inclusive('\n').collect();
    let differ = |name: &&String| !known.contains(&name.as_str());
    let different: Vec<&String> = now.iter().filter(differ).collect();
    assert!(
        different.is_empty() && known.len() == now.len(),
        "{} of {} runs differ from {} expected; all are in {path}:\n{}",
        different.len(),
        now.len(),
        known.len(),
        different.into_iter().take(20).cloned().collect::<String>(),
    );
}
