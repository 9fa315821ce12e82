//! The page "What would have to be true" of a calibrated study.

use std::fmt::Write as _;

use carob_lab::text::TextTable;

use super::result::{CalibrationResult, Class, FindingShare};
use super::{Calibration, ExcludedBy, Verdict};
use crate::claims::short;
use crate::papers::Claim;

/// The page as Markdown; `citation` names the study.
pub fn markdown(
    calibration: &Calibration,
    result: &CalibrationResult,
    texts: &[Claim],
    citation: &str,
) -> String {
    let plausible = result.plausible();
    let counted = result.counted();
    let mut text = format!(
        "# {citation}: what would have to be true\n\n\
         For researchers. The study leaves settings open. Its baseline facts alone choose them: what it states of default CoAP, \
         unloaded networks, topology and timing. Findings are then judged at the points that no fact excludes.\n\n\
         Generated from kept results of `{}`: {} points, {} seeds for facts, {} for findings.\n\n",
        result.command,
        result.points.len(),
        result.seeds,
        result.judged_seeds
    );
    if calibration.excluded_by == ExcludedBy::Value {
        text += "A fact excludes a point if the measured value violates it; an interval that touches is not enough.\n\n";
    }
    text += &plausible_sentence(calibration, result, plausible.len(), counted.len());
    let [facts, settings, findings] =
        tables(calibration, result, texts).map(|table| table.markdown());
    // A String takes every write.
    let _ = write!(
        text,
        "\n## Baseline facts\n\n{facts}\n## Open settings\n\n{settings}\n## Findings\n\nShares are of {} points. A finding is \
         robust if it holds at 95 % of them, excluded if at 5 % or fewer.\n\n{findings}",
        counted.len()
    );
    text
}

/// Tables of the baseline facts, the open settings and the findings.
pub fn tables(
    calibration: &Calibration,
    result: &CalibrationResult,
    texts: &[Claim],
) -> [TextTable; 3] {
    let mut findings = findings(calibration, result, texts);
    findings.emphasise_verdicts();
    [
        facts(calibration, result),
        settings(calibration, result),
        findings,
    ]
}

fn plausible_sentence(
    calibration: &Calibration,
    result: &CalibrationResult,
    plausible: usize,
    counted: usize,
) -> String {
    if plausible > 0 {
        let first = result.points.first();
        let unchanged = first.is_some_and(super::PointResult::is_plausible);
        let start = match (calibration.base.is_empty(), unchanged) {
            (true, true) => "The scenario files as they are are one of them.",
            (true, false) => "The scenario files as they are are not among them.",
            (false, true) => "The settings chosen first are one of them.",
            (false, false) => "The settings chosen first are not among them.",
        };
        let taken_over = if taken_over(calibration, result) {
            " The scenario files have the settings of the interpretation."
        } else {
            ""
        };
        return format!(
            "The facts do not exclude {plausible} of {} points. {start}{taken_over}\n",
            result.points.len()
        );
    }
    let best = &result.points[result.interpretation];
    let missed = calibration.facts.iter().zip(&best.facts);
    let missed = missed.filter(|(_, fact)| fact.excludes());
    let missed: Vec<&str> = missed.map(|(fact, _)| &*fact.id).collect();
    format!(
        "**Every point is excluded.** The interpretation violates: {}. Findings are counted at the {counted} points nearest to the facts.{}\n",
        missed.join("; "),
        if taken_over(calibration, result) {
            " The scenario files have the settings of the interpretation."
        } else {
            ""
        }
    )
}

/// Returns whether there is a base, and the scenario files have the interpretation instead of it.
fn taken_over(calibration: &Calibration, result: &CalibrationResult) -> bool {
    let best = &result.points[result.interpretation];
    !calibration.base.is_empty() && calibration.has_taken_over(&best.values)
}

/// The heading of the column of the first point.
fn first_point(calibration: &Calibration) -> &'static str {
    if calibration.base.is_empty() {
        "scenario files"
    } else {
        "chosen first"
    }
}

fn facts(calibration: &Calibration, result: &CalibrationResult) -> TextTable {
    let first = format!(">{}", first_point(calibration));
    let mut table = TextTable::new([
        "fact",
        "source",
        "condition",
        &first,
        ">interpretation",
        ">points excluded",
    ]);
    table.optional(&["source", "condition"]);
    let valid: Vec<_> = result.points.iter().filter(|p| p.error.is_none()).collect();
    for (n, fact) in calibration.facts.iter().enumerate() {
        let cases = fact.text.iter().flat_map(|check| &check.cases);
        for (k, (quantity, condition)) in cases.enumerate() {
            let check = |point: &super::PointResult| point.facts.get(n)?.checks.get(k).copied();
            let measured = |index: usize| {
                let measured = result.points.get(index).and_then(check)?.measured?;
                Some(measured.to_string())
            };
            let excluded = valid.iter().filter_map(|point| check(point));
            let excluded = excluded.filter(|check| check.excluded).count();
            let none = || "none".to_owned();
            table.add(vec![
                fact.id.clone(),
                fact.about.clone(),
                format!("`{}`: {condition}", quantity.text()),
                measured(0).unwrap_or_else(none),
                measured(result.interpretation).unwrap_or_else(none),
                format!("{excluded} of {}", valid.len()),
            ]);
        }
    }
    table
}

fn settings(calibration: &Calibration, result: &CalibrationResult) -> TextTable {
    let mut table = TextTable::new([
        "setting",
        "values tried",
        "interpretation",
        "plausible set",
        ">share of the score's variance",
        "reason",
    ]);
    table.optional(&["reason", "values tried"]);
    let (plausible, best) = (result.plausible(), &result.points[result.interpretation]);
    for ((n, setting), share) in calibration
        .settings
        .iter()
        .enumerate()
        .zip(result.sensitivity(calibration))
    {
        let labels: Vec<&str> = setting.values.iter().map(|value| &*value.label).collect();
        let tried = if setting.ordered && labels.len() > 4 {
            format!(
                "{} to {}, {} values",
                labels[0],
                labels[labels.len() - 1],
                labels.len()
            )
        } else {
            labels.join("; ")
        };
        let there = |value: &usize| {
            let has = |point: &&usize| result.points[**point].values[n] == Some(*value);
            plausible.iter().any(|point| has(&point))
        };
        let left: Vec<usize> = (0..labels.len()).filter(there).collect();
        let left = match &left[..] {
            [] => "none".to_owned(),
            all if all.len() == labels.len() => "all".to_owned(),
            [first, .., last] if setting.ordered => {
                format!("{} to {}", labels[*first], labels[*last])
            }
            some => some
                .iter()
                .map(|value| labels[*value])
                .collect::<Vec<_>>()
                .join("; "),
        };
        table.add(vec![
            setting.name.clone(),
            tried,
            calibration.label(n, best.values[n]).to_owned(),
            left,
            format!("{:.0} %", share * 100.0),
            setting.reason.clone(),
        ]);
    }
    table
}

/// The verdict of a finding in short.
const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::HoldsPartly => "partly",
        Verdict::Fails => "fails",
        Verdict::Undecided => "undecided",
    }
}

fn findings(calibration: &Calibration, result: &CalibrationResult, texts: &[Claim]) -> TextTable {
    let mut table = TextTable::new([
        "finding",
        "weight",
        first_point(calibration),
        "interpretation",
        ">holds",
        ">partly",
        "",
        "depends on",
        "text",
    ]);
    table.optional(&["text", "partly", "weight"]);
    for (n, rule) in calibration.findings.iter().enumerate() {
        let words = texts.iter().find(|text| text.id == rule.id);
        for by_table in [false, true] {
            let verdict = |index: usize| {
                let findings = result.points.get(index)?.findings.as_ref()?;
                let finding = findings.get(n)?;
                if by_table {
                    finding.table
                } else {
                    Some(finding.text)
                }
            };
            let Some(found) = result.finding(calibration, n, by_table) else {
                continue;
            };
            let share = found.shares;
            let said = |index| verdict(index).map_or("not judged", word);
            table.add(vec![
                format!("{}{}", rule.id, if by_table { ", by its data" } else { "" }),
                words.map_or_else(String::new, |words| words.weight.clone()),
                said(0).to_owned(),
                said(result.interpretation).to_owned(),
                format!("{:.0} %", share.holds * 100.0),
                format!("{:.0} %", share.partly * 100.0),
                share.class.name().to_owned(),
                depends_on(calibration, &found),
                words.map_or(&rule.about, |words| &words.claim).clone(),
            ]);
        }
    }
    table
}

fn depends_on(calibration: &Calibration, share: &FindingShare) -> String {
    match (share.shares.class, share.depends_on) {
        (Class::Conditional, Some((setting, explained))) => format!(
            "{} ({} %)",
            calibration.settings[setting].name,
            short((explained * 100.0).round())
        ),
        (Class::Conditional, None) => "no single setting".to_owned(),
        _ => String::new(),
    }
}
