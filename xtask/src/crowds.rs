//! What the thesis leaves open about crowds of clients, and what becomes of its claims.
//!
//! One row per reading: how many claims come out how, and the numbers that the text prints.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result};

use crate::{carob, workspace::Workspace};

const SEEDS: &str = "5";

/// What is open (`papers/thesis`), and its readings; the first row is the scenario's own.
const READINGS: &[(&str, &[&str])] = &[
    ("as in `thesis/short`", &[]),
    ("the client reconnects at once", &["reconnect=at-once"]),
    ("a pause of 0-10 s between batches", &["batch_pause=0-10 s"]),
    ("all clients start at once", &["start_spread=0 s"]),
    ("clients start within a minute", &["start_spread=0-60 s"]),
    ("payloads of 60 bytes", &["size_of=payload"]),
    ("responses without a payload", &["response=4 B"]),
    ("requests without a payload", &["request=10 B"]),
    (
        "extra delay drawn for each packet",
        &["extra_delay=10-20 ms"],
    ),
    ("MAX_RETRANSMIT 4", &["max_retransmit=4"]),
    (
        "no cap on default CoAP's timers",
        &["algorithm.default.rto_max=none"],
    ),
    (
        "Full Backoff 2 of CoCoA compares estimates",
        &["algorithm.cocoa-fb2.cc.fb2_base=estimate"],
    ),
    (
        "retained timers are dithered",
        &[
            "algorithm.cocoa-fb1.cc.dither_retained=true",
            "algorithm.cocoa-fb2.cc.dither_retained=true",
            "algorithm.default-fb1.cc.dither_retained=true",
            "algorithm.default-fb2.cc.dither_retained=true",
        ],
    ),
    (
        "any exchange that is answered halves a retained timer",
        &[
            "algorithm.default-fb1.cc.halved_by=answered",
            "algorithm.default-fb2.cc.halved_by=answered",
        ],
    ),
    ("error states of 2 packets", &["error_burst_packets=2"]),
];

/// Claims with a printed number: (id, check, the text's number).
const NUMBERS: &[(&str, usize, &str)] = &[
    ("thesis-055", 0, "1.05"),
    ("thesis-056", 0, "1.11"),
    ("thesis-063", 0, "0.21"),
    ("thesis-064", 0, "1.38"),
    ("thesis-065", 0, "1.35"),
    ("thesis-068", 0, "2.00"),
    ("thesis-068", 1, "2.34"),
    ("thesis-069", 0, "6"),
    ("thesis-070", 0, "1.43"),
    ("thesis-071", 2, "1.37"),
];

/// Makes the table.
pub(crate) fn run(workspace: &Workspace, results: &Path) -> Result<bool> {
    carob::build(workspace)?;
    let mut text = String::from(
        "# What the thesis leaves open about crowds, and its claims\n\n\
         Verdicts on the claims about many clients with small exchanges (`docs/claims.md`) under each reading,\n\
         and the numbers that the text prints: the claim with its number above, ours below. Written by\n\
         `cargo xtask long crowd-sensitivity`; each row adds its settings to\n",
    );
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "`carob lab claims thesis --part short --seeds {SEEDS}`.\n\n\
         | reading | settings | holds | holds-partly | fails | undecided |"
    );
    for (id, _, printed) in NUMBERS {
        let number = id.trim_start_matches("thesis-");
        let _ = write!(text, " {number}: {printed} |");
    }
    text.push_str("\n| --- | --- |");
    text.push_str(&" ---: |".repeat(4 + NUMBERS.len()));
    text.push('\n');
    for (reading, settings) in READINGS {
        println!("{reading}");
        text.push_str(&row(workspace, reading, settings)?);
    }
    fs::write(results, text).with_context(|| format!("cannot write {}", results.display()))?;
    Ok(true)
}

fn row(workspace: &Workspace, reading: &str, settings: &[&str]) -> Result<String> {
    let arguments = ["claims", "thesis", "--part", "short", "--seeds", SEEDS];
    let claims = carob::lab(workspace, &arguments, settings)?;
    let written: Vec<String> = settings.iter().map(|set| format!("`{set}`")).collect();
    let mut text = format!("| {reading} | {} |", written.join(", "));
    for verdict in ["holds", "holds-partly", "fails", "undecided"] {
        let count = claims.iter().filter(|claim| claim["verdict"] == verdict);
        let _ = write!(text, " {} |", count.count());
    }
    for (id, check, _) in NUMBERS {
        let claim = claims.iter().find(|claim| claim["id"] == *id);
        let claim = claim.with_context(|| format!("no claim {id}"))?;
        let value = claim["checks"][check]["measured"]["value"].as_f64();
        let value = value.map_or_else(|| "not run".to_owned(), |value| format!("{value:.2}"));
        let _ = write!(text, " {value} |");
    }
    text.push('\n');
    Ok(text)
}
