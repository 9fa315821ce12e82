//! Fault: clients that stop for good, and go on relaying: an artefact of a testbed (Vallati et al. 2020), no
//! part of CoAP.

use carob_cc::time::Instant;

use crate::mesh::Node;
use crate::random::Stream;
use crate::spec::mesh_traffic::ClientStops;

/// The state of a client.
#[derive(Debug)]
pub(super) struct StopState {
    stream: Stream,
    answered_at: Option<Instant>,
    has_stopped: bool,
}

impl StopState {
    pub(super) fn new(seed: u64, node: Node) -> Self {
        Self {
            stream: Stream::indexed(seed, "mesh/stop", node.into()),
            answered_at: None,
            has_stopped: false,
        }
    }

    /// Returns whether the client stopped for good.
    pub(super) fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    /// Draws at a response whether the client stops for good. Returns true if it does.
    pub(super) fn on_response(&mut self, now: Instant, stops: ClientStops) -> bool {
        let last = self.answered_at.replace(now);
        let is_soon = last.is_some_and(|last| now.since(last) < stops.within);
        self.has_stopped = is_soon && self.stream.happens(stops.probability);
        self.has_stopped
    }
}
