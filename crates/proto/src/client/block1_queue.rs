//! Serialization of block-wise request bodies to one resource.
//!
//! Block1 cannot distinguish two bodies from one endpoint to the same resource (RFC 7959 2.5): a
//! server would mix their blocks. The second therefore waits for the response to the first.
//! [`Limits::requests`](super::super::Limits::requests) bounds the waiting requests.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hashbrown::HashMap;

use crate::address::PeerIndex;
use crate::cache_key::CacheKey;
use crate::codec::Options;
use crate::tables::keyed_hash::KeyedState;

/// The identity of a resource: a peer, and its URI options.
type Resource = (PeerIndex, Vec<u8>);

/// The Cache-Key of a resource.
pub(crate) fn resource_bytes(options: &Options) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32);
    CacheKey::Resource.write_options(options, &mut bytes);
    bytes
}

/// Queues of operations with a block-wise body, one per resource; the first of each may send.
#[derive(Debug)]
pub(crate) struct Block1Queue {
    lines: HashMap<Resource, VecDeque<u32>, KeyedState>,
    /// Operations that may now send.
    ready: VecDeque<u32>,
    /// A caller is already serving `ready`.
    served: bool,
}

impl Block1Queue {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            lines: HashMap::with_hasher(KeyedState::with_seed(seed)),
            ready: VecDeque::new(),
            served: false,
        }
    }

    fn resource(peer: PeerIndex, options: &Options) -> Resource {
        (peer, resource_bytes(options))
    }

    /// Enqueues an operation; returns whether it may send at once.
    pub(crate) fn join(&mut self, peer: PeerIndex, options: &Options, operation: u32) -> bool {
        let line = self.lines.entry(Self::resource(peer, options));
        let line = line.or_default();
        debug_assert!(
            !line.contains(&operation),
            "request {operation} waits already"
        );
        line.push_back(operation);
        line.len() == 1
    }

    /// Removes an operation from its queue; the next one becomes ready if it was the first.
    pub(crate) fn leave(&mut self, peer: PeerIndex, options: &Options, operation: u32) {
        let resource = Self::resource(peer, options);
        self.ready.retain(|other| *other != operation);
        let Some(line) = self.lines.get_mut(&resource) else {
            return;
        };
        if line.front() == Some(&operation) {
            line.pop_front();
            self.ready.extend(line.front());
        } else {
            line.retain(|other| *other != operation);
        }
        if line.is_empty() {
            self.lines.remove(&resource);
        }
        debug_assert!(self.ready.len() <= self.lines.len(), "one a resource");
    }

    /// Returns whether the caller is to serve the ready operations, until [`next`](Self::next)
    /// returns `None`. A served operation may fail at once and reenter here: it is not to serve.
    pub(crate) fn serve(&mut self) -> bool {
        !core::mem::replace(&mut self.served, true)
    }

    /// The next ready operation.
    pub(crate) fn next(&mut self) -> Option<u32> {
        let next = self.ready.pop_front();
        self.served = next.is_some();
        next
    }

    /// Clears all queues; no operation becomes ready any more.
    pub(crate) fn clear(&mut self) {
        self.lines.clear();
        self.ready.clear();
    }
}
