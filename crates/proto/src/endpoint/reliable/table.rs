//! The connections of an endpoint, found by address.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::cell::Cell;
use core::net::SocketAddr;

use carob_cc::time::Instant;
use hashbrown::HashTable;
use slab::Slab;
use smallvec::SmallVec;

use super::{Disconnect, UNREAD_BYTES};
use crate::address;
use crate::codec::signal::BASE_MESSAGE_SIZE;
use crate::codec::{BASE_TOKEN_LENGTH, Code, FrameReader};
use crate::endpoint::RequestId;
use crate::keyed_hash::KeyedState;
use crate::recency::Recency;
use crate::shares::{Shares, Sharing};
use crate::timers::TimerId;

/// How many connections are looked at when one has to make room.
const WALK_LIMIT: usize = 64;

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The driver was asked to make it.
    Connecting,
    /// Messages go both ways.
    Open,
    /// The peer has closed it and wants to be left alone until then (RFC 8323 5.5, Hold-Off).
    Resting(Instant),
}

/// A ping with Custody whose pong waits (RFC 8323 5.4.1).
#[derive(Clone, Debug)]
pub(super) struct HeldPing {
    pub(super) token: SmallVec<[u8; BASE_TOKEN_LENGTH]>,
    /// What came before it has an earlier serial number.
    pub(super) serial: u32,
    /// Requests before it that are not answered.
    pub(super) before: u32,
}

/// A connection.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and all combinations occur"
)]
pub(super) struct Connection {
    pub(super) address: SocketAddr,
    /// Tells it from others with the same address, before and after it.
    pub(super) serial: u32,
    pub(super) phase: Phase,
    pub(super) reader: FrameReader,
    /// The peer's CSM is there, or we have stopped waiting for it.
    pub(super) introduced: bool,
    /// Max-Message-Size and Block-Wise-Transfer of the peer, so far.
    pub(super) takes: u32,
    pub(super) block_wise: bool,
    /// The longest token that it takes in requests, so far (RFC 8974 2.2.1).
    pub(super) token_length: u32,
    /// The driver has more of ours than it can send.
    pub(super) congested: bool,
    /// No more requests go here: the peer has said Release.
    pub(super) released: bool,
    /// Nor here: we have. The peer is to close it; when we do, if it does not, and why.
    pub(super) leaving: Option<(Instant, Disconnect)>,
    /// We made it, or are about to.
    pub(super) ours: bool,
    /// It counts for its source's share.
    pub(super) counted: bool,
    /// After it, do not come back before.
    pub(super) rest_until: Option<Instant>,
    /// Requests received and not answered.
    pub(super) answering: u32,
    /// Pings of the peer that wait for requests before them to be answered.
    pub(super) pings: Vec<HeldPing>,
    /// There may be more messages in `reader` than were taken at once.
    pub(super) more: bool,
    /// Requests and pings that came while the peer read nothing of what it had asked for.
    pub(super) unread: u32,
    /// Bytes written for the peer since the connection was congested.
    pub(super) unread_bytes: usize,
    /// Requests of ours that must know what the peer takes before they are sent.
    pub(super) waiting: Vec<RequestId>,
    pub(super) timer: TimerId,
    /// When it was made.
    pub(super) since: Instant,
    /// When something was last heard, and when a message that is no signal last passed.
    pub(super) heard: Instant,
    pub(super) used: Instant,
    /// When the peer was asked whether it is there.
    pub(super) probed: Option<Instant>,
}

impl Connection {
    /// Whether one side has said Release.
    pub(super) const fn is_released(&self) -> bool {
        self.released || self.leaving.is_some()
    }

    /// Returns whether the next message is a request that waits until the peer has read what it asked for.
    pub(super) fn is_to_wait(&self, reader: &FrameReader) -> bool {
        let asks = || reader.next_code().is_some_and(Code::is_request);
        self.congested && self.unread_bytes > UNREAD_BYTES && asks()
    }
}

/// All connections of an endpoint.
#[derive(Debug)]
pub(in crate::endpoint) struct Connections {
    state: KeyedState,
    index: HashTable<u32>,
    pub(super) slots: Slab<Connection>,
    /// What was found last: one message asks for its connection several times, and a client has one.
    last: Cell<u32>,
    by_use: Recency,
    limit: usize,
    /// Connections with more messages to take, by index and serial number.
    pub(super) more: VecDeque<(u32, u32)>,
    /// Bytes of messages that are not complete, all connections together.
    pub(in crate::endpoint) partial_bytes: usize,
    sharing: Sharing,
    /// Connections of each source that it has made, and bytes of its messages that are not complete.
    shares: Shares,
    partial_shares: Shares,
}

impl Connections {
    pub(in crate::endpoint) fn new(seed: u64, limit: usize, sharing: Sharing) -> Self {
        Self {
            state: KeyedState::with_seed(seed),
            index: HashTable::new(),
            slots: Slab::new(),
            last: Cell::new(0),
            by_use: Recency::default(),
            limit: limit.clamp(1, u32::MAX as usize - 1),
            more: VecDeque::new(),
            partial_bytes: 0,
            sharing,
            shares: Shares::new(seed.rotate_left(8)),
            partial_shares: Shares::new(seed.rotate_left(16)),
        }
    }

    pub(super) fn add_partial(&mut self, from: SocketAddr, bytes: usize) {
        self.partial_bytes += bytes;
        self.partial_shares.add(self.sharing.source(from), bytes);
    }

    pub(super) fn subtract_partial(&mut self, from: SocketAddr, bytes: usize) {
        if bytes > 0 {
            self.partial_bytes -= bytes;
            let source = self.sharing.source(from);
            self.partial_shares.subtract(source, bytes);
        }
    }

    /// Whether there are more bytes of incomplete messages than may be, of all or of this source.
    pub(super) fn holds_too_much(&self, from: SocketAddr, limit: usize) -> bool {
        let source = self.sharing.source(from);
        self.partial_bytes > limit || self.partial_shares.of(source) > self.sharing.most(limit)
    }

    /// Whether a source has made as many connections as one may.
    pub(super) fn has_its_share(&self, from: SocketAddr) -> bool {
        let source = self.sharing.source(from);
        self.shares.of(source) >= self.sharing.most(self.limit)
    }

    /// A connection was made by its peer.
    pub(super) fn count(&mut self, index: u32) {
        let connection = &mut self.slots[index as usize];
        connection.counted = true;
        let source = self.sharing.source(connection.address);
        self.shares.add(source, 1);
    }

    pub(in crate::endpoint) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn find(&self, address: SocketAddr) -> Option<u32> {
        let is = |index: u32| {
            let connection = self.slots.get(index as usize);
            connection.is_some_and(|connection| connection.address == address)
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

    pub(super) fn get_mut(&mut self, address: SocketAddr) -> Option<&mut Connection> {
        let index = self.find(address)?;
        self.slots.get_mut(index as usize)
    }

    /// The serial number of the connection with this peer, if messages go both ways.
    pub(in crate::endpoint) fn serial(&self, address: SocketAddr) -> Option<u32> {
        let connection = &self.slots[self.find(address)? as usize];
        (connection.phase == Phase::Open).then_some(connection.serial)
    }

    /// The largest message that this peer takes, and whether BERT.
    pub(in crate::endpoint) fn capabilities(&self, address: SocketAddr) -> (u32, bool) {
        self.find(address)
            .map_or((BASE_MESSAGE_SIZE, false), |index| {
                let Connection {
                    takes, block_wise, ..
                } = self.slots[index as usize];
                (takes, block_wise && takes > BASE_MESSAGE_SIZE)
            })
    }

    /// The longest token that this peer takes in requests, as far as it has said.
    pub(in crate::endpoint) fn token_length(&self, address: SocketAddr) -> u32 {
        self.find(address)
            .map_or(BASE_TOKEN_LENGTH as u32, |index| {
                self.slots[index as usize].token_length
            })
    }

    pub(super) fn is_full(&self) -> bool {
        self.slots.len() >= self.limit
    }

    /// Adds a connection with an address that has none; there must be room.
    pub(super) fn add(&mut self, connection: Connection) -> u32 {
        let hash = address::hash(&self.state, connection.address, 0);
        let index = self.slots.insert(connection) as u32;
        let Self {
            state,
            index: table,
            slots,
            ..
        } = self;
        table.insert_unique(hash, index, |&i| {
            address::hash(state, slots[i as usize].address, 0)
        });
        self.by_use.add(index);
        index
    }

    pub(super) fn remove(&mut self, index: u32) -> Connection {
        let connection = self.slots.remove(index as usize);
        let hash = address::hash(&self.state, connection.address, 0);
        if let Ok(found) = self.index.find_entry(hash, |&i| i == index) {
            found.remove();
        }
        self.by_use.remove(index);
        self.subtract_partial(connection.address, connection.reader.held());
        if connection.counted {
            let source = self.sharing.source(connection.address);
            self.shares.subtract(source, 1);
        }
        connection
    }

    /// Notes that a message passed.
    pub(super) fn use_now(&mut self, index: u32, now: Instant) {
        self.slots[index as usize].used = now;
        self.by_use.touch(index);
    }

    /// The one unused longest, among those of which this is true.
    pub(super) fn longest_unused(&self, is: impl Fn(&Connection) -> bool) -> Option<u32> {
        let mut next = self.by_use.oldest();
        for _ in 0..WALK_LIMIT {
            let index = next?;
            if is(&self.slots[index as usize]) {
                return Some(index);
            }
            next = self.by_use.newer(index);
        }
        None
    }
}
