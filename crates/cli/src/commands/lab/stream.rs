//! Rows of single runs, printed as soon as they are there: memory does not grow with their number.

use std::io::Write as _;
use std::path::PathBuf;

use carob_lab::journal::Journal;
use carob_lab::run::{EachRow, Plan};
use carob_lab::scenario::builtin;
use carob_lab::{engine, export};

use super::args::RunArgs;
use super::output::{self, say};
use super::parquet::{Origin, ParquetFile};
use super::run::command;
use super::shard::Format;
use crate::failure::{Failure, Kind, Outcome};

/// Runs whose rows are kept in memory before they are printed.
const CHUNK: usize = 1_024;

/// Returns true where rows of single runs are all that is printed.
pub(super) fn is_of(args: &RunArgs) -> bool {
    let rows = args.each && (args.json || args.csv || args.parquet.is_some());
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
    let mut out = Rows::new(args, plan)?;
    let bar = output::progress(range.len());
    let mut at = range.start;
    while at < range.end {
        let end = range.end.min(at + CHUNK);
        let part = plan.part(at..end);
        let runs = output::with_threads(args.threads, || {
            part.execute_with(journal, engine::run, |_, _| bar.inc(1))
        })?;
        let rows = runs
            .map_err(|error| Failure::new(Kind::Usage, error))?
            .each();
        out.add(&rows)?;
        at = end;
    }
    bar.finish_and_clear();
    out.finish()?;
    Ok(Outcome::Done)
}

/// Where rows go.
enum Rows {
    /// As text to standard output; comma-separated values have a head where `is_first`.
    Text { format: Format, is_first: bool },
    /// To a file.
    Parquet(PathBuf, Box<ParquetFile>),
}

impl Rows {
    fn new(args: &RunArgs, plan: &Plan<'_>) -> Result<Self, Failure> {
        let hash = format!("{:016x}", plan.hash());
        if let Some(path) = &args.parquet {
            let origin = Origin {
                name: args.name.as_deref().unwrap_or(builtin::DEFAULT),
                command: &command(args),
                hash: &hash,
                shard: args.shard,
            };
            let cell = plan.jobs()[0].cell.to_json();
            let file = ParquetFile::create(path, export::each_columns(&cell), &origin)?;
            return Ok(Self::Parquet(path.clone(), Box::new(file)));
        }
        let format = if args.csv { Format::Csv } else { Format::Json };
        if let Some(shard) = args.shard {
            print(&shard.first_line(format, &hash));
        }
        let is_first = true;
        Ok(Self::Text { format, is_first })
    }

    fn add(&mut self, rows: &[EachRow]) -> Result<(), Failure> {
        match self {
            Self::Text { format, is_first } => {
                print(&text(rows, *format, *is_first));
                *is_first = false;
                Ok(())
            }
            Self::Parquet(_, file) => file.add(rows.iter().flat_map(export::each_lines)),
        }
    }

    fn finish(self) -> Result<(), Failure> {
        if let Self::Parquet(path, file) = self {
            let rows = file.finish()?;
            say(format_args!("{}: {rows} rows", path.display()));
        }
        Ok(())
    }
}

fn print(text: &str) {
    // Errors are kept for the command's end.
    let _ = crate::output::bytes().write_all(text.as_bytes());
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
