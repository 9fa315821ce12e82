//! Requests received: checked, put together, answered once.
//!
//! The way of a request: duplicate? (before this file) - options understood? - a block of a body
//! being read or written? - to the application. The way of its response: cut to the block asked
//! for - piggybacked if the ACK is still due, else as a message of its own.
//!
//! Files: [`mod@self`] the way in, `overload` who gets no place, `table` what waits, `body` blocks of a request, `response` the
//! way out.

mod body;
mod challenge;
mod overload;
mod response;
mod table;

use alloc::vec::Vec;
use core::net::SocketAddr;

use bytes::Bytes;
use carob_cc::time::Instant;

use super::config::SPARE_BYTES;
use super::count::Count;
use super::options::{is_location, is_reserved_location};
use super::{Endpoint, IncomingId, Queued};
use crate::blockwise::Wanted;
use crate::blockwise::bodies::Kept;
use crate::codec::{BlockError, Code, MessageView, NoResponse, OptionNumber, Type};
use crate::dedup::{Remembered, Repeatable};
use crate::message::{Payload, Response};
use crate::observe::Observe;

pub use challenge::AMPLIFICATION_FACTOR;
pub(super) use overload::Unkept;
use overload::Why;
pub(super) use response::write_response;
pub(super) use table::IncomingTable;
use table::{Acknowledgement, Slot};

/// Which part of a streamed request body a request carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where it begins, in bytes.
    pub offset: u64,
    /// More parts follow; answer this one with [`Code::CONTINUE`] to get them.
    pub more: bool,
}

/// A request received, as the application sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Incoming<'a> {
    /// Who sent it.
    pub from: SocketAddr,
    /// The message: method and options. Of a body in several blocks, it is that of the last, or
    /// of the first if that alone has If-None-Match (RFC 7959 2.10).
    pub message: MessageView<'a>,
    /// The body: whole, or the part that [`part`](Self::part) says; empty where the method is not
    /// defined to have one (RFC 7252 5.5).
    pub body: &'a [u8],
    /// Set if the body is streamed: which part this is.
    pub part: Option<Part>,
    /// The part of the response body that is asked for.
    pub wanted: Wanted,
    /// What is asked for with the Observe option, if anything (RFC 7641 2). Registration is the
    /// application's choice: [`Endpoint::observe`].
    pub observe: Option<Observe>,
    /// It carries an Echo value that its sender was [given](Endpoint::challenge) lately: it was made
    /// no longer ago than that, and its sender is where it says it is (RFC 9175 2.3).
    pub fresh: bool,
    /// It was sent to a group that we are in: an answer goes out at a random moment, if it is of use
    /// (RFC 7252 8.2).
    pub to_group: bool,
}

/// What the options of a request lead to before anything else is looked at.
#[derive(Clone, Copy)]
enum Verdict {
    Understood {
        accept: Option<u32>,
        count: Option<Count>,
        observe: Option<Observe>,
        unwanted: NoResponse,
        echo: bool,
    },
    Refused(Code, OptionNumber),
}

/// Whether the engine, or the application by its contract, acts on this critical option.
fn handles(number: OptionNumber, method: Code) -> bool {
    match number {
        // Block1 is about a payload, and not defined where there is none.
        OptionNumber::BLOCK1 => method.has_payload(),
        OptionNumber::IF_MATCH
        | OptionNumber::URI_HOST
        | OptionNumber::IF_NONE_MATCH
        | OptionNumber::URI_PORT
        | OptionNumber::URI_PATH
        | OptionNumber::URI_QUERY
        | OptionNumber::ACCEPT
        | OptionNumber::BLOCK2 => true,
        _ => false,
    }
}

/// Whether an option says that a request is for a proxy (RFC 7252 5.10.2).
fn is_for_proxy(number: OptionNumber) -> bool {
    matches!(number, OptionNumber::PROXY_URI | OptionNumber::PROXY_SCHEME)
}

impl Endpoint {
    /// The first option of a request that whoever answers it must understand, and neither the
    /// engine nor the application does. Where [messages are passed on](super::Config::forwards)
    /// there may be one, in a request that is not; it is to be answered 4.02 (RFC 7252 5.4.1).
    pub fn not_to_be_overlooked(&self, request: &MessageView<'_>) -> Option<OptionNumber> {
        let mut last = None;
        request
            .options()
            .find(|option| {
                let number = option.number;
                let repeated = last.replace(number) == Some(number);
                let handled = || is_for_proxy(number) || handles(number, request.code());
                number.is_critical() && !self.understands(option, repeated, handled())
            })
            .map(|option| option.number)
    }

    /// Whether the connection over which a request came is still there; over datagrams, always.
    pub(super) fn is_connected(&self, id: IncomingId) -> bool {
        self.incoming.find(id).is_some_and(|slot| {
            let Acknowledgement::Connected(connection) = slot.acknowledgement else {
                return true;
            };
            self.connections.serial(slot.from) == Some(connection)
        })
    }

    /// A request that [`Event::Request`](super::Event::Request) announced, until it is answered.
    pub fn incoming(&self, id: IncomingId) -> Option<Incoming<'_>> {
        let slot = self.incoming.find(id)?;
        let message = MessageView::parse_long(&slot.bytes).ok()?;
        let body = match slot.body.as_deref() {
            Some(body) => body,
            None if message.code().has_payload() => message.payload(),
            None => &[],
        };
        Some(Incoming {
            from: slot.from,
            message,
            body,
            part: slot.part,
            wanted: slot.wanted,
            observe: slot.observe,
            fresh: slot.fresh,
            to_group: slot.to_group,
        })
    }

    /// The whole body of a request that came in several blocks, without copying it.
    pub fn incoming_body(&self, id: IncomingId) -> Option<Bytes> {
        self.incoming.find(id)?.body.clone()
    }

    fn wanted(&self, from: SocketAddr, request: &MessageView<'_>) -> Result<Wanted, BlockError> {
        let block = self.block_option(request, OptionNumber::BLOCK2)?;
        Ok(self.wanted_of(from, block))
    }

    fn check_options(&self, request: &MessageView<'_>) -> Verdict {
        let (mut last, mut located) = (None, false);
        let (mut accept, mut count, mut observe) = (None, None, None);
        let (mut unwanted, mut echo) = (NoResponse::NONE, false);
        for option in request.options() {
            let number = option.number;
            if number.is_critical() {
                let for_proxy = is_for_proxy(number);
                if for_proxy && !self.config.forwards {
                    return Verdict::Refused(Code::PROXYING_NOT_SUPPORTED, number);
                }
                let handled = for_proxy || handles(number, request.code());
                if !self.passes(&option, last == Some(number), handled) {
                    return Verdict::Refused(Code::BAD_OPTION, number);
                }
                if number == OptionNumber::ACCEPT {
                    accept = option.uint();
                }
            } else if located && is_reserved_location(number) {
                return Verdict::Refused(Code::BAD_OPTION, number);
            }
            if number == OptionNumber::OBSERVE {
                // Only GET and FETCH observe (RFC 7641 2, RFC 8132 2.4).
                observe = option
                    .uint()
                    .and_then(Observe::from_value)
                    .filter(|_| request.code().is_safe());
            }
            if number == OptionNumber::NO_RESPONSE && option.recognized().is_some() {
                unwanted = option.uint().map_or(unwanted, NoResponse::from_value);
            }
            echo |= number == OptionNumber::ECHO;
            if Some(number) == self.count_option && last != Some(number) {
                count = Count::of_value(option.value);
            }
            located |= is_location(number);
            last = Some(number);
        }
        Verdict::Understood {
            accept,
            count,
            observe,
            unwanted,
            echo,
        }
    }

    pub(super) fn handle_request(
        &mut self,
        now: Instant,
        from: SocketAddr,
        request: &MessageView<'_>,
        to_group: bool,
    ) {
        // Over a connection every request is answered.
        let confirmable = request.kind() == Type::Confirmable || self.is_reliable();
        if self.exceeds_tokens(request) {
            // Nobody is refused anything in a group's name (RFC 7252 8.1).
            if !to_group {
                self.refuse(now, from, request, Code::BAD_REQUEST, Why::Text(""));
            }
            return;
        }
        let verdict = self.check_options(request);
        if let Verdict::Refused(code, number) = verdict
            && confirmable
        {
            let text = alloc::format!("option {} is not understood", number.0);
            return self.refuse(now, from, request, code, Why::Text(&text));
        }
        if let Verdict::Refused(Code::BAD_OPTION, _) = verdict {
            // A NON with an option we must understand is rejected (RFC 7252 5.4.1).
            self.counters.requests.add(request.code(), None);
            return;
        }
        let (lifetime, repeatable) = (
            if confirmable {
                self.lifetimes.exchange
            } else {
                self.lifetimes.non
            },
            if request.code().is_idempotent() {
                Repeatable::Yes
            } else {
                Repeatable::No
            },
        );
        if to_group {
            // Nobody is refused anything in a group's name (RFC 7252 8.1).
            if self.incoming.len() >= self.config.limits.incoming {
                return;
            }
        } else if !self.admits(now, from, request, repeatable) {
            return;
        }
        let id = request.message_id();
        let remembered = if self.is_reliable() {
            self.request_waits(from);
            None
        } else {
            let ends_body = repeatable == Repeatable::Yes && self.ends_body(request);
            let kept_long = if ends_body && self.has_room_for_end(now, from) {
                self.dedup.remember(now, lifetime, from, id, Repeatable::No)
            } else {
                None
            };
            let remembered =
                kept_long.or_else(|| self.dedup.remember(now, lifetime, from, id, repeatable));
            if remembered.is_none() {
                return self.overloaded(now, from, request);
            }
            remembered
        };
        let deregister = Some(Observe::Deregister);
        if matches!(verdict, Verdict::Understood { observe, .. } if observe == deregister) {
            self.deregister(now, from, &self.token_key(request.token()));
        }
        let wanted = self.wanted(from, request);
        let whole = self.wanted_of(from, None);
        let incoming = self.accept(now, from, request, remembered, wanted.unwrap_or(whole));
        self.incoming.slots[incoming.index as usize].to_group = to_group;
        match verdict {
            Verdict::Understood {
                accept,
                count,
                observe,
                unwanted,
                echo,
            } => {
                let value = request.option(OptionNumber::ECHO).filter(|_| echo);
                let fresh = value.is_some_and(|value| self.take_echo(now, from, value));
                let slot = &mut self.incoming.slots[incoming.index as usize];
                (slot.accept, slot.count) = (accept, count);
                (slot.unwanted, slot.fresh) = (unwanted, fresh);
                // Nobody observes a group.
                slot.observe = observe.filter(|_| !to_group);
                // Nobody is challenged in a group's name.
                let lasts = repeatable == Repeatable::No && !to_group && !fresh;
                if lasts && self.may_be_unkept(now, from) && !self.asks_for_rest(request) {
                    return self.challenge(now, incoming);
                }
            }
            // Who asks for a proxy is told that there is none, a NON too (RFC 7252 5.10.2).
            Verdict::Refused(code, _) => {
                return self.fail(now, incoming, code, "no proxy is here");
            }
        }
        let wanted = match wanted {
            Ok(wanted) => wanted,
            Err(error) => {
                // Too long a value was refused above; what is left is SZX 7 (RFC 7959 2.2).
                let text = alloc::format!("Block2: {error}");
                return self.fail(now, incoming, Code::BAD_REQUEST, &text);
            }
        };
        match self.block_option(request, OptionNumber::BLOCK1) {
            Err(error) => {
                let text = alloc::format!("Block1: {error}");
                return self.fail(now, incoming, Code::BAD_REQUEST, &text);
            }
            Ok(Some(_)) if to_group => {
                let text = "a body to a group goes in one message";
                return self.fail(now, incoming, Code::BAD_REQUEST, text);
            }
            Ok(Some(block)) => return self.assemble(now, incoming, from, request, block),
            Ok(None) => {}
        }
        if wanted.offset > 0 {
            let lifetime = self.lifetimes.exchange;
            if let Some(kept) = self.bodies.find(now, lifetime, from, request) {
                let Kept {
                    code,
                    options,
                    body,
                } = kept;
                let response = Response {
                    code,
                    options,
                    payload: Payload::Fixed(body),
                };
                return self.respond(now, incoming, &response);
            }
            if !request.code().is_safe() {
                // It has been carried out, and its body is not in this message: an application would
                // take it for another request, with an empty one.
                self.incoming.slots[incoming.index as usize].wanted = whole;
                let text = "the response is not kept any more";
                return self.fail(now, incoming, Code::REQUEST_ENTITY_INCOMPLETE, text);
            }
        }
        self.out.push_back(Queued::Request(incoming));
    }

    /// Whether a request carries the last of several blocks of its body. A body that is whole is not
    /// kept here, so that such a message cannot be processed again, whatever its method: a copy of it
    /// would miss the blocks before it.
    fn ends_body(&self, request: &MessageView<'_>) -> bool {
        request.code().has_payload()
            && matches!(
                self.block_option(request, OptionNumber::BLOCK1),
                Ok(Some(block)) if block.number > 0 && !block.more
            )
    }

    /// Whether such a message may be remembered, with its answer, among those that must not run twice:
    /// up to half of their table, so that these find room. Beyond that it has the ring, which
    /// keeps no long answers and forgets the oldest.
    fn has_room_for_end(&mut self, now: Instant, from: SocketAddr) -> bool {
        self.dedup.expire(now);
        let limit = self.config.limits.lasting / 2;
        let of_source = self.dedup.lasting_of(self.sharing.source(from));
        self.dedup.lasting() < limit && of_source < self.sharing.most(limit)
    }

    /// Gives a request a place and an identity.
    fn accept(
        &mut self,
        now: Instant,
        from: SocketAddr,
        request: &MessageView<'_>,
        remembered: Option<Remembered>,
        wanted: Wanted,
    ) -> IncomingId {
        let serial = self.next_serial();
        let token = self.token_key(request.token());
        let connection = self.connections.serial(from);
        let table = &mut self.incoming;
        let slot = Slot {
            serial,
            live: true,
            from,
            id: request.message_id(),
            token,
            acknowledgement: if let Some(connection) = connection {
                Acknowledgement::Connected(connection)
            } else if request.kind() == Type::Confirmable {
                Acknowledgement::Due
            } else {
                Acknowledgement::None
            },
            remembered,
            bytes: Vec::new(),
            body: None,
            block1: None,
            part: None,
            wanted,
            accept: None,
            count: None,
            unwanted: NoResponse::NONE,
            received: request.as_bytes().len() as u32,
            fresh: false,
            challenged: false,
            observe: None,
            observing: false,
            to_group: false,
        };
        let index = if let Some(index) = table.free.pop() {
            let place = &mut table.slots[index as usize];
            let mut bytes = core::mem::take(&mut place.bytes);
            bytes.clear();
            if bytes.capacity() > SPARE_BYTES {
                bytes = Vec::new();
            }
            *place = Slot { bytes, ..slot };
            index
        } else {
            table.slots.push(slot);
            table.slots.len() as u32 - 1
        };
        table.slots[index as usize]
            .bytes
            .extend_from_slice(request.as_bytes());
        table.added(from, request.as_bytes().len());
        let id = IncomingId { index, serial };
        if request.kind() == Type::Confirmable {
            table.skip_answered();
            table
                .unacknowledged
                .push_back((now + self.config.empty_ack_delay, id));
        }
        id
    }
}
