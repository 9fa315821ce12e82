//! The `carob` command: client, server and lab.
//!
//! `args` says what can be typed, `commands` does it, one file a verb, `monitor` watches what
//! travels, `printer` shows it, and `failure` is the one place that knows exit codes.
// The command talks to people and to the world: it prints, and reads the clock.
#![allow(clippy::disallowed_methods, clippy::print_stdout)]

mod args;
mod clock;
mod commands;
mod descriptors;
mod failure;
mod formats;
mod monitor;
mod output;
mod printer;

use std::io::Write as _;
use std::process::ExitCode;

use clap::FromArgMatches as _;

use crate::args::Args;
use crate::failure::Outcome;

fn main() -> ExitCode {
    descriptors::raise_limit();
    monitor::warnings::print();
    let parsed = args::command().try_get_matches();
    let parsed = parsed.and_then(|matches| Args::from_arg_matches(&matches));
    let outcome = match parsed {
        Ok(args) => commands::run(args.command),
        Err(error) => said_by_parser(&error),
    };
    if let Outcome::Failed(failure) = &outcome {
        printer::failure(failure);
    }
    match output::finish() {
        Ok(()) => outcome.exit_code(),
        Err(failure) => {
            printer::failure(&failure);
            match outcome.number() {
                0 => Outcome::from(failure).exit_code(),
                other => ExitCode::from(other),
            }
        }
    }
}

/// Prints help and versions on stdout, wrong usage on stderr.
fn said_by_parser(error: &clap::Error) -> Outcome {
    if error.use_stderr() {
        error.exit();
    }
    // Errors are kept for the end.
    let _ = write!(output::coloured(), "{}", error.render().ansi());
    Outcome::Done
}
