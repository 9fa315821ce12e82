//! Responses: limited to the requested block, piggybacked while the ACK is due, otherwise separate
//! (RFC 7252 5.2, RFC 7959 2.4).

use core::net::SocketAddr;

use crate::admission::AMPLIFICATION_FACTOR;
use crate::block::Key;
use crate::capacity::Capacity;
use crate::carrier::{Carrier, empty};
use crate::codec::HEADER_LENGTH;
use crate::codec::SMALL_OPTION_BYTES;
use crate::codec::token_room;
use crate::codec::{Code, MessageId, NoResponse, OptionNumber, TokenKey, Type};
use crate::context::Context;
use crate::counters::Refusal;
use crate::dedup::Remembered;
use crate::event::Disconnect;
use crate::event::IncomingId;
use crate::message::Response;
use crate::message_layer::UNLIMITED;
use crate::observe::observers::ObserverIndex;
use crate::retransmission_count::Count;
use crate::server::Server;
use crate::server::admission::Draft;
use crate::server::inbound::is_useful;
use crate::server::request_table::{Acknowledgement, RegistrationState, ResponseTerms, Slot};
use crate::writing::{append_count, set_header, write_response};

/// The facts of a request that its response depends on.
#[derive(Clone, Copy)]
pub(crate) struct Reply<'t> {
    pub(crate) id: IncomingId,
    pub(crate) serial: u32,
    pub(crate) from: SocketAddr,
    pub(crate) message_id: MessageId,
    pub(crate) key: TokenKey,
    pub(crate) token: &'t [u8],
    pub(crate) method: Code,
    pub(crate) acknowledgement: Acknowledgement,
    pub(crate) remembered: Option<Remembered>,
    /// The retransmission count to echo.
    pub(crate) count: Option<(OptionNumber, Count)>,
    pub(crate) terms: ResponseTerms,
    pub(crate) received: usize,
    pub(crate) registration: RegistrationState,
    /// The connection of the request is open; over datagrams, always.
    pub(crate) connected: bool,
}

impl<'t> Reply<'t> {
    #[inline]
    fn new(cx: &Context, id: IncomingId, slot: &Slot, token: &'t [u8], connected: bool) -> Self {
        Self {
            id,
            serial: slot.serial,
            from: slot.from,
            message_id: slot.id,
            key: slot.token,
            token,
            method: slot.method(),
            acknowledgement: slot.acknowledgement,
            remembered: slot.remembered,
            count: cx.count_option.zip(slot.terms.count),
            terms: slot.terms,
            received: slot.stored.received as usize,
            registration: slot.registration,
            connected,
        }
    }

    /// Returns whether the application has registered the sender as an observer.
    #[inline]
    pub(crate) fn is_observing(&self) -> bool {
        self.registration == RegistrationState::Observing
    }

    /// Returns whether the response's format is another than the one accepted (RFC 7252 5.10.4).
    #[inline]
    fn refuses_format(&self, response: &Response) -> bool {
        let format = || response.options.uint(OptionNumber::CONTENT_FORMAT);
        self.terms.accept.is_some_and(|accept| {
            response.code == Code::CONTENT && format().is_some_and(|format| format != accept)
        })
    }

    /// Returns whether nothing is sent: the response is not wanted (RFC 7967), or not useful to a
    /// group.
    #[inline]
    fn is_silent(&self, response: &Response) -> bool {
        // An observer expects its first state, and a client with more blocks their acknowledgement.
        let expected = self.is_observing() || response.code == Code::CONTINUE;
        let unwanted = self.terms.no_response.unwrap_or(NoResponse::NONE);
        let suppressed = unwanted.suppresses(response.code) && !expected;
        suppressed
            || (self.terms.to_group && !is_useful(response) && self.terms.no_response.is_none())
    }
}

/// A response written into the scratch buffer.
pub(crate) struct Written {
    length: usize,
    /// The rest of its body is cached.
    keep: bool,
    /// It is the application's response, not an error in its place.
    built: bool,
    /// The budget of its transmissions in bytes.
    budget: Option<usize>,
    count: Option<(OptionNumber, Count)>,
}

impl Written {
    /// A response of this length and a budget that holds it.
    pub(crate) const fn whole(length: usize, budget: Option<usize>) -> Self {
        Self {
            length,
            keep: false,
            built: true,
            budget,
            count: None,
        }
    }
}

impl Server {
    pub(crate) fn fail(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        incoming: IncomingId,
        code: Code,
        text: &str,
    ) {
        self.respond(cx, carrier, incoming, &Response::diagnostic(code, text));
    }

    /// Responds to a request. An unknown or answered request is ignored.
    pub(crate) fn respond(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        id: IncomingId,
        response: &Response,
    ) {
        let Some(slot) = self.incoming.find(id) else {
            return;
        };
        let connected = slot.is_connected(carrier);
        // Kept before it is sent: a repeated block may come while it waits in the queue.
        if slot.terms.q_block1 {
            let key = Key::of(slot.from, &slot.message());
            self.reassembler
                .results_mut()
                .keep_result(cx.now, &key, response);
        }
        let key = slot.token;
        if let Some(token) = key.token() {
            let reply = Reply::new(cx, id, slot, token.as_slice(), connected);
            return self.respond_to(cx, carrier, &reply, response);
        }
        let mut token = cx.buffer();
        token.extend_from_slice(slot.message().token().as_slice());
        let reply = Reply::new(cx, id, slot, &token, connected);
        self.respond_to(cx, carrier, &reply, response);
        cx.spare_buffer(token);
    }

    #[inline]
    fn respond_to(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        reply: &Reply<'_>,
        response: &Response,
    ) {
        // The application may ignore Accept, which is critical (RFC 7252 5.10.4).
        let not_acceptable = Response::new(Code::NOT_ACCEPTABLE);
        let response = if reply.refuses_format(response) {
            &not_acceptable
        } else {
            response
        };
        let challenged =
            reply.registration == RegistrationState::Challenged && response.code.is_success();
        let challenge = challenged.then(|| carrier.admission.challenge_of(cx, reply.from));
        let response = challenge.as_ref().unwrap_or(response);
        if reply.is_silent(response) {
            return self.suppress(cx, carrier, reply);
        }
        let tagged = carrier.tagged(response, reply.terms.wanted);
        let response = tagged.as_ref().unwrap_or(response);
        if let Some(first) = reply.terms.q_block2
            && self.respond_q_block2(cx, carrier, reply, (response, first))
        {
            return;
        }
        let registration = (reply.is_observing() && reply.connected)
            .then(|| carrier.answer_registration(cx, reply.from, &reply.key, response))
            .flatten();

        let mut scratch = core::mem::take(&mut cx.scratch);
        let number = registration.map(|(_, number)| number);
        let written = write_reply(cx, carrier, reply, response, number, &mut scratch);
        let Some(written) = written else {
            cx.scratch = scratch;
            return self.give_up_response(cx, carrier, reply);
        };
        if written.length == 0 {
            cx.scratch = scratch;
            return self.suppress(cx, carrier, reply);
        }
        debug_assert!(written.length >= HEADER_LENGTH && written.length <= scratch.len());
        debug_assert!(written.budget.is_none_or(|budget| written.length <= budget));
        if written.keep {
            self.keep_rest(cx, carrier, reply, response);
        }
        self.drop_incoming(reply.id);
        // The code that was written: an error may have replaced the response.
        let code = Code(scratch[1]);
        cx.counters.requests.add(reply.method, Some(code));
        self.send_reply(cx, carrier, reply, &written, scratch);
        let observer = registration.map(|(observer, _)| observer);
        finish_registration(cx, carrier, observer, response, &written);
    }

    /// Sends a response: over the connection of its request, with the ACK, or separately.
    #[inline]
    pub(crate) fn send_reply(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        reply: &Reply<'_>,
        written: &Written,
        mut scratch: alloc::vec::Vec<u8>,
    ) {
        let (from, length) = (reply.from, written.length);
        debug_assert!(self.incoming.find(reply.id).is_none(), "it is answered now");
        match reply.acknowledgement {
            Acknowledgement::Connected(_) => {
                set_header(&mut scratch, Type::NonConfirmable, reply.message_id);
                let length = append_count(&mut scratch, length, written.count);
                // A response is sent on the connection of its request or not at all (RFC 8323 3.3).
                if reply.connected {
                    carrier.transmit(cx, from, &scratch[..length]);
                }
                cx.scratch = scratch;
                if reply.connected {
                    carrier.request_answered(cx, from, reply.serial);
                }
            }
            Acknowledgement::Due => {
                set_header(&mut scratch, Type::Acknowledgement, reply.message_id);
                if let Some(at) = reply.remembered {
                    // Without the count, which the reply to a duplicate takes from the duplicate.
                    carrier.dedup.answer(at, &scratch[..length]);
                }
                let length = append_count(&mut scratch, length, written.count);
                carrier.transmit(cx, from, &scratch[..length]);
                cx.scratch = scratch;
            }
            Acknowledgement::None | Acknowledgement::Sent => {
                let confirmable = reply.acknowledgement == Acknowledgement::Sent;
                if let Some(at) = reply.remembered {
                    let empty = empty(Type::Acknowledgement, reply.message_id);
                    // A duplicate CON gets the ACK of the first; the response has its own
                    // retransmissions (RFC 7252 4.5).
                    let answer: &[u8] = if confirmable { &empty } else { &[] };
                    carrier.dedup.answer(at, answer);
                }
                let mut bytes = cx.buffer();
                bytes.extend_from_slice(&scratch[..length]);
                // Queued messages may be rewritten there.
                cx.scratch = scratch;
                let budget = written.budget.unwrap_or(UNLIMITED);
                if !reply.terms.to_group {
                    let of = Some(reply.message_id);
                    let how = (confirmable, budget);
                    carrier.send_separately(cx, from, (reply.key, of), how, bytes);
                } else if written.built {
                    // Not an error in its place, which would be of no use to the group.
                    self.answer_group_later(cx, from, reply.key, budget, bytes);
                }
            }
        }
    }

    /// Gives up a request that no response fits: the limit of its peer has become too small for the
    /// request's token, which happens only over a connection.
    fn give_up_response(&mut self, cx: &mut Context, carrier: &mut Carrier, reply: &Reply<'_>) {
        self.drop_incoming(reply.id);
        let text = "no response with this token fits the message size";
        carrier.abort(cx, reply.from, Disconnect::BadMessage, None, text);
    }

    /// Ends a request that gets no response.
    pub(crate) fn respond_nothing(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        id: IncomingId,
    ) {
        let Some(slot) = self.incoming.find(id) else {
            return;
        };
        let connected = slot.is_connected(carrier);
        let reply = Reply::new(cx, id, slot, &[], connected);
        self.suppress(cx, carrier, &reply);
    }

    /// Suppresses a response (RFC 7967): sends only an empty ACK, if it is still due.
    fn suppress(&mut self, cx: &mut Context, carrier: &mut Carrier, reply: &Reply<'_>) {
        cx.counters.requests.add(reply.method, None);
        self.drop_incoming(reply.id);
        if matches!(reply.acknowledgement, Acknowledgement::Connected(_)) {
            if reply.connected {
                carrier.request_answered(cx, reply.from, reply.serial);
            }
            return;
        }
        let empty = empty(Type::Acknowledgement, reply.message_id);
        let confirmable = reply.acknowledgement != Acknowledgement::None;
        if let Some(at) = reply.remembered {
            let answer: &[u8] = if confirmable { &empty } else { &[] };
            carrier.dedup.answer(at, answer);
        }
        if reply.acknowledgement == Acknowledgement::Due {
            carrier.transmit(cx, reply.from, &empty);
        }
    }

    /// Removes an answered request.
    pub(crate) fn drop_incoming(&mut self, id: IncomingId) {
        let (from, body) = self.incoming.remove(id);
        self.reassembler.done_with(from, body);
    }

    /// Sends the empty ACKs that are due.
    pub(crate) fn acknowledge_overdue(&mut self, cx: &mut Context, carrier: &mut Carrier) {
        loop {
            self.incoming.skip_answered();
            let Some(&(at, id)) = self.incoming.unacknowledged.front() else {
                return;
            };
            // In order of their deadlines, since all have the same delay.
            if at > cx.now {
                return;
            }
            self.incoming.unacknowledged.pop_front();
            let slot = &mut self.incoming.slots[id.index as usize];
            debug_assert!(slot.live && slot.acknowledgement == Acknowledgement::Due);
            slot.acknowledgement = Acknowledgement::Sent;
            let (from, message_id, remembered) = (slot.from, slot.id, slot.remembered);
            if let Some(remembered) = remembered {
                carrier.dedup.acknowledge(remembered);
            }
            carrier.send_empty(cx, from, Type::Acknowledgement, message_id);
        }
    }
}

/// Applies the anti-amplification limit of the receiver to a written response, which is rewritten
/// if it exceeds the limit.
#[inline]
fn limit_amplification(
    cx: &mut Context,
    carrier: &mut Carrier,
    reply: &Reply<'_>,
    (response, capacity): (&Response, &Capacity),
    scratch: &mut [u8],
    (mut written, observing): (Written, bool),
) -> Written {
    // A short response is within any budget; one that may be retransmitted is not.
    let separate = matches!(
        reply.acknowledgement,
        Acknowledgement::None | Acknowledgement::Sent
    );
    // With the count option, which is appended later.
    let long = written.length + SMALL_OPTION_BYTES > AMPLIFICATION_FACTOR * reply.received;
    if observing || !(separate || long) {
        return written;
    }
    let acknowledged = reply.acknowledgement == Acknowledgement::Sent;
    let how = (acknowledged, reply.terms.to_group);
    let budget = carrier
        .admission
        .budget(cx, reply.from, reply.received, how);
    let Some(budget) = budget else {
        return written;
    };
    debug_assert!(
        budget <= AMPLIFICATION_FACTOR * reply.received,
        "{budget} bytes"
    );
    written.budget = Some(budget);
    written.count = written
        .count
        .filter(|_| written.length + SMALL_OPTION_BYTES <= budget);
    if written.length > budget {
        cx.counters.refused(Refusal::Amplification);
        let draft = Draft {
            capacity,
            token: reply.token,
            method: reply.method,
            response,
            wanted: reply.terms.wanted,
            block1: reply.terms.block1,
            to_group: reply.terms.to_group,
        };
        let to = reply.from;
        (written.length, written.keep) = draft.write_within(cx, carrier, to, scratch, budget);
    }
    written
}

/// Completes a registration after its response; one answered with an error ends.
#[inline]
fn finish_registration(
    cx: &mut Context,
    carrier: &mut Carrier,
    observer: Option<ObserverIndex>,
    response: &Response,
    written: &Written,
) {
    match observer {
        Some(observer) if written.built => {
            carrier.registration_answered(cx, observer, response, written.length);
        }
        Some(observer) => carrier.remove_observer(cx, observer),
        None => {}
    }
}

/// Writes a response within its receiver's budget. `None` if no response with this token is short
/// enough; a length of 0 if nothing is to be sent.
#[inline]
fn write_reply(
    cx: &mut Context,
    carrier: &mut Carrier,
    reply: &Reply<'_>,
    response: &Response,
    observe: Option<u32>,
    scratch: &mut alloc::vec::Vec<u8>,
) -> Option<Written> {
    let Reply { token, terms, .. } = *reply;
    let ResponseTerms { wanted, block1, .. } = terms;
    let capacity = carrier.capacity(cx, reply.from);
    let carried = wanted.whole.max(wanted.span);
    let body = response.bytes().len().min(carried);
    // 64: more than header, a token of 8 bytes and the engine's options take.
    let head = 64 + token_room(token.len()) + response.options.encoded_len();
    capacity.grow(scratch, head, body);
    let written = write_response(scratch, &capacity, token, response, wanted, block1, observe);
    let built = written.is_ok();
    let written = written.or_else(|_| {
        let plain = Response::new(Code::INTERNAL_SERVER_ERROR);
        write_response(scratch, &capacity, token, &plain, wanted, None, None)
    });
    let (length, keep) = written.ok()?;
    let written = Written {
        length,
        keep,
        built,
        budget: None,
        count: reply.count,
    };
    Some(limit_amplification(
        cx,
        carrier,
        reply,
        (response, &capacity),
        scratch,
        (written, observe.is_some()),
    ))
}
