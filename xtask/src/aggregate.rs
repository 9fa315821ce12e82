//! A server's budget for all its observers: what arrives without and with it, and under other
//! readings and constants.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{
    carob::{self, Reading},
    workspace::Workspace,
};

const SEEDS: &str = "6";

const CELL: &str = "nonobserve/gprs-60s-100S5n";

const ALGORITHMS: &[&str] = &["default", "observe-static", "cocoa-002"];

/// Links and servers, and then the constants that are this project's choice.
const READINGS: &[Reading] = &[
    ("as in the scenario", &[]),
    ("an hour", &["duration=60 min"]),
    ("a buffer of 10 packets", &["link.buffer=10 packets"]),
    ("of 25 packets", &["link.buffer=25 packets"]),
    ("of 100 packets", &["link.buffer=100 packets"]),
    ("of 350 packets", &["link.buffer=350 packets"]),
    ("a loss of 1 %", &["loss=1 %"]),
    ("of 5 %", &["loss=5 %"]),
    ("of 10 %", &["loss=10 %"]),
    ("a tenth of the rate", &["up.rate=2 kbit/s"]),
    ("half of it", &["up.rate=10 kbit/s"]),
    ("ten times the rate", &["up.rate=200 kbit/s"]),
    (
        "delays of 5 ms",
        &["up.delay=5 ms", "down.delay=5 ms", "extra_delay=0 ms"],
    ),
    ("rounds spread over a second", &["offset=0-1 s"]),
    (
        "newer states replace those that wait",
        &["notification_queue=supersede"],
    ),
    ("a first window of 320 B", &["aggregate_initial=320 B"]),
    ("of 5,120 B", &["aggregate_initial=5120 B"]),
    ("a least window of 32 B", &["aggregate_least=32 B"]),
    ("of 1,280 B", &["aggregate_least=1280 B"]),
    (
        "an eighth of a round trip in queues",
        &["aggregate_target=1/8"],
    ),
    ("a half", &["aggregate_target=1/2"]),
    ("every 4th confirmed", &["aggregate_confirm_every=4"]),
    ("every 16th", &["aggregate_confirm_every=16"]),
    ("every 64th", &["aggregate_confirm_every=64"]),
];

/// Makes the tables.
pub(crate) fn run(workspace: &Workspace, results: &Path) -> Result<bool> {
    carob::build(workspace)?;
    let mut text = format!(
        "# One budget for all observers of a server\n\n\
         The share of notifications that arrive (PDR) and the mean delay of those, without a budget and with one\n\
         (`--aggregate`), means of {SEEDS} seeds. `docs/notifications.md` says what follows. Written by\n\
         `cargo xtask long aggregate-sensitivity`.\n\n\
         ## Every configuration of the study\n\n{}",
        head("cell")
    );
    for cells in ["nonobserve/gprs", "nonobserve/umts"] {
        println!("{cells}");
        let (without, with) = pair(workspace, cells, &[])?;
        let mut names: Vec<&str> = without
            .iter()
            .filter_map(|row| row["scenario"].as_str())
            .collect();
        names.dedup();
        for name in names {
            row(&mut text, &format!("`{name}`"), name, &without, &with)?;
        }
    }
    let _ = write!(
        text,
        "\n## Other links, other constants\n\n\
         `carob lab run {CELL}`, with the settings of each row.\n\n{}",
        head("reading | settings")
    );
    for (reading, settings) in READINGS {
        println!("{reading}");
        let (without, with) = pair(workspace, CELL, settings)?;
        let written: Vec<String> = settings.iter().map(|set| format!("`{set}`")).collect();
        let first = format!("{reading} | {}", written.join(", "));
        row(&mut text, &first, CELL, &without, &with)?;
    }
    fs::write(results, text).with_context(|| format!("cannot write {}", results.display()))?;
    Ok(true)
}

fn head(first: &str) -> String {
    let mut head = format!("| {first} |");
    // Writing to a String cannot fail.
    for name in ALGORITHMS {
        let _ = write!(head, " `{name}`: PDR | with | delay, s | with |");
    }
    head.push_str("\n|");
    head.push_str(&" --- |".repeat(first.split('|').count()));
    head.push_str(&" ---: |".repeat(4 * ALGORITHMS.len()));
    head.push('\n');
    head
}

/// The runs without a budget, and with one.
fn pair(workspace: &Workspace, cells: &str, set: &[&str]) -> Result<(Vec<Value>, Vec<Value>)> {
    let arguments = ["run", cells, "--seeds", SEEDS, "--no-report"];
    let without = carob::lab(workspace, &arguments, set)?;
    let arguments = [&arguments[..], &["--aggregate"]].concat();
    Ok((without, carob::lab(workspace, &arguments, set)?))
}

fn row(
    text: &mut String,
    first: &str,
    cell: &str,
    without: &[Value],
    with: &[Value],
) -> Result<()> {
    let _ = write!(text, "| {first} |");
    for name in ALGORITHMS {
        let mean = |rows: &[Value], metric: &str| {
            let met = |row: &&Value| row["scenario"] == cell && row["algorithm"] == *name;
            let row = rows.iter().find(met)?;
            row["metrics"][metric]["mean"].as_f64()
        };
        let mean = |rows: &[Value], metric: &str| {
            mean(rows, metric).with_context(|| format!("{cell} with {name} has no {metric}"))
        };
        let _ = write!(
            text,
            " {:.1} % | {:.1} % | {:.1} | {:.1} |",
            100.0 * mean(without, "pdr")?,
            100.0 * mean(with, "pdr")?,
            mean(without, "delay_s")?,
            mean(with, "delay_s")?
        );
    }
    text.push('\n');
    Ok(())
}
