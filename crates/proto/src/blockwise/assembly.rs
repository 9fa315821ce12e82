//! A server's side of Block1: request bodies put together, or passed on block by block.
//!
//! One table for all peers, with limits on bodies, on one body's bytes and on all their bytes.
//! Of each, one source has its share. When a limit is reached, the newest comer is refused (4.13
//! for its own size, 5.03 for ours); what peers have begun is kept until it is complete or its time
//! runs out.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;

use bytes::Bytes;
use hashbrown::HashTable;
use slab::Slab;

use super::Key;
use crate::codec::{BlockValue, MessageView, OptionNumber};
use crate::keyed_hash::KeyedState;
use crate::shares::{Shares, Sharing};
use crate::timers::TimerId;

/// How a server wants a request body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// Put together and delivered once (RFC 7959 2.5, "atomic").
    #[default]
    Atomic,
    /// Each block as it arrives, in order; the application answers each.
    Streamed,
}

/// What a block led to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Assembled {
    /// Kept; ask for the next (2.31).
    Continue,
    /// The body is complete.
    Whole(Bytes),
    /// The next part of a streamed body, beginning at this offset.
    Part(u64),
    /// A block is missing before this one (4.08).
    Incomplete,
    /// The body is larger than the limit (4.13).
    TooLarge { limit: usize },
    /// No room for another body now (5.03).
    Full,
    /// The block's length contradicts its option (4.00).
    BadLength,
}

#[derive(Debug)]
struct Body {
    key: Key,
    bytes: Vec<u8>,
    /// Bytes received in order; equals `bytes.len()` unless streamed.
    received: u64,
    timer: TimerId,
    /// The message of the first block, kept if it has a condition that the others have not.
    conditional: Option<Box<[u8]>>,
}

/// Limits of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AssemblyLimits {
    pub(crate) bodies: usize,
    pub(crate) body_bytes: usize,
    pub(crate) all_bytes: usize,
    pub(crate) sharing: Sharing,
}

/// Request bodies on their way in.
#[derive(Debug)]
pub(crate) struct Assemblies {
    state: KeyedState,
    index: HashTable<u32>,
    slots: Slab<Body>,
    limits: AssemblyLimits,
    /// Bytes of all bodies, those included that are whole and not yet answered.
    all_bytes: usize,
    /// Bodies of each source, and their bytes.
    shares: Shares,
    byte_shares: Shares,
}

impl Assemblies {
    pub(crate) fn new(seed: u64, limits: AssemblyLimits) -> Self {
        Self {
            state: KeyedState::with_seed(seed),
            index: HashTable::new(),
            slots: Slab::new(),
            limits,
            all_bytes: 0,
            shares: Shares::new(seed.rotate_left(8)),
            byte_shares: Shares::new(seed.rotate_left(16)),
        }
    }

    fn charge(&mut self, peer: SocketAddr, bytes: usize) {
        self.all_bytes += bytes;
        let source = self.limits.sharing.source(peer);
        self.byte_shares.add(source, bytes);
    }

    fn give_back(&mut self, peer: SocketAddr, bytes: usize) {
        if bytes > 0 {
            self.all_bytes -= bytes;
            let source = self.limits.sharing.source(peer);
            self.byte_shares.subtract(source, bytes);
        }
    }

    /// The request with a body of so many bytes, which was put together here, has been answered.
    pub(crate) fn done_with(&mut self, peer: SocketAddr, bytes: usize) {
        self.give_back(peer, bytes);
    }

    /// Whether so many bodies are being received that the rest is for sources that have shown where
    /// they are.
    pub(crate) fn is_pressed(&self) -> bool {
        let AssemblyLimits {
            bodies, sharing, ..
        } = self.limits;
        self.slots.len() < bodies && sharing.is_pressed(self.slots.len(), bodies)
    }

    /// The body a request belongs to, if one was begun.
    pub(crate) fn find(&self, peer: SocketAddr, request: &MessageView<'_>) -> Option<u32> {
        let key = Key::of(peer, request);
        let hash = key.hash(&self.state);
        self.index
            .find(hash, |&i| self.slots[i as usize].key == key)
            .copied()
    }

    /// The timer that bounds a body's life.
    pub(crate) fn timer(&self, index: u32) -> TimerId {
        self.slots[index as usize].timer
    }

    /// Begins a body; `timer` makes the timer that bounds its life.
    pub(crate) fn begin(
        &mut self,
        peer: SocketAddr,
        request: &MessageView<'_>,
        timer: impl FnOnce(u32) -> TimerId,
    ) -> Option<u32> {
        let AssemblyLimits {
            bodies, sharing, ..
        } = self.limits;
        let source = sharing.source(peer);
        if self.slots.len() >= bodies || self.shares.of(source) >= sharing.most(bodies) {
            return None;
        }
        let key = Key::of(peer, request);
        let hash = key.hash(&self.state);
        self.charge(peer, key.len());
        self.shares.add(source, 1);
        let entry = self.slots.vacant_entry();
        let index = entry.key() as u32;
        entry.insert(Body {
            key,
            bytes: Vec::new(),
            received: 0,
            timer: timer(index),
            conditional: None,
        });
        let Self {
            index: table,
            slots,
            state,
            ..
        } = self;
        table.insert_unique(hash, index, |&i| slots[i as usize].key.hash(state));
        Some(index)
    }

    /// Remembers the first block's message, if the rest of the body will lack its If-None-Match
    /// (RFC 7959 2.10).
    pub(crate) fn note_condition(&mut self, index: u32, first: &MessageView<'_>) {
        let _ = self.take_condition(index);
        if first.option(OptionNumber::IF_NONE_MATCH).is_some() {
            let message = first.as_bytes();
            let peer = self.slots[index as usize].key.peer();
            self.charge(peer, message.len());
            self.slots[index as usize].conditional = Some(message.into());
        }
    }

    /// What [`note_condition`](Self::note_condition) remembered.
    pub(crate) fn take_condition(&mut self, index: u32) -> Option<Box<[u8]>> {
        let body = &mut self.slots[index as usize];
        let (peer, taken) = (body.key.peer(), body.conditional.take());
        self.give_back(peer, taken.as_deref().map_or(0, <[u8]>::len));
        taken
    }

    /// Takes the block that `request` carries into body `index`.
    pub(crate) fn accept(
        &mut self,
        index: u32,
        block: BlockValue,
        payload: &[u8],
        announced: Option<u32>,
        delivery: Delivery,
    ) -> Assembled {
        let limit = self.limits.body_bytes;
        let body = &mut self.slots[index as usize];
        let (offset, length) = (block.offset() as u64, payload.len());
        if !block.szx.fits(length, block.more) {
            return Assembled::BadLength;
        }
        if block.number == 0 {
            // A new start of the same body replaces what there was.
            let (peer, before) = (body.key.peer(), body.bytes.len());
            body.bytes.clear();
            body.received = 0;
            self.give_back(peer, before);
        }
        let body = &mut self.slots[index as usize];
        let end = offset + length as u64;
        if end > limit as u64 || announced.is_some_and(|size| size as usize > limit) {
            return Assembled::TooLarge { limit };
        }
        if offset > body.received {
            return Assembled::Incomplete;
        }
        if end <= body.received && block.more && block.number > 0 {
            return Assembled::Continue; // a block sent again under a new Message ID
        }
        if offset < body.received {
            return Assembled::Incomplete;
        }
        if delivery == Delivery::Streamed {
            body.received = end;
            return Assembled::Part(offset);
        }
        let peer = body.key.peer();
        let AssemblyLimits {
            all_bytes, sharing, ..
        } = self.limits;
        let of_source = self.byte_shares.of(sharing.source(peer));
        if self.all_bytes + length > all_bytes || of_source + length > sharing.most(all_bytes) {
            return Assembled::Full;
        }
        body.bytes.extend_from_slice(payload);
        body.received = end;
        self.charge(peer, length);
        if block.more {
            return Assembled::Continue;
        }
        // Its bytes count until its request is answered.
        let body = &mut self.slots[index as usize];
        Assembled::Whole(Bytes::from(core::mem::take(&mut body.bytes)))
    }

    /// Ends a body's life.
    pub(crate) fn remove(&mut self, index: u32) -> Option<TimerId> {
        self.slots.get(index as usize)?;
        let _ = self.take_condition(index);
        let body = self.slots.remove(index as usize);
        let peer = body.key.peer();
        self.give_back(peer, body.bytes.len() + body.key.len());
        self.shares.subtract(self.limits.sharing.source(peer), 1);
        let hash = body.key.hash(&self.state);
        if let Ok(found) = self.index.find_entry(hash, |&i| i == index) {
            found.remove();
        }
        Some(body.timer)
    }

    /// Ends the life of a body that this peer has begun, if there is one.
    pub(crate) fn remove_of_peer(&mut self, peer: SocketAddr) -> Option<TimerId> {
        let found = self.slots.iter().find(|(_, body)| body.key.peer() == peer);
        let index = found.map(|(index, _)| index as u32)?;
        self.remove(index)
    }

    /// Bodies and bytes held.
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.slots.len(), self.all_bytes)
    }
}
