//! `cargo xtask bench`: our programs and their peers, alternating in one run.

mod block;
mod budgets;
mod codec;
mod controllers;
mod generator;
mod observe;
mod options;
mod server;
mod statistics;
mod subjects;

use anyhow::{Result, bail};

use crate::workspace::Workspace;

const NAMES: &str = "budgets, server, observe, block, codec, generator and controllers";

/// Runs one benchmark by name.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    match arguments.split_first() {
        Some((name, rest)) if name == "server" => server::run(workspace, rest),
        Some((name, rest)) if name == "budgets" => budgets::run(workspace, rest),
        Some((name, rest)) if name == "block" => block::run(workspace, rest),
        Some((name, rest)) if name == "observe" => observe::run(workspace, rest),
        Some((name, rest)) if name == "codec" => codec::run(workspace, rest),
        Some((name, rest)) if name == "generator" => generator::run(workspace, rest),
        Some((name, rest)) if name == "controllers" => controllers::run(workspace, rest),
        Some((name, _)) => {
            bail!("no benchmark is called `{name}`; there are {NAMES}")
        }
        None => bail!("name a benchmark: {NAMES}"),
    }
}
