//! The server side of Block1 and Q-Block1: request bodies reassembled, or delivered block by block.
//!
//! One table serves all peers. It limits the bodies, the bytes of one body and the bytes of all
//! bodies; each source has a quota of it. At a limit the newest body is rejected: 4.13 for its own
//! size, 5.03 for a full table. Bodies already begun stay until they are complete or time out.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::SocketAddr;

use bytes::Bytes;
use carob_cc::time::Instant;

use super::q_body::{QBlock, QBlock1Body, QBlock1Results, QBlockStep};
use super::{Key, QBlockConfig, ReassemblyStep};
use crate::codec::{BlockValue, MessageView, OptionNumber};
use crate::tables::bounded_map::{BoundedMap, Keyed};
use crate::tables::quota::{QuotaPolicy, QuotaTable};
use crate::timers::TimerId;

/// Delivery of a request body to the application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// Reassembled and delivered once (RFC 7959 2.5, "atomic").
    #[default]
    Atomic,
    /// Delivered block by block, in order; the application replies to each.
    Streamed,
}

#[derive(Debug)]
struct Body {
    key: Key,
    bytes: Vec<u8>,
    /// Bytes received in order; equals `bytes.len()` unless streamed.
    received: u64,
    timer: TimerId,
    /// Chosen by the first block.
    delivery: Delivery,
    /// The message of the first block, stored if it has a condition that later blocks lack.
    conditional: Option<Box<[u8]>>,
    /// The blocks, if they come by Q-Block1.
    q_block1: Option<Box<QBlock1Body>>,
}

impl Keyed for Body {
    type Key = Key;

    fn key(&self) -> &Key {
        &self.key
    }
}

/// Limits of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReassemblyLimits {
    pub(crate) bodies: usize,
    pub(crate) body_bytes: usize,
    pub(crate) all_bytes: usize,
    pub(crate) quota_policy: QuotaPolicy,
    /// Blocks of a body by Q-Block1 stored ahead of a missing one.
    pub(crate) blocks_ahead: usize,
    /// Results of bodies by Q-Block1.
    pub(crate) results: usize,
}

/// Request bodies in transfer.
#[derive(Debug)]
pub(crate) struct Reassembler {
    bodies: BoundedMap<Body>,
    limits: ReassemblyLimits,
    /// Bytes of all bodies, including complete ones without a response yet.
    all_bytes: usize,
    /// Bodies and bytes of each source.
    shares: QuotaTable,
    byte_shares: QuotaTable,
    /// Results of bodies by Q-Block1.
    results: QBlock1Results,
}

impl Reassembler {
    pub(crate) fn new(seed: u64, limits: ReassemblyLimits) -> Self {
        Self {
            bodies: BoundedMap::new(seed, limits.bodies),
            limits,
            all_bytes: 0,
            shares: QuotaTable::new(seed.rotate_left(8)),
            byte_shares: QuotaTable::new(seed.rotate_left(16)),
            results: QBlock1Results::new(seed.rotate_left(24), limits.results, limits.quota_policy),
        }
    }

    /// The blocks of a body by Q-Block1.
    pub(crate) fn q_block1_mut(&mut self, index: u32) -> &mut Option<Box<QBlock1Body>> {
        &mut self.bodies[index].q_block1
    }

    pub(crate) fn results_mut(&mut self) -> &mut QBlock1Results {
        &mut self.results
    }

    /// Blocks of a body by Q-Block1 stored ahead of a missing one.
    pub(crate) fn blocks_ahead(&self) -> usize {
        self.limits.blocks_ahead
    }

    /// The end of the wait for missing blocks of a body by Q-Block1.
    pub(crate) fn due(&self, index: u32, config: &QBlockConfig) -> Instant {
        let body = self.bodies[index].q_block1.as_ref();
        body.map_or(Instant::FAR_FUTURE, |body| body.due(config))
    }

    /// The peer and the token of a report on a body by Q-Block1.
    pub(crate) fn report_address(&self, index: u32) -> Option<(SocketAddr, &[u8])> {
        let body = self.bodies.get(index)?;
        Some((body.key.peer(), body.q_block1.as_ref()?.token()))
    }

    /// Returns whether the bytes of all bodies leave room for a block of this one.
    pub(crate) fn has_room_for(&self, index: u32, length: usize) -> bool {
        let ReassemblyLimits {
            all_bytes,
            quota_policy,
            ..
        } = self.limits;
        let peer = self.bodies[index].key.peer();
        let of_source = self.byte_shares.of(quota_policy.source(peer));
        self.all_bytes + length <= all_bytes && of_source + length <= quota_policy.quota(all_bytes)
    }

    /// Charges a body's source for `after` instead of `before` bytes.
    pub(crate) fn recharge_body(&mut self, index: u32, before: usize, after: usize) {
        let peer = self.bodies[index].key.peer();
        self.charge(peer, after.saturating_sub(before));
        self.release_bytes(peer, before.saturating_sub(after));
    }

    fn charge(&mut self, peer: SocketAddr, bytes: usize) {
        self.all_bytes += bytes;
        let source = self.limits.quota_policy.source(peer);
        self.byte_shares.add(source, bytes);
    }

    fn release_bytes(&mut self, peer: SocketAddr, bytes: usize) {
        if bytes > 0 {
            debug_assert!(
                self.all_bytes >= bytes,
                "{bytes} bytes of {}",
                self.all_bytes
            );
            self.all_bytes -= bytes;
            let source = self.limits.quota_policy.source(peer);
            self.byte_shares.subtract(source, bytes);
        }
    }

    /// Releases the bytes of a reassembled body after the response to its request.
    pub(crate) fn done_with(&mut self, peer: SocketAddr, bytes: usize) {
        self.release_bytes(peer, bytes);
    }

    /// Returns whether the table is above its watermark: the rest is reserved for validated
    /// addresses.
    pub(crate) fn is_above_watermark(&self) -> bool {
        let (bodies, quota_policy) = (&self.bodies, self.limits.quota_policy);
        // A full table answers 5.03. A challenge before that would only cost the client a round
        // trip.
        !bodies.is_full() && quota_policy.is_above_watermark(bodies.len(), bodies.limit())
    }

    /// The body a request belongs to, if one has begun.
    pub(crate) fn find(&self, peer: SocketAddr, request: &MessageView<'_>) -> Option<u32> {
        self.bodies.find(&Key::of(peer, request))
    }

    /// The timer that limits a body's lifetime.
    pub(crate) fn timer(&self, index: u32) -> TimerId {
        self.bodies[index].timer
    }

    /// Begins a body; `timer` creates the timer that limits its lifetime.
    pub(crate) fn begin(
        &mut self,
        peer: SocketAddr,
        request: &MessageView<'_>,
        timer: impl FnOnce(u32) -> TimerId,
    ) -> Option<u32> {
        let quota_policy = self.limits.quota_policy;
        let source = quota_policy.source(peer);
        let quota = quota_policy.quota(self.bodies.limit());
        if self.bodies.is_full() || self.shares.of(source) >= quota {
            return None;
        }
        let key = Key::of(peer, request);
        // A key has options of the client's choice. Uncharged, long ones would be memory
        // without a limit.
        self.charge(peer, key.len());
        self.shares.add(source, 1);
        let body = |index| Body {
            key,
            bytes: Vec::new(),
            received: 0,
            timer: timer(index),
            delivery: Delivery::Atomic,
            conditional: None,
            q_block1: None,
        };
        let index = self.bodies.insert_with(body, false);
        self.check_invariants();
        Some(index)
    }

    /// Checks the counts of bodies and bytes.
    #[inline]
    fn check_invariants(&self) {
        debug_assert!(self.shares.is_empty() == (self.bodies.len() == 0));
        debug_assert!(self.bodies.len() <= self.limits.bodies);
        debug_assert!(self.all_bytes > 0 || self.byte_shares.is_empty());
    }

    /// Stores the first block's message, if later blocks will lack its If-None-Match (RFC 7959
    /// 2.10).
    pub(crate) fn store_precondition(&mut self, index: u32, first: &MessageView<'_>) {
        let _ = self.take_condition(index);
        if first.option(OptionNumber::IF_NONE_MATCH).is_some() {
            let message = first.as_bytes();
            let peer = self.bodies[index].key.peer();
            self.charge(peer, message.len());
            self.bodies[index].conditional = Some(message.into());
        }
    }

    /// Takes the message stored by [`store_precondition`](Self::store_precondition).
    pub(crate) fn take_condition(&mut self, index: u32) -> Option<Box<[u8]>> {
        let body = &mut self.bodies[index];
        let (peer, taken) = (body.key.peer(), body.conditional.take());
        self.release_bytes(peer, taken.as_deref().map_or(0, <[u8]>::len));
        taken
    }

    /// Adds the block of a request to body `index`; the first one chooses the delivery.
    pub(crate) fn accept(
        &mut self,
        index: u32,
        block: BlockValue,
        payload: &[u8],
        announced: Option<u32>,
        delivery: Delivery,
    ) -> ReassemblyStep {
        let limit = self.limits.body_bytes;
        let body = &mut self.bodies[index];
        let (offset, length) = (block.offset() as u64, payload.len());
        if !block.szx.fits(length, block.more) {
            return ReassemblyStep::BadLength;
        }
        if block.number == 0 {
            // A new first block of the same body replaces the old body.
            let (peer, before) = (body.key.peer(), body.bytes.len());
            body.bytes.clear();
            (body.received, body.delivery) = (0, delivery);
            self.release_bytes(peer, before);
        }
        let body = &mut self.bodies[index];
        let end = offset + length as u64;
        // Size1 is refused before any byte is stored, the bytes in any case: Size1 may be
        // missing or false.
        if end > limit as u64 || announced.is_some_and(|size| size as usize > limit) {
            return ReassemblyStep::TooLarge { limit };
        }
        // A block before this one was lost, or its body discarded: 4.08 (RFC 7959 2.9.2).
        if offset > body.received {
            return ReassemblyStep::Incomplete;
        }
        if end <= body.received && block.more && block.number > 0 {
            return ReassemblyStep::Continue; // a block sent again under a new Message ID
        }
        // The last block again, or one that overlaps the end: neither continues the body.
        if offset < body.received {
            return ReassemblyStep::Incomplete;
        }
        // A part is stored with its request, where `incoming_bytes` counts it.
        if body.delivery == Delivery::Streamed {
            body.received = end;
            return ReassemblyStep::Part(offset);
        }
        let peer = body.key.peer();
        if !self.has_room_for(index, length) {
            return ReassemblyStep::Full;
        }
        let body = &mut self.bodies[index];
        debug_assert!(body.bytes.len() as u64 == offset, "between two blocks");
        body.bytes.extend_from_slice(payload);
        body.received = end;
        self.charge(peer, length);
        if block.more {
            return ReassemblyStep::Continue;
        }
        // The bytes count until the request has its response.
        let body = &mut self.bodies[index];
        ReassemblyStep::Whole(Bytes::from(core::mem::take(&mut body.bytes)))
    }

    /// Removes a body; returns its timer.
    pub(crate) fn remove(&mut self, index: u32) -> Option<TimerId> {
        self.bodies.get(index)?;
        let _ = self.take_condition(index);
        let body = self.bodies.remove(index, false);
        let peer = body.key.peer();
        let held = body.q_block1.as_ref().map_or(0, |body| body.held());
        self.release_bytes(peer, body.bytes.len() + held + body.key.len());
        self.shares
            .subtract(self.limits.quota_policy.source(peer), 1);
        self.check_invariants();
        Some(body.timer)
    }

    /// Removes a body that this peer has begun, if there is one; returns its timer.
    pub(crate) fn remove_of_peer(&mut self, peer: SocketAddr) -> Option<TimerId> {
        // Linear in the table, for the end of a session or connection only.
        let found = self.bodies.position(|body| body.key.peer() == peer);
        self.remove(found?)
    }

    /// Bodies and bytes held.
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.bodies.len(), self.all_bytes)
    }
}

impl Reassembler {
    /// Begins a body by Q-Block1 of `size` bytes.
    pub(crate) fn begin_q_block1(
        &mut self,
        peer: SocketAddr,
        request: &MessageView<'_>,
        (block, size): (&QBlock<'_>, u32),
        timer: impl FnOnce(u32) -> TimerId,
    ) -> Option<u32> {
        let ahead = self.blocks_ahead();
        let index = self.begin(peer, request, timer)?;
        let body = QBlock1Body::new(block, size, ahead);
        debug_assert!(self.q_block1_mut(index).is_none(), "it has begun");
        *self.q_block1_mut(index) = Some(Box::new(body));
        Some(index)
    }

    /// Adds a block to body `index`, whose size the request states.
    pub(crate) fn accept_q_block1(
        &mut self,
        index: u32,
        block: &QBlock<'_>,
        size: u32,
        config: &QBlockConfig,
    ) -> QBlockStep {
        let none = QBlockStep::Other(ReassemblyStep::BadLength);
        let Some(body) = self.q_block1_mut(index) else {
            return none;
        };
        let cost = body.cost(block);
        let has_room = self.has_room_for(index, cost);
        let Some(body) = self.q_block1_mut(index) else {
            return none;
        };
        let before = body.held();
        let added = match body.add(block, size, has_room) {
            Ok(added) => added,
            Err(refused) => return QBlockStep::Other(refused),
        };
        // Before the reply: the bytes of a complete body count until its request has a response.
        let after = body.held();
        debug_assert!(
            after <= before + cost,
            "{after} bytes of {before} and {cost}"
        );
        let step = body.reply(block, added, config);
        self.recharge_body(index, before, after);
        step
    }

    /// The blocks to request when the wait for them has ended; `None` if the body is to be discarded.
    pub(crate) fn expire_q_block1(
        &mut self,
        index: u32,
        now: Instant,
        config: &QBlockConfig,
    ) -> Option<Vec<u32>> {
        self.q_block1_mut(index).as_mut()?.expire(now, config)
    }

    /// Takes `length` bytes from the budget of a body's reports. Returns whether it has them.
    pub(crate) fn spend_on_report(&mut self, index: u32, length: usize) -> bool {
        let body = self.q_block1_mut(index).as_mut();
        body.is_some_and(|body| body.spend_on_report(length))
    }
}
