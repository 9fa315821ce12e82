//! What endpoints tell those who watch a fleet, through the [`metrics`](::metrics) facade (feature
//! `metrics`), with a small exporter for Prometheus (feature `prometheus`).
//!
//! Install a recorder, any of the facade's, and every endpoint of the process tells it what it has
//! counted: when it starts, once a second ([`INTERVAL`]) while something happens, and when it ends.
//! The engine's counters are plain numbers, so a request costs an addition for each that it touches
//! and no lock, lookup or allocation, whether anybody listens or not.
//!
#![doc = include_str!("names.md")]
//!
//! Labels are bounded by the protocol: `scheme` is the URI scheme of an endpoint, `method` a method
//! of the registry or `other`, `code` a response code, `other` or `none`, `kind` one of `request`,
//! `response` and `notification`. No label is taken from an address, a path or an option.

mod names;
#[cfg(feature = "prometheus")]
mod prometheus;

use std::time::Duration;

pub use names::describe;
pub(crate) use names::*;
#[cfg(all(feature = "prometheus", any(test, fuzzing)))]
pub(crate) use prometheus::respond_to_scraper;
#[cfg(feature = "prometheus")]
pub use prometheus::{InstallError, Prometheus};

/// How often an endpoint to which something happens publishes what it has counted.
pub const INTERVAL: Duration = Duration::from_secs(1);
