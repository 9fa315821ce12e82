//! Local addresses that peers sent to: replies must leave from there.
//!
//! Only a socket bound to the unspecified address needs them. Immediate replies need no memory;
//! later ones, by a handler or a timer, do.

use std::net::{IpAddr, SocketAddr};

use carob_proto::tables::keyed_hash::KeyedState;
use hashbrown::HashMap;

use crate::transport::socket::is_group;

/// Peers of a generation. At this number a new generation begins, and the one before the last is
/// removed: the system then chooses the source address, and a client that rejects it sends its
/// request again.
const PEERS: usize = 4_096;

/// Addresses by peer.
#[derive(Debug)]
pub(super) struct Sources {
    /// The peer and the local address of the current datagram.
    current: Option<(SocketAddr, IpAddr)>,
    remembered: HashMap<SocketAddr, IpAddr, KeyedState>,
    /// The generation before.
    before: HashMap<SocketAddr, IpAddr, KeyedState>,
}

impl Sources {
    pub(super) fn new(seed: u64) -> Self {
        let none = || HashMap::with_hasher(KeyedState::with_seed(seed));
        Self {
            current: None,
            remembered: none(),
            before: none(),
        }
    }

    /// Sets the current datagram, from `peer` to `destination`.
    pub(super) fn on_datagram(&mut self, peer: SocketAddr, destination: Option<IpAddr>) {
        // A multicast address is no source address.
        let of_one = |address: &IpAddr| !is_group(*address);
        self.current = destination.filter(of_one).map(|address| (peer, address));
    }

    /// Clears the current datagram.
    pub(super) fn clear_source(&mut self) {
        self.current = None;
    }

    /// Remembers the local address for later replies to the current peer.
    pub(super) fn remember(&mut self) {
        let Some((peer, address)) = self.current else {
            return;
        };
        if self.remembered.len() >= PEERS && !self.remembered.contains_key(&peer) {
            // Two generations: at the limit the older half goes at once, without an LRU order.
            core::mem::swap(&mut self.remembered, &mut self.before);
            self.remembered.clear();
        }
        self.remembered.insert(peer, address);
    }

    /// The source address of replies to `peer`, if it matters.
    pub(super) fn of(&self, peer: SocketAddr) -> Option<IpAddr> {
        match self.current {
            Some((current, address)) if current == peer => Some(address),
            _ if self.remembered.is_empty() => None,
            _ => self
                .remembered
                .get(&peer)
                .or_else(|| self.before.get(&peer))
                .copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(n: usize) -> SocketAddr {
        ([10, 1, (n >> 8) as u8, n as u8], 5683).into()
    }

    #[test]
    fn later_messages_use_the_original_destination_as_source() {
        let mut sources = Sources::new(1);
        sources.on_datagram(peer(1), Some([127, 0, 0, 7].into()));
        assert_eq!(sources.of(peer(1)), Some([127, 0, 0, 7].into()));
        assert_eq!(sources.of(peer(2)), None);
        sources.remember();
        sources.clear_source();
        assert_eq!(sources.of(peer(1)), Some([127, 0, 0, 7].into()));
    }

    #[test]
    fn multicast_address_is_never_a_source() {
        let mut sources = Sources::new(1);
        for group in ["224.0.1.187", "ff02::fd", "255.255.255.255"] {
            sources.on_datagram(peer(1), Some(group.parse().unwrap()));
            assert_eq!(sources.of(peer(1)), None, "{group}");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut sources = Sources::new(1);
        for n in 0..3 * PEERS {
            sources.on_datagram(peer(n), Some([127, 0, 0, 7].into()));
            sources.remember();
        }
        assert!(sources.remembered.len() + sources.before.len() <= 2 * PEERS);
    }

    #[test]
    fn slow_recent_sources_are_kept_under_many_new_ones() {
        let mut sources = Sources::new(1);
        let to = [127, 0, 0, 7].into();
        for n in 0..3 * PEERS {
            sources.on_datagram(peer(n), Some(to));
            sources.remember();
            sources.clear_source();
            for last in n.saturating_sub(PEERS - 1)..=n {
                if (n - last).is_power_of_two() || last == n {
                    assert_eq!(sources.of(peer(last)), Some(to), "{last} of {n}");
                }
            }
        }
        assert_eq!(sources.of(peer(0)), None, "long ago");
    }
}
