//! `carob lab sweep`: a table with a row for each set of settings.
//!
//! Its file has quantities over scenarios. A file that names a study has claims instead, for `carob-studies sweep`.

mod quantities;

use std::io::Write as _;

use carob_lab::csv;
use carob_lab::export::Value;
use carob_lab::sweep::SweepError;

use super::source::read_file;
use crate::args::lab::SweepArgs;
use crate::failure::{Failure, Kind, Outcome};
use crate::features;

pub(super) fn run(args: &SweepArgs) -> Result<Outcome, Failure> {
    let text = read_file(&args.file)?;
    let is_of_claims = text.lines().any(|line| {
        let key = line.split_once('=').map(|(key, _)| key.trim());
        key == Some("study")
    });
    if is_of_claims {
        let what = format_args!(
            "{}: sweeps over claims are made by carob-studies",
            args.file.display()
        );
        return Err(features::of_studies(what, "sweep FILE"));
    }
    quantities::run(args, &text)?;
    Ok(Outcome::Done)
}

/// The failure of a sweep whose file is wrong.
pub fn wrong(args: &SweepArgs, error: &SweepError) -> Failure {
    let message = format_args!("{}: {error}", args.file.display());
    Failure::new(Kind::Usage, message).hint(&error.remedy)
}

/// Hash of the texts that decide the rows.
fn hash(texts: &[&str]) -> String {
    let hash = carob_lab::content_hash(texts.concat().as_bytes());
    format!("{hash:016x}")
}

/// The form of the rows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Table,
    Json,
    Csv,
}

/// Rows printed in one form, each as soon as its runs are done.
pub struct Rows(Format);

impl Rows {
    /// Prints the head of the table or of comma-separated values.
    pub fn new(args: &SweepArgs, head: &str, columns: &[&str]) -> Self {
        let format = match (args.json, args.csv) {
            (true, _) => Format::Json,
            (_, true) => Format::Csv,
            _ => Format::Table,
        };
        match format {
            Format::Table => print(head),
            Format::Csv => {
                let names = columns.iter().map(ToString::to_string).collect();
                print(&csv::text([names]));
            }
            Format::Json => {}
        }
        Self(format)
    }

    /// Begins a table of the document.
    fn head(&self, head: &str) {
        if self.0 == Format::Table {
            print(head);
        }
    }

    /// Prints a row.
    pub fn add(
        &self,
        table: impl FnOnce() -> String,
        json: impl FnOnce() -> serde_json::Value,
        lines: impl FnOnce() -> Vec<Vec<Value>>,
    ) {
        match self.0 {
            Format::Table => print(&table()),
            Format::Csv => {
                let plain = |line: Vec<Value>| line.iter().map(Value::plain).collect();
                print(&csv::text(lines().into_iter().map(plain)));
            }
            Format::Json => print(&format!("{}\n", json())),
        }
    }
}

/// Prints text at once, so that a row is there as soon as its runs are done.
fn print(text: &str) {
    let mut out = crate::output::bytes();
    // Errors are kept for the command's end.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
