//! Validated addresses (RFC 9175 2): sources that have proved to receive at their address.

use core::net::SocketAddr;

use carob_cc::time::{Duration, Instant};

use crate::tables::bounded_map::{BoundedMap, Keyed};

/// Lifetime of a validation. Addresses change hands, so it must be renewed.
pub(crate) const VALIDATED_FOR: Duration = Duration::from_secs(3_600);

#[derive(Debug)]
struct Source {
    address: SocketAddr,
    at: Instant,
}

impl Keyed for Source {
    type Key = SocketAddr;

    fn key(&self) -> &SocketAddr {
        &self.address
    }
}

/// Validated addresses. At the limit the least recently used is evicted, which costs it a round
/// trip.
#[derive(Debug)]
pub(crate) struct Validated(BoundedMap<Source>);

impl Validated {
    pub(crate) fn new(seed: u64, limit: usize) -> Self {
        // In a table of none, no eviction would make room.
        Self(BoundedMap::new(seed, limit.max(1)))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The time of a source's validation, if it is valid.
    pub(crate) fn since(&self, now: Instant, source: SocketAddr) -> Option<Instant> {
        let at = self.0[self.0.find(&source)?].at;
        (now.since(at) < VALIDATED_FOR).then_some(at)
    }

    /// Returns whether a source is validated.
    pub(crate) fn contains(&self, now: Instant, source: SocketAddr) -> bool {
        self.since(now, source).is_some()
    }

    /// Returns whether a source is validated, and records its use.
    pub(crate) fn takes(&mut self, now: Instant, source: SocketAddr) -> bool {
        let Some(index) = self.0.find(&source) else {
            return false;
        };
        // Use prolongs its place in the table, not the validation: another host may have the
        // address by now.
        if now.since(self.0[index].at) < VALIDATED_FOR {
            self.0.touch(index, false);
            return true;
        }
        self.0.remove(index, false);
        false
    }

    /// Marks a source as validated.
    pub(crate) fn add(&mut self, now: Instant, source: SocketAddr) {
        if let Some(index) = self.0.find(&source) {
            self.0[index].at = now;
            return self.0.touch(index, false);
        }
        if self.0.is_full()
            && let Some(oldest) = self.0.oldest(false)
        {
            self.0.remove(oldest, false);
        }
        debug_assert!(!self.0.is_full(), "room was made");
        let (address, at) = (source, now);
        self.0.insert(Source { address, at }, false);
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
    fn full_table_evicts_the_least_recently_used() {
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
    fn validation_expires_regardless_of_use() {
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
