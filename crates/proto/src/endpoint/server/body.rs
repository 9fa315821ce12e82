//! Request bodies that come in blocks (RFC 7959 2.5).

use core::net::SocketAddr;

use carob_cc::time::Instant;

use super::Part;
use crate::blockwise::assembly::Assembled;
use crate::codec::{BlockValue, Code, MessageView, OptionNumber};
use crate::endpoint::{Delivery, Endpoint, IncomingId, Owner, Queued};
use crate::message::Response;

impl Endpoint {
    /// Takes one block of a request body.
    pub(super) fn assemble(
        &mut self,
        now: Instant,
        incoming: IncomingId,
        from: SocketAddr,
        request: &MessageView<'_>,
        block: BlockValue,
    ) {
        let echo = BlockValue {
            szx: block.szx.min(self.own_block_size()),
            ..block
        };
        self.incoming.slots[incoming.index as usize].block1 = Some(echo);
        let begun = self.assemblies.find(from, request);
        if block.number == 0 && !block.more && begun.is_none() {
            // A body of one block is like any other request.
            return self.out.push_back(Queued::Request(incoming));
        }
        let shown = self.has_shown(now, from);
        let timers = &mut self.timers;
        let index = match begun {
            Some(index) => Some(index),
            None if block.number == 0 && self.assemblies.is_pressed() && !shown => {
                return self.challenge(now, incoming);
            }
            None if block.number == 0 => self
                .assemblies
                .begin(from, request, |index| timers.add(Owner::Assembly(index))),
            None => {
                let text = "the blocks before this one are not here";
                return self.fail(now, incoming, Code::REQUEST_ENTITY_INCOMPLETE, text);
            }
        };
        let Some(index) = index else {
            return self.fail(
                now,
                incoming,
                Code::SERVICE_UNAVAILABLE,
                "too many request bodies",
            );
        };
        let delivery = self
            .delivery
            .as_ref()
            .map_or(Delivery::Atomic, |rule| rule(request));
        let announced = request.uint_option(OptionNumber::SIZE1);
        if block.number == 0 {
            self.assemblies.note_condition(index, request);
        }
        let taken = self
            .assemblies
            .accept(index, block, request.payload(), announced, delivery);
        let lifetime = self.lifetimes.exchange;
        self.timers
            .set(self.assemblies.timer(index), now + lifetime);
        let keep = match &taken {
            Assembled::Continue | Assembled::Incomplete => true,
            Assembled::Part(_) => block.more,
            _ => false,
        };
        let conditional = match &taken {
            Assembled::Whole(_) => self.assemblies.take_condition(index),
            _ => None,
        };
        if !keep && let Some(timer) = self.assemblies.remove(index) {
            self.timers.remove(timer);
        }
        let slot = &mut self.incoming.slots[incoming.index as usize];
        match taken {
            Assembled::Continue => self.respond(now, incoming, &Response::new(Code::CONTINUE)),
            Assembled::Whole(body) => {
                slot.body = Some(body);
                if let Some(first) = conditional {
                    slot.bytes.clear();
                    slot.bytes.extend_from_slice(&first);
                }
                self.out.push_back(Queued::Request(incoming));
            }
            Assembled::Part(offset) => {
                slot.part = Some(Part {
                    offset,
                    more: block.more,
                });
                self.out.push_back(Queued::Request(incoming));
            }
            Assembled::Incomplete => {
                let text = "the blocks before this one are not here";
                self.fail(now, incoming, Code::REQUEST_ENTITY_INCOMPLETE, text);
            }
            Assembled::TooLarge { limit } => {
                let text = alloc::format!("at most {limit} bytes");
                let mut response = Response::diagnostic(Code::REQUEST_ENTITY_TOO_LARGE, &text);
                let size = u32::try_from(limit).unwrap_or(u32::MAX);
                if response.options.set_uint(OptionNumber::SIZE1, size).is_ok() {
                    self.respond(now, incoming, &response);
                }
            }
            Assembled::Full => {
                self.fail(
                    now,
                    incoming,
                    Code::SERVICE_UNAVAILABLE,
                    "no room for this body now",
                );
            }
            Assembled::BadLength => {
                let text = "the payload's length contradicts Block1";
                self.fail(now, incoming, Code::BAD_REQUEST, text);
            }
        }
    }
}
