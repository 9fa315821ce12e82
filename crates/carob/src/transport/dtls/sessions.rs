//! The sessions of a socket: indexed by peer, ordered by use.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use carob_cc::time::Instant;
use carob_proto::endpoint::Flight;
use carob_proto::tables::keyed_hash::KeyedState;
use carob_proto::tables::lru::LruList;
use carob_proto::tables::quota::{QuotaTable, Source};
use hashbrown::HashMap;
use slab::Slab;

use crate::transport::dtls::secure::SecureDatagram;
use crate::transport::dtls::{ClientVerifier, PeerIdentity, ServerVerifier};

/// The own role in a session.
pub(super) enum Role {
    Client {
        /// `None` if servers are authenticated by a key.
        verifier: Option<ServerVerifier>,
        /// The PSK identity sent to the server.
        identity: Option<Vec<u8>>,
    },
    Server {
        /// `None` if clients need no certificate.
        verifier: Option<ClientVerifier>,
        /// The client random, which distinguishes the handshakes of one client.
        random: [u8; 32],
    },
}

impl Role {
    pub(super) fn is_client(&self) -> bool {
        matches!(self, Self::Client { .. })
    }
}

/// A handshake in progress.
pub(super) struct Handshake {
    pub(super) flight: Option<Flight>,
    /// The time of its retransmission timer, or of its limit.
    pub(super) due: Instant,
    pub(super) until: Instant,
    /// The source, if the peer began the handshake.
    pub(super) source: Option<Source>,
    /// The peer has sent a datagram.
    pub(super) peer_responded: bool,
    /// The own proof of possession of the key was sent.
    pub(super) proven: bool,
    /// The peer was sent an alert for its invalid proof.
    pub(super) refused: bool,
}

pub(super) struct Session {
    pub(super) peer: SocketAddr,
    /// The local address of the session, if the system does not choose it.
    pub(super) own: Option<IpAddr>,
    pub(super) secure: Box<dyn SecureDatagram>,
    pub(super) role: Role,
    /// The peer's identity, claimed during the handshake and proven after it.
    pub(super) identity: Option<Arc<PeerIdentity>>,
    /// The pre-shared key identity that the peer named, known or not.
    pub(super) claimed: Option<Vec<u8>>,
    /// `None` once complete.
    pub(super) handshake: Option<Handshake>,
    pub(super) used: Instant,
}

/// The sessions with one peer: a live one, and a handshake that may replace it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub(super) live: Option<u32>,
    pub(super) next: Option<u32>,
}

pub(super) struct Sessions {
    pub(super) slots: Slab<Session>,
    index: HashMap<SocketAddr, Place, KeyedState>,
    /// Live sessions by use, and handshakes by age.
    live: LruList,
    young: LruList,
    lives: usize,
    /// Handshakes in progress of each source.
    pub(super) begun: QuotaTable,
    /// The deadlines of handshakes.
    due: BTreeSet<(Instant, u32)>,
}

impl Sessions {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            slots: Slab::new(),
            // Keyed: remote hosts choose the addresses, and could make them collide.
            index: HashMap::with_hasher(KeyedState::with_seed(seed)),
            live: LruList::default(),
            young: LruList::default(),
            lives: 0,
            begun: QuotaTable::new(seed.rotate_left(8)),
            due: BTreeSet::new(),
        }
    }

    pub(super) fn of(&self, peer: SocketAddr) -> Place {
        self.index.get(&peer).copied().unwrap_or_default()
    }

    pub(super) fn live(&self) -> usize {
        self.lives
    }

    pub(super) fn handshakes(&self) -> usize {
        self.slots.len() - self.lives
    }

    pub(super) fn oldest_live(&self) -> Option<u32> {
        self.live.oldest()
    }

    pub(super) fn oldest_handshake(&self) -> Option<u32> {
        self.young.oldest()
    }

    /// The oldest handshake of a source; linear in the number of older ones.
    pub(super) fn oldest_handshake_of(&self, source: Source) -> Option<u32> {
        let mut next = self.young.oldest();
        while let Some(index) = next {
            let handshake = self.slots[index as usize].handshake.as_ref();
            if handshake.and_then(|handshake| handshake.source) == Some(source) {
                break;
            }
            next = self.young.newer(index);
        }
        next
    }

    /// Adds a session whose handshake begins.
    pub(super) fn add(&mut self, session: Session) -> u32 {
        let peer = session.peer;
        let due = session.handshake.as_ref().map(|handshake| handshake.due);
        if let Some(source) = session.handshake.as_ref().and_then(|young| young.source) {
            self.begun.add(source, 1);
        }
        let index = self.slots.insert(session) as u32;
        self.young.add(index);
        if let Some(due) = due {
            self.due.insert((due, index));
        }
        let place = self.index.entry(peer).or_default();
        debug_assert!(place.next.is_none(), "one handshake a peer");
        place.next = Some(index);
        self.check_invariants();
        index
    }

    /// Checks the numbers of sessions and handshakes.
    #[inline]
    fn check_invariants(&self) {
        debug_assert!(self.lives <= self.slots.len());
        debug_assert!(self.index.len() <= self.slots.len());
        debug_assert!(
            self.due.len() == self.handshakes(),
            "a handshake has a deadline"
        );
        debug_assert!(self.begun.len() <= self.handshakes());
        debug_assert!((self.lives == 0) == self.live.oldest().is_none());
    }

    /// The deadline of the next handshake.
    pub(super) fn next_due(&self) -> Option<(Instant, u32)> {
        self.due.first().copied()
    }

    /// Sets the deadline of a handshake.
    pub(super) fn set_due(&mut self, index: u32, at: Instant) {
        if let Some(handshake) = &mut self.slots[index as usize].handshake {
            // The set is ordered by the deadline, so that the old key must go first.
            self.due.remove(&(handshake.due, index));
            // No timer outlives the time limit: a peer must not prolong its handshake by
            // retransmissions.
            handshake.due = at.min(handshake.until);
            self.due.insert((handshake.due, index));
        }
    }

    /// Makes the session of a completed handshake live. There must be no other live session with
    /// its peer.
    pub(super) fn promote(&mut self, now: Instant, index: u32) -> Option<Handshake> {
        let session = &mut self.slots[index as usize];
        let handshake = session.handshake.take()?;
        session.used = now;
        if let Some(source) = handshake.source {
            self.begun.subtract(source, 1);
        }
        self.due.remove(&(handshake.due, index));
        self.young.remove(index);
        self.live.add(index);
        self.lives += 1;
        let place = self.index.entry(session.peer).or_default();
        debug_assert!(place.live.is_none());
        debug_assert!(place.next == Some(index), "the handshake of its peer");
        (place.live, place.next) = (Some(index), None);
        self.check_invariants();
        Some(handshake)
    }

    pub(super) fn touch(&mut self, now: Instant, index: u32) {
        self.slots[index as usize].used = now;
        self.live.touch(index);
    }

    pub(super) fn remove(&mut self, index: u32) -> Session {
        let session = self.slots.remove(index as usize);
        if let Some(handshake) = &session.handshake {
            if let Some(source) = handshake.source {
                self.begun.subtract(source, 1);
            }
            self.due.remove(&(handshake.due, index));
            self.young.remove(index);
        } else {
            self.live.remove(index);
            self.lives -= 1;
        }
        if let Some(place) = self.index.get_mut(&session.peer) {
            // Its peer may have another one: a session is live while the next begins.
            place.live = place.live.filter(|&other| other != index);
            place.next = place.next.filter(|&other| other != index);
            if place.live.is_none() && place.next.is_none() {
                self.index.remove(&session.peer);
            }
        }
        self.check_invariants();
        session
    }

    /// All live sessions.
    pub(super) fn all_live(&self) -> Vec<u32> {
        let live = |(index, session): (usize, &Session)| {
            session.handshake.is_none().then_some(index as u32)
        };
        self.slots.iter().filter_map(live).collect()
    }
}
