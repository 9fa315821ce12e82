//! `cargo xtask bench`: our programs and their peers, alternating in one run.

mod codec;
mod generator;
mod observe;
mod server;
mod statistics;

use anyhow::{Result, bail};

use crate::workspace::Workspace;

/// Runs one benchmark by name.
pub(crate) fn run(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    match arguments.split_first() {
        Some((name, rest)) if name == "server" => server::run(workspace, rest),
        Some((name, rest)) if name == "observe" => observe::run(workspace, rest),
        Some((name, rest)) if name == "codec" => codec::run(workspace, rest),
        Some((name, rest)) if name == "generator" => generator::run(workspace, rest),
        Some((name, _)) => {
            bail!("no benchmark is called `{name}`; there are server, observe, codec and generator")
        }
        None => bail!("name a benchmark: server, observe, codec or generator"),
    }
}
