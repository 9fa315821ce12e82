//! Sources that have shown that they are where they say they are.

use core::net::SocketAddr;

use carob_cc::time::{Duration, Instant};
use hashbrown::HashTable;
use slab::Slab;

use crate::address;
use crate::keyed_hash::KeyedState;
use crate::recency::Recency;

/// How long a source counts as validated. Addresses change hands: by then it must show it again.
pub(super) const VALIDATED_FOR: Duration = Duration::from_secs(3_600);

#[derive(Debug)]
struct Source {
    address: SocketAddr,
    at: Instant,
}

/// Validated sources. At the limit, the one used longest ago is forgotten: all it loses is a round
/// trip.
#[derive(Debug)]
pub(super) struct Validated {
    state: KeyedState,
    index: HashTable<u32>,
    slots: Slab<Source>,
    by_use: Recency,
    limit: usize,
}

impl Validated {
    pub(super) fn new(seed: u64, limit: usize) -> Self {
        Self {
            state: KeyedState::with_seed(seed),
            index: HashTable::new(),
            slots: Slab::new(),
            by_use: Recency::default(),
            limit: limit.clamp(1, u32::MAX as usize - 1),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    fn find(&self, source: SocketAddr) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let hash = address::hash(&self.state, source, 0);
        let is = |&index: &u32| self.slots[index as usize].address == source;
        self.index.find(hash, is).copied()
    }

    /// When a source showed where it is, if it is validated.
    pub(super) fn since(&self, now: Instant, source: SocketAddr) -> Option<Instant> {
        let at = self.slots[self.find(source)? as usize].at;
        (now.since(at) < VALIDATED_FOR).then_some(at)
    }

    /// Whether a source is validated.
    pub(super) fn contains(&self, now: Instant, source: SocketAddr) -> bool {
        self.since(now, source).is_some()
    }

    /// The same, and that it is used.
    pub(super) fn takes(&mut self, now: Instant, source: SocketAddr) -> bool {
        let Some(index) = self.find(source) else {
            return false;
        };
        if now.since(self.slots[index as usize].at) < VALIDATED_FOR {
            self.by_use.touch(index);
            return true;
        }
        self.forget(index);
        false
    }

    /// A source has been validated.
    pub(super) fn add(&mut self, now: Instant, source: SocketAddr) {
        if let Some(index) = self.find(source) {
            self.slots[index as usize].at = now;
            return self.by_use.touch(index);
        }
        if self.slots.len() >= self.limit
            && let Some(oldest) = self.by_use.oldest()
        {
            self.forget(oldest);
        }
        let index = self.slots.insert(Source {
            address: source,
            at: now,
        }) as u32;
        let Self {
            state,
            index: table,
            slots,
            ..
        } = self;
        let hash = |index: u32| address::hash(state, slots[index as usize].address, 0);
        table.insert_unique(hash(index), index, |&index| hash(index));
        self.by_use.add(index);
    }

    fn forget(&mut self, index: u32) {
        let hash = address::hash(&self.state, self.slots[index as usize].address, 0);
        if let Ok(found) = self.index.find_entry(hash, |&other| other == index) {
            found.remove();
        }
        self.by_use.remove(index);
        self.slots.remove(index as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], port))
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_full_table_forgets_who_was_used_longest_ago() {
        let mut validated = Validated::new(1, 3);
        for port in 1..=3 {
            validated.add(at(0), source(port));
        }
        assert!(validated.takes(at(1), source(1)));
        validated.add(at(2), source(4));
        let known = [1, 2, 3, 4].map(|port| validated.contains(at(2), source(port)));
        assert_eq!((known, validated.len()), ([true, false, true, true], 3));
    }

    #[test]
    fn it_has_to_be_shown_again_after_a_time_however_often_it_is_used() {
        let mut validated = Validated::new(1, 3);
        validated.add(at(0), source(1));
        for seconds in (0..3_600).step_by(60) {
            assert!(validated.takes(at(seconds), source(1)));
        }
        assert!(!validated.contains(at(3_600), source(1)));
        assert!(!validated.takes(at(3_600), source(1)));
        assert_eq!(validated.len(), 0);
        validated.add(at(3_600), source(1));
        assert!(validated.takes(at(7_000), source(1)));
    }

    #[test]
    fn a_validated_source_costs_less_than_64_bytes() {
        // With its links and its share of the index.
        assert!(size_of::<Source>() + 8 + 8 + 5 <= 64);
    }
}
