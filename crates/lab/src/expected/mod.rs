//! Expected values of a study beside measured ones: ratio, tolerance, verdict.

mod tolerance;

use carob_sim::registry::Registry;
use serde::Serialize;
use serde_json::json;

use crate::scenario;
use crate::statistics::{Statistic, Statistics};

pub use tolerance::{Tolerance, Tolerances};

/// A row of a study's table: the result of one algorithm in one cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expected {
    /// Short name of the study.
    pub study: String,
    /// The table, by its published number.
    pub table: u32,
    /// Name of the cell within the study, such as `long-1c-none-2500`.
    pub cell: String,
    /// The cell's sweep keys, as (key, value).
    pub row: Vec<(String, String)>,
    /// The algorithm's registry id.
    pub algorithm: String,
    /// The metric, such as `fct_s`.
    pub metric: String,
    /// Printed values by statistic.
    pub values: Vec<(Statistic, f64)>,
}

impl Expected {
    /// A printed value.
    pub fn value(&self, statistic: Statistic) -> Option<f64> {
        self.values
            .iter()
            .find(|(s, _)| *s == statistic)
            .map(|(_, value)| *value)
    }
}

/// Agreement of a measured value with the published one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Within the tolerance.
    Holds,
    /// Outside of it.
    Fails,
    /// Not run.
    Undecided,
}

impl Verdict {
    /// Its name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::Undecided => "undecided",
        }
    }
}

/// One published value and the measured one.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The printed row.
    pub expected: Expected,
    /// Which of its values.
    pub statistic: Statistic,
    /// Settings besides the profile, for another interpretation of it.
    pub set: Vec<String>,
    /// The published value.
    pub paper: f64,
    /// The measured value, if it was run.
    pub measured: Option<f64>,
    /// The tolerance applied.
    pub tolerance: Tolerance,
    /// A remark on the row.
    pub remark: Option<String>,
}

impl Comparison {
    /// Measured over published value.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.measured? / self.paper)
    }

    /// The verdict on the measured value.
    pub fn verdict(&self) -> Verdict {
        let (Some(measured), Some(ratio)) = (self.measured, self.ratio()) else {
            return Verdict::Undecided;
        };
        let near = (ratio - 1.0).abs() <= self.tolerance.share;
        let published = |statistic| self.expected.value(statistic);
        let between = published(Statistic::P25)
            .zip(published(Statistic::P75))
            .is_some_and(|(p25, p75)| (p25..=p75).contains(&measured));
        if near || (self.tolerance.or_quartiles && between) {
            Verdict::Holds
        } else {
            Verdict::Fails
        }
    }

    /// The algorithm, with changed settings.
    pub fn label(&self) -> String {
        label(&self.expected.algorithm, &self.set)
    }

    /// Why it was not run, if it was not.
    pub fn not_run(&self) -> Option<String> {
        if self.measured.is_some() {
            return None;
        }
        let name = &self.expected.algorithm;
        Some(if scenario::is_known(name, Registry::BUILT_IN) {
            "not run".to_owned()
        } else {
            format!("needs {name}")
        })
    }

    /// As in the machine interface; `row` holds the cell's keys, the metric and the statistic, and
    /// the settings of another interpretation. Values that were not run have a `note` with the reason; so
    /// does a row with a known deviation.
    pub fn to_json(&self) -> serde_json::Value {
        let number = |text: &String| {
            text.parse::<u64>()
                .map_or_else(|_| json!(text), |n| json!(n))
        };
        let mut row: serde_json::Map<String, serde_json::Value> = self
            .expected
            .row
            .iter()
            .map(|(k, v)| (k.clone(), number(v)))
            .collect();
        row.insert("metric".to_owned(), json!(self.expected.metric));
        row.insert("statistic".to_owned(), json!(self.statistic.name()));
        if !self.set.is_empty() {
            row.insert("set".to_owned(), json!(self.set));
        }
        let mut value = json!({
            "study": self.expected.study,
            "table": self.expected.table,
            "row": row,
            "algorithm": self.expected.algorithm,
            "published": self.paper,
            "measured": self.measured,
            "ratio": self.ratio(),
            "verdict": self.verdict().name(),
        });
        if let Some(note) = self.not_run().or_else(|| self.remark.clone()) {
            value["note"] = json!(note);
        }
        value
    }
}

/// `cocoa-001`, or `cocoa-001 (cc.vbf_on=init-dithered)`.
pub fn label(algorithm: &str, set: &[String]) -> String {
    if set.is_empty() {
        algorithm.to_owned()
    } else {
        format!("{algorithm} ({})", set.join(", "))
    }
}

/// Measured values of one metric in a cell with an algorithm.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The cell's name within its study.
    pub cell: String,
    /// The algorithm's registry id.
    pub algorithm: String,
    /// The metric.
    pub metric: String,
    /// Settings besides the profile, for another interpretation of it.
    pub set: Vec<String>,
    /// Its statistics.
    pub statistics: Statistics,
}

impl Measured {
    fn is_of(&self, expected: &Expected) -> bool {
        self.cell == expected.cell
            && self.algorithm == expected.algorithm
            && self.metric == expected.metric
    }
}

/// Compares every printed value of `expected` with measured ones; each interpretation is a separate
/// comparison, the unchanged profile first.
pub fn compare(
    expected: &[Expected],
    measured: &[Measured],
    tolerances: &Tolerances,
) -> Vec<Comparison> {
    let mut all = Vec::new();
    for published in expected {
        let own: Vec<&Measured> = measured.iter().filter(|row| row.is_of(published)).collect();
        let mut add = |row: Option<&Measured>| {
            all.extend(published.values.iter().map(|&(statistic, paper)| {
                Comparison {
                    expected: published.clone(),
                    statistic,
                    set: row.map_or_else(Vec::new, |row| row.set.clone()),
                    paper,
                    measured: row.map(|row| row.statistics.get(statistic)),
                    tolerance: tolerances.of(&published.cell, &published.algorithm, statistic),
                    remark: tolerances
                        .note(&published.cell, &published.algorithm)
                        .map(str::to_owned),
                }
            }));
        };
        if own.is_empty() {
            add(None);
        }
        for row in own {
            add(Some(row));
        }
    }
    all
}

/// Numbers of published values: those that agree, those that were run, and all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Within tolerance.
    pub holds: usize,
    /// Run.
    pub run: usize,
    /// Printed.
    pub published: usize,
}

/// Counts verdicts.
pub fn tally<'a>(comparisons: impl IntoIterator<Item = &'a Comparison>) -> Tally {
    comparisons
        .into_iter()
        .fold(Tally::default(), |tally, comparison| {
            let verdict = comparison.verdict();
            Tally {
                holds: tally.holds + usize::from(verdict == Verdict::Holds),
                run: tally.run + usize::from(verdict != Verdict::Undecided),
                published: tally.published + 1,
            }
        })
}
