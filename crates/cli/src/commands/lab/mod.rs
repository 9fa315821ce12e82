//! The lab: scenarios, runs and the studies' tables, for people and programs.

mod args;
mod capture;
mod claims;
mod emulate;
mod figures;
mod keys;
mod list;
mod next;
pub(super) mod output;
mod reproduce;
mod run;
mod show;
mod source;
mod topology;

pub(crate) use args::{LabCommand, RunArgs};

use crate::failure::{Failure, Outcome};

/// Does what was asked.
pub(crate) fn run(command: LabCommand) -> Result<Outcome, Failure> {
    match command {
        LabCommand::List { json } => list::run(json),
        LabCommand::Show {
            name,
            set,
            algorithm,
            topology: true,
            seed,
            ..
        } => topology::run(&name, &set, &algorithm, seed),
        LabCommand::Show {
            name,
            set,
            algorithm,
            json,
            ..
        } => show::run(&name, &set, &algorithm, json),
        LabCommand::Run(args) => run::run(&args),
        LabCommand::Reproduce(args) => reproduce::run(&args),
        LabCommand::Emulate(args) => emulate::run(&args),
        LabCommand::Claims(args) => claims::run(&args),
        LabCommand::Keys { markdown } => Ok(keys::run(markdown)),
    }
}

/// What `carob` without arguments does: the default comparison.
pub(crate) fn default() -> Result<Outcome, Failure> {
    run::run(&RunArgs::default())
}
