//! Bodies sent to one resource in blocks take turns.
//!
//! Block1 has no way to tell two bodies apart that one endpoint sends to the same resource
//! (RFC 7959 2.5): a server would put blocks of both together. So the second waits until the
//! first has its response. [`Limits::requests`](super::super::Limits::requests) bounds who waits.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hashbrown::HashMap;

use crate::codec::{CacheKey, Options};
use crate::keyed_hash::KeyedState;
use crate::peer::PeerIndex;

/// What names a resource: a peer, and the options that stand for a URI.
type Resource = (PeerIndex, Vec<u8>);

/// The Cache-Key of a resource.
pub(super) fn resource_bytes(options: &Options) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32);
    CacheKey::Resource.write_options(options, &mut bytes);
    bytes
}

/// Who sends a body to a resource, and who waits to.
#[derive(Debug)]
pub(in crate::endpoint) struct Turns {
    lines: HashMap<Resource, VecDeque<u32>, KeyedState>,
    /// Those whose turn has come.
    ready: VecDeque<u32>,
    /// Somebody calls `next` already.
    served: bool,
}

impl Turns {
    pub(in crate::endpoint) fn new(seed: u64) -> Self {
        Self {
            lines: HashMap::with_hasher(KeyedState::with_seed(seed)),
            ready: VecDeque::new(),
            served: false,
        }
    }

    fn resource(peer: PeerIndex, options: &Options) -> Resource {
        (peer, resource_bytes(options))
    }

    /// Lines an operation up; whether it is its turn.
    pub(super) fn join(&mut self, peer: PeerIndex, options: &Options, operation: u32) -> bool {
        let line = self.lines.entry(Self::resource(peer, options));
        let line = line.or_default();
        line.push_back(operation);
        line.len() == 1
    }

    /// Takes an operation out of its line; if it was its turn, the next one's has come.
    pub(super) fn leave(&mut self, peer: PeerIndex, options: &Options, operation: u32) {
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
    }

    /// Whether the caller is to serve those whose turn has come, until [`next`](Self::next) has
    /// nothing. One who is served may fail at once and end up here again: he is not to.
    pub(super) fn serve(&mut self) -> bool {
        !core::mem::replace(&mut self.served, true)
    }

    /// The next operation whose turn has come.
    pub(super) fn next(&mut self) -> Option<u32> {
        let next = self.ready.pop_front();
        self.served = next.is_some();
        next
    }

    /// Forgets all lines: nobody's turn comes any more.
    pub(super) fn clear(&mut self) {
        self.lines.clear();
        self.ready.clear();
    }
}
