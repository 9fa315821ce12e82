//! Handshakes of either side, timed by the peer's congestion controller.
//!
//! Admission of handshakes that clients begin. Each costs processor time, with certificates as much
//! as a hundred requests, and a client with a validated address (by its cookie) can begin any
//! number.
//!
//! Two limits apply: the rate of handshakes per source, so that one source does not starve others;
//! and the processor time of all handshakes together, so that many sources do not starve peers with
//! a session. A ClientHello that is not admitted gets no reply: the client retransmits it with
//! growing timeouts (RFC 6347 4.2.4).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration as Span;

use carob_cc::time::{Duration, Instant};
use carob_proto::Escaped;
use carob_proto::codec::Scheme;
use carob_proto::endpoint::{Flight, SessionEnd};
use carob_proto::tables::quota::{QuotaPolicy, Source};
use carob_proto::tables::rate_limit::{self, RateLimiter};

use super::hello::Hello;
use super::layer::DtlsLayer;
use super::secure::SecureDatagram;
use super::sessions::{Handshake, Role, Session};
use super::{HandshakeError, record};
use crate::clock::processor_time;
use crate::transport::dtls::SessionLimits;
use crate::transport::handshake::{FailedHandshake, HandshakeWork, PeerIdentity};
use crate::transport::{Engine, LinkFailure};

impl DtlsLayer {
    /// Processes a ClientHello: the first one is answered with a cookie, the second must return it.
    pub(super) fn on_client_hello(
        &mut self,
        engine: &mut impl Engine,
        now: Instant,
        from: SocketAddr,
        own: Option<IpAddr>,
        hello: &Hello<'_>,
    ) {
        let Some(server) = &self.server else {
            return;
        };
        let next = self.sessions.of(from).next;
        if let Some(index) = next {
            match &self.sessions.slots[index as usize].role {
                // Both sides started at once; the own handshake was first.
                Role::Client { .. } => return,
                Role::Server { random, .. } if *random == hello.random() => {
                    return self.feed(engine, now, index, hello.record());
                }
                // Another ClientHello of the peer, which may have restarted: its cookie decides.
                Role::Server { .. } => {}
            }
        }
        // No state until the address is validated: ClientHellos from forged addresses cost a
        // MAC each (RFC 6347 4.2.1).
        let Some(cookie) = server.cookies.check(now, from, own, hello) else {
            if let Some(answer) = server.cookies.ask(now, from, own, hello) {
                self.ended.cookies += 1;
                self.outbox.push(from, own, &answer);
            }
            return;
        };
        let quota_policy = QuotaPolicy::from(&engine.endpoint().config().limits);
        let source = quota_policy.source(from);
        // After the cookie, so that nobody can exhaust the rate of another source.
        if !self.admission.admits(now, source) {
            tracing::debug!(peer = %from, "handshake refused: rate limit of its source");
            return;
        }
        let before = processor_time();
        self.accept(engine, now, (from, own), hello, cookie, source);
        let took = processor_time().saturating_sub(before);
        self.admission.took(now, took);
    }

    /// Starts a handshake with a client whose address the cookie has validated.
    fn accept(
        &mut self,
        engine: &mut impl Engine,
        now: Instant,
        (from, own): (SocketAddr, Option<IpAddr>),
        hello: &Hello<'_>,
        cookie: [u8; 32],
        source: Source,
    ) {
        let next = self.sessions.of(from).next;
        let quota_policy = QuotaPolicy::from(&engine.endpoint().config().limits);
        let begun = self.sessions.begun.of(source);
        let share = quota_policy.quota(self.limits.handshakes);
        if next.is_none()
            && begun >= share
            // With a share of 100 % only the limit of all handshakes holds.
            && share < self.limits.handshakes
            && let Some(oldest) = self.sessions.oldest_handshake_of(source)
        {
            let error =
                HandshakeError::Other("evicted by another handshake of its source".to_owned());
            self.fail(engine, now, oldest, error, None);
        }
        let Some(server) = &self.server else {
            return;
        };
        let at = engine.std_time(now);
        let credentials = server.credentials().get();
        let secure = match credentials.side.accept(at, hello, cookie) {
            Ok(secure) => secure,
            Err(broken) => {
                tracing::debug!(peer = %from, ?broken, "no handshake");
                self.ended.failed += 1;
                self.report_failed(now, from, None, &HandshakeError::of(broken, None, false));
                // handshake_failure
                let alert = record::alert(hello.sequence() + 1, 40);
                self.outbox.push(from, own, &alert);
                return;
            }
        };
        let role = Role::Server {
            verifier: credentials.verifier.clone(),
            random: hello.random(),
        };
        if let Some(index) = next {
            self.drop_handshake(engine, now, index);
        }
        self.begin(engine, now, from, own, Box::new(secure), role);
    }

    /// Starts a session with a server.
    pub(super) fn dial(&mut self, engine: &mut impl Engine, now: Instant, to: SocketAddr) {
        let at = engine.std_time(now);
        let made = self.client.of(to).map_err(|error| error.to_string());
        let made = made.map_err(|problem| HandshakeError::NoCredential { problem });
        let connected = made.and_then(|made| {
            let secure = made.side.connect(at);
            let secure = secure.map_err(|broken| HandshakeError::of(broken, None, false))?;
            let role = Role::Client {
                verifier: made.verifier.clone(),
                identity: made.identity.clone(),
            };
            Ok((secure, role))
        });
        match connected {
            Ok((secure, role)) => self.begin(engine, now, to, None, Box::new(secure), role),
            Err(error) => self.not_made(engine, now, to, error),
        }
    }

    pub(super) fn begin(
        &mut self,
        engine: &mut impl Engine,
        now: Instant,
        peer: SocketAddr,
        own: Option<IpAddr>,
        secure: Box<dyn SecureDatagram>,
        role: Role,
    ) {
        // The oldest goes, not the newest: a flood of handshakes that never end cannot lock
        // others out.
        while self.sessions.handshakes() >= self.limits.handshakes {
            let Some(oldest) = self.sessions.oldest_handshake() else {
                break;
            };
            let error = HandshakeError::Other("evicted by other handshakes".to_owned());
            self.fail(engine, now, oldest, error, None);
        }
        let until = now + Duration::from(self.limits.handshake_time);
        let quota_policy = QuotaPolicy::from(&engine.endpoint().config().limits);
        let source = (!role.is_client()).then(|| quota_policy.source(peer));
        let index = self.sessions.add(Session {
            peer,
            own,
            secure,
            role,
            identity: None,
            claimed: None,
            handshake: Some(Handshake {
                flight: None,
                due: until,
                until,
                source,
                peer_responded: false,
                proven: false,
                refused: false,
            }),
            used: now,
        });
        self.poll(engine, now, index, 0, false);
    }

    /// Reports the flights to the peer's controller, and sets the timer by its advice.
    pub(super) fn report_flight(
        &mut self,
        engine: &mut impl Engine,
        now: Instant,
        index: u32,
        (fresh, copied, received): (u32, u32, u32),
        connected: bool,
        timed: bool,
    ) {
        let session = &mut self.sessions.slots[index as usize];
        let Some(handshake) = &mut session.handshake else {
            return;
        };
        let until = handshake.until;
        // The next flight, or the end, acknowledges the one before it (RFC 6347 4.2.4).
        if (fresh > 0 || connected)
            && let Some(answered) = handshake.flight.take()
        {
            engine
                .endpoint()
                .flight_ended(now, &answered, Some(received));
        }
        let timeout = if fresh > 0 && !connected {
            let flight = engine.endpoint().flight_sent(now, session.peer, fresh);
            handshake.flight.insert(flight).timeout()
        } else if copied > 0
            && let Some(flight) = &mut handshake.flight
        {
            if !timed {
                engine.endpoint().flight_resent(now, flight);
            }
            flight.timeout()
        } else {
            return;
        };
        self.sessions.set_due(index, (now + timeout).min(until));
    }

    /// Makes the session of a completed handshake live; it replaces an earlier one.
    pub(super) fn promote(&mut self, engine: &mut impl Engine, now: Instant, index: u32) {
        let peer = self.sessions.slots[index as usize].peer;
        // Before the new one is live: an exchange must not continue in another session (RFC
        // 7252 9.1.1).
        if let Some(old) = self.sessions.of(peer).live {
            self.end(engine, now, old, SessionEnd::Replaced);
        }
        while self.sessions.live() >= self.limits.sessions {
            let Some(oldest) = self.sessions.oldest_live() else {
                break;
            };
            self.ended.evicted += 1;
            self.close_session(engine, now, oldest, SessionEnd::Idle);
        }
        self.sessions.promote(now, index);
        self.ended.done += 1;
        let session = &mut self.sessions.slots[index as usize];
        if session.identity.is_none() {
            let of_server = |identity: &Vec<u8>| PeerIdentity::PreSharedKey(identity.clone());
            session.identity = Some(Arc::new(match &session.role {
                Role::Client { identity, .. } => {
                    identity.as_ref().map_or(PeerIdentity::Anonymous, of_server)
                }
                Role::Server { .. } => PeerIdentity::Anonymous,
            }));
        }
        tracing::debug!(%peer, "a session");
        engine.endpoint().session_opened(now, peer);
        engine.drain(self, now);
    }

    /// Ends a handshake that has failed, and sends the peer an alert if there is one for the error.
    pub(super) fn fail(
        &mut self,
        engine: &mut impl Engine,
        now: Instant,
        index: u32,
        error: HandshakeError,
        alert: Option<u8>,
    ) {
        let session = &mut self.sessions.slots[index as usize];
        let (peer, own) = (session.peer, session.own);
        if let Some(alert) = alert {
            let alert = session.secure.alert(alert);
            self.outbox.push(peer, own, &alert);
        }
        tracing::debug!(%peer, %error, "no session");
        let told = (session.handshake.as_ref()).is_some_and(|handshake| handshake.refused);
        if !told && !session.role.is_client() {
            let claimed = session.claimed.take();
            self.report_failed(now, peer, claimed.as_deref(), &error);
        }
        self.drop_handshake(engine, now, index);
        if self.sessions.of(peer).live.is_none() {
            self.not_made(engine, now, peer, error);
        }
    }

    /// Reports a failed handshake of a client to the application.
    pub(super) fn report_failed(
        &self,
        now: Instant,
        peer: SocketAddr,
        identity: Option<&[u8]>,
        reason: &HandshakeError,
    ) {
        if let Some(on_failed) = &self.on_failed {
            on_failed(&FailedHandshake {
                at: std::time::Duration::from_micros(now.as_micros()),
                scheme: Scheme::Coaps,
                peer,
                identity,
                reason,
            });
        }
    }

    pub(super) fn drop_handshake(&mut self, engine: &mut impl Engine, now: Instant, index: u32) {
        let session = self.sessions.remove(index);
        self.ended.failed += 1;
        if let Some(flight) = session.handshake.and_then(|handshake| handshake.flight) {
            engine.endpoint().flight_ended(now, &flight, None);
        }
        // Nothing of a peer that has not proven its identity reaches the engine.
        self.inbox.clear();
        self.ends.clear();
    }

    pub(super) fn not_made(
        &mut self,
        engine: &mut impl Engine,
        now: Instant,
        peer: SocketAddr,
        error: HandshakeError,
    ) {
        engine.peer_failed(self, now, peer, LinkFailure::Handshake(Arc::new(error)));
    }

    /// Handles the timeout of a handshake.
    pub(super) fn expire(&mut self, engine: &mut impl Engine, now: Instant, index: u32) {
        let at = engine.std_time(now);
        let session = &mut self.sessions.slots[index as usize];
        let Some(handshake) = &mut session.handshake else {
            return;
        };
        let again = now < handshake.until
            && (handshake.flight.as_mut())
                .is_some_and(|flight| engine.endpoint().flight_expired(now, flight));
        if again {
            if let Err(broken) = session.secure.resend(at) {
                return self.on_fatal_error(engine, now, index, broken);
            }
            // Without anything to send, its time limit ends it.
            let until = handshake.until;
            self.sessions.set_due(index, until);
            return self.poll(engine, now, index, 0, true);
        }
        let copies = handshake.flight.as_ref().map_or(0, Flight::copies);
        let error = match &session.role {
            _ if !handshake.peer_responded => HandshakeError::NoAnswer { copies },
            Role::Client {
                identity: Some(identity),
                ..
            } if handshake.proven => HandshakeError::WrongKey {
                identity: Escaped(identity).to_string(),
            },
            _ => HandshakeError::Silent,
        };
        if now < handshake.until {
            handshake.flight = None; // already reported to the controller
        }
        self.fail(engine, now, index, error, None);
    }
}

/// Admission control of handshakes.
pub(super) struct HandshakeAdmission {
    rates: Option<RateLimiter>,
    work: HandshakeWork,
    /// Handshakes that were not admitted.
    pub(super) refused: u64,
}

impl HandshakeAdmission {
    /// `sources` are remembered.
    pub(super) fn new(seed: u64, limits: &SessionLimits, sources: usize) -> Self {
        let (rate, burst) = (limits.handshake_rate, limits.handshake_burst);
        Self {
            rates: RateLimiter::new(seed.rotate_left(40), rate, burst, sources),
            work: HandshakeWork::new(limits.handshake_work),
            refused: 0,
        }
    }

    /// Returns whether a source with a validated address may begin a handshake.
    pub(super) fn admits(&mut self, now: Instant, source: Source) -> bool {
        let within =
            |rates: &mut RateLimiter| rates.ask(now, source, true) == rate_limit::Admission::Allow;
        // In this order, so that a handshake that lacks processor time takes no token of its
        // source.
        let admitted = self.work.has_room(now) && self.rates.as_mut().is_none_or(within);
        self.refused += u64::from(!admitted);
        admitted
    }

    /// Counts the processor time of a handshake begun by a peer.
    pub(super) fn took(&mut self, now: Instant, time: Span) {
        self.work.add(now, time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::handshake::AT_ONCE;

    fn at(millis: u64) -> Instant {
        Instant::from_micros(millis * 1_000)
    }

    fn source(n: u8) -> Source {
        Source::of(([127, 0, 0, n], 1).into(), 64)
    }

    fn limits(rate: usize, burst: usize, work: u8) -> SessionLimits {
        let limits = SessionLimits::new().handshake_rate(rate, burst);
        limits.handshake_work(work)
    }

    #[test]
    fn source_gets_burst_then_rate_independent_of_others() {
        let mut admission = HandshakeAdmission::new(1, &limits(10, 20, 100), 8);
        let begun = |admission: &mut HandshakeAdmission, millis, n| {
            (0..100)
                .filter(|_| admission.admits(at(millis), source(n)))
                .count()
        };
        assert_eq!(begun(&mut admission, 0, 1), 20);
        assert_eq!(admission.refused, 80);
        assert_eq!(begun(&mut admission, 1_000, 1), 10);
        assert_eq!(begun(&mut admission, 1_000, 2), 20);
        let mut any = HandshakeAdmission::new(1, &limits(0, 1, 100), 8);
        assert_eq!(begun(&mut any, 0, 1), 100);
    }

    #[test]
    fn all_together_take_their_share_of_the_processor() {
        // Each takes a millisecond, and they come as fast as the processor goes.
        let seconds = |percent, seconds: u64| {
            let mut admission = HandshakeAdmission::new(1, &limits(0, 1, percent), 8);
            let mut worked = 0;
            for millis in 0..seconds * 1_000 {
                if admission.admits(at(millis), source(1)) {
                    admission.took(at(millis), Span::from_millis(1));
                    worked += 1;
                }
            }
            worked
        };
        // A quarter of a second at once, and then half of the time.
        assert_eq!(seconds(50, 2), 1_250);
        assert_eq!(seconds(50, 10), 5_250);
        assert_eq!(seconds(10, 10), 1_250);
        assert_eq!(seconds(100, 10), 10_000);
    }

    #[test]
    fn unused_allowance_is_capped_at_the_burst() {
        let mut admission = HandshakeAdmission::new(1, &limits(0, 1, 25), 8);
        let long = 3_600_000;
        assert!(admission.admits(at(long), source(1)));
        admission.took(at(long), AT_ONCE);
        assert!(!admission.admits(at(long), source(2)));
        assert!(admission.admits(at(long + 1), source(2)));
        // However long one takes, it is paid for.
        admission.took(at(long + 1), Span::from_secs(3));
        assert!(!admission.admits(at(long + 12_000), source(2)));
        assert!(admission.admits(at(long + 12_001), source(2)));
    }
}
