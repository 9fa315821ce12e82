//! The lab in WebAssembly: the default comparison in Node has the numbers of the command, to the last bit.

use std::{path::Path, process::Command};

use anyhow::Result;

use super::{Outcome, bare_metal, watch};
use crate::{process, workspace::Workspace};

const TARGET: &str = "wasm32-unknown-unknown";
const LINKER: &str = "/usr/bin/wasm-ld-16";
const INSTALL: &str = "apt-get install rustc-web rust-web-src lld-16 nodejs";
/// Runs of each cell and algorithm.
const SEEDS: &str = "3";

/// Builds the example `browser` for the target, runs it in Node, and compares its rows.
pub(super) fn run(workspace: &Workspace) -> Result<Outcome> {
    let node = Command::new("node").arg("--version").output().is_ok();
    if !node || !Path::new(LINKER).is_file() || !bare_metal::has_library_source()? {
        return Ok(Outcome::Skipped(format!(
            "no compiler, linker and Node for WebAssembly ({INSTALL})"
        )));
    }
    // Two compilers must not share a directory: each would rebuild what the other left.
    let directory = workspace.target()?.join("wasm");
    let mut build = process::cargo();
    build
        .env("RUSTC", bare_metal::DISTRIBUTION_RUSTC)
        // `-Z build-std` asks for a nightly or for this.
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_DIR", &directory)
        .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", LINKER)
        // Numbers are the same at any level, and the build is half of this step.
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
        .args(["build", "--release", "--package", "carob-lab"])
        .args(["--example", "browser", "--target", TARGET])
        .args(["-Z", "build-std=std,panic_abort"]);
    if !watch::succeeds(build.current_dir(&workspace.root))? {
        return Ok(Outcome::Failed);
    }
    let module = directory.join(TARGET).join("release/examples/browser.wasm");
    let mut node = Command::new("node");
    node.arg(workspace.root.join("crates/lab/examples/browser.mjs"))
        .arg(module)
        .arg(SEEDS);
    let in_node = process::output(&mut node)?;
    let mut native = process::cargo();
    native
        .args([
            "run",
            "--quiet",
            "--package",
            "carob-cli",
            "--",
            "lab",
            "run",
        ])
        .args(["--seeds", SEEDS, "--each", "--json"]);
    let native = process::output(native.current_dir(&workspace.root))?;
    Ok(match first_difference(&native, &in_node) {
        None => {
            println!("{} runs: the same rows in Node", native.lines().count());
            Outcome::Passed
        }
        Some(line) => {
            let of = |text: &str| text.lines().nth(line).unwrap_or("nothing").to_owned();
            println!(
                "run {line} differs\nnative: {}\nNode:   {}",
                of(&native),
                of(&in_node)
            );
            Outcome::Failed
        }
    })
}

/// The first line in which two texts differ, counted from 0. Nothing equals an empty text.
fn first_difference(one: &str, other: &str) -> Option<usize> {
    if one.is_empty() {
        return Some(0);
    }
    let mut pairs = one.lines().zip(other.lines());
    let different = pairs.position(|(one, other)| one != other);
    let (lines, others) = (one.lines().count(), other.lines().count());
    different.or((lines != others).then_some(lines.min(others)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_or_is_missing_is_found() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some(1));
        assert_eq!(first_difference("a\nb\n", "a\n"), Some(1));
        assert_eq!(first_difference("", ""), Some(0));
    }
}
