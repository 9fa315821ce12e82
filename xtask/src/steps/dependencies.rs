//! Licences, sources and advisories of what is linked in, by cargo-deny and `deny.toml`.

use std::process::Stdio;

use anyhow::{Context, Result};

use super::{Outcome, watch};
use crate::{process, workspace::Workspace};

const INSTALL: &str = "cargo install cargo-deny --locked";
/// Beginning of cargo-deny's complaint when the advisory database cannot be had.
const NO_DATABASE: &str = "failed to fetch advisory database";

/// Runs cargo-deny if it is installed.
pub(crate) fn run(workspace: &Workspace) -> Result<Outcome> {
    let mut version = process::cargo();
    let installed = version
        .args(["deny", "--version"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !installed {
        return Ok(Outcome::Skipped(format!(
            "cargo-deny is not installed ({INSTALL})"
        )));
    }
    let mut local = process::cargo();
    local.args([
        "deny",
        "check",
        "--hide-inclusion-graph",
        "licenses",
        "bans",
        "sources",
    ]);
    if !watch::succeeds(local.current_dir(&workspace.root))? {
        return Ok(Outcome::Failed);
    }
    let mut advisories = process::cargo();
    let output = advisories
        .args(["deny", "check", "advisories"])
        .current_dir(&workspace.root)
        .stdin(Stdio::null())
        .output()
        .context("cannot start cargo-deny")?;
    if output.status.success() {
        return Ok(Outcome::Passed);
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    if complaint.contains(NO_DATABASE) {
        return Ok(Outcome::PassedExcept(
            "advisories unchecked: no way to their database".to_owned(),
        ));
    }
    println!("{complaint}");
    Ok(Outcome::Failed)
}
