//! Response bodies by Q-Block2 (RFC 9177 4.4): a request for a set brings its blocks in messages of
//! their own; missing ones are requested again, and the next set when this one is complete.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use carob_cc::time::Duration;
use smallvec::SmallVec;

use crate::address::PeerIndex;
use crate::block::any_order::{Added, AnyOrderBody};
use crate::block::client::Received;
use crate::block::download::DownloadError;
use crate::block::q_download::QDownload;
use crate::block::{Blocks, QBlockMode};
use crate::carrier::Carrier;
use crate::client::{BlockMode, BodyMode, Client, RequestConfig};
use crate::codec::{BlockValue, Code, MessageView, OptionNumber, TokenKey, Type};
use crate::config::RESTARTS;
use crate::context::{Context, Owner};
use crate::event::Failure;
use crate::message::{Payload, Request};

impl Client {
    /// Prepares the response to a new request for Q-Block2, if it may use that.
    pub(crate) fn begin_q_download(&mut self, cx: &mut Context, carrier: &Carrier, index: u32) {
        let operation = &self.operations[index as usize];
        let peer = carrier.peers[operation.peer].address;
        let (request, sending) = (&operation.request, &operation.sending);
        let Some(mode) = q_block2_mode(cx, request, sending) else {
            return;
        };
        let known = self.q_block_support.find(cx.now, peer);
        if mode == QBlockMode::Auto && known == Some(false) {
            return;
        }
        let discovers = mode == QBlockMode::Auto && known.is_none();
        let download = QDownload {
            mode,
            confirmable: sending.confirmable || discovers,
            body: None,
            etag: SmallVec::new(),
            tokens: VecDeque::new(),
            timer: cx.timers.add(Owner::QDownload(index)),
            requested: Vec::new(),
            end: 0,
            repeats: 0,
            arrived: cx.now,
            spacing: Duration::ZERO,
            confirmable_blocks: false,
            separate: false,
            requested_at: cx.now,
            round_trip: None,
        };
        self.operations[index as usize].q_download = Some(Box::new(download));
    }

    /// Notes the token of a request for a body by Q-Block2, if it is one.
    pub(crate) fn add_q_token(&mut self, carrier: &mut Carrier, index: u32, token: TokenKey) {
        let peer = self.operations[index as usize].peer;
        let Some(download) = self.q_download(index) else {
            return;
        };
        // A late block with a forgotten token is rejected, and requested again as missing.
        if let Some(oldest) = download.add_token(token) {
            carrier.tokens.observations.remove(peer, &oldest, index);
        }
        carrier.tokens.observations.add(peer, token, index);
    }

    fn q_download(&mut self, index: u32) -> Option<&mut QDownload> {
        self.operations
            .get_mut(index as usize)?
            .q_download
            .as_deref_mut()
    }

    /// Requests the body from its beginning.
    pub(crate) fn request_q_body(&mut self, cx: &mut Context, carrier: &mut Carrier, index: u32) {
        let first = BlockValue {
            number: 0,
            more: true,
            szx: cx.own_block_size(),
        };
        self.request_q_blocks(cx, carrier, index, alloc::vec![first]);
    }

    /// Requests these blocks.
    fn request_q_blocks(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        blocks: Vec<BlockValue>,
    ) {
        // Blocks of the earlier request may still come: they match its token, which `tokens`
        // keeps.
        self.drop_exchanges(cx, carrier, index);
        let set = cx.config.q_block.set();
        let receive_timeout = cx.config.q_block.receive_timeout;
        let Some(download) = self.q_download(index) else {
            return;
        };
        let last = blocks.last().map_or(0, |block| block.number);
        let names_set = blocks.last().is_some_and(|block| block.more);
        // With M set, a block requests the rest of its set, too (RFC 9177 4.4).
        let end = if names_set {
            last / set * set + set
        } else {
            last + 1
        };
        let of_body = download
            .body
            .as_ref()
            .map_or(end, |body| end.min(body.blocks()));
        debug_assert!(
            blocks.is_sorted_by_key(|block| block.number),
            "RFC 9177 4.4"
        );
        download.end = download.end.max(of_body);
        (download.requested, download.requested_at) = (blocks, cx.now);
        // NON_MAX_RETRANSMIT may be set to 255; the shift must not overflow.
        let due = cx.now + receive_timeout.times(1 << download.repeats.min(16));
        cx.timers.set(download.timer, due);
        let payload = self.operations[index as usize].request.payload.clone();
        let blocks = Blocks {
            quick: true,
            ..Blocks::default()
        };
        self.send_part(cx, carrier, index, blocks, &payload);
    }

    /// Processes a response to a request with Q-Block2 that has no such option. Returns whether the
    /// request is repeated without it.
    pub(crate) fn on_plain_response(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        code: Code,
    ) -> bool {
        let operation = &mut self.operations[index as usize];
        let Some(download) = &operation.q_download else {
            return false;
        };
        let (auto, peer) = (download.mode == QBlockMode::Auto, operation.peer);
        self.discard_q_download(cx, carrier, index);
        if !auto || code != Code::BAD_OPTION {
            return false;
        }
        let address = carrier.peers[peer].address;
        let limit = cx.config.limits.q_block_peers;
        self.q_block_support.note(cx.now, address, false, limit);
        cx.counters.q_block.fallbacks += 1;
        self.drop_exchanges(cx, carrier, index);
        self.advance(cx, carrier, index);
        true
    }

    /// Processes a block.
    pub(crate) fn take_q_block2(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        (block, received): (BlockValue, &Received<'_>),
        message: &MessageView<'_>,
    ) {
        // A block of the set before is no answer to a request for the next set.
        let awaited = self.q_download(index).and_then(|q| q.requested.first());
        if awaited.is_none_or(|first| block.number >= first.number) {
            self.drop_exchanges(cx, carrier, index);
        }
        let peer = self.operations[index as usize].peer;
        let address = carrier.peers[peer].address;
        let support_limit = cx.config.limits.q_block_peers;
        self.q_block_support
            .note(cx.now, address, true, support_limit);
        // Every block has Size2 (RFC 9177 4.6). Without it the number of blocks is not known.
        let Some(size) = received.size2() else {
            return self.fail_operation(cx, carrier, index, Failure::BadBlock);
        };
        let limit = cx.config.limits.download_bytes;
        if size as usize > limit {
            let failure = Failure::Body(DownloadError::TooLarge { limit });
            return self.fail_operation(cx, carrier, index, failure);
        }
        let etag = received.etag().unwrap_or_default();
        let Some(download) = self.q_download(index) else {
            return;
        };
        match message.kind() {
            Type::Confirmable => {
                let first = download.requested.first().map(|first| first.number);
                download.confirmable_blocks = true;
                download.separate |= first == Some(block.number);
            }
            Type::NonConfirmable => download.confirmable_blocks = false,
            Type::Acknowledgement | Type::Reset => {}
        }
        // All blocks of a body have its ETag (RFC 9177 4.4): another one means that the
        // representation changed.
        if download.body.is_some() && download.etag.as_slice() != etag {
            return self.on_q_body_changed(cx, carrier, index);
        }
        if download.body.is_none() {
            download.etag = SmallVec::from_slice(etag);
            if let Err(failure) = self.take_head(cx, carrier, index, Some(size.into()), message) {
                return self.fail_operation(cx, carrier, index, failure);
            }
        }
        self.add_q_block2(cx, carrier, index, (block, size), message.payload());
    }

    /// Adds a block to the body, and requests the missing or next ones.
    fn add_q_block2(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        (block, size): (BlockValue, u32),
        payload: &[u8],
    ) {
        let (ahead, set) = (cx.config.limits.blocks_ahead, cx.config.q_block.set());
        let receive_timeout = cx.config.q_block.receive_timeout;
        let Some(download) = self.q_download(index) else {
            return;
        };
        download.note_arrival(cx.now, block.number, receive_timeout);
        let body = download
            .body
            .get_or_insert_with(|| AnyOrderBody::new(block.szx, size, ahead));
        let offset = block.offset() as u64;
        let set_before = body.received().end().saturating_sub(1) / set;
        let added = if body.size() == size {
            body.add(block, payload).ok()
        } else {
            None
        };
        let Some(added) = added else {
            let failure = Failure::Body(DownloadError::WrongBlock { offset });
            return self.fail_operation(cx, carrier, index, failure);
        };
        download.end = download.end.min(body.blocks());
        if added == Added::Duplicate {
            cx.counters.q_block.duplicates += 1;
        }
        if body.is_complete() {
            let bytes = body.take();
            self.discard_q_download(cx, carrier, index);
            let head = self.operations[index as usize].response.head.take();
            if let Some(mut response) = head {
                response.payload = Payload::Whole(bytes);
                self.conclude(cx, carrier, index, response);
            }
            return;
        }
        let first = body.received().first_missing();
        if first >= download.end {
            // The set is complete: the Continue for the next.
            let next = BlockValue {
                number: first,
                more: first.is_multiple_of(set),
                szx: body.block_size(),
            };
            return self.request_q_blocks(cx, carrier, index, alloc::vec![next]);
        }
        let (blocks, szx) = (body.blocks(), body.block_size());
        if download.requests_early(block.number, blocks, set) {
            let next = BlockValue {
                number: download.end,
                more: true,
                szx,
            };
            self.request_q_blocks(cx, carrier, index, alloc::vec![next]);
        }
        let Some(download) = self.q_download(index) else {
            return;
        };
        let begins_set = block.number / set > set_before;
        if begins_set && !download.is_repeated() && first < block.number / set * set {
            // The server did not wait for the Continue (RFC 9177 7.2).
            let below = block.number / set * set;
            return self.request_missing(cx, carrier, index, below);
        }
        let due = cx.now + download.wait(receive_timeout);
        cx.timers.set(download.timer, due);
    }

    /// Withdraws an early request for the next set that was not acknowledged while blocks of the set before
    /// arrive: the next of these brings it again. Returns false for another request.
    pub(crate) fn withdraw_next_set(&mut self, index: u32) -> bool {
        let Some(download) = self.q_download(index) else {
            return false;
        };
        let first = download.requested.first().map(|block| block.number);
        let missing = (download.body.as_ref()).map(|body| body.received().first_missing());
        let is_early = missing.is_some() && first > missing;
        if is_early {
            download.end = first.unwrap_or_default();
        }
        is_early
    }

    /// Requests the missing blocks below this one, as many as a set has.
    fn request_missing(&mut self, cx: &mut Context, carrier: &mut Carrier, index: u32, below: u32) {
        let set = cx.config.q_block.set() as usize;
        let Some(download) = self.q_download(index) else {
            return;
        };
        let Some(body) = &download.body else {
            return self.request_q_body(cx, carrier, index);
        };
        let szx = body.block_size();
        let missing = body.received().missing_below(below).take(set);
        let single = |number| BlockValue {
            number,
            more: false,
            szx,
        };
        let blocks: Vec<BlockValue> = missing.map(single).collect();
        cx.counters.q_block.reports_sent += 1;
        self.request_q_blocks(cx, carrier, index, blocks);
    }

    /// Handles the end of the wait for blocks: requests missing ones, or the set again.
    pub(crate) fn on_q_download_timer(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
    ) {
        let max = cx.config.q_block.max_retransmit;
        let Some(download) = self.q_download(index) else {
            return;
        };
        if download.repeats >= max {
            return self.fail_operation(cx, carrier, index, Failure::NoResponse);
        }
        download.repeats += 1;
        let first = (download.body.as_ref()).map(|body| body.received().first_missing());
        let below = match first {
            // The others are retransmitted.
            Some(first) if download.confirmable_blocks => first + 1,
            _ => download.end,
        };
        self.request_missing(cx, carrier, index, below);
    }

    /// Restarts the transfer of a body that has changed.
    fn on_q_body_changed(&mut self, cx: &mut Context, carrier: &mut Carrier, index: u32) {
        let operation = &mut self.operations[index as usize];
        // A resource that changes faster than it is read would be fetched without end.
        if operation.response.restarts >= RESTARTS {
            let failure = Failure::Body(DownloadError::Changed);
            return self.fail_operation(cx, carrier, index, failure);
        }
        operation.response.restarts += 1;
        operation.response.clear();
        self.forget_q_tokens(carrier, index);
        if let Some(download) = self.q_download(index) {
            (download.body, download.end) = (None, 0);
        }
        self.request_q_body(cx, carrier, index);
    }

    fn forget_q_tokens(&mut self, carrier: &mut Carrier, index: u32) {
        let peer: PeerIndex = self.operations[index as usize].peer;
        let Some(download) = self.q_download(index) else {
            return;
        };
        for token in core::mem::take(&mut download.tokens) {
            carrier.tokens.observations.remove(peer, &token, index);
        }
    }

    /// Discards the state of a body by Q-Block2.
    pub(crate) fn discard_q_download(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
    ) {
        self.forget_q_tokens(carrier, index);
        if let Some(download) = self.operations[index as usize].q_download.take() {
            cx.timers.remove(download.timer);
        }
    }
}

/// The mode of a request, if its response may use Q-Block2: one that may be repeated, whose response is
/// delivered whole. FETCH repeats its payload, which is part of the request.
fn q_block2_mode(cx: &Context, request: &Request, sending: &RequestConfig) -> Option<QBlockMode> {
    let mode = sending.q_block.unwrap_or(cx.config.q_block.requests);
    let options = &request.options;
    let possible = mode != QBlockMode::Off
        && !cx.is_stream()
        && request.code.is_safe()
        && sending.blocks == BlockMode::Automatic
        && sending.response_body == BodyMode::Whole
        && !sending.observe
        && !options.contains(OptionNumber::NO_RESPONSE);
    possible.then_some(mode)
}
