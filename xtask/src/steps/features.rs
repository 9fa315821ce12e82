//! The library as its users compile it: with default features alone, with none, with each, with all, and
//! with the declared minimum version of Rust.

use std::process::Command;

use anyhow::{Context, Result};

use super::{Outcome, watch};
use crate::{process, workspace::Workspace};

const PACKAGE: &str = "carob";
/// Features that add something together.
const TOGETHER: [&str; 1] = ["tls,websocket"];

/// Checks every set of features; with the minimum version of Rust too, if it is installed.
pub(super) fn run(workspace: &Workspace) -> Result<Outcome> {
    let metadata = metadata(workspace)?;
    for set in sets(&features(&metadata)?) {
        println!("cargo check -p {PACKAGE} {}", set.join(" "));
        let mut warned = false;
        let success = watch::lines(&mut check(workspace, &set), |line| {
            warned |= line.starts_with("warning");
            Some(line.to_owned())
        })?;
        if !success || warned {
            return Ok(Outcome::Failed);
        }
    }
    let minimum = minimum(&metadata)?;
    let compiler = installed()?;
    if compiler.starts_with(&format!("{minimum}.")) {
        return Ok(Outcome::Passed);
    }
    if !toolchain_exists(&minimum) {
        return Ok(Outcome::PassedExcept(format!(
            "Rust {minimum}, the declared minimum, is not installed; this is {compiler}"
        )));
    }
    let mut command = Command::new("rustup");
    command
        .args(["run", &minimum, "cargo", "check", "--quiet", "-p", PACKAGE])
        .env("CARGO_TARGET_DIR", workspace.target()?.join("minimum"))
        .current_dir(&workspace.root);
    watch::succeeds(&mut command).map(Outcome::of)
}

fn check(workspace: &Workspace, set: &[String]) -> Command {
    let mut command = process::cargo();
    command
        .args(["check", "--quiet", "-p", PACKAGE])
        .args(set)
        .current_dir(&workspace.root);
    command
}

/// The arguments of each check: defaults alone, none, each feature by itself, TLS with WebSocket, and all.
fn sets(features: &[String]) -> Vec<Vec<String>> {
    let none = "--no-default-features".to_owned();
    let mut sets = vec![Vec::new(), vec![none.clone()]];
    sets.extend(
        features
            .iter()
            .filter(|name| *name != "default")
            .map(|name| vec![none.clone(), "--features".to_owned(), name.clone()]),
    );
    sets.extend(
        TOGETHER.map(|names| vec![none.clone(), "--features".to_owned(), names.to_owned()]),
    );
    sets.push(vec!["--all-features".to_owned()]);
    sets
}

fn metadata(workspace: &Workspace) -> Result<serde_json::Value> {
    let mut command = process::cargo();
    command.args(["metadata", "--no-deps", "--format-version", "1"]);
    let text = process::output(command.current_dir(&workspace.root))?;
    let all: serde_json::Value = serde_json::from_str(&text)?;
    let packages = all["packages"].as_array().context("no packages")?;
    let package = packages.iter().find(|package| package["name"] == PACKAGE);
    package.cloned().context("no package `carob`")
}

fn features(package: &serde_json::Value) -> Result<Vec<String>> {
    let features = package["features"].as_object().context("no features")?;
    Ok(features.keys().cloned().collect())
}

fn minimum(package: &serde_json::Value) -> Result<String> {
    let version = package["rust_version"].as_str();
    version.map(str::to_owned).context("no rust-version")
}

/// The version of the compiler in use, such as 1.95.0.
fn installed() -> Result<String> {
    let text = process::output(Command::new("rustc").arg("--version"))?;
    let version = text.split(' ').nth(1).context("rustc names no version")?;
    Ok(version.to_owned())
}

fn toolchain_exists(version: &str) -> bool {
    let mut command = Command::new("rustup");
    let list = process::output(command.args(["toolchain", "list"])).unwrap_or_default();
    list.lines().any(|line| line.starts_with(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_is_checked_alone_beside_defaults_none_and_all() {
        let features = ["default", "metrics", "dtls"].map(str::to_owned);
        let sets: Vec<_> = sets(&features).iter().map(|set| set.join(" ")).collect();
        let expected = [
            "",
            "--no-default-features",
            "--no-default-features --features metrics",
            "--no-default-features --features dtls",
            "--no-default-features --features tls,websocket",
            "--all-features",
        ];
        assert_eq!(sets, expected);
    }
}
