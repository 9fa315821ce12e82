//! `carob-studies sweep`: the claims of a part of a study, with a row for each set of settings.

use carob_cli::parts::{
    Failure, Kind, Outcome, Rows, SweepArgs, progress, read_file, with_threads, wrong_sweep,
};
use carob_lab::export::Value;
use carob_lab::quantity::Making;
use serde_json::json;

use crate::claims::StoredVerdicts;
use crate::claims::sweep::{ClaimSweep, Row};

pub(super) fn run(args: &SweepArgs) -> Result<Outcome, Failure> {
    let text = read_file(&args.file)?;
    let sweep = ClaimSweep::read(&text).map_err(|error| wrong_sweep(args, &error))?;
    let bar = progress(sweep.row.len().saturating_mul(sweep.runs()));
    let out = Rows::new(args, &sweep.head(), &COLUMNS);
    let making = Making::default();
    for row in &sweep.row {
        let verdicts = with_threads(args.threads, || sweep.verdicts(row, making, || bar.inc(1)))?;
        let verdicts = verdicts.map_err(|error| Failure::new(Kind::Usage, error))?;
        out.add(
            || sweep.line(row, &verdicts.claims),
            || json(&sweep, row, &verdicts),
            || lines(&sweep, row, &verdicts),
        );
    }
    bar.finish_and_clear();
    Ok(Outcome::Done)
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

/// The columns of [`lines`], described in docs/sweeps.md.
const COLUMNS: [&str; 16] = [
    "row",
    "settings",
    "claim",
    "verdict",
    "check",
    "quantity",
    "value",
    "low",
    "high",
    "expected",
    "check_verdict",
    "study",
    "part",
    "seeds",
    "scenario_hash",
    "version",
];

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
