//! The lab: scenarios, runs and comparisons, for people and programs.

mod capture;
mod compare;
#[cfg(feature = "emulate")]
pub(crate) mod emulate;
mod list;
mod new;
mod next;
pub(crate) mod output;
pub(crate) mod run;
mod show;
pub(crate) mod source;
mod stream;
pub(crate) mod sweep;
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
        #[cfg(feature = "emulate")]
        LabCommand::Emulate(args) => emulate::run(&args),
        LabCommand::Sweep(args) => sweep::run(&args),
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
