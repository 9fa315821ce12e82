//! The Python package: its wheel is built, installed in fresh virtual environments, and tested there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Outcome, watch};
use crate::{process, workspace::Workspace};

const INSTALL: &str = "apt-get install python3 python3-venv";
/// The oldest minor version of Python 3 that the package supports; `pyproject.toml` has it too.
const OLDEST: u32 = 10;
/// Packages that the tests import.
const TEST_PACKAGES: [&str; 9] = [
    "pytest>=8,<10",
    "distributed>=2024.1",
    "pyarrow>=16",
    "pandas>=2",
    "polars>=1",
    "tqdm>=4",
    "nbclient>=0.10",
    "ipykernel>=6",
    "aiocoap>=0.4.17",
];

/// Builds the wheel and tests it with the oldest and the newest Python that are here.
pub(super) fn run(workspace: &Workspace) -> Result<Outcome> {
    let interpreters = interpreters()?;
    let (Some(oldest), Some(newest)) = (interpreters.first(), interpreters.last()) else {
        return Ok(Outcome::Skipped(format!(
            "no Python 3.{OLDEST} or newer with venv ({INSTALL})"
        )));
    };
    let folder = workspace.target()?.join("python");
    fs::create_dir_all(&folder)?;
    let tools = environment(&folder.join("tools"), newest, &["maturin>=1.9,<2"])?;
    let Some(wheel) = build(workspace, &folder, &tools)? else {
        return Ok(Outcome::Failed);
    };
    let command = command(workspace)?;
    let mut tested = vec![(newest, "slow or not slow")];
    if oldest.minor != newest.minor {
        tested.push((oldest, "not slow"));
    }
    for (python, which) in tested {
        println!("Python 3.{}", python.minor);
        let name = format!("test-3.{}", python.minor);
        let test = environment(&folder.join(name), python, &TEST_PACKAGES)?;
        // The version is always the same, so an installed one would count as this one.
        let mut install = Command::new(test.join("bin/pip"));
        install.args(["install", "--quiet", "--disable-pip-version-check"]);
        install.args(["--force-reinstall", "--no-deps"]).arg(&wheel);
        process::must(&mut install)?;
        let mut pytest = Command::new(test.join("bin/python"));
        pytest
            .args([
                "-m",
                "pytest",
                "--quiet",
                "-p",
                "no:cacheprovider",
                "-m",
                which,
            ])
            .env("CAROB_COMMAND", &command)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .current_dir(workspace.root.join("crates/python"));
        if !watch::succeeds(&mut pytest)? {
            return Ok(Outcome::Failed);
        }
    }
    Ok(Outcome::Passed)
}

/// An interpreter with the module `venv`.
struct Python {
    path: PathBuf,
    minor: u32,
}

/// Interpreters from the oldest supported version on: those on the path, and those of pyenv.
fn interpreters() -> Result<Vec<Python>> {
    let mut paths = vec![PathBuf::from("python3")];
    if let Some(home) = std::env::var_os("HOME") {
        let versions = Path::new(&home).join(".pyenv/versions");
        if versions.is_dir() {
            for entry in fs::read_dir(versions)? {
                paths.push(entry?.path().join("bin/python3"));
            }
        }
    }
    let mut found: Vec<Python> = Vec::new();
    for path in paths {
        let Some(minor) = minor(&path) else { continue };
        if minor >= OLDEST && found.iter().all(|python| python.minor != minor) {
            found.push(Python { path, minor });
        }
    }
    found.sort_by_key(|python| python.minor);
    Ok(found)
}

/// The minor version of a Python 3 that can make virtual environments.
fn minor(path: &Path) -> Option<u32> {
    let script =
        "import ensurepip, sys, venv; assert sys.version_info[0] == 3; print(sys.version_info[1])";
    let output = Command::new(path).args(["-c", script]).output().ok()?;
    if !output.status.success() {
        return None;
    }
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

/// A virtual environment with packages; one that is there is used again.
fn environment(folder: &Path, python: &Python, packages: &[&str]) -> Result<PathBuf> {
    let marker = folder.join("packages");
    let wanted = packages.join("\n");
    if fs::read_to_string(&marker).is_ok_and(|there| there == wanted) {
        return Ok(folder.to_owned());
    }
    let mut create = Command::new(&python.path);
    create.args(["-m", "venv", "--clear"]).arg(folder);
    process::must(&mut create)?;
    let mut install = Command::new(folder.join("bin/pip"));
    install
        .args(["install", "--quiet", "--disable-pip-version-check"])
        .args(packages);
    process::must(&mut install)?;
    fs::write(marker, wanted)?;
    Ok(folder.to_owned())
}

/// Builds the wheel with the release profile; none where the build fails.
fn build(workspace: &Workspace, folder: &Path, tools: &Path) -> Result<Option<PathBuf>> {
    let wheels = folder.join("wheels");
    if wheels.is_dir() {
        fs::remove_dir_all(&wheels)?;
    }
    let mut build = Command::new(tools.join("bin/maturin"));
    build
        .args([
            "build",
            "--release",
            "--locked",
            "--quiet",
            "--manifest-path",
        ])
        .arg(workspace.root.join("crates/python/Cargo.toml"))
        .arg("--out")
        .arg(&wheels)
        .env("CARGO_TARGET_DIR", workspace.target()?)
        .current_dir(&workspace.root);
    if !watch::succeeds(&mut build)? {
        return Ok(None);
    }
    let mut files = fs::read_dir(&wheels)?;
    let Some(wheel) = files.next() else {
        bail!("maturin left no wheel in {}", wheels.display());
    };
    Ok(Some(wheel?.path()))
}

/// The command of the same sources, with which the tests compare.
fn command(workspace: &Workspace) -> Result<PathBuf> {
    let mut build = process::cargo();
    build.args(["build", "--release", "--quiet", "--package", "carob-cli"]);
    process::must(build.current_dir(&workspace.root)).context("building the command")?;
    Ok(workspace.target()?.join("release/carob"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_python_is_that_of_the_package() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/python");
        let read = |name: &str| fs::read_to_string(folder.join(name)).expect("it is there");
        let project = read("pyproject.toml");
        assert!(project.contains(&format!("requires-python = \">=3.{OLDEST}\"")));
        assert!(read("Cargo.toml").contains(&format!("abi3-py3{OLDEST}")));
    }
}
