//! `carob lab sweep`: a table of quantities under each row's settings.

use std::io::Write as _;
use std::path::Path;

use carob_lab::claims::{Making, ScenarioFile};
use carob_lab::scenario::builtin;
use carob_lab::sweep::{Sweep, SweepError, SweepRow, Values};
use serde_json::json;

use super::args::SweepArgs;
use super::output;
use super::shard::Format;
use super::source::read_file;
use crate::failure::{Failure, Kind, Outcome};

pub(super) fn run(args: &SweepArgs) -> Result<Outcome, Failure> {
    let wrong = |error: SweepError| {
        let message = format_args!("{}: {error}", args.file.display());
        Failure::new(Kind::Usage, message).hint(&error.remedy)
    };
    let text = read_file(&args.file)?;
    let sweep = Sweep::read(&text).map_err(wrong)?;
    let file = base(&args.file, &sweep)?;
    sweep.check(&file).map_err(wrong)?;
    let journal = output::journal(args.journal.as_deref())?;
    let format = match (args.json, args.csv) {
        (true, _) => Format::Json,
        (_, true) => Format::Csv,
        _ => Format::Table,
    };
    let rows = match args.shard {
        Some(shard) => &sweep.rows[shard.of(sweep.rows.len())],
        None => &sweep.rows[..],
    };
    let bar = output::progress(rows.len().saturating_mul(sweep.runs()));
    let mut out = crate::output::bytes();
    let mut print = |text: &str| {
        // Errors are kept for the command's end.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    };
    if let Some(shard) = args.shard {
        let key = format!(
            "{:016x}",
            carob_lab::content_hash(format!("{text}{}", file.text).as_bytes())
        );
        print(&shard.first_line(format, &key));
    }
    print(&match format {
        Format::Table => sweep.head(),
        Format::Csv => "row,settings,column,quantity,value\n".to_owned(),
        Format::Json => String::new(),
    });
    let making = Making {
        journal: journal.as_ref(),
        ..Making::default()
    };
    for row in rows {
        let values = output::with_threads(args.threads, || {
            sweep.values(&file, row, making, || bar.inc(1))
        })?;
        let values = values.map_err(|error| Failure::new(Kind::Usage, error))?;
        print(&match format {
            Format::Table => sweep.line(row, &values),
            Format::Csv => csv(&sweep, row, &values),
            Format::Json => json(&sweep, row, &values),
        });
    }
    bar.finish_and_clear();
    Ok(Outcome::Done)
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

fn json(sweep: &Sweep, row: &SweepRow, values: &Values) -> String {
    let columns = sweep.columns.iter().zip(values);
    let columns = columns.map(|(column, values)| {
        let quantities = column.quantities.iter().zip(values);
        let quantities = quantities
            .map(|(quantity, value)| json!({ "quantity": quantity.text(), "value": value }));
        json!({ "name": column.name, "quantities": quantities.collect::<Vec<_>>() })
    });
    let value = json!({
        "scenario": sweep.scenario,
        "row": row.label,
        "set": row.set,
        "seeds": sweep.seeds,
        "version": env!("CARGO_PKG_VERSION"),
        "columns": columns.collect::<Vec<_>>(),
    });
    format!("{value}\n")
}

fn csv(sweep: &Sweep, row: &SweepRow, values: &Values) -> String {
    let columns = sweep.columns.iter().zip(values);
    let lines = columns.flat_map(|(column, values)| {
        let quantities = column.quantities.iter().zip(values);
        quantities.map(|(quantity, value)| {
            vec![
                row.label.clone(),
                row.set.join("; "),
                column.name.clone(),
                quantity.text().to_owned(),
                value.map_or_else(String::new, |value| value.to_string()),
            ]
        })
    });
    carob_lab::csv::text(lines)
}
