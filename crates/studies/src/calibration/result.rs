//! The outcome of a calibration, and what follows from it.

use serde::{Deserialize, Serialize};

use super::{Calibration, Point};
use crate::claims::{Interval, Verdict};

/// A finding is robust if it holds in this share of points or more, and excluded if it holds in no
/// more than the rest.
const ROBUST: f64 = 0.95;
/// Groups that an ordered setting with more values is divided into.
const GROUPS: usize = 4;

/// All points, each with its measured values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibrationResult {
    /// The study's short name.
    pub study: String,
    /// The command that makes this.
    pub command: String,
    /// The program's version.
    pub version: String,
    /// Hash of settings, facts, findings and scenarios.
    pub inputs_hash: String,
    /// Seeds per cell and algorithm for the facts.
    pub seeds: usize,
    /// Seeds per cell and algorithm for the findings.
    pub judged_seeds: usize,
    /// Index of the point whose settings are the study's interpretation.
    pub interpretation: usize,
    /// The points; the first is the unchanged scenarios.
    pub points: Vec<PointResult>,
}

/// A point and its measured values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointResult {
    /// 0: the unchanged scenarios, and candidates; 1: Latin hypercube; further: refinement,
    /// and after the last one points with settings reset.
    pub round: usize,
    /// The value of each setting.
    pub values: Point,
    /// The reason why its values exclude each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Each fact.
    pub facts: Vec<FactResult>,
    /// Each finding, where they were judged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub findings: Option<Vec<FindingResult>>,
}

/// The checks of a fact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FactResult {
    /// Each check.
    pub checks: Vec<CheckResult>,
}

/// A check of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckResult {
    /// Measured, with the 95 % interval.
    pub measured: Option<Interval>,
    /// Distance from the stated value in tolerances; at most 1 where the check holds.
    pub deviation: f64,
    /// True if the measurement violates the condition, by the rule of `baseline.toml`.
    pub excluded: bool,
}

/// The verdicts on a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FindingResult {
    /// By the text.
    pub text: Verdict,
    /// By the study's own tables or data, where these contradict the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<Verdict>,
}

/// Verdicts on a finding in the plausible set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VerdictShares {
    /// Share of the points in which it holds.
    pub holds: f64,
    /// Share in which it holds partly.
    pub partly: f64,
    /// The dependence on open settings.
    pub class: Class,
}

/// A finding in the plausible set.
#[derive(Clone, Debug, PartialEq)]
pub struct FindingShare {
    /// Shares of the verdicts.
    pub shares: VerdictShares,
    /// The setting that explains most of where it holds, with its share of the variance.
    pub depends_on: Option<(usize, f64)>,
}

/// The dependence of a finding on open settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It holds in at least 95 % of the plausible set.
    Robust,
    /// It holds in some of it.
    Conditional,
    /// It holds in at most 5 % of it.
    Excluded,
}

impl Class {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Robust => "robust",
            Self::Conditional => "conditional",
            Self::Excluded => "excluded",
        }
    }
}

impl FactResult {
    /// Returns whether the fact excludes the point.
    pub fn excludes(&self) -> bool {
        self.checks.iter().any(|check| check.excluded)
    }
}

impl PointResult {
    /// Root mean square of the facts' deviations, each the root mean square of its checks'; infinite
    /// where the values exclude each other.
    pub fn score(&self) -> f64 {
        if self.error.is_some() || self.facts.is_empty() {
            return f64::INFINITY;
        }
        let square = |fact: &FactResult| {
            let squares = fact.checks.iter().map(|check| check.deviation.powi(2));
            squares.sum::<f64>() / fact.checks.len().max(1) as f64
        };
        let sum: f64 = self.facts.iter().map(square).sum();
        (sum / self.facts.len() as f64).sqrt()
    }

    /// Returns whether no fact excludes it.
    pub fn is_plausible(&self) -> bool {
        self.error.is_none() && !self.facts.iter().any(FactResult::excludes)
    }
}

impl CalibrationResult {
    /// As a file to keep, a line a point.
    pub fn to_json(&self) -> String {
        let head = Self {
            points: Vec::new(),
            ..self.clone()
        };
        let head = serde_json::to_string_pretty(&head).expect("text keys and finite numbers");
        let head = head.trim_end().trim_end_matches("[]\n}");
        let lines = self.points.iter().map(|point| {
            let text = serde_json::to_string(point).expect("text keys and finite numbers");
            format!("    {text}")
        });
        let lines: Vec<String> = lines.collect();
        format!("{head}[\n{}\n  ]\n}}\n", lines.join(",\n"))
    }

    /// Reads a file that was kept.
    pub fn from_json(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// Returns whether it was made from other settings, facts, findings or scenarios.
    pub fn is_stale(&self, calibration: &Calibration) -> bool {
        self.inputs_hash != calibration.inputs_hash
    }

    fn by_score(&self) -> Vec<usize> {
        let mut all: Vec<usize> = (0..self.points.len()).collect();
        all.sort_by(|a, b| self.points[*a].score().total_cmp(&self.points[*b].score()));
        all.retain(|index| self.points[*index].error.is_none());
        all
    }

    /// The points that no fact excludes, the best first.
    pub fn plausible(&self) -> Vec<usize> {
        let mut all = self.by_score();
        all.retain(|index| self.points[*index].is_plausible());
        all
    }

    /// The point that meets the facts best: of the plausible ones if there are any.
    pub(super) fn best(&self) -> usize {
        let first = |of: Vec<usize>| of.first().copied();
        first(self.plausible())
            .or_else(|| first(self.by_score()))
            .unwrap_or(0)
    }

    /// The points whose findings are to be judged: the unchanged scenarios, the interpretation, then
    /// points spread over the plausible set; without one, the nearest to the facts.
    pub(super) fn to_judge(&self, most: usize) -> Vec<usize> {
        let other = |index: &usize| *index != 0 && *index != self.interpretation;
        let plausible: Vec<usize> = self.plausible().into_iter().filter(other).collect();
        let mut chosen: Vec<usize> = if plausible.is_empty() {
            let nearest = self.by_score().into_iter().filter(other);
            nearest.take(most).collect()
        } else {
            // The best points lie close together.
            let (all, taken) = (plausible.len(), most.min(plausible.len()));
            (0..taken).map(|k| plausible[k * all / taken]).collect()
        };
        if self.interpretation != 0 {
            chosen.insert(0, self.interpretation);
        }
        if self
            .points
            .first()
            .is_some_and(|point| point.error.is_none())
        {
            chosen.insert(0, 0);
        }
        chosen
    }

    /// The points that findings are counted in: those judged that are plausible; without one, all
    /// judged but the unchanged scenarios.
    pub fn counted(&self) -> Vec<usize> {
        let judged = |index: &usize| self.points[*index].findings.is_some();
        let plausible: Vec<usize> = self.plausible().into_iter().filter(judged).collect();
        if !plausible.is_empty() {
            return plausible;
        }
        let others = self.by_score().into_iter().filter(|index| *index != 0);
        others.filter(judged).collect()
    }

    /// For each setting, the share of the variance of the score over the Latin hypercube that it
    /// explains alone.
    pub fn sensitivity(&self, calibration: &Calibration) -> Vec<f64> {
        let points = self.points.iter().filter(|point| point.round == 1);
        let points: Vec<&PointResult> = points.filter(|point| point.error.is_none()).collect();
        let scores: Vec<f64> = points.iter().map(|point| point.score()).collect();
        let settings = 0..calibration.settings.len();
        settings
            .map(|setting| explained(calibration, setting, &points, &scores))
            .collect()
    }

    /// The verdicts on a finding at the points counted; by the text, or by the study's tables.
    fn verdicts(&self, finding: usize, by_table: bool) -> Option<Vec<Verdict>> {
        let counted = self.counted();
        let verdict = |index: &usize| {
            let findings = self.points[*index].findings.as_ref()?;
            let finding = findings.get(finding)?;
            if by_table {
                finding.table
            } else {
                Some(finding.text)
            }
        };
        let verdicts: Option<Vec<Verdict>> = counted.iter().map(verdict).collect();
        verdicts.filter(|all| !all.is_empty())
    }

    /// Shares of the verdicts on a finding over the points counted; by the text, or by the study's
    /// tables.
    pub fn shares(&self, finding: usize, by_table: bool) -> Option<VerdictShares> {
        let verdicts = self.verdicts(finding, by_table)?;
        let share = |wanted: Verdict| {
            let count = verdicts
                .iter()
                .filter(|verdict| **verdict == wanted)
                .count();
            count as f64 / verdicts.len() as f64
        };
        let holds = share(Verdict::Holds);
        let class = if holds >= ROBUST {
            Class::Robust
        } else if holds <= 1.0 - ROBUST {
            Class::Excluded
        } else {
            Class::Conditional
        };
        Some(VerdictShares {
            holds,
            partly: share(Verdict::HoldsPartly),
            class,
        })
    }

    /// Shares of a finding over the points counted, and the setting it depends on; by the text, or by
    /// the study's tables.
    pub fn finding(
        &self,
        calibration: &Calibration,
        finding: usize,
        by_table: bool,
    ) -> Option<FindingShare> {
        let shares = self.shares(finding, by_table)?;
        let verdicts = self.verdicts(finding, by_table)?;
        let counted = self.counted();
        let points: Vec<&PointResult> = counted.iter().map(|index| &self.points[*index]).collect();
        let value = |verdict: &Verdict| f64::from(u8::from(*verdict == Verdict::Holds));
        let values: Vec<f64> = verdicts.iter().map(value).collect();
        let all = (0..calibration.settings.len())
            .map(|setting| (setting, explained(calibration, setting, &points, &values)));
        let most = all.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
        let is_open = shares.class == Class::Conditional;
        Some(FindingShare {
            shares,
            depends_on: most.filter(|(_, share)| is_open && *share > 0.0),
        })
    }
}

/// Share of the variance of values that groups of a setting's values explain, corrected for the number
/// of groups (epsilon squared); 0 where nothing varies.
fn explained(
    calibration: &Calibration,
    setting: usize,
    points: &[&PointResult],
    values: &[f64],
) -> f64 {
    let of = &calibration.settings[setting];
    let groups = if of.ordered && of.values.len() > GROUPS {
        GROUPS
    } else {
        of.values.len()
    };
    let group = |point: &PointResult| {
        let value = point.values.get(setting).copied().flatten();
        value.map_or(groups, |value| value * groups / of.values.len())
    };
    let mut sums = vec![(0.0, 0.0); groups + 1];
    for (point, value) in points.iter().zip(values) {
        let (count, sum) = &mut sums[group(point)];
        *count += 1.0;
        *sum += value;
    }
    let used = sums.iter().filter(|(count, _)| *count > 0.0).count();
    let number = values.len() as f64;
    if used < 2 || values.len() <= used {
        return 0.0;
    }
    let mean = values.iter().sum::<f64>() / number;
    let total: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let within: f64 = points
        .iter()
        .zip(values)
        .map(|(point, value)| {
            let (count, sum) = sums[group(point)];
            (value - sum / count).powi(2)
        })
        .sum();
    if total <= 0.0 {
        return 0.0;
    }
    let share = 1.0 - (within / (number - used as f64)) / (total / (number - 1.0));
    share.max(0.0)
}
