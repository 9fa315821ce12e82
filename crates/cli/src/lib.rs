//! The `carob` command as a library: client, server and lab, with external controllers.
//!
//! A program registers its controllers and calls [`main`]; `carob cc new NAME` writes one.
//! All commands then take their names: `lab run`, `lab sweep`, `lab compare`, `cc`, `get`.
//!
//! ```no_run
//! use carob_cli::{ExternalFamily, Registry};
//!
//! // `ExternalFamily::of::<MyController>()` for each family.
//! static FAMILIES: [ExternalFamily; 0] = [];
//!
//! fn main() -> std::process::ExitCode {
//!     carob_cli::main(Registry::with(&FAMILIES))
//! }
//! ```
//!
//! `args` has the arguments, `commands` one file for each verb, `monitor` the events of
//! traffic, `printer` the output, and `failure` the exit codes. Imports point one way: `failure`,
//! `features`, `formats` and `limits` <- `program` <- `args` and `printer` <- `monitor` <- `commands`. `parts` has what another
//! program with commands of the lab needs.
// The command talks to people and to the world: it prints, and reads the clock.
#![allow(clippy::disallowed_methods, clippy::print_stdout)]

mod args;
mod clock;
mod commands;
mod descriptors;
mod failure;
mod features;
mod formats;
mod limits;
mod monitor;
mod output;
pub mod parts;
mod printer;
mod program;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

pub use carob_lab::registry::{ExternalFamily, Registry};
use clap::FromArgMatches;

use crate::args::Args;
use crate::failure::{Failure, Kind, Outcome};
use crate::program::Program;

/// Runs the command line of this program, with these controllers.
pub fn main(registry: Registry) -> ExitCode {
    ExitCode::from(run(registry, std::env::args_os()))
}

/// Runs a command line, whose first word is the program's name, and returns the exit code.
///
/// Once per process: the program, the choice of colours and the first error of output are global.
pub fn run(registry: Registry, words: impl IntoIterator<Item = OsString>) -> u8 {
    let program = Program::carob(registry);
    run_program(program, args::command(), words, |args: Args| {
        commands::run(args.command)
    })
}

/// Runs a command line of another program with commands of the lab, as [`run`] does.
pub fn run_program<A: FromArgMatches>(
    program: Program,
    command: clap::Command,
    words: impl IntoIterator<Item = OsString>,
    run: impl FnOnce(A) -> Outcome,
) -> u8 {
    program::choose(program);
    if let Err(error) = program.registry.check() {
        printer::failure(&Failure::new(Kind::Usage, error));
        return 2;
    }
    let words: Vec<OsString> = words.into_iter().collect();
    descriptors::raise_limit();
    monitor::warnings::print();
    let color = args::color_of(words.iter().cloned());
    output::choose_color(color);
    let parsed = command.color(color).try_get_matches_from(words);
    let outcome = match parsed.and_then(|matches| A::from_arg_matches(&matches)) {
        Ok(args) => run(args),
        Err(error) => {
            (program.explain)(&error).map_or_else(|| said_by_parser(&error), Outcome::Failed)
        }
    };
    if let Outcome::Failed(failure) = &outcome {
        printer::failure(failure);
    }
    match output::finish() {
        Ok(()) => outcome.number(),
        Err(failure) => {
            printer::failure(&failure);
            match outcome.number() {
                0 => Outcome::from(failure).number(),
                other => other,
            }
        }
    }
}

/// Prints help and versions on stdout, wrong usage on stderr.
fn said_by_parser(error: &clap::Error) -> Outcome {
    if error.use_stderr() {
        let text = output::fitted_to_stderr(&error.render().ansi().to_string());
        // Without stderr there is nowhere to report an error.
        let _ = writeln!(anstream::stderr().lock(), "{}", text.trim_end());
        return Outcome::Told(2);
    }
    // Errors are kept for the end.
    let _ = write!(output::coloured(), "{}", error.render().ansi());
    Outcome::Done
}
