//! Sweeps as data: base scenarios, rows of settings, and columns of quantities.
//!
//! ```toml
//! title = "Fairness on other links"
//! about = "Shares of a link under each row's settings;"
//! scenario = "carob/fairness"       # or a list of scenarios
//! seeds = 5
//!
//! [[row]]
//! label = "a small buffer"
//! set = ["buffer=2500 B"]
//!
//! [parameters]                      # besides: one row for each combination of values
//! "link.buffer" = ["2500 B", "14100 B"]
//! "down.rate" = { from = "20 kbit/s", to = "60 kbit/s", steps = 3 }
//!
//! [[column]]
//! name = "`default` beside `cocoa-03`"
//! quantities = ["p50(received_bps, default, fairness-default-cocoa-03)"]
//! decimals = 2
//! ```
//!
//! A file with several tables has `[[table]]`, each with these keys; a table without rows
//! or columns uses the file's. `[list]` names values that rows and columns are repeated for (`each`) or summed over (`sum`).
//!
//! Quantities are expressions of [`quantity`](crate::quantity). Runs are kept
//! for one row at a time, so memory does not grow with the number of rows.

mod file;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fmt::Write as _;

use carob_sim::registry::Registry;

use crate::quantity::{Expression, Making, Reference, ScenarioFile, Source, measure};
use crate::run::RunSetupError;
use crate::scenario::{Scenario, is_known};
use file::Fields;
pub use file::number;

/// An error in a sweep file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepError {
    /// Line, counted from 1; `None` where the whole file is concerned.
    pub line: Option<usize>,
    /// The error.
    pub what: String,
    /// The way to correct it.
    pub remedy: String,
}

impl fmt::Display for SweepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for SweepError {}

/// A row: settings that are applied to the base scenarios.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepRow {
    /// The row in words.
    pub label: String,
    /// Arguments of `--set`.
    pub set: Vec<String>,
    /// Values that columns insert.
    fields: Fields,
    /// Its line in the file.
    line: usize,
}

/// A column: one or more quantities side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Column {
    name: String,
    /// Arguments of `--set` in its runs, after the row's.
    set: Vec<String>,
    /// Quantities with their lines in the file, before the fields of a row are inserted.
    quantities: Vec<(String, usize)>,
    /// Digits after the point of each quantity.
    decimals: Vec<usize>,
}

/// A column in a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell<'a> {
    /// The name of the column.
    pub column: &'a str,
    /// Arguments of `--set` in its runs.
    pub set: Vec<String>,
    /// Its quantities.
    pub quantities: Vec<Expression>,
}

/// A table of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Title; `None` if the file has no `[[table]]`.
    pub title: Option<String>,
    /// The text above it, up to the command that rows add their settings to.
    about: String,
    /// Whether the text above ends a sentence, so that the command begins another.
    begins_sentence: bool,
    /// Full names of the base scenarios.
    pub scenarios: Vec<String>,
    /// Seeds per cell and algorithm.
    pub seeds: u64,
    /// Arguments of `--set` in all runs, before the row's.
    set: Vec<String>,
    /// The rows, in order.
    pub rows: Vec<SweepRow>,
    columns: Vec<Column>,
}

/// A sweep: one or more tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// Title of the document.
    pub title: String,
    /// The text below the title.
    about: String,
    /// The tables, in order.
    pub tables: Vec<Table>,
}

/// Values of a row: for each column one per quantity; `None` where a quantity has no sample.
pub type Values = Vec<Vec<Option<f64>>>;

fn wrong_at(line: Option<usize>, what: impl Into<String>, remedy: impl Into<String>) -> SweepError {
    SweepError {
        line,
        what: what.into(),
        remedy: remedy.into(),
    }
}

impl Sweep {
    /// Reads a sweep file.
    pub fn read(text: &str) -> Result<Self, SweepError> {
        file::read(text)
    }

    /// The rows of all tables, in order, each with the number of its table and its place there, from 0.
    pub fn rows(&self) -> impl Iterator<Item = (usize, usize, &SweepRow)> {
        self.tables.iter().enumerate().flat_map(|(number, table)| {
            let rows = table.rows.iter().enumerate();
            rows.map(move |(place, row)| (number, place, row))
        })
    }

    /// The document above the first table.
    pub fn head(&self) -> String {
        format!("# {}\n\n{}", self.title, self.about)
    }
}

impl Table {
    /// The columns of a row.
    pub fn cells(&self, row: &SweepRow) -> Vec<Cell<'_>> {
        let cell = |column| self.cell(column, row).expect("the file was checked");
        self.columns.iter().map(cell).collect()
    }

    fn cell<'a>(&self, column: &'a Column, row: &SweepRow) -> Result<Cell<'a>, SweepError> {
        let quantity = |(text, line): &(String, usize)| {
            let text = row.fields.insert_all(text, *line)?;
            Expression::parse(&text).map_err(|error| {
                let remedy = "a quantity is such as p50(fct_s, default, CELL) / 2";
                wrong_at(Some(*line), error.to_string(), remedy)
            })
        };
        let quantities: Result<Vec<Expression>, SweepError> =
            column.quantities.iter().map(quantity).collect();
        let set = self.set.iter().chain(&row.set).chain(&column.set);
        Ok(Cell {
            column: &column.name,
            set: set.cloned().collect(),
            quantities: quantities?,
        })
    }

    /// Checks that every quantity of every row can be read.
    fn check_quantities(&self) -> Result<(), SweepError> {
        for row in &self.rows {
            for column in &self.columns {
                self.cell(column, row)?;
            }
        }
        Ok(())
    }

    /// Number of runs of a row.
    pub fn runs(&self, row: &SweepRow) -> usize {
        let seeds = usize::try_from(self.seeds).unwrap_or(usize::MAX);
        let batches = Batch::of(&self.cells(row));
        let needed: usize = batches.values().map(|batch| batch.needed.len()).sum();
        needed.saturating_mul(seeds)
    }

    /// Checks that the scenarios take the settings of every row, and have the cells of every column.
    pub fn check(&self, files: &[ScenarioFile], registry: Registry) -> Result<(), SweepError> {
        for row in &self.rows {
            for (set, batch) in Batch::of(&self.cells(row)) {
                let scenario = |file: &ScenarioFile| {
                    let read = Scenario::registered(registry, &file.name, &file.text, &set, None);
                    read.map_err(|errors| {
                        let remedy =
                            "`carob lab keys` lists every key; units are written, as in '400 ms'";
                        wrong_at(Some(row.line), errors.to_string(), remedy)
                    })
                };
                let scenarios: Result<Vec<Scenario>, SweepError> =
                    files.iter().map(scenario).collect();
                row.check(&scenarios?, &batch.needed, registry)?;
            }
        }
        Ok(())
    }

    /// Makes the runs of a row and computes its columns. `progress` is called after each run, from
    /// any thread.
    pub fn values(
        &self,
        files: &[ScenarioFile],
        row: &SweepRow,
        making: Making<'_>,
        progress: impl Fn() + Sync,
    ) -> Result<Values, RunSetupError> {
        let cells = self.cells(row);
        let mut values = vec![Vec::new(); cells.len()];
        for (set, batch) in Batch::of(&cells) {
            let making = Making {
                seeds: self.seeds,
                set: &set,
                ..making
            };
            let mut source = Source::default();
            for of in &batch.needed {
                measure(files, of, making, &mut source, &batch.metrics, &progress)?;
            }
            let all: Vec<usize> = (0..source.seeds()).collect();
            let with_settings = cells.iter().zip(&mut values);
            for (cell, values) in with_settings.filter(|(cell, _)| cell.set == set) {
                let value = |quantity: &Expression| quantity.value(&source, &all);
                *values = cell.quantities.iter().map(value).collect();
            }
        }
        Ok(values)
    }

    /// The text above the rows: title, text, the command that a row adds its settings to, and the
    /// names of the columns.
    pub fn head(&self) -> String {
        let mut text = String::new();
        // A String takes every write.
        if let Some(title) = &self.title {
            let _ = write!(text, "\n## {title}\n\n{}", self.about);
        }
        let set: Vec<String> = self
            .set
            .iter()
            .map(|set| format!(" --set '{set}'"))
            .collect();
        text.push_str(match (self.has_settings(), self.begins_sentence) {
            (true, false) => " each row adds its settings to\n",
            (true, true) => " Each row adds its settings to\n",
            (false, false) => " runs are those of\n",
            (false, true) => " Runs are those of\n",
        });
        let (set, seeds) = (set.concat(), self.seeds);
        let _ = if let [scenario] = &self.scenarios[..] {
            write!(text, "`carob lab run {scenario} --seeds {seeds}{set}`.")
        } else {
            let names = self.scenarios.join("` and `");
            write!(
                text,
                "`carob lab run NAME --seeds {seeds}{set}`, where NAME is `{names}`."
            )
        };
        text.push_str(if self.has_settings() {
            "\n\n| variant | settings |"
        } else {
            "\n\n| variant |"
        });
        for column in &self.columns {
            let _ = write!(text, " {} |", column.name);
        }
        text.push_str(if self.has_settings() {
            "\n| --- | --- |"
        } else {
            "\n| --- |"
        });
        text.push_str(&" ---: |".repeat(self.columns.len()));
        text.push('\n');
        text
    }

    fn has_settings(&self) -> bool {
        self.rows.iter().any(|row| !row.set.is_empty())
    }

    /// A row of the table, with its line end.
    pub fn line(&self, row: &SweepRow, values: &Values) -> String {
        let mut text = format!("| {} |", row.label);
        // A String takes every write.
        if self.has_settings() {
            let set: Vec<String> = row.set.iter().map(|set| format!("`{set}`")).collect();
            let _ = write!(text, " {} |", set.join(", "));
        }
        for (column, values) in self.columns.iter().zip(values) {
            let one = |(value, decimals): (&Option<f64>, &usize)| {
                value.map_or_else(|| "none".to_owned(), |value| format!("{value:.decimals$}"))
            };
            let values: Vec<String> = values.iter().zip(&column.decimals).map(one).collect();
            let _ = write!(text, " {} |", values.join(" / "));
        }
        text.push('\n');
        text
    }
}

/// The runs of a row that have the same settings.
#[derive(Default)]
struct Batch {
    /// Cells and algorithms, each once, in order.
    needed: BTreeSet<Reference>,
    metrics: BTreeSet<String>,
}

impl Batch {
    /// The runs of some columns, by settings.
    fn of(cells: &[Cell<'_>]) -> BTreeMap<Vec<String>, Self> {
        let mut all: BTreeMap<Vec<String>, Self> = BTreeMap::new();
        for cell in cells {
            let batch = all.entry(cell.set.clone()).or_default();
            for quantity in &cell.quantities {
                batch.needed.extend(quantity.references());
                let metrics = quantity.metrics().into_iter().map(str::to_owned);
                batch.metrics.extend(metrics);
            }
        }
        all
    }
}

impl SweepRow {
    /// Checks that one of the scenarios has each cell, and that each algorithm exists.
    fn check(
        &self,
        scenarios: &[Scenario],
        needed: &BTreeSet<Reference>,
        registry: Registry,
    ) -> Result<(), SweepError> {
        for of in needed {
            if scenarios.iter().all(|one| one.cell(&of.cell).is_none()) {
                let what = format!("\"{}\": no cell \"{}\"", self.label, of.cell);
                let remedy = "`carob lab show NAME` names the cells of a scenario";
                return Err(wrong_at(Some(self.line), what, remedy));
            }
            if !is_known(&of.algorithm, registry) {
                let what = format!("no algorithm is called \"{}\"", of.algorithm);
                return Err(wrong_at(None, what, "`carob cc list` names all"));
            }
        }
        Ok(())
    }
}
