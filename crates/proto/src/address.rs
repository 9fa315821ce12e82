//! Hashing of peer addresses, which happens for every datagram.

use core::hash::{BuildHasher, Hasher};
use core::net::{IpAddr, SocketAddr};

use foldhash::fast::FixedState;

/// A hash of address, port and scope, and of `extra`.
///
/// The derived `Hash` of [`SocketAddr`] feeds the hasher field by field; one wide word costs a
/// third of that.
pub(crate) fn hash(state: &FixedState, address: SocketAddr, extra: u64) -> u64 {
    let mut hasher = state.build_hasher();
    let ip = match address.ip() {
        IpAddr::V4(ip) => u128::from(u32::from(ip)),
        IpAddr::V6(ip) => u128::from(ip),
    };
    let scope = match address {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(address) => address.scope_id(),
    };
    hasher.write_u128(ip);
    hasher.write_u64(u64::from(address.port()) << 48 ^ u64::from(scope) << 16 ^ extra);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_port_scope_and_extra_each_count() {
        let state = FixedState::with_seed(1);
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
