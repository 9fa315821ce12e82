//! Client and server commands: stdout, stderr and exit codes.
#![cfg(unix)]
mod connections;
mod controllers;
mod documented_json;
pub(crate) mod harness;
mod observing;
mod operating;
mod peers;
mod proxying;
mod requests;
mod secured;
mod serving;
mod terminal;
mod usage;
mod usage_errors;
mod watching;
#[cfg(unix)]
mod width;
