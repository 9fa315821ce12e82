//! Published values of a study beside measured ones: ratio, tolerance, verdict.

use std::collections::BTreeMap;
use std::fmt;

use carob_lab::pattern::fits;
use carob_lab::published::Expected;
use carob_lab::scenario::is_known;
use carob_lab::scenario::value::{Kind, Value};
use carob_lab::statistics::{Statistic, Statistics};
use carob_sim::registry::Registry;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The verdict of runs on a published value or a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Within the tolerance; every check of a claim holds.
    Holds,
    /// At least half of a claim's checks hold.
    HoldsPartly,
    /// Outside of the tolerance; fewer checks hold, and at least one fails.
    Fails,
    /// Not run; fewer checks hold, and the others do not differ from chance.
    Undecided,
}

impl Verdict {
    /// Its name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::HoldsPartly => "holds-partly",
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
        Some(if is_known(name, Registry::BUILT_IN) {
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

/// The tolerance of a published value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tolerance {
    /// As a fraction of the printed value.
    pub share: f64,
    /// Anything between the printed quartiles is near enough, too.
    pub or_quartiles: bool,
}

/// Suffix of a share where the published quartiles are accepted, too.
const OR_QUARTILES: &str = "or p25-p75";

impl Tolerance {
    fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let share = text.strip_suffix(OR_QUARTILES);
        match Value::read(Kind::Percent, share.unwrap_or(text))? {
            Value::Percent(ppm) => Some(Self {
                share: f64::from(ppm) / 1e6,
                or_quartiles: share.is_some(),
            }),
            _ => None,
        }
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Tolerances have one decimal of a per cent at most.
        let percent = (self.share * 1e3).round() / 10.0;
        write!(f, "{percent} %")?;
        if self.or_quartiles {
            write!(f, " {OR_QUARTILES}")?;
        }
        Ok(())
    }
}

/// Tolerances by statistic, as fractions of the printed value; rules for some cells and
/// algorithms, of which the last that fits holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tolerances {
    default: BTreeMap<Statistic, Tolerance>,
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq)]
struct Rule {
    /// Patterns.
    cells: Vec<String>,
    /// Patterns; none for every algorithm.
    algorithms: Vec<String>,
    bounds: BTreeMap<Statistic, Tolerance>,
    note: Option<String>,
}

impl Rule {
    fn is_of(&self, cell: &str, algorithm: &str) -> bool {
        let any = |patterns: &[String], name| patterns.iter().any(|p| fits(name, p));
        any(&self.cells, cell) && (self.algorithms.is_empty() || any(&self.algorithms, algorithm))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    default: BTreeMap<String, String>,
    #[serde(default)]
    rule: Vec<RawRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    cells: Vec<String>,
    #[serde(default)]
    algorithms: Vec<String>,
    #[serde(default)]
    within: BTreeMap<String, String>,
    note: Option<String>,
}

impl Tolerances {
    /// Reads a file such as `papers/thesis/tolerances.toml`; an error names the problem.
    pub fn read(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|e| e.to_string())?;
        let table = |texts: &BTreeMap<String, String>| {
            texts
                .iter()
                .map(|(name, text)| {
                    let statistic =
                        Statistic::named(name).ok_or(format!("no statistic \"{name}\""))?;
                    let tolerance = Tolerance::read(text).ok_or_else(|| {
                        let share = Kind::Percent;
                        format!("{name} = \"{text}\": expected {share}, or the same and \"{OR_QUARTILES}\"")
                    })?;
                    Ok((statistic, tolerance))
                })
                .collect::<Result<BTreeMap<_, _>, String>>()
        };
        Ok(Self {
            default: table(&file.default)?,
            rules: file
                .rule
                .into_iter()
                .map(|rule| {
                    Ok(Rule {
                        bounds: table(&rule.within)?,
                        cells: rule.cells,
                        algorithms: rule.algorithms,
                        note: rule.note,
                    })
                })
                .collect::<Result<_, String>>()?,
        })
    }

    /// The one for a statistic of an algorithm in a cell; 0 if there is none.
    pub fn of(&self, cell: &str, algorithm: &str, statistic: Statistic) -> Tolerance {
        self.rules
            .iter()
            .rev()
            .filter(|rule| rule.is_of(cell, algorithm))
            .find_map(|rule| rule.bounds.get(&statistic))
            .or_else(|| self.default.get(&statistic))
            .copied()
            .unwrap_or_default()
    }

    /// Patterns of cells whose rule fits none of these rows.
    pub fn unused(&self, expected: &[Expected]) -> Vec<String> {
        let mut unused = Vec::new();
        for rule in &self.rules {
            for cell in &rule.cells {
                let one = Rule {
                    cells: vec![cell.clone()],
                    ..rule.clone()
                };
                if !expected
                    .iter()
                    .any(|row| one.is_of(&row.cell, &row.algorithm))
                {
                    unused.push(cell.clone());
                }
            }
        }
        unused
    }

    /// A remark on an algorithm in a cell.
    pub fn note(&self, cell: &str, algorithm: &str) -> Option<&str> {
        self.rules
            .iter()
            .rev()
            .filter(|rule| rule.is_of(cell, algorithm))
            .find_map(|rule| rule.note.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_fits_no_expected_row_is_found() {
        let text = "[default]\np50 = \"1 %\"\n[[rule]]\ncells = [\"a-*\", \"b\"]\n";
        let row = Expected {
            cell: "a-1".to_owned(),
            ..Expected::default()
        };
        let all = Tolerances::read(text).expect("rules");
        assert_eq!(all.unused(&[row]), ["b"]);
    }

    #[test]
    fn the_last_rule_that_fits_and_has_the_statistic_holds() {
        let text = "[default]\np50 = \"15 %\"\nmin = \"30 %\"\n
            [[rule]]\ncells = [\"a-*\"]\nwithin.p50 = \"5 %\"\nwithin.min = \"6 %\"\nnote = \"N\"\n
            [[rule]]\ncells = [\"a-b\"]\nalgorithms = [\"tcp-*\"]\nwithin.p50 = \"25 % or p25-p75\"\n";
        let all = Tolerances::read(text).expect("rules");
        let of = |cell, algorithm, statistic| all.of(cell, algorithm, statistic).to_string();
        assert_eq!(of("b", "tcp-x", Statistic::P50), "15 %");
        assert_eq!(of("a-b", "default", Statistic::P50), "5 %");
        assert_eq!(of("a-b", "tcp-x", Statistic::P50), "25 % or p25-p75");
        assert_eq!(of("a-b", "tcp-x", Statistic::Min), "6 %");
        assert_eq!(all.note("a-b", "tcp-x"), Some("N"));
        assert_eq!(all.note("b", "tcp-x"), None);
    }

    #[test]
    fn a_wrong_statistic_or_unit_is_refused() {
        for (text, wrong) in [
            ("[default]\np51 = \"1 %\"", "p51"),
            ("[default]\np50 = \"0.1\"", "0.1"),
            ("[default]\np50 = \"or p25-p75\"", "expected"),
        ] {
            let error = Tolerances::read(text).expect_err("wrong");
            assert!(error.contains(wrong), "{error}");
        }
    }
}
