//! The DTLS transport over a UDP socket (RFC 7252 9.1).
//!
//! A session begins when the engine requests one, or when a client's address is validated; no state
//! is kept before (`hello`). Until the handshake is complete, the engine queues messages for the
//! peer. The peer's congestion controller sets the timeout of each flight, and receives the
//! round-trip times of the flights.
//!
//! All exchanges of a session end with it; ADR 20 lists the reasons for which either side ends one.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use carob_cc::time::{Duration, Instant};
use carob_proto::endpoint::SessionEnd;
use carob_proto::tables::keyed_hash::KeyedState;
use hashbrown::HashMap;

use super::handshakes::HandshakeAdmission;
use super::hello::Hello;
use super::keys::{self, Server};
use super::record;
use super::secure::DtlsOutput;
use super::sessions::{Session, Sessions};
use super::{ClientDtls, SESSION_BUFFER};
use crate::transport::LinkFailure;
use crate::transport::capture::Capture;
use crate::transport::handshake::{OnHandshakeFailed, PeerIdentity};
use crate::transport::limits::SessionLimits;
use crate::transport::socket::{Destination, Outbox, Unreachable, is_group};
use crate::transport::tls::ClientTls;
use crate::transport::udp::{DATAGRAMS_A_TURN, Protect};
use crate::transport::{Engine, Outbound, TransportCounts};

/// Names of peers remembered. At the limit all are removed; a server's certificate must then match
/// its address.
const NAMES: usize = 4_096;

/// The configuration of a [`DtlsLayer`].
pub(crate) struct DtlsOptions {
    pub(crate) limits: SessionLimits,
    /// Sources whose handshake rate is tracked.
    pub(crate) sources: usize,
    pub(crate) dtls: ClientDtls,
    /// The certificates of peers without a credential.
    pub(crate) tls: ClientTls,
    /// The credentials of a server, if sessions are accepted.
    pub(crate) server: Option<Server>,
    pub(crate) on_failed: Option<OnHandshakeFailed>,
}

/// Counts of handshakes by outcome.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HandshakeCounts {
    pub(super) done: u64,
    pub(super) failed: u64,
    /// Sessions closed at the limit on sessions, and after their idle time.
    pub(super) evicted: u64,
    pub(super) idle: u64,
    /// HelloVerifyRequests sent, which ask a client to return a cookie.
    pub(super) cookies: u64,
}

/// DTLS over the datagrams of one socket: sessions, handshakes and the outbox.
pub(crate) struct DtlsLayer {
    pub(super) outbox: Outbox,
    pub(super) sessions: Sessions,
    pub(super) limits: SessionLimits,
    pub(super) admission: HandshakeAdmission,
    pub(super) client: keys::Client,
    pub(super) server: Option<Server>,
    pub(super) on_failed: Option<OnHandshakeFailed>,
    pub(super) ended: HandshakeCounts,
    /// Host names by which peers are contacted.
    pub(super) names: HashMap<SocketAddr, Arc<str>, KeyedState>,
    /// Peers whose session the engine requests or suspects to be lost.
    wanted: Vec<SocketAddr>,
    doubted: Vec<SocketAddr>,
    /// Peers whose session the application ends.
    unwanted: Vec<SocketAddr>,
    pub(super) buffer: Vec<u8>,
    /// Messages received in the current session, and the end of each.
    pub(super) inbox: Vec<u8>,
    pub(super) ends: Vec<usize>,
}

impl DtlsLayer {
    pub(crate) fn new(options: DtlsOptions, seed: u64) -> Self {
        let DtlsOptions {
            limits,
            sources,
            dtls,
            tls,
            server,
            on_failed,
        } = options;
        Self {
            outbox: Outbox::default(),
            sessions: Sessions::new(seed),
            limits,
            admission: HandshakeAdmission::new(seed, &limits, sources),
            client: keys::Client::new(dtls, tls),
            server,
            on_failed,
            ended: HandshakeCounts::default(),
            names: HashMap::with_hasher(KeyedState::with_seed(seed)),
            wanted: Vec::new(),
            doubted: Vec::new(),
            unwanted: Vec::new(),
            buffer: vec![0; SESSION_BUFFER],
            inbox: Vec::new(),
            ends: Vec::new(),
        }
    }
}

impl Outbound for DtlsLayer {
    fn is_full(&self) -> bool {
        self.outbox.len() >= DATAGRAMS_A_TURN
    }

    /// Drops a message for a peer without a session: it belonged to one that has ended.
    fn transmit(&mut self, capture: &mut Capture, now: Instant, to: SocketAddr, bytes: &[u8]) {
        let Some(index) = self.sessions.of(to).live else {
            return;
        };
        let session = &mut self.sessions.slots[index as usize];
        if let Err(broken) = session.secure.send(bytes) {
            tracing::debug!(peer = %to, ?broken, "a message cannot be secured");
            return;
        }
        capture.outbound(now, to, session.own, bytes);
        while let DtlsOutput::Datagram { bytes, .. } = session.secure.poll(&mut self.buffer) {
            self.outbox.push(to, session.own, bytes);
        }
        self.sessions.touch(now, index);
    }

    fn connect(&mut self, to: SocketAddr) {
        self.wanted.push(to);
    }

    fn set_peer_name(&mut self, to: SocketAddr, name: &Arc<str>) {
        if self.names.len() >= NAMES && !self.names.contains_key(&to) {
            self.names.clear();
        }
        self.names.insert(to, Arc::clone(name));
    }

    fn close(&mut self, to: SocketAddr) {
        self.doubted.push(to);
    }

    fn end_session(&mut self, peer: SocketAddr) -> bool {
        let known = self.sessions.of(peer).live.is_some();
        if known {
            self.unwanted.push(peer);
        }
        known
    }

    fn is_secured(&self) -> bool {
        true
    }

    fn sessions(&self) -> Option<(usize, usize)> {
        Some((self.sessions.live(), self.limits.sessions))
    }

    fn identity(&self, peer: SocketAddr) -> Option<Arc<PeerIdentity>> {
        let live = self.sessions.of(peer).live?;
        self.sessions.slots[live as usize].identity.clone()
    }
}

impl DtlsLayer {
    /// Processes a datagram.
    fn take(
        &mut self,
        engine: &mut impl Engine,
        now: Instant,
        from: SocketAddr,
        to: Option<IpAddr>,
        bytes: &[u8],
    ) {
        let own = to.filter(|address| !is_group(*address));
        if to.is_some() && own.is_none() {
            return; // DTLS has no multicast sessions
        }
        if let Some(hello) = Hello::read(bytes) {
            return self.on_client_hello(engine, now, from, own, &hello);
        }
        let place = self.sessions.of(from);
        let Some(first) = record::first(bytes) else {
            return;
        };
        // A plaintext record belongs to the handshake, if there is one.
        let order = if first.epoch == 0 {
            [place.next, place.live.filter(|_| place.next.is_none())]
        } else {
            [place.live, place.next]
        };
        for index in order.into_iter().flatten() {
            let session = self.sessions.slots.get(index as usize);
            // A session belongs to both addresses: the peer may have another at a second address of
            // this host.
            let elsewhere = |session: &Session| session.own.is_some() && session.own != own;
            if session.is_some_and(|session| session.peer == from && !elsewhere(session)) {
                self.feed(engine, now, index, bytes);
            }
        }
    }

    /// Ends the sessions that the application ends, closes those that the engine suspects, and opens
    /// those that it requests.
    fn settle(&mut self, engine: &mut impl Engine, now: Instant) {
        while let Some(peer) = self.unwanted.pop() {
            if let Some(live) = self.sessions.of(peer).live {
                self.close_session(engine, now, live, SessionEnd::Requested);
            }
        }
        while let Some(peer) = self.doubted.pop() {
            match self.sessions.of(peer).live {
                // A server that has lost the session state needs a new handshake.
                Some(live) if self.sessions.slots[live as usize].role.is_client() => {
                    self.close_session(engine, now, live, SessionEnd::Silent);
                }
                // A client without a reply may be asleep; it reconnects by itself.
                Some(_) => {
                    engine.endpoint().session_opened(now, peer);
                    engine.drain(self, now);
                }
                None => {
                    engine
                        .endpoint()
                        .session_ended(now, peer, SessionEnd::Silent);
                    engine.drain(self, now);
                }
            }
        }
        while let Some(peer) = self.wanted.pop() {
            let place = self.sessions.of(peer);
            if place.live.is_some() {
                engine.endpoint().session_opened(now, peer);
                engine.drain(self, now);
            } else if place.next.is_none() {
                self.dial(engine, now, peer);
            }
        }
    }
}

impl Protect for DtlsLayer {
    fn outbox(&mut self) -> &mut Outbox {
        &mut self.outbox
    }

    fn receive(
        &mut self,
        engine: &mut impl Engine,
        now: Instant,
        from: SocketAddr,
        destination: Destination,
        bytes: &[u8],
    ) {
        // DTLS has no multicast sessions.
        if let Destination::Us(address) = destination {
            self.take(engine, now, from, address, bytes);
        }
    }

    fn before_send(&mut self, engine: &mut impl Engine) {
        let now = engine.now();
        self.settle(engine, now);
    }

    fn unreachable(&mut self, engine: &mut impl Engine, report: Unreachable) {
        let Unreachable {
            peer,
            error,
            quoted,
        } = report;
        // A forgeable datagram does not end a live session. It ends a handshake if it quotes one
        // of its plaintext records.
        let quotes = |quoted: &[u8]| matches!(quoted, [22, 0xfe, _, 0, 0, ..]);
        if quoted.is_some_and(|quoted| !quotes(quoted.as_slice())) {
            return;
        }
        if let Some(index) = self.sessions.of(peer).next {
            let now = engine.now();
            self.drop_handshake(engine, now, index);
            engine.peer_failed(self, now, peer, LinkFailure::HandshakeUnreachable(error));
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let Self {
            sessions, limits, ..
        } = self;
        let idle = sessions
            .oldest_live()
            .map(|oldest| sessions.slots[oldest as usize].used + Duration::from(limits.idle));
        let due = sessions.next_due().map(|(due, _)| due);
        due.into_iter().chain(idle).min()
    }

    fn on_timer(&mut self, engine: &mut impl Engine, now: Instant) {
        while let Some((due, index)) = self.sessions.next_due() {
            // The rest is due again at once, after the outbox was sent.
            if due > now || self.is_full() {
                break;
            }
            self.expire(engine, now, index);
        }
        let idle = Duration::from(self.limits.idle);
        while let Some(oldest) = self.sessions.oldest_live() {
            let used = self.sessions.slots[oldest as usize].used;
            if used + idle > now || self.is_full() {
                break;
            }
            self.ended.idle += 1;
            self.close_session(engine, now, oldest, SessionEnd::Idle);
        }
    }

    /// Queues a close_notify for every session.
    fn close_all(&mut self) {
        for index in self.sessions.all_live() {
            self.send_close_notify(index);
        }
    }

    fn counts(&self, dropped: u64) -> TransportCounts {
        TransportCounts::Secured {
            dropped,
            sessions: self.sessions.live(),
            handshakes: self.sessions.handshakes(),
            done: self.ended.done,
            failed: self.ended.failed,
            closed: (self.ended.evicted, self.ended.idle),
            cookies: self.ended.cookies,
            refused: self.admission.refused,
            limits: (self.limits.sessions, self.limits.handshakes),
        }
    }
}
