//! Sweeps of quantities over one scenario.

use std::path::Path;

use carob_lab::claims::{Making, ScenarioFile};
use carob_lab::export::{Column, ColumnKind, Value};
use carob_lab::scenario::builtin;
use carob_lab::sweep::{Sweep, SweepRow, Values};
use serde_json::json;

use super::super::args::SweepArgs;
use super::super::output;
use super::super::source::read_file;
use super::{Rows, hash, part, wrong};
use crate::controllers::registry;
use crate::failure::{Failure, Kind};

pub(super) fn run(args: &SweepArgs, text: &str) -> Result<(), Failure> {
    let sweep = Sweep::read(text).map_err(|error| wrong(args, &error))?;
    let file = base(&args.file, &sweep)?;
    sweep
        .check(&file, registry())
        .map_err(|error| wrong(args, &error))?;
    let hash = hash(&[text, &file.text]);
    let journal = output::journal(args.journal.as_deref())?;
    let rows = &sweep.rows[part(args, sweep.rows.len())];
    let bar = output::progress(rows.len().saturating_mul(sweep.runs()));
    let mut out = Rows::new(args, &sweep.head(), columns(), &hash)?;
    let making = Making {
        journal: journal.as_ref(),
        registry: registry(),
        ..Making::default()
    };
    for row in rows {
        let values = output::with_threads(args.threads, || {
            sweep.values(&file, row, making, || bar.inc(1))
        })?;
        let values = values.map_err(|error| Failure::new(Kind::Usage, error))?;
        out.add(
            || sweep.line(row, &values),
            || json(&sweep, row, &values, &hash),
            || lines(&sweep, row, &values, &hash),
        )?;
    }
    bar.finish_and_clear();
    out.finish()
}

/// The base scenario: a built-in one, or a file relative to the sweep's.
fn base(path: &Path, sweep: &Sweep) -> Result<ScenarioFile, Failure> {
    let name = &sweep.scenario;
    if Path::new(name).extension().is_some_and(|end| end == "toml") {
        let file = path.with_file_name("").join(name);
        return Ok(ScenarioFile {
            name: name.clone(),
            text: read_file(&file)?,
        });
    }
    match builtin::find(name) {
        Some((file, None)) => Ok(ScenarioFile {
            name: file.name.to_owned(),
            text: file.text.to_owned(),
        }),
        _ => Err(Failure::new(
            Kind::Usage,
            format_args!("{}: unknown scenario \"{name}\"", path.display()),
        )
        .hint("`carob lab list` names all; a file of your own ends in .toml")),
    }
}

/// The data dictionary of [`lines`].
fn columns() -> Vec<Column> {
    use ColumnKind::{Count, Number, Text};
    let value = "value of the quantity; none without a sample. Unit: that of the quantity";
    let seeds = "consecutive seeds of each cell and algorithm, from the scenario's first";
    let hash = "hash of the sweep file and its scenario file";
    vec![
        Column::new("row", "-", Text, "label of the row"),
        Column::new("settings", "-", Text, "settings of the row, as of --set"),
        Column::new("column", "-", Text, "column of the sweep"),
        Column::new("quantity", "-", Text, "quantity, as the sweep writes it"),
        Column::new("value", "metric", Number, value),
        Column::new("scenario", "-", Text, "base scenario"),
        Column::new("seeds", "1", Count, seeds),
        Column::new("scenario_hash", "-", Text, hash),
        Column::new("version", "-", Text, "version of carob"),
    ]
}

/// A line for each quantity of a row.
fn lines(sweep: &Sweep, row: &SweepRow, values: &Values, hash: &str) -> Vec<Vec<Value>> {
    let columns = sweep.columns.iter().zip(values);
    let text = |text: &str| Value::Text(text.to_owned());
    let lines = columns.flat_map(|(column, values)| {
        let quantities = column.quantities.iter().zip(values);
        quantities.map(|(quantity, value)| {
            vec![
                text(&row.label),
                text(&row.set.join("; ")),
                text(&column.name),
                text(quantity.text()),
                value.map_or(Value::Missing, Value::Number),
                text(&sweep.scenario),
                Value::Count(sweep.seeds),
                text(hash),
                text(env!("CARGO_PKG_VERSION")),
            ]
        })
    });
    lines.collect()
}

fn json(sweep: &Sweep, row: &SweepRow, values: &Values, hash: &str) -> serde_json::Value {
    let columns = sweep.columns.iter().zip(values);
    let columns = columns.map(|(column, values)| {
        let quantities = column.quantities.iter().zip(values);
        let quantities = quantities
            .map(|(quantity, value)| json!({ "quantity": quantity.text(), "value": value }));
        json!({ "name": column.name, "quantities": quantities.collect::<Vec<_>>() })
    });
    json!({
        "scenario": sweep.scenario,
        "row": row.label,
        "set": row.set,
        "seeds": sweep.seeds,
        "scenario_hash": hash,
        "version": env!("CARGO_PKG_VERSION"),
        "columns": columns.collect::<Vec<_>>(),
    })
}
