//! The Python package, built and tested by `tools/python.py`.

use std::{path::Path, process::Command};

use anyhow::Result;

use crate::{
    carob, process,
    suite::{Outcome, watch},
    workspace::Workspace,
};

const GNU: &str = "x86_64-unknown-linux-gnu";
const MUSL: &str = "x86_64-unknown-linux-musl";

/// Checks types, and tests the source distribution and the wheel.
pub(super) fn test(workspace: &Workspace) -> Result<Outcome> {
    if !has_python() {
        return Ok(missing());
    }
    carob::build(workspace)?;
    let carob = workspace.target()?.join("release/carob");
    script(workspace, "test", &[&carob])
}

/// Builds wheels for an older glibc and for musl, and runs the first.
pub(super) fn wheels(workspace: &Workspace) -> Result<Outcome> {
    if !has_python() {
        return Ok(missing());
    }
    let mut library = Command::new("rustc");
    library.args(["--print", "target-libdir", "--target", MUSL]);
    if Path::new(process::output(&mut library)?.trim()).is_dir() {
        return script(workspace, "wheels", &[Path::new(GNU), Path::new(MUSL)]);
    }
    let outcome = script(workspace, "wheels", &[Path::new(GNU)])?;
    if outcome != Outcome::Passed {
        return Ok(outcome);
    }
    let note = format!("no wheel for musl (rustup target add {MUSL})");
    Ok(Outcome::PassedExcept(note))
}

fn has_python() -> bool {
    let mut python = Command::new("python3");
    python.args(["-c", "import ensurepip, venv"]);
    python.output().is_ok_and(|output| output.status.success())
}

fn missing() -> Outcome {
    Outcome::Skipped("no Python with venv (apt-get install python3 python3-venv)".to_owned())
}

fn script(workspace: &Workspace, part: &str, arguments: &[&Path]) -> Result<Outcome> {
    let mut command = Command::new("python3");
    command
        .args(["tools/python.py", part])
        .arg(workspace.target()?)
        .args(arguments);
    watch::succeeds(command.current_dir(&workspace.root)).map(Outcome::of)
}
