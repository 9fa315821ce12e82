//! The lab: scenarios, runs and the studies' tables, for people and programs.

#[cfg(feature = "studies")]
mod calibrate;
mod capture;
#[cfg(feature = "studies")]
mod claims;
#[cfg(feature = "studies")]
mod claims_index;
mod compare;
#[cfg(feature = "emulate")]
mod emulate;
#[cfg(feature = "studies")]
mod judge;
mod list;
mod new;
mod next;
pub(super) mod output;
mod published;
#[cfg(feature = "studies")]
mod reproduce;
mod run;
mod show;
mod source;
mod stream;
mod sweep;
mod tables;
mod topology;

use crate::args::lab::{CompareArgs, LabCommand};
use crate::failure::{Failure, Outcome};

/// Runs the command.
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
        LabCommand::New(args) => new::run(&args),
        LabCommand::Run(args) => run::run(&args),
        #[cfg(feature = "studies")]
        LabCommand::Reproduce(args) => reproduce::run(&args),
        #[cfg(feature = "emulate")]
        LabCommand::Emulate(args) => emulate::run(&args),
        #[cfg(feature = "studies")]
        LabCommand::Claims(args) => claims::run(&args),
        LabCommand::Sweep(args) => sweep::run(&args),
        #[cfg(feature = "studies")]
        LabCommand::Judge(args) => judge::run(&args),
        #[cfg(feature = "studies")]
        LabCommand::Calibrate(args) => calibrate::run(&args),
        LabCommand::Compare(args) => compare::run(&args),
        LabCommand::Metrics {
            json,
            csv,
            markdown,
        } => Ok(tables::metrics(json, csv, markdown)),
        LabCommand::Figures { json } => Ok(tables::figures(json)),
        LabCommand::Keys { markdown } => Ok(tables::scenario_keys(markdown)),
    }
}

/// The comparison for NB-IoT, which `carob` runs without arguments.
pub(crate) fn default() -> Result<Outcome, Failure> {
    compare::run(&CompareArgs::default())
}
