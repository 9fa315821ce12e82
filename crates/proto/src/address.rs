//! Hashing of peer addresses, once for every datagram.

use core::hash::{BuildHasher, Hasher};
use core::net::{IpAddr, SocketAddr};

use crate::tables::bounded_map::MapKey;
use crate::tables::keyed_hash::KeyedState;

/// The index of a peer in its table.
pub(crate) type PeerIndex = u32;

/// A hash of address, port and scope, and of `extra`.
///
/// The derived `Hash` of [`SocketAddr`] feeds the hasher field by field; three words cost a
/// third of that.
pub(crate) fn hash(state: &KeyedState, address: SocketAddr, extra: u64) -> u64 {
    let mut hasher = state.build_hasher();
    let ip = match address.ip() {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip),
    };
    let scope = match address {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(address) => address.scope_id(),
    };
    hasher.write_u64((ip >> 64) as u64);
    hasher.write_u64(ip as u64);
    hasher.write_u64(u64::from(address.port()) << 48 ^ u64::from(scope) << 16 ^ extra);
    hasher.finish()
}

impl MapKey for SocketAddr {
    fn keyed_hash(&self, state: &KeyedState) -> u64 {
        hash(state, *self, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_made_to_collide_do_not() {
        let state = KeyedState::with_seed(1);
        // Words that foldhash maps to the same hash regardless of the seed.
        let prefix = 0xc0ac_29b7_c97c_50dd_u128 << 64;
        let address = |host: u16| {
            let ip = core::net::Ipv6Addr::from(prefix | u128::from(host));
            hash(&state, (ip, 5_683).into(), 0)
        };
        let hashes: alloc::collections::BTreeSet<u64> = (0..1_000).map(address).collect();
        assert_eq!(hashes.len(), 1_000);
    }

    #[test]
    fn address_port_scope_and_extra_each_count() {
        let state = KeyedState::with_seed(1);
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let hashes = [
            hash(&state, address("10.0.0.1:1"), 0),
            hash(&state, address("10.0.0.2:1"), 0),
            hash(&state, address("10.0.0.1:2"), 0),
            hash(&state, address("10.0.0.1:1"), 1),
            hash(&state, address("[fe80::1%1]:1"), 0),
            hash(&state, address("[fe80::1%2]:1"), 0),
        ];
        for (i, a) in hashes.iter().enumerate() {
            assert!(hashes[i + 1..].iter().all(|b| a != b));
        }
    }
}
