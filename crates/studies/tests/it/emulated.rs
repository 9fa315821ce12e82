//! The simulator compared with Linux: `results/emulated/` has the runs of `carob lab emulate`; its README has the method.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use carob_lab::csv::Table;
use carob_lab::metrics::{self, Samples};
use carob_lab::run::{Plan, Selection};
use carob_lab::scenario::{Scenario, builtin};
use carob_lab::statistics::Statistics;

const EMULATED: &str = include_str!("../../results/emulated/thesis-long.csv");
const COMPARISON: &str = include_str!("../../results/emulated/comparison.md");
/// Cells in which the deviation exceeds the bound. BBR with the 2,500-byte buffer is chaotic in both and excluded.
const MISSES: &[&str] = &[
    "long-4c-none-14100 tcp-newreno",
    "long-1c-medium-14100 tcp-bbr1",
];
/// Simulated runs per cell.
const SEEDS: u64 = 200;

/// Values by cell and algorithm.
type By<T> = BTreeMap<(String, String), T>;

#[derive(Default)]
struct Emulated {
    completed: usize,
    /// Includes flows cut off at the time limit, as longer than all others.
    completions: Vec<f64>,
    retransmissions: Vec<f64>,
}

fn emulated() -> By<Emulated> {
    let table = Table::read(EMULATED).expect("a table");
    let column = |name: &str| {
        let mut names = table.header().iter();
        names.position(|header| header == name).expect("a column")
    };
    let [cell, algorithm, completion, again] =
        ["cell", "algorithm", "fct_s", "retransmissions"].map(column);
    let mut all = By::<Emulated>::new();
    for row in table.rows() {
        let of = all
            .entry((row[cell].clone(), row[algorithm].clone()))
            .or_default();
        let time = row[completion].parse::<f64>();
        of.completed += usize::from(time.is_ok());
        of.completions.push(time.unwrap_or(f64::INFINITY));
        of.retransmissions.extend(row[again].parse::<f64>());
    }
    all
}

/// Medians of completion times and retransmissions with the Linux profile.
fn simulated() -> By<(f64, f64)> {
    let long = builtin::ALL.iter().find(|b| b.name == "thesis/long");
    let overrides = [
        "tcp.profile=kernel",
        "algorithm.tcp-bbr1.tcp.bbr_era=linux-5",
    ];
    let overrides = overrides.map(str::to_owned);
    let scenario = Scenario::read("long", long.expect("it is built in").text, &overrides);
    let scenario = scenario.expect("a scenario");
    let mut all = By::new();
    for error in ["none", "low", "medium"] {
        let selection = Selection {
            cell: Some(format!("long-*-{error}-*")),
            seeds: Some(SEEDS),
            ..Selection::default()
        };
        let plan = Plan::new(&scenario, &selection).expect("a plan");
        let outcome = plan.execute(carob_sim::run, |_, _| {});
        let mut samples = By::<Samples>::new();
        for (job, record) in outcome.expect("runs").runs() {
            let key = (job.cell.name.clone(), job.algorithm.name.clone());
            metrics::collect(&record, samples.entry(key).or_default());
        }
        for (key, of) in samples {
            let median = |name: &str| of.get(name).and_then(|v| median(v));
            if let (Some(completion), Some(again)) = (median("fct_s"), median("retransmissions")) {
                all.insert(key, (completion, again));
            }
        }
    }
    all
}

fn median(values: &[f64]) -> Option<f64> {
    Statistics::of(values).map(|statistics| statistics.p50)
}

/// Largest accepted relative deviation of the medians.
fn bound(cell: &str) -> f64 {
    if cell.contains("-none-") {
        0.02
    } else if cell.contains("-low-") {
        0.08
    } else {
        0.15
    }
}

struct Compared {
    row: String,
    text: String,
    holds: bool,
    is_chaotic: bool,
}

fn compare() -> Vec<Compared> {
    let simulated = simulated();
    let one = |((cell, algorithm), of): ((String, String), Emulated)| {
        let (measured, again) = simulated[&(cell.clone(), algorithm.clone())];
        let kernels = median(&of.completions).expect("some flow completed");
        let kernels_again = median(&of.retransmissions).expect("counts");
        let off = measured / kernels - 1.0;
        let bound = bound(&cell);
        let counted = algorithm != "tcp-newreno"
            || !cell.contains("1c-none")
            || (again - kernels_again).abs() <= 2.0;
        let mut text = String::new();
        let _ = write!(
            text,
            "| {cell} | {algorithm} | {} of {} | {kernels:.2} | {measured:.2} | {:+.1} % | {:.0} % | {kernels_again:.0} | {again:.0} |",
            of.completed,
            of.completions.len(),
            off * 100.0,
            bound * 100.0,
        );
        Compared {
            is_chaotic: algorithm == "tcp-bbr1" && cell.ends_with("-2500"),
            row: format!("{cell} {algorithm}"),
            text,
            holds: off.abs() <= bound && counted,
        }
    };
    emulated().into_iter().map(one).collect()
}

fn comparison(compared: &[Compared]) -> String {
    let mut text = String::from(
        "| cell | algorithm | flows completed | emulated, s | simulated, s | off | allowed | retransmissions, emulated | simulated |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for of in compared {
        text.push_str(&of.text);
        text.push('\n');
    }
    text
}

#[test]
fn nightly_simulator_matches_linux() {
    let compared = compare();
    let misses: Vec<&str> = compared
        .iter()
        .filter(|of| !of.holds && !of.is_chaotic)
        .map(|of| of.row.as_str())
        .collect();
    let known = |row: &&str| MISSES.contains(row);
    assert!(misses.iter().all(known), "new misses: {misses:?}");
    let gone: Vec<_> = MISSES.iter().filter(|row| !misses.contains(row)).collect();
    assert!(gone.is_empty(), "no misses any more: {gone:?}");
    assert_eq!(
        comparison(&compared),
        COMPARISON,
        "to update it, run: cargo test --release -p carob-studies --test it emulated -- --ignored"
    );
}

#[test]
#[ignore = "writes results/emulated/comparison.md"]
fn write_the_comparison() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/results/emulated/comparison.md"
    );
    std::fs::write(path, comparison(&compare())).expect("it can be written");
}
