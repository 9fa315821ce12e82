//! Quotas: the share of a table that each source may hold.
//!
//! A source is an IPv4 address or an IPv6 prefix. IPv6 sources are aggregated by prefix, because a
//! host can use its whole /64; ports are ignored.

use core::hash::{BuildHasher as _, Hash, Hasher};
use core::net::{IpAddr, SocketAddr};

use hashbrown::HashTable;

use crate::tables::bounded_map::MapKey;
use crate::tables::keyed_hash::KeyedState;

/// The unit quotas are counted against: an IPv4 address or an IPv6 prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source(u128);

impl Hash for Source {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Two words cost less than the bytes of a wide one.
        state.write_u64((self.0 >> 64) as u64);
        state.write_u64(self.0 as u64);
    }
}

impl MapKey for Source {
    fn keyed_hash(&self, state: &KeyedState) -> u64 {
        state.hash_one(self)
    }
}

impl Source {
    /// Returns the source of an address; of IPv6 addresses, `prefix` bits count.
    pub fn of(address: SocketAddr, prefix: u8) -> Self {
        let v6 = match address.ip() {
            IpAddr::V4(v4) => return Self(u128::from(u32::from(v4))),
            IpAddr::V6(v6) => v6,
        };
        if let Some(v4) = v6.to_ipv4_mapped() {
            return Self(u128::from(u32::from(v4)));
        }
        // A prefix of 0 bits shifts by 128, which `<<` cannot.
        let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128)));
        Self(u128::from(v6) & mask.unwrap_or_default())
    }
}

/// The division of shared tables among sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaPolicy {
    /// Percent of a table that one source may hold.
    pub of_source: u8,
    /// Percent of a table open to unvalidated addresses.
    pub of_unvalidated: u8,
    /// Bits of an IPv6 address that identify a source.
    pub prefix: u8,
}

impl QuotaPolicy {
    /// Returns the source of an address.
    pub fn source(&self, address: SocketAddr) -> Source {
        Source::of(address, self.prefix)
    }

    /// Returns the quota of one source in a table with this limit.
    pub fn quota(&self, limit: usize) -> usize {
        percent(limit, self.of_source)
    }

    /// Returns the entries of a table with this limit that are open to unvalidated addresses.
    pub(crate) fn unvalidated_watermark(self, limit: usize) -> usize {
        percent(limit, self.of_unvalidated)
    }

    /// Returns whether a table with this limit is above its watermark: the rest is reserved for
    /// validated addresses.
    pub fn is_above_watermark(&self, held: usize, limit: usize) -> bool {
        held >= self.unvalidated_watermark(limit)
    }
}

/// A percentage of a number, rounded up.
fn percent(of: usize, percent: u8) -> usize {
    let percent = usize::from(percent.min(100));
    // In two steps, since `of * percent` may overflow.
    of / 100 * percent + (of % 100 * percent).div_ceil(100)
}

/// Usage of one table by source. Sources without usage have no entry, so it is never larger than
/// the table.
#[derive(Debug)]
pub struct QuotaTable {
    state: KeyedState,
    table: HashTable<(Source, usize)>,
}

impl QuotaTable {
    /// Creates an empty table.
    pub fn new(seed: u64) -> Self {
        Self {
            state: KeyedState::with_seed(seed),
            table: HashTable::new(),
        }
    }

    /// Returns the usage of a source.
    pub fn of(&self, source: Source) -> usize {
        if self.table.is_empty() {
            return 0;
        }
        let hash = self.state.hash_one(source);
        let found = self.table.find(hash, |(other, _)| *other == source);
        found.map_or(0, |(_, held)| *held)
    }

    /// Adds to the usage of a source.
    pub fn add(&mut self, source: Source, more: usize) {
        if more == 0 {
            return;
        }
        let Self { state, table } = self;
        let hash = |(source, _): &(Source, usize)| state.hash_one(source);
        table
            .entry(hash(&(source, 0)), |(other, _)| *other == source, hash)
            .and_modify(|entry| entry.1 += more)
            .or_insert((source, more));
    }

    /// Subtracts from the usage of a source.
    pub fn subtract(&mut self, source: Source, less: usize) {
        let hash = self.state.hash_one(source);
        let Ok(mut found) = self.table.find_entry(hash, |(other, _)| *other == source) else {
            debug_assert!(less == 0, "who gives back holds something");
            return;
        };
        let held = &mut found.get_mut().1;
        debug_assert!(*held >= less, "{less} returned of {held}");
        // Saturating: a miscount must not lock a source out for good.
        *held = held.saturating_sub(less);
        if *held == 0 {
            found.remove();
        }
    }

    /// Sources with usage.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Returns whether no source has usage.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Resets the usage of all sources.
    pub fn clear(&mut self) {
        self.table.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str, prefix: u8) -> Source {
        Source::of(text.parse().unwrap(), prefix)
    }

    #[test]
    fn source_is_an_address_or_prefix_without_port() {
        let one = source("192.0.2.1:5683", 64);
        assert_eq!(one, source("192.0.2.1:1", 64));
        assert_eq!(one, source("[::ffff:192.0.2.1]:1", 64));
        assert_ne!(one, source("192.0.2.2:5683", 64));
        let network = source("[2001:db8:1:2::1]:1", 64);
        assert_eq!(network, source("[2001:db8:1:2:ffff::9]:2", 64));
        assert_ne!(network, source("[2001:db8:1:3::1]:1", 64));
        assert_eq!(
            source("[2001:db8:1:2::1]:1", 48),
            source("[2001:db8:1:3::1]:1", 48)
        );
        let host = source("[2001:db8:1:2::1]:1", 128);
        assert_ne!(host, source("[2001:db8:1:2::2]:1", 128));
        assert_eq!(source("[2001::1]:1", 0), source("[fe80::1]:1", 0));
    }

    #[test]
    fn shares_are_summed_and_empty_sources_removed() {
        let mut shares = QuotaTable::new(1);
        let (a, b) = (source("10.0.0.1:1", 64), source("10.0.0.2:1", 64));
        shares.add(a, 2);
        shares.add(a, 3);
        shares.add(b, 1);
        shares.add(b, 0);
        assert_eq!((shares.of(a), shares.of(b), shares.len()), (5, 1, 2));
        shares.subtract(a, 4);
        shares.subtract(b, 1);
        assert_eq!((shares.of(a), shares.of(b), shares.len()), (1, 0, 1));
        shares.subtract(a, 1);
        assert!(shares.is_empty());
    }

    #[test]
    fn share_is_at_least_one() {
        let quota_policy = QuotaPolicy {
            of_source: 50,
            of_unvalidated: 75,
            prefix: 64,
        };
        assert_eq!(
            [0, 1, 2, 3, 100].map(|limit| quota_policy.quota(limit)),
            [0, 1, 1, 2, 50]
        );
        assert!(
            quota_policy.is_above_watermark(75, 100) && !quota_policy.is_above_watermark(74, 100)
        );
        assert!(!quota_policy.is_above_watermark(0, 1) && quota_policy.is_above_watermark(1, 1));
        assert_eq!(quota_policy.quota(usize::MAX), usize::MAX / 2 + 1);
    }
}
