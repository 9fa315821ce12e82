//! Tolerances between measured and published values: data beside the study's tables.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Expected;
use crate::pattern::fits;
use crate::scenario::value::{Kind, Value};
use crate::statistics::Statistic;

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

impl std::fmt::Display for Tolerance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
