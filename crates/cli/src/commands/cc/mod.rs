//! The congestion controllers, for people and programs.

mod document;
mod new;
mod trace;

use crate::args::cc::CcCommand;
use crate::failure::{Failure, Kind, Outcome};
use crate::printer::{self, Controller};
use crate::program::registry;

/// Runs the command.
pub(crate) fn run(command: &CcCommand) -> Result<Outcome, Failure> {
    match command {
        CcCommand::List { markdown: true, .. } => Ok(document::run()),
        CcCommand::List { json, .. } => Ok(list(*json)),
        CcCommand::Show { name, json } => show(name, *json),
        CcCommand::New(args) => new::run(args),
        CcCommand::Trace(args) => trace::run(args),
    }
}

/// Lists every controller.
fn list(json: bool) -> Outcome {
    let all: Vec<Controller> = registry().entries().map(Controller::from).collect();
    if json {
        printer::json(&all);
    } else {
        printer::controllers(&all);
    }
    Outcome::Done
}

/// Explains one.
fn show(name: &str, json: bool) -> Result<Outcome, Failure> {
    let entry = registry().find(name).map_err(|unknown| {
        Failure::new(Kind::Usage, unknown).hint("`carob cc list` explains all")
    })?;
    let name = entry.name;
    let family = entry.family;
    let relatives: Vec<&str> = registry()
        .entries()
        .filter(|other| other.family == family && other.name != name)
        .map(|other| other.name)
        .collect();
    let controller = Controller::from(entry);
    if json {
        printer::json(&controller);
    } else {
        printer::controller(&controller, &relatives);
    }
    Ok(Outcome::Done)
}
