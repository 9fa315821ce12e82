//! The programs the interop tests talk to: where they are and how they are installed.

use std::{env, fs, path::PathBuf, process::Command};

use anyhow::{Context, Result, bail};

use crate::{process, workspace::Workspace};

/// The version the interop tests were written against.
const AIOCOAP: &str = "aiocoap==0.4.17";
const DEBIAN_PACKAGES: &[&str] = &["libcoap3-bin", "libcoap3-dev", "python3-venv"];
const LIBCOAP_PROGRAMS: &[&str] = &["coap-client-notls", "coap-server-notls"];

/// Where the Python environment of the peers lives.
///
/// `CAROB_PEERS_DIR`, or `target/peers` below the repository. The interop tests use the same rule.
pub(crate) fn directory(workspace: &Workspace) -> PathBuf {
    match env::var_os("CAROB_PEERS_DIR") {
        Some(directory) => PathBuf::from(directory),
        None => workspace.root.join("target/peers"),
    }
}

/// The names of the peers that are not installed.
pub(crate) fn missing(workspace: &Workspace) -> Vec<&'static str> {
    let mut names = Vec::new();
    if LIBCOAP_PROGRAMS
        .iter()
        .any(|program| process::find(program).is_none())
    {
        names.push("libcoap");
    }
    if !has_aiocoap(workspace) {
        names.push("aiocoap");
    }
    names
}

/// Installs whatever is missing and says what it did.
///
/// # Errors
/// When an installer fails, or is not there (then the message says what to install by hand).
pub(crate) fn install(workspace: &Workspace) -> Result<()> {
    if missing(workspace).contains(&"libcoap") {
        install_packages()?;
    } else {
        println!("libcoap: already installed");
    }
    if missing(workspace).contains(&"aiocoap") {
        install_aiocoap(workspace)?;
    } else {
        println!(
            "aiocoap: already installed in {}",
            directory(workspace).display()
        );
    }
    match missing(workspace).as_slice() {
        [] => Ok(()),
        names => bail!("still missing after the installation: {}", names.join(", ")),
    }
}

fn install_packages() -> Result<()> {
    let by_hand = format!("apt-get install {}", DEBIAN_PACKAGES.join(" "));
    if process::find("apt-get").is_none() {
        bail!(
            "libcoap's programs {} are not on the PATH and there is no apt-get; on Debian it would be `{by_hand}`",
            LIBCOAP_PROGRAMS.join(" and ")
        );
    }
    println!("libcoap: {by_hand}");
    let mut command = Command::new("apt-get");
    command
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args([
            "install",
            "-y",
            "-qq",
            "--no-install-recommends",
            "-o",
            "DPkg::Lock::Timeout=300",
        ])
        .args(DEBIAN_PACKAGES);
    process::must(&mut command)
        .with_context(|| format!("as root and after `apt-get update`, `{by_hand}` should do it"))
}

fn install_aiocoap(workspace: &Workspace) -> Result<()> {
    let directory = directory(workspace);
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    let venv = directory.join("venv");
    println!("aiocoap: {AIOCOAP} into {}", venv.display());
    let mut create = Command::new("python3");
    process::must(create.args(["-m", "venv"]).arg(&venv))
        .context("Python's venv is needed (Debian: `apt-get install python3-venv`)")?;
    let mut install = Command::new(venv.join("bin/pip"));
    process::must(install.args(["install", "--quiet", "--disable-pip-version-check", AIOCOAP]))
}

fn has_aiocoap(workspace: &Workspace) -> bool {
    let python = directory(workspace).join("venv/bin/python");
    python.is_file()
        && Command::new(python)
            .args(["-c", "import aiocoap"])
            .output()
            .is_ok_and(|output| output.status.success())
}
