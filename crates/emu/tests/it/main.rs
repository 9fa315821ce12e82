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

/// Returns whether links can be emulated; otherwise prints that a test is skipped.
pub(crate) fn can_emulate() -> bool {
    let can_run = carob_emu::check().can_run();
    if !can_run {
        skipped("emulated links need the right to make namespaces and TUN devices (root)");
    }
    can_run
}
