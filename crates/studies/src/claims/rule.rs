//! Rules: the conditions of a claim on quantities, as `papers/<study>/rules/<part>.toml` has them.
//!
//! ```toml
//! [[claim]]
//! id = "thesis-075"
//! about = "medians of the UDP controllers over New Reno and BBR"
//! cause = "..."                        # why it fails, if it does: evidence, no criterion
//! [[claim.text]]                       # by the text; [[claim.table]] by the study's tables
//! each.udp = ["default", "cocoa-001"]  # {udp} is each of these in turn, a case each
//! quantity = "p50(fct_s, {udp}, long-1c-none-2500) / p50(fct_s, tcp-newreno, long-1c-none-2500)"
//! between = [3, 9]                     # or: about, below, above
//! within = "5 %"                       # how far it may lie outside, of each end
//! ```
//!
//! `most.fb = ["fb1", "fb2"]` also takes each of these, and checks the largest of the
//! quantities; `average.load = [...]` checks their mean. `about` and `between` compare the quantity itself, with the tolerance `within` (`"5 %"`, or an
//! amount). `below` and `above` are orderings: the 95 % interval of the difference must exclude 0.
//! `printed = 6` checks every value of a published table with the tolerances of
//! `tolerances.toml`.

use std::collections::BTreeMap;
use std::fmt;

use carob_lab::quantity::{Expression, Reference};
use serde::Deserialize;

use super::interval::short;
use super::unit;

/// The value that a quantity is compared with.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    /// A number.
    Number(f64),
    /// Another quantity.
    Quantity(Expression),
}

/// The condition that a claim states for a quantity.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// Within this range, the tolerance included.
    Band {
        /// Least.
        low: f64,
        /// Most.
        high: f64,
    },
    /// Below the bound.
    Below(Bound),
    /// Above the bound.
    Above(Bound),
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = |bound: &Bound| match bound {
            Bound::Number(number) => short(*number),
            Bound::Quantity(quantity) => quantity.text().to_owned(),
        };
        match self {
            Self::Band { low, high } => write!(f, "{} to {}", short(*low), short(*high)),
            Self::Below(below) => write!(f, "below {}", bound(below)),
            Self::Above(above) => write!(f, "above {}", bound(above)),
        }
    }
}

/// One check of a rule, with all its cases.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Check {
    /// Each quantity and its condition.
    pub cases: Vec<(Expression, Condition)>,
    /// A printed table, instead.
    pub printed: Option<u32>,
}

impl Check {
    /// The runs it needs.
    pub fn references(&self) -> Vec<Reference> {
        let of_case = |(quantity, condition): &(Expression, Condition)| {
            let mut all = quantity.references();
            if let Condition::Below(Bound::Quantity(other))
            | Condition::Above(Bound::Quantity(other)) = condition
            {
                all.extend(other.references());
            }
            all
        };
        self.cases.iter().flat_map(of_case).collect()
    }
}

/// The rule of one claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The claim's id.
    pub id: String,
    /// The interpretation of the claim, in words.
    pub about: String,
    /// By the text.
    pub text: Vec<Check>,
    /// By the study's own tables, where these contradict it.
    pub table: Vec<Check>,
}

/// An error in a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    /// The claim, if it was reached.
    pub claim: String,
    /// The error, as a phrase.
    pub what: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule of {}: {}", self.claim, self.what)
    }
}

impl std::error::Error for RuleError {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    claim: Vec<Written>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    id: String,
    about: String,
    cause: Option<String>,
    #[serde(default)]
    text: Vec<WrittenCheck>,
    #[serde(default)]
    table: Vec<WrittenCheck>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrittenCheck {
    #[serde(default)]
    each: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    most: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    average: BTreeMap<String, Vec<String>>,
    quantity: Option<String>,
    about: Option<f64>,
    between: Option<[f64; 2]>,
    below: Option<toml::Value>,
    above: Option<toml::Value>,
    within: Option<toml::Value>,
    printed: Option<u32>,
}

/// Reads rules, whose quantities may use the facts of [`unit`](mod@super::unit).
pub fn read(text: &str) -> Result<Vec<Rule>, RuleError> {
    read_within(text, None)
}

/// The same with a share of each stated number, other than 0, as its tolerance.
pub fn read_within(text: &str, share: Option<f64>) -> Result<Vec<Rule>, RuleError> {
    let file: File = toml::from_str(text).map_err(|error| unreadable(&error))?;
    let one = |written: Written| {
        let id = written.id;
        let all = |checks: &[WrittenCheck]| -> Result<Vec<Check>, RuleError> {
            let each = checks.iter().map(|check| {
                check.read(share).map_err(|what| RuleError {
                    claim: id.clone(),
                    what,
                })
            });
            each.collect()
        };
        let (text, table) = (all(&written.text)?, all(&written.table)?);
        if text.is_empty() {
            return Err(RuleError {
                claim: id,
                what: "no [[claim.text]] check".to_owned(),
            });
        }
        Ok(Rule {
            id,
            about: written.about,
            text,
            table,
        })
    };
    file.claim.into_iter().map(one).collect()
}

/// Reads the causes that claims of a file name, by claim.
///
/// A cause is written after the runs, so it is no part of a [`Rule`]: stored verdicts do not depend on it.
pub fn causes(text: &str) -> Result<BTreeMap<String, String>, RuleError> {
    let file: File = toml::from_str(text).map_err(|error| unreadable(&error))?;
    let named = file
        .claim
        .into_iter()
        .filter_map(|written| Some((written.id, written.cause?)));
    Ok(named.collect())
}

fn unreadable(error: &toml::de::Error) -> RuleError {
    RuleError {
        claim: "the file".to_owned(),
        what: error.to_string(),
    }
}

impl WrittenCheck {
    pub(crate) fn read(&self, share: Option<f64>) -> Result<Check, String> {
        if let Some(table) = self.printed {
            return Ok(Check {
                cases: Vec::new(),
                printed: Some(table),
            });
        }
        let quantity = self.quantity.as_deref().ok_or("no quantity")?;
        let mut cases = Vec::new();
        for values in combinations(&self.each) {
            let one = fill(quantity, &values);
            let all = |names, one: &str| -> Vec<String> {
                let several = combinations(names);
                several.iter().map(|values| fill(one, values)).collect()
            };
            let one = match &all(&self.average, &one)[..] {
                [_] => one,
                several => format!("(({}) / {})", several.join(" + "), several.len()),
            };
            let text = match &all(&self.most, &one)[..] {
                [_] => one,
                several => format!("max({})", several.join(", ")),
            };
            let quantity = expression(&text)?;
            cases.push((quantity, self.condition(&values, share)?));
        }
        Ok(Check {
            cases,
            printed: None,
        })
    }

    fn condition(&self, values: &[(&str, &str)], share: Option<f64>) -> Result<Condition, String> {
        let tolerance = |end: f64| -> Result<f64, String> {
            if let (Some(share), true) = (share, end != 0.0) {
                return Ok(end.abs() * share);
            }
            match &self.within {
                None => Ok(0.0),
                Some(toml::Value::String(text)) => {
                    let percent = text.trim().strip_suffix('%').map(str::trim);
                    let percent = percent.and_then(|number| number.parse::<f64>().ok());
                    let percent = percent.ok_or("within is a number or \"5 %\"")?;
                    Ok(end.abs() * percent / 100.0)
                }
                Some(value) => number(value).ok_or_else(|| "within is a number or \"5 %\"".into()),
            }
        };
        let bound = |value: &toml::Value| match value {
            toml::Value::String(text) => expression(&fill(text, values)).map(Bound::Quantity),
            other => number(other)
                .map(Bound::Number)
                .ok_or_else(|| "a bound is a number or a quantity".to_owned()),
        };
        match (self.about, self.between, &self.below, &self.above) {
            (Some(about), None, None, None) => {
                let within = tolerance(about)?;
                Ok(Condition::Band {
                    low: about - within,
                    high: about + within,
                })
            }
            (None, Some([low, high]), None, None) => Ok(Condition::Band {
                low: low - tolerance(low)?,
                high: high + tolerance(high)?,
            }),
            (None, None, Some(below), None) => Ok(Condition::Below(bound(below)?)),
            (None, None, None, Some(above)) => Ok(Condition::Above(bound(above)?)),
            _ => Err("one of about, between, below and above".to_owned()),
        }
    }
}

/// Every combination of the values of names.
fn combinations(names: &BTreeMap<String, Vec<String>>) -> Vec<Vec<(&str, &str)>> {
    let mut all = vec![Vec::new()];
    for (name, values) in names {
        all = all
            .iter()
            .flat_map(|before: &Vec<(&str, &str)>| {
                values.iter().map(move |value| {
                    let mut longer = before.clone();
                    longer.push((name.as_str(), value.as_str()));
                    longer
                })
            })
            .collect();
    }
    all
}

fn number(value: &toml::Value) -> Option<f64> {
    value.as_float().or(value.as_integer().map(|n| n as f64))
}

/// Reads a quantity that may use the facts of [`unit`](mod@super::unit).
fn expression(text: &str) -> Result<Expression, String> {
    Expression::with_facts(text, &unit::value).map_err(|error| error.to_string())
}

/// A text with its names in braces filled in.
fn fill(text: &str, values: &[(&str, &str)]) -> String {
    let mut filled = text.to_owned();
    for (name, value) in values {
        filled = filled.replace(&format!("{{{name}}}"), value);
    }
    filled
}

#[cfg(test)]
mod tests {
    use carob_lab::quantity::Source;

    use super::*;

    #[test]
    fn names_in_braces_are_expanded() {
        let rules = read(
            r#"
            [[claim]]
            id = "thesis-001"
            about = "two times two cases"
            [[claim.text]]
            each.a = ["default", "cocoa-001"]
            each.b = ["low", "high"]
            quantity = "p50(fct_s, {a}, long-1c-{b}-2500)"
            below = "max(fct_s, {a}, x)"
            [[claim.table]]
            quantity = "1 + 1"
            about = 2
            within = "5 %"
            "#,
        );
        let rules = rules.expect("they read");
        let cases = &rules[0].text[0].cases;
        assert_eq!(cases.len(), 4);
        assert_eq!(
            cases[3].0.text(),
            "p50(fct_s, cocoa-001, long-1c-high-2500)"
        );
        assert_eq!(cases[3].1.to_string(), "below max(fct_s, cocoa-001, x)");
        assert_eq!(rules[0].table[0].cases[0].1.to_string(), "1.9 to 2.1");
    }

    #[test]
    fn the_largest_of_several_is_one_case() {
        let rules = read(
            r#"
            [[claim]]
            id = "thesis-001"
            about = ""
            [[claim.text]]
            each.a = ["1", "2"]
            most.b = ["3", "4"]
            quantity = "{a} * {b}"
            above = 3
            "#,
        );
        let rules = rules.expect("they read");
        let texts = rules[0].text[0]
            .cases
            .iter()
            .map(|(quantity, _)| quantity.text());
        assert_eq!(
            texts.collect::<Vec<_>>(),
            ["max(1 * 3, 1 * 4)", "max(2 * 3, 2 * 4)"]
        );
    }

    #[test]
    fn the_mean_of_several_is_one_case_too() {
        let rules = read(
            r#"
            [[claim]]
            id = "thesis-001"
            about = ""
            [[claim.text]]
            average.a = ["1", "2"]
            quantity = "exceeds({a}, 1.5)"
            above = 0.4
            "#,
        );
        let rules = rules.expect("they read");
        let (quantity, _) = &rules[0].text[0].cases[0];
        assert_eq!(quantity.text(), "((exceeds(1, 1.5) + exceeds(2, 1.5)) / 2)");
        assert_eq!(quantity.value(&Source::default(), &[]), Some(0.5));
    }

    #[test]
    fn a_cause_is_read_apart_and_changes_no_rule() {
        let with = |cause: &str| {
            format!(
                "[[claim]]\nid = \"x-1\"\nabout = \"\"\n{cause}[[claim.text]]\nquantity = \"1\"\nabout = 1"
            )
        };
        let (plain, caused) = (with(""), with("cause = \"the buffer\"\n"));
        assert_eq!(read(&plain), read(&caused));
        assert_eq!(causes(&plain), Ok(BTreeMap::new()));
        let causes = causes(&caused).expect("it reads");
        assert_eq!(causes.get("x-1").map(String::as_str), Some("the buffer"));
    }

    #[test]
    fn errors_name_the_claim() {
        let wrong = |check: &str| {
            let text = format!("[[claim]]\nid = \"x-1\"\nabout = \"\"\n[[claim.text]]\n{check}");
            read(&text).expect_err("it is wrong").to_string()
        };
        assert_eq!(wrong("about = 1"), "rule of x-1: no quantity");
        assert!(wrong("quantity = \"1\"").contains("one of about, between"));
        assert!(wrong("quantity = \"1\"\nabout = 1\nwithin = \"x\"").contains("within is"));
        assert!(wrong("quantity = \"1 +\"\nabout = 1").contains("byte 3"));
    }
}
