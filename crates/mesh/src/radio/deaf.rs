//! Fault: a node that is deaf for a time after each frame addressed to it, as one whose processor is busy.

use carob_cc::time::{Duration, Instant};

use super::Node;

/// A node that receives no frame addressed to it for a time after each one that it received.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeafNode {
    node: Node,
    time: Duration,
    until: Instant,
}

impl DeafNode {
    /// A node with this time; `None` if the time is zero.
    pub(super) fn new(node: Node, time: Duration) -> Option<Self> {
        let until = Instant::ZERO;
        (!time.is_zero()).then_some(Self { node, time, until })
    }

    /// Returns whether `node` misses a frame addressed to `to`. It does not acknowledge missed frames.
    pub(super) fn misses(&mut self, now: Instant, node: Node, to: Node) -> bool {
        if node != self.node || to != node {
            return false;
        }
        if now < self.until {
            return true;
        }
        self.until = now + self.time;
        false
    }
}
