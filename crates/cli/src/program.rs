//! The program of this process, chosen once at its start.

use std::sync::OnceLock;

use carob_lab::published::Print;
use carob_lab::registry::Registry;

use crate::failure::Failure;
use crate::features;

/// A program with commands of the lab: `carob`, or one beside it.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// Its command that runs a scenario.
    pub run: &'static str,
    /// The controllers that names on its command line refer to.
    pub registry: Registry,
    /// Published values beside measured ones.
    pub published: fn() -> Print,
    /// The reason why the parser rejected a command line, where the program knows more than the parser.
    pub explain: fn(&clap::Error) -> Option<Failure>,
}

impl Program {
    /// `carob` with these controllers.
    pub(crate) fn carob(registry: Registry) -> Self {
        Self {
            name: "carob",
            run: "carob lab run",
            registry,
            published: Print::default,
            explain: features::of_error,
        }
    }
}

static PROGRAM: OnceLock<Program> = OnceLock::new();

/// Takes the program; the first call counts.
pub(crate) fn choose(program: Program) {
    let _ = PROGRAM.set(program);
}

/// The program; in unit tests, `carob` with the built-in controllers.
pub(crate) fn program() -> Program {
    let default = || Program::carob(Registry::default());
    PROGRAM.get().copied().unwrap_or_else(default)
}

/// The controllers of the program that runs.
pub fn registry() -> Registry {
    program().registry
}
