//! The Python package: its types are checked, its source distribution is installed, and its wheel is built,
//! installed in fresh virtual environments, and tested there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Outcome, watch};
use crate::{carob, process, workspace::Workspace};

const INSTALL: &str = "apt-get install python3 python3-venv";
/// The oldest minor version of Python 3 that the package supports; `pyproject.toml` has it too.
const OLDEST: u32 = 10;
/// Packages that the tests and examples import, and what checks their types.
const TEST_PACKAGES: [&str; 16] = [
    "check-jsonschema>=0.30,<1",
    "mypy>=1.15,<3",
    "pytest>=8,<10",
    "distributed>=2024.1",
    "pyarrow>=16",
    "pandas>=2",
    "polars>=1",
    "tqdm>=4",
    "nbclient>=0.10",
    "ipykernel>=6",
    "aiocoap>=0.4.17",
    "matplotlib>=3.8",
    "altair>=5.4",
    "optuna>=4",
    "SALib>=1.5",
    "trustme>=1.2",
];
/// Files checked against the schema of workflows.
const WORKFLOWS: [&str; 3] = [
    ".github/workflows/ci.yml",
    ".github/workflows/release.yml",
    ".github/workflows/wheels.yml",
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
    let package = workspace.root.join("crates/python");
    let tests = |python: &Python| {
        let name = format!("test-3.{}", python.minor);
        environment(&folder.join(name), python, &TEST_PACKAGES)
    };
    let mut schema = Command::new(tests(newest)?.join("bin/check-jsonschema"));
    schema.args(["--builtin-schema", "vendor.github-workflows"]);
    schema.args(WORKFLOWS.map(|file| workspace.root.join(file)));
    process::must(&mut schema)?;
    let mut types = Command::new(tests(newest)?.join("bin/mypy"));
    types.arg("--cache-dir").arg(folder.join("mypy"));
    if !watch::succeeds(types.current_dir(&package))? {
        return Ok(Outcome::Failed);
    }
    println!("from the source distribution");
    install_from_source(workspace, &folder, newest, &tools)?;
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
        let test = tests(python)?;
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
            .current_dir(&package);
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

/// A run of maturin that writes to an emptied folder.
fn maturin(workspace: &Workspace, tools: &Path, arguments: &[&str], out: &Path) -> Result<Command> {
    if out.is_dir() {
        fs::remove_dir_all(out)?;
    }
    let mut command = Command::new(tools.join("bin/maturin"));
    command.args(arguments).arg("--manifest-path");
    command.arg(workspace.root.join("crates/python/Cargo.toml"));
    command.arg("--out").arg(out);
    command.env("CARGO_TARGET_DIR", workspace.target()?);
    // maturin looks for zig beside the first interpreter of the path.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(tools.join("bin")).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(path)?);
    command.current_dir(&workspace.root);
    Ok(command)
}

/// The only file of a folder.
fn only_file(folder: &Path) -> Result<PathBuf> {
    let mut files = fs::read_dir(folder)?;
    let Some(file) = files.next() else {
        bail!("maturin left no file in {}", folder.display());
    };
    Ok(file?.path())
}

/// Builds the wheel with the release profile; none where the build fails.
fn build(workspace: &Workspace, folder: &Path, tools: &Path) -> Result<Option<PathBuf>> {
    let wheels = folder.join("wheels");
    let arguments = ["build", "--release", "--locked", "--quiet"];
    let mut build = maturin(workspace, tools, &arguments, &wheels)?;
    if !watch::succeeds(&mut build)? {
        return Ok(None);
    }
    only_file(&wheels).map(Some)
}

/// Installs the source distribution in a fresh environment, which compiles it, and makes a run with it.
fn install_from_source(
    workspace: &Workspace,
    folder: &Path,
    python: &Python,
    tools: &Path,
) -> Result<()> {
    let sources = folder.join("sdist");
    process::must(&mut maturin(workspace, tools, &["sdist"], &sources)?)?;
    let archive = only_file(&sources)?;
    let (fresh, unpacked) = (folder.join("from-source"), folder.join("unpacked"));
    for path in [&fresh, &unpacked] {
        if path.is_dir() {
            fs::remove_dir_all(path)?;
        }
    }
    fs::create_dir_all(&unpacked)?;
    // Files of the archive have a fixed old time. With it, Cargo would take crates compiled from other
    // sources for theirs.
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--touch", "--gzip", "--strip-components=1"]);
    process::must(
        tar.arg("--file")
            .arg(&archive)
            .arg("--directory")
            .arg(&unpacked),
    )?;
    let fresh = environment(&fresh, python, &["pip"])?;
    let mut install = Command::new(fresh.join("bin/pip"));
    // A wheel of other sources with this name may be in the cache.
    install
        .args([
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-cache-dir",
        ])
        .arg(&unpacked)
        // Dependencies that are compiled already are used again.
        .env("CARGO_TARGET_DIR", workspace.target()?);
    process::must(&mut install)?;
    let script = "import carob; print(carob.scenario('thesis/exchange-udp').run(seeds=1))";
    // Not in the folder of the sources, whose package has no compiled part.
    let mut run = Command::new(fresh.join("bin/python"));
    process::must(run.args(["-c", script]).current_dir(folder))
}

/// The command of the same sources, with which the tests compare.
fn command(workspace: &Workspace) -> Result<PathBuf> {
    let mut build = process::cargo();
    build
        .args(["build", "--release", "--quiet"])
        .args(carob::FULL);
    process::must(build.current_dir(&workspace.root)).context("building the command")?;
    Ok(workspace.target()?.join("release/carob"))
}

/// Platform tags of PEP 600 and PEP 656 with their targets. maturin rejects a library that needs more than its
/// platform has.
const WHEELS: [(&str, &str); 2] = [
    ("manylinux_2_17", "x86_64-unknown-linux-gnu"),
    ("musllinux_1_2", MUSL),
];
const MUSL: &str = "x86_64-unknown-linux-musl";

/// A run of the lab, and a request to a server of the same process.
const SCRIPT: &str = "\
import asyncio, carob
from carob import aio
print(carob.scenario('thesis/exchange-udp').run(seeds=1))

async def hello(request):
    return 'hello'

async def request():
    server = aio.Server('127.0.0.1:0')
    server.resource('/hello')(hello)
    async with server, aio.Client(controller='carob') as client:
        return await client.get(server.addresses[0] + '/hello', timeout=10)

assert asyncio.run(request()).text == 'hello'
";

/// Builds wheels for an older glibc and for musl with zig as C compiler and linker, and runs the first.
pub(super) fn wheels(workspace: &Workspace) -> Result<Outcome> {
    let interpreters = interpreters()?;
    let (Some(oldest), Some(newest)) = (interpreters.first(), interpreters.last()) else {
        return Ok(Outcome::Skipped(format!("no Python ({INSTALL})")));
    };
    let folder = workspace.target()?.join("wheels");
    fs::create_dir_all(&folder)?;
    let packages = ["maturin>=1.9,<2", "ziglang>=0.14,<1"];
    let tools = environment(&folder.join("tools"), newest, &packages)?;
    for (tag, target) in WHEELS {
        if target == MUSL && !has_musl()? {
            let note = format!("no wheel for musl (rustup target add {MUSL})");
            return Ok(Outcome::PassedExcept(note));
        }
        let arguments = ["build", "--release", "--locked", "--quiet", "--zig"];
        let out = folder.join(tag);
        let mut build = maturin(workspace, &tools, &arguments, &out)?;
        build.args(["--compatibility", tag, "--target", target]);
        build.env("CARGO_TARGET_DIR", folder.join("build"));
        if !watch::succeeds(&mut build)? {
            return Ok(Outcome::Failed);
        }
        if target == MUSL {
            continue;
        }
        // Unpacked, not installed: an interpreter may have no pip.
        let unpacked = folder.join("unpacked");
        let mut unpack = Command::new(tools.join("bin/python"));
        unpack.args(["-m", "zipfile", "--extract"]);
        process::must(unpack.arg(only_file(&out)?).arg(&unpacked))?;
        let mut run = Command::new(&oldest.path);
        process::must(run.args(["-c", SCRIPT]).env("PYTHONPATH", unpacked))?;
    }
    Ok(Outcome::Passed)
}

fn has_musl() -> Result<bool> {
    let mut command = Command::new("rustc");
    command.args(["--print", "target-libdir", "--target", MUSL]);
    Ok(Path::new(process::output(&mut command)?.trim()).is_dir())
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
