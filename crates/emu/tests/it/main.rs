//! The integration tests of `carob-emu`, one module a subject.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests measure real time, and stop at the first surprise"
)]

mod link;
mod runs;

/// Says past the test runner, which keeps what tests print, that a test cannot run here;
/// `cargo xtask test` counts these lines.
pub(crate) fn skipped(reason: &str) {
    use std::io::Write as _;
    // Nobody may be listening; the tests do not depend on it.
    let _ = writeln!(std::io::stderr().lock(), "skipped: {reason}");
}
