//! Nothing is published without the feature `metrics`.

#![allow(clippy::unused_self, reason = "it stands for what has something to do")]

use carob_cc::time::Instant;
use carob_proto::endpoint::Endpoint;

use super::Load;

/// What has been published of an endpoint: nothing.
pub(super) struct Published;

impl Published {
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
pub(super) struct Stopwatch;

impl Stopwatch {
    pub(super) fn start(_: &'static str) -> Self {
        Self
    }

    pub(super) fn stop(&self) {}
}
