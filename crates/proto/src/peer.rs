//! The peers we send to, and what is kept of each.
//!
//! A peer is an address and a port. It is known from the first message that *we* originate: a
//! server that only answers with piggybacked responses keeps no peer state at all. The table has
//! a limit; when it is full, the peer that was sent to longest ago makes room, but not before
//! EXCHANGE_LIFETIME has passed since (its Message IDs must not be used again before) and never
//! while an exchange with it runs. Peers that have not shown where they are make room first, and may
//! fill a part of the table only.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::Cell;
use core::net::SocketAddr;

use carob_cc::TransmissionParameters;
use carob_cc::time::{Duration, Instant};
use hashbrown::HashTable;
use slab::Slab;

use crate::address;
use crate::congestion::Congestion;
use crate::endpoint::{NO_AGGREGATE, Queue, Session};
use crate::keyed_hash::KeyedState;
use crate::message_id::MessageIds;
use crate::observe::freshness::SEQUENCE_MAX;
use crate::recency::Ranked;
use crate::shares::{Shares, Sharing};
use crate::timers::TimerId;

/// Index of a peer in its table.
pub(crate) type PeerIndex = u32;

/// What is kept of one peer.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) congestion: Congestion,
    pub(crate) message_ids: MessageIds,
    /// Exchanges that wait to be sent.
    pub(crate) queue: Queue,
    /// Set while the queue waits for a time (pacing, a free Message ID), not for an answer.
    pub(crate) wake: Option<TimerId>,
    /// This peer's own transmission parameters, where they differ from the endpoint's.
    pub(crate) parameters: Option<Box<TransmissionParameters>>,
    /// Interactions outstanding (RFC 7252 4.7) and the bytes they put in flight.
    pub(crate) outstanding: u16,
    pub(crate) outstanding_bytes: u32,
    /// Requests and exchanges of any state that refer to this peer.
    pub(crate) users: u32,
    /// The first of its observations of our resources, by index; `NONE` if it has none.
    pub(crate) first_observer: u32,
    /// The number of the last notification it was sent; see [`next_number`](Self::next_number).
    pub(crate) notified: u32,
    pub(crate) tally: Tally,
    /// Whether its answers name the copies that they answer.
    pub(crate) echo: Echo,
    /// The budget that it shares with others, by number.
    pub(crate) aggregate: u8,
    /// It waits for that.
    pub(crate) waits_for_aggregate: bool,
    /// Its session, where datagrams are secured.
    pub(crate) session: Session,
    /// When something was last heard of it; the beginning of time if nothing ever was.
    pub(crate) last_heard: Instant,
    pub(crate) last_sent: Instant,
}

/// How a peer became one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// It came to us, and may be somewhere else.
    Came,
    /// It came to us, and has shown where it is.
    Shown,
    /// We have turned to it ourselves.
    Own,
}

impl Peer {
    /// The Observe value of the next notification.
    ///
    /// All observations of a peer count together, and the count outlives them: so one that was
    /// forgotten and is registered again with its old token goes on counting, and a late
    /// notification of the time before is not taken for newer (RFC 7641 4.4).
    pub(crate) fn next_number(&mut self) -> u32 {
        self.notified = self.notified.wrapping_add(1) & SEQUENCE_MAX;
        self.notified
    }
}

/// What became of the messages we sent to a peer. Counts stop at their largest value.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Copies that left.
    pub(crate) transmissions: u32,
    /// Copies after the first of their exchange.
    pub(crate) retransmissions: u32,
    /// The last round-trip time that is certain, in microseconds; 0 if there was none.
    pub(crate) round_trip: u32,
    /// The shortest of those, likewise.
    pub(crate) shortest: u32,
}

impl Tally {
    /// Notes a round trip that is certain.
    pub(crate) fn took(&mut self, round_trip: Duration) {
        let micros = round_trip.as_micros_u32();
        self.round_trip = micros;
        if self.shortest == 0 || micros < self.shortest {
            self.shortest = micros;
        }
    }
}

/// Whether a peer's answers name the copies of requests that they answer, as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Echo {
    /// It has not been asked, or has not answered.
    #[default]
    Unknown,
    /// It has ignored the option that asks for it.
    Absent,
    /// It has named a copy. It may do so with an answer that it had kept of another.
    Unproven,
    /// It names each copy: two answers to one message differed in this.
    Proven,
}

/// All peers, found by address in constant time, ordered by when we last sent to them.
#[derive(Debug)]
pub(crate) struct Peers {
    state: KeyedState,
    index: HashTable<u32>,
    slots: Slab<Peer>,
    /// What was found last: one message asks for its peer several times, and a client has few.
    last: Cell<u32>,
    limit: usize,
    /// What those may fill that have not shown where they are.
    unshown_limit: usize,
    by_sending: Ranked,
    /// By index: a byte of its own would make each peer eight larger.
    standings: Vec<Standing>,
    sharing: Sharing,
    /// What sources have of the table that came to us.
    shares: Shares,
}

/// The table of peers is full of peers in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeersFull;

impl Peers {
    pub(crate) fn new(seed: u64, limit: usize, sharing: Sharing) -> Self {
        let limit = limit.clamp(1, u32::MAX as usize - 1);
        Self {
            state: KeyedState::with_seed(seed),
            index: HashTable::new(),
            slots: Slab::new(),
            last: Cell::new(0),
            limit,
            unshown_limit: sharing.most_of_unvalidated(limit),
            by_sending: Ranked::default(),
            standings: Vec::new(),
            sharing,
            shares: Shares::new(seed.rotate_left(8)),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn get_mut(&mut self, index: PeerIndex) -> Option<&mut Peer> {
        self.slots.get_mut(index as usize)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.slots.iter().map(|(_, peer)| peer)
    }

    pub(crate) fn find(&self, address: SocketAddr) -> Option<PeerIndex> {
        if self.slots.is_empty() {
            return None; // a server that only piggybacks asks for every datagram
        }
        let is = |index: u32| {
            let peer = self.slots.get(index as usize);
            peer.is_some_and(|peer| peer.address == address)
        };
        let last = self.last.get();
        if is(last) {
            return Some(last);
        }
        let hash = address::hash(&self.state, address, 0);
        let found = self.index.find(hash, |&index| is(index)).copied()?;
        self.last.set(found);
        Some(found)
    }

    /// The peer at `address`, made known with `build` if it is not yet.
    pub(crate) fn find_or_add(
        &mut self,
        now: Instant,
        lifetime: Duration,
        (address, standing): (SocketAddr, Standing),
        build: impl FnOnce() -> (Congestion, MessageIds),
    ) -> Result<PeerIndex, PeersFull> {
        if let Some(index) = self.find(address) {
            self.raise(index, standing);
            return Ok(index);
        }
        let shown = standing > Standing::Came;
        let limit = if shown {
            self.limit
        } else {
            self.unshown_limit
        };
        let source = self.sharing.source(address);
        let shared = standing < Standing::Own;
        if shared && self.shares.of(source) >= self.sharing.most(self.limit) {
            return Err(PeersFull);
        }
        let full = self.slots.len() >= limit;
        if full
            && !self.make_room(now, lifetime, false)
            && !(shown && self.make_room(now, lifetime, true))
        {
            return Err(PeersFull);
        }
        let (congestion, message_ids) = build();
        let index = self.slots.insert(Peer {
            address,
            congestion,
            message_ids,
            queue: Queue::default(),
            wake: None,
            parameters: None,
            outstanding: 0,
            notified: 0,
            outstanding_bytes: 0,
            users: 0,
            first_observer: crate::observe::observers::NONE,
            tally: Tally::default(),
            echo: Echo::default(),
            session: Session::default(),
            aggregate: NO_AGGREGATE,
            waits_for_aggregate: false,
            last_heard: Instant::ZERO,
            last_sent: now,
        }) as u32;
        if self.standings.len() <= index as usize {
            self.standings.resize(index as usize + 1, standing);
        }
        self.standings[index as usize] = standing;
        if shared {
            self.shares.add(source, 1);
        }
        let hash = address::hash(&self.state, address, 0);
        let Self {
            state,
            index: table,
            slots,
            ..
        } = self;
        table.insert_unique(hash, index, |&i| {
            address::hash(state, slots[i as usize].address, 0)
        });
        self.by_sending.add(index, shown);
        Ok(index)
    }

    /// Notes that a peer has a better standing than it had.
    fn raise(&mut self, index: PeerIndex, standing: Standing) {
        let before = self.standings[index as usize];
        if standing <= before {
            return;
        }
        self.standings[index as usize] = standing;
        let source = self.sharing.source(self.slots[index as usize].address);
        if before == Standing::Came {
            self.by_sending.remove(index, false);
            self.by_sending.add(index, true);
        }
        if standing == Standing::Own {
            self.shares.subtract(source, 1);
        }
    }

    /// Forgets the peer sent to longest ago that is out of use, of those that have shown where they are
    /// or of the others; whether there was one.
    fn make_room(&mut self, now: Instant, lifetime: Duration, shown: bool) -> bool {
        // Peers with a running exchange were sent to lately or are few; the walk past them is
        // bounded all the same.
        const WALK_LIMIT: usize = 64;
        let mut next = self.by_sending.oldest(shown);
        for _ in 0..WALK_LIMIT {
            let Some(candidate) = next else { break };
            let peer = &self.slots[candidate as usize];
            if now.since(peer.last_sent) < lifetime {
                break;
            }
            if peer.users == 0 {
                let hash = address::hash(&self.state, peer.address, 0);
                if let Ok(found) = self.index.find_entry(hash, |&i| i == candidate) {
                    found.remove();
                }
                self.by_sending.remove(candidate, shown);
                let peer = self.slots.remove(candidate as usize);
                if self.standings[candidate as usize] < Standing::Own {
                    let source = self.sharing.source(peer.address);
                    self.shares.subtract(source, 1);
                }
                return true;
            }
            next = self.by_sending.newer(candidate);
        }
        false
    }

    /// Notes that something was sent to a peer.
    pub(crate) fn sent(&mut self, index: PeerIndex, now: Instant) {
        self.slots[index as usize].last_sent = now;
        let shown = self.standings[index as usize] > Standing::Came;
        self.by_sending.touch(index, shown);
    }
}

impl core::ops::Index<PeerIndex> for Peers {
    type Output = Peer;
    fn index(&self, index: PeerIndex) -> &Peer {
        &self.slots[index as usize]
    }
}

impl core::ops::IndexMut<PeerIndex> for Peers {
    fn index_mut(&mut self, index: PeerIndex) -> &mut Peer {
        &mut self.slots[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::Choice;
    use crate::endpoint::Limits;

    const LIFETIME: Duration = Duration::from_secs(247);

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn add(peers: &mut Peers, seconds: u64, port: u16) -> Result<PeerIndex, PeersFull> {
        let now = Instant::ZERO + Duration::from_secs(seconds);
        add_as(peers, now, port, Standing::Own)
    }

    fn add_as(
        peers: &mut Peers,
        now: Instant,
        port: u16,
        standing: Standing,
    ) -> Result<PeerIndex, PeersFull> {
        peers.find_or_add(now, LIFETIME, (address(port), standing), || {
            (
                Choice::default().build(address(port)),
                MessageIds::starting_at(0),
            )
        })
    }

    #[test]
    fn a_known_peer_costs_less_than_200_bytes() {
        let entry = size_of::<Peer>() + 8 + 1 + 5; // with its links, standing and share of the index
        assert!(entry <= 200, "{entry} bytes");
    }

    #[test]
    fn a_full_table_forgets_the_peer_sent_to_longest_ago_but_not_too_soon() {
        let mut peers = Peers::new(1, 3, Limits::default().sharing());
        for port in 1..=3 {
            add(&mut peers, u64::from(port), port).expect("there is room");
        }
        assert_eq!(add(&mut peers, 200, 4), Err(PeersFull));
        let first = peers.find(address(1)).expect("known");
        peers.sent(first, Instant::ZERO + Duration::from_secs(201));
        add(&mut peers, 260, 4).expect("peer 2 makes room");
        assert!(peers.find(address(2)).is_none());
        assert!(peers.find(address(1)).is_some() && peers.find(address(3)).is_some());
        assert_eq!(peers.len(), 3);
    }

    #[test]
    fn a_peer_with_a_running_exchange_is_not_forgotten() {
        let mut peers = Peers::new(1, 2, Limits::default().sharing());
        let busy = add(&mut peers, 0, 1).expect("room");
        peers[busy].users = 1;
        add(&mut peers, 0, 2).expect("room");
        add(&mut peers, 300, 3).expect("the idle one makes room");
        assert!(peers.find(address(1)).is_some() && peers.find(address(2)).is_none());
    }

    #[test]
    fn who_has_not_shown_where_it_is_fills_a_part_and_makes_room_first() {
        let limits = Limits {
            source_share: 100,
            ..Limits::default()
        };
        let mut peers = Peers::new(1, 8, limits.sharing());
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        add_as(&mut peers, at(0), 1, Standing::Own).expect("room");
        for port in 2..=6 {
            add_as(&mut peers, at(0), port, Standing::Came).expect("room");
        }
        assert_eq!(
            add_as(&mut peers, at(0), 7, Standing::Came),
            Err(PeersFull),
            "six of eight"
        );
        for port in 8..=9 {
            add_as(&mut peers, at(1), port, Standing::Own).expect("the rest is for these");
        }
        assert_eq!(add_as(&mut peers, at(1), 10, Standing::Own), Err(PeersFull));
        // The first was sent to as long ago as the others, but has shown where it is.
        for port in 11..=15 {
            add_as(&mut peers, at(300), port, Standing::Own).expect("room is made");
            assert!(peers.find(address(1)).is_some());
        }
        assert!((2..=6).all(|port| peers.find(address(port)).is_none()));
        add_as(&mut peers, at(300), 16, Standing::Own).expect("now it is its turn");
        assert!(peers.find(address(1)).is_none());
        // Who shows it later is not forgotten first any more.
        let mut peers = Peers::new(1, 4, limits.sharing());
        for port in 1..=3 {
            add_as(&mut peers, at(0), port, Standing::Came).expect("room");
        }
        add_as(&mut peers, at(1), 1, Standing::Shown).expect("known");
        for port in 4..=6 {
            add_as(&mut peers, at(300), port, Standing::Own).expect("room");
        }
        assert_eq!(
            [1, 2, 3].map(|port| peers.find(address(port)).is_some()),
            [true, false, false]
        );
    }

    #[test]
    fn one_source_has_its_share_of_those_that_come_whatever_its_ports() {
        let mut peers = Peers::new(1, 8, Limits::default().sharing());
        let now = Instant::ZERO;
        for port in 1..=4 {
            add_as(&mut peers, now, port, Standing::Shown).expect("room");
        }
        assert_eq!(add_as(&mut peers, now, 5, Standing::Shown), Err(PeersFull));
        add_as(&mut peers, now, 6, Standing::Own).expect("we may turn to it");
        add_as(&mut peers, now, 1, Standing::Own).expect("known");
        add_as(&mut peers, now, 5, Standing::Shown).expect("one of those is ours now");
        assert_eq!(add_as(&mut peers, now, 7, Standing::Shown), Err(PeersFull));
    }
}
