//! The integration tests of `carob-studies`, one module a subject.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod claims;
mod cocoaplus;
mod command;
#[path = "../../../cli/tests/it/console/mod.rs"]
#[allow(dead_code, reason = "the tests of `carob` use more of it")]
mod console;
mod emulated;
mod nonobserve;
mod own_study;
#[path = "../../../cli/tests/it/program.rs"]
#[allow(dead_code, reason = "the tests of `carob` use more of it")]
mod program;
mod reproduce;
mod rpl;
mod thesis_long;
mod wireless;

/// The program that these tests run.
const PROGRAM: &str = env!("CARGO_BIN_EXE_carob-studies");

/// Prints past the test runner's capture that a test is skipped. `cargo xtask test` counts these lines.
fn skipped(reason: &str) {
    use std::io::Write as _;
    // stderr may be closed; tests must not fail for it.
    let _ = writeln!(std::io::stderr().lock(), "skipped: {reason}");
}

#[test]
fn readme_counts_match_the_claims_page() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let claims = read("papers/claims.md");
    let all = claims.lines().find(|line| line.starts_with("| all |"));
    let counts: Vec<&str> = all
        .expect("a row of all studies")
        .split('|')
        .map(str::trim)
        .collect();
    let sentence = format!(
        "Of {} findings of five studies {} hold and {} hold in part",
        counts[2], counts[3], counts[4]
    );
    assert!(read("README.md").contains(&sentence), "{sentence}");
}
