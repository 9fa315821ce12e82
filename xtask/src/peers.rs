//! `cargo xtask peers`: installs and builds the programs the interop tests talk to.

#[path = "../../crates/cli/tests/it/installed.rs"]
mod installed;

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, bail};
use installed::Peer;

use crate::{process, workspace::Workspace};

const LIBCOAP_PACKAGES: &[&str] = &["libcoap3-bin", "libcoap3-dev"];

/// The names of the peers that are not installed, or not as their sources are now.
pub(crate) fn missing(workspace: &Workspace) -> Vec<&'static str> {
    let root = &workspace.root;
    let all = Peer::ALL.into_iter();
    all.filter(|peer| !peer.is_current(root))
        .map(Peer::name)
        .collect()
}

/// Installs peers that are missing or out of date, and prints its actions.
///
/// # Errors
/// When a peer could not be installed; the others are all the same.
pub(crate) fn install(workspace: &Workspace) -> Result<()> {
    let root = &workspace.root;
    for peer in Peer::ALL {
        let name = peer.name();
        if peer.is_current(root) {
            println!("{name}: already installed");
            continue;
        }
        println!("{name}: installing");
        if let Err(error) = install_one(root, peer) {
            println!("{name}: NOT installed: {error:#}");
        }
    }
    match missing(workspace).as_slice() {
        [] => Ok(()),
        names => bail!("not installed: {}", names.join(", ")),
    }
}

fn install_one(root: &Path, peer: Peer) -> Result<()> {
    if peer == Peer::Libcoap {
        return install_packages();
    }
    let (sources, built) = (peer.sources(root), peer.built(root));
    fs::create_dir_all(&built).with_context(|| format!("cannot create {}", built.display()))?;
    // Taken before the build: later changes are built the next time.
    let stamp = peer.stamp(root)?;
    let stamp_file = peer.stamp_file(root);
    if stamp_file.exists() {
        // Half a build must not look like the last whole one.
        fs::remove_file(&stamp_file)?;
    }
    match peer {
        Peer::Libcoap => {}
        Peer::Aiocoap => download_aiocoap(&sources, &built)?,
        Peer::Californium => build_californium(&sources, &built)?,
        Peer::GoCoap => build_go_coap(&sources, &built)?,
    }
    fs::write(&stamp_file, stamp).with_context(|| format!("cannot write {}", stamp_file.display()))
}

fn install_packages() -> Result<()> {
    let by_hand = format!("apt-get install {}", LIBCOAP_PACKAGES.join(" "));
    if process::find("apt-get").is_none() {
        bail!(
            "its example programs are not on the PATH and there is no apt-get; on Debian it would be `{by_hand}`"
        );
    }
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
        .args(LIBCOAP_PACKAGES);
    process::must(&mut command)
        .with_context(|| format!("as root and after `apt-get update`, `{by_hand}` should do it"))
}

fn download_aiocoap(sources: &Path, built: &Path) -> Result<()> {
    need("python3", "Debian: `apt-get install python3 python3-venv`")?;
    let venv = built.join("venv");
    let mut create = Command::new("python3");
    process::must(create.args(["-m", "venv"]).arg(&venv))
        .context("Python's venv is needed (Debian: `apt-get install python3-venv`)")?;
    let mut install = Command::new(venv.join("bin/pip"));
    install.args(["install", "--quiet", "--disable-pip-version-check", "-r"]);
    process::must(install.arg(sources.join("requirements.txt")))
}

fn build_californium(sources: &Path, built: &Path) -> Result<()> {
    let remedy = "Debian: `apt-get install maven openjdk-17-jdk-headless`";
    need("mvn", remedy)?;
    need("java", remedy)?;
    // Classes and libraries of an earlier version would otherwise stay among the new ones.
    for folder in ["classes", "lib", "maven-status"] {
        let folder = built.join(folder);
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
    }
    let mut out = std::ffi::OsString::from("-Dout=");
    out.push(std::path::absolute(built)?);
    let mut maven = Command::new("mvn");
    maven
        .args(["--batch-mode", "--quiet", "-Dstyle.color=never"])
        .arg(out)
        .args(["compiler:compile", "dependency:copy-dependencies"]);
    process::must(maven.current_dir(sources))
}

fn build_go_coap(sources: &Path, built: &Path) -> Result<()> {
    need("go", "Go 1.21 or newer; Debian 12 has it in its backports")?;
    let mut go = Command::new("go");
    // Without a version-control stamp, which needs a repository that git trusts.
    go.args(["build", "-buildvcs=false", "-o"])
        .arg(std::path::absolute(built)?)
        .arg("./...");
    process::must(go.current_dir(sources))
}

fn need(program: &str, remedy: &str) -> Result<()> {
    if process::find(program).is_none() {
        bail!("`{program}` is not on the PATH ({remedy})");
    }
    Ok(())
}
