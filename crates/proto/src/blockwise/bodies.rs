//! A server's side of Block2: the response body a peer is reading, kept until it has read it.
//!
//! Keeping it makes all blocks one state and spares the application a call per block. When the
//! table is full, the body used longest ago is forgotten; a peer that still asks for it is
//! answered from a fresh response, whose ETag tells it if the state has changed. So it is where a
//! source has its share of the table already.

use core::hash::BuildHasher;
use core::net::SocketAddr;

use alloc::vec::Vec;

use bytes::Bytes;
use carob_cc::time::{Duration, Instant};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use slab::Slab;

use super::Key;
use crate::codec::{Code, MessageView, Options};
use crate::keyed_hash::KeyedState;
use crate::recency::Recency;
use crate::shares::{Shares, Sharing};

/// A representation as its response had it.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) code: Code,
    pub(crate) options: Options,
    pub(crate) body: Bytes,
}

#[derive(Debug)]
struct Entry {
    key: Key,
    kept: Kept,
    used: Instant,
}

/// Response bodies being read.
#[derive(Debug)]
pub(crate) struct Bodies {
    state: KeyedState,
    /// Hasher of entity tags; bodies are written by the application.
    tags: FixedState,
    index: HashTable<u32>,
    slots: Slab<Entry>,
    limit: usize,
    bytes_limit: usize,
    bytes: usize,
    by_use: Recency,
    sharing: Sharing,
    /// Bodies of each source, and their bytes.
    shares: Shares,
    byte_shares: Shares,
}

impl Bodies {
    pub(crate) fn new(seed: u64, (limit, bytes_limit): (usize, usize), sharing: Sharing) -> Self {
        Self {
            state: KeyedState::with_seed(seed),
            tags: FixedState::with_seed(seed),
            index: HashTable::new(),
            slots: Slab::new(),
            limit,
            bytes_limit,
            bytes: 0,
            by_use: Recency::default(),
            sharing,
            shares: Shares::new(seed.rotate_left(8)),
            byte_shares: Shares::new(seed.rotate_left(16)),
        }
    }

    /// An entity tag that tells states of a body apart, as an integer of four bytes.
    pub(crate) fn tag(&self, body: &[u8]) -> u32 {
        (self.tags.hash_one(body) >> 32) as u32 | 1 << 31
    }

    fn position(&self, key: &Key) -> Option<u32> {
        let hash = key.hash(&self.state);
        self.index
            .find(hash, |&i| self.slots[i as usize].key == *key)
            .copied()
    }

    /// The body `peer` is reading with requests like this one, unless `lifetime` has passed.
    pub(crate) fn find(
        &mut self,
        now: Instant,
        lifetime: Duration,
        peer: SocketAddr,
        request: &MessageView<'_>,
    ) -> Option<Kept> {
        if self.slots.is_empty() {
            return None;
        }
        let index = self.position(&Key::of(peer, request))?;
        if now.since(self.slots[index as usize].used) >= lifetime {
            self.remove(index);
            return None;
        }
        self.slots[index as usize].used = now;
        self.by_use.touch(index);
        Some(self.slots[index as usize].kept.clone())
    }

    /// Keeps a body for requests with this key; one too large for the table is not kept.
    pub(crate) fn keep(&mut self, now: Instant, key: Key, kept: Kept) {
        if kept.body.len() > self.bytes_limit || self.limit == 0 {
            return;
        }
        if let Some(before) = self.position(&key) {
            self.remove(before);
        }
        let (source, length) = (self.sharing.source(key.peer()), kept.body.len());
        if self.shares.of(source) >= self.sharing.most(self.limit)
            || self.byte_shares.of(source) + length > self.sharing.most(self.bytes_limit)
        {
            return;
        }
        while self.slots.len() >= self.limit || self.bytes + kept.body.len() > self.bytes_limit {
            let oldest = self
                .by_use
                .oldest()
                .expect("a full table has an oldest body");
            self.remove(oldest);
        }
        self.bytes += length;
        self.shares.add(source, 1);
        self.byte_shares.add(source, length);
        let hash = key.hash(&self.state);
        let entry = Entry {
            key,
            kept,
            used: now,
        };
        let index = self.slots.insert(entry) as u32;
        let Self {
            index: table,
            slots,
            state,
            ..
        } = self;
        table.insert_unique(hash, index, |&i| slots[i as usize].key.hash(state));
        self.by_use.add(index);
    }

    /// Forgets everything unused for `lifetime`; called as time passes.
    pub(crate) fn expire(&mut self, now: Instant, lifetime: Duration) {
        while let Some(oldest) = self.by_use.oldest() {
            if now.since(self.slots[oldest as usize].used) < lifetime {
                return;
            }
            self.remove(oldest);
        }
    }

    /// Forgets what this peer was reading.
    pub(crate) fn remove_of_peer(&mut self, peer: SocketAddr) {
        let of_peer = |(index, entry): (usize, &Entry)| (entry.key.peer() == peer).then_some(index);
        while let Some(index) = self.slots.iter().find_map(of_peer) {
            self.remove(index as u32);
        }
    }

    /// When the body used longest ago will be forgotten.
    pub(crate) fn next_expiry(&self, lifetime: Duration) -> Option<Instant> {
        self.by_use
            .oldest()
            .map(|oldest| self.slots[oldest as usize].used + lifetime)
    }

    /// Bodies and bytes held.
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.slots.len(), self.bytes)
    }

    fn remove(&mut self, index: u32) {
        self.by_use.remove(index);
        let entry = self.slots.remove(index as usize);
        let (source, length) = (self.sharing.source(entry.key.peer()), entry.kept.body.len());
        self.bytes -= length;
        self.shares.subtract(source, 1);
        self.byte_shares.subtract(source, length);
        let hash = entry.key.hash(&self.state);
        if let Ok(found) = self.index.find_entry(hash, |&i| i == index) {
            found.remove();
        }
    }
}

/// All bytes of a body that arrived in pieces.
pub(crate) fn join(mut pieces: Vec<Bytes>) -> Bytes {
    match pieces.len() {
        0 => Bytes::new(),
        1 => pieces.remove(0),
        _ => Bytes::from(pieces.concat()),
    }
}
