//! The integration tests of `carob-cli`, one module a subject.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait for real programs, and stop at the first surprise"
)]

mod analyze;
mod bench;
mod bench_secured;
mod browser;
mod commands;
mod console;
mod files;
mod groups;
mod installed;
#[macro_use]
mod interop;
mod interop_dtls;
mod lab;
mod memory;
mod own_controller;
mod pages;
mod parity;
mod plugtest;
mod process;
mod program;
mod proxy_own_host;
mod responder;
mod slow_server;

/// The program that these tests run.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_carob");

/// Prints past the test runner's capture that a test is skipped. `cargo xtask test` counts these lines.
pub(crate) fn skipped(reason: &str) {
    use std::io::Write as _;
    // stderr may be closed; tests must not fail for it.
    let _ = writeln!(std::io::stderr().lock(), "skipped: {reason}");
}
