//! Admission control: sheds load before allocating, enforces per-source quotas, and reserves the
//! last slots for validated addresses.
//!
//! The checks come first, in this order: the source's rate limit (4.29, RFC 8516), the table limits
//! (5.03), the source's quota (5.03), and, above a watermark, address validation (4.01 with Echo,
//! RFC 9175). None of them allocates or keeps state of a rejected source.
//!
//! The anti-amplification limit: unvalidated addresses are challenged with an Echo option (RFC 9175
//! 2), and sent at most three times the bytes of their datagram (RFC 7252 11.3).
//!
//! The budget is per datagram, not per source. The empty ACK, the response and its retransmissions
//! together stay within three times the datagram. The limit therefore holds for the sum over all
//! datagrams of a source, without state of unvalidated sources.
//!
//! A response beyond the budget becomes:
//! - for a safe request, a challenge: 4.01 with an Echo value;
//! - for an unsafe one, its beginning in a smaller block, or its code alone: the request was executed,
//!   and an error would have it executed again;
//! - for an error, its code without the diagnostic payload;
//! - for a multicast request, its beginning in a smaller block, whose rest the client fetches by
//!   unicast (RFC 7959 2.8), or nothing. The limit then applies to private addresses, too.

use core::net::SocketAddr;

use carob_cc::time::Duration;

use crate::admission::AMPLIFICATION_FACTOR;
use crate::block::RequestedBlock;
use crate::capacity::Capacity;
use crate::carrier::Carrier;
use crate::codec::{
    BlockSize, BlockValue, Code, EncodeError, MessageId, MessageView, NoResponse, OptionNumber,
    TokenView, Type, Writer,
};
use crate::context::Context;
use crate::counters::Refusal;
use crate::dedup::Idempotency;
use crate::echo::ECHO_BYTES;
use crate::event::IncomingId;
use crate::message::{Payload, Response};
use crate::server::Server;
use crate::server::inbound::InboundRequest;
use crate::tables::rate_limit::Admission;
use crate::writing::{append_count, set_header, write_response};

/// The application's handlers, which run longer than a call: for requests, for parts of bodies
/// and of observed resources.
#[derive(Clone, Copy, Debug)]
pub struct HandlerUsage {
    /// Handlers that run now.
    pub running: usize,
    /// Those among them for requests of the same source.
    pub of_source: usize,
    /// Handlers that may run at once.
    pub limit: usize,
}

/// The content of a rejection besides its code.
#[derive(Clone, Copy)]
pub(crate) enum RefusalBody<'a> {
    /// A diagnostic payload.
    Text(&'a str),
    /// Max-Age: the seconds until a retry.
    RetryAfter(u32),
    /// An Echo value.
    Echo([u8; ECHO_BYTES]),
    /// The sizes of a block and of a body, which the request exceeded.
    InBlocks(BlockSize, u32),
}

impl Server {
    /// Returns whether a request is admitted; otherwise it is answered.
    pub(crate) fn admits(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        request: &InboundRequest<'_, '_>,
    ) -> bool {
        let InboundRequest { from, message, .. } = *request;
        let limits = &cx.config.limits;
        let lasts = request.idempotency == Idempotency::NonIdempotent && !cx.is_stream();
        let bytes = self.incoming.bytes() + message.as_bytes().len();
        // The common case, without a lookup of the source.
        if !lasts && self.incoming.is_below_quota_range() && bytes <= limits.incoming_bytes {
            return true;
        }
        let (held, quota_policy) = (self.incoming.len(), cx.quota_policy);
        if lasts {
            carrier.dedup.expire(cx.now);
        }
        let (non_idempotent, limit) = (carrier.dedup.non_idempotent(), limits.dedup_non_idempotent);
        let full = held >= limits.incoming
            || bytes > limits.incoming_bytes
            || (lasts && non_idempotent >= limit);
        let taken = || {
            let source = quota_policy.source(from);
            lasts && carrier.dedup.non_idempotent_of(source) >= quota_policy.quota(limit)
        };
        if full || taken() || self.incoming.is_at_quota(from) {
            overloaded(cx, carrier, from, message);
            return false;
        }
        let above_watermark = quota_policy.is_above_watermark(held, limits.incoming)
            || (lasts && quota_policy.is_above_watermark(non_idempotent, limit));
        !above_watermark || admits_validated(cx, carrier, request, lasts)
    }

    /// Returns whether another handler may run, for this request; otherwise it is answered: 5.03 at the
    /// limit or at its source's quota, a challenge to an unvalidated address above the watermark.
    pub(crate) fn admits_handler(
        &mut self,
        cx: &mut Context,
        carrier: &mut Carrier,
        id: IncomingId,
        handlers: HandlerUsage,
    ) -> bool {
        let Some(slot) = self.incoming.find(id) else {
            return false;
        };
        let (from, quota_policy) = (slot.from, cx.quota_policy);
        let HandlerUsage {
            running,
            of_source,
            limit,
        } = handlers;
        if running >= limit || of_source >= quota_policy.quota(limit) {
            let text = "the limit of concurrent requests was reached";
            let busy = Response::new(Code::SERVICE_UNAVAILABLE).with_payload(text);
            let busy = busy.with_max_age(self.retry_time(cx, id).into());
            self.respond(cx, carrier, id, &busy);
            return false;
        }
        let validated = !quota_policy.is_above_watermark(running, limit)
            || carrier.admission.is_validated(cx, from);
        if !validated {
            self.challenge(cx, carrier, id);
        }
        validated
    }

    /// The time after which this request may be retried after a 5.03; randomized.
    pub(crate) fn retry_time(&self, cx: &Context, id: IncomingId) -> Duration {
        let slot = self.incoming.find(id);
        let seconds = slot.map_or(0, |slot| retry_after(cx, slot.from, slot.id));
        Duration::from_secs(u64::from(seconds))
    }
}

/// Rejects a request at a limit: 5.03 to a CON, nothing to a NON.
pub(crate) fn overloaded(
    cx: &mut Context,
    carrier: &mut Carrier,
    from: SocketAddr,
    request: &MessageView<'_>,
) {
    cx.counters.refused(Refusal::Overload);
    if cx.is_confirmable(request) {
        let later = RefusalBody::RetryAfter(retry_after(cx, from, request.message_id()));
        refuse(cx, carrier, from, request, Code::SERVICE_UNAVAILABLE, later);
    } else {
        cx.counters.requests.add(request.code(), None);
    }
}

/// Seconds until a retry; randomized by request.
fn retry_after(cx: &Context, from: SocketAddr, id: MessageId) -> u32 {
    let least = u32::try_from(cx.config.limits.retry_after).unwrap_or(u32::MAX);
    // Message IDs and ports differ between clients that are rejected together, and no
    // randomness is drawn for a flood.
    let spread = u64::from(id.0) + u64::from(from.port());
    least.saturating_add((spread % (u64::from(least) + 1)) as u32)
}

/// Rejects a request above its source's rate limit, if its budget of 4.29 replies permits.
pub(crate) fn slow_down(
    cx: &mut Context,
    carrier: &mut Carrier,
    from: SocketAddr,
    request: &MessageView<'_>,
    pace: Admission,
) {
    cx.counters.refused(Refusal::Rate);
    let wait = match pace {
        Admission::Reject(wait) => Some(wait),
        // Over a connection every request is answered (RFC 8323 3.3).
        _ if cx.is_stream() => Some(Duration::from_secs(1)),
        _ => None,
    };
    let Some(wait) = wait else {
        return cx.counters.requests.add(request.code(), None);
    };
    if cx.is_confirmable(request) {
        // Rounded up: a client that comes a fraction of a second early is rejected again.
        let seconds = wait.as_micros().div_ceil(1_000_000).max(1);
        let later = RefusalBody::RetryAfter(u32::try_from(seconds).unwrap_or(u32::MAX));
        refuse(cx, carrier, from, request, Code::TOO_MANY_REQUESTS, later);
    } else {
        cx.counters.requests.add(request.code(), None);
    }
}

/// Rejects a request without keeping state. The reply to a NON is a NON with the same Message ID,
/// which is unique as long as the sender's are.
pub(crate) fn refuse(
    cx: &mut Context,
    carrier: &mut Carrier,
    from: SocketAddr,
    request: &MessageView<'_>,
    code: Code,
    why: RefusalBody<'_>,
) {
    let (token, id) = (request.token(), request.message_id());
    let kind = if cx.is_confirmable(request) {
        Type::Acknowledgement
    } else {
        Type::NonConfirmable
    };
    let unwanted = request.uint_option(OptionNumber::NO_RESPONSE);
    if unwanted.is_some_and(|value| NoResponse::from_value(value).suppresses(code)) {
        cx.counters.requests.add(request.code(), None);
        // The response is not wanted, but without an ACK a CON is retransmitted (RFC 7252 4.2).
        if !cx.is_stream() && kind == Type::Acknowledgement {
            carrier.send_empty(cx, from, Type::Acknowledgement, id);
        }
        return;
    }
    cx.counters.requests.add(request.code(), Some(code));
    if cx.exceeds_tokens(request) {
        return carrier.refuse_token(cx, from, request, (kind, code));
    }
    let count = cx.count_to_echo(request);
    let mut scratch = core::mem::take(&mut cx.scratch);
    if let Ok(mut length) = write_refusal(&mut scratch, token, code, why) {
        set_header(&mut scratch, kind, id);
        length = append_count(&mut scratch, length, count);
        let fits = length <= AMPLIFICATION_FACTOR * request.as_bytes().len();
        if !fits
            && carrier.admission.is_limited(cx, from)
            && let Ok(plain) = write_refusal(&mut scratch, token, code, RefusalBody::Text(""))
        {
            // Only the code is left: a rejection must not amplify either.
            cx.counters.refused(Refusal::Amplification);
            set_header(&mut scratch, kind, id);
            length = plain;
        }
        carrier.transmit(cx, from, &scratch[..length]);
    }
    cx.scratch = scratch;
}

fn write_refusal(
    buffer: &mut [u8],
    token: TokenView<'_>,
    code: Code,
    why: RefusalBody<'_>,
) -> Result<usize, EncodeError> {
    // Type and Message ID are placeholders: `set_header` replaces them.
    let mut writer = Writer::new(buffer, Type::Acknowledgement, code, MessageId(0), &token)?;
    match why {
        RefusalBody::Text("") => {}
        RefusalBody::Text(text) => writer.payload(text.as_bytes())?,
        RefusalBody::RetryAfter(seconds) => writer.uint_option(OptionNumber::MAX_AGE, seconds)?,
        RefusalBody::Echo(value) => writer.option(OptionNumber::ECHO, &value)?,
        RefusalBody::InBlocks(szx, size) => {
            let block = BlockValue {
                number: 0,
                more: false,
                szx,
            };
            writer.uint_option(OptionNumber::BLOCK1, block.to_uint())?;
            writer.uint_option(OptionNumber::SIZE1, size)?;
            writer.payload(b"the datagram is too long; send the body in blocks")?;
        }
    }
    Ok(writer.finish())
}

/// Returns whether a request is admitted above the watermark, where slots are reserved for
/// validated addresses; otherwise it is rejected or challenged. `lasts`: it would be stored among
/// the non-idempotent ones.
fn admits_validated(
    cx: &mut Context,
    carrier: &mut Carrier,
    request: &InboundRequest<'_, '_>,
    lasts: bool,
) -> bool {
    let InboundRequest { from, message, .. } = *request;
    let rest = lasts && request.options.is_block2_continuation();
    let replay = lasts && !rest && carrier.admission.may_replay_challenged(cx, from);
    let presents_echo = |carrier: &mut Carrier| {
        let value = request.options.echo;
        value.is_some_and(|value| carrier.admission.take_echo(cx, from, value))
    };
    if (carrier.admission.is_validated(cx, from) && !replay) || presents_echo(carrier) {
        return true;
    }
    if rest {
        overloaded(cx, carrier, from, message);
        return false;
    }
    // A challenge here leaves no state of the request.
    let idempotent = request.idempotency == Idempotency::Idempotent;
    let value = (carrier.admission).challenge_statelessly(cx, from, idempotent);
    let body = RefusalBody::Echo(value);
    refuse(cx, carrier, from, message, Code::UNAUTHORIZED, body);
    false
}

/// The content of a response to write.
pub(crate) struct Draft<'a> {
    pub(crate) capacity: &'a Capacity,
    pub(crate) token: &'a [u8],
    pub(crate) method: Code,
    pub(crate) response: &'a Response,
    pub(crate) wanted: RequestedBlock,
    pub(crate) block1: Option<BlockValue>,
    pub(crate) to_group: bool,
}

impl Server {
    /// Challenges a request: responds 4.01 with an Echo value. Its client repeats it with the value
    /// (RFC 9175 2.3), and it is then [fresh](super::Incoming::fresh).
    ///
    /// Meant for requests that must not be executed late or more than once. An attacker may delay
    /// or replay a datagram, but its value is valid for [`Config::echo_lifetime`] only.
    ///
    /// [`Config::echo_lifetime`]: crate::endpoint::Config::echo_lifetime
    pub(crate) fn challenge(&mut self, cx: &mut Context, carrier: &mut Carrier, id: IncomingId) {
        let Some(from) = self.incoming.find(id).map(|slot| slot.from) else {
            return;
        };
        let challenge = carrier.admission.challenge_of(cx, from);
        self.respond(cx, carrier, id, &challenge);
    }
}

impl Draft<'_> {
    /// Writes a replacement within the budget of a response that exceeds it. Returns its length, 0
    /// if a group member sends nothing, and whether the rest of the body should be cached.
    pub(crate) fn write_within(
        &self,
        cx: &mut Context,
        carrier: &mut Carrier,
        to: SocketAddr,
        scratch: &mut [u8],
        budget: usize,
    ) -> (usize, bool) {
        let &Self {
            capacity,
            token,
            method,
            response,
            wanted,
            block1,
            to_group,
        } = self;
        let mut write = |response: &Response, wanted, block1| {
            let written = write_response(scratch, capacity, token, response, wanted, block1, None);
            written
                .ok()
                .filter(|(length, _): &(usize, bool)| *length <= budget)
        };
        let succeeded = response.code.is_success();
        if succeeded && method.is_safe() && !to_group {
            let challenge = carrier.admission.challenge_of(cx, to);
            if let Some(written) = write(&challenge, wanted, None) {
                return written;
            }
        } else if succeeded && !matches!(response.payload, Payload::Part { .. }) {
            // The largest that fits: SZX counts down from the wanted size, below the value that
            // means BERT.
            let sizes = (0..=wanted.size.szx().min(BlockSize::MAX.szx())).rev();
            for size in sizes.filter_map(BlockSize::from_szx) {
                let smaller = RequestedBlock::block(wanted.offset, size);
                if let Some(written) = write(response, smaller, block1) {
                    return written;
                }
            }
        }
        // Nothing rather than a code alone, which every member would send (RFC 7252 8.2).
        if succeeded && to_group {
            return (0, false);
        }
        let code = if succeeded && method.is_safe() {
            Code::UNAUTHORIZED
        } else {
            response.code
        };
        let plain = Response::new(code);
        let (length, _) = write(&plain, wanted, block1)
            .or_else(|| write(&plain, wanted, None))
            .unwrap_or_default();
        (length, false)
    }
}
