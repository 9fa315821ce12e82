//! The inbound path of a request: options, admission, deduplication, the request table, blocks, the
//! application.
//!
//! Each stage may end it, with a response or silently. The message is parsed once, and its options
//! are read once.
//!
//! Multicast requests received: only useful responses are sent, each after a random delay, so that
//! the members do not all respond at once (RFC 7252 8.2).

use alloc::vec::Vec;
use core::net::SocketAddr;

use carob_cc::time::Duration;

use crate::carrier::Carrier;
use crate::codec::{BlockError, BlockValue, Code, MessageView, NoResponse, OptionNumber, TokenKey};
use crate::config::Leisure;
use crate::context::{Context, Owner, Queued};
use crate::dedup::{Idempotency, Remembered};
use crate::event::IncomingId;
use crate::message::Response;
use crate::observe::Observe;
use crate::option_rules::{is_location, is_reserved_location};
use crate::retransmission_count::Count;
use crate::server::admission::{RefusalBody, overloaded, refuse};
use crate::server::{Server, handles, is_for_proxy};
use crate::timers::TimerId;
use crate::trace::TraceEvent;

/// A block option: absent, a value, or malformed.
type Block = Result<Option<BlockValue>, BlockError>;

/// The options of a request that the engine acts on, read in one pass.
#[derive(Clone, Copy)]
pub(crate) struct RequestOptions<'m> {
    pub(crate) accept: Option<u32>,
    pub(crate) count: Option<Count>,
    pub(crate) observe: Option<Observe>,
    /// The responses that are not wanted (RFC 7967), if the request has the option.
    pub(crate) no_response: Option<NoResponse>,
    pub(crate) echo: Option<&'m [u8]>,
    pub(crate) block1: Block,
    pub(crate) block2: Block,
    /// Q-Block1, and the first Q-Block2 (RFC 9177).
    pub(crate) q_block1: Block,
    pub(crate) q_block2: Block,
    pub(crate) size1: Option<u32>,
    /// The first option that causes a rejection, and its response code.
    refused: Option<(Code, OptionNumber)>,
}

impl<'m> RequestOptions<'m> {
    const NONE: Self = Self {
        accept: None,
        count: None,
        observe: None,
        no_response: None,
        echo: None,
        block1: Ok(None),
        block2: Ok(None),
        q_block1: Ok(None),
        q_block2: Ok(None),
        size1: None,
        refused: None,
    };

    /// Reads the options up to the first that causes a rejection (RFC 7252 5.4.1).
    #[inline]
    fn read(cx: &Context, request: &MessageView<'m>) -> Self {
        let mut read = Self::NONE;
        let (mut last, mut located) = (None, false);
        let block = |value| cx.decode_block(value).map(Some);
        for option in request.options() {
            let number = option.number;
            let first = last != Some(number);
            if number.is_critical() {
                let for_proxy = is_for_proxy(number);
                if for_proxy && !cx.config.forwards {
                    read.refused = Some((Code::PROXYING_NOT_SUPPORTED, number));
                    return read;
                }
                let handled = for_proxy || handles(cx, number, request.code());
                if !cx.passes(&option, !first, handled) {
                    read.refused = Some((Code::BAD_OPTION, number));
                    return read;
                }
            } else if located && is_reserved_location(number) {
                read.refused = Some((Code::BAD_OPTION, number));
                return read;
            }
            match number {
                OptionNumber::ACCEPT => read.accept = option.uint(),
                // Only GET and FETCH observe (RFC 7641 2, RFC 8132 2.4).
                OptionNumber::OBSERVE => {
                    let observe = option.uint().and_then(Observe::from_value);
                    read.observe = observe.filter(|_| request.code().is_safe());
                }
                OptionNumber::NO_RESPONSE if option.recognized().is_some() => {
                    let value = option.uint().map(NoResponse::from_value);
                    read.no_response = value.or(read.no_response);
                }
                // Of several, the first counts (RFC 7252 5.4.5).
                OptionNumber::ECHO if first => read.echo = Some(option.value),
                OptionNumber::BLOCK1 if first => read.block1 = block(option.value),
                OptionNumber::BLOCK2 if first => read.block2 = block(option.value),
                OptionNumber::Q_BLOCK1 if first => read.q_block1 = block(option.value),
                OptionNumber::Q_BLOCK2 if first => read.q_block2 = block(option.value),
                OptionNumber::SIZE1 if first => read.size1 = option.uint(),
                _ if first && Some(number) == cx.count_option => {
                    read.count = Count::of_value(option.value);
                }
                _ => {}
            }
            located |= is_location(number);
            last = Some(number);
        }
        read
    }

    /// Returns whether this is a Block2 continuation (NUM > 0) of an already executed request. It
    /// is never challenged, because a proxy passes a challenge on, and a client that receives it
    /// repeats the request that was executed.
    pub(crate) fn is_block2_continuation(&self) -> bool {
        self.block1 == Ok(None) && matches!(self.block2, Ok(Some(block)) if block.number > 0)
    }

    /// Returns whether the request has Q-Block1 or Q-Block2.
    #[inline]
    fn has_q_block(&self) -> bool {
        self.q_block1 != Ok(None) || self.q_block2 != Ok(None)
    }

    /// Returns whether the request carries one of several blocks by Q-Block1.
    fn is_part_of_q_block1(&self) -> bool {
        matches!(self.q_block1, Ok(Some(block)) if block.more || block.number > 0)
    }

    /// Returns whether the request carries the last of several blocks of its body.
    fn ends_body(&self, method: Code) -> bool {
        let last = |block: BlockValue| block.number > 0 && !block.more;
        method.has_payload() && matches!(self.block1, Ok(Some(block)) if last(block))
    }
}

/// The tables of duplicates are full.
struct DedupFull;

/// A received request in processing.
#[derive(Clone, Copy)]
pub(crate) struct InboundRequest<'a, 'm> {
    pub(crate) from: SocketAddr,
    pub(crate) message: &'a MessageView<'m>,
    pub(crate) options: RequestOptions<'m>,
    pub(crate) to_group: bool,
    /// It gets a reply in any case; over a connection every request does.
    confirmable: bool,
    pub(crate) idempotency: Idempotency,
}

impl<'a, 'm> InboundRequest<'a, 'm> {
    #[inline]
    fn read(cx: &Context, from: SocketAddr, message: &'a MessageView<'m>, to_group: bool) -> Self {
        let options = RequestOptions::read(cx, message);
        // The result of a body by Q-Block1 is kept for its repeated blocks, so no block needs a place
        // among non-idempotent requests.
        let idempotency = if message.code().is_idempotent() || options.is_part_of_q_block1() {
            Idempotency::Idempotent
        } else {
            Idempotency::NonIdempotent
        };
        Self {
            from,
            message,
            options,
            to_group,
            confirmable: cx.is_confirmable(message),
            idempotency,
        }
    }
}

impl Server {
    /// Processes a request that is not a duplicate, sent by unicast or `to_group`.
    #[inline]
    pub(crate) fn handle_request(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        from: SocketAddr,
        message: &MessageView<'_>,
        to_group: bool,
    ) {
        if cx.exceeds_tokens(message) {
            // A multicast request is never rejected with a response (RFC 7252 8.1).
            if !to_group {
                let body = RefusalBody::Text("");
                refuse(cx, carrier, from, message, Code::BAD_REQUEST, body);
            }
            return;
        }
        debug_assert!(message.code().is_request(), "{:?}", message.code());
        let request = InboundRequest::read(cx, from, message, to_group);
        // Options first: a request that cannot be served takes no place and no memory.
        if refuses_options(cx, carrier, &request) || !self.has_place(cx, carrier, &request) {
            return;
        }
        // Before the request is handed on, so that its duplicates find it while a handler runs.
        let Ok(remembered) = remember(cx, carrier, &request) else {
            return overloaded(cx, carrier, from, message);
        };
        if request.options.observe == Some(Observe::Deregister) && request.options.refused.is_none()
        {
            // RFC 7641 4.1: Observe 1 removes the entry, and the response has no Observe.
            carrier.deregister(cx, from, &cx.token_key(message.token()));
        }
        let id = self.accept(cx, carrier, &request, remembered);
        if let Some((code, _)) = request.options.refused {
            // A proxy request is answered that there is no proxy, a NON too (RFC 7252 5.10.2).
            return self.fail(cx, carrier, id, code, "this server is no proxy");
        }
        if self.challenges_replay(cx, carrier, &request, id) {
            return;
        }
        if request.options.has_q_block() {
            return self.hand_on_q_block(cx, carrier, &request, id);
        }
        self.hand_on(cx, carrier, &request, id);
    }

    #[inline]
    fn has_place(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        request: &InboundRequest<'_, '_>,
    ) -> bool {
        if request.to_group {
            // A multicast request is never rejected with a response (RFC 7252 8.1).
            return self.incoming.len() < cx.config.limits.incoming;
        }
        self.admits(cx, carrier, request)
    }

    /// Challenges a non-idempotent request that may be a late duplicate of one challenged
    /// statelessly. Returns whether it may be.
    #[inline]
    fn challenges_replay(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        request: &InboundRequest<'_, '_>,
        id: IncomingId,
    ) -> bool {
        let options = &request.options;
        let fresh = options
            .echo
            .is_some_and(|value| carrier.admission.take_echo(cx, request.from, value));
        debug_assert!(self.incoming.find(id).is_some(), "it was just accepted");
        self.incoming.slots[id.index as usize].fresh = fresh;
        // A multicast request is never challenged.
        let lasts =
            request.idempotency == Idempotency::NonIdempotent && !request.to_group && !fresh;
        let challenges = lasts
            && carrier.admission.may_replay_challenged(cx, request.from)
            && !options.is_block2_continuation();
        if challenges {
            self.challenge(cx, carrier, id);
        }
        challenges
    }

    /// Hands a request to the reassembly of its body, to the response cache, or to the application.
    #[inline]
    pub(crate) fn hand_on(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        request: &InboundRequest<'_, '_>,
        id: IncomingId,
    ) {
        let block2 = match request.options.block2 {
            Ok(block2) => block2,
            Err(error) => {
                // Too long a value was refused above; this is SZX 7 (RFC 7959 2.2).
                let text = alloc::format!("Block2: {error}");
                return self.fail(cx, carrier, id, Code::BAD_REQUEST, &text);
            }
        };
        match request.options.block1 {
            Err(error) => {
                let text = alloc::format!("Block1: {error}");
                return self.fail(cx, carrier, id, Code::BAD_REQUEST, &text);
            }
            Ok(Some(_)) if request.to_group => {
                let text = "multicast requests cannot be block-wise";
                return self.fail(cx, carrier, id, Code::BAD_REQUEST, text);
            }
            Ok(Some(block)) => return self.assemble(cx, carrier, id, request, block),
            Ok(None) => {}
        }
        if block2.is_some_and(|block2| block2.offset() > 0)
            && self.answer_continuation(cx, carrier, request, id)
        {
            return;
        }
        cx.out.push(Queued::Request(id));
    }
}

/// Returns whether the last block of a body may be stored, with its reply, among the non-idempotent
/// messages: up to half of their table. Beyond that it is in the ring, which keeps no long replies
/// and overwrites the oldest.
fn has_room_for_end(cx: &Context, carrier: &mut Carrier, from: SocketAddr) -> bool {
    carrier.dedup.expire(cx.now);
    let limit = cx.config.limits.dedup_non_idempotent / 2;
    let source = cx.quota_policy.source(from);
    let of_source = carrier.dedup.non_idempotent_of(source);
    carrier.dedup.non_idempotent() < limit && of_source < cx.quota_policy.quota(limit)
}

/// Rejects, or ignores, a request with a forbidden option. Returns whether it has one.
#[inline]
fn refuses_options(
    cx: &mut Context,
    carrier: &mut Carrier,
    request: &InboundRequest<'_, '_>,
) -> bool {
    let Some((code, number)) = request.options.refused else {
        return false;
    };
    if request.confirmable {
        let text = alloc::format!("option {} is not recognized", number.0);
        let body = RefusalBody::Text(&text);
        refuse(cx, carrier, request.from, request.message, code, body);
        return true;
    }
    // A NON with an unrecognized critical option is rejected (RFC 7252 5.4.1).
    let rejected = code == Code::BAD_OPTION;
    if rejected {
        cx.counters.requests.add(request.message.code(), None);
    }
    rejected
}

/// Stores a datagram for duplicate detection; `None` if the tables are full.
#[inline]
fn remember(
    cx: &mut Context,
    carrier: &mut Carrier,
    request: &InboundRequest<'_, '_>,
) -> Result<Option<Remembered>, DedupFull> {
    let (from, message) = (request.from, request.message);
    if cx.is_stream() {
        carrier.request_waits(from);
        return Ok(None);
    }
    let lifetime = if request.confirmable {
        cx.lifetimes.exchange
    } else {
        cx.lifetimes.non
    };
    let id = message.message_id();
    // The last block of a complete body is not stored here, so such a message cannot be processed
    // again, whatever its method: a duplicate would miss the earlier blocks.
    let ends_body =
        request.idempotency == Idempotency::Idempotent && request.options.ends_body(message.code());
    let remember = |carrier: &mut Carrier, idempotency| {
        carrier
            .dedup
            .remember(cx.now, lifetime, from, id, idempotency)
    };
    let kept_long = if ends_body && has_room_for_end(cx, carrier, from) {
        remember(carrier, Idempotency::NonIdempotent)
    } else {
        None
    };
    kept_long
        .or_else(|| remember(carrier, request.idempotency))
        .map(Some)
        .ok_or(DedupFull)
}

/// A response waiting for its delay.
#[derive(Debug)]
pub(crate) struct DelayedGroupResponse {
    to: SocketAddr,
    token: TokenKey,
    /// The bytes that may be sent to its receiver.
    budget: usize,
    bytes: Vec<u8>,
    timer: TimerId,
}

impl Context {
    /// The Leisure period for a response of this size.
    pub(crate) fn leisure(&self, bytes: usize) -> Duration {
        match self.config.leisure {
            Leisure::Default => self.config.parameters.default_leisure,
            Leisure::Estimated { members, rate } => {
                // S * G / R of RFC 7252 8.2, with R in bytes per second.
                let all = (bytes as u64).saturating_mul(u64::from(members));
                let micros = all.saturating_mul(1_000_000) / u64::from(rate.max(1));
                Duration::from_micros(micros)
            }
        }
    }
}

impl Server {
    /// Schedules the response to a multicast request for a random time within the Leisure period.
    pub(crate) fn answer_group_later(
        &mut self,
        cx: &mut Context,
        to: SocketAddr,
        token: TokenKey,
        budget: usize,
        bytes: Vec<u8>,
    ) {
        // A member may always stay silent (RFC 7252 8.2), so that a flood costs no more than
        // the table.
        if self.delayed_responses.len() >= cx.config.limits.delayed_responses {
            let id = None;
            let retransmissions = 0;
            return cx.trace(
                to,
                TraceEvent::Abandoned {
                    id,
                    retransmissions,
                },
            );
        }
        let whole = cx.leisure(bytes.len());
        // A random fraction of the period, of 32 bits. The product may exceed 64.
        let share = u128::from(whole.as_micros()) * u128::from(cx.random.next_u32());
        let wait = Duration::from_micros((share >> 32) as u64);
        debug_assert!(wait <= whole, "after the Leisure period");
        let entry = self.delayed_responses.vacant_entry();
        let timer = cx.timers.add(Owner::DelayedResponse(entry.key() as u32));
        entry.insert(DelayedGroupResponse {
            to,
            token,
            budget,
            bytes,
            timer,
        });
        cx.timers.set(timer, cx.now + wait);
    }

    pub(crate) fn answer_group_now(&mut self, cx: &mut Context, carrier: &mut Carrier, index: u32) {
        let DelayedGroupResponse {
            to,
            token,
            budget,
            bytes,
            timer,
        } = self.delayed_responses.remove(index as usize);
        debug_assert!(bytes.len() <= budget, "{} bytes", bytes.len());
        cx.timers.remove(timer);
        // As NON, like the request (RFC 7252 5.2.3, 8.1).
        carrier.send_separately(cx, to, (token, None), (false, budget), bytes);
    }
}

/// Returns whether this response to a multicast request is useful. An error, or an empty
/// representation, would come from every member not concerned (RFC 7252 8.2).
pub(crate) fn is_useful(response: &Response) -> bool {
    let nothing = response.code == Code::CONTENT && response.bytes().is_empty();
    response.code.is_success() && !nothing
}
