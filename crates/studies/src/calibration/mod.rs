//! Calibration: open settings of a study, chosen by its baseline facts.
//!
//! A study leaves settings open. `open.toml` lists them with the values that are plausible, and
//! `baseline.toml` the facts that a choice must meet: statements of the study about default CoAP,
//! unloaded networks, topology and timing. [`Calibration::run`] samples the space of settings,
//! holds each point against the facts, and judges the study's findings at the points that the facts
//! do not exclude. Findings never choose a point.
//!
//! ```toml
//! # open.toml: the most doubtful settings first
//! [search]
//! points = 60          # of the Latin hypercube
//! rounds = 2           # of refinement around the best quarter
//! round_points = 20
//! neighbours = true    # every other value of each setting is tried at the interpretation
//! seeds = 3            # per cell and algorithm
//! judged = 20          # points whose findings are judged, at most
//! judged_seeds = 10
//!
//! [[base]]             # settings before an interpretation was taken over into the scenarios
//! scenarios = ["networks"]     # of these only; without it of all
//! set = ["rpl.routing=rpl"]
//!
//! [[setting]]
//! name = "service time"
//! key = "server.service"
//! from = "20 ms"
//! to = "200 ms"
//! steps = 9
//! scale = "log"        # or linear, the default
//! reason = "the study does not state it"
//!
//! [[setting]]
//! name = "routes"
//! scenarios = ["networks"]     # of these scenarios only
//! reason = "two sentences of the study contradict each other"
//! [[setting.value]]
//! label = "static"
//! set = ["rpl.routing=static"]
//!
//! [[candidate]]        # a point that is tried besides the sample
//! name = "as others read it"
//! values = { "service time" = "200 ms", routes = "static" }
//!
//! # baseline.toml
//! excluded_by = "interval"     # the default: its whole 95 % interval; or "value", the measured value itself
//! [[fact]]
//! id = "little lost at rest"
//! source = "Section IV"
//! [[fact.check]]
//! quantity = "mean(answered_ratio, default, clients-25)"
//! between = [0.98, 1]
//! ```
//!
//! Quantities and conditions are as in rules ([`rule`](crate::claims::rule)).

mod built_in;
mod page;
mod result;
mod space;

use std::collections::BTreeSet;

use carob_lab::content_hash;
use carob_lab::metrics::Metric;
use carob_lab::quantity::{Expression, Making, Reference, ScenarioFile, Source, measure};
use carob_lab::run::RunSetupError;
use carob_lab::scenario::{Scenario, ScenarioErrors, builtin, is_known};
use carob_sim::registry::Registry;
use rayon::prelude::*;
use serde::Deserialize;

use crate::StudyError;
use crate::claims::rule::{Bound, Check, Condition, Rule, WrittenCheck};
use crate::claims::{self, Interval, Judged, Outcome, Verdict, judge};

pub use built_in::{CALIBRATED, Calibrated};
pub use page::{markdown, tables};
pub use result::{
    CalibrationResult, CheckResult, Class, FactResult, FindingResult, FindingShare, PointResult,
    VerdictShares,
};
use space::Space;
pub use space::{Base, Point, Search, Setting, SettingValue};

/// The largest deviation of one check that a score takes into account.
const DEVIATION_MAX: f64 = 10.0;

/// The file of settings.
const OPEN: &str = "open.toml";
/// The file of facts.
const BASELINE: &str = "baseline.toml";

/// Open settings, baseline facts and findings of a study.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// The study's short name.
    pub study: String,
    /// Numbers of points and seeds.
    pub search: Search,
    /// Settings that every point starts from.
    pub base: Vec<Base>,
    /// The open settings.
    pub settings: Vec<Setting>,
    /// Points that are tried besides the sample.
    pub candidates: Vec<Point>,
    /// The baseline facts, each as a rule whose `about` is its source.
    pub facts: Vec<Rule>,
    /// The part of a measurement that must violate a fact to exclude a point.
    pub excluded_by: ExcludedBy,
    /// The study's findings that need runs.
    pub findings: Vec<Rule>,
    /// Scenarios of facts and findings.
    pub files: Vec<ScenarioFile>,
    /// A hash of everything above.
    pub inputs_hash: String,
}

/// The part of a measurement that must violate a fact to exclude a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExcludedBy {
    /// The whole 95 % interval.
    #[default]
    Interval,
    /// The measured value.
    Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BaselineFile {
    #[serde(default)]
    excluded_by: ExcludedBy,
    fact: Vec<WrittenFact>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFact {
    id: String,
    source: String,
    check: Vec<WrittenCheck>,
}

impl Calibration {
    /// Reads `open.toml` and `baseline.toml` of a study with these findings and scenarios.
    pub fn read(
        study: &str,
        open: &str,
        baseline: &str,
        findings: Vec<Rule>,
        files: Vec<ScenarioFile>,
    ) -> Result<Self, StudyError> {
        let Space {
            search,
            base,
            settings,
            candidates,
        } = space::read(open)?;
        let (facts, excluded_by) = read_facts(baseline)?;
        let findings: Vec<Rule> = findings.into_iter().filter(needs_runs).collect();
        let (open, baseline) = (builtin::settings(open), builtin::settings(baseline));
        let mut inputs = format!("{open}\n{baseline}\n{findings:?}");
        for file in &files {
            inputs.push_str(&builtin::settings(&file.text));
        }
        let read = Self {
            study: study.to_owned(),
            search,
            base,
            settings,
            candidates,
            facts,
            excluded_by,
            findings,
            files,
            inputs_hash: format!("{:016x}", content_hash(inputs.as_bytes())),
        };
        read.check()?;
        Ok(read)
    }

    /// Checks that each value of each setting is valid where it applies, and that all cells exist.
    fn check(&self) -> Result<(), StudyError> {
        let mut scenarios = Vec::new();
        for file in &self.files {
            scenarios.push(read_scenario(file, &[])?);
        }
        self.check_base()?;
        for setting in &self.settings {
            let of: Vec<&ScenarioFile> = self.files.iter().filter(|f| setting.is_of(f)).collect();
            if of.is_empty() {
                let names: Vec<&str> = self.files.iter().map(|file| &*file.name).collect();
                let what = format!("setting \"{}\" is of no scenario", setting.name);
                let remedy = format!("the scenarios are {}", names.join(", "));
                return Err(StudyError::new(OPEN, what, remedy));
            }
            for (value, file) in setting
                .values
                .iter()
                .flat_map(|value| of.iter().map(move |file| (value, file)))
            {
                let set = self.base.iter().filter(|base| base.is_of(file));
                let set: Vec<String> = set
                    .flat_map(|base| &base.set)
                    .chain(&value.set)
                    .cloned()
                    .collect();
                let of_setting = |error: StudyError| StudyError {
                    what: format!("setting \"{}\", {}", setting.name, error.what),
                    ..error
                };
                read_scenario(file, &set).map_err(of_setting)?;
                // Facts and findings are measured with one algorithm at a time, which has to have it.
                for algorithm in self.algorithms(file) {
                    let alone = [algorithm];
                    let read =
                        Scenario::with_algorithms(&file.name, &file.text, &set, Some(&alone));
                    let read = read.map_err(|errors| of_scenario(file, &errors));
                    read.map_err(of_setting)?;
                }
            }
        }
        for metric in claims::metrics(&self.facts) {
            if Metric::named(&metric).is_none() {
                let what = format!("\"{metric}\" is no metric");
                return Err(StudyError::new(
                    BASELINE,
                    what,
                    "`carob lab metrics` lists all",
                ));
            }
        }
        for of in claims::needed(&self.facts)
            .iter()
            .chain(&claims::needed(&self.findings))
        {
            if !scenarios.iter().any(|one| one.cell(&of.cell).is_some()) {
                let what = format!("no scenario has the cell \"{}\"", of.cell);
                let remedy = "`carob lab show NAME` names the cells of a scenario";
                return Err(StudyError::new(BASELINE, what, remedy));
            }
            if !is_known(&of.algorithm, Registry::BUILT_IN) {
                let what = format!("no algorithm is called \"{}\"", of.algorithm);
                return Err(StudyError::new(BASELINE, what, "`carob cc list` names all"));
            }
        }
        Ok(())
    }

    /// The algorithms of facts and findings about cells of a scenario.
    fn algorithms(&self, file: &ScenarioFile) -> BTreeSet<String> {
        let Ok(scenario) = read_scenario(file, &[]) else {
            return BTreeSet::new();
        };
        let needed = claims::needed(&self.facts)
            .into_iter()
            .chain(claims::needed(&self.findings));
        let here = needed.filter(|of| scenario.cell(&of.cell).is_some());
        let known = here.filter(|of| is_known(&of.algorithm, Registry::BUILT_IN));
        known.map(|of| of.algorithm).collect()
    }

    /// Checks that the base is of scenarios, and valid there.
    fn check_base(&self) -> Result<(), StudyError> {
        for base in &self.base {
            let mut of = self.files.iter().filter(|file| base.is_of(file)).peekable();
            if of.peek().is_none() {
                let names: Vec<&str> = self.files.iter().map(|file| &*file.name).collect();
                let what = format!("base of {} is of no scenario", base.scenarios.join(", "));
                let remedy = format!("the scenarios are {}", names.join(", "));
                return Err(StudyError::new(OPEN, what, remedy));
            }
            for file in of {
                read_scenario(file, &base.set).map_err(|error| StudyError {
                    what: format!("base, {}", error.what),
                    ..error
                })?;
            }
        }
        Ok(())
    }

    /// The value of a setting in words.
    pub fn label(&self, setting: usize, index: Option<usize>) -> &str {
        match index {
            Some(index) => &self.settings[setting].values[index].label,
            None if self.base.is_empty() => "as in the scenario",
            None => "as first chosen",
        }
    }

    /// Returns whether the unchanged scenarios make the same runs as a point: whether its
    /// settings were taken over into their files.
    pub fn has_taken_over(&self, values: &Point) -> bool {
        self.files.par_iter().all(|file| {
            let set = space::set_of(&self.base, &self.settings, values, file);
            specs(file, &[]).is_some_and(|of_file| specs(file, &set) == Some(of_file))
        })
    }

    /// Returns whether two points make the same runs, since a value repeats the base.
    fn are_same(&self, one: &Point, other: &Point) -> bool {
        self.files.iter().all(|file| {
            let set = |values| space::set_of(&self.base, &self.settings, values, file);
            specs(file, &set(one)) == specs(file, &set(other))
        })
    }

    /// Points that differ from the interpretation in the value of a single setting, and in their runs.
    fn neighbours(&self, result: &CalibrationResult) -> Vec<Point> {
        let tried: Vec<&Point> = result.points.iter().map(|point| &point.values).collect();
        let interpretation = &result.points[result.interpretation].values;
        let mut near = space::neighbours(&self.settings, interpretation, &tried);
        let repeats = |point: &Point| {
            // Few points are that close, and only they can be the same.
            let close = tried.iter().filter(|other| differing(point, other) <= 1);
            close.into_iter().any(|other| self.are_same(point, other))
        };
        near.retain(|point| !repeats(point));
        near
    }

    /// Number of runs that a calibration makes at most.
    pub fn runs(&self) -> usize {
        let points = 1
            + self.candidates.len()
            + self.search.points
            + self.search.rounds * self.search.round_points
            + self.settings.len();
        let values = self.settings.iter().map(|setting| setting.values.len());
        let points = points
            + if self.search.neighbours {
                values.sum()
            } else {
                0
            };
        let facts = points * claims::needed(&self.facts).len() * self.search.seeds;
        let judged = (2 + self.search.judged) * claims::needed(&self.findings).len();
        facts + judged * self.search.judged_seeds
    }

    /// Samples the space, holds every point against the facts, and judges the findings where the
    /// facts hold. `progress` is called after each run, from any thread. The result does not depend on
    /// the number of threads.
    pub fn run(
        &self,
        command: &str,
        progress: impl Fn() + Sync,
    ) -> Result<CalibrationResult, RunSetupError> {
        let mut points = vec![(0, self.unchanged())];
        points.extend(self.candidates.iter().map(|point| (0, point.clone())));
        let sampled = space::latin_hypercube(&self.settings, self.search.points);
        points.extend(sampled.into_iter().map(|point| (1, point)));
        let mut results = Vec::new();
        self.fit(&points, &mut results, &progress)?;
        for round in 0..self.search.rounds {
            let tried: Vec<(f64, Point)> = results
                .iter()
                .map(|result| (result.score(), result.values.clone()))
                .collect();
            let number = self.search.round_points;
            let near = space::refine(&self.settings, &tried, round, number);
            let near: Vec<_> = near.into_iter().map(|p| (round + 2, p)).collect();
            self.fit(&near, &mut results, &progress)?;
        }
        let mut result = CalibrationResult {
            interpretation: 0,
            study: self.study.clone(),
            command: command.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            inputs_hash: self.inputs_hash.clone(),
            seeds: self.search.seeds,
            judged_seeds: self.search.judged_seeds,
            points: results,
        };
        result.interpretation = self.simplify(&mut result, &progress)?;
        if self.search.neighbours {
            let near = self.neighbours(&result);
            let round = self.search.rounds + 3;
            let near: Vec<_> = near.into_iter().map(|point| (round, point)).collect();
            self.fit(&near, &mut result.points, &progress)?;
        }
        let judged = result.to_judge(self.search.judged);
        let findings: Result<Vec<_>, RunSetupError> = judged
            .par_iter()
            .map(|index| self.judge_at(&result.points[*index].values, &progress))
            .collect();
        for (index, findings) in judged.into_iter().zip(findings?) {
            result.points[index].findings = Some(findings);
        }
        Ok(result)
    }

    /// Points of a kept result whose facts are others today. Measures `most` of them again, spread
    /// evenly.
    pub fn drifted(
        &self,
        kept: &CalibrationResult,
        most: usize,
    ) -> Result<Vec<usize>, RunSetupError> {
        let step = kept.points.len().div_ceil(most.max(1)).max(1);
        let sample: Vec<usize> = (0..kept.points.len()).step_by(step).collect();
        let point = |index: &usize| {
            (
                kept.points[*index].round,
                kept.points[*index].values.clone(),
            )
        };
        let points: Vec<(usize, Point)> = sample.iter().map(point).collect();
        let mut today = Vec::new();
        self.fit(&points, &mut today, &|| {})?;
        let differs = |(index, today): &(usize, PointResult)| {
            let kept = &kept.points[*index];
            kept.facts != today.facts || kept.error != today.error
        };
        let found = sample.into_iter().zip(today).filter(differs);
        Ok(found.map(|(index, _)| index).collect())
    }

    /// Takes the best point and resets each setting that the facts do not need, the last one of
    /// `open.toml` first. Gives the index of the point that is left: the interpretation.
    fn simplify(
        &self,
        result: &mut CalibrationResult,
        progress: &(impl Fn() + Sync),
    ) -> Result<usize, RunSetupError> {
        let mut kept = result.best();
        for setting in (0..self.settings.len()).rev() {
            let mut values = result.points[kept].values.clone();
            if values[setting].take().is_none() {
                continue;
            }
            let tried = result.points.iter().position(|p| p.values == values);
            let index = if let Some(tried) = tried {
                tried
            } else {
                let round = self.search.rounds + 2;
                self.fit(&[(round, values)], &mut result.points, progress)?;
                result.points.len() - 1
            };
            let (before, after) = (&result.points[kept], &result.points[index]);
            // Where every point is excluded, resetting must not take it further from the facts.
            let enough = if before.is_plausible() {
                after.is_plausible()
            } else {
                after.score() <= before.score()
            };
            if enough {
                kept = index;
            }
        }
        Ok(kept)
    }

    /// The base, or without one the unchanged scenarios.
    fn unchanged(&self) -> Point {
        vec![None; self.settings.len()]
    }

    fn fit(
        &self,
        points: &[(usize, Point)],
        results: &mut Vec<PointResult>,
        progress: &(impl Fn() + Sync),
    ) -> Result<(), RunSetupError> {
        let (needed, wanted) = (claims::needed(&self.facts), claims::metrics(&self.facts));
        let seeds = self.search.seeds as u64;
        let one = |(round, values): &(usize, Point)| {
            let mut result = PointResult {
                round: *round,
                values: values.clone(),
                error: self.error_at(values),
                facts: Vec::new(),
                findings: None,
            };
            if result.error.is_none() {
                let source = self.source(values, &needed, &wanted, seeds, progress)?;
                let judged = judge(&self.facts, &source, &[]);
                let facts = self.facts.iter().zip(judged);
                result.facts = facts
                    .map(|(fact, judged)| fact_at(fact, &judged, &source, self.excluded_by))
                    .collect();
            }
            Ok(result)
        };
        let done: Result<Vec<PointResult>, RunSetupError> = points.par_iter().map(one).collect();
        results.extend(done?);
        Ok(())
    }

    fn judge_at(
        &self,
        values: &Point,
        progress: &(impl Fn() + Sync),
    ) -> Result<Vec<FindingResult>, RunSetupError> {
        let (needed, wanted) = (
            claims::needed(&self.findings),
            claims::metrics(&self.findings),
        );
        let seeds = self.search.judged_seeds as u64;
        let source = self.source(values, &needed, &wanted, seeds, progress)?;
        let judged = judge(&self.findings, &source, &[]);
        let result = judged.into_iter().map(|judged| FindingResult {
            text: judged.text.verdict,
            table: judged.table.map(|table| table.verdict),
        });
        Ok(result.collect())
    }

    /// The reason why the values of a point exclude each other.
    fn error_at(&self, values: &Point) -> Option<String> {
        let errors = self.files.iter().filter_map(|file| {
            let set = space::set_of(&self.base, &self.settings, values, file);
            Scenario::read(&file.name, &file.text, &set).err()
        });
        errors.map(|error| error.to_string()).next()
    }

    fn source(
        &self,
        values: &Point,
        needed: &[Reference],
        wanted: &BTreeSet<String>,
        seeds: u64,
        progress: &(impl Fn() + Sync),
    ) -> Result<Source, RunSetupError> {
        let sets = self
            .files
            .iter()
            .map(|file| space::set_of(&self.base, &self.settings, values, file));
        let sets: Vec<Vec<String>> = sets.collect();
        let mut source = Source::default();
        for of in needed {
            for (file, set) in self.files.iter().zip(&sets) {
                let making = Making {
                    seeds,
                    set,
                    ..Making::default()
                };
                let file = std::slice::from_ref(file);
                if measure(file, of, making, &mut source, wanted, progress)?.is_some() {
                    break;
                }
            }
        }
        Ok(source)
    }
}

/// The runs of a scenario file with settings; `None` if they exclude each other.
fn specs(file: &ScenarioFile, set: &[String]) -> Option<Vec<Vec<String>>> {
    let scenario = Scenario::read(&file.name, &file.text, set).ok()?;
    let algorithms = scenario.algorithms();
    let of_cell = |cell| {
        let specs = algorithms.iter().map(|a| scenario.spec(cell, a, 1));
        specs.map(|spec| format!("{spec:?}")).collect()
    };
    Some(scenario.cells().iter().map(of_cell).collect())
}

/// Number of settings in which two points differ.
fn differing(one: &Point, other: &Point) -> usize {
    let pairs = one.iter().zip(other);
    pairs.filter(|(one, other)| one != other).count()
}

/// Returns whether a rule is judged by runs, so that a calibration has it among its findings.
pub fn needs_runs(rule: &Rule) -> bool {
    rule.text.iter().any(|check| !check.references().is_empty())
}

fn read_scenario(file: &ScenarioFile, set: &[String]) -> Result<Scenario, StudyError> {
    Scenario::read(&file.name, &file.text, set).map_err(|errors| of_scenario(file, &errors))
}

fn of_scenario(file: &ScenarioFile, errors: &ScenarioErrors) -> StudyError {
    let what = format!("{}: {errors}", file.name);
    let remedy = "`carob lab keys` lists every key; units are written, as in '400 ms'";
    StudyError::new(OPEN, what, remedy)
}

fn read_facts(text: &str) -> Result<(Vec<Rule>, ExcludedBy), StudyError> {
    let form =
        "a fact has id, source and [[fact.check]] with quantity and about, between, below or above";
    let file: BaselineFile = toml::from_str(text)
        .map_err(|error| StudyError::new(BASELINE, error.to_string().trim_end(), form))?;
    let mut facts: Vec<Rule> = Vec::new();
    for written in file.fact {
        let wrong = |what: String, remedy: &str| {
            StudyError::new(BASELINE, format!("fact \"{}\": {what}", written.id), remedy)
        };
        let checks: Result<Vec<Check>, String> =
            written.check.iter().map(|check| check.read(None)).collect();
        let fact = Rule {
            id: written.id.clone(),
            about: written.source.clone(),
            text: checks.map_err(|what| wrong(what, form))?,
            table: Vec::new(),
        };
        if fact.text.iter().any(|check| check.printed.is_some()) {
            return Err(wrong(
                "a whole table is no fact".to_owned(),
                "write its values",
            ));
        }
        if fact.text.iter().all(|check| check.references().is_empty()) {
            return Err(wrong("no run is needed for it".to_owned(), form));
        }
        let exact = |(_, condition): &&(_, Condition)| matches!(condition, Condition::Band { low, high } if high <= low);
        let mut cases = fact.text.iter().flat_map(|check| &check.cases);
        if let Some((quantity, _)) = cases.find(exact) {
            let what = format!("{} has no tolerance", quantity.text());
            return Err(wrong(what, "write within = \"10 %\", or between"));
        }
        if facts.iter().any(|other| other.id == fact.id) {
            return Err(wrong("the id is there twice".to_owned(), "rename one"));
        }
        facts.push(fact);
    }
    Ok((facts, file.excluded_by))
}

fn fact_at(fact: &Rule, judged: &Judged, source: &Source, by: ExcludedBy) -> FactResult {
    let all: Vec<usize> = (0..source.seeds()).collect();
    let cases = fact.text.iter().flat_map(|check| &check.cases);
    let check = |((_, condition), outcome): (&(_, Condition), &Outcome)| {
        let deviation = outcome.measured.map_or(DEVIATION_MAX, |interval| {
            deviation(interval.value, condition, |other| other.value(source, &all))
        });
        let violated = match by {
            ExcludedBy::Interval => outcome.verdict == Verdict::Fails,
            ExcludedBy::Value => deviation > 1.0,
        };
        CheckResult {
            measured: outcome.measured.map(rounded),
            deviation: digits(deviation),
            excluded: outcome.measured.is_none() || violated,
        }
    };
    FactResult {
        checks: cases.zip(&judged.text.checks).map(check).collect(),
    }
}

/// The deviation from a condition in tolerances: at most 1 where it holds.
fn deviation(
    value: f64,
    condition: &Condition,
    evaluate: impl Fn(&Expression) -> Option<f64>,
) -> f64 {
    let beyond = |bound: &Bound, sign: f64| {
        let bound = match bound {
            Bound::Number(number) => Some(*number),
            Bound::Quantity(quantity) => evaluate(quantity),
        };
        let Some(bound) = bound else {
            return DEVIATION_MAX;
        };
        let over = sign * (value - bound);
        // A bound has no tolerance: a tenth of it is used.
        if over < 0.0 {
            0.0
        } else {
            1.0 + over / (0.1 * bound.abs()).max(f64::MIN_POSITIVE)
        }
    };
    let deviation = match condition {
        Condition::Band { low, high } => {
            let half = (high - low) / 2.0;
            (value - (low + high) / 2.0).abs() / half
        }
        Condition::Below(bound) => beyond(bound, 1.0),
        Condition::Above(bound) => beyond(bound, -1.0),
    };
    deviation.min(DEVIATION_MAX)
}

fn rounded(interval: Interval) -> Interval {
    Interval {
        value: digits(interval.value),
        low: digits(interval.low),
        high: digits(interval.high),
    }
}

/// Five significant digits, which keep files small.
fn digits(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests;
