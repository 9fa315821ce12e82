//! `carob lab sweep`: a table with a row for each set of settings.
//!
//! A sweep is of quantities over scenarios, or, where its file names a study, of the claims of a part.

mod claims;
mod quantities;

use std::io::Write as _;
use std::ops::Range;
use std::path::Path;

use carob_lab::csv;
use carob_lab::export::{Column, Value};
use carob_lab::sweep::SweepError;

use super::args::SweepArgs;
use super::output;
use super::parquet::{Origin, ParquetFile};
use super::shard::{Format, Shard};
use super::source::read_file;
use crate::failure::{Failure, Kind, Outcome};

pub(super) fn run(args: &SweepArgs) -> Result<Outcome, Failure> {
    let text = read_file(&args.file)?;
    let is_of_claims = text.lines().any(|line| {
        let key = line.split_once('=').map(|(key, _)| key.trim());
        key == Some("study")
    });
    if is_of_claims {
        claims::run(args, &text)?;
    } else {
        quantities::run(args, &text)?;
    }
    Ok(Outcome::Done)
}

fn wrong(args: &SweepArgs, error: &SweepError) -> Failure {
    let message = format_args!("{}: {error}", args.file.display());
    Failure::new(Kind::Usage, message).hint(&error.remedy)
}

/// The rows requested, of so many.
fn part(args: &SweepArgs, rows: usize) -> Range<usize> {
    args.shard.map_or(0..rows, |shard| shard.of(rows))
}

/// Hash of the texts that decide the rows.
fn hash(texts: &[&str]) -> String {
    let hash = carob_lab::content_hash(texts.concat().as_bytes());
    format!("{hash:016x}")
}

/// Where rows go.
enum Rows<'a> {
    /// To standard output.
    Text(Format),
    /// To a file.
    Parquet(&'a Path, Box<ParquetFile>),
}

impl<'a> Rows<'a> {
    /// Prints the head of the table or of comma-separated values, or creates the file.
    fn new(
        args: &'a SweepArgs,
        head: &str,
        columns: Vec<Column>,
        hash: &str,
    ) -> Result<Self, Failure> {
        if let Some(path) = &args.parquet {
            let name = args.file.display().to_string();
            let origin = Origin {
                name: &name,
                command: &format!("carob lab sweep {}", output::quoted(&name)),
                hash,
                shard: args.shard,
            };
            let file = ParquetFile::create(path, columns, &origin)?;
            return Ok(Self::Parquet(path, Box::new(file)));
        }
        let format = match (args.json, args.csv) {
            (true, _) => Format::Json,
            (_, true) => Format::Csv,
            _ => Format::Table,
        };
        if let Some(shard) = args.shard {
            print(&shard.first_line(format, hash));
        }
        match format {
            // Parts join to one document: the first has the head.
            Format::Table if args.shard.is_none_or(Shard::is_first) => print(head),
            Format::Csv => {
                let names = columns.into_iter().map(|column| column.name).collect();
                print(&csv::text([names]));
            }
            _ => {}
        }
        Ok(Self::Text(format))
    }

    /// Begins a table of the document.
    fn head(&self, head: &str) {
        if matches!(self, Self::Text(Format::Table)) {
            print(head);
        }
    }

    /// Adds a row, in the form that is wanted.
    fn add(
        &mut self,
        table: impl FnOnce() -> String,
        json: impl FnOnce() -> serde_json::Value,
        lines: impl FnOnce() -> Vec<Vec<Value>>,
    ) -> Result<(), Failure> {
        match self {
            Self::Parquet(_, file) => return file.add(lines()),
            Self::Text(Format::Table) => print(&table()),
            Self::Text(Format::Csv) => {
                let plain = |line: Vec<Value>| line.iter().map(Value::plain).collect();
                print(&csv::text(lines().into_iter().map(plain)));
            }
            Self::Text(_) => print(&format!("{}\n", json())),
        }
        Ok(())
    }

    fn finish(self) -> Result<(), Failure> {
        if let Self::Parquet(path, file) = self {
            let rows = file.finish()?;
            output::say(format_args!("{}: {rows} rows", path.display()));
        }
        Ok(())
    }
}

/// Prints text at once, so that a row is there as soon as its runs are done.
fn print(text: &str) {
    let mut out = crate::output::bytes();
    // Errors are kept for the command's end.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
