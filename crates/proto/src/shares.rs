//! What each source holds of a table that all use, so that none takes all of it.
//!
//! A source is an IPv4 address, or the first bits of an IPv6 address: who has one address of a network
//! has them all. Its port is no part of it; whoever has an address has 65,535 of those.

use core::hash::{BuildHasher as _, Hash, Hasher};
use core::net::{IpAddr, SocketAddr};

use hashbrown::HashTable;

use crate::keyed_hash::KeyedState;

/// Who is one and the same where tables are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source(u128);

impl Hash for Source {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Two words cost less than the bytes of a wide one.
        state.write_u64((self.0 >> 64) as u64);
        state.write_u64(self.0 as u64);
    }
}

impl Source {
    /// The source that an address belongs to; of IPv6 addresses, `prefix` bits count.
    pub fn of(address: SocketAddr, prefix: u8) -> Self {
        let v6 = match address.ip() {
            IpAddr::V4(v4) => return Self(u128::from(u32::from(v4))),
            IpAddr::V6(v6) => v6,
        };
        if let Some(v4) = v6.to_ipv4_mapped() {
            return Self(u128::from(u32::from(v4)));
        }
        let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128)));
        Self(u128::from(v6) & mask.unwrap_or_default())
    }
}

/// How tables are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Percent of a table that one source may hold.
    pub of_source: u8,
    /// Percent of it that is open to sources that have not shown where they are.
    pub of_unvalidated: u8,
    /// Bits of an IPv6 address that make a source.
    pub prefix: u8,
}

impl Sharing {
    /// The source that an address belongs to.
    pub fn source(&self, address: SocketAddr) -> Source {
        Source::of(address, self.prefix)
    }

    /// What one source may hold of a table with this limit.
    pub fn most(&self, limit: usize) -> usize {
        percent(limit, self.of_source)
    }

    /// What of it sources may hold together that have not shown where they are.
    pub fn most_of_unvalidated(&self, limit: usize) -> usize {
        percent(limit, self.of_unvalidated)
    }

    /// Whether so much of a table with this limit is held that the rest is for sources that have shown
    /// where they are.
    pub fn is_pressed(&self, held: usize, limit: usize) -> bool {
        held >= self.most_of_unvalidated(limit)
    }
}

/// So many percent of a number, rounded up.
fn percent(of: usize, percent: u8) -> usize {
    let percent = usize::from(percent.min(100));
    of / 100 * percent + (of % 100 * percent).div_ceil(100)
}

/// What each source holds of one table. Sources that hold nothing are not remembered, so it is never
/// larger than the table.
#[derive(Debug)]
pub struct Shares {
    state: KeyedState,
    table: HashTable<(Source, usize)>,
}

impl Shares {
    /// Nobody holds anything.
    pub fn new(seed: u64) -> Self {
        Self {
            state: KeyedState::with_seed(seed),
            table: HashTable::new(),
        }
    }

    /// What a source holds.
    pub fn of(&self, source: Source) -> usize {
        if self.table.is_empty() {
            return 0;
        }
        let hash = self.state.hash_one(source);
        let found = self.table.find(hash, |(other, _)| *other == source);
        found.map_or(0, |(_, held)| *held)
    }

    /// A source takes so much more.
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

    /// A source gives so much back.
    pub fn subtract(&mut self, source: Source, less: usize) {
        let hash = self.state.hash_one(source);
        let Ok(mut found) = self.table.find_entry(hash, |(other, _)| *other == source) else {
            debug_assert!(less == 0, "who gives back holds something");
            return;
        };
        let held = &mut found.get_mut().1;
        *held = held.saturating_sub(less);
        if *held == 0 {
            found.remove();
        }
    }

    /// Sources that hold something.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether nobody holds anything.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Nobody holds anything any more.
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
    fn a_source_is_an_address_or_a_network_whatever_the_port() {
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
    fn shares_add_up_and_nobody_without_one_is_remembered() {
        let mut shares = Shares::new(1);
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
    fn a_share_of_something_is_never_nothing() {
        let sharing = Sharing {
            of_source: 50,
            of_unvalidated: 75,
            prefix: 64,
        };
        assert_eq!(
            [0, 1, 2, 3, 100].map(|limit| sharing.most(limit)),
            [0, 1, 1, 2, 50]
        );
        assert!(sharing.is_pressed(75, 100) && !sharing.is_pressed(74, 100));
        assert!(!sharing.is_pressed(0, 1) && sharing.is_pressed(1, 1));
        assert_eq!(sharing.most(usize::MAX), usize::MAX / 2 + 1);
    }
}
