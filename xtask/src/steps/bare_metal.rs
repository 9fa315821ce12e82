//! Proof that the controllers need no operating system: a build for a bare Cortex-M4.

use std::{fs, path::Path, process::Command};

use anyhow::Result;

use crate::{
    process,
    suite::{Outcome, watch},
    workspace::Workspace,
};

pub(crate) const TARGET: &str = "thumbv7em-none-eabi";
/// A compiler that ships the standard library's source, which a rustup toolchain may lack.
pub(crate) const DISTRIBUTION_RUSTC: &str = "/usr/bin/rustc";
pub(crate) const INSTALL: &str = "apt-get install rustc-web rust-web-src";

/// Crates built, and their parts of the standard library: `core` alone proves the absence of a
/// heap.
const BUILDS: &[(&str, &str)] = &[("carob-cc", "core"), ("carob-proto", "core,alloc")];

/// The program with which `tools/bench.py controllers` measures; it calls each method of a controller.
const FLASH: &str = "tools/flash";

/// Builds the portable crates for the bare target, in a separate build directory.
pub(crate) fn run(workspace: &Workspace) -> Result<Outcome> {
    if !has_library_source()? {
        return Ok(Outcome::Skipped(format!(
            "no library source to build from ({INSTALL})"
        )));
    }
    // Two compilers must not share a directory: each would rebuild the files of the other.
    let directory = workspace.target()?.join("bare-metal");
    let cargo = |library: &str| {
        let mut command = process::cargo();
        command
            .env("RUSTC", DISTRIBUTION_RUSTC)
            // `-Z build-std` asks for a nightly or for this.
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_TARGET_DIR", &directory)
            .args(["-Z", &format!("build-std={library}")]);
        command
    };
    for (package, library) in BUILDS {
        println!("{package} for {TARGET} with {library}");
        let mut command = cargo(library);
        command.args(["build", "--release", "--package", package]);
        command.args(["--target", TARGET]);
        if !watch::succeeds(command.current_dir(&workspace.root))? {
            return Ok(Outcome::Failed);
        }
    }
    println!("{FLASH} for {TARGET}");
    let subject = directory.join("subject.rs");
    fs::write(
        &subject,
        "use crate::Nothing as Subject;\nconst NAME: &str = \"nothing\";\n",
    )?;
    let mut command = cargo("core");
    command.env("FLASH_SUBJECT", &subject);
    command.args(["check", "--release", "--locked", "--target", TARGET]);
    watch::succeeds(command.current_dir(workspace.root.join(FLASH))).map(Outcome::of)
}

pub(crate) fn has_library_source() -> Result<bool> {
    if !Path::new(DISTRIBUTION_RUSTC).is_file() {
        return Ok(false);
    }
    let mut command = Command::new(DISTRIBUTION_RUSTC);
    let sysroot = process::output(command.args(["--print", "sysroot"]))?;
    Ok(Path::new(sysroot.trim())
        .join("lib/rustlib/src/rust/library/core")
        .is_dir())
}
