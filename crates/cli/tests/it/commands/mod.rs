//! Client and server commands: stdout, stderr and exit codes.
#![cfg(unix)]
mod connections;
mod controllers;
#[cfg(target_os = "linux")]
mod descriptors;
mod documented_json;
pub(crate) mod harness;
mod help;
mod observing;
mod operating;
mod peers;
mod proxying;
mod requests;
mod secured;
mod serving;
mod stdout;
mod terminal;
mod transmission;
mod usage;
mod watching;
#[cfg(unix)]
mod width;
