//! The congestion controllers, for people and programs.

mod args;
mod document;
mod new;
mod trace;

use carob_cc::registry::{self, ALIASES};
use carob_lab::registry::Entry;
use serde::Serialize;

use crate::controllers::registry;
use crate::failure::{Failure, Kind, Outcome};
use crate::printer;

pub(crate) use args::{CcCommand, trace_help};

/// A controller as the machine interface has it.
#[derive(Debug, Serialize)]
pub(crate) struct Controller {
    pub(crate) name: &'static str,
    /// Its other names.
    pub(crate) aliases: Vec<&'static str>,
    /// The family it is a profile of.
    pub(crate) family: String,
    pub(crate) about: &'static str,
    pub(crate) source: &'static str,
    /// Its type below `carob_cc::algorithms`.
    pub(crate) path: &'static str,
    /// Bytes of state for one peer, on this machine.
    pub(crate) state_bytes: usize,
    /// Something of it has no source and is this project's choice.
    pub(crate) project_choice: bool,
    /// This project's choice, with its reason.
    pub(crate) choice: Option<&'static str>,
    pub(crate) suggested: Suggested,
    pub(crate) constants: Vec<Constant>,
}

/// Transmission parameters that a controller suggests.
#[derive(Debug, Serialize)]
pub(crate) struct Suggested {
    pub(crate) max_retransmit: Option<u8>,
    pub(crate) rto_max: Option<String>,
}

/// One constant of a controller.
#[derive(Debug, Serialize)]
pub(crate) struct Constant {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) kind: &'static str,
    pub(crate) about: &'static str,
}

impl From<Entry> for Controller {
    fn from(entry: Entry) -> Self {
        let mut constants = Vec::new();
        entry.settings().describe(&mut |constant| {
            constants.push(Constant {
                name: constant.name,
                value: constant.value.to_string(),
                kind: constant.kind,
                about: constant.about,
            });
        });
        let registry::Suggested {
            max_retransmit,
            rto_max,
        } = entry.suggested;
        let rto_max = rto_max.map(|time| time.to_string());
        Self {
            name: entry.name,
            aliases: ALIASES
                .iter()
                .filter(|(_, id)| *id == entry.name)
                .map(|(alias, _)| *alias)
                .collect(),
            family: family(&entry),
            about: entry.about,
            source: entry.source,
            path: entry.path,
            state_bytes: entry.state_bytes,
            project_choice: entry.project_choice.is_some(),
            choice: entry.project_choice,
            suggested: Suggested {
                max_retransmit,
                rto_max,
            },
            constants,
        }
    }
}

/// The family's name as people write names.
fn family(entry: &Entry) -> String {
    entry.family.replace('_', "-")
}

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
