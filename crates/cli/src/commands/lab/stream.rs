//! Rows of single runs, printed as soon as they are computed: memory does not grow with their number.

use std::io::Write as _;

use carob_lab::export;
use carob_lab::run::{EachRow, Plan};

use super::output;
use crate::args::lab::RunArgs;
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

/// Makes the runs and prints their rows.
pub(super) fn run(args: &RunArgs, plan: &Plan<'_>) -> Result<Outcome, Failure> {
    let all = plan.jobs().len();
    let bar = output::progress(all);
    let mut at = 0;
    while at < all {
        let end = all.min(at + CHUNK);
        let part = plan.part(at..end);
        let runs = output::with_threads(args.threads, || {
            part.execute(carob_sim::run, |_, _| bar.inc(1))
        })?;
        let rows = runs
            .map_err(|error| Failure::new(Kind::Usage, error))?
            .each();
        // Errors are kept for the command's end.
        let _ = crate::output::bytes().write_all(text(&rows, args.csv, at == 0).as_bytes());
        at = end;
    }
    bar.finish_and_clear();
    Ok(Outcome::Done)
}

/// Rows as JSON lines, or as comma-separated values, with a head where they are the first.
fn text(rows: &[EachRow], is_csv: bool, is_first: bool) -> String {
    if is_csv {
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
