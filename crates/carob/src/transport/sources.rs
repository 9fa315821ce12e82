//! Which address of ours a peer wrote to: what we answer must come from there.
//!
//! Only a socket bound to every address needs to know. Answers given at once need no memory;
//! answers given later, by a handler or by a timer, do.

use std::net::{IpAddr, SocketAddr};

use carob_proto::tables::keyed_hash::KeyedState;
use hashbrown::HashMap;

use crate::transport::socket::is_group;

/// Peers of a generation. When there are so many, a new generation begins, and the one before the last is
/// forgotten: for those not heard of since, the system chooses the address of what is still to be said to
/// them, and a client that does not take it from there asks again.
const PEERS: usize = 4_096;

/// Addresses by peer.
#[derive(Debug)]
pub(super) struct Sources {
    /// Whose datagram is being handled, and where it went.
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

    /// A datagram from `peer` to `destination` is being handled.
    pub(super) fn on_datagram(&mut self, peer: SocketAddr, destination: Option<IpAddr>) {
        // Nothing can be sent from the address of a group.
        let of_one = |address: &IpAddr| !is_group(*address);
        self.current = destination.filter(of_one).map(|address| (peer, address));
    }

    /// No datagram is being handled any more.
    pub(super) fn hear_nobody(&mut self) {
        self.current = None;
    }

    /// Something will be said to the current peer later.
    pub(super) fn remember(&mut self) {
        let Some((peer, address)) = self.current else {
            return;
        };
        if self.remembered.len() >= PEERS && !self.remembered.contains_key(&peer) {
            core::mem::swap(&mut self.remembered, &mut self.before);
            self.remembered.clear();
        }
        self.remembered.insert(peer, address);
    }

    /// The address to answer `peer` from, if it matters.
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
    fn what_is_said_later_comes_from_where_the_peer_wrote_to() {
        let mut sources = Sources::new(1);
        sources.on_datagram(peer(1), Some([127, 0, 0, 7].into()));
        assert_eq!(sources.of(peer(1)), Some([127, 0, 0, 7].into()));
        assert_eq!(sources.of(peer(2)), None);
        sources.remember();
        sources.hear_nobody();
        assert_eq!(sources.of(peer(1)), Some([127, 0, 0, 7].into()));
    }

    #[test]
    fn nothing_comes_from_a_group() {
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
    fn slow_who_was_among_the_last_is_still_known_when_many_more_have_come() {
        let mut sources = Sources::new(1);
        let to = [127, 0, 0, 7].into();
        for n in 0..3 * PEERS {
            sources.on_datagram(peer(n), Some(to));
            sources.remember();
            sources.hear_nobody();
            for last in n.saturating_sub(PEERS - 1)..=n {
                if (n - last).is_power_of_two() || last == n {
                    assert_eq!(sources.of(peer(last)), Some(to), "{last} of {n}");
                }
            }
        }
        assert_eq!(sources.of(peer(0)), None, "long ago");
    }
}
