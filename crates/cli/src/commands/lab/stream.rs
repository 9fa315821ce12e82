//! Rows of single runs, printed as soon as they are there: memory does not grow with their number.

use std::io::Write as _;

use carob_lab::journal::Journal;
use carob_lab::run::{EachRow, Plan};
use carob_lab::{engine, export};

use super::args::RunArgs;
use super::output;
use super::shard::Format;
use crate::failure::{Failure, Kind, Outcome};

/// Runs whose rows are kept in memory before they are printed.
const CHUNK: usize = 1_024;

/// Returns true where rows of single runs are all that is printed.
pub(super) fn is_of(args: &RunArgs) -> bool {
    let rows = args.each && (args.json || args.csv);
    let others = args.svg.is_some()
        || args.log.is_some()
        || args.pcap.is_some()
        || args.report.report.is_some();
    rows && !others
}

/// Makes the runs, or a part of them, and prints their rows.
pub(super) fn run(
    args: &RunArgs,
    plan: &Plan<'_>,
    journal: Option<&Journal>,
) -> Result<Outcome, Failure> {
    let all = plan.jobs().len();
    let range = args.shard.map_or(0..all, |shard| shard.of(all));
    let format = if args.csv { Format::Csv } else { Format::Json };
    let mut out = crate::output::bytes();
    let mut print = |text: &str| {
        // Errors are kept for the command's end.
        let _ = out.write_all(text.as_bytes());
    };
    if let Some(shard) = args.shard {
        print(&shard.first_line(format, &format!("{:016x}", plan.hash())));
    }
    let bar = output::progress(range.len());
    let (mut at, mut is_first) = (range.start, true);
    while at < range.end {
        let end = range.end.min(at + CHUNK);
        let part = plan.part(at..end);
        let runs = output::with_threads(args.threads, || {
            part.execute_with(journal, engine::run, |_, _| bar.inc(1))
        })?;
        let rows = runs
            .map_err(|error| Failure::new(Kind::Usage, error))?
            .each();
        print(&text(&rows, format, is_first));
        (at, is_first) = (end, false);
    }
    bar.finish_and_clear();
    Ok(Outcome::Done)
}

/// Rows in a format; comma-separated values have a head where they are the first.
fn text(rows: &[EachRow], format: Format, is_first: bool) -> String {
    if format == Format::Csv {
        let text = export::each_csv(rows);
        let rest = text.split_once('\n').map_or("", |(_, rest)| rest);
        return if is_first { text } else { rest.to_owned() };
    }
    let mut text = String::new();
    for row in rows {
        text += &serde_json::to_string(row).expect("text keys and finite numbers");
        text.push('\n');
    }
    text
}
