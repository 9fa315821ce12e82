//! The integration tests of `carob-cli`, one module a subject.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait for real programs, and stop at the first surprise"
)]

mod bench;
mod bench_secured;
mod commands;
mod files;
mod groups;
mod guide;
mod installed;
mod interop;
mod interop_dtls;
mod lab;
mod parity;
mod plugtest;
mod process;
mod slow_server;
