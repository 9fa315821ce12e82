//! `carob-studies judge`: the expected values and claims of a study in a folder.

use std::path::Path;
use std::time::Instant;

use carob_cli::parts::{
    Failure, Kind, Outcome, json_lines, registry, say, say_table, took, with_progress,
};
use carob_lab::quantity::Making;
use carob_lab::registry::Registry;
use carob_lab::text::{TextTable, seconds};
use serde_json::json;

use super::args::JudgeArgs;
use crate::claims::{Judged, Verdict};
use crate::comparison::Comparison;
use crate::folder::{StudyFolder, StudyVerdicts};

pub(super) fn run(args: &JudgeArgs) -> Result<Outcome, Failure> {
    let began = Instant::now();
    let folder = open(&args.folder, registry())?;
    let making = Making {
        seeds: args.seeds.unwrap_or(0),
        set: &args.set,
        registry: registry(),
    };
    let usage = |error: &dyn std::fmt::Display| Failure::new(Kind::Usage, error);
    making
        .check(folder.files())
        .map_err(|error| usage(&error))?;
    let verdicts = with_progress(args.threads, |progress| folder.judge(making, progress))?;
    let verdicts = verdicts.map_err(|error| usage(&error))?;
    if args.json {
        json_lines(values(&folder, &verdicts));
    } else {
        show(&folder, &verdicts, &took(began.elapsed()));
    }
    Ok(Outcome::Done)
}

/// Opens a study's folder.
pub(super) fn open(path: &Path, registry: Registry) -> Result<StudyFolder, Failure> {
    StudyFolder::open(path, registry)
        .map_err(|error| Failure::new(Kind::Usage, &error).hint(&error.remedy))
}

/// A JSON value for each expected value and each claim.
fn values(folder: &StudyFolder, verdicts: &StudyVerdicts) -> Vec<serde_json::Value> {
    let name = &folder.study().short_name;
    let expected = verdicts.comparisons.iter().map(|c| {
        json!({
            "study": name,
            "cell": c.expected.cell,
            "algorithm": c.expected.algorithm,
            "metric": c.expected.metric,
            "statistic": c.statistic.name(),
            "expected": c.paper,
            "measured": c.measured,
            "ratio": c.ratio(),
            "tolerance": c.tolerance.share,
            "seeds": verdicts.seeds,
            "verdict": c.verdict().name(),
        })
    });
    let claims = verdicts.claims.iter().map(|judged| {
        let mut value = json!({
            "study": name,
            "id": judged.id,
            "seeds": verdicts.seeds,
            "verdict": judged.text.verdict.name(),
            "checks": judged.text.checks,
        });
        if let Some(cause) = cause(folder, judged) {
            value["cause"] = json!(cause);
        }
        value
    });
    expected.chain(claims).collect()
}

fn show(folder: &StudyFolder, verdicts: &StudyVerdicts, took: &str) {
    let study = folder.study();
    let name = match &*study.title {
        "" => study.short_name.clone(),
        title => format!("{}: {title}", study.short_name),
    };
    say(format_args!(
        "{name}; {} seeds, run in {took}",
        verdicts.seeds
    ));
    if !verdicts.comparisons.is_empty() {
        say("\nExpected values:");
        say_table(&expected(&verdicts.comparisons), 0);
        say("");
    }
    if !verdicts.claims.is_empty() {
        say("\nClaims:");
        say_table(&claims(folder, &verdicts.claims), 0);
        say("");
    }
    for judged in &verdicts.claims {
        if let Some(cause) = cause(folder, judged) {
            say(format_args!("Cause of {}: {cause}", judged.id));
        }
    }
}

/// The cause that the rule of a failing claim names.
fn cause<'a>(folder: &'a StudyFolder, judged: &Judged) -> Option<&'a str> {
    let fails = judged.text.verdict == Verdict::Fails;
    folder.cause(&judged.id).filter(|_| fails)
}

fn expected(comparisons: &[Comparison]) -> TextTable {
    let mut table = TextTable::new([
        "cell",
        "algorithm",
        "metric",
        "statistic",
        ">expected",
        ">measured",
        ">ratio",
        ">within",
        "verdict",
    ]);
    for c in comparisons {
        table.add(vec![
            c.expected.cell.clone(),
            c.expected.algorithm.clone(),
            c.expected.metric.clone(),
            c.statistic.name().to_owned(),
            seconds(c.paper),
            c.measured.map_or_else(|| "not run".to_owned(), seconds),
            c.ratio().map_or_else(String::new, |r| format!("{r:.3}")),
            c.tolerance.to_string(),
            c.verdict().name().to_owned(),
        ]);
    }
    table.optional(&["statistic", "within"]);
    table.emphasise_verdicts();
    table
}

fn claims(folder: &StudyFolder, claims: &[Judged]) -> TextTable {
    let mut table = TextTable::new(["claim", "about", "verdict", "measured", "expected"]);
    for judged in claims {
        let rule = folder.rules().iter().find(|rule| rule.id == judged.id);
        table.add(vec![
            judged.id.clone(),
            rule.map_or_else(String::new, |rule| rule.about.clone()),
            judged.text.verdict.name().to_owned(),
            judged.text.measured(),
            judged.text.expected(),
        ]);
    }
    table.emphasise_verdicts();
    table
}
