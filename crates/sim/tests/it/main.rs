//! The integration tests of `carob-sim`, one module a subject.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod connections;
mod crowds;
mod faults;
mod fleet;
mod groups;
mod mesh;
mod notifications;
mod periodic;
mod server;
mod specs;
mod tcp_bbr3;
mod tcp_common;
mod tcp_properties;
mod tcp_recovery;
mod tcp_rules;
