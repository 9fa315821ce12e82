//! The recommendations of `carob lab compare` on links set aside, beside the best configuration in
//! hindsight.

use std::{fmt::Write as _, fs, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::{process, workspace::Workspace};

/// Links that are set aside.
const LINKS: usize = 24;
/// Recommendations that must be near the best.
const NEAR_LEAST: usize = 22;
/// Cost beside the best up to which a recommendation is near it.
const NEAR: f64 = 1.05;

const ABOUT: &str = "\
# Validation on 24 unused links

For those who rely on `carob lab compare`. Prerequisite: [its cost and its stages](../../../docs/compare.md).

Written by `cargo xtask long recommendations`.
";

const METHOD: &str = "
## Method

The links are a Latin hypercube of 24 levels in each quantity, drawn from a fixed seed: rates of 10 kbit/s to 10 Mbit/s, round
trips of 10 ms to 10 s, losses of 0 to 20 % each way, independent on 12 links and in runs of 1.2 to 6 packets on mean on 12, buffers
of 3 to 128 kB, 1 to 200 devices, six links for each kind of traffic. No constant of the search was fitted to these links. Misses
on them and on links of sets 1 and 25 prompted the search near the cheapest configuration, the wider last stage, and four seeds in the
first stages of crowds; all were tried on those two sets alone. Other sets, to develop with:
`cargo run --release -p carob-lab --example recommendations -- --set 1`.

For each link the comparison gives its recommendation. Then every controller is tried with each setting, and those that gain
together, with other seeds. Each controller with the parameters of RFC 7252, each with its best settings, and the configurations of
the comparison's last stage run with fresh seeds; default CoAP, the recommendation and the eight cheapest with more of them. The best in
hindsight is the one with the lowest cost on these seeds, so that chance is on its side. Regret is the cost of the recommendation beside the best, minus 1. Intervals are those of a bootstrap over
paired seeds.
";

/// A line of the example's output.
#[derive(Clone, Debug, Deserialize)]
struct Row {
    link: String,
    traffic: String,
    clients: u32,
    recommended: String,
    best: String,
    regret: [f64; 3],
    cost: [f64; 3],
    reason: String,
    configurations: usize,
    seeds: u64,
}

impl Row {
    fn is_near(&self) -> bool {
        self.regret[0] <= NEAR
    }

    fn is_worse(&self) -> bool {
        self.cost[1] > 1.0
    }
}

/// Judges every link, in order. `--resume` keeps the links that an interrupted run has judged.
pub(crate) fn run(workspace: &Workspace, results: &Path, options: &[String]) -> Result<bool> {
    let is_resumed = options == ["--resume"];
    ensure!(
        is_resumed || options.is_empty(),
        "`long recommendations` takes --resume and nothing else"
    );
    let kept = workspace.root.join("target/recommendations.jsonl");
    let mut lines = if is_resumed {
        fs::read_to_string(&kept).unwrap_or_default()
    } else {
        String::new()
    };
    for link in lines.lines().count() + 1..=LINKS {
        let mut command = example();
        command.arg(link.to_string()).current_dir(&workspace.root);
        lines += &process::output(&mut command)?;
        fs::write(&kept, &lines).with_context(|| format!("cannot write {}", kept.display()))?;
        println!("{}", lines.lines().last().unwrap_or_default());
    }
    let rows = rows(&lines)?;
    fs::write(results, page(&rows))
        .with_context(|| format!("cannot write {}", results.display()))?;
    Ok(passes(&rows))
}

fn example() -> Command {
    let mut command = process::cargo();
    command.args(["run", "--release", "--quiet", "--package", "carob-lab"]);
    command.args(["--example", "recommendations", "--"]);
    command
}

fn rows(lines: &str) -> Result<Vec<Row>> {
    let rows: Result<Vec<Row>, _> = lines.lines().map(serde_json::from_str).collect();
    rows.context("the example printed something else than JSON")
}

fn passes(rows: &[Row]) -> bool {
    let near = rows.iter().filter(|row| row.is_near()).count();
    near >= NEAR_LEAST && !rows.iter().any(Row::is_worse)
}

/// The page of results.
fn page(rows: &[Row]) -> String {
    let near = rows.iter().filter(|row| row.is_near()).count();
    let worse = rows.iter().filter(|row| row.is_worse()).count();
    let mut text = ABOUT.to_owned();
    // A String takes every write.
    let _ = write!(
        text,
        "\nOn {near} of {} links the recommendation costs at most 5 % more than the best configuration in hindsight (target: \
         {NEAR_LEAST}). On {worse} it costs more than default CoAP beyond chance (target: 0).\n\n",
        rows.len()
    );
    text += "| | link | traffic | devices | recommended | best in hindsight | regret (95 % interval) | cost beside default CoAP | \
             judged |\n|---:|---|---|---:|---|---|---:|---:|---|\n";
    for (place, row) in rows.iter().enumerate() {
        let mark = if row.is_near() { "" } else { " **miss**" };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {}{mark} | {} | {} configurations, {} seeds |",
            place + 1,
            row.link,
            row.traffic,
            row.clients,
            row.recommended,
            row.best,
            regret(row),
            interval(row.cost),
            row.configurations,
            row.seeds,
        );
    }
    let missed = |row: &&(usize, &Row)| !row.1.is_near() || row.1.is_worse();
    let numbered: Vec<(usize, &Row)> = (1..).zip(rows).collect();
    let mut misses = numbered.iter().filter(missed).peekable();
    if misses.peek().is_some() {
        text += "\n## Misses\n\n";
    }
    for (number, row) in misses {
        let _ = writeln!(
            text,
            "- Link {number}: {} costs {} more than {} ({}).",
            row.recommended,
            percent(row.regret[0]),
            row.best,
            row.reason
        );
    }
    text + METHOD
}

fn percent(ratio: f64) -> String {
    format!("{:.1} %", (ratio - 1.0) * 100.0)
}

fn regret(row: &Row) -> String {
    if row.recommended == row.best {
        return "0".to_owned();
    }
    let [value, low, high] = row.regret.map(percent);
    format!("{value} ({low} to {high})")
}

fn interval([value, low, high]: [f64; 3]) -> String {
    format!("{value:.2} ({low:.2} to {high:.2})")
}
