//! Request bodies by Q-Block1 (RFC 9177 4.3): several blocks in flight at the controller's window, and
//! missing ones repeated as the server reports them.
//!
//! Confirmable blocks are acknowledged one by one. NON blocks are reported in sets of MAX_PAYLOADS; the
//! controller's timer takes the place of NON_TIMEOUT, its window and pacing the place of the wait between
//! sets. A report names the transmission that caused it: missing blocks sent before that one are lost,
//! those sent after it may still arrive, unless the server reports by its timer and more than a round trip
//! has passed.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::SocketAddr;

use carob_cc::time::{Duration, Instant};

use crate::block::q_upload::{BlockSender, BlockTransmission, Feedback, QUpload, Report};
use crate::block::{Blocks, QBlockMode};
use crate::capacity::Capacity;
use crate::carrier::{AnsweredRequest, Carrier};
use crate::client::{BlockMode, BodyMode, Client, Progress, RequestConfig};
use crate::codec::{BlockValue, Code, ContentFormat, EncodeError, MessageView, OptionNumber};
use crate::context::{Context, Owner};
use crate::event::{Failure, RequestError, RequestId};
use crate::message::Request;
use crate::message_layer::Purpose;
use crate::trace::TraceEvent;
use crate::writing::encode;

/// Challenges of a body's blocks that are answered: blocks in flight together are challenged together.
const CHALLENGES: u8 = 64;

/// The transmission that an answer names.
#[derive(Clone, Copy, Debug)]
struct Reference {
    block: u32,
    at: Instant,
    /// Its exchange, unless that has ended.
    exchange: Option<u32>,
}

impl Client {
    /// The mode of a request's body, if it may use Q-Block1.
    pub(crate) fn q_block1_mode(
        &self,
        cx: &Context,
        to: SocketAddr,
        request: &Request,
        sending: &RequestConfig,
    ) -> Option<QBlockMode> {
        let mode = sending.q_block.unwrap_or(cx.config.q_block.requests);
        let options = &request.options;
        let possible = !cx.is_stream()
            && sending.blocks == BlockMode::Automatic
            && sending.request_body == BodyMode::Whole
            && !sending.observe
            // Reports are responses, which No-Response would suppress (RFC 7967 2).
            && !options.contains(OptionNumber::NO_RESPONSE)
            // Size1, which every block must have (RFC 9177 4.6), has 32 bits.
            && u32::try_from(request.payload.len()).is_ok();
        let permitted = match mode {
            QBlockMode::Off => false,
            QBlockMode::On => true,
            QBlockMode::Auto => self.q_block_support.find(cx.now, to) != Some(false),
        };
        (possible && permitted).then_some(mode)
    }

    /// Begins a request whose body is sent by Q-Block1.
    pub(crate) fn request_q_block1(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        to: SocketAddr,
        (mut request, sending): (Request, RequestConfig),
        (mode, capacity): (QBlockMode, &Capacity),
    ) -> Result<RequestId, RequestError> {
        let tagged = !request.options.contains(OptionNumber::REQUEST_TAG);
        if tagged {
            let tag = self.next_q_block_tag(cx);
            let set = request.options.set_uint(OptionNumber::REQUEST_TAG, tag);
            set.map_err(|_| RequestError::Encode(EncodeError::BufferTooSmall))?;
        }
        cx.grow_scratch(capacity, 64 + request.options.encoded_len(), 0);
        let (code, options) = (request.code, &request.options);
        let token = crate::codec::Token::EMPTY;
        let head = encode(&mut cx.scratch, &token, code, options, &[], &[])
            .map_err(RequestError::Encode)?;
        let fits = capacity.beside(head + carrier.own_token_excess_max(cx, to));
        let sender = BlockSender::new(fits.size, request.payload.clone())
            .ok_or(RequestError::Encode(EncodeError::BufferTooSmall))?;
        let known = self.q_block_support.find(cx.now, to);
        // The support is discovered with a confirmable message (RFC 9177 4.1).
        let discovers = mode == QBlockMode::Auto && known.is_none();
        // All blocks of a body have one type (RFC 9177 7).
        let confirmable = sending.confirmable || discovers;
        let id = self.begin(cx, carrier, to, request, sending, None)?;
        let operation = &mut self.operations[id.index as usize];
        operation.progress = Progress::Sent;
        operation.q_upload = Some(Box::new(QUpload {
            sender,
            mode,
            confirmable,
            tagged,
            feedback: match known {
                Some(true) => Feedback::Supported,
                _ => Feedback::None,
            },
            reference: None,
            challenges: 0,
            timer: cx.timers.add(Owner::QUpload(id.index)),
        }));
        let new = self.q_uploads.insert((operation.peer, id.index));
        debug_assert!(new, "one body a request");
        self.await_q_response(cx, id.index);
        self.advance(cx, carrier, id.index);
        Ok(id)
    }

    /// The Request-Tag of the next body: a number that begins at random (RFC 9177 4.3).
    fn next_q_block_tag(&mut self, cx: &mut Context) -> u32 {
        if self.last_tag == 0 {
            // 15 bits: a tag of two bytes, with room to count on.
            self.last_tag = cx.random.next_u32() >> 17;
        }
        // 0 means that none was drawn yet.
        self.last_tag = self.last_tag.wrapping_add(1).max(1);
        self.last_tag
    }

    /// Sends blocks of a body as long as the window permits.
    pub(crate) fn send_q_blocks(&mut self, cx: &mut Context, carrier: &mut Carrier, index: u32) {
        while let Some(operation) = self.operations.get_mut(index as usize)
            && let Some(upload) = &mut operation.q_upload
        {
            let window = carrier.window(cx, operation.peer).exchanges;
            let is_single = window <= carrier.parameters(cx, operation.peer).nstart;
            let window = usize::from(window);
            let burst = cx.config.q_block.set() as usize;
            let allowed = match (upload.confirmable, upload.feedback) {
                // One message shows whether the server supports the option.
                (true, Feedback::None) => 1,
                // The controller has no window.
                (false, Feedback::Reported) if is_single => window + burst,
                (true, _) | (false, Feedback::Reported) => window,
                // The next set begins, so that a gap in the first is reported.
                (false, _) => window.max(2) + burst,
            };
            // Presumed ones count here: a server that never reports must not have the whole body in
            // flight.
            let limit = cx.config.limits.blocks_in_flight.max(1);
            let sender = &upload.sender;
            if sender.in_window() >= allowed.max(1) || sender.outstanding().len() >= limit {
                return;
            }
            let sent_before = upload.sender.is_sent();
            let Some(number) = upload.sender.next() else {
                return;
            };
            let began_last = !sent_before && upload.sender.is_sent();
            let (block, bytes) = upload.sender.block(number);
            debug_assert!(block.szx.fits(bytes.len(), block.more), "RFC 7959 2.2");
            let size = upload.sender.len() as u32;
            if began_last {
                let (timer, wait) = (upload.timer, response_wait(cx, upload.confirmable));
                cx.timers.set(timer, cx.now + wait);
            }
            cx.counters.q_block.blocks_sent += 1;
            let blocks = Blocks {
                block1: Some(block),
                size1: Some(size),
                quick: true,
                ..Blocks::default()
            };
            self.send_part(cx, carrier, index, blocks, &bytes);
        }
    }

    /// The properties of a message with a block of a Q-Block1 body: confirmable, the burst, and the
    /// least timer.
    pub(crate) fn q_block_traits(&self, cx: &Context, index: u32) -> Option<(bool, u8, u32)> {
        let upload = self.operations[index as usize].q_upload.as_ref()?;
        let burst = cx.config.q_block.max_payloads.max(1);
        let least_timeout = upload.sender.backoff().as_micros_u32();
        Some((upload.confirmable, burst, least_timeout))
    }

    /// Notes the exchange of a block that was just submitted. It may already have ended.
    pub(crate) fn on_q_block_submitted(&mut self, index: u32, block: BlockValue, exchange: u32) {
        if let Some(operation) = self.operations.get_mut(index as usize)
            && let Some(upload) = &mut operation.q_upload
        {
            upload.sender.sent(block.number, exchange);
        }
    }

    /// Processes the response to a block of a Q-Block1 body. Returns whether it only reported blocks.
    pub(crate) fn on_q_block_response(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        answered: AnsweredRequest,
        message: &MessageView<'_>,
    ) -> bool {
        let (index, Some(block)) = (answered.operation, answered.block1) else {
            return false;
        };
        let open = answered.reported.then_some(answered.exchange);
        let at = open.and_then(|exchange| carrier.departed(exchange));
        let reference = Reference {
            block: block.number,
            at: at.unwrap_or(cx.now),
            exchange: open,
        };
        if open.is_none()
            && let Some(upload) = self.q_upload(index)
        {
            upload.sender.ended(block.number, None);
            upload.sender.acknowledged(block.number);
        }
        self.on_q_block_answer(cx, carrier, index, reference, message)
    }

    /// Processes a response with the token of an ended transmission of a block. Returns whether it has
    /// one.
    pub(crate) fn on_ended_q_block(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        from: SocketAddr,
        message: &MessageView<'_>,
    ) -> bool {
        // Without such a body, an unmatched response costs no lookup.
        if self.q_uploads.is_empty() || !message.code().is_response() {
            return false;
        }
        let Some(peer) = carrier.peers.find(from) else {
            return false;
        };
        let token = cx.token_key(message.token());
        let mut of_peer = self.q_uploads.range((peer, 0)..=(peer, u32::MAX));
        let found = of_peer.find_map(|&(_, index)| {
            let upload = self.operations[index as usize].q_upload.as_ref()?;
            Some((index, upload.sender.find_ended(&token)?))
        });
        let Some((index, BlockTransmission { block, at, .. })) = found else {
            return false;
        };
        let parameters = carrier.parameters(cx, peer);
        // A report may be a CON, and would be retransmitted until it is acknowledged.
        carrier.acknowledge_response(cx, from, message, parameters);
        let reference = Reference {
            block,
            at,
            exchange: None,
        };
        if !self.on_q_block_answer(cx, carrier, index, reference, message) {
            self.handle_operation_response(cx, carrier, index, None, None, message);
        }
        true
    }

    fn q_upload(&mut self, index: u32) -> Option<&mut QUpload> {
        self.operations
            .get_mut(index as usize)?
            .q_upload
            .as_deref_mut()
    }

    /// Processes an answer to a block. Returns false for the final response, whose body is to be read.
    fn on_q_block_answer(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        reference: Reference,
        message: &MessageView<'_>,
    ) -> bool {
        let set = cx.config.q_block.set();
        let Some(upload) = self.q_upload(index) else {
            return false;
        };
        let code = message.code();
        let auto = upload.mode == QBlockMode::Auto;
        let report = match code {
            Code::CONTINUE => Report::continued(message, reference.block),
            Code::REQUEST_ENTITY_INCOMPLETE if is_missing_blocks(message) => {
                Report::missing(message, reference.block, set)
            }
            Code::BAD_OPTION | Code::REQUEST_ENTITY_TOO_LARGE if auto => {
                let lacks = code == Code::BAD_OPTION;
                if let Some(exchange) = reference.exchange {
                    carrier.end_reporting(cx, exchange, (0, 0), true);
                }
                let peer = self.operations[index as usize].peer;
                self.fall_back(cx, carrier, index, lacks);
                carrier.continue_queue(cx, peer);
                return true;
            }
            Code::UNAUTHORIZED
                if self.answer_q_block_challenge(cx, carrier, index, reference, message) =>
            {
                return true;
            }
            _ => {
                self.end_q_upload(cx, carrier, index, reference, message);
                if code == Code::UNAUTHORIZED {
                    // The response to the request, which does not fit a message to repeat.
                    self.operations[index as usize].challenge.give_up();
                }
                return false;
            }
        };
        let futile = |upload: &mut QUpload| upload.sender.is_futile();
        if self.q_upload(index).is_some_and(futile) {
            let peer = self.operations[index as usize].peer;
            self.end_q_upload(cx, carrier, index, reference, message);
            self.fail_operation(cx, carrier, index, Failure::Interrupted(code));
            carrier.continue_queue(cx, peer);
            return true;
        }
        self.note_support(cx, carrier, index);
        self.await_q_response(cx, index);
        let missing = report.missing.len() as u32;
        let peer = self.operations[index as usize].peer;
        let address = carrier.peers[peer].address;
        cx.counters.q_block.reports_received += 1;
        cx.trace(address, TraceEvent::BlocksMissing { missing });
        self.apply_report(cx, carrier, index, reference, &report);
        carrier.continue_queue(cx, peer);
        self.send_q_blocks(cx, carrier, index);
        true
    }

    /// Ends the exchanges that a report settles, and notifies the controller.
    fn apply_report(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        reference: Reference,
        report: &Report,
    ) {
        let (now, set) = (cx.now, cx.config.q_block.set());
        let receive_timeout = cx.config.q_block.receive_timeout;
        let Some(upload) = self.q_upload(index) else {
            return;
        };
        // A report by the server's timer is late; it may list blocks of the set of its block, or come when
        // nothing else does.
        let before_set = reference.block / set * set;
        let causal = report.missing.last().is_none_or(|last| *last < before_set);
        let elapsed = now.since(reference.at);
        let prompt = report.missing.is_empty()
            || (causal && !upload.sender.is_sent() && elapsed < receive_timeout);
        let (mut also, mut recent, mut lost) = (0_u32, 0_u32, 0_u64);
        let before = upload.reference.replace(reference.at);
        // The latest departure that the server can have waited for: its first report by timer leaves
        // NON_RECEIVE_TIMEOUT after the named block arrives, and later ones name the same block.
        let first_timer = reference.at + receive_timeout;
        let awaited = if before == Some(reference.at) {
            now
        } else {
            first_timer
        };
        let outstanding: Vec<(u32, u32)> = (upload.sender.outstanding().iter())
            .map(|(block, exchange)| (*block, *exchange))
            .collect();
        let mut ended = Vec::new();
        for (block, exchange) in outstanding {
            if Some(exchange) == reference.exchange {
                continue;
            }
            let transmission = carrier.transmission_of(exchange, block);
            let sent_before = transmission.is_some_and(|sent| sent.at < reference.at);
            if report.missing.contains(&block) {
                // One sent later is lost if the server waited for it, and it had the time to arrive.
                let is_due = sent_before || carrier.is_report_due(now, awaited, exchange);
                if !is_due || !carrier.is_reported(exchange) {
                    continue;
                }
                // A loss for the controller, and a repetition with another token.
                carrier.end_missing(cx, exchange);
                lost += 1;
            } else if block < report.end && carrier.is_reported(exchange) {
                let bytes = carrier.end_received(cx, exchange);
                also = also.saturating_add(bytes);
                let since = transmission.is_some_and(|sent| before.is_some_and(|at| sent.at > at));
                recent = recent.saturating_add(if since { bytes } else { 0 });
            } else {
                continue;
            }
            upload.sender.ended(block, transmission);
            ended.push(exchange);
        }
        upload.feedback = Feedback::Reported;
        if let Some(exchange) = reference.exchange {
            let transmission = carrier.transmission_of(exchange, reference.block);
            upload.sender.ended(reference.block, transmission);
            upload.sender.acknowledged(reference.block);
        }
        also = also.saturating_add(upload.sender.reported(report));
        if let Some(exchange) = reference.exchange {
            carrier.end_reporting(cx, exchange, (also, recent), prompt);
        }
        cx.counters.q_block.blocks_missing += lost;
        for exchange in ended {
            self.leave_operation(index, exchange);
        }
    }

    /// Ends a body after the final response.
    fn end_q_upload(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        reference: Reference,
        message: &MessageView<'_>,
    ) {
        if message.code().is_success() {
            self.note_support(cx, carrier, index);
        }
        // The final response settles every block.
        let all = Report {
            end: u32::MAX,
            missing: BTreeSet::new(),
        };
        let peer = self.operations[index as usize].peer;
        self.apply_report(cx, carrier, index, reference, &all);
        self.discard_q_upload(cx, carrier, index);
        carrier.continue_queue(cx, peer);
    }

    /// Discards a body with its messages in flight.
    pub(crate) fn discard_q_upload(&mut self, cx: &mut Context, carrier: &mut Carrier, index: u32) {
        let operation = &mut self.operations[index as usize];
        let Some(upload) = operation.q_upload.take() else {
            return;
        };
        cx.timers.remove(upload.timer);
        let listed = self.q_uploads.remove(&(operation.peer, index));
        debug_assert!(listed, "a body by Q-Block1 is listed");
        for exchange in core::mem::take(&mut operation.exchanges) {
            carrier.cancel(cx, exchange, |purpose| purpose.operation() == Some(index));
        }
    }

    fn note_support(&mut self, cx: &Context, carrier: &Carrier, index: u32) {
        let operation = &mut self.operations[index as usize];
        let Some(upload) = &mut operation.q_upload else {
            return;
        };
        if upload.feedback == Feedback::None {
            upload.feedback = Feedback::Supported;
        }
        let peer = carrier.peers[operation.peer].address;
        let limit = cx.config.limits.q_block_peers;
        self.q_block_support.note(cx.now, peer, true, limit);
    }

    /// Sends the body by Block1 instead, to a server that `lacks` Q-Block or takes no such body.
    fn fall_back(&mut self, cx: &mut Context, carrier: &mut Carrier, index: u32, lacks: bool) {
        let operation = &mut self.operations[index as usize];
        let peer = carrier.peers[operation.peer].address;
        if operation.q_upload.as_ref().is_some_and(|own| own.tagged) {
            operation.request.options.remove(OptionNumber::REQUEST_TAG);
        }
        operation.progress = Progress::Unsent;
        let limit = cx.config.limits.q_block_peers;
        if lacks {
            self.q_block_support.note(cx.now, peer, false, limit);
        }
        cx.counters.q_block.fallbacks += 1;
        self.discard_q_upload(cx, carrier, index);
        self.measure(cx, carrier, index);
    }

    /// Answers the challenge of a block: it is sent again with the Echo value, as are all later ones.
    fn answer_q_block_challenge(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
        reference: Reference,
        message: &MessageView<'_>,
    ) -> bool {
        let operation = &mut self.operations[index as usize];
        let Some(upload) = &mut operation.q_upload else {
            return false;
        };
        upload.challenges = upload.challenges.saturating_add(1);
        // A server that challenges every block would have the body sent without end.
        if upload.challenges > CHALLENGES || !operation.take_challenge(message) {
            return false;
        }
        let peer = operation.peer;
        let only = Report {
            end: 0,
            missing: BTreeSet::from([reference.block]),
        };
        self.apply_report(cx, carrier, index, reference, &only);
        cx.trace(carrier.peers[peer].address, TraceEvent::Challenged);
        carrier.continue_queue(cx, peer);
        self.send_q_blocks(cx, carrier, index);
        true
    }

    /// Ends the exchange of a block within its operation; returns the operation and the block.
    fn leave_with_block(&mut self, purpose: Purpose, exchange: u32) -> Option<(u32, BlockValue)> {
        let Purpose::Request {
            operation: index,
            block1: Some(block),
            ..
        } = purpose
        else {
            return None;
        };
        self.leave_operation(index, exchange)
            .then_some((index, block))
    }

    /// Handles the expired timer of a block.
    pub(crate) fn on_unreported(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        (purpose, exchange): (Purpose, u32),
        silence: Option<Duration>,
    ) {
        let Some((index, block)) = self.leave_with_block(purpose, exchange) else {
            return;
        };
        let Some(upload) = self.q_upload(index) else {
            return;
        };
        upload.sender.ended(block.number, None);
        upload.sender.expired(block.number, silence);
        if silence.is_some() {
            self.release_unreported(cx, carrier, index);
        }
        let max = cx.config.q_block.max_retransmit;
        let Some(upload) = self.q_upload(index) else {
            return;
        };
        if upload.sender.is_sent() && upload.sender.silences() > max {
            let copies = upload.sender.silences();
            return self.fail_operation(cx, carrier, index, Failure::TimedOut { copies });
        }
        self.send_q_blocks(cx, carrier, index);
    }

    /// Continues after a block has left the window.
    pub(crate) fn on_presumed_received(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        purpose: Purpose,
        exchange: u32,
    ) {
        if let Purpose::Request {
            operation: index,
            block1: Some(block),
            ..
        } = purpose
            && let Some(upload) = self.q_upload(index)
        {
            upload.sender.presume(block.number, exchange);
            self.send_q_blocks(cx, carrier, index);
        }
    }

    /// Releases the window of a body's blocks after a silence. A report of later blocks lists those
    /// that are missing.
    fn release_unreported(&mut self, cx: &mut Context, carrier: &mut Carrier, index: u32) {
        let Some(upload) = self.q_upload(index) else {
            return;
        };
        let outstanding: Vec<(u32, u32)> = (upload.sender.outstanding().iter())
            .map(|(block, exchange)| (*block, *exchange))
            .collect();
        let mut ended = Vec::new();
        for (block, exchange) in outstanding {
            if let Some(transmission) = carrier.transmission_of(exchange, block) {
                carrier.end_unknown(cx, exchange);
                upload.sender.ended(block, Some(transmission));
                upload.sender.unknown(block);
                ended.push(exchange);
            }
        }
        for exchange in ended {
            self.leave_operation(index, exchange);
        }
        let peer = self.operations[index as usize].peer;
        carrier.continue_queue(cx, peer);
    }

    /// Handles the acknowledgement of a confirmable block.
    pub(crate) fn on_block_acknowledged(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        (purpose, exchange): (Purpose, u32),
        transmission: Option<BlockTransmission>,
    ) {
        let Some((index, block)) = self.leave_with_block(purpose, exchange) else {
            return;
        };
        self.note_support(cx, carrier, index);
        self.await_q_response(cx, index);
        if let Some(upload) = self.q_upload(index) {
            upload.sender.ended(block.number, transmission);
            upload.sender.acknowledged(block.number);
            self.send_q_blocks(cx, carrier, index);
        }
    }

    /// Restarts the wait for the next report, or for the response: the body was not complete until now.
    fn await_q_response(&mut self, cx: &mut Context, index: u32) {
        if let Some(upload) = self.q_upload(index) {
            let wait = response_wait(cx, upload.confirmable);
            let timer = upload.timer;
            cx.timers.set(timer, cx.now + wait);
        }
    }

    /// Ends a request without a response once all blocks were sent.
    pub(crate) fn on_q_upload_timer(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
    ) {
        if self
            .q_upload(index)
            .is_some_and(|upload| upload.sender.is_sent())
        {
            return self.fail_operation(cx, carrier, index, Failure::NoResponse);
        }
        self.await_q_response(cx, index);
    }

    /// Falls back after the Reset of a block by a server that has not shown support. Returns true
    /// if the body continues by Block1.
    pub(crate) fn on_q_block_reset(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
    ) -> bool {
        let falls_back = self
            .q_upload(index)
            .is_some_and(|upload| upload.mode == QBlockMode::Auto);
        if falls_back {
            self.fall_back(cx, carrier, index, true);
        }
        falls_back
    }
}

/// The wait for a report or the response, from the latest proof that the body was incomplete. NON blocks
/// are repeated no longer than NON_LIFETIME after it: the server forgets the result of a complete body
/// MAX_LATENCY later, and would execute it again.
fn response_wait(cx: &Context, confirmable: bool) -> Duration {
    if confirmable {
        cx.lifetimes.exchange
    } else {
        cx.lifetimes.non
    }
}

/// Returns whether a response lists missing blocks (RFC 9177 5).
fn is_missing_blocks(message: &MessageView<'_>) -> bool {
    let format = message.uint_option(OptionNumber::CONTENT_FORMAT);
    format == Some(ContentFormat::MISSING_BLOCKS.0.into())
}
