//! The server side of Block2: the response cache, which keeps a body while a peer reads it.
//!
//! All blocks then come from one representation, and the application handles one request for all
//! blocks. A full table evicts the least recently used body; a source at its quota adds none. Blocks
//! of a body outside the cache come from a new response, whose ETag reveals a changed representation.

use core::hash::BuildHasher;
use core::net::SocketAddr;

use alloc::vec::Vec;

use bytes::Bytes;
use carob_cc::time::{Duration, Instant};
use foldhash::fast::FixedState;

use super::Key;
use crate::codec::{Code, MessageView, Options};
use crate::tables::bounded_map::{BoundedMap, Keyed};
use crate::tables::quota::{QuotaPolicy, QuotaTable};

/// A representation as in its response.
#[derive(Clone, Debug)]
pub(crate) struct CachedResponse {
    pub(crate) code: Code,
    pub(crate) options: Options,
    pub(crate) body: Bytes,
}

#[derive(Debug)]
struct Entry {
    key: Key,
    kept: CachedResponse,
    used: Instant,
}

impl Keyed for Entry {
    type Key = Key;

    fn key(&self) -> &Key {
        &self.key
    }
}

/// Response bodies being read.
#[derive(Debug)]
pub(crate) struct ResponseCache {
    entries: BoundedMap<Entry>,
    /// Hasher of entity tags; unkeyed, because the application writes the bodies.
    tags: FixedState,
    bytes_limit: usize,
    bytes: usize,
    quota_policy: QuotaPolicy,
    /// Bodies and bytes of each source.
    shares: QuotaTable,
    byte_shares: QuotaTable,
}

impl ResponseCache {
    pub(crate) fn new(
        seed: u64,
        (limit, bytes_limit): (usize, usize),
        quota_policy: QuotaPolicy,
    ) -> Self {
        Self {
            entries: BoundedMap::new(seed, limit),
            tags: FixedState::with_seed(seed),
            bytes_limit,
            bytes: 0,
            quota_policy,
            shares: QuotaTable::new(seed.rotate_left(8)),
            byte_shares: QuotaTable::new(seed.rotate_left(16)),
        }
    }

    /// An entity tag that distinguishes versions of a body, as an integer of four bytes.
    pub(crate) fn tag(&self, body: &[u8]) -> u32 {
        // An integer option is written without leading zeros; the highest bit keeps the tag at
        // four bytes.
        (self.tags.hash_one(body) >> 32) as u32 | 1 << 31
    }

    /// The body that `peer` reads with requests like this one, unless `lifetime` has passed.
    pub(crate) fn find(
        &mut self,
        now: Instant,
        lifetime: Duration,
        peer: SocketAddr,
        request: &MessageView<'_>,
    ) -> Option<CachedResponse> {
        // An empty table, as of a server with short responses only, costs no key and no hash.
        if self.entries.len() == 0 {
            return None;
        }
        let index = self.entries.find(&Key::of(peer, request))?;
        if now.since(self.entries[index].used) >= lifetime {
            self.remove(index);
            return None;
        }
        self.entries[index].used = now;
        self.entries.touch(index, false);
        Some(self.entries[index].kept.clone())
    }

    /// Stores a body for requests with this key, unless it is too large for the table.
    pub(crate) fn keep(&mut self, now: Instant, key: Key, kept: CachedResponse) {
        if kept.body.len() > self.bytes_limit || self.entries.limit() == 0 {
            return;
        }
        // Removed first, so that the older state of a body does not count against the quota of
        // the newer.
        if let Some(before) = self.entries.find(&key) {
            self.remove(before);
        }
        let (source, length) = (self.quota_policy.source(key.peer()), kept.body.len());
        if self.shares.of(source) >= self.quota_policy.quota(self.entries.limit())
            || self.byte_shares.of(source) + length > self.quota_policy.quota(self.bytes_limit)
        {
            return;
        }
        while self.entries.is_full() || self.bytes + kept.body.len() > self.bytes_limit {
            let oldest = self
                .entries
                .oldest(false)
                .expect("a full table has an oldest body");
            self.remove(oldest);
        }
        self.bytes += length;
        self.shares.add(source, 1);
        self.byte_shares.add(source, length);
        let entry = Entry {
            key,
            kept,
            used: now,
        };
        self.entries.insert(entry, false);
        self.check_invariants();
    }

    /// Checks the counts of bodies and bytes.
    #[inline]
    fn check_invariants(&self) {
        debug_assert!(self.bytes <= self.bytes_limit);
        debug_assert!(self.entries.len() > 0 || self.bytes == 0);
        debug_assert!(self.shares.is_empty() == (self.entries.len() == 0));
        debug_assert!(self.byte_shares.len() <= self.shares.len());
    }

    /// Evicts every body unused for `lifetime`.
    pub(crate) fn expire(&mut self, now: Instant, lifetime: Duration) {
        // All bodies have one lifetime, so the order of use is the order of expiry.
        while let Some(oldest) = self.entries.oldest(false) {
            if now.since(self.entries[oldest].used) < lifetime {
                return;
            }
            self.remove(oldest);
        }
    }

    /// Evicts the bodies of this peer.
    pub(crate) fn remove_of_peer(&mut self, peer: SocketAddr) {
        let of_peer = |entry: &Entry| entry.key.peer() == peer;
        while let Some(index) = self.entries.position(of_peer) {
            self.remove(index);
        }
    }

    /// The time at which the least recently used body expires.
    pub(crate) fn next_expiry(&self, lifetime: Duration) -> Option<Instant> {
        let oldest = self.entries.oldest(false)?;
        Some(self.entries[oldest].used + lifetime)
    }

    /// Bodies and bytes held.
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.entries.len(), self.bytes)
    }

    fn remove(&mut self, index: u32) {
        let entry = self.entries.remove(index, false);
        let (source, length) = (
            self.quota_policy.source(entry.key.peer()),
            entry.kept.body.len(),
        );
        debug_assert!(self.bytes >= length, "its bytes were counted");
        self.bytes -= length;
        self.shares.subtract(source, 1);
        self.byte_shares.subtract(source, length);
        self.check_invariants();
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
