//! The place of a connection: its link, or the attempt to make one, and the bytes staged for it.

use bytes::BytesMut;
use carob_proto::codec::Framing;
use tokio::task::AbortHandle;

use super::link::Link;

/// A connection, or an attempt to open one.
pub(super) struct Place {
    pub(super) link: u64,
    pub(super) link_or_try: LinkOrTry,
    /// Written by the engine and not yet handed over.
    pub(super) staged: BytesMut,
    /// Set when the buffer has grown beyond [`STAGED_KEPT`](super::STAGED_KEPT).
    pub(super) was_large: bool,
    /// The end of each staged message, for WebSocket.
    pub(super) ends: Vec<usize>,
    pub(super) congested: bool,
}

pub(super) enum LinkOrTry {
    Link(Link),
    Try { _task: AbortOnDrop },
}

/// A task that ends with its owner.
pub(super) struct AbortOnDrop(pub(super) AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Place {
    pub(super) fn new(link: u64, link_or_try: LinkOrTry) -> Self {
        Self {
            link,
            link_or_try,
            staged: BytesMut::new(),
            was_large: false,
            ends: Vec::new(),
            congested: false,
        }
    }

    pub(super) fn hand_over(&mut self, framing: Framing) {
        let LinkOrTry::Link(link) = &self.link_or_try else {
            return;
        };
        match framing {
            Framing::Stream => {
                if !self.staged.is_empty() {
                    link.write(self.staged.split().freeze());
                }
            }
            Framing::WebSocket => {
                let mut taken = 0;
                for end in self.ends.drain(..) {
                    link.write(self.staged.split_to(end - taken).freeze());
                    taken = end;
                }
            }
        }
        // The remainder would retain the whole large allocation.
        if self.was_large {
            (self.staged, self.was_large) = (BytesMut::new(), false);
        }
    }
}
