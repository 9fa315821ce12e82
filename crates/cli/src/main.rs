//! The `carob` command: client, server and lab.
//!
//! `args` says what can be typed, `commands` does it, one file a verb, `monitor` watches what
//! travels, `printer` shows it, and `failure` is the one place that knows exit codes.
// The command talks to people and to the world: it prints, and reads the clock.
#![allow(clippy::disallowed_methods, clippy::print_stdout)]

mod args;
mod clock;
mod commands;
mod failure;
mod formats;
mod monitor;
mod printer;

use std::process::ExitCode;

use clap::FromArgMatches as _;

use crate::args::Args;
use crate::failure::Outcome;

fn main() -> ExitCode {
    let matches = args::command().get_matches();
    let args = Args::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let outcome = commands::run(args.command);
    if let Outcome::Failed(failure) = &outcome {
        printer::failure(failure);
    }
    outcome.exit_code()
}
