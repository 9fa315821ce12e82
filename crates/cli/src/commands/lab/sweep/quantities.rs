//! Sweeps of quantities over scenarios.

use std::path::Path;

use carob_lab::export::Value;
use carob_lab::quantity::{Making, ScenarioFile};
use carob_lab::scenario::builtin;
use carob_lab::sweep::{Sweep, SweepRow, Table, Values};
use serde_json::json;

use super::super::output;
use super::super::source::read_file;
use super::{Rows, hash, wrong};
use crate::args::lab::SweepArgs;
use crate::failure::{Failure, Kind};
use crate::program::registry;

pub(super) fn run(args: &SweepArgs, text: &str) -> Result<(), Failure> {
    let sweep = Sweep::read(text).map_err(|error| wrong(args, &error))?;
    let mut files = Vec::new();
    for table in &sweep.tables {
        let of_table = base(&args.file, table)?;
        let checked = table.check(&of_table, registry());
        checked.map_err(|error| wrong(args, &error))?;
        files.push(of_table);
    }
    let texts = files.iter().flatten().map(|file| &*file.text);
    let hash = hash(&[text].into_iter().chain(texts).collect::<Vec<_>>());
    let runs = sweep
        .rows()
        .map(|(number, _, row)| sweep.tables[number].runs(row));
    let bar = output::progress(runs.sum());
    let out = Rows::new(args, &sweep.head(), &COLUMNS);
    let making = Making {
        registry: registry(),
        ..Making::default()
    };
    for (number, place, row) in sweep.rows() {
        let (table, files) = (&sweep.tables[number], &files[number]);
        if place == 0 {
            out.head(&table.head());
        }
        let values = output::with_threads(args.threads, || {
            table.values(files, row, making, || bar.inc(1))
        })?;
        let values = values.map_err(|error| Failure::new(Kind::Usage, error))?;
        out.add(
            || table.line(row, &values),
            || json(table, row, &values, &hash),
            || lines(table, row, &values, &hash),
        );
    }
    bar.finish_and_clear();
    Ok(())
}

/// The base scenarios of a table: built-in ones, or files relative to the sweep's.
fn base(path: &Path, table: &Table) -> Result<Vec<ScenarioFile>, Failure> {
    let one = |name: &String| {
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
    };
    table.scenarios.iter().map(one).collect()
}

/// The columns of [`lines`], described in docs/sweeps.md.
const COLUMNS: [&str; 10] = [
    "row",
    "settings",
    "column",
    "quantity",
    "value",
    "table",
    "scenario",
    "seeds",
    "scenario_hash",
    "version",
];

/// A line for each quantity of a row.
fn lines(table: &Table, row: &SweepRow, values: &Values, hash: &str) -> Vec<Vec<Value>> {
    let text = |text: &str| Value::Text(text.into());
    let mut lines = Vec::new();
    for (cell, values) in table.cells(row).iter().zip(values) {
        for (quantity, value) in cell.quantities.iter().zip(values) {
            lines.push(vec![
                text(&row.label),
                text(&cell.set.join("; ")),
                text(cell.column),
                text(quantity.text()),
                value.map_or(Value::Missing, Value::Number),
                table.title.as_deref().map_or(Value::Missing, text),
                text(&table.scenarios.join("; ")),
                Value::Count(table.seeds),
                text(hash),
                text(env!("CARGO_PKG_VERSION")),
            ]);
        }
    }
    lines
}

fn json(table: &Table, row: &SweepRow, values: &Values, hash: &str) -> serde_json::Value {
    let cells = table.cells(row);
    let columns = cells.iter().zip(values).map(|(cell, values)| {
        let quantities = cell.quantities.iter().zip(values);
        let quantities = quantities
            .map(|(quantity, value)| json!({ "quantity": quantity.text(), "value": value }));
        json!({
            "name": cell.column,
            "set": cell.set,
            "quantities": quantities.collect::<Vec<_>>(),
        })
    });
    json!({
        "table": table.title,
        "scenario": table.scenarios.join("; "),
        "row": row.label,
        "set": row.set,
        "seeds": table.seeds,
        "scenario_hash": hash,
        "version": env!("CARGO_PKG_VERSION"),
        "columns": columns.collect::<Vec<_>>(),
    })
}
