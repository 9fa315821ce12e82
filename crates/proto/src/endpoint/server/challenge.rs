//! Who has not shown that it is where it says it is: challenged with an Echo option (RFC 9175 2),
//! and sent no more than three times the bytes of its datagram until then (RFC 7252 11.3).
//!
//! The budget is of each datagram, not of a source: what one datagram leads to, its empty ACK, its
//! response and every copy of that, is no more than three times its bytes, so neither is the sum
//! over all datagrams of a source, and nothing need be kept of sources that are not validated.
//!
//! What a response beyond the budget becomes:
//! - of a request that changes nothing, a challenge: 4.01 with an Echo value;
//! - of one that may have changed something, its beginning in a smaller block, or its code alone: it
//!   was carried out, and to say that it was not would have it carried out twice;
//! - of an error, its code without what it says to people;
//! - of a request to a group, its beginning in a smaller block, of which the client fetches the rest from
//!   the member alone (RFC 7959 2.8), or nothing. Members are held to the limit on private addresses, too.

use core::net::SocketAddr;

use carob_cc::time::Instant;

use super::response::write_response;
use crate::blockwise::Wanted;
use crate::codec::{BlockSize, BlockValue, Code, OptionNumber};
use crate::counters::Refusal;
use crate::endpoint::capacity::Capacity;
use crate::endpoint::{Endpoint, IncomingId};
use crate::message::{Payload, Response};

/// What a source that is not validated may be sent, in bytes for each byte of its datagram
/// (RFC 9175 2.4).
pub const AMPLIFICATION_FACTOR: usize = 3;

/// What a response is written from.
pub(super) struct Draft<'a> {
    pub(super) capacity: &'a Capacity,
    pub(super) token: &'a [u8],
    pub(super) method: Code,
    pub(super) response: &'a Response,
    pub(super) wanted: Wanted,
    pub(super) block1: Option<BlockValue>,
    pub(super) to_group: bool,
}

impl Endpoint {
    /// Whether what this source is sent must be limited, as far as its address says, and what is
    /// known of it.
    pub(in crate::endpoint) fn is_limited(&self, now: Instant, source: SocketAddr) -> bool {
        // Who has a session has answered its cookie (RFC 6347 4.2.1).
        !self.is_reliable()
            && !self.config.secured
            && self.config.amplification_limit.holds_for(source.ip())
            && !self.validated.contains(now, source)
    }

    /// The same of one that is sent something now, in response to a request to it alone or to a group.
    fn limits(&mut self, now: Instant, source: SocketAddr, to_group: bool) -> bool {
        let limited = if to_group {
            let limit = &self.config.amplification_limit;
            !self.is_reliable() && !self.config.secured && limit.holds_for_group(source.ip())
        } else {
            self.is_limited(now, source)
        };
        limited && !self.validated.takes(now, source)
    }

    /// A source has shown that it is where it says it is: by a handshake, say.
    pub fn validate(&mut self, now: Instant, source: SocketAddr) {
        let limited = !self.is_reliable() && !self.config.secured;
        if limited && self.config.amplification_limit.holds_for(source.ip()) {
            self.note_shown(now, source);
        }
    }

    /// A source has shown where it is, whether it is held to a limit or was asked because there is too
    /// much to do.
    fn note_shown(&mut self, now: Instant, source: SocketAddr) {
        if self.is_reliable() || self.config.secured {
            return;
        }
        self.validated.add(now, source);
        if let Some(rates) = &mut self.rates {
            rates.validate(self.sharing.source(source));
        }
    }

    /// Takes the Echo option of a request; whether its value is one that this source was given
    /// lately.
    pub(super) fn take_echo(&mut self, now: Instant, source: SocketAddr, value: &[u8]) -> bool {
        let lifetime = self.config.echo_lifetime;
        let fresh = self.challenges.check(now, lifetime, source, value);
        if fresh {
            self.note_shown(now, source);
        }
        fresh
    }

    /// 4.01 with a fresh Echo value.
    fn challenge_of(&mut self, now: Instant, source: SocketAddr) -> Response {
        self.counters.refused(Refusal::Challenge);
        let lifetime = self.config.echo_lifetime;
        let value = (self.challenges).value(&mut *self.random, now, lifetime, source);
        let mut response = Response::new(Code::UNAUTHORIZED);
        let set = response.options.set(OptionNumber::ECHO, &value);
        debug_assert!(set.is_ok(), "one short option always fits");
        response
    }

    /// Answers a request with 4.01 and an Echo value: its client repeats it with that
    /// (RFC 9175 2.3), and it is [fresh](super::Incoming::fresh) then.
    ///
    /// For requests that must not be carried out late, or twice: an attacker may hold a datagram
    /// back, or keep a copy, but the value in it is good for [`Config::echo_lifetime`] only.
    ///
    /// [`Config::echo_lifetime`]: crate::endpoint::Config::echo_lifetime
    pub fn challenge(&mut self, now: Instant, id: IncomingId) {
        let Some(from) = self.incoming.find(id).map(|slot| slot.from) else {
            return;
        };
        let challenge = self.challenge_of(now, from);
        self.respond(now, id, &challenge);
    }

    /// What a request whose sender is to be challenged first is answered instead.
    pub(super) fn challenge_instead(
        &mut self,
        now: Instant,
        id: IncomingId,
        response: &Response,
    ) -> Option<Response> {
        let slot = self.incoming.find(id)?;
        let (from, challenged) = (slot.from, slot.challenged);
        (challenged && response.code.is_success()).then(|| self.challenge_of(now, from))
    }

    /// What a request may still bring its sender, in bytes: its own, threefold, less the empty ACK
    /// if that was sent. Nothing if there is no limit.
    pub(super) fn budget(
        &mut self,
        now: Instant,
        source: SocketAddr,
        request: usize,
        (acknowledged, to_group): (bool, bool),
    ) -> Option<usize> {
        let spent = if acknowledged { 4 } else { 0 };
        self.limits(now, source, to_group)
            .then(|| (AMPLIFICATION_FACTOR * request).saturating_sub(spent))
    }

    /// Writes what fits a budget in the place of a response that does not; its length, 0 if a group's
    /// member sends nothing, and whether the rest of the body should be kept.
    pub(super) fn write_within(
        &mut self,
        now: Instant,
        to: SocketAddr,
        scratch: &mut [u8],
        draft: &Draft<'_>,
        budget: usize,
    ) -> (usize, bool) {
        let &Draft {
            capacity,
            token,
            method,
            response,
            wanted,
            block1,
            to_group,
        } = draft;
        let mut write = |response: &Response, wanted, block1| {
            let written = write_response(scratch, capacity, token, response, wanted, block1, None);
            written
                .ok()
                .filter(|(length, _): &(usize, bool)| *length <= budget)
        };
        let succeeded = response.code.is_success();
        if succeeded && method.is_safe() && !to_group {
            let challenge = self.challenge_of(now, to);
            if let Some(written) = write(&challenge, wanted, None) {
                return written;
            }
        } else if succeeded && !matches!(response.payload, Payload::Part { .. }) {
            let sizes = (0..=wanted.size.szx().min(BlockSize::MAX.szx())).rev();
            for size in sizes.filter_map(BlockSize::from_szx) {
                let smaller = Wanted::block(wanted.offset, size);
                if let Some(written) = write(response, smaller, block1) {
                    return written;
                }
            }
        }
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
