//! Replacements of the types of `metrics` without the feature `metrics`.

#![allow(clippy::unused_self, reason = "it stands for what has something to do")]

use carob_cc::time::Instant;
use carob_proto::endpoint::Endpoint;

use crate::transport::TransportCounts;

/// Sizes of a task besides its engine's, for metrics.
#[cfg_attr(
    not(feature = "metrics"),
    allow(dead_code, reason = "nothing is published")
)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) handlers: usize,
    pub(super) handlers_limit: usize,
    pub(super) commands: usize,
    pub(super) notes: usize,
    pub(super) transport: TransportCounts,
}

/// The published metrics of an endpoint: none.
pub(super) struct MetricsPublisher;

impl MetricsPublisher {
    pub(super) fn new(_: &'static str, _: &'static str) -> Self {
        Self
    }

    pub(super) fn due(&self) -> Option<Instant> {
        None
    }

    pub(super) fn pass(&mut self, _: Instant) -> bool {
        false
    }

    pub(super) fn publish(&mut self, _: &Endpoint, _: &Load) {}
}

/// Measures nothing.
pub(crate) struct Stopwatch;

impl Stopwatch {
    pub(crate) fn start(_: &'static str) -> Self {
        Self
    }

    pub(crate) fn stop(&self) {}
}
