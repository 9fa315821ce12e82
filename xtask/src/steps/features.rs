//! Crates with features as their users compile them: with default features alone, with none, with each, with
//! all, and the library with the declared minimum version of Rust too.

use std::process::Command;

use anyhow::{Context, Result};

use crate::{
    process,
    suite::{Outcome, watch},
    workspace::Workspace,
};

const LIBRARY: &str = "carob";
/// Each crate, and features of it that add something together.
const PACKAGES: [(&str, &[&str]); 3] = [
    (LIBRARY, &["tls,websocket"]),
    ("carob-sim", &[]),
    ("carob-cli", &["tls,websocket"]),
];

/// Checks every set of features; the library with the minimum version of Rust too, if it is installed.
pub(super) fn run(workspace: &Workspace) -> Result<Outcome> {
    let metadata = workspace.metadata()?;
    for (package, together) in PACKAGES {
        for set in sets(&features(of(&metadata, package)?)?, together) {
            println!("cargo check -p {package} {}", set.join(" "));
            let mut warned = false;
            let success = watch::lines(&mut check(workspace, package, &set), |line| {
                warned |= line.starts_with("warning");
                Some(line.to_owned())
            })?;
            if !success || warned {
                return Ok(Outcome::Failed);
            }
        }
    }
    let minimum = minimum(of(&metadata, LIBRARY)?)?;
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
        .args(["run", &minimum, "cargo", "check", "--quiet", "-p", LIBRARY])
        .env("CARGO_TARGET_DIR", workspace.target()?.join("minimum"))
        .current_dir(&workspace.root);
    watch::succeeds(&mut command).map(Outcome::of)
}

/// Runs the default build of the command: README's first command, and commands that the build lacks.
pub(super) fn default_build(workspace: &Workspace) -> Result<Outcome> {
    let mut build = process::cargo();
    build.args(["build", "--release", "--locked"]);
    if !watch::succeeds(build.current_dir(&workspace.root))? {
        return Ok(Outcome::Failed);
    }
    let program = workspace.target()?.join("release/carob");
    let answer = process::output(&mut Command::new(&program))?;
    let mut failed = !answer.starts_with("Use ") && !answer.contains("\nUse ");
    for (words, remedy) in [
        (&["analyze", "x.pcap"][..], "--features analyze"),
        (&["lab", "emulate", "thesis/long"], "--features emulate"),
        (&["serve", "--dtls"], "--features dtls"),
        (&["get", "coaps+tcp://127.0.0.1/"], "--features tls"),
        (&["lab", "claims"], "carob-studies claims"),
    ] {
        let output = Command::new(&program).args(words).output()?;
        let text = String::from_utf8_lossy(&output.stderr);
        if output.status.success() || !text.contains(remedy) {
            println!("`carob {}` does not name {remedy}: {text}", words.join(" "));
            failed = true;
        }
    }
    Ok(Outcome::of(!failed))
}

fn check(workspace: &Workspace, package: &str, set: &[String]) -> Command {
    let mut command = process::cargo();
    command
        .args(["check", "--quiet", "-p", package])
        .args(set)
        .current_dir(&workspace.root);
    command
}

/// The arguments of each check: defaults alone, none, each feature by itself, those that belong together, and
/// all.
fn sets(features: &[String], together: &[&str]) -> Vec<Vec<String>> {
    let none = "--no-default-features".to_owned();
    let mut sets = vec![Vec::new(), vec![none.clone()]];
    sets.extend(
        features
            .iter()
            .filter(|name| *name != "default")
            .map(|name| vec![none.clone(), "--features".to_owned(), name.clone()]),
    );
    sets.extend(
        together
            .iter()
            .map(|names| vec![none.clone(), "--features".to_owned(), (*names).to_owned()]),
    );
    sets.push(vec!["--all-features".to_owned()]);
    sets
}

fn of<'a>(metadata: &'a serde_json::Value, name: &str) -> Result<&'a serde_json::Value> {
    let packages = metadata["packages"].as_array().context("no packages")?;
    let package = packages.iter().find(|package| package["name"] == name);
    package.with_context(|| format!("no package `{name}`"))
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
        let sets: Vec<_> = sets(&features, &["tls,websocket"])
            .iter()
            .map(|set| set.join(" "))
            .collect();
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
