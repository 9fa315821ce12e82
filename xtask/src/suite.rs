//! Tests: their builds, and their results from the output of `cargo test`.

pub(crate) mod binaries;
pub(crate) mod watch;

use std::{collections::BTreeMap, process::Command, time::Instant};

use anyhow::Result;

use crate::{process, workspace::Workspace};
use binaries::Binary;

/// The end of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// Passed, but a part could not be checked here; the text names it and the reason.
    PassedExcept(String),
    Failed,
    /// Not run; the text names the missing tool and its installation.
    Skipped(String),
}

impl Outcome {
    pub(crate) fn of(success: bool) -> Self {
        if success { Self::Passed } else { Self::Failed }
    }
}

/// Interop tests carry this in their path, so that they run once, in the step `interop`.
pub(crate) const INTEROP_PREFIX: &str = "interop_";
/// Command line of a build of all tests; each step that needs a part of it uses the same, so that nothing is
/// compiled twice.
///
/// The Python package has no Rust tests, and brings the Arrow crates. Clippy compiles it with every change.
pub(crate) const TESTS: [&str; 6] = [
    "test",
    "--workspace",
    "--exclude",
    "carob-python",
    "--features",
    "carob-cli/full",
];

/// Builds all tests, and the command with all features for them; `None` if that fails.
pub(crate) fn build_tests(workspace: &Workspace) -> Result<Option<Vec<Binary>>> {
    let begin = Instant::now();
    let mut command = process::cargo();
    // Targets that have tests; clippy compiles the examples.
    command.args(TESTS).arg("--tests");
    let binaries = binaries::build(command.current_dir(&workspace.root))?;
    println!("tests built in {} s", begin.elapsed().as_secs());
    Ok(binaries)
}

/// Builds an example with the builds of the tests.
pub(crate) fn build_example(workspace: &Workspace, name: &str) -> Result<bool> {
    let mut command = process::cargo();
    command.arg("build").args(&TESTS[1..]);
    command.args(["--quiet", "--example", name]);
    watch::succeeds(command.current_dir(&workspace.root))
}

/// Counts of one or more test binaries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Tests that libtest calls ok: those that passed, and those that could not run.
    ok: usize,
    pub(crate) failed: Vec<String>,
    /// Reasons with the number of tests that could not run because of them. libtest has no such outcome
    /// and counts them as passed; here they are not.
    pub(crate) skipped: BTreeMap<String, usize>,
}

/// Line of a test that could not run: `skipped: REASON`.
const SKIPPED: &str = "skipped: ";

impl Tally {
    pub(crate) fn passed(&self) -> usize {
        self.ok.saturating_sub(self.skips())
    }

    pub(crate) fn skips(&self) -> usize {
        self.skipped.values().sum()
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.ok += other.ok;
        self.failed.extend(other.failed);
        for (reason, count) in other.skipped {
            *self.skipped.entry(reason).or_default() += count;
        }
    }

    /// Takes a line of the output; returns the text to print.
    pub(crate) fn take(&mut self, line: &str) -> Option<String> {
        // A test that writes past the runner may begin its line in the middle of another.
        if let Some((_, reason)) = line.split_once(SKIPPED) {
            *self.skipped.entry(reason.to_owned()).or_default() += 1;
            return None;
        }
        if let Some((name, how)) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.rsplit_once(" ... "))
        {
            match how {
                "ok" => self.ok += 1,
                "FAILED" => self.failed.push(name.to_owned()),
                _ => {}
            }
            return (how == "FAILED").then(|| line.to_owned());
        }
        let noise = line.is_empty()
            || line.starts_with("running ")
            || line.contains("has been running for over");
        (!noise).then(|| line.to_owned())
    }
}

/// Runs a `cargo test` command; prints failures, binaries and their counts.
///
/// # Errors
/// When the command cannot be started.
pub(crate) fn run(command: &mut Command) -> Result<(bool, Tally)> {
    let mut tally = Tally::default();
    let success = watch::lines(command, |line| tally.take(line))?;
    Ok((success, tally))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_failed_and_skipped_tests_are_counted() {
        let output = [
            "     Running tests/it/main.rs (target/debug/deps/it-1)",
            "running 4 tests",
            "test a::passes ... ok",
            "skipped: go-coap (cargo xtask peers)",
            "test b::cannot_run ... ok",
            "test c::fails ... FAILED",
            "skipped: go-coap (cargo xtask peers)",
            "test d::cannot_run_either ... ok",
            "test result: FAILED. 3 passed; 1 failed",
        ];
        let mut tally = Tally::default();
        let shown: Vec<_> = output.iter().filter_map(|line| tally.take(line)).collect();
        assert_eq!((tally.passed(), tally.skips()), (1, 2));
        assert_eq!(tally.failed, ["c::fails"]);
        assert_eq!(tally.skipped["go-coap (cargo xtask peers)"], 2);
        assert_eq!(shown, [output[0], output[5], output[8]]);
    }
}
