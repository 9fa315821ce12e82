//! Block-wise bodies of received requests and their responses (RFC 7959).

mod q_block1;
mod q_block2;

use core::net::SocketAddr;

use crate::block::reassembly::{Delivery, Reassembler};
use crate::block::response_cache::CachedResponse;
use crate::block::{Key, ReassemblyStep};
use crate::carrier::Carrier;
use crate::codec::{BlockValue, Code, OptionNumber};
use crate::context::{Context, Owner, Queued};
use crate::event::IncomingId;
use crate::message::{Payload, Response};
use crate::server::inbound::InboundRequest;
use crate::server::response::Reply;
use crate::server::{Part, Server};
use crate::timers::Timers;

const BLOCKS_MISSING: &str = "earlier blocks of the body are missing";

impl Server {
    /// Processes one block of a request body.
    pub(crate) fn assemble(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        id: IncomingId,
        request: &InboundRequest<'_, '_>,
        block: BlockValue,
    ) {
        let echo = BlockValue {
            // The size in a response is the largest that this server takes from then on (RFC 7959
            // 2.3).
            szx: block.szx.min(cx.own_block_size()),
            ..block
        };
        self.incoming.slots[id.index as usize].terms.block1 = Some(echo);
        let begun = self.reassembler.find(request.from, request.message);
        if block.number == 0 && !block.more && begun.is_none() {
            // A body of one block is an ordinary request.
            return cx.out.push(Queued::Request(id));
        }
        let index = match begun {
            Some(index) => index,
            None => match self.begin_assembly(cx, carrier, id, request, block) {
                Some(index) => index,
                None => return,
            },
        };
        let timer = self.reassembler.timer(index);
        let step = self.add_block(cx, index, request, block);
        debug_assert!(cx.timers.deadline(timer).is_some(), "a body has a lifetime");
        let keep = match &step {
            ReassemblyStep::Continue | ReassemblyStep::Incomplete => true,
            ReassemblyStep::Part(_) => block.more,
            _ => false,
        };
        if matches!(step, ReassemblyStep::Whole(_))
            && let Some(first) = self.reassembler.take_condition(index)
        {
            self.incoming.slots[id.index as usize].set_message(&first);
        }
        if !keep {
            self.forget_assembly(cx, index);
        }
        self.on_step(cx, carrier, id, block, step);
    }

    /// Begins a body with its first block; `None` if its request was answered instead.
    fn begin_assembly(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        id: IncomingId,
        request: &InboundRequest<'_, '_>,
        block: BlockValue,
    ) -> Option<u32> {
        let (from, message) = (request.from, request.message);
        // RFC 7959 2.9.2: the earlier blocks were lost, or their body has expired.
        if block.number > 0 {
            let code = Code::REQUEST_ENTITY_INCOMPLETE;
            self.fail(cx, carrier, id, code, BLOCKS_MISSING);
            return None;
        }
        self.begin_body(cx, carrier, id, from, |reassembler, timers| {
            reassembler.begin(from, message, |index| timers.add(Owner::Assembly(index)))
        })
    }

    /// Begins a body if there is a place; `None` if its request was answered instead.
    fn begin_body(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        id: IncomingId,
        from: SocketAddr,
        begin: impl FnOnce(&mut Reassembler, &mut Timers<Owner>) -> Option<u32>,
    ) -> Option<u32> {
        // A body holds its place for EXCHANGE_LIFETIME. First blocks from forged addresses must
        // not hold the last places (RFC 7959 7.1).
        if self.reassembler.is_above_watermark() && !carrier.admission.is_validated(cx, from) {
            self.challenge(cx, carrier, id);
            return None;
        }
        let begun = begin(&mut self.reassembler, &mut cx.timers);
        if begun.is_none() {
            let text = "too many request bodies";
            self.fail(cx, carrier, id, Code::SERVICE_UNAVAILABLE, text);
        }
        begun
    }

    /// Adds a block to a body.
    fn add_block(
        &mut self,
        cx: &mut Context,
        index: u32,
        request: &InboundRequest<'_, '_>,
        block: BlockValue,
    ) -> ReassemblyStep {
        let message = request.message;
        let rule = self.delivery.as_ref();
        let delivery = rule.map_or(Delivery::Atomic, |rule| rule(message));
        if block.number == 0 {
            self.reassembler.store_precondition(index, message);
        }
        let announced = request.options.size1;
        let step = self
            .reassembler
            .accept(index, block, message.payload(), announced, delivery);
        let until = cx.now + cx.lifetimes.exchange;
        cx.timers.set(self.reassembler.timer(index), until);
        step
    }

    /// Answers a block, or delivers the body.
    pub(crate) fn on_step(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        id: IncomingId,
        block: BlockValue,
        step: ReassemblyStep,
    ) {
        let slot = &mut self.incoming.slots[id.index as usize];
        debug_assert!(slot.live && slot.serial == id.serial, "it is answered");
        match step {
            ReassemblyStep::Continue => {
                self.respond(cx, carrier, id, &Response::new(Code::CONTINUE));
            }
            ReassemblyStep::Whole(body) => {
                slot.stored.body = Some(body);
                cx.out.push(Queued::Request(id));
            }
            ReassemblyStep::Part(offset) => {
                let more = block.more;
                slot.stored.part = Some(Part { offset, more });
                cx.out.push(Queued::Request(id));
            }
            ReassemblyStep::Incomplete => {
                let code = Code::REQUEST_ENTITY_INCOMPLETE;
                self.fail(cx, carrier, id, code, BLOCKS_MISSING);
            }
            ReassemblyStep::TooLarge { limit } => {
                let text = alloc::format!("at most {limit} bytes");
                let mut response = Response::diagnostic(Code::REQUEST_ENTITY_TOO_LARGE, &text);
                // RFC 7252 5.9.2.9: Size1 in a 4.13 is the largest body that the server takes.
                let size = u32::try_from(limit).unwrap_or(u32::MAX);
                if response.options.set_uint(OptionNumber::SIZE1, size).is_ok() {
                    self.respond(cx, carrier, id, &response);
                }
            }
            ReassemblyStep::Full => {
                let text = "the memory for bodies is full";
                self.fail(cx, carrier, id, Code::SERVICE_UNAVAILABLE, text);
            }
            ReassemblyStep::BadLength => {
                let text = "the payload's length contradicts Block1";
                self.fail(cx, carrier, id, Code::BAD_REQUEST, text);
            }
        }
    }

    /// Answers a request for a later block from the response cache. An unsafe one outside the cache
    /// is rejected. Returns whether it was answered.
    pub(crate) fn answer_continuation(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        request: &InboundRequest<'_, '_>,
        id: IncomingId,
    ) -> bool {
        let (lifetime, from) = (cx.lifetimes.exchange, request.from);
        let cached = (carrier.response_cache).find(cx.now, lifetime, from, request.message);
        debug_assert!(self.incoming.find(id).is_some());
        if let Some(cached) = cached {
            let CachedResponse {
                code,
                options,
                body,
            } = cached;
            let response = Response {
                code,
                options,
                payload: Payload::Fixed(body),
            };
            self.respond(cx, carrier, id, &response);
            return true;
        }
        if request.message.code().is_safe() {
            return false;
        }
        // It has been executed, and its body is not in this message: the application would take it
        // for another request, with an empty body.
        self.incoming.slots[id.index as usize].terms.wanted =
            carrier.requested_block(cx, from, None);
        let text = "the response body has expired";
        self.fail(cx, carrier, id, Code::REQUEST_ENTITY_INCOMPLETE, text);
        true
    }

    /// Caches the body of a block-wise response.
    #[inline]
    pub(crate) fn keep_rest(
        &mut self,
        cx: &Context,
        carrier: &mut Carrier,
        reply: &Reply<'_>,
        response: &Response,
    ) {
        let Some(slot) = self.incoming.find(reply.id) else {
            return;
        };
        if let Payload::Whole(body) = &response.payload {
            let Response { code, options, .. } = response;
            let cached = CachedResponse {
                code: *code,
                options: options.clone(),
                body: body.clone(),
            };
            let key = Key::of(reply.from, &slot.message());
            carrier.response_cache.keep(cx.now, key, cached);
        }
    }
}
