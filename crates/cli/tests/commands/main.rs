//! The client commands and the server as people and programs meet them: stdout, stderr, exit code.
#![cfg(unix)]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "these tests wait for real programs on real sockets"
)]

mod connections;
mod controllers;
mod harness;
mod help;
mod observing;
#[cfg(feature = "prometheus")]
mod operating;
mod profiles;
mod proxying;
mod requests;
mod secured;
mod serving;
mod terminal;
mod watching;
