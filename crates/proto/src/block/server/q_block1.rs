//! Request bodies by Q-Block1, and the reports of their blocks (RFC 9177 4.3, 5, 7.2).

use core::net::SocketAddr;

use alloc::vec::Vec;

use crate::admission::unvalidated_budget;
use crate::block::Key;
use crate::block::ReassemblyStep;
use crate::block::q_body::{BodyResult, QBlock, QBlockStep};
use crate::block::reassembly::Delivery;
use crate::carrier::Carrier;
use crate::codec::HEADER_LENGTH;
use crate::codec::encode_missing_blocks;
use crate::codec::token_room;
use crate::codec::{BlockValue, Code, ContentFormat, OptionNumber, TokenKey, TokenView, Type};
use crate::context::{Context, Owner, Queued};
use crate::counters::Refusal;
use crate::event::IncomingId;
use crate::message::{Payload, Response};
use crate::message_layer::UNLIMITED;
use crate::server::inbound::InboundRequest;
use crate::server::{Part, Server};
use crate::trace::TraceEvent;
use crate::writing::write_response;

/// Bytes of Content-Format and payload marker in a report of missing blocks.
const REPORT_OVERHEAD: usize = 4;

impl Context {
    /// Returns whether requests with Q-Block1 and Q-Block2 are accepted: over datagrams, if configured.
    pub(crate) fn accepts_q_block(&self) -> bool {
        self.config.q_block.accept && !self.is_stream()
    }
}

impl Server {
    /// Hands on a request with Q-Block1 or Q-Block2.
    pub(crate) fn hand_on_q_block(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        request: &InboundRequest<'_, '_>,
        id: IncomingId,
    ) {
        let options = &request.options;
        if request.to_group {
            // Ignored (RFC 9177 4.8).
            return self.discard_block(cx, carrier, id);
        }
        if !cx.accepts_q_block() {
            // A request to a proxy is not checked for unknown options before.
            let text = "Q-Block is not accepted";
            return self.fail(cx, carrier, id, Code::BAD_OPTION, text);
        }
        if options.block1 != Ok(None) || options.block2 != Ok(None) {
            let text = "Q-Block and Block options cannot be mixed";
            return self.fail(cx, carrier, id, Code::BAD_OPTION, text);
        }
        let (q_block1, q_block2) = match (options.q_block1, options.q_block2) {
            (Ok(q_block1), Ok(q_block2)) => (q_block1, q_block2),
            (Err(error), _) | (_, Err(error)) => {
                let text = alloc::format!("Q-Block: {error}");
                return self.fail(cx, carrier, id, Code::BAD_REQUEST, &text);
            }
        };
        match (q_block1, q_block2) {
            (Some(block), q_block2) => {
                if let Some(first) = q_block2 {
                    self.want_q_block2(cx, id, first);
                }
                self.assemble_q_block1(cx, carrier, id, request, block);
            }
            (None, Some(first)) => self.hand_on_q_block2(cx, carrier, request, (id, first)),
            (None, None) => self.hand_on(cx, carrier, request, id),
        }
    }

    /// Processes one block of a body by Q-Block1.
    pub(crate) fn assemble_q_block1(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        id: IncomingId,
        request: &InboundRequest<'_, '_>,
        block: BlockValue,
    ) {
        let (from, message) = (request.from, request.message);
        // Both are required (RFC 9177 4.3): the tag distinguishes bodies, the size shows when one
        // is complete.
        let tagged = message.option(OptionNumber::REQUEST_TAG).is_some();
        let Some(size) = request.options.size1.filter(|_| tagged) else {
            let text = "Q-Block1 needs Request-Tag and Size1";
            return self.fail(cx, carrier, id, Code::BAD_REQUEST, text);
        };
        debug_assert!(!cx.is_stream(), "RFC 9177 is for datagrams");
        let key = Key::of(from, message);
        let lifetime = cx.config.q_block.partial_timeout;
        match self
            .reassembler
            .results_mut()
            .find_result(cx.now, lifetime, &key)
        {
            Some(BodyResult::Responded(result)) => {
                cx.counters.q_block.duplicates += 1;
                return self.respond(cx, carrier, id, &result);
            }
            Some(BodyResult::Pending) => {
                cx.counters.q_block.duplicates += 1;
                return self.discard_block(cx, carrier, id);
            }
            None => {}
        }
        let limit = cx.config.limits.upload_bytes;
        // Before a place is taken, as all blocks state the exact size (RFC 9177 4.6).
        if size as usize > limit {
            let step = ReassemblyStep::TooLarge { limit };
            return self.on_step(cx, carrier, id, block, step);
        }
        let length = message.as_bytes().len();
        let budget = carrier.admission.budget(cx, from, length, (false, false));
        // Reports to an unvalidated address are limited where a single response is not.
        let budget = budget.or_else(|| {
            let validated = carrier.admission.is_validated(cx, from);
            (!validated).then(|| unvalidated_budget(length, false))
        });
        let arrived = QBlock {
            now: cx.now,
            block,
            payload: message.payload(),
            token: message.token().as_slice(),
            confirmable: message.kind() == Type::Confirmable,
            budget,
        };
        let begun = self.reassembler.find(from, message);
        let index = match begun {
            Some(index) => index,
            None => match self.begin_q_block1(cx, carrier, id, request, (&arrived, size)) {
                Some(index) => index,
                None => return,
            },
        };
        if block.number == 0 {
            self.reassembler.store_precondition(index, message);
        }
        let step = (self.reassembler).accept_q_block1(index, &arrived, size, &cx.config.q_block);
        self.on_q_block_step(cx, carrier, (id, index), (key, block, budget), step);
    }

    /// Begins a body; `None` if its request was answered instead.
    fn begin_q_block1(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        id: IncomingId,
        request: &InboundRequest<'_, '_>,
        arrived: (&QBlock<'_>, u32),
    ) -> Option<u32> {
        let (from, message) = (request.from, request.message);
        self.begin_body(cx, carrier, id, from, |reassembler, timers| {
            reassembler.begin_q_block1(from, message, arrived, |index| {
                timers.add(Owner::Assembly(index))
            })
        })
    }

    /// Answers a block, or delivers the body.
    fn on_q_block_step(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        (id, index): (IncomingId, u32),
        (key, block, budget): (Key, BlockValue, Option<usize>),
        step: QBlockStep,
    ) {
        match step {
            QBlockStep::Other(ReassemblyStep::Whole(body)) => {
                let slot = &mut self.incoming.slots[id.index as usize];
                let streamed = (self.delivery.as_ref())
                    .is_some_and(|rule| rule(&slot.message()) == Delivery::Streamed);
                if streamed {
                    slot.stored.part = Some(Part {
                        offset: 0,
                        more: false,
                    });
                }
                slot.stored.body = Some(body);
                slot.terms.q_block1 = true;
                if let Some(first) = self.reassembler.take_condition(index) {
                    self.incoming.slots[id.index as usize].set_message(&first);
                }
                self.reassembler.results_mut().begin_result(cx.now, key);
                self.forget_assembly(cx, index);
                cx.out.push(Queued::Request(id));
            }
            QBlockStep::Other(refused) => {
                self.forget_assembly(cx, index);
                self.on_step(cx, carrier, id, block, refused);
            }
            open => {
                let due = self.reassembler.due(index, &cx.config.q_block);
                debug_assert!(due < carob_cc::time::Instant::FAR_FUTURE, "no body");
                cx.timers.set(self.reassembler.timer(index), due);
                let from = self.incoming.slots[id.index as usize].from;
                match open {
                    QBlockStep::Continue(block) => {
                        note_report(cx, from, 0);
                        let mut response = Response::new(Code::CONTINUE);
                        let number = OptionNumber::Q_BLOCK1;
                        if response.options.set_uint(number, block.to_uint()).is_ok() {
                            self.respond(cx, carrier, id, &response);
                        }
                    }
                    QBlockStep::Missing(missing) => {
                        note_report(cx, from, missing.len());
                        let token = self.incoming.slots[id.index as usize].message().token();
                        let token = token.as_slice().len();
                        let response = missing_response(cx, &missing, token, budget);
                        self.respond(cx, carrier, id, &response);
                    }
                    _ => self.discard_block(cx, carrier, id),
                }
            }
        }
    }

    /// Ends the request of a block without a response; a CON gets an empty ACK.
    fn discard_block(&mut self, cx: &mut Context, carrier: &mut Carrier, id: IncomingId) {
        self.respond_nothing(cx, carrier, id);
    }

    /// Handles the timer of a body in transfer: requests missing blocks, or discards it.
    pub(crate) fn on_assembly_timer(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        index: u32,
    ) {
        let config = cx.config.q_block;
        let missing = self.reassembler.expire_q_block1(index, cx.now, &config);
        let Some(missing) = missing.filter(|missing| !missing.is_empty()) else {
            return self.forget_assembly(cx, index);
        };
        let due = self.reassembler.due(index, &config);
        cx.timers.set(self.reassembler.timer(index), due);
        let Some((to, token)) = self.reassembler.report_address(index) else {
            return;
        };
        let token: Vec<u8> = token.into();
        let Some((key, bytes)) = write_missing(cx, carrier, to, &token, &missing) else {
            return;
        };
        if self.reassembler.spend_on_report(index, bytes.len()) {
            note_report(cx, to, missing.len());
            carrier.send_separately(cx, to, (key, None), (false, UNLIMITED), bytes);
        } else {
            cx.counters.refused(Refusal::Amplification);
            cx.spare_buffer(bytes);
        }
    }
}

/// A 4.08 that lists missing blocks; as many as fit a block (RFC 9177 5), and a message within the budget.
fn missing_response(
    cx: &Context,
    missing: &[u32],
    token: usize,
    budget: Option<usize>,
) -> Response {
    let head = HEADER_LENGTH + token_room(token) + REPORT_OVERHEAD;
    let within = budget.map_or(usize::MAX, |budget| budget.saturating_sub(head));
    // A report must fit a packet (RFC 9177 5); the rest follows with the next one.
    let room = cx.config.block_size.bytes().min(within);
    let report = encode_missing_blocks(missing.iter().copied(), room);
    let mut response = Response::new(Code::REQUEST_ENTITY_INCOMPLETE);
    let (number, format) = (OptionNumber::CONTENT_FORMAT, ContentFormat::MISSING_BLOCKS);
    let set = response.options.set_uint(number, format.0.into());
    debug_assert!(set.is_ok(), "an empty list of options has room");
    response.payload = Payload::Whole(report.into());
    response
}

fn note_report(cx: &mut Context, to: SocketAddr, missing: usize) {
    cx.counters.q_block.reports_sent += 1;
    let missing = missing as u32;
    cx.trace(to, TraceEvent::BlocksReported { missing });
}

/// Writes a report that no block causes, with the token of the latest block.
fn write_missing(
    cx: &mut Context,
    carrier: &Carrier,
    to: SocketAddr,
    token: &[u8],
    missing: &[u32],
) -> Option<(TokenKey, Vec<u8>)> {
    let response = missing_response(cx, missing, token.len(), None);
    let capacity = carrier.capacity(cx, to);
    let wanted = carrier.requested_block(cx, to, None);
    let mut scratch = core::mem::take(&mut cx.scratch);
    let written = write_response(
        &mut scratch,
        &capacity,
        token,
        &response,
        wanted,
        None,
        None,
    );
    let mut bytes = cx.buffer();
    if let Ok((length, _)) = written {
        bytes.extend_from_slice(&scratch[..length]);
    }
    cx.scratch = scratch;
    written.ok()?;
    Some((cx.token_key(TokenView::new(token)), bytes))
}
