//! The long transfers of Pesola 2020 compared with its tables, over the stack's endpoints.

use carob_lab::run::{Outcome, Plan, Row, Selection, on_threads};
use carob_lab::scenario::value::Value;
use carob_lab::scenario::{Scenario, builtin};
use carob_lab::statistics::Statistic;
use carob_studies::comparison::{Comparison, Verdict};
use carob_studies::papers;
use carob_studies::reproduce::{self, MeasuredRuns, SEEDS, thesis_tolerances};
use std::collections::BTreeMap;

fn scenario(name: &str, set: &[&str]) -> Scenario {
    let (file, _) = builtin::find(name).expect("a scenario");
    let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
    Scenario::read(file.name, file.text, &set).expect("a valid one")
}

fn with_outcome<T>(
    name: &str,
    set: &[&str],
    seeds: u64,
    look: impl FnOnce(&Outcome<'_>) -> T,
) -> T {
    let scenario = scenario(name, set);
    let selection = Selection {
        seeds: Some(seeds),
        ..Selection::default()
    };
    let plan = Plan::new(&scenario, &selection).expect("a plan");
    look(&plan.execute(carob_sim::run, |_, _| {}).expect("possible"))
}

#[allow(
    clippy::redundant_closure_for_method_calls,
    reason = "the method alone is not general enough in its lifetime"
)]
fn rows(set: &[&str], seeds: u64) -> Vec<Row> {
    with_outcome("thesis/long", set, seeds, |outcome| outcome.rows())
}

fn median(rows: &[Row], cell: &str, algorithm: &str) -> f64 {
    let name = format!("thesis/{cell}");
    rows.iter()
        .find(|row| row.scenario == name && row.algorithm == algorithm)
        .map(|row| row.metrics["fct_s"].p50)
        .expect("a row")
}

/// Acceptance criteria of the reproduction: cell, and largest relative deviation of a median.
const BOUNDS: [(&str, f64); 6] = [
    ("long-1c-none-2500", 0.005),
    ("long-1c-low-2500", 0.05),
    ("long-1c-medium-2500", 0.12),
    ("long-1c-high-2500", 0.15),
    ("long-4c-none-2500", 0.005),
    ("long-4c-low-2500", 0.05),
];

/// Medians beyond their bound. With error states of 1.6 packets, which half of the columns fit best
/// (papers/thesis/tcp-sensitivity.md), they are 1.16 and 1.47 times the published time.
const MISSES: [(&str, &str); 2] = [
    ("long-1c-high-2500", "default"),
    ("long-1c-medium-14100", "tcp-bbr1"),
];

#[test]
fn nightly_medians_of_200_seeds_are_within_bounds_of_print() {
    let measured = MeasuredRuns::compute(SEEDS, |_, _| {}).expect("possible");
    let all = reproduce::compare(&measured.rows);
    for (cell, bound) in BOUNDS {
        for algorithm in ["default", "cocoa-001"] {
            let readings: Vec<&Comparison> = all
                .iter()
                .filter(|c| c.statistic == Statistic::P50 && c.expected.cell == cell)
                .filter(|c| c.expected.algorithm == algorithm)
                .collect();
            let expected = if algorithm == "default" { 1 } else { 2 };
            assert_eq!(readings.len(), expected, "{cell} {algorithm}");
            let mut within = Vec::new();
            for c in readings {
                let same = (c.tolerance.share - bound).abs() < 1e-9;
                assert!(same, "papers/thesis/tolerances.toml: {cell}");
                if c.verdict() == Verdict::Holds {
                    within.push(c.label());
                }
            }
            // One of CoCoA's two interpretations must be within the bound; at present both are.
            let misses = MISSES.contains(&(cell, algorithm));
            assert_eq!(
                within.is_empty(),
                misses,
                "{cell}: {algorithm} within {bound}: {within:?}"
            );
            eprintln!("{cell}: within {bound}: {}", within.join(", "));
        }
    }
    // Over TCP all cells without high error hold, except one miss and BBR with the smallest buffer.
    for c in all.iter().filter(|c| c.statistic == Statistic::P50) {
        let (cell, algorithm) = (c.expected.cell.as_str(), c.expected.algorithm.as_str());
        let chaotic = algorithm == "tcp-bbr1" && cell.ends_with("-2500");
        if algorithm.starts_with("tcp-") && !chaotic && !cell.contains("-high-") {
            let misses = MISSES.contains(&(cell, algorithm));
            let ratio = c.ratio();
            assert_eq!(
                c.verdict() == Verdict::Holds,
                !misses,
                "{cell} {algorithm}: {ratio:?}"
            );
        }
        // Every row was run, and rows in which Linux deviates as well have a remark.
        assert_ne!(c.verdict(), Verdict::Undecided, "{cell} {algorithm}");
        let known = chaotic || (algorithm == "tcp-newreno" && cell.contains("-high-"));
        assert_eq!(c.remark.is_some(), known, "{cell} {algorithm}");
    }
    // The stored rows shown without a run equal the computed ones.
    let facts = |measured: &MeasuredRuns| -> Vec<_> {
        measured
            .rows
            .iter()
            .map(|r| {
                // Compared in half microseconds, the unit of a median of an even number of runs: text may change the last
                // bit of a float.
                let median = (r.fct_s.p50 * 2e6).round();
                (r.cell.clone(), r.algorithm.clone(), r.set.clone(), median)
            })
            .collect()
    };
    assert_eq!(facts(&measured), facts(&MeasuredRuns::stored()));
}

#[test]
fn slow_same_seeds_give_same_runs_on_one_and_two_threads() {
    let hashes = |threads| {
        on_threads(Some(threads), || {
            with_outcome("thesis/long", &[], 2, |outcome| {
                let each = outcome.each();
                serde_json::to_string(&each).expect("plain data")
            })
        })
        .expect("threads")
    };
    let one = hashes(1);
    assert_eq!(one, hashes(2));
    assert_eq!(one, hashes(1));
}

#[test]
fn slow_a_few_seeds_without_error_are_near_print_over_tcp() {
    let set = ["error=none", "run.algorithms=tcp-newreno,tcp-bbr1"];
    let tolerances = thesis_tolerances();
    let printed = papers::thesis_fct();
    let mut compared = 0;
    for row in rows(&set, 25) {
        let cell = row.scenario.strip_prefix("thesis/").expect("of the study");
        let mut of_print = printed.iter();
        let expected = of_print
            .find(|p| p.cell == cell && p.algorithm == row.algorithm)
            .expect("in print");
        if row.algorithm == "tcp-bbr1" && cell.ends_with("-2500") {
            continue; // chaotic
        }
        let bound = tolerances.of(cell, &row.algorithm, Statistic::P50).share;
        let paper = expected.value(Statistic::P50).expect("a median");
        let off = row.metrics["fct_s"].p50 / paper - 1.0;
        assert!(off.abs() <= bound, "{cell} {}: {off:+.3}", row.algorithm);
        // SYN and SYN-ACK of 48 bytes, and 615 + 15 ms of delay. Four clients may wait for each other.
        let setup = row.metrics["setup_s"].p50;
        assert!((0.649..1.0).contains(&setup), "{setup}");
        compared += 1;
    }
    assert_eq!(compared, 4 + 4 + 3);
}

#[test]
fn one_cap_for_both_transports_moves_both() {
    let medians = |set: &[&str]| {
        let base = [
            "error=high",
            "clients=1",
            "buffer=2500 B",
            "run.algorithms=default,tcp-newreno",
        ];
        let all = rows(&[&base[..], set].concat(), 10);
        ["default", "tcp-newreno"].map(|name| median(&all, "long-1c-high-2500", name))
    };
    let (usual, short) = (medians(&[]), medians(&["rto_max=10 s"]));
    assert!(
        short[0] < usual[0] && short[1] < usual[1],
        "{usual:?} {short:?}"
    );
}

#[test]
fn different_seeds_and_algorithms_give_different_runs() {
    // With one buffer size: a buffer that never fills has no effect.
    with_outcome(
        "thesis/long",
        &["clients=1", "buffer=2500 B"],
        3,
        |outcome| {
            let mut seen = BTreeMap::new();
            for (job, record) in outcome.runs() {
                let what = (&job.cell.name, &job.algorithm.name, job.seed);
                let before = seen.insert(record.trace_hash, what);
                assert_eq!(before, None, "{what:?}");
            }
        },
    );
}

#[test]
fn the_default_comparison_makes_the_runs_of_the_thesis() {
    let hashes = |name: &str, set: &[&str]| -> BTreeMap<(String, String), u64> {
        with_outcome(name, set, 1, |outcome| {
            outcome
                .runs()
                .map(|(job, record)| {
                    let key = (job.cell.compare_with.clone(), job.algorithm.name.clone());
                    (key, record.trace_hash)
                })
                .collect()
        })
    };
    let udp = "run.algorithms=default,cocoa-001";
    let thesis = hashes("thesis/long", &["clients=1", udp]);
    let default = hashes("carob/default", &[]);
    assert_eq!(thesis.len(), 4 * 2);
    for (what, hash) in &thesis {
        assert_eq!(default.get(what), Some(hash), "{what:?}");
    }
}

#[test]
fn slow_more_loss_takes_longer() {
    let rows = rows(&[], 20);
    for clients in [1, 4] {
        for algorithm in ["default", "cocoa-001"] {
            let times = ["none", "low", "medium", "high"]
                .map(|error| median(&rows, &format!("long-{clients}c-{error}-2500"), algorithm));
            assert!(
                times.is_sorted_by(|a, b| a < b),
                "{clients} {algorithm}: {times:?}"
            );
        }
    }
}

#[test]
fn slow_four_clients_all_finish_and_never_overfill_the_buffer() {
    with_outcome("thesis/long", &["clients=4"], 3, |outcome| {
        for (job, record) in outcome.runs() {
            assert_eq!(record.flows.len(), 4);
            for flow in &record.flows {
                assert!(flow.finished.is_some(), "{} {}", job.cell.name, job.seed);
                assert_eq!(flow.body_bytes, 102_400);
                // 400 blocks; or 401 segments, plus the CSM, which is sent with the response if the handshake's last ACK is
                // lost.
                let exchanges = match flow.segments {
                    None => 400..=400,
                    Some(_) => 401..=402,
                };
                assert!(exchanges.contains(&flow.exchanges), "{}", flow.exchanges);
            }
            let Some(Value::Buffer(buffer)) = job.cell.value("buffer") else {
                panic!("a buffer is swept")
            };
            let link = record.link;
            let peak = link.down.queue_bytes_peak.max(link.up.queue_bytes_peak);
            assert!(peak <= *buffer, "{peak}");
        }
    });
}

#[test]
fn a_link_four_clients_can_fill_makes_them_slower_than_one() {
    // 296 bytes take 0.79 s at 3 kbit/s, longer than the rest of the round trip: one client nearly fills the link, and
    // four share it.
    let set = ["down.rate=3 kbit/s", "error=none", "response=10240 B"];
    let rows = rows(&set, 3);
    let one = median(&rows, "long-1c-none-2500", "default");
    let four = median(&rows, "long-4c-none-2500", "default");
    assert!(four > 1.5 * one, "{one} {four}");
}

#[test]
fn slow_a_slower_link_takes_longer() {
    let at = |rate: &str| {
        let rate = format!("down.rate={rate}");
        let rows = rows(&[&rate, "clients=1", "error=none", "response=10240 B"], 2);
        median(&rows, "long-1c-none-2500", "cocoa-001")
    };
    assert!(at("15 kbit/s") > at("30 kbit/s"));
    assert!(at("30 kbit/s") > at("60 kbit/s"));
}
