//! Responses: cut to the block asked for, piggybacked while the ACK is due, else messages of their
//! own (RFC 7252 5.2, RFC 7959 2.4).

use alloc::vec::Vec;
use core::net::SocketAddr;

use carob_cc::controller::Counting;
use carob_cc::time::Instant;

use super::challenge::{AMPLIFICATION_FACTOR, Draft};
use super::table::Acknowledgement;
use crate::blockwise::bodies::Kept;
use crate::blockwise::{Key, Wanted};
use crate::codec::edit::SMALL_OPTION_BYTES;
use crate::codec::header::HEADER_LENGTH;
use crate::codec::token::token_room;
use crate::codec::{
    BlockValue, Code, EncodeError, MessageId, MessageView, OptionNumber, TokenKey, Type, Writer,
};
use crate::counters::Refusal;
use crate::endpoint::capacity::Capacity;
use crate::endpoint::client::write_options;
use crate::endpoint::count::Count;
use crate::endpoint::exchange::{Purpose, Submission, UNLIMITED};
use crate::endpoint::group::leisure::is_of_use;
use crate::endpoint::{Disconnect, Endpoint, IncomingId};
use crate::message::{Payload, Response};
use crate::trace::What;

impl Endpoint {
    pub(super) fn fail(&mut self, now: Instant, incoming: IncomingId, code: Code, text: &str) {
        self.respond(now, incoming, &Response::diagnostic(code, text));
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
        let key = slot.token;
        match key.token() {
            Some(token) => self.respond_to(now, id, response, token.as_slice()),
            None => self.respond_to_long_token(now, id, response),
        }
    }

    #[cold]
    fn respond_to_long_token(&mut self, now: Instant, id: IncomingId, response: &Response) {
        let mut token = self.buffer();
        if let Some(incoming) = self.incoming(id) {
            token.extend_from_slice(incoming.message.token().as_slice());
        }
        self.respond_to(now, id, response, &token);
        self.spare_buffer(token);
    }

    /// Answers a request that has this token.
    fn respond_to(&mut self, now: Instant, id: IncomingId, response: &Response, token: &[u8]) {
        let Some(slot) = self.incoming.find(id) else {
            return;
        };
        let (from, message_id, key) = (slot.from, slot.id, slot.token);
        let (to_group, method) = (slot.to_group, slot.method());
        let acknowledgement = slot.acknowledgement;
        let mut count = self.count_option.zip(slot.count);
        let (remembered, block1, wanted) = (slot.remembered, slot.block1, slot.wanted);
        let format = || response.options.uint(OptionNumber::CONTENT_FORMAT);
        let refused = slot.accept.is_some_and(|accept| {
            response.code == Code::CONTENT && format().is_some_and(|format| format != accept)
        });
        let (serial, received, unwanted) = (slot.serial, slot.received as usize, slot.unwanted);
        let listed = slot.observing;
        // A response goes back where its request came from or nowhere (RFC 8323 3.3).
        let connected = self.is_connected(id);
        let observing = listed && connected;
        let not_acceptable = Response::new(Code::NOT_ACCEPTABLE);
        let response = if refused { &not_acceptable } else { response };
        let challenge = self.challenge_instead(now, id, response);
        let response = challenge.as_ref().unwrap_or(response);
        // Whoever asked to observe wants to hear, and whoever sends blocks, what block is next.
        let heard = listed || response.code == Code::CONTINUE;
        let silent = unwanted.suppresses(response.code) && !heard;
        if silent || (to_group && !is_of_use(response) && !self.says_what_is_wanted(id)) {
            return self.stay_silent(now, id);
        }
        let tagged = self.tagged(response, wanted);
        let response = tagged.as_ref().unwrap_or(response);
        let registration = if observing {
            self.answer_registration(now, from, &key, response)
        } else {
            None
        };
        let observe = registration.map(|(_, sequence)| sequence);

        let capacity = self.capacity(from);
        let carried = wanted.whole.max(wanted.span);
        let body = response.bytes().len().min(carried);
        let head = 64 + token_room(token.len()) + response.options.encoded_len();
        self.grow_scratch(&capacity, head, body);
        let mut scratch = core::mem::take(&mut self.scratch);
        let written = write_response(
            &mut scratch,
            &capacity,
            token,
            response,
            wanted,
            block1,
            observe,
        );
        let built = written.is_ok();
        let written = written.or_else(|_| {
            let plain = Response::new(Code::INTERNAL_SERVER_ERROR);
            write_response(&mut scratch, &capacity, token, &plain, wanted, None, None)
        });
        let Ok((mut length, mut keep)) = written else {
            self.scratch = scratch;
            return self.leave_unanswered(now, id);
        };
        // Whose response is short need not be looked up; one that is repeated must be.
        let separate = matches!(
            acknowledgement,
            Acknowledgement::None | Acknowledgement::Sent
        );
        let acknowledged = acknowledgement == Acknowledgement::Sent;
        let long = length + SMALL_OPTION_BYTES > AMPLIFICATION_FACTOR * received;
        let budget = if (separate || long) && !observing {
            self.budget(now, from, received, (acknowledged, to_group))
        } else {
            None
        };
        if let Some(budget) = budget {
            count = count.filter(|_| length + SMALL_OPTION_BYTES <= budget);
            if length > budget {
                self.counters.refused(Refusal::Amplification);
                let draft = Draft {
                    capacity: &capacity,
                    token,
                    method,
                    response,
                    wanted,
                    block1,
                    to_group,
                };
                (length, keep) = self.write_within(now, from, &mut scratch, &draft, budget);
                if length == 0 {
                    self.scratch = scratch;
                    return self.stay_silent(now, id);
                }
            }
        }
        let Some(slot) = self.incoming.find(id) else {
            return; // it was found above
        };
        if keep
            && let Payload::Whole(body) = &response.payload
            && let Ok(request) = MessageView::parse_long(&slot.bytes)
        {
            let Response { code, options, .. } = response;
            let kept = Kept {
                code: *code,
                options: options.clone(),
                body: body.clone(),
            };
            self.bodies.keep(now, Key::of(from, &request), kept);
        }
        self.drop_incoming(id);
        self.counters.requests.add(method, Some(Code(scratch[1])));
        if matches!(acknowledgement, Acknowledgement::Connected(_)) {
            address(&mut scratch, Type::NonConfirmable, message_id);
            let length = echo(&mut scratch, length, count);
            if connected {
                self.transmit(now, from, &scratch[..length]);
            }
            self.scratch = scratch;
            if connected {
                self.request_answered(now, from, serial);
            }
        } else if acknowledgement == Acknowledgement::Due {
            address(&mut scratch, Type::Acknowledgement, message_id);
            if let Some(at) = remembered {
                self.dedup.answer(at, &scratch[..length]);
            }
            let echoing = echo(&mut scratch, length, count);
            self.transmit(now, from, &scratch[..echoing]);
            self.scratch = scratch;
        } else {
            let confirmable = acknowledgement == Acknowledgement::Sent;
            if let Some(at) = remembered {
                let empty = crate::endpoint::empty(Type::Acknowledgement, message_id);
                self.dedup
                    .answer(at, if confirmable { &empty } else { &[] });
            }
            let mut bytes = self.buffer();
            bytes.extend_from_slice(&scratch[..length]);
            // What waits before it may have to be written anew.
            self.scratch = scratch;
            let budget = budget.unwrap_or(UNLIMITED);
            if !to_group {
                let of = Some(message_id);
                self.send_separately(now, from, (key, of), (confirmable, budget), bytes);
            } else if built {
                self.answer_group_later(now, from, key, budget, bytes);
            }
        }
        match registration {
            Some((observer, _)) if built => {
                self.registration_answered(now, observer, response, length);
            }
            // Whoever was answered with an error does not observe.
            Some((observer, _)) => self.remove_observer(now, observer),
            None => {}
        }
    }

    /// Gives up a request that no response fits: its peer takes less by now than the request's token
    /// needs, which only a connection's can say.
    fn leave_unanswered(&mut self, now: Instant, id: IncomingId) {
        let from = self.incoming.slots[id.index as usize].from;
        self.drop_incoming(id);
        let text = "no response with this token is short enough";
        self.abort(now, from, Disconnect::BadMessage, None, text);
    }

    /// Answers a request with nothing but, where it is still due, an empty ACK: its response is not
    /// wanted (RFC 7967).
    fn stay_silent(&mut self, now: Instant, id: IncomingId) {
        let slot = &self.incoming.slots[id.index as usize];
        let (from, message_id, serial) = (slot.from, slot.id, slot.serial);
        let (acknowledgement, remembered) = (slot.acknowledgement, slot.remembered);
        self.counters.requests.add(slot.method(), None);
        let connected = self.is_connected(id);
        self.drop_incoming(id);
        if matches!(acknowledgement, Acknowledgement::Connected(_)) {
            if connected {
                self.request_answered(now, from, serial);
            }
            return;
        }
        let empty = crate::endpoint::empty(Type::Acknowledgement, message_id);
        let confirmable = acknowledgement != Acknowledgement::None;
        if let Some(at) = remembered {
            self.dedup
                .answer(at, if confirmable { &empty } else { &[] });
        }
        if acknowledgement == Acknowledgement::Due {
            self.transmit(now, from, &empty);
        }
    }

    /// Whether a request says itself which responses to it are wanted (RFC 7967 2).
    fn says_what_is_wanted(&self, id: IncomingId) -> bool {
        self.incoming(id).is_some_and(|incoming| {
            let option = incoming.message.uint_option(OptionNumber::NO_RESPONSE);
            option.is_some()
        })
    }

    /// The same response with an entity tag, if it is a representation in several blocks without
    /// one: a client that reads two states of it at once must not mix them (RFC 7959 2.4).
    pub(in crate::endpoint) fn tagged(
        &self,
        response: &Response,
        wanted: Wanted,
    ) -> Option<Response> {
        let Payload::Whole(body) = &response.payload else {
            return None;
        };
        let cut = !wanted.holds(body.len());
        if !cut || response.code != Code::CONTENT || response.options.contains(OptionNumber::ETAG) {
            return None;
        }
        let mut tagged = response.clone();
        let tag = self.bodies.tag(body);
        let added = tagged.options.push_uint(OptionNumber::ETAG, tag);
        added.ok().map(|()| tagged)
    }

    /// A request has been answered.
    fn drop_incoming(&mut self, id: IncomingId) {
        let (from, body) = self.incoming.remove(id);
        self.assemblies.done_with(from, body);
    }

    /// Sends a response as a message of its own, under the peer's controller: confirmable or not, its
    /// copies all together of no more bytes than its budget.
    ///
    /// Where there is no room to keep it until it is acknowledged, it goes once and is forgotten, as
    /// a NON with the Message ID `of` the request that it answers: as long as the client uses none
    /// twice, neither do we. Without one it is dropped, and the client will ask again.
    pub(in crate::endpoint) fn send_separately(
        &mut self,
        now: Instant,
        to: SocketAddr,
        (token, of): (TokenKey, Option<MessageId>),
        (confirmable, budget): (bool, usize),
        mut bytes: Vec<u8>,
    ) {
        let limit = self.config.limits.responses;
        let room = if self.sharing.is_pressed(self.responses, limit) {
            self.responses < limit && self.has_shown(now, to)
        } else {
            true
        };
        let Some(peer) = room.then(|| self.peer_that_came(now, to).ok()).flatten() else {
            if let Some(id) = of {
                address(&mut bytes, Type::NonConfirmable, id);
                self.transmit(now, to, &bytes);
                return self.spare_buffer(bytes);
            }
            return self.abandoned_unsent(now, to);
        };
        if !self.has_room(peer) {
            return self.abandoned_unsent(now, to);
        }
        let submission = Submission {
            purpose: Purpose::Response,
            confirmable,
            token,
            counting: Counting::Off,
            bytes,
            answer_bytes: 4,
            parameters: None,
            budget,
        };
        self.responses += 1;
        self.submit(now, peer, submission);
    }

    fn abandoned_unsent(&mut self, now: Instant, to: SocketAddr) {
        let (id, retransmissions) = (None, 0);
        self.trace(
            now,
            to,
            What::Abandoned {
                id,
                retransmissions,
            },
        );
    }

    /// Sends the empty ACKs that are due.
    pub(in crate::endpoint) fn acknowledge_overdue(&mut self, now: Instant) {
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
pub(super) fn address(message: &mut [u8], kind: Type, id: MessageId) {
    message[0] = message[0] & 0xcf | (kind as u8) << 4;
    message[2..4].copy_from_slice(&id.0.to_be_bytes());
}

/// Adds the count of the copy that is answered to a response; without room for it, it goes
/// without. The length of the response.
pub(super) fn echo(
    message: &mut [u8],
    length: usize,
    count: Option<(OptionNumber, Count)>,
) -> usize {
    count
        .and_then(|(number, count)| count.write(message, length, number))
        .unwrap_or(length)
}

/// Writes a response, cut to the block asked for; its length, and whether the rest of the body
/// should be kept for the requests to come.
pub(in crate::endpoint) fn write_response(
    buffer: &mut [u8],
    capacity: &Capacity,
    token: &[u8],
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
        let head = HEADER_LENGTH + token_room(token.len()) + options.encoded_len();
        wanted = capacity.limit(wanted, head);
    }
    let room = capacity.message.min(buffer.len());
    let buffer = &mut buffer[..room];
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
        let whole = *offset == 0 && !*more && length <= wanted.whole;
        let part = wanted.size.fits(length, *more) && length <= wanted.span;
        if place != 0 || !(whole || part) {
            return Err(EncodeError::NotAllowed(OptionNumber::BLOCK2));
        }
        let number = offset / wanted.size.bytes() as u64;
        let block = BlockValue {
            number: number as u32,
            more: *more,
            szx: wanted.size,
        };
        // Where messages may be long, one without the option may hold any length.
        block2 = Some(block).filter(|_| !(whole && capacity.reliable));
        size2 = size.filter(|_| *offset == 0);
    } else if body.len() > wanted.whole
        || (wanted.offset > 0 && code.is_success() && code.has_payload())
    {
        // A body of one block goes without the option, even if a block size was asked for: its
        // absence means the same (RFC 7959 2.2), and libcoap 4.3.1 loses a separate response
        // that has it.
        let mut offset = wanted.offset;
        let mut slice = wanted.slice(body.len());
        if slice.is_none() && !code.is_success() {
            // An error takes the place of the body whose block was asked for; it has its own beginning.
            offset = 0;
            slice = Wanted { offset, ..wanted }.slice(body.len());
        }
        if let Some((range, more)) = slice {
            let number = offset / wanted.size.bytes() as u64;
            let block = BlockValue {
                number: number as u32,
                more,
                szx: wanted.size,
            };
            block2 = Some(block).filter(|_| code.is_success() || more || offset > 0);
            size2 = (offset == 0 && more).then_some(body.len() as u64);
            keep = more && offset == 0;
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
