//! The integration tests of `carob-emu`, one module a subject.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests measure real time, and stop at the first surprise"
)]

mod link;
mod runs;

/// Prints past the test runner's capture that a test is skipped. `cargo xtask test` counts these lines.
pub(crate) fn skipped(reason: &str) {
    use std::io::Write as _;
    // stderr may be closed; tests must not fail for it.
    let _ = writeln!(std::io::stderr().lock(), "skipped: {reason}");
}
