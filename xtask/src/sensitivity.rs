//! Effect of each interpretation of TCP on the cells where a real kernel deviates from the thesis.
//!
//! One row per setting, or pair of settings, and one column per cell, with the ratio to the
//! thesis's median; beside them the cells that fit and must not be moved.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{carob, workspace::Workspace};

const SEEDS: &str = "200";

/// Medians by cell, such as `high-2500`.
type Medians = BTreeMap<String, f64>;

/// One table.
struct Table {
    title: &'static str,
    algorithm: &'static str,
    /// Where the thesis's numbers are missed.
    asked: &'static [&'static str],
    /// Cells that fit.
    held: &'static [&'static str],
    /// Settings of each row.
    rows: &'static [&'static [&'static str]],
}

const TABLES: &[Table] = &[NEW_RENO, NEW_RENO_LINK, UDP_LINK, BBR];

const NEW_RENO: Table = Table {
    title: "New Reno",
    algorithm: "tcp-newreno",
    asked: &["high-2500", "high-14100", "high-28200", "high-inf"],
    held: &["none-28200", "low-14100", "medium-2500", "medium-14100"],
    rows: &[
        &[],
        &["tcp.profile=kernel"],
        // Timeouts.
        &["tcp.rto_min=1 s"],
        &["tcp.rto_min=2 s"],
        &["tcp.rto_min=3 s"],
        &["tcp.rto_variance_min=1 s"],
        &["tcp.rto_variance_min=2 s"],
        &["tcp.rto_max=60 s"],
        &["tcp.rto_max=240 s"],
        &["tcp.rto_initial=3 s"],
        &["tcp.rto_after_handshake_loss=9 s"],
        &["tcp.estimator=rfc6298"],
        &["tcp.estimator=rfc6298", "tcp.rto_min=1 s"],
        &["tcp.timer_wheel=100"],
        &["tcp.timer_wheel=250"],
        &["tcp.timer_wheel=1000"],
        &["tcp.partial_ack_timer=impatient"],
        &["tcp.restart_on_retransmit=false"],
        // Backoff.
        &["tcp.backoff_end=new-ack"],
        &["tcp.backoff_end=bsd"],
        &["tcp.timestamps=true"],
        // After a timeout.
        &["tcp.after_timeout=head-only"],
        &["tcp.slow_start_most=1"],
        &["tcp.half_of=flight"],
        &["tcp.validate_window=false"],
        // Recovery.
        &["tcp.limited_transmit=false"],
        &["tcp.reduction=classic"],
        &["tcp.reduction=reno"],
        &["tcp.prr_bound=crb"],
        &["tcp.prr_bound=ssrb"],
        &["tcp.careful=false"],
        &["tcp.dup_ack_threshold=6"],
        &["tcp.reordering_max=300"],
        &["tcp.sack=true"],
        // Acknowledgments and windows.
        &["tcp.delayed_ack=none"],
        &["tcp.delayed_ack=linux"],
        &["tcp.ack_delay=500 ms"],
        &["tcp.ack_every=4"],
        &["tcp.initial_window=1"],
        &["tcp.initial_window=10"],
        &["tcp.nagle=true"],
        // Pairs.
        &["tcp.limited_transmit=false", "tcp.rto_min=2 s"],
        &["tcp.limited_transmit=false", "tcp.rto_variance_min=1 s"],
        &["tcp.limited_transmit=false", "tcp.timer_wheel=250"],
        &["tcp.limited_transmit=false", "tcp.reduction=classic"],
        &["tcp.limited_transmit=false", "tcp.ack_every=4"],
        &["tcp.limited_transmit=false", "tcp.slow_start_most=1"],
    ],
};

/// The thesis's error model, of which it gives rates and no lengths.
const BURSTS: &[&[&str]] = &[
    &["link.error_burst_packets=1.25"],
    &[],
    &["link.error_burst_packets=1.6"],
    &["link.error_burst_packets=1.8"],
    &["link.error_burst_packets=2"],
    &["link.error_burst_packets=3"],
    &["link.error_clock=time", "link.error_burst_time=100 ms"],
    &["link.error_clock=time", "link.error_burst_time=500 ms"],
    &["link.extra_delay=10-20 ms"],
];

const NEW_RENO_LINK: Table = Table {
    title: "New Reno: the link",
    rows: BURSTS,
    ..NEW_RENO
};

const UDP_LINK: Table = Table {
    title: "Default CoAP over UDP: the link",
    algorithm: "default",
    asked: &["high-2500"],
    held: &["none-2500", "low-2500", "medium-2500"],
    rows: BURSTS,
};

const BBR: Table = Table {
    title: "BBR",
    algorithm: "tcp-bbr1",
    asked: &[
        "none-2500",
        "low-2500",
        "medium-2500",
        "high-2500",
        "high-inf",
    ],
    held: &["none-14100", "low-14100", "medium-14100", "medium-inf"],
    rows: &[
        &[],
        &["tcp.profile=kernel"],
        &["algorithm.tcp-bbr1.tcp.bbr_era=linux-5"],
        // Timeouts and backoff.
        &["tcp.rto_min=1 s"],
        &["tcp.rto_variance_min=1 s"],
        &["tcp.rto_max=60 s"],
        &["tcp.estimator=rfc6298"],
        &["tcp.timer_wheel=250"],
        &["tcp.backoff_end=new-ack"],
        &["tcp.backoff_end=bsd"],
        &["tcp.timestamps=true"],
        // After a timeout.
        &["tcp.after_timeout=head-only"],
        // Recovery.
        &["tcp.limited_transmit=false"],
        &["tcp.reduction=classic"],
        &["tcp.careful=false"],
        &["tcp.dup_ack_threshold=4"],
        &["tcp.reordering_max=300"],
        &["tcp.sack=true"],
        // Acknowledgments and windows.
        &["tcp.delayed_ack=none"],
        &["tcp.delayed_ack=linux"],
        &["tcp.ack_every=4"],
        &["tcp.initial_window=10"],
        // BBR's own.
        &["tcp.deliveries_once=true"],
        &["tcp.rate_sample=most-delivered"],
        &["tcp.bbr_policer=false"],
        &["tcp.unpaced_segments=9"],
        &["tcp.bbr_pacing_headers=false"],
        &["tcp.bbr_pacing_frame=14"],
        &["tcp.bbr_min_window=2"],
        &["tcp.bbr_bw_rounds=5"],
        &["tcp.bbr_window_gain=1.5"],
        &["tcp.bbr_high_gain=2"],
        // The link.
        &["link.error_burst_packets=1.8"],
        &["link.extra_delay=10-20 ms"],
        // Pairs.
        &["tcp.careful=false", "tcp.limited_transmit=false"],
        &["tcp.careful=false", "tcp.rto_max=60 s"],
        &["tcp.deliveries_once=true", "tcp.limited_transmit=false"],
        &["tcp.deliveries_once=true", "tcp.rate_sample=most-delivered"],
        &["tcp.deliveries_once=true", "tcp.bbr_pacing_frame=14"],
        &[
            "tcp.deliveries_once=true",
            "algorithm.tcp-bbr1.tcp.bbr_era=linux-5",
        ],
    ],
};

/// Runs all rows and writes the tables.
pub(crate) fn run(workspace: &Workspace, results: &Path) -> Result<bool> {
    carob::build(workspace)?;
    let mut text = String::from(
        "# TCP's settings and the thesis's numbers\n\n\
         Medians of completion times in seconds, and their ratio to the thesis's. The first cells are\n\
         those where a real kernel leaves the thesis; those in italics fit and must not be moved.\n\
         `docs/tcp-sensitivity.md` says what follows. Written by `cargo xtask long tcp-sensitivity`;\n\
         each row adds its settings to the command above it.\n",
    );
    for table in TABLES {
        println!("{}", table.title);
        text.push_str(&of_table(workspace, table)?);
    }
    fs::write(results, text).with_context(|| format!("cannot write {}", results.display()))?;
    Ok(true)
}

fn of_table(workspace: &Workspace, table: &Table) -> Result<String> {
    let thesis = thesis(workspace, table.algorithm)?;
    let cells = || table.asked.iter().chain(table.held);
    let mut text = format!(
        "\n## {}\n\n    carob lab run 'thesis/long-1c-*' --algorithm {} --seeds {SEEDS}\n\n| added |",
        table.title, table.algorithm
    );
    for cell in table.asked {
        let _ = write!(text, " {cell} |");
    }
    for cell in table.held {
        let _ = write!(text, " *{cell}* |");
    }
    text.push_str("\n| --- |");
    cells().for_each(|_| text.push_str(" ---: |"));
    text.push_str("\n| the thesis |");
    for cell in cells() {
        let _ = write!(text, " {} |", seconds(thesis[*cell]));
    }
    text.push('\n');
    for row in table.rows {
        let medians = medians(workspace, table.algorithm, row)?;
        let settings: Vec<_> = row
            .iter()
            .map(|setting| format!("`--set '{setting}'`"))
            .collect();
        let name = match settings.as_slice() {
            [] => "nothing".to_owned(),
            some => some.join(" "),
        };
        let _ = write!(text, "| {name} |");
        for cell in cells() {
            let (ours, theirs) = (medians[*cell], thesis[*cell]);
            let _ = write!(text, " {} ({:.2}) |", seconds(ours), ours / theirs);
        }
        text.push('\n');
    }
    Ok(text)
}

fn seconds(value: f64) -> String {
    if value < 100.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// The thesis's medians of one client.
fn thesis(workspace: &Workspace, algorithm: &str) -> Result<Medians> {
    let mut all = Medians::new();
    for row in carob::lab(workspace, &["reproduce", "thesis", "--no-report"], &[])? {
        let of = &row["row"];
        let wanted = row["algorithm"] == algorithm
            && of["statistic"] == "p50"
            && of["metric"] == "fct_s"
            && of["clients"] == 1;
        if let (true, Some(value)) = (wanted, row["published"].as_f64()) {
            let error = of["error"].as_str().context("an error level")?;
            let buffer = match &of["buffer"] {
                Value::String(name) => name.clone(),
                Value::Number(bytes) if bytes.as_u64() == Some(1_410_000) => "inf".to_owned(),
                bytes => bytes.to_string(),
            };
            all.insert(format!("{error}-{buffer}"), value);
        }
    }
    Ok(all)
}

/// Our medians with these settings.
fn medians(workspace: &Workspace, algorithm: &str, settings: &[&str]) -> Result<Medians> {
    let mut arguments = vec!["run", "thesis/long-1c-*", "--algorithm", algorithm];
    arguments.extend(["--seeds", SEEDS, "--no-report"]);
    let mut all = Medians::new();
    for row in carob::lab(workspace, &arguments, settings)? {
        let name = row["scenario"].as_str().context("a scenario's name")?;
        let cell = name.trim_start_matches("thesis/long-1c-");
        let median = row["metrics"]["fct_s"]["p50"].as_f64();
        all.insert(cell.to_owned(), median.context("a median")?);
    }
    Ok(all)
}
