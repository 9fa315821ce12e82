//! The program `carob-studies`.
// The command talks to people: it prints, and reads the clock.
#![allow(clippy::disallowed_methods, clippy::print_stdout)]

mod args;
mod calibrate;
mod claims;
mod claims_index;
mod judge;
mod reproduce;
mod sweep;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use carob_cli::Registry;
use carob_cli::parts::{self, Failure, Outcome, Program, say, setup, took, write};

use self::args::{Args, Command};
use crate::papers;

/// Runs the command line of this program, with these controllers.
pub fn main(registry: Registry) -> ExitCode {
    ExitCode::from(run(registry, std::env::args_os()))
}

/// Runs a command line, whose first word is the program's name, and returns the exit code, once per process.
pub fn run(registry: Registry, words: impl IntoIterator<Item = OsString>) -> u8 {
    let program = Program {
        name: "carob-studies",
        run: "carob-studies run",
        registry,
        published: papers::published,
        explain: |_| None,
    };
    carob_cli::run_program(program, args::command(), words, |args: Args| {
        execute(&args.command).unwrap_or_else(Outcome::Failed)
    })
}

/// Prints what results are of, whether this command made them, and why stored ones are stale.
fn say_origin(of: &str, made_since: Option<Instant>, version: &str, stale: &[String]) {
    let origin = match made_since {
        Some(began) => format!("run in {}", took(began.elapsed())),
        None => format!("kept results of version {version}; --fresh runs them again"),
    };
    say(format_args!("{of}, {origin}"));
    for why in stale {
        say(format_args!("STALE: {why}; --fresh computes anew"));
    }
}

/// Writes results to be stored.
fn keep(file: &Path, results: &str) -> Result<(), Failure> {
    write(file, results).map_err(|error| Failure::file("write", file, &error))
}

fn execute(command: &Command) -> Result<Outcome, Failure> {
    match command {
        Command::Run(args) => parts::run(args),
        Command::Emulate(args) => parts::emulate(args),
        Command::Reproduce(args) => reproduce::run(args),
        Command::Claims(args) => claims::run(args),
        Command::Sweep(args) => sweep::run(args),
        Command::Judge(args) => judge::run(args),
        Command::Calibrate(args) => calibrate::run(args),
        Command::Setup(args) => setup(args, args::command()),
    }
}
