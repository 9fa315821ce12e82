//! The `carob` command, built from this tree, and what it prints.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{process, workspace::Workspace};

/// The package with everything in it, as arguments of cargo.
pub(crate) const FULL: [&str; 4] = ["--package", "carob-cli", "--features", "full"];

/// Builds it, so that what runs later starts at once.
pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    let mut build = process::cargo();
    build.args(["build", "--release", "--quiet"]).args(FULL);
    process::must(build.current_dir(&workspace.root))
}

/// Runs `carob` with `--json` and reads its lines of JSON.
pub(crate) fn values(workspace: &Workspace, arguments: &[&str]) -> Result<Vec<Value>> {
    let mut command = process::cargo();
    command
        .args(["run", "--release", "--quiet"])
        .args(FULL)
        .arg("--")
        .args(arguments)
        .arg("--json");
    let rows: Result<Vec<Value>, _> = process::output(command.current_dir(&workspace.root))?
        .lines()
        .map(serde_json::from_str)
        .collect();
    let rows = rows.context("carob printed no JSON")?;
    if rows.is_empty() {
        bail!("{} printed nothing", process::line(&command));
    }
    Ok(rows)
}
