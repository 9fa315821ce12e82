//! Sweeps as data: a base scenario, rows of settings, and columns of quantities.
//!
//! ```toml
//! title = "Fairness on other links"
//! about = "Shares of a link under each row's settings;"
//! scenario = "carob/fairness"
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
//! Quantities are those of rules ([`expression`](crate::claims::expression)). A row needs the memory
//! of its own runs, whatever the number of rows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fmt::Write as _;

use carob_sim::registry::Registry;
use serde::Deserialize;
use toml::Spanned;

use crate::claims::expression::{Expression, Reference};
use crate::claims::source::Source;
use crate::claims::{Making, ScenarioFile, measure};
use crate::run::RunSetupError;
use crate::scenario::{Scenario, is_known};

/// The most rows of a sweep.
const ROWS_MAX: usize = 100_000;

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

/// A row: settings that are applied to the base scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepRow {
    /// The row in words.
    pub label: String,
    /// Arguments of `--set`.
    pub set: Vec<String>,
    /// Its line in the file.
    line: usize,
}

/// A column: one or more quantities side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The text above the column.
    pub name: String,
    /// Its quantities.
    pub quantities: Vec<Expression>,
    /// Digits after the point.
    pub decimals: usize,
}

/// A sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// Title of the table.
    pub title: String,
    /// The text above it, up to the command that rows add their settings to.
    pub about: String,
    /// Full name of the base scenario.
    pub scenario: String,
    /// Seeds per cell and algorithm.
    pub seeds: u64,
    /// The rows, in order.
    pub rows: Vec<SweepRow>,
    /// The columns.
    pub columns: Vec<Column>,
}

/// Values of a row: for each column those of its quantities; `None` where a quantity has no sample.
pub type Values = Vec<Vec<Option<f64>>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    about: String,
    scenario: String,
    seeds: Spanned<u64>,
    #[serde(default)]
    row: Vec<Spanned<RawRow>>,
    #[serde(default)]
    parameters: BTreeMap<String, Spanned<Range>>,
    column: Vec<RawColumn>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRow {
    label: String,
    #[serde(default)]
    set: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Range {
    List(Vec<String>),
    Steps {
        from: String,
        to: String,
        steps: u32,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawColumn {
    name: String,
    quantities: Vec<Spanned<String>>,
    #[serde(default)]
    decimals: usize,
}

/// Errors of a text, which know their line.
struct Lines<'a>(&'a str);

impl Lines<'_> {
    fn of<T>(&self, spanned: &Spanned<T>) -> usize {
        let before = &self.0[..spanned.span().start.min(self.0.len())];
        before.matches('\n').count() + 1
    }
}

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
        let lines = Lines(text);
        let file: File = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| {
                let before = &text[..span.start.min(text.len())];
                before.matches('\n').count() + 1
            });
            let keys = "the keys are title, about, scenario, seeds, [[row]] with label and set, [parameters], \
                        and [[column]] with name, quantities and decimals";
            wrong_at(line, error.message(), keys)
        })?;
        if *file.seeds.get_ref() == 0 {
            let line = Some(lines.of(&file.seeds));
            return Err(wrong_at(line, "no seeds", "write seeds = 5 or more"));
        }
        let columns: Result<Vec<Column>, SweepError> =
            file.column.iter().map(|raw| column(raw, &lines)).collect();
        Ok(Self {
            title: file.title,
            about: file.about,
            scenario: file.scenario,
            seeds: *file.seeds.get_ref(),
            rows: rows(&file.row, &file.parameters, &lines)?,
            columns: columns?,
        })
    }

    /// Cells and algorithms of all columns, each once, in order.
    fn needed(&self) -> Vec<Reference> {
        let quantities = self.columns.iter().flat_map(|column| &column.quantities);
        let all: BTreeSet<Reference> = quantities.flat_map(Expression::references).collect();
        all.into_iter().collect()
    }

    /// Number of runs of a row.
    pub fn runs(&self) -> usize {
        let seeds = usize::try_from(self.seeds).unwrap_or(usize::MAX);
        self.needed().len().saturating_mul(seeds)
    }

    /// Checks that the scenario takes the settings of every row, and has the cells of every column.
    pub fn check(&self, file: &ScenarioFile, registry: Registry) -> Result<(), SweepError> {
        let wrong = |line, what: String, remedy: &str| SweepError {
            line,
            what,
            remedy: remedy.to_owned(),
        };
        for row in &self.rows {
            let read = Scenario::registered(registry, &file.name, &file.text, &row.set, None);
            let scenario = read.map_err(|errors| {
                let remedy = "`carob lab keys` lists every key; units are written, as in '400 ms'";
                wrong(Some(row.line), errors.to_string(), remedy)
            })?;
            for of in self.needed() {
                if scenario.cell(&of.cell).is_none() {
                    let what = format!("\"{}\": no cell \"{}\"", row.label, of.cell);
                    let remedy = "`carob lab show NAME` names the cells of a scenario";
                    return Err(wrong(Some(row.line), what, remedy));
                }
                if !is_known(&of.algorithm, registry) {
                    let what = format!("no algorithm is called \"{}\"", of.algorithm);
                    return Err(wrong(None, what, "`carob cc list` names all"));
                }
            }
        }
        Ok(())
    }

    /// Makes the runs of a row and computes its columns. `progress` is called after each run, from
    /// any thread.
    pub fn values(
        &self,
        file: &ScenarioFile,
        row: &SweepRow,
        making: Making<'_>,
        progress: impl Fn() + Sync,
    ) -> Result<Values, RunSetupError> {
        let making = Making {
            seeds: self.seeds,
            set: &row.set,
            ..making
        };
        let quantities = || self.columns.iter().flat_map(|column| &column.quantities);
        let metrics = quantities().flat_map(|quantity| quantity.metrics());
        let wanted: BTreeSet<String> = metrics.map(str::to_owned).collect();
        let mut source = Source::default();
        for of in self.needed() {
            let files = std::slice::from_ref(file);
            measure(files, &of, making, &mut source, &wanted, &progress)?;
        }
        let all: Vec<usize> = (0..source.seeds()).collect();
        let value = |quantity: &Expression| quantity.value(&source, &all);
        let of_column = |column: &Column| column.quantities.iter().map(value).collect();
        Ok(self.columns.iter().map(of_column).collect())
    }

    /// The document above the rows: title, text, the command that a row adds its settings to, and the
    /// head of the table.
    pub fn head(&self) -> String {
        let mut text = format!(
            "# {}\n\n{} each row adds its settings to\n`carob lab run {} --seeds {}`.\n\n| reading | settings |",
            self.title, self.about, self.scenario, self.seeds
        );
        for column in &self.columns {
            // A String takes every write.
            let _ = write!(text, " {} |", column.name);
        }
        text.push_str("\n| --- | --- |");
        text.push_str(&" ---: |".repeat(self.columns.len()));
        text.push('\n');
        text
    }

    /// A row of the table, with its line end.
    pub fn line(&self, row: &SweepRow, values: &Values) -> String {
        let set: Vec<String> = row.set.iter().map(|set| format!("`{set}`")).collect();
        let mut text = format!("| {} | {} |", row.label, set.join(", "));
        for (column, values) in self.columns.iter().zip(values) {
            let decimals = column.decimals;
            let one = |value: &Option<f64>| {
                value.map_or_else(|| "none".to_owned(), |value| format!("{value:.decimals$}"))
            };
            let values: Vec<String> = values.iter().map(one).collect();
            // A String takes every write.
            let _ = write!(text, " {} |", values.join(" / "));
        }
        text.push('\n');
        text
    }
}

fn column(raw: &RawColumn, lines: &Lines<'_>) -> Result<Column, SweepError> {
    let quantity = |text: &Spanned<String>| {
        Expression::parse(text.get_ref()).map_err(|error| {
            let remedy = "a quantity is such as p50(fct_s, default, CELL) / 2";
            wrong_at(Some(lines.of(text)), error.to_string(), remedy)
        })
    };
    let quantities: Result<Vec<Expression>, SweepError> =
        raw.quantities.iter().map(quantity).collect();
    Ok(Column {
        name: raw.name.clone(),
        quantities: quantities?,
        decimals: raw.decimals.min(17),
    })
}

/// The rows that are listed, then the combinations of parameters; the last one varies fastest.
fn rows(
    listed: &[Spanned<RawRow>],
    parameters: &BTreeMap<String, Spanned<Range>>,
    lines: &Lines<'_>,
) -> Result<Vec<SweepRow>, SweepError> {
    let one = |row: &Spanned<RawRow>| SweepRow {
        label: row.get_ref().label.clone(),
        set: row.get_ref().set.clone(),
        line: lines.of(row),
    };
    let mut rows: Vec<SweepRow> = listed.iter().map(one).collect();
    let mut combined = Vec::new();
    for (key, range) in parameters {
        let line = lines.of(range);
        let values = range.get_ref().values().map_err(|what| {
            let remedy = "write [\"1 s\", \"2 s\"] or { from = \"1 s\", to = \"9 s\", steps = 5 }";
            wrong_at(Some(line), format!("{key}: {what}"), remedy)
        })?;
        if combined.is_empty() {
            combined.push((Vec::new(), line));
        }
        if combined.len().saturating_mul(values.len()) > ROWS_MAX {
            let what = format!("more than {ROWS_MAX} rows");
            return Err(wrong_at(Some(line), what, "take fewer values"));
        }
        let longer = |(set, line): &(Vec<String>, usize)| {
            let with = |value: &String| {
                let mut set = set.clone();
                set.push(format!("{key}={value}"));
                (set, *line)
            };
            values.iter().map(with).collect::<Vec<_>>()
        };
        combined = combined.iter().flat_map(longer).collect();
    }
    rows.extend(combined.into_iter().map(|(set, line)| SweepRow {
        label: set.join(", "),
        set,
        line,
    }));
    if rows.is_empty() {
        return Err(wrong_at(None, "no row", "add [[row]] or [parameters]"));
    }
    Ok(rows)
}

impl Range {
    fn values(&self) -> Result<Vec<String>, String> {
        match self {
            Self::List(values) if values.is_empty() => Err("no value".to_owned()),
            Self::List(values) => Ok(values.clone()),
            Self::Steps { from, to, steps } => {
                let ((first, unit), (last, other)) = (number(from)?, number(to)?);
                if unit != other {
                    return Err(format!("\"{from}\" and \"{to}\" have different units"));
                }
                if *steps < 2 || *steps as usize > ROWS_MAX {
                    return Err(format!("{steps} steps"));
                }
                let step = (last - first) / f64::from(steps - 1);
                let value = |k: u32| {
                    // Without digits that only rounding made.
                    let value = (first + step * f64::from(k)) * 1e6;
                    format!("{}{unit}", value.round() / 1e6)
                };
                Ok((0..*steps).map(value).collect())
            }
        }
    }
}

/// A number and what follows it.
pub(crate) fn number(text: &str) -> Result<(f64, &str), String> {
    let text = text.trim();
    let numeric = |c: char| !(c.is_ascii_digit() || c == '.' || c == '-');
    let (number, unit) = text.split_at(text.find(numeric).unwrap_or(text.len()));
    let number = number.parse();
    Ok((
        number.map_err(|_| format!("\"{text}\" begins with no number"))?,
        unit,
    ))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const SMALL: &str = "title = \"T\"\nabout = \"A;\"\nscenario = \"carob/default\"\nseeds = 2\n\
        [[row]]\nlabel = \"as is\"\n\
        [parameters]\nloss = { from = \"0 %\", to = \"10 %\", steps = 3 }\nblock = [\"64 B\", \"128 B\"]\n\
        [[column]]\nname = \"c\"\nquantities = [\"1 + 1\", \"p50(fct_s, default, default-none)\"]\ndecimals = 1\n";

    #[test]
    fn parameters_make_a_row_for_each_combination() {
        let sweep = Sweep::read(SMALL).expect("it reads");
        let sets: Vec<String> = sweep.rows.iter().map(|row| row.set.join(",")).collect();
        assert_eq!(
            sets,
            [
                "",
                "block=64 B,loss=0 %",
                "block=64 B,loss=5 %",
                "block=64 B,loss=10 %",
                "block=128 B,loss=0 %",
                "block=128 B,loss=5 %",
                "block=128 B,loss=10 %",
            ]
        );
        assert_eq!(sweep.runs(), 2);
        let line = sweep.line(&sweep.rows[1], &vec![vec![Some(2.0), None]]);
        assert_eq!(
            line,
            "| block=64 B, loss=0 % | `block=64 B`, `loss=0 %` | 2.0 / none |\n"
        );
    }

    #[test]
    fn errors_name_the_line_and_the_remedy() {
        for (from, to, line, what, remedy) in [
            ("seeds = 2", "seeds = 0", Some(4), "no seeds", "seeds = 5"),
            ("1 + 1", "1 +", Some(12), "byte 3", "p50("),
            (
                "label",
                "lable",
                Some(5),
                "unknown field",
                "[[row]] with label",
            ),
            (
                "to = \"10 %\"",
                "to = \"10 s\"",
                Some(8),
                "different units",
                "from =",
            ),
            ("steps = 3", "steps = 1", Some(8), "1 steps", "steps = 5"),
        ] {
            let error = Sweep::read(&SMALL.replace(from, to)).expect_err(to);
            assert!(error.what.contains(what), "{error:?}");
            assert!(error.remedy.contains(remedy), "{error:?}");
            // A table's error is reported where it begins or at its key.
            let near = |line: usize| error.line.is_some_and(|found| found.abs_diff(line) <= 1);
            assert!(line.is_some_and(near), "{error:?}");
        }
    }

    #[test]
    fn kept_results_have_the_columns_and_rows_of_their_sweep() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
        for name in [
            "fairness-sensitivity",
            "iotlab-sensitivity",
            "rpl-sensitivity",
        ] {
            let read = |end: &str| {
                let file = root.join(format!("{name}.{end}"));
                std::fs::read_to_string(file).expect("a file of the results")
            };
            let sweep = Sweep::read(&read("toml")).expect("it reads");
            let kept = read("md");
            let rows = kept.strip_prefix(&sweep.head()).expect("the same columns");
            let rows: Vec<&str> = rows.lines().collect();
            assert_eq!(rows.len(), sweep.rows.len(), "{name}");
            for (kept, row) in rows.iter().zip(&sweep.rows) {
                let begins = sweep.line(row, &Vec::new());
                assert!(kept.starts_with(begins.trim_end()), "{kept}");
            }
        }
    }
}
