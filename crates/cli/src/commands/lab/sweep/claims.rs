//! Sweeps over the claims of a part of a study.

use carob_lab::claims::Making;
use carob_lab::export::{Column, ColumnKind, Value};
use carob_studies::claims::StoredVerdicts;
use carob_studies::claims::sweep::{ClaimSweep, Row};
use serde_json::json;

use super::super::args::SweepArgs;
use super::super::output;
use super::{Rows, hash, part, wrong};
use crate::failure::{Failure, Kind};

pub(super) fn run(args: &SweepArgs, text: &str) -> Result<(), Failure> {
    let sweep = ClaimSweep::read(text).map_err(|error| wrong(args, &error))?;
    // Scenarios and rules are those of the program, which its version names.
    let hash = hash(&[text]);
    let journal = output::journal(args.journal.as_deref())?;
    let rows = &sweep.row[part(args, sweep.row.len())];
    let bar = output::progress(rows.len().saturating_mul(sweep.runs()));
    let mut out = Rows::new(args, &sweep.head(), columns(), &hash)?;
    let making = Making {
        journal: journal.as_ref(),
        ..Making::default()
    };
    for row in rows {
        let verdicts =
            output::with_threads(args.threads, || sweep.verdicts(row, making, || bar.inc(1)))?;
        let verdicts = verdicts.map_err(|error| Failure::new(Kind::Usage, error))?;
        out.add(
            || sweep.line(row, &verdicts.claims),
            || json(&sweep, row, &verdicts),
            || lines(&sweep, row, &verdicts),
        )?;
    }
    bar.finish_and_clear();
    out.finish()
}

fn json(sweep: &ClaimSweep, row: &Row, verdicts: &StoredVerdicts) -> serde_json::Value {
    json!({
        "study": sweep.study,
        "part": sweep.part,
        "row": row.label,
        "set": row.set,
        "seeds": sweep.seeds,
        "scenario_hash": verdicts.scenario_hash,
        "version": verdicts.version,
        "claims": verdicts.claims,
    })
}

/// The data dictionary of [`lines`].
fn columns() -> Vec<Column> {
    use ColumnKind::{Count, Number, Text};
    let seeds = "consecutive seeds of each cell and algorithm, from the scenario's first";
    let value =
        "measured value; none if a run that it needs is missing. Unit: that of the quantity";
    vec![
        Column::new("row", "-", Text, "label of the row"),
        Column::new("settings", "-", Text, "settings of the row, as of --set"),
        Column::new("claim", "-", Text, "id of the claim"),
        Column::new("verdict", "-", Text, "verdict on the claim"),
        Column::new(
            "check",
            "1",
            Count,
            "place of the check in the claim's rule, from 0",
        ),
        Column::new("quantity", "-", Text, "quantity, as the rule writes it"),
        Column::new("value", "metric", Number, value),
        Column::new(
            "low",
            "metric",
            Number,
            "lower end of the 95 % interval of the value",
        ),
        Column::new(
            "high",
            "metric",
            Number,
            "upper end of the 95 % interval of the value",
        ),
        Column::new("expected", "-", Text, "condition of the claim"),
        Column::new("check_verdict", "-", Text, "verdict on the check"),
        Column::new("study", "-", Text, "short name of the study"),
        Column::new("part", "-", Text, "part of the study"),
        Column::new("seeds", "1", Count, seeds),
        Column::new("scenario_hash", "-", Text, "hash of the part's scenarios"),
        Column::new("version", "-", Text, "version of carob"),
    ]
}

/// A line for each check of each claim.
fn lines(sweep: &ClaimSweep, row: &Row, verdicts: &StoredVerdicts) -> Vec<Vec<Value>> {
    let text = |text: &str| Value::Text(text.into());
    let number = |number: Option<f64>| number.map_or(Value::Missing, Value::Number);
    let of_claims = verdicts.claims.iter().flat_map(|judged| {
        let checks = judged.text.checks.iter().enumerate();
        checks.map(|(place, check)| {
            let measured = check.measured.as_ref();
            vec![
                text(&row.label),
                text(&row.set.join("; ")),
                text(&judged.id),
                text(judged.text.verdict.name()),
                Value::Count(place as u64),
                text(&check.quantity),
                number(measured.map(|interval| interval.value)),
                number(measured.map(|interval| interval.low)),
                number(measured.map(|interval| interval.high)),
                text(&check.expected),
                text(check.verdict.name()),
                text(&sweep.study),
                text(&sweep.part),
                Value::Count(sweep.seeds),
                text(&verdicts.scenario_hash),
                text(&verdicts.version),
            ]
        })
    });
    of_claims.collect()
}
