//! Quantities of runs, as sweeps and rules write them: `p50(fct_s, tcp-newreno, long-1c-none-2500) / 32.2`.
//!
//! Numbers, `+ - * /`, parentheses, `abs(x)`, `min(x, ...)`, `max(x, ...)`, and of runs:
//!
//! - `min p10 p25 p50 p75 p90 p95 max mean` of (metric, algorithm, cell), over all flows of all runs;
//! - `count_above(metric, algorithm, cell, x)`: samples above `x`, scaled to the number that a study of 20 runs
//!   would have; `share_above`: their share;
//! - `unit(name, argument)`: a fact that needs no run, from the [`Facts`] of the study;
//! - `exceeds(x, y)`: 1 if `x` is larger than `y`, else 0, to count cases with;
//! - `share_ahead(metric, algorithm, cell, x)`: share of the runs whose least sample is below `x`
//!   times the next;
//! - `nearest_p99` and `ci95` of (metric, algorithm, cell): the 99th percentile by nearest rank, and half
//!   the width of the 95 % interval of the mean (Student's t);
//! - `gap_sign(metric, algorithm, base, cell)`: 1, -1 or 0, the sign of the mean difference between two
//!   algorithms in runs with the same seed; 0 where its 95 % interval (Student's t) includes 0 or fewer than two
//!   pairs have samples.

use std::fmt;

use super::{Runs, Source};
use crate::metrics::Metric;
use crate::statistics::Statistics;
use crate::text::distinct;

/// Facts by name and argument; `None` where there is no such fact.
pub type Facts<'a> = &'a dyn Fn(&str, &str) -> Option<f64>;

/// Runs of one cell with one algorithm.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// The cell's name within its study.
    pub cell: String,
    /// The algorithm.
    pub algorithm: String,
}

/// The statistic computed over the samples of runs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Take {
    /// The value below which this share of samples lies, by linear interpolation.
    Quantile(f64),
    /// The 99th percentile by nearest rank, which is a sample.
    Nearest99,
    Mean,
    /// Half the width of the 95 % interval of the mean (Student's t).
    Ci95,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Number(f64),
    Take {
        take: Take,
        metric: String,
        of: Reference,
    },
    /// Samples above a value: their share, scaled to a number of samples.
    Above {
        times: f64,
        metric: String,
        of: Reference,
        value: Box<Self>,
    },
    Ahead {
        metric: String,
        of: Reference,
        ratio: Box<Self>,
    },
    /// Sign of the mean difference of paired runs.
    GapSign {
        metric: String,
        of: Reference,
        base: Reference,
    },
    /// A fact, found out when it was read.
    Unit(f64),
    Negative(Box<Self>),
    Absolute(Box<Self>),
    Least(Vec<Self>),
    Most(Vec<Self>),
    Two(char, Box<Self>, Box<Self>),
    Exceeds(Box<Self>, Box<Self>),
}

/// A quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    text: String,
    node: Node,
}

/// A syntax error of a quantity, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The error, as a phrase.
    pub what: String,
    /// The byte it was noticed at.
    pub at: usize,
    /// The whole text.
    pub text: String,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\", byte {}: {}", self.text, self.at, self.what)
    }
}

impl std::error::Error for SyntaxError {}

/// Runs in the study of 20 replications whose counts are compared.
const REPLICATIONS: f64 = 20.0;

impl Expression {
    /// Reads a quantity without facts.
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        Self::with_facts(text, &|_, _| None)
    }

    /// Reads a quantity that may use `unit(NAME, ARGUMENT)`.
    pub fn with_facts(text: &str, facts: Facts<'_>) -> Result<Self, SyntaxError> {
        let mut parser = Parser { text, at: 0, facts };
        let node = parser.sum()?;
        parser.skip();
        if parser.at < text.len() {
            return Err(parser.error("expected an operator"));
        }
        Ok(Self {
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
            node,
        })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The metrics it is made of, each once.
    pub fn metrics(&self) -> Vec<&str> {
        let mut all = Vec::new();
        self.node.visit(&mut |metric, _| all.push(metric));
        distinct(all)
    }

    /// The difference of two.
    pub fn minus(&self, other: &Self) -> Self {
        Self {
            text: format!("{} - ({})", self.text, other.text),
            node: Node::Two(
                '-',
                Box::new(self.node.clone()),
                Box::new(other.node.clone()),
            ),
        }
    }

    /// The runs it is of.
    pub fn references(&self) -> Vec<Reference> {
        let mut all = Vec::new();
        self.node.visit(&mut |_, of| all.push(of.clone()));
        all
    }

    /// Its value where run `k` is the `draw[k]`-th; nothing if something it needs was not run.
    pub fn value(&self, source: &Source, draw: &[usize]) -> Option<f64> {
        self.node.value(source, draw)
    }
}

impl Node {
    /// Passes each metric with the runs it is of.
    fn visit<'a>(&'a self, see: &mut dyn FnMut(&'a str, &'a Reference)) {
        match self {
            Self::Number(_) | Self::Unit(_) => {}
            Self::Take { metric, of, .. } => see(metric, of),
            Self::GapSign { metric, of, base } => {
                see(metric, of);
                see(metric, base);
            }
            Self::Above {
                metric, of, value, ..
            } => {
                see(metric, of);
                value.visit(see);
            }
            Self::Ahead { metric, of, ratio } => {
                see(metric, of);
                ratio.visit(see);
            }
            Self::Negative(one) | Self::Absolute(one) => one.visit(see),
            Self::Least(many) | Self::Most(many) => {
                for node in many {
                    node.visit(see);
                }
            }
            Self::Two(_, left, right) | Self::Exceeds(left, right) => {
                left.visit(see);
                right.visit(see);
            }
        }
    }

    fn value(&self, source: &Source, draw: &[usize]) -> Option<f64> {
        Some(match self {
            Self::Number(number) | Self::Unit(number) => *number,
            Self::Take { take, metric, of } => match take {
                Take::Mean => {
                    let samples = drawn(source.runs(of, metric)?, draw);
                    samples.iter().sum::<f64>() / samples.len() as f64
                }
                Take::Quantile(share) => source.quantile(of, metric, draw, *share)?,
                Take::Nearest99 => {
                    let mut samples = drawn(source.runs(of, metric)?, draw);
                    samples.sort_by(f64::total_cmp);
                    let rank = (samples.len() * 99).div_ceil(100).checked_sub(1)?;
                    *samples.get(rank)?
                }
                Take::Ci95 => {
                    let samples = drawn(source.runs(of, metric)?, draw);
                    Statistics::of(&samples)?.ci95
                }
            },
            Self::GapSign { metric, of, base } => {
                gap_sign(source.runs(of, metric), source.runs(base, metric), draw)
            }
            Self::Above {
                times,
                metric,
                of,
                value,
            } => {
                let value = value.value(source, draw)?;
                let samples = drawn(source.runs(of, metric)?, draw);
                let above = samples.iter().filter(|sample| **sample > value).count();
                times * above as f64 / samples.len() as f64
            }
            Self::Ahead { metric, of, ratio } => {
                let ratio = ratio.value(source, draw)?;
                let runs = source.runs(of, metric)?;
                let ahead = draw
                    .iter()
                    .filter(|k| is_ahead(&runs[**k % runs.len()], ratio));
                ahead.count() as f64 / draw.len() as f64
            }
            Self::Negative(one) => -one.value(source, draw)?,
            Self::Absolute(one) => one.value(source, draw)?.abs(),
            Self::Least(many) => fold(many, source, draw, f64::min)?,
            Self::Most(many) => fold(many, source, draw, f64::max)?,
            Self::Exceeds(left, right) => {
                let larger = left.value(source, draw)? > right.value(source, draw)?;
                f64::from(u8::from(larger))
            }
            Self::Two(operator, left, right) => {
                let (left, right) = (left.value(source, draw)?, right.value(source, draw)?);
                match operator {
                    '+' => left + right,
                    '-' => left - right,
                    '*' => left * right,
                    _ => left / right,
                }
            }
        })
    }
}

fn fold(
    many: &[Node],
    source: &Source,
    draw: &[usize],
    pick: impl Fn(f64, f64) -> f64,
) -> Option<f64> {
    let values: Option<Vec<f64>> = many.iter().map(|node| node.value(source, draw)).collect();
    values?.into_iter().reduce(pick)
}

fn drawn(runs: &Runs, draw: &[usize]) -> Vec<f64> {
    let each = draw.iter().filter_map(|k| runs.get(*k));
    each.flatten().copied().collect()
}

/// Returns true if the smallest sample of a run is below `ratio` times the second smallest.
fn is_ahead(run: &[f64], ratio: f64) -> bool {
    let mut sorted = run.to_vec();
    sorted.sort_by(f64::total_cmp);
    matches!(sorted[..], [first, second, ..] if first < ratio * second)
}

/// Differences below this are of rounding.
const NO_DIFFERENCE: f64 = 1e-12;

/// Sign of the mean difference of the first samples of runs with the same seed, 0 where its interval
/// includes none, and with fewer than two pairs.
fn gap_sign(of: Option<&Runs>, base: Option<&Runs>, draw: &[usize]) -> f64 {
    let (Some(of), Some(base)) = (of, base) else {
        return 0.0;
    };
    let difference = |k: &usize| Some(of.get(*k)?.first()? - base.get(*k)?.first()?);
    let differences: Vec<f64> = draw.iter().filter_map(difference).collect();
    let statistics = Statistics::of(&differences).filter(|s| s.n > 1);
    let Some(Statistics { mean, ci95, .. }) = statistics else {
        return 0.0;
    };
    match () {
        () if mean - ci95 > NO_DIFFERENCE => 1.0,
        () if mean + ci95 < -NO_DIFFERENCE => -1.0,
        () => 0.0,
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    facts: Facts<'a>,
}

impl<'a> Parser<'a> {
    fn error(&self, what: impl Into<String>) -> SyntaxError {
        SyntaxError {
            what: what.into(),
            at: self.at,
            text: self.text.to_owned(),
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn take(&mut self, wanted: char) -> bool {
        self.skip();
        let found = self.rest().starts_with(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn expect(&mut self, wanted: char) -> Result<(), SyntaxError> {
        if self.take(wanted) {
            Ok(())
        } else {
            Err(self.error(format!("expected \"{wanted}\"")))
        }
    }

    fn sum(&mut self) -> Result<Node, SyntaxError> {
        self.operators(['+', '-'], Self::product)
    }

    fn product(&mut self) -> Result<Node, SyntaxError> {
        self.operators(['*', '/'], Self::factor)
    }

    /// Operands with operators of one precedence between them, grouped from the left.
    fn operators(
        &mut self,
        any: [char; 2],
        operand: fn(&mut Self) -> Result<Node, SyntaxError>,
    ) -> Result<Node, SyntaxError> {
        let mut left = operand(self)?;
        while let Some(operator) = any.into_iter().find(|one| self.take(*one)) {
            left = Node::Two(operator, Box::new(left), Box::new(operand(self)?));
        }
        Ok(left)
    }

    fn factor(&mut self) -> Result<Node, SyntaxError> {
        if self.take('-') {
            return Ok(Node::Negative(Box::new(self.factor()?)));
        }
        if self.take('(') {
            let inner = self.sum()?;
            self.expect(')')?;
            return Ok(inner);
        }
        let word = self.word(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        if word.is_empty() {
            return Err(self.error("expected a number or a quantity"));
        }
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return word
                .parse()
                .map(Node::Number)
                .map_err(|_| self.error(format!("\"{word}\" is no number")));
        }
        self.function(word)
    }

    fn word(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        self.skip();
        let rest = self.rest();
        let end = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn function(&mut self, name: &str) -> Result<Node, SyntaxError> {
        self.expect('(')?;
        // `min` and `max` are of runs if a metric follows, which no quantity looks like.
        let metric_next = {
            let rest = self.rest().trim_start();
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            let next = end.map_or("", |end| rest[end..].trim_start());
            next.starts_with(',') && rest.starts_with(|c: char| c.is_ascii_alphabetic())
        };
        let take = match name {
            "min" if metric_next => Some(Take::Quantile(0.0)),
            "max" if metric_next => Some(Take::Quantile(1.0)),
            "p10" => Some(Take::Quantile(0.10)),
            "p25" => Some(Take::Quantile(0.25)),
            "p50" => Some(Take::Quantile(0.50)),
            "p75" => Some(Take::Quantile(0.75)),
            "p90" => Some(Take::Quantile(0.90)),
            "p95" => Some(Take::Quantile(0.95)),
            "mean" => Some(Take::Mean),
            "nearest_p99" => Some(Take::Nearest99),
            "ci95" => Some(Take::Ci95),
            _ => None,
        };
        if let Some(take) = take {
            let (metric, of) = self.runs()?;
            self.expect(')')?;
            return Ok(Node::Take { take, metric, of });
        }
        match name {
            "count_above" | "share_above" | "share_ahead" => {
                let (metric, of) = self.runs()?;
                self.expect(',')?;
                let value = Box::new(self.sum()?);
                self.expect(')')?;
                if name == "share_ahead" {
                    return Ok(Node::Ahead {
                        metric,
                        of,
                        ratio: value,
                    });
                }
                let times = if name == "count_above" {
                    REPLICATIONS
                } else {
                    1.0
                };
                Ok(Node::Above {
                    times,
                    metric,
                    of,
                    value,
                })
            }
            "gap_sign" => {
                let (metric, mut of) = self.runs()?;
                let algorithm = std::mem::take(&mut of.cell);
                self.expect(',')?;
                let cell = self.cell()?;
                self.expect(')')?;
                of.cell.clone_from(&cell);
                let base = Reference { cell, algorithm };
                Ok(Node::GapSign { metric, of, base })
            }
            "unit" => {
                let named = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
                let fact = self.word(named);
                let argument = if self.take(',') {
                    self.skip();
                    self.word(named)
                } else {
                    ""
                };
                let value = (self.facts)(fact, argument);
                let value = value.ok_or_else(|| {
                    self.error(format!("there is no fact \"{fact}\" about \"{argument}\""))
                })?;
                self.expect(')')?;
                Ok(Node::Unit(value))
            }
            "exceeds" => {
                let left = Box::new(self.sum()?);
                self.expect(',')?;
                let right = Box::new(self.sum()?);
                self.expect(')')?;
                Ok(Node::Exceeds(left, right))
            }
            "abs" => {
                let inner = self.sum()?;
                self.expect(')')?;
                Ok(Node::Absolute(Box::new(inner)))
            }
            "min" | "max" => {
                let mut many = vec![self.sum()?];
                while self.take(',') {
                    many.push(self.sum()?);
                }
                self.expect(')')?;
                Ok(if name == "min" {
                    Node::Least(many)
                } else {
                    Node::Most(many)
                })
            }
            other => Err(self.error(format!("\"{other}\" is no function"))),
        }
    }

    /// Metric, algorithm and cell.
    fn runs(&mut self) -> Result<(String, Reference), SyntaxError> {
        let metric = self.word(is_of_name).to_owned();
        if Metric::named(&metric).is_none() {
            return Err(self.error(format!("\"{metric}\" is no metric")));
        }
        self.expect(',')?;
        let algorithm = self.word(is_of_name).to_owned();
        self.expect(',')?;
        let cell = self.cell()?;
        Ok((metric, Reference { cell, algorithm }))
    }

    /// A cell's name.
    fn cell(&mut self) -> Result<String, SyntaxError> {
        let cell = self.word(is_of_name);
        if self.rest().starts_with('/') {
            return Err(self.error("a cell is named without its study"));
        }
        Ok(cell.to_owned())
    }
}

/// Returns whether a character belongs to the name of a metric, an algorithm or a cell.
fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '.'
}

#[cfg(test)]
mod tests;
