//! The project's chores: everything that passes or fails, the interop peers.
//!
//! `cargo xtask help` lists the commands. Nothing here is part of the product.
#![allow(clippy::print_stdout, reason = "a command-line tool talks on stdout")]
#![allow(
    clippy::disallowed_methods,
    reason = "it times real processes and waits for them; no protocol or simulator code runs here"
)]

mod attacks;
mod carob;
mod defences;
mod fleet;
mod interop;
mod long;
mod peers;
mod process;
mod soak;
mod steps;
mod suite;
mod tidy;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};
use workspace::Workspace;

const HELP: &str = "\
cargo xtask COMMAND

  test [STEP...]      the tests of every change; steps: fmt default test fleet tidy interop clippy
                      doc
  test --all          the tests of the night too; steps: nightly figures features book no-std web python
                      wheels deny
  tidy [CHECK...]     checks of the repository: files, links, book, changelog, citation, requirements, fuzz,
                      crates, generated-documents
  generate [PART...]  rewrite the generated documents, or those with PART in their path
  interop             the tests with other implementations, and their tables in
                      docs/evidence/interoperability.md and crates/cli/tests/it/plugtest/README.md
  book                build the documentation's site in target/book/html and check it
  web                 build the lab's page in target/web, and as a single file
  peers               install and build the programs the interop tests talk to
  fleet               simulated endpoints with faults, drawn from random seeds for --seconds N (60; 0: without end);
                      --seed N repeats one
  long [NAME]         runs too long for every day; without a name, the list. `long soak` and `long fuzz` have options
  help                this text
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs one command; `Ok(false)` means it ran and something in the project failed.
fn run(arguments: &[String]) -> Result<bool> {
    let Some((command, rest)) = arguments.split_first() else {
        print!("{HELP}");
        return Ok(true);
    };
    let workspace = Workspace::find()?;
    let asks_for_help = matches!(rest, [only] if only == "--help" || only == "-h");
    match command.as_str() {
        "long" if asks_for_help => long::run(&workspace, &[]),
        _ if asks_for_help => {
            print!("{HELP}");
            Ok(true)
        }
        "test" => steps::run(&workspace, rest),
        "tidy" => tidy::run(&workspace, rest),
        "generate" => {
            tidy::generate(&workspace, rest)?;
            Ok(true)
        }
        "interop" => {
            no_arguments(command, rest)?;
            Ok(interop::update(&workspace)? != suite::Outcome::Failed)
        }
        "book" => {
            no_arguments(command, rest)?;
            steps::run(&workspace, &["book".to_owned()])
        }
        "web" => {
            no_arguments(command, rest)?;
            let outcome = steps::site::build(&workspace)?;
            if let suite::Outcome::Skipped(why) = &outcome {
                println!("{why}");
            }
            Ok(outcome == suite::Outcome::Passed)
        }
        "peers" => {
            no_arguments(command, rest)?;
            peers::install(&workspace)?;
            Ok(true)
        }
        "fleet" => fleet::run(&workspace, rest),
        "long" => long::run(&workspace, rest),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(true)
        }
        unknown => bail!("unknown command `{unknown}`; `cargo xtask help` lists them"),
    }
}

fn no_arguments(command: &str, rest: &[String]) -> Result<()> {
    match rest.first() {
        None => Ok(()),
        Some(extra) => bail!("`{command}` takes no arguments, but `{extra}` was given"),
    }
}
