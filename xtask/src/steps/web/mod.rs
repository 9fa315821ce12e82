//! The lab's page: `web/` and `crates/web` as WebAssembly in `target/web`, the same as a single file, their sizes, and
//! their tests in Chromium.

mod checks;
mod chromium;
mod rows;
mod single;
mod tasks;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use super::{Outcome, bare_metal, watch};
use crate::{carob, process, workspace::Workspace};

const TARGET: &str = "wasm32-unknown-unknown";
const LINKER: &str = "/usr/bin/wasm-ld-16";
const INSTALL: &str = "apt-get install rustc-web rust-web-src lld-16";
/// The page as a single file, beside its folder.
const SINGLE: &str = "carob-lab.html";
/// The largest sum of all files, each compressed by gzip, in bytes.
const SIZE_MAX: u64 = 1_500_000;

/// Builds the page in `target/web`, and as a single file in `target/carob-lab.html`.
///
/// # Errors
/// If files cannot be read or written.
pub(crate) fn build(workspace: &Workspace) -> Result<Outcome> {
    if !Path::new(LINKER).is_file() || !bare_metal::has_library_source()? {
        return Ok(Outcome::Skipped(format!(
            "no compiler and linker for WebAssembly ({INSTALL})"
        )));
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
        let path = entry?.path();
        let name = path.file_name().context("a file of the page has a name")?;
        fs::copy(&path, site.join(name))?;
    }
    fs::copy(&module, site.join("lab.wasm"))?;
    let single = site.with_file_name(SINGLE);
    fs::write(&single, single::page(&site)?)?;
    size(&site, &single)
}

/// Builds the page, then opens it in Chromium.
///
/// # Errors
/// If files cannot be read or written, or a program cannot be started.
pub(super) fn test(workspace: &Workspace) -> Result<Outcome> {
    let built = build(workspace)?;
    if built != Outcome::Passed {
        return Ok(built);
    }
    if process::find("chromium").is_none() {
        return Ok(Outcome::PassedExcept(
            "page not opened: no chromium (apt-get install chromium)".to_owned(),
        ));
    }
    carob::build(workspace)?;
    let wrong = checks::run(workspace, &workspace.target()?.join("web"))?;
    for line in &wrong {
        println!("{line}");
    }
    Ok(Outcome::of(wrong.is_empty()))
}

/// The module, compiled for speed.
fn compile(workspace: &Workspace) -> Result<Option<PathBuf>> {
    // Two compilers must not share a directory: each would rebuild what the other left.
    let directory = workspace.target()?.join("wasm");
    let mut build = process::cargo();
    build
        .env("RUSTC", bare_metal::DISTRIBUTION_RUSTC)
        // `-Z build-std` asks for a nightly or for this.
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

/// Prints the size of each file, and judges their sum without the single file.
fn size(site: &Path, single: &Path) -> Result<Outcome> {
    let mut files: Vec<PathBuf> = fs::read_dir(site)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.sort();
    let sizes = |file: &Path| -> Result<[u64; 2]> {
        let gzip = Command::new("gzip").args(["-9", "-c"]).arg(file).output();
        let gzip = gzip.context("cannot start gzip")?;
        ensure!(gzip.status.success(), "gzip failed: {}", gzip.status);
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let sizes = [fs::metadata(file)?.len(), gzip.stdout.len() as u64];
        println!("{name:<14} {:>9} B {:>9} B compressed", sizes[0], sizes[1]);
        Ok(sizes)
    };
    let (mut plain, mut compressed) = (0, 0);
    for file in &files {
        let [bytes, packed] = sizes(file)?;
        plain += bytes;
        compressed += packed;
    }
    println!("{:<14} {plain:>9} B {compressed:>9} B compressed", "all");
    sizes(single)?;
    if compressed > SIZE_MAX {
        println!("the page is larger than {SIZE_MAX} B");
    }
    Ok(Outcome::of(compressed <= SIZE_MAX))
}
