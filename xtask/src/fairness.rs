//! Who gives way to whom on other links, among more or fewer clients: a table.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{carob, readings::Reading, workspace::Workspace};

const SEEDS: &str = "5";

const READINGS: &[Reading] = &[
    ("as in `carob/fairness`", &[]),
    ("a buffer of 2,500 B", &["buffer=2500 B"]),
    ("of 28,200 B", &["buffer=28200 B"]),
    ("that takes everything", &["buffer=inf"]),
    ("CoDel", &["queue=codel"]),
    ("low error", &["error=low"]),
    ("medium error", &["error=medium"]),
    ("2 and 2 clients", &["workload.clients=2"]),
    ("4 and 4", &["workload.clients=4"]),
    ("16 and 16", &["workload.clients=16"]),
    ("blocks of 64 B (segments stay)", &["workload.block=64 B"]),
    ("half an hour", &["time_limit=1800 s"]),
    ("TCP as today's", &["tcp.profile=modern"]),
];

/// Pairs whose ratios are shown: what the first receives beside the second, over what it receives
/// among its own kind.
const PAIRS: &[(&str, &str)] = &[
    ("default", "cocoa-03"),
    ("default", "tcp-newreno"),
    ("tcp-newreno", "default"),
    ("cocoa-03", "tcp-newreno"),
    ("fasor", "tcp-newreno"),
    ("default", "tcp-bbr1"),
    ("tcp-bbr1", "default"),
    ("tcp-newreno", "tcp-bbr1"),
    ("tcp-bbr1", "tcp-newreno"),
];

/// Makes the table.
pub(crate) fn run(workspace: &Workspace, results: &Path) -> Result<bool> {
    carob::build(workspace)?;
    let mut text = format!(
        "# Who gives way to whom, on other links\n\n\
         What a client receives beside so many of another kind, over what it receives where all are of its own\n\
         kind (medians), and Jain's index of all clients of default CoAP beside New Reno. `docs/fairness.md` says\n\
         what follows. Written by `cargo xtask long fairness-sensitivity`; each row adds its settings to\n\
         `carob lab run carob/fairness --seeds {SEEDS}`.\n\n| reading | settings |"
    );
    // Writing to a String cannot fail.
    for (first, second) in PAIRS {
        let _ = write!(text, " `{first}` beside `{second}` |");
    }
    text.push_str(" Jain |\n| --- | --- |");
    text.push_str(&" ---: |".repeat(PAIRS.len() + 1));
    text.push('\n');
    for (reading, settings) in READINGS {
        println!("{reading}");
        text.push_str(&row(workspace, reading, settings)?);
    }
    fs::write(results, text).with_context(|| format!("cannot write {}", results.display()))?;
    Ok(true)
}

fn row(workspace: &Workspace, reading: &str, settings: &[&str]) -> Result<String> {
    let arguments = ["run", "carob/fairness", "--seeds", SEEDS, "--no-report"];
    let rows = carob::lab(workspace, &arguments, settings)?;
    let median = |first: &str, second: &str, metric: &str| -> Result<f64> {
        let met = |row: &&Value| row["cell"]["first"] == first && row["cell"]["second"] == second;
        let row = rows.iter().find(met).context("a pair was not run")?;
        let value = row["metrics"][metric]["p50"].as_f64();
        value.with_context(|| format!("{first} beside {second} has no {metric}"))
    };
    let written: Vec<String> = settings.iter().map(|set| format!("`{set}`")).collect();
    let mut text = format!("| {reading} | {} |", written.join(", "));
    for (first, second) in PAIRS {
        let beside = median(first, second, "received_bps")?;
        let among = median(first, first, "received_bps")?;
        let _ = write!(text, " {:.2} |", beside / among);
    }
    let jain = median("default", "tcp-newreno", "jain_received")?;
    let _ = writeln!(text, " {jain:.2} |");
    Ok(text)
}
