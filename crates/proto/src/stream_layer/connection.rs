//! The connections of an endpoint, found by address.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::ops::{Index, IndexMut};

use carob_cc::time::Instant;
use smallvec::SmallVec;

use crate::codec::BASE_MESSAGE_SIZE;
use crate::codec::{BASE_TOKEN_LENGTH, Code, FrameReader};
use crate::event::RequestId;
use crate::stream_layer::{Disconnect, UNREAD_BYTES};
use crate::tables::bounded_map::{BoundedMap, Keyed};
use crate::tables::quota::{QuotaPolicy, QuotaTable};
use crate::timers::TimerId;

/// Connections examined in search of one to evict.
const WALK_LIMIT: usize = 64;

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The driver was requested to make it.
    Connecting,
    /// Messages go both ways.
    Open,
    /// The peer has closed it and must not be contacted before this time (RFC 8323 5.5, Hold-Off).
    Resting(Instant),
}

/// A Ping with Custody whose Pong is pending (RFC 8323 5.4.1).
#[derive(Clone, Debug)]
pub(crate) struct HeldPing {
    pub(crate) token: SmallVec<[u8; BASE_TOKEN_LENGTH]>,
    /// Earlier requests have a lower serial number.
    pub(crate) serial: u32,
    /// Earlier requests without a response yet.
    pub(crate) before: u32,
}

/// The side that made a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Made by this endpoint, or about to be.
    Own,
    /// Made by the peer; counted against its source's quota.
    Peer,
    /// Kept for the Hold-Off period after a connection of this endpoint.
    HoldOff,
}

/// The capabilities of a peer, so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capabilities {
    /// The peer's CSM was received, or its timeout has passed.
    pub(crate) known: bool,
    /// Max-Message-Size and Block-Wise-Transfer.
    pub(crate) max_message_size: u32,
    pub(crate) block_wise: bool,
    /// The longest token that the peer accepts in requests (RFC 8974 2.2.1).
    pub(crate) token_length: u32,
}

impl Default for Capabilities {
    /// Settings of a peer before its CSM (RFC 8323 5.3).
    fn default() -> Self {
        Self {
            known: false,
            max_message_size: BASE_MESSAGE_SIZE,
            block_wise: false,
            token_length: BASE_TOKEN_LENGTH as u32,
        }
    }
}

/// Input of a connection.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) reader: FrameReader,
    /// `reader` may hold more messages.
    pub(crate) more: bool,
}

/// Output that the peer does not read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backlog {
    /// The driver has more output than it can send.
    pub(crate) congested: bool,
    /// Requests and Pings received while the peer read none of its responses.
    pub(crate) requests: u32,
    /// Bytes written for the peer since the connection was congested.
    pub(crate) bytes: usize,
}

/// Releases of a connection (RFC 8323 5.5).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Release {
    /// The peer has sent Release: no new requests.
    pub(crate) by_peer: bool,
    /// This endpoint has sent Release: when to close the connection if the peer does not, and why.
    pub(crate) own: Option<(Instant, Disconnect)>,
    /// The end of the Hold-Off period after the connection.
    pub(crate) hold_off: Option<Instant>,
}

/// Requests of the peer that are being handled.
#[derive(Debug, Default)]
pub(crate) struct Serving {
    /// Received requests without a response yet.
    pub(crate) requests: u32,
    /// Pings that wait for responses to earlier requests.
    pub(crate) pings: Vec<HeldPing>,
}

/// Times of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Activity {
    /// The time it was made.
    pub(crate) since: Instant,
    /// The times of the last input, and of the last message other than a signal.
    pub(crate) heard: Instant,
    pub(crate) used: Instant,
    /// The time of the last Ping to the peer.
    pub(crate) probed: Option<Instant>,
}

impl Activity {
    pub(crate) const fn at(now: Instant) -> Self {
        Self {
            since: now,
            heard: now,
            used: now,
            probed: None,
        }
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) address: SocketAddr,
    /// Distinguishes it from earlier and later connections with the same address.
    pub(crate) serial: u32,
    pub(crate) phase: Phase,
    pub(crate) origin: Origin,
    pub(crate) input: Input,
    pub(crate) capabilities: Capabilities,
    pub(crate) backlog: Backlog,
    pub(crate) release: Release,
    pub(crate) serving: Serving,
    /// Requests that wait for the capacity of the peer.
    pub(crate) waiting: Vec<RequestId>,
    pub(crate) timer: TimerId,
    pub(crate) activity: Activity,
}

impl Connection {
    /// Returns whether either side has sent Release.
    pub(crate) const fn is_released(&self) -> bool {
        self.release.by_peer || self.release.own.is_some()
    }

    /// Returns whether the next message is a request that waits until the peer has read its
    /// responses.
    pub(crate) fn must_wait(&self, reader: &FrameReader) -> bool {
        let asks = || reader.next_code().is_some_and(Code::is_request);
        self.backlog.congested && self.backlog.bytes > UNREAD_BYTES && asks()
    }
}

impl Keyed for Connection {
    type Key = SocketAddr;

    fn key(&self) -> &SocketAddr {
        &self.address
    }
}

/// All connections of an endpoint.
#[derive(Debug)]
pub(crate) struct Connections {
    table: BoundedMap<Connection>,
    /// Connections with more messages to process, by index and serial number.
    pub(crate) more: VecDeque<(u32, u32)>,
    /// Bytes of incomplete messages, all connections together.
    pub(crate) partial_bytes: usize,
    quota_policy: QuotaPolicy,
    /// Connections made by each source, and the bytes of its incomplete messages.
    shares: QuotaTable,
    partial_shares: QuotaTable,
}

impl Connections {
    pub(crate) fn new(seed: u64, limit: usize, quota_policy: QuotaPolicy) -> Self {
        Self {
            table: BoundedMap::new(seed, limit.max(1)),
            more: VecDeque::new(),
            partial_bytes: 0,
            quota_policy,
            shares: QuotaTable::new(seed.rotate_left(8)),
            partial_shares: QuotaTable::new(seed.rotate_left(16)),
        }
    }

    pub(crate) fn add_partial(&mut self, from: SocketAddr, bytes: usize) {
        self.partial_bytes += bytes;
        self.partial_shares
            .add(self.quota_policy.source(from), bytes);
    }

    pub(crate) fn subtract_partial(&mut self, from: SocketAddr, bytes: usize) {
        if bytes > 0 {
            debug_assert!(self.partial_bytes >= bytes, "its bytes were counted");
            self.partial_bytes -= bytes;
            let source = self.quota_policy.source(from);
            self.partial_shares.subtract(source, bytes);
        }
    }

    /// Returns whether the bytes of incomplete messages exceed the limit, in total or of this
    /// source.
    pub(crate) fn exceeds_unread_limit(&self, from: SocketAddr, limit: usize) -> bool {
        let source = self.quota_policy.source(from);
        self.partial_bytes > limit
            || self.partial_shares.of(source) > self.quota_policy.quota(limit)
    }

    /// Returns whether a source has reached its quota of connections.
    pub(crate) fn is_at_quota(&self, from: SocketAddr) -> bool {
        let source = self.quota_policy.source(from);
        self.shares.of(source) >= self.quota_policy.quota(self.table.limit())
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn find(&self, address: SocketAddr) -> Option<u32> {
        self.table.find(&address)
    }

    pub(crate) fn at_mut(&mut self, index: u32) -> Option<&mut Connection> {
        self.table.get_mut(index)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.table.iter()
    }

    pub(crate) fn get_mut(&mut self, address: SocketAddr) -> Option<&mut Connection> {
        let index = self.find(address)?;
        self.table.get_mut(index)
    }

    /// The serial number of the open connection with this peer.
    pub(crate) fn serial(&self, address: SocketAddr) -> Option<u32> {
        let connection = &self.table[self.find(address)?];
        (connection.phase == Phase::Open).then_some(connection.serial)
    }

    /// The largest message of this peer in bytes, and whether it supports BERT.
    pub(crate) fn capabilities(&self, address: SocketAddr) -> (u32, bool) {
        self.find(address)
            .map_or((BASE_MESSAGE_SIZE, false), |index| {
                let Capabilities {
                    max_message_size: size,
                    block_wise,
                    ..
                } = self.table[index].capabilities;
                // RFC 8323 5.3.2: only both together announce BERT.
                (size, block_wise && size > BASE_MESSAGE_SIZE)
            })
    }

    /// The longest token that this peer accepts in requests, as announced so far.
    pub(crate) fn token_length(&self, address: SocketAddr) -> u32 {
        self.find(address)
            .map_or(BASE_TOKEN_LENGTH as u32, |index| {
                self.table[index].capabilities.token_length
            })
    }

    pub(crate) fn is_full(&self) -> bool {
        self.table.is_full()
    }

    /// Adds a connection with a new address; the table must not be full.
    pub(crate) fn add(&mut self, connection: Connection) -> u32 {
        // Connections that this endpoint made are its own choice, and count against no quota.
        if connection.origin == Origin::Peer {
            let source = self.quota_policy.source(connection.address);
            self.shares.add(source, 1);
        }
        debug_assert!(!self.table.is_full(), "room was made");
        debug_assert!(connection.input.reader.held() == 0, "it has read nothing");
        let index = self.table.insert(connection, false);
        self.check_invariants();
        index
    }

    /// Checks the counts of connections and bytes.
    #[inline]
    fn check_invariants(&self) {
        debug_assert!(self.shares.len() <= self.table.len());
        debug_assert!(self.partial_bytes > 0 || self.partial_shares.is_empty());
        debug_assert!(self.table.len() > 0 || self.partial_bytes == 0);
    }

    pub(crate) fn remove(&mut self, index: u32) -> Connection {
        let connection = self.table.remove(index, false);
        self.subtract_partial(connection.address, connection.input.reader.held());
        if connection.origin == Origin::Peer {
            let source = self.quota_policy.source(connection.address);
            self.shares.subtract(source, 1);
        }
        self.check_invariants();
        connection
    }

    /// Records the time of a message.
    pub(crate) fn touch(&mut self, index: u32, now: Instant) {
        self.table[index].activity.used = now;
        self.table.touch(index, false);
    }

    /// The connection idle longest, among those that satisfy the predicate.
    pub(crate) fn longest_unused(&self, is: impl Fn(&Connection) -> bool) -> Option<u32> {
        let mut next = self.table.oldest(false);
        // Used connections are few or recent; the limit bounds the walk if all are in use.
        for _ in 0..WALK_LIMIT {
            let index = next?;
            if is(&self.table[index]) {
                return Some(index);
            }
            next = self.table.newer(index);
        }
        None
    }
}

impl Index<u32> for Connections {
    type Output = Connection;

    fn index(&self, index: u32) -> &Connection {
        &self.table[index]
    }
}

impl IndexMut<u32> for Connections {
    fn index_mut(&mut self, index: u32) -> &mut Connection {
        &mut self.table[index]
    }
}
