//! Requests received: checked, put together, answered once.
//!
//! The way of a request: duplicate? (before this file) - options understood? - a block of a body
//! being read or written? - to the application. The way of its response: cut to the block asked
//! for - piggybacked if the ACK is still due, else as a message of its own.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;

use bytes::Bytes;
use carob_cc::time::Instant;

use super::client::{block_size_beside, encode, write_options};
use super::exchange::{Purpose, Submission};
use super::options::{is_location, is_reserved_location};
use super::{Delivery, Endpoint, IncomingId, Owner, Queued};
use crate::blockwise::assembly::Assembled;
use crate::blockwise::bodies::Kept;
use crate::blockwise::{Key, Wanted};
use crate::codec::header::HEADER_LENGTH;
use crate::codec::{
    BlockValue, Code, EncodeError, MessageId, MessageView, OptionNumber, Token, Type, Writer,
};
use crate::dedup::{Remembered, Repeatable};
use crate::message::{Payload, Response};
use crate::observe::Observe;
use crate::trace::What;

/// A request that waits for its response.
#[derive(Debug)]
struct Slot {
    serial: u32,
    live: bool,
    from: SocketAddr,
    id: MessageId,
    token: Token,
    acknowledgement: Acknowledgement,
    remembered: Option<Remembered>,
    /// The message, kept so that the application can look at it; the buffer is reused.
    bytes: Vec<u8>,
    /// The whole body, where it came in several blocks.
    body: Option<Bytes>,
    /// The Block1 option to echo.
    block1: Option<BlockValue>,
    part: Option<Part>,
    wanted: Wanted,
    /// The Content-Format asked for.
    accept: Option<u32>,
    /// What it asks for with the Observe option.
    observe: Option<Observe>,
    /// The application has put its sender on the list of observers.
    observing: bool,
}

/// Whether a request's acknowledgement has been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Acknowledgement {
    /// None is due: the request is NON.
    None,
    /// It is due, and the response may go with it.
    Due,
    /// It was sent empty; the response comes separately.
    Sent,
}

/// Which part of a streamed request body a request carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where it begins, in bytes.
    pub offset: u64,
    /// More parts follow; answer this one with [`Code::CONTINUE`] to get them.
    pub more: bool,
}

/// Requests that wait for their responses; places and buffers are reused.
#[derive(Debug, Default)]
pub(super) struct IncomingTable {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Requests whose empty ACK is due at a time; some may be answered by then.
    unacknowledged: VecDeque<(Instant, IncomingId)>,
}

impl IncomingTable {
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn find(&self, id: IncomingId) -> Option<&Slot> {
        self.slots
            .get(id.index as usize)
            .filter(|slot| slot.live && slot.serial == id.serial)
    }

    /// Notes that a request's sender is on the list of observers.
    pub(super) fn set_observing(&mut self, id: IncomingId) {
        self.slots[id.index as usize].observing = true;
    }

    fn remove(&mut self, id: IncomingId) {
        let slot = &mut self.slots[id.index as usize];
        slot.live = false;
        slot.body = None;
        self.free.push(id.index);
    }

    /// Drops what is at the front of the line but has been answered.
    fn skip_answered(&mut self) {
        while let Some(&(_, id)) = self.unacknowledged.front() {
            let due = |slot: &Slot| slot.acknowledgement == Acknowledgement::Due;
            if self.find(id).is_some_and(due) {
                return;
            }
            self.unacknowledged.pop_front();
        }
    }

    pub(super) fn next_acknowledgement(&mut self) -> Option<Instant> {
        self.skip_answered();
        self.unacknowledged.front().map(|&(at, _)| at)
    }
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
}

/// What the options of a request lead to before anything else is looked at.
#[derive(Clone, Copy)]
enum Verdict {
    Understood {
        accept: Option<u32>,
        observe: Option<Observe>,
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

impl Endpoint {
    /// A request that [`Event::Request`](super::Event::Request) announced, until it is answered.
    pub fn incoming(&self, id: IncomingId) -> Option<Incoming<'_>> {
        let slot = self.incoming.find(id)?;
        let message = MessageView::parse(&slot.bytes).ok()?;
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
        })
    }

    /// The whole body of a request that came in several blocks, without copying it.
    pub fn incoming_body(&self, id: IncomingId) -> Option<Bytes> {
        self.incoming.find(id)?.body.clone()
    }

    fn wanted(&self, request: &MessageView<'_>) -> Result<Wanted, crate::codec::BlockError> {
        let own = self.config.block_size;
        Ok(
            match request.block_option(OptionNumber::BLOCK2).transpose()? {
                Some(block) => Wanted {
                    offset: block.offset() as u64,
                    size: block.szx.min(own),
                },
                None => Wanted {
                    offset: 0,
                    size: own,
                },
            },
        )
    }

    fn check_options(&self, request: &MessageView<'_>) -> Verdict {
        let (mut last, mut located) = (None, false);
        let (mut accept, mut observe) = (None, None);
        for option in request.options() {
            let number = option.number;
            if number.is_critical() {
                if number == OptionNumber::PROXY_URI || number == OptionNumber::PROXY_SCHEME {
                    return Verdict::Refused(Code::PROXYING_NOT_SUPPORTED, number);
                }
                let handled = handles(number, request.code());
                if !self.understands(&option, last == Some(number), handled) {
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
            located |= is_location(number);
            last = Some(number);
        }
        Verdict::Understood { accept, observe }
    }

    pub(super) fn handle_request(
        &mut self,
        now: Instant,
        from: SocketAddr,
        request: &MessageView<'_>,
    ) {
        let confirmable = request.kind() == Type::Confirmable;
        let verdict = self.check_options(request);
        if let Verdict::Refused(code, number) = verdict
            && confirmable
        {
            let text = alloc::format!("option {} is not understood", number.0);
            return self.refuse(now, from, request, &Response::diagnostic(code, &text));
        }
        if let Verdict::Refused(Code::BAD_OPTION, _) = verdict {
            // A NON with an option we must understand is rejected (RFC 7252 5.4.1).
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
        if self.incoming.len() >= self.config.limits.incoming {
            return self.overloaded(now, from, request);
        }
        let id = request.message_id();
        let Some(remembered) = self.dedup.remember(now, lifetime, from, id, repeatable) else {
            return self.overloaded(now, from, request);
        };
        let deregister = Some(Observe::Deregister);
        if matches!(verdict, Verdict::Understood { observe, .. } if observe == deregister) {
            self.deregister(now, from, &request.token());
        }
        let wanted = self.wanted(request);
        let whole = Wanted {
            offset: 0,
            size: self.config.block_size,
        };
        let incoming = self.accept(now, from, request, remembered, wanted.unwrap_or(whole));
        match verdict {
            Verdict::Understood { accept, observe } => {
                let slot = &mut self.incoming.slots[incoming.index as usize];
                (slot.accept, slot.observe) = (accept, observe);
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
        match request.block_option(OptionNumber::BLOCK1).transpose() {
            Err(error) => {
                let text = alloc::format!("Block1: {error}");
                return self.fail(now, incoming, Code::BAD_REQUEST, &text);
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
        }
        self.out.push_back(Queued::Request(incoming));
    }

    /// Gives a request a place and an identity.
    fn accept(
        &mut self,
        now: Instant,
        from: SocketAddr,
        request: &MessageView<'_>,
        remembered: Remembered,
        wanted: Wanted,
    ) -> IncomingId {
        let serial = self.next_serial();
        let table = &mut self.incoming;
        let slot = Slot {
            serial,
            live: true,
            from,
            id: request.message_id(),
            token: request.token(),
            acknowledgement: if request.kind() == Type::Confirmable {
                Acknowledgement::Due
            } else {
                Acknowledgement::None
            },
            remembered: Some(remembered),
            bytes: Vec::new(),
            body: None,
            block1: None,
            part: None,
            wanted,
            accept: None,
            observe: None,
            observing: false,
        };
        let index = if let Some(index) = table.free.pop() {
            let place = &mut table.slots[index as usize];
            let mut bytes = core::mem::take(&mut place.bytes);
            bytes.clear();
            *place = Slot { bytes, ..slot };
            index
        } else {
            table.slots.push(slot);
            table.slots.len() as u32 - 1
        };
        table.slots[index as usize]
            .bytes
            .extend_from_slice(request.as_bytes());
        let id = IncomingId { index, serial };
        if request.kind() == Type::Confirmable {
            table.skip_answered();
            table
                .unacknowledged
                .push_back((now + self.config.empty_ack_delay, id));
        }
        id
    }

    /// Takes one block of a request body.
    fn assemble(
        &mut self,
        now: Instant,
        incoming: IncomingId,
        from: SocketAddr,
        request: &MessageView<'_>,
        block: BlockValue,
    ) {
        let echo = BlockValue {
            szx: block.szx.min(self.config.block_size),
            ..block
        };
        self.incoming.slots[incoming.index as usize].block1 = Some(echo);
        let begun = self.assemblies.find(from, request);
        if block.number == 0 && !block.more && begun.is_none() {
            // A body of one block is like any other request.
            return self.out.push_back(Queued::Request(incoming));
        }
        let timers = &mut self.timers;
        let index = match begun {
            Some(index) => Some(index),
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

    fn fail(&mut self, now: Instant, incoming: IncomingId, code: Code, text: &str) {
        self.respond(now, incoming, &Response::diagnostic(code, text));
    }

    /// Answers a request that gets no place: 5.03 to a CON, nothing to a NON.
    fn overloaded(&mut self, now: Instant, from: SocketAddr, request: &MessageView<'_>) {
        if request.kind() == Type::Confirmable {
            self.refuse(
                now,
                from,
                request,
                &Response::new(Code::SERVICE_UNAVAILABLE),
            );
        }
    }

    /// Answers a CON at once and remembers nothing.
    fn refuse(
        &mut self,
        now: Instant,
        from: SocketAddr,
        request: &MessageView<'_>,
        response: &Response,
    ) {
        let (token, id) = (request.token(), request.message_id());
        let mut scratch = core::mem::take(&mut self.scratch);
        let Response {
            code,
            options,
            payload,
        } = response;
        if let Ok(length) = encode(&mut scratch, &token, *code, options, &[], payload.bytes()) {
            address(&mut scratch, Type::Acknowledgement, id);
            self.transmit(now, from, &scratch[..length]);
        }
        self.scratch = scratch;
    }

    /// Answers a request. One that is unknown, or answered already, is left alone.
    ///
    /// A body larger than the block asked for is cut. A 2.05 of another format than the one
    /// accepted becomes 4.06 (RFC 7252 5.10.4); a response that cannot be built, or has options
    /// or a part it may not have, 5.00.
    pub fn respond(&mut self, now: Instant, id: IncomingId, response: &Response) {
        let Some(slot) = self.incoming.find(id) else {
            return;
        };
        let (from, message_id, token) = (slot.from, slot.id, slot.token);
        let acknowledgement = slot.acknowledgement;
        let (remembered, block1, wanted) = (slot.remembered, slot.block1, slot.wanted);
        let format = || response.options.uint(OptionNumber::CONTENT_FORMAT);
        let refused = slot.accept.is_some_and(|accept| {
            response.code == Code::CONTENT && format().is_some_and(|format| format != accept)
        });
        let observing = slot.observing;
        let not_acceptable = Response::new(Code::NOT_ACCEPTABLE);
        let response = if refused { &not_acceptable } else { response };
        let registration = if observing {
            self.answer_registration(now, from, &token, response)
        } else {
            None
        };
        let observe = registration.map(|(_, sequence)| sequence);

        let mut scratch = core::mem::take(&mut self.scratch);
        let written = write_response(&mut scratch, &token, response, wanted, block1, observe);
        let (length, keep) = written.unwrap_or_else(|_| {
            let plain = Response::new(Code::INTERNAL_SERVER_ERROR);
            write_response(&mut scratch, &token, &plain, wanted, None, None)
                .expect("a response without options or body fits")
        });
        let Some(slot) = self.incoming.find(id) else {
            return; // it was found above
        };
        if keep
            && let Payload::Whole(body) = &response.payload
            && let Ok(request) = MessageView::parse(&slot.bytes)
        {
            let Response { code, options, .. } = response;
            let kept = Kept {
                code: *code,
                options: options.clone(),
                body: body.clone(),
            };
            self.bodies.keep(now, Key::of(from, &request), kept);
        }
        self.incoming.remove(id);
        if acknowledgement == Acknowledgement::Due {
            address(&mut scratch, Type::Acknowledgement, message_id);
            if let Some(at) = remembered {
                self.dedup.answer(at, &scratch[..length]);
            }
            self.transmit(now, from, &scratch[..length]);
            self.scratch = scratch;
        } else {
            let confirmable = acknowledgement == Acknowledgement::Sent;
            if let Some(at) = remembered {
                let empty = super::empty(Type::Acknowledgement, message_id);
                self.dedup
                    .answer(at, if confirmable { &empty } else { &[] });
            }
            let mut bytes = self.buffer();
            bytes.extend_from_slice(&scratch[..length]);
            // What waits before it may have to be written anew.
            self.scratch = scratch;
            self.send_separately(now, from, token, confirmable, bytes);
        }
        if let Some((observer, _)) = registration {
            self.tell_what_changed(now, observer);
        }
    }

    /// Sends a response as a message of its own, under the peer's controller.
    pub(super) fn send_separately(
        &mut self,
        now: Instant,
        to: SocketAddr,
        token: Token,
        confirmable: bool,
        bytes: Vec<u8>,
    ) {
        let Some(peer) = self.peer(now, to).ok().filter(|&peer| self.has_room(peer)) else {
            // No room to keep it until it is acknowledged: the client will ask again.
            return self.trace(
                now,
                to,
                What::Abandoned {
                    id: None,
                    retransmissions: 0,
                },
            );
        };
        let submission = Submission {
            purpose: Purpose::Response,
            confirmable,
            token,
            bytes,
            answer_bytes: 4,
            parameters: None,
        };
        self.submit(now, peer, submission);
    }

    /// Sends the empty ACKs that are due.
    pub(super) fn acknowledge_overdue(&mut self, now: Instant) {
        loop {
            self.incoming.skip_answered();
            let Some(&(at, id)) = self.incoming.unacknowledged.front() else {
                return;
            };
            if at > now {
                return;
            }
            self.incoming.unacknowledged.pop_front();
            let slot = &mut self.incoming.slots[id.index as usize];
            slot.acknowledgement = Acknowledgement::Sent;
            let (from, message_id, remembered) = (slot.from, slot.id, slot.remembered);
            if let Some(remembered) = remembered {
                self.dedup.acknowledge(remembered);
            }
            self.send_empty(now, from, Type::Acknowledgement, message_id);
        }
    }
}

/// Sets the type and Message ID of a message written with others.
fn address(message: &mut [u8], kind: Type, id: MessageId) {
    message[0] = message[0] & 0xcf | (kind as u8) << 4;
    message[2..4].copy_from_slice(&id.0.to_be_bytes());
}

/// Writes a response, cut to the block asked for; its length, and whether the rest of the body
/// should be kept for the requests to come.
pub(super) fn write_response(
    buffer: &mut [u8],
    token: &Token,
    response: &Response,
    wanted: Wanted,
    block1: Option<BlockValue>,
    observe: Option<u32>,
) -> Result<(usize, bool), EncodeError> {
    let Response {
        code,
        options,
        payload,
    } = response;
    let mut wanted = wanted;
    if !matches!(payload, Payload::Part { .. }) {
        wanted.size = block_size_beside(HEADER_LENGTH + options.encoded_len(), wanted.size);
    }
    let body = if code.has_payload() {
        &payload.bytes()[..]
    } else {
        &[]
    };
    let mut bytes = body;
    let (mut code, mut block2, mut size2, mut keep) = (*code, None, None, false);
    if let Payload::Part {
        offset, more, size, ..
    } = payload
        && code.has_payload()
    {
        // RFC 7959 2.3; a client could do nothing with it.
        let place = offset % wanted.size.bytes() as u64;
        let length = body.len();
        if place != 0 || length > wanted.size.bytes() || (*more && length < wanted.size.bytes()) {
            return Err(EncodeError::NotAllowed(OptionNumber::BLOCK2));
        }
        let number = offset / wanted.size.bytes() as u64;
        let block = BlockValue {
            number: number as u32,
            more: *more,
            szx: wanted.size,
        };
        block2 = Some(block);
        size2 = size.filter(|_| *offset == 0);
    } else if body.len() > wanted.size.bytes()
        || (wanted.offset > 0 && code.is_success() && code.has_payload())
    {
        // A body of one block goes without the option, even if a block size was asked for: its
        // absence means the same (RFC 7959 2.2), and libcoap 4.3.1 loses a separate response
        // that has it.
        if let Some((range, more)) = wanted.slice(body.len()) {
            let number = wanted.offset / wanted.size.bytes() as u64;
            let block = BlockValue {
                number: number as u32,
                more,
                szx: wanted.size,
            };
            block2 = Some(block);
            size2 = (wanted.offset == 0 && more).then_some(body.len() as u64);
            keep = more && wanted.offset == 0;
            bytes = &body[range];
        } else {
            // The block asked for lies beyond the end.
            code = Code::BAD_OPTION;
            bytes = b"Block2: beyond the end";
        }
    }
    let size2 = size2.and_then(|size| u32::try_from(size).ok());
    // More to come means that this is not the final answer, which 2.31 alone is not
    // (RFC 7959 2.3).
    let block1 = block1.map(|block| BlockValue {
        more: block.more && code == Code::CONTINUE,
        ..block
    });
    let extra = [
        observe.map(|sequence| (OptionNumber::OBSERVE, sequence)),
        block2.map(|block| (OptionNumber::BLOCK2, block.to_uint())),
        block1.map(|block| (OptionNumber::BLOCK1, block.to_uint())),
        size2.map(|size| (OptionNumber::SIZE2, size)),
    ];
    let mut writer = Writer::new(buffer, Type::NonConfirmable, code, MessageId(0), token)?;
    write_options(&mut writer, code, options, &extra)?;
    if !bytes.is_empty() {
        writer.payload(bytes)?;
    }
    Ok((writer.finish(), keep))
}
