//! Received requests without a response yet.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;

use bytes::Bytes;
use carob_cc::time::Instant;

use crate::block::RequestedBlock;
use crate::carrier::Carrier;
use crate::codec::Layout;
use crate::codec::{BlockValue, Code, MessageId, MessageView, NoResponse, TokenKey};
use crate::config::SPARE_BYTES;
use crate::dedup::Remembered;
use crate::event::IncomingId;
use crate::observe::Observe;
use crate::retransmission_count::Count;
use crate::server::Part;
use crate::tables::quota::{QuotaPolicy, QuotaTable};

/// A stored request message.
#[derive(Debug)]
pub(crate) struct StoredMessage {
    /// The message, stored for the application; the buffer is reused. The bytes of a long token are
    /// only here.
    bytes: Vec<u8>,
    /// Where the parts of the message begin in `bytes`.
    layout: Layout,
    /// The whole body, if it was reassembled.
    pub(crate) body: Option<Bytes>,
    /// The position of the part, if the body is streamed.
    pub(crate) part: Option<Part>,
    /// Bytes of its datagram.
    pub(crate) received: u32,
}

impl StoredMessage {
    /// A message with this layout; [`IncomingTable::insert`] copies its bytes.
    #[inline]
    pub(crate) const fn new(layout: Layout, received: u32) -> Self {
        Self {
            bytes: Vec::new(),
            layout,
            body: None,
            part: None,
            received,
        }
    }
}

/// The options of a request that its response depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResponseTerms {
    /// The Block1 option to echo.
    pub(crate) block1: Option<BlockValue>,
    pub(crate) wanted: RequestedBlock,
    /// The accepted Content-Format.
    pub(crate) accept: Option<u32>,
    /// The retransmission count to echo, if present.
    pub(crate) count: Option<Count>,
    /// The responses that are not wanted, if the option is present.
    pub(crate) no_response: Option<NoResponse>,
    /// A multicast request.
    pub(crate) to_group: bool,
    /// Its body came by Q-Block1, and its response is kept for repeated blocks.
    pub(crate) q_block1: bool,
    /// The first Q-Block2 option, if its response may go by that.
    pub(crate) q_block2: Option<BlockValue>,
}

/// The registration of a request's sender as an observer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegistrationState {
    /// Not registered by the application.
    None,
    /// Its address must be validated first: a success is replaced by a challenge.
    Challenged,
    /// The application has registered it.
    Observing,
}

/// A request without a response yet.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) serial: u32,
    pub(crate) live: bool,
    pub(crate) from: SocketAddr,
    pub(crate) id: MessageId,
    pub(crate) token: TokenKey,
    pub(crate) acknowledgement: Acknowledgement,
    pub(crate) remembered: Option<Remembered>,
    pub(crate) stored: StoredMessage,
    pub(crate) terms: ResponseTerms,
    /// It carries a valid Echo value.
    pub(crate) fresh: bool,
    /// The Observe option.
    pub(crate) observe: Option<Observe>,
    pub(crate) registration: RegistrationState,
}

impl Slot {
    /// Returns whether the connection of the request is open; over datagrams, always.
    #[inline]
    pub(crate) fn is_connected(&self, carrier: &Carrier) -> bool {
        let Acknowledgement::Connected(connection) = self.acknowledgement else {
            return true;
        };
        carrier.connections.serial(self.from) == Some(connection)
    }

    /// The message.
    #[inline]
    pub(crate) fn message(&self) -> MessageView<'_> {
        MessageView::with_layout(&self.stored.bytes, self.stored.layout)
    }

    /// Replaces the message by one with the options of its first block.
    pub(crate) fn set_message(&mut self, bytes: &[u8]) {
        debug_assert!(
            MessageView::parse_long(bytes).is_ok(),
            "it was parsed when it came"
        );
        if let Ok(message) = MessageView::parse_long(bytes) {
            self.stored.layout = message.layout();
            self.stored.bytes.clear();
            self.stored.bytes.extend_from_slice(bytes);
        }
    }

    /// The method; the last block's of a body in several.
    pub(crate) fn method(&self) -> Code {
        self.stored
            .bytes
            .get(1)
            .map_or(Code::EMPTY, |&code| Code(code))
    }
}

/// The acknowledgement state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acknowledgement {
    /// None is due: the request is NON.
    None,
    /// Not applicable: the request came over the connection with this serial number.
    Connected(u32),
    /// Due; the response may be piggybacked.
    Due,
    /// Sent empty; the response will be separate.
    Sent,
}

/// Requests without a response yet; slots and buffers are reused.
#[derive(Debug)]
pub(crate) struct IncomingTable {
    pub(crate) slots: Vec<Slot>,
    pub(crate) free: Vec<u32>,
    /// Bytes of their messages.
    bytes: usize,
    /// Below this number no request is rejected.
    calm: usize,
    /// The quota of one source, unless it is the whole table.
    most_of_source: Option<usize>,
    quota_policy: QuotaPolicy,
    /// Usage by source, counted only while one could exceed its quota, so that it costs nothing in
    /// a small table.
    shares: QuotaTable,
    counting: bool,
    /// Requests by the time of their empty ACK; some may have been answered.
    pub(crate) unacknowledged: VecDeque<(Instant, IncomingId)>,
}

impl IncomingTable {
    pub(crate) fn new(seed: u64, limit: usize, quota_policy: QuotaPolicy) -> Self {
        let most = quota_policy.quota(limit);
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            bytes: 0,
            calm: most.min(quota_policy.unvalidated_watermark(limit)),
            most_of_source: (most < limit).then_some(most),
            quota_policy,
            shares: QuotaTable::new(seed),
            counting: false,
            unacknowledged: VecDeque::new(),
        }
    }

    /// Bytes of the messages.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether the table is too small for any source to exceed its quota.
    pub(crate) fn is_below_quota_range(&self) -> bool {
        self.len() < self.calm
    }

    /// Returns whether a source has reached its quota.
    pub(crate) fn is_at_quota(&mut self, from: SocketAddr) -> bool {
        let Some(most) = self.most_of_source.filter(|most| self.len() >= *most) else {
            return false;
        };
        if !self.counting {
            self.counting = true;
            // Once, when a source could reach its quota; from then on each request is counted.
            for slot in self.slots.iter().filter(|slot| slot.live) {
                self.shares.add(self.quota_policy.source(slot.from), 1);
            }
        }
        self.shares.of(self.quota_policy.source(from)) >= most
    }

    /// Adds a request; its message reuses the buffer of an earlier one.
    #[inline]
    pub(crate) fn insert(&mut self, slot: Slot, message: &[u8]) -> IncomingId {
        let (from, serial) = (slot.from, slot.serial);
        // The last slot freed: its buffer is the likeliest to be in the processor's cache.
        let index = if let Some(index) = self.free.pop() {
            let place = &mut self.slots[index as usize];
            debug_assert!(!place.live, "a free slot has a request");
            let mut bytes = core::mem::take(&mut place.stored.bytes);
            bytes.clear();
            // One large message must not keep its buffer for as long as the slot exists.
            if bytes.capacity() > SPARE_BYTES {
                bytes = Vec::new();
            }
            *place = slot;
            place.stored.bytes = bytes;
            index
        } else {
            self.slots.push(slot);
            self.slots.len() as u32 - 1
        };
        self.slots[index as usize]
            .stored
            .bytes
            .extend_from_slice(message);
        self.added(from, message.len());
        let id = IncomingId { index, serial };
        debug_assert!(self.find(id).is_some(), "a new request is found");
        self.check_invariants();
        id
    }

    /// Checks the counts of requests and bytes.
    #[inline]
    fn check_invariants(&self) {
        debug_assert!(self.free.len() <= self.slots.len());
        debug_assert!(self.len() > 0 || self.bytes == 0);
        debug_assert!(self.shares.len() <= self.len());
        debug_assert!(self.counting || self.shares.is_empty());
    }

    /// Schedules the empty ACK of a request.
    #[inline]
    pub(crate) fn acknowledge_later(&mut self, due: Instant, id: IncomingId) {
        self.skip_answered();
        debug_assert!(self.find(id).is_some(), "no request");
        self.unacknowledged.push_back((due, id));
    }

    fn added(&mut self, from: SocketAddr, bytes: usize) {
        self.bytes += bytes;
        if self.counting {
            self.shares.add(self.quota_policy.source(from), 1);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    #[inline]
    pub(crate) fn find(&self, id: IncomingId) -> Option<&Slot> {
        self.slots
            .get(id.index as usize)
            .filter(|slot| slot.live && slot.serial == id.serial)
    }

    /// Changes the registration of a request's sender, if it is `from`. Returns whether it was.
    pub(crate) fn change_registration(
        &mut self,
        id: IncomingId,
        from: RegistrationState,
        to: RegistrationState,
    ) -> bool {
        debug_assert!(self.find(id).is_some(), "it is answered");
        let state = &mut self.slots[id.index as usize].registration;
        let changes = *state == from;
        if changes {
            *state = to;
        }
        changes
    }

    /// Removes a request. Returns the peer, and the reassembled bytes of its body.
    pub(crate) fn remove(&mut self, id: IncomingId) -> (SocketAddr, usize) {
        let slot = &mut self.slots[id.index as usize];
        debug_assert!(slot.live && slot.serial == id.serial, "answered twice");
        debug_assert!(self.bytes >= slot.stored.received as usize);
        slot.live = false;
        let body = slot.stored.body.take();
        self.bytes -= slot.stored.received as usize;
        self.free.push(id.index);
        let from = slot.from;
        if self.counting {
            self.shares.subtract(self.quota_policy.source(from), 1);
            // Counted again when needed, which is not soon.
            if self.len() < self.most_of_source.unwrap_or_default() / 2 {
                self.counting = false;
                self.shares.clear();
            }
        }
        self.check_invariants();
        (from, body.map_or(0, |body| body.len()))
    }

    /// Discards the requests of a peer that cannot receive responses any more. Returns the
    /// reassembled bytes of their bodies.
    pub(crate) fn remove_of_peer(&mut self, peer: SocketAddr) -> usize {
        let mut bytes = 0;
        // Linear in the table, for the end of a session only.
        for index in 0..self.slots.len() as u32 {
            let slot = &self.slots[index as usize];
            if slot.live && slot.from == peer {
                let serial = slot.serial;
                bytes += self.remove(IncomingId { index, serial }).1;
            }
        }
        bytes
    }

    /// Drops answered requests at the front of the queue.
    pub(crate) fn skip_answered(&mut self) {
        while let Some(&(_, id)) = self.unacknowledged.front() {
            let due = |slot: &Slot| slot.acknowledgement == Acknowledgement::Due;
            if self.find(id).is_some_and(due) {
                return;
            }
            self.unacknowledged.pop_front();
        }
    }

    pub(crate) fn next_acknowledgement(&mut self) -> Option<Instant> {
        self.skip_answered();
        self.unacknowledged.front().map(|&(at, _)| at)
    }
}
