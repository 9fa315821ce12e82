//! The integration tests of `carob-lab`, one module a subject.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod any_network;
mod metric_table;
mod stress;
mod trace_hashes;
