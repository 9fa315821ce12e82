//! Metrics of endpoints through the [`metrics`](::metrics) facade (feature `metrics`), with an
//! exporter for Prometheus (feature `prometheus`).
//!
//! Install any recorder of the facade before endpoints are opened, for example
//! [`Prometheus::install`]. Every endpoint of the process publishes its counters when it starts,
//! once a second ([`INTERVAL`]) while it is active, and when it stops. The counters of the engine
//! are plain integers: a request costs one addition for each that it changes, and no lock, lookup
//! or allocation, with or without a recorder.
//!
#![doc = include_str!("names.md")]
//!
//! Labels have a bounded number of values: `scheme` is the URI scheme of an endpoint, `method` a method
//! of the registry or `other`, `code` a response code, `other` or `none`, `kind` one of `request`,
//! `response` and `notification`. No label is taken from an address, a path or an option.

mod names;
#[cfg(feature = "prometheus")]
mod prometheus;

use std::time::Duration;

pub use names::describe;
pub(crate) use names::*;
#[cfg(all(
    any(test, fuzzing),
    feature = "dtls",
    feature = "prometheus",
    feature = "websocket"
))]
pub(crate) use prometheus::respond_to_scraper;
#[cfg(feature = "prometheus")]
pub use prometheus::{InstallError, Prometheus};

/// Interval at which an active endpoint publishes its metrics: 1 s.
pub const INTERVAL: Duration = Duration::from_secs(1);
