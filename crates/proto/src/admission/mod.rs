//! Admission control by source: rate limits, validated addresses and the anti-amplification limit.
//!
//! An address is validated once its source has proved to receive there: by an Echo value (RFC 9175
//! 2), an unguessable token, a session or a connection. Before, it is sent at most
//! [`AMPLIFICATION_FACTOR`] times the bytes of each datagram (RFC 7252 11.3).

mod address_validation;

use core::net::SocketAddr;

use carob_cc::time::Instant;

use crate::admission::address_validation::Validated;
use crate::codec::{Code, OptionNumber};
use crate::context::Context;
use crate::counters::Refusal;
use crate::echo::{Challenges, ECHO_BYTES};
use crate::limits::Limits;
use crate::message::Response;
use crate::seeds::{Seeds, Table};
use crate::tables::rate_limit::{Admission, RateLimiter};

/// The bytes that an unvalidated source may be sent for each byte of its datagram (RFC 9175 2.4).
pub(crate) const AMPLIFICATION_FACTOR: usize = 3;

/// The interval in which non-idempotent requests were challenged statelessly.
///
/// Clients repeat a challenged request with an Echo value. A request without one may be a late
/// duplicate of the original, until no datagram of that time can be in flight.
#[derive(Clone, Copy, Debug)]
struct StatelessChallenge {
    since: Instant,
    until: Instant,
}

/// Rate limits, validated addresses and challenges.
#[derive(Debug)]
pub(crate) struct AdmissionControl {
    /// Rate limits by source, if there are any.
    pub(crate) rates: Option<RateLimiter>,
    pub(crate) validated: Validated,
    challenges: Challenges,
    stateless_challenge: Option<StatelessChallenge>,
}

impl AdmissionControl {
    pub(crate) fn new(seeds: &Seeds, limits: &Limits) -> Self {
        Self {
            rates: RateLimiter::new(
                seeds.table(Table::RateLimits),
                limits.request_rate,
                limits.request_burst,
                limits.sources,
            ),
            validated: Validated::new(seeds.table(Table::ValidatedAddresses), limits.validated),
            challenges: Challenges::default(),
            stateless_challenge: None,
        }
    }

    /// Counts a request against its source's rate limit.
    #[inline]
    pub(crate) fn admit(&mut self, cx: &Context, from: SocketAddr) -> Admission {
        if self.rates.is_none() {
            return Admission::Allow;
        }
        let validated = self.is_validated(cx, from);
        let source = cx.quota_policy.source(from);
        let rates = self.rates.as_mut();
        rates.map_or(Admission::Allow, |rates| {
            rates.ask(cx.now, source, validated)
        })
    }

    /// Returns whether an address is validated. Addresses of connections and sessions always are.
    pub(crate) fn is_validated(&self, cx: &Context, source: SocketAddr) -> bool {
        self.is_validated_at(cx.now, cx, source)
    }

    /// Returns whether an address is validated at another time.
    pub(crate) fn is_validated_at(&self, now: Instant, cx: &Context, source: SocketAddr) -> bool {
        cx.transport_validates_addresses() || self.validated.contains(now, source)
    }

    /// Returns whether the anti-amplification limit applies to an address now.
    #[inline]
    pub(crate) fn is_limited(&self, cx: &Context, source: SocketAddr) -> bool {
        !cx.transport_validates_addresses()
            && cx.config.amplification_limit.holds_for(source.ip())
            && !self.validated.contains(cx.now, source)
    }

    /// Returns whether the limit applies to a response to a unicast request or `to_group`.
    #[inline]
    fn limits(&mut self, cx: &Context, source: SocketAddr, to_group: bool) -> bool {
        let limited = if to_group {
            let limit = &cx.config.amplification_limit;
            !cx.transport_validates_addresses() && limit.holds_for_group(source.ip())
        } else {
            self.is_limited(cx, source)
        };
        limited && !self.validated.takes(cx.now, source)
    }

    /// Validates an address to which the anti-amplification limit applies.
    pub(crate) fn validate(&mut self, cx: &Context, source: SocketAddr) {
        if !cx.transport_validates_addresses()
            && cx.config.amplification_limit.holds_for(source.ip())
        {
            self.on_validated(cx, source);
        }
    }

    /// Records that an address is validated, with or without a limit.
    pub(crate) fn on_validated(&mut self, cx: &Context, source: SocketAddr) {
        if cx.transport_validates_addresses() {
            return;
        }
        self.validated.add(cx.now, source);
        debug_assert!(self.validated.contains(cx.now, source), "validated now");
        if let Some(rates) = &mut self.rates {
            rates.validate(cx.quota_policy.source(source));
        }
    }

    /// Verifies the Echo option of a request. Returns whether its value is fresh and of this
    /// source.
    pub(crate) fn take_echo(&mut self, cx: &Context, source: SocketAddr, value: &[u8]) -> bool {
        let lifetime = cx.config.echo_lifetime;
        // The value is a MAC over the address, so it cannot be used from another one (RFC 9175
        // 2.3).
        let fresh = self.challenges.check(cx.now, lifetime, source, value);
        if fresh {
            self.on_validated(cx, source);
        }
        fresh
    }

    /// A fresh Echo value for a source.
    fn echo_value(&mut self, cx: &mut Context, source: SocketAddr) -> [u8; ECHO_BYTES] {
        cx.counters.refused(Refusal::Challenge);
        let lifetime = cx.config.echo_lifetime;
        self.challenges
            .value(&mut *cx.random, cx.now, lifetime, source)
    }

    /// A challenge: 4.01 with a fresh Echo value (RFC 9175 2.3).
    pub(crate) fn challenge_of(&mut self, cx: &mut Context, source: SocketAddr) -> Response {
        let value = self.echo_value(cx, source);
        let mut response = Response::new(Code::UNAUTHORIZED);
        let set = response.options.set(OptionNumber::ECHO, &value);
        debug_assert!(set.is_ok(), "one short option always fits");
        response
    }

    /// The Echo value of a challenge that leaves no state of the request.
    pub(crate) fn challenge_statelessly(
        &mut self,
        cx: &mut Context,
        source: SocketAddr,
        idempotent: bool,
    ) -> [u8; ECHO_BYTES] {
        if !idempotent {
            let since = match self.stateless_challenge {
                Some(challenge) if cx.now < challenge.until => challenge.since,
                _ => cx.now,
            };
            debug_assert!(since <= cx.now, "an interval that begins later");
            // A datagram challenged now may be duplicated until then.
            let until = cx.now + cx.lifetimes.exchange;
            self.stateless_challenge = Some(StatelessChallenge { since, until });
        }
        self.echo_value(cx, source)
    }

    /// Returns whether a non-idempotent request without an Echo value may be a late copy of one
    /// that was challenged statelessly. A source that was validated before was not challenged.
    pub(crate) fn may_replay_challenged(&self, cx: &Context, from: SocketAddr) -> bool {
        let live = self.stateless_challenge.filter(|it| cx.now < it.until);
        let Some(challenge) = live else {
            return false;
        };
        let before = |at: Instant| at < challenge.since;
        let validated = self.validated.since(cx.now, from).is_some_and(before);
        !validated && !cx.transport_validates_addresses()
    }

    /// The bytes that may still be sent in reply to a request: three times its own, less the empty
    /// ACK if that was sent. `None` without a limit.
    #[inline]
    pub(crate) fn budget(
        &mut self,
        cx: &Context,
        source: SocketAddr,
        request: usize,
        (acknowledged, to_group): (bool, bool),
    ) -> Option<usize> {
        self.limits(cx, source, to_group)
            .then(|| unvalidated_budget(request, acknowledged))
    }
}

/// The bytes that may still be sent to an unvalidated address in reply to a request of this length:
/// three times its own, less the empty ACK if that was sent.
pub(crate) fn unvalidated_budget(request: usize, acknowledged: bool) -> usize {
    // 4: an empty ACK is a header.
    let spent = if acknowledged { 4 } else { 0 };
    (AMPLIFICATION_FACTOR * request).saturating_sub(spent)
}
