//! Peers that messages originate to, and their state.
//!
//! A peer is an address and a port. It is known from the first message that *this endpoint*
//! originates: a server that only sends piggybacked responses has no peer state at all. At the
//! limit of the table, the least recently used peer is evicted. It must be unused for
//! EXCHANGE_LIFETIME, because its Message IDs must not be reused earlier, and without a running
//! exchange. Unvalidated peers are evicted first, and may fill only a part of the table.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;

use carob_cc::TransmissionParameters;
use carob_cc::time::{Duration, Instant};

use crate::address::PeerIndex;
use crate::congestion::Congestion;
use crate::message_id::MessageIds;
use crate::message_layer::Queue;
use crate::message_layer::bottleneck_group::NONE as NO_AGGREGATE;
use crate::message_layer::session::Session;
use crate::observe::SEQUENCE_MAX;
use crate::tables::bounded_map::{BoundedMap, Keyed};
use crate::tables::quota::{QuotaPolicy, QuotaTable};
use crate::timers::TimerId;

/// State of one peer.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) congestion: Congestion,
    pub(crate) message_ids: MessageIds,
    /// Exchanges waiting to be sent.
    pub(crate) queue: Queue,
    /// Set while the queue waits for a time (pacing, a free Message ID), not for a reply.
    pub(crate) wake: Option<TimerId>,
    /// This peer's own transmission parameters, where they differ from the endpoint's.
    pub(crate) parameters: Option<Box<TransmissionParameters>>,
    /// Interactions outstanding (RFC 7252 4.7) and the bytes they put in flight.
    pub(crate) outstanding: u16,
    pub(crate) outstanding_bytes: u32,
    /// NON presumed to have arrived that the peer has not reported yet.
    pub(crate) presumed: u16,
    /// Requests and exchanges of any state that refer to this peer.
    pub(crate) users: u32,
    /// The first of its observations of this endpoint's resources, by index; `NONE` without one.
    pub(crate) first_observer: u32,
    /// The number of the last notification sent to it; see [`next_number`](Self::next_number).
    pub(crate) notified: u32,
    pub(crate) tally: PeerStatistics,
    /// Support of copy tagging in its replies.
    pub(crate) count_support: CountSupport,
    /// The index of its shared budget.
    pub(crate) aggregate: u8,
    /// Blocked on the bottleneck group's budget.
    pub(crate) waits_for_aggregate: bool,
    /// Its session, where datagrams are secured.
    pub(crate) session: Session,
    /// The time of the last message from it; the beginning of time if there was none.
    pub(crate) last_heard: Instant,
    pub(crate) last_sent: Instant,
}

/// The validation state of a peer's address (RFC 9175 2, compare RFC 9000 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AddressState {
    /// Messages were received from it; its address may be spoofed.
    Unvalidated,
    /// Messages were received from it, and its address is validated.
    Validated,
    /// This endpoint initiated the communication.
    Initiated,
}

impl Peer {
    fn new(
        now: Instant,
        address: SocketAddr,
        congestion: Congestion,
        message_ids: MessageIds,
    ) -> Self {
        Self {
            address,
            congestion,
            message_ids,
            queue: Queue::default(),
            wake: None,
            parameters: None,
            outstanding: 0,
            notified: 0,
            outstanding_bytes: 0,
            presumed: 0,
            users: 0,
            first_observer: crate::observe::observers::NONE,
            tally: PeerStatistics::default(),
            count_support: CountSupport::default(),
            session: Session::default(),
            aggregate: NO_AGGREGATE,
            waits_for_aggregate: false,
            last_heard: Instant::ZERO,
            last_sent: now,
        }
    }

    /// The Observe value of the next notification.
    ///
    /// All observations of a peer share one sequence, which outlives them. An observation that is
    /// registered again with its old token therefore continues the sequence, and a late
    /// notification is not taken for newer (RFC 7641 4.4).
    pub(crate) fn next_number(&mut self) -> u32 {
        debug_assert!(self.notified <= SEQUENCE_MAX, "24 bits");
        self.notified = self.notified.wrapping_add(1) & SEQUENCE_MAX;
        self.notified
    }
}

/// Transmission statistics of a peer. Counts saturate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PeerStatistics {
    /// Transmissions, including retransmissions.
    pub(crate) transmissions: u32,
    /// Retransmissions.
    pub(crate) retransmissions: u32,
    /// The last unambiguous round-trip time in microseconds; 0 if there was none.
    pub(crate) round_trip: u32,
    /// The shortest unambiguous round-trip time, likewise.
    pub(crate) shortest: u32,
}

impl PeerStatistics {
    /// Records an unambiguous round-trip time.
    pub(crate) fn record_round_trip(&mut self, round_trip: Duration) {
        let micros = round_trip.as_micros_u32();
        self.round_trip = micros;
        if self.shortest == 0 || micros < self.shortest {
            self.shortest = micros;
        }
        debug_assert!(self.shortest <= self.round_trip);
    }
}

/// Support of copy tagging by a peer, as far as known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CountSupport {
    /// No request was tagged, or none was answered.
    #[default]
    Unknown,
    /// It has ignored the counting option.
    Absent,
    /// It has named a transmission, possibly in a stored reply to another one.
    Unproven,
    /// It names each transmission: two replies to one message differed.
    Proven,
}

impl Keyed for Peer {
    type Key = SocketAddr;

    fn key(&self) -> &SocketAddr {
        &self.address
    }
}

/// All peers, found by address in constant time, in LRU order.
#[derive(Debug)]
pub(crate) struct Peers {
    /// In the order in which they were last sent to; the higher tier has validated addresses.
    table: BoundedMap<Peer>,
    /// Table entries available to unvalidated addresses.
    unshown_limit: usize,
    /// Validation states by index: a byte within `Peer` would enlarge it by eight.
    address_states: Vec<AddressState>,
    quota_policy: QuotaPolicy,
    /// Usage by source of entries for peers that initiated the communication.
    shares: QuotaTable,
}

/// Every entry of the peer table is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeersFull;

impl Peers {
    pub(crate) fn new(seed: u64, limit: usize, quota_policy: QuotaPolicy) -> Self {
        // In a table of none, no eviction would make room.
        let table = BoundedMap::new(seed, limit.max(1));
        Self {
            unshown_limit: quota_policy.unvalidated_watermark(table.limit()),
            table,
            address_states: Vec::new(),
            quota_policy,
            shares: QuotaTable::new(seed.rotate_left(8)),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn get_mut(&mut self, index: PeerIndex) -> Option<&mut Peer> {
        self.table.get_mut(index)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.table.iter()
    }

    #[inline]
    pub(crate) fn find(&self, address: SocketAddr) -> Option<PeerIndex> {
        self.table.find(&address)
    }

    /// The peer at `address`, created with `build` if unknown.
    pub(crate) fn find_or_add(
        &mut self,
        now: Instant,
        lifetime: Duration,
        (address, address_state): (SocketAddr, AddressState),
        build: impl FnOnce() -> (Congestion, MessageIds),
    ) -> Result<PeerIndex, PeersFull> {
        if let Some(index) = self.find(address) {
            self.raise(index, address_state);
            return Ok(index);
        }
        let shown = address_state > AddressState::Unvalidated;
        let limit = if shown {
            self.table.limit()
        } else {
            self.unshown_limit
        };
        let source = self.quota_policy.source(address);
        // Peers that this endpoint turned to are its own choice, and count against no quota.
        let shared = address_state < AddressState::Initiated;
        if shared && self.shares.of(source) >= self.quota_policy.quota(self.table.limit()) {
            return Err(PeersFull);
        }
        let full = self.table.len() >= limit;
        if full
            && !self.make_room(now, lifetime, false)
            // Unvalidated peers never displace others: a flood from forged addresses evicts its own
            // entries.
            && !(shown && self.make_room(now, lifetime, true))
        {
            return Err(PeersFull);
        }
        debug_assert!(!self.table.is_full(), "room was made");
        let (congestion, message_ids) = build();
        let peer = Peer::new(now, address, congestion, message_ids);
        let index = self.table.insert(peer, shown);
        if self.address_states.len() <= index as usize {
            self.address_states
                .resize(index as usize + 1, address_state);
        }
        self.address_states[index as usize] = address_state;
        if shared {
            self.shares.add(source, 1);
        }
        debug_assert!(self.find(address) == Some(index), "a new peer is found");
        self.check_invariants();
        Ok(index)
    }

    /// Checks the sizes of the tables beside each other.
    #[inline]
    fn check_invariants(&self) {
        debug_assert!(self.table.len() <= self.table.limit());
        debug_assert!(self.address_states.len() >= self.table.len());
        debug_assert!(self.shares.len() <= self.table.len());
        debug_assert!(self.unshown_limit <= self.table.limit());
    }

    /// Raises the validation state of a peer.
    fn raise(&mut self, index: PeerIndex, address_state: AddressState) {
        let before = self.address_states[index as usize];
        if address_state <= before {
            return;
        }
        self.address_states[index as usize] = address_state;
        let source = self.quota_policy.source(self.table[index].address);
        if before == AddressState::Unvalidated {
            self.table.raise(index);
        }
        if address_state == AddressState::Initiated {
            self.shares.subtract(source, 1);
        }
        self.check_invariants();
    }

    /// Evicts the least recently used peer without users, validated or not, by `shown`. Returns
    /// whether there was one.
    fn make_room(&mut self, now: Instant, lifetime: Duration, shown: bool) -> bool {
        // Peers with a running exchange were used recently or are few; the limit bounds the walk in
        // any case.
        const WALK_LIMIT: usize = 64;
        let mut next = self.table.oldest(shown);
        for _ in 0..WALK_LIMIT {
            let Some(candidate) = next else { break };
            let peer = &self.table[candidate];
            // In LRU order all others were sent to later. An evicted peer would reuse its Message
            // IDs within EXCHANGE_LIFETIME (RFC 7252 4.4).
            if now.since(peer.last_sent) < lifetime {
                break;
            }
            if peer.users == 0 {
                debug_assert!(peer.queue.is_empty() && peer.outstanding == 0);
                debug_assert!(peer.first_observer == crate::observe::observers::NONE);
                debug_assert!(peer.wake.is_none(), "a timer of a peer without a queue");
                let peer = self.table.remove(candidate, shown);
                if self.address_states[candidate as usize] < AddressState::Initiated {
                    let source = self.quota_policy.source(peer.address);
                    self.shares.subtract(source, 1);
                }
                return true;
            }
            next = self.table.newer(candidate);
        }
        false
    }

    /// Records that something was sent to a peer.
    pub(crate) fn sent(&mut self, index: PeerIndex, now: Instant) {
        self.table[index].last_sent = now;
        debug_assert!(self.table.get(index).is_some(), "no peer {index}");
        let shown = self.address_states[index as usize] > AddressState::Unvalidated;
        self.table.touch(index, shown);
    }
}

impl core::ops::Index<PeerIndex> for Peers {
    type Output = Peer;
    fn index(&self, index: PeerIndex) -> &Peer {
        &self.table[index]
    }
}

impl core::ops::IndexMut<PeerIndex> for Peers {
    fn index_mut(&mut self, index: PeerIndex) -> &mut Peer {
        &mut self.table[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::CongestionControl;
    use crate::limits::Limits;

    const LIFETIME: Duration = Duration::from_secs(247);

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn add(peers: &mut Peers, seconds: u64, port: u16) -> Result<PeerIndex, PeersFull> {
        let now = Instant::ZERO + Duration::from_secs(seconds);
        add_as(peers, now, port, AddressState::Initiated)
    }

    fn add_as(
        peers: &mut Peers,
        now: Instant,
        port: u16,
        address_state: AddressState,
    ) -> Result<PeerIndex, PeersFull> {
        peers.find_or_add(now, LIFETIME, (address(port), address_state), || {
            (
                CongestionControl::default().build(address(port)),
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
    fn full_table_evicts_lru_peer_after_exchange_lifetime() {
        let mut peers = Peers::new(1, 3, QuotaPolicy::from(&Limits::default()));
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
        let mut peers = Peers::new(1, 2, QuotaPolicy::from(&Limits::default()));
        let busy = add(&mut peers, 0, 1).expect("room");
        peers[busy].users = 1;
        add(&mut peers, 0, 2).expect("room");
        add(&mut peers, 300, 3).expect("the idle one makes room");
        assert!(peers.find(address(1)).is_some() && peers.find(address(2)).is_none());
    }

    #[test]
    fn unvalidated_peers_fill_a_part_and_are_evicted_first() {
        let limits = Limits {
            source_share: 100,
            ..Limits::default()
        };
        let mut peers = Peers::new(1, 8, QuotaPolicy::from(&limits));
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        add_as(&mut peers, at(0), 1, AddressState::Initiated).expect("room");
        for port in 2..=6 {
            add_as(&mut peers, at(0), port, AddressState::Unvalidated).expect("room");
        }
        assert_eq!(
            add_as(&mut peers, at(0), 7, AddressState::Unvalidated),
            Err(PeersFull),
            "six of eight"
        );
        for port in 8..=9 {
            add_as(&mut peers, at(1), port, AddressState::Initiated)
                .expect("the rest is for these");
        }
        assert_eq!(
            add_as(&mut peers, at(1), 10, AddressState::Initiated),
            Err(PeersFull)
        );
        // The first was used as long ago as the others, but is validated.
        for port in 11..=15 {
            add_as(&mut peers, at(300), port, AddressState::Initiated).expect("room is made");
            assert!(peers.find(address(1)).is_some());
        }
        assert!((2..=6).all(|port| peers.find(address(port)).is_none()));
        add_as(&mut peers, at(300), 16, AddressState::Initiated).expect("now it is its turn");
        assert!(peers.find(address(1)).is_none());
        // A peer validated later is not evicted first any more.
        let mut peers = Peers::new(1, 4, QuotaPolicy::from(&limits));
        for port in 1..=3 {
            add_as(&mut peers, at(0), port, AddressState::Unvalidated).expect("room");
        }
        add_as(&mut peers, at(1), 1, AddressState::Validated).expect("known");
        for port in 4..=6 {
            add_as(&mut peers, at(300), port, AddressState::Initiated).expect("room");
        }
        assert_eq!(
            [1, 2, 3].map(|port| peers.find(address(port)).is_some()),
            [true, false, false]
        );
    }

    #[test]
    fn source_quota_ignores_ports() {
        let mut peers = Peers::new(1, 8, QuotaPolicy::from(&Limits::default()));
        let now = Instant::ZERO;
        for port in 1..=4 {
            add_as(&mut peers, now, port, AddressState::Validated).expect("room");
        }
        assert_eq!(
            add_as(&mut peers, now, 5, AddressState::Validated),
            Err(PeersFull)
        );
        add_as(&mut peers, now, 6, AddressState::Initiated).expect("we may turn to it");
        add_as(&mut peers, now, 1, AddressState::Initiated).expect("known");
        add_as(&mut peers, now, 5, AddressState::Validated).expect("one of those is ours now");
        assert_eq!(
            add_as(&mut peers, now, 7, AddressState::Validated),
            Err(PeersFull)
        );
    }
}
