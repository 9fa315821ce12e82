//! Suggestions after a run: commands that work for its scenario.

use std::path::Path;

use carob_lab::metrics::CON_RATIO;
use carob_lab::pattern::is_pattern;
use carob_lab::published::Print;
use carob_lab::run::{Outcome as Runs, Row};
use carob_lab::scenario::builtin;
use carob_lab::summary;

use super::output::{quoted, say, suggest};
use super::run::{command, plan};
use super::source::Source;
use crate::args::lab::RunArgs;
use crate::program::program;

/// Settings of another network, with a description; the first that a scenario takes is suggested.
const VARIATIONS: &[(Fits, &[&str], &str)] = &[
    (
        serves,
        &["service=60 ms", "receive_queue=1000"],
        "the same with a slower server that drops nothing",
    ),
    (
        notifies,
        &["up.rate=64 kbit/s", "link.buffer=200 packets"],
        "the same on another link",
    ),
    (
        in_blocks,
        &["down.rate=60 kbit/s", "block=64 B"],
        "the same on another link",
    ),
    (any, &["down.rate=60 kbit/s"], "the same on another link"),
    (
        any,
        &["mac.transmissions_max=2"],
        "the same with fewer transmissions of each frame",
    ),
    (
        any,
        &["mac.buffers=16"],
        "the same with larger queues in the nodes",
    ),
];

/// Test of a variation against these runs.
type Fits = fn(&Runs<'_>, &[Row]) -> bool;

fn any(_: &Runs<'_>, _: &[Row]) -> bool {
    true
}

fn serves(_: &Runs<'_>, rows: &[Row]) -> bool {
    summary::serves(rows)
}

fn notifies(_: &Runs<'_>, rows: &[Row]) -> bool {
    rows.iter()
        .any(|row| row.metrics.contains_key(CON_RATIO.name))
}

/// Returns whether a body crosses in several blocks (RFC 7959) in any run.
fn in_blocks(runs: &Runs<'_>, _: &[Row]) -> bool {
    let mut jobs = runs.plan().jobs().iter();
    jobs.any(|job| summary::in_blocks(&runs.plan().spec(job)))
}

/// A command and its description.
type Suggestion = (String, &'static str);

/// Prints the suggestions for a run.
pub(super) fn print(
    args: &RunArgs,
    name: &str,
    source: &Source,
    runs: &Runs<'_>,
    rows: &[Row],
    print: &Print,
) {
    let mut next = suggestions(args, name, source, runs, rows);
    let of_row = |row: &Row| print.find(&row.compare_with, &row.algorithm);
    if let Some(published) = rows.iter().find_map(of_row) {
        next.push((
            format!("{} reproduce {}", program().name, published.study),
            "published and measured values of the study",
        ));
    }
    say("\nNext:");
    suggest(
        next.iter()
            .map(|(command, about)| (command.as_str(), *about)),
    );
    path();
}

/// Prints how the shell finds this program by its name, unless it does.
pub(super) fn path() {
    let Ok(own) = std::env::current_exe() else {
        return;
    };
    let (Some(folder), Some(name)) = (own.parent(), own.file_stem()) else {
        return;
    };
    let known = program().name;
    if name != known {
        // A program with external controllers.
        say(format_args!(
            "`{known}` stands for this program: alias {known}={}",
            quoted(&own.display().to_string())
        ));
        return;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|folder| is_program(&folder.join(known))) {
        say(format_args!(
            "`{known}` is not on the PATH yet: export PATH=\"{}:$PATH\"",
            folder.display()
        ));
    }
}

fn is_program(file: &Path) -> bool {
    file.is_file()
}

/// The run again as `name`, with `more` settings and other seeds.
fn again(args: &RunArgs, name: &str, more: &[&str]) -> String {
    let any_seeds = RunArgs {
        seeds: None,
        seed: None,
        ..args.clone()
    };
    command(&any_seeds, name, more)
}

fn suggestions(
    args: &RunArgs,
    name: &str,
    source: &Source,
    runs: &Runs<'_>,
    rows: &[Row],
) -> Vec<Suggestion> {
    let mut next: Vec<Suggestion> = Vec::new();
    let study = source.scenario.study();
    let widest = summary::widest_cell(rows);
    if args.name.is_none() && args.algorithm.is_empty() {
        next.push((
            format!("{} --seeds 40", again(&all_controllers(args), name, &[])),
            "the same for all controllers",
        ));
    }
    next.extend(typical(args, source, runs, rows));
    if args.seed.is_some() {
        next.push((again(args, name, &[]), "the same with many seeds"));
    }
    next.extend(variation(args, name, source, runs, rows));
    let one = match widest.or(rows.first().map(Row::cell_name)) {
        Some(cell) if is_pattern(name) => format!("{study}/{cell}"),
        _ => name.to_owned(),
    };
    let set: Vec<String> = args
        .set
        .iter()
        .map(|set| format!(" --set {}", quoted(set)))
        .collect();
    next.push((
        format!("carob lab show {}{}", quoted(&one), set.concat()),
        "every setting and where it comes from",
    ));
    if args.name.is_none() {
        next.push((
            "carob --help".to_owned(),
            "client, server and the rest of the lab",
        ));
    }
    next
}

/// The same run with every controller over UDP.
fn all_controllers(args: &RunArgs) -> RunArgs {
    RunArgs {
        algorithm: vec!["all".to_owned()],
        ..args.clone()
    }
}

/// The run nearest the median where algorithms differ most, item by item.
fn typical(args: &RunArgs, source: &Source, runs: &Runs<'_>, rows: &[Row]) -> Option<Suggestion> {
    let from_file = source.name != builtin::DEFAULT && builtin::find(&source.name).is_none();
    if args.seed.is_some() || from_file {
        return None;
    }
    let cell = summary::widest_cell(rows)?;
    let row = rows.iter().find(|row| row.cell_name() == cell)?;
    let job = runs.typical(cell, &row.algorithm)?;
    let of_one = RunArgs {
        algorithm: vec![row.algorithm.clone()],
        ..args.clone()
    };
    let full = format!("{}/{cell}", source.scenario.study());
    Some((
        format!("{} --seed {}", again(&of_one, &full, &[]), job.seed),
        summary::item_by_item(&runs.plan().spec(&job)),
    ))
}

/// Another network that the scenario takes, and that makes its runs different ones.
fn variation(
    args: &RunArgs,
    name: &str,
    source: &Source,
    runs: &Runs<'_>,
    rows: &[Row],
) -> Option<Suggestion> {
    if !args.set.is_empty() {
        return None;
    }
    let takes = |set: &[&str]| {
        let set: Vec<String> = set.iter().map(|&typed| typed.to_owned()).collect();
        Source::open(name, &set, &args.algorithm).is_ok_and(|other| {
            other.scenario.hash() != source.scenario.hash() && plan(args, &other).is_ok()
        })
    };
    let (_, set, about) = VARIATIONS
        .iter()
        .find(|(fits, set, _)| fits(runs, rows) && takes(set))?;
    Some((again(args, name, set), about))
}
