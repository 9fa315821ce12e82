//! The transport that is a UDP socket whose datagrams are secured by DTLS (RFC 7252 9.1).
//!
//! A session is made when the engine asks for one, or when a client has shown that it receives what
//! is sent to its address; nothing is kept of it before (`hello`). Until the handshake is over, what
//! the engine has for the peer waits there. How long to wait for each flight of the handshake is the
//! advice of the peer's congestion controller, and what the flights took is told to it.
//!
//! What is said in a session ends with it; who ends one, and why, is in ADR 20.

mod admission;
mod handshakes;
pub(crate) mod hello;
pub(crate) mod record;
mod sessions;
mod sides;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use carob_cc::time::{Duration, Instant};
use carob_proto::endpoint::SessionEnd;
use carob_proto::keyed_hash::KeyedState;
use hashbrown::HashMap;

use super::core::{Core, Out};
use super::ears::Ears;
use super::{Transport, TransportCounts};
use crate::clock::processor_time;
use crate::dtls::secure::{Broken, Said};
use crate::dtls::{HandshakeError, PeerIdentity, SESSION_BUFFER, SessionLimits};
use crate::settings::Settings;
use crate::socket::{BATCH, Destination, Outbox, Socket, Unreachable, is_group};
use admission::Admission;
use hello::Hello;
use sessions::{Role, Session, Sessions};
pub(crate) use sides::Server;

/// As for datagrams that are not secured.
const DATAGRAMS_A_TURN: usize = BATCH;
/// Names of peers remembered. At the limit all are forgotten; a server's certificate must then be
/// for its address.
const NAMES: usize = 4_096;

/// A UDP socket, its sessions, and what waits to be sent on it.
pub(super) struct Secured {
    socket: Socket,
    leaving: Leaving,
    unreachable: Vec<Unreachable>,
}

/// How handshakes ended, if they began at all.
#[derive(Clone, Copy, Debug, Default)]
struct Ended {
    done: u64,
    failed: u64,
    /// Clients that were asked to show where they are.
    cookies: u64,
}

/// Sessions, and what the engine's messages are put into.
struct Leaving {
    outbox: Outbox,
    sessions: Sessions,
    limits: SessionLimits,
    admission: Admission,
    client: sides::Client,
    server: Option<Server>,
    ended: Ended,
    /// By what name a peer was asked for.
    names: HashMap<SocketAddr, Arc<str>, KeyedState>,
    /// Sessions that the engine asks for, and those that it doubts.
    wanted: Vec<SocketAddr>,
    doubted: Vec<SocketAddr>,
    buffer: Vec<u8>,
    /// What has come in the session at hand: messages, and where each ends.
    inbox: Vec<u8>,
    ends: Vec<usize>,
}

impl Secured {
    pub(super) fn new(
        socket: Socket,
        settings: &Settings,
        server: Option<Server>,
        seed: u64,
    ) -> Self {
        let sources = settings.config.limits.sources;
        Self {
            socket,
            leaving: Leaving {
                outbox: Outbox::default(),
                sessions: Sessions::new(seed),
                limits: settings.sessions,
                admission: Admission::new(seed, &settings.sessions, sources),
                client: sides::Client::new(settings.dtls.clone(), settings.tls.clone()),
                server,
                ended: Ended::default(),
                names: HashMap::with_hasher(KeyedState::with_seed(seed)),
                wanted: Vec::new(),
                doubted: Vec::new(),
                buffer: vec![0; SESSION_BUFFER],
                inbox: Vec::new(),
                ends: Vec::new(),
            },
            unreachable: Vec::new(),
        }
    }
}

impl Out for Leaving {
    fn is_full(&self) -> bool {
        self.outbox.len() >= DATAGRAMS_A_TURN
    }

    /// What is for a peer without a session is for nobody: it belonged to one that has ended.
    fn transmit(&mut self, ears: &mut Ears, now: Instant, to: SocketAddr, bytes: &[u8]) {
        let Some(index) = self.sessions.of(to).live else {
            return;
        };
        let session = &mut self.sessions.slots[index as usize];
        if let Err(broken) = session.secure.send(bytes) {
            tracing::debug!(peer = %to, ?broken, "a message cannot be secured");
            return;
        }
        ears.goes(now, to, session.own, bytes);
        while let Said::Datagram { bytes, .. } = session.secure.poll(&mut self.buffer) {
            self.outbox.push(to, session.own, bytes);
        }
        self.sessions.touch(now, index);
    }

    fn connect(&mut self, to: SocketAddr) {
        self.wanted.push(to);
    }

    fn is_named(&mut self, to: SocketAddr, name: &Arc<str>) {
        if self.names.len() >= NAMES && !self.names.contains_key(&to) {
            self.names.clear();
        }
        self.names.insert(to, Arc::clone(name));
    }

    fn close(&mut self, to: SocketAddr) {
        self.doubted.push(to);
    }

    fn is_secured(&self) -> bool {
        true
    }

    fn identity(&self, peer: SocketAddr) -> Option<Arc<PeerIdentity>> {
        let live = self.sessions.of(peer).live?;
        self.sessions.slots[live as usize].identity.clone()
    }
}

impl Leaving {
    /// Takes a datagram.
    fn take(
        &mut self,
        core: &mut Core,
        now: Instant,
        from: SocketAddr,
        to: Option<IpAddr>,
        bytes: &[u8],
    ) {
        let own = to.filter(|address| !is_group(*address));
        if to.is_some() && own.is_none() {
            return; // nobody has a session with a group
        }
        if let Some(hello) = Hello::read(bytes) {
            return self.greet(core, now, from, own, &hello);
        }
        let place = self.sessions.of(from);
        let Some(first) = record::first(bytes) else {
            return;
        };
        // What begins in the clear is of a handshake, if there is one.
        let order = if first.epoch == 0 {
            [place.next, place.live.filter(|_| place.next.is_none())]
        } else {
            [place.live, place.next]
        };
        for index in order.into_iter().flatten() {
            let session = self.sessions.slots.get(index as usize);
            let elsewhere = |session: &Session| session.own.is_some() && session.own != own;
            if session.is_some_and(|session| session.peer == from && !elsewhere(session)) {
                self.feed(core, now, index, bytes);
            }
        }
    }

    /// Gives a session a datagram.
    fn feed(&mut self, core: &mut Core, now: Instant, index: u32, datagram: &[u8]) {
        let session = &mut self.sessions.slots[index as usize];
        let begun_by_peer = session.handshake.is_some() && !session.role.is_client();
        let before = begun_by_peer.then(processor_time);
        if let Some(handshake) = &mut session.handshake {
            handshake.heard = true;
        }
        let at = core.clock.as_std(now);
        match session.secure.receive(at, datagram) {
            Ok(()) => self.poll(core, now, index, datagram.len() as u32, false),
            Err(broken) => self.breaks(core, now, index, broken),
        }
        if let Some(before) = before {
            let took = processor_time().saturating_sub(before);
            self.admission.took(now, took);
        }
    }

    /// Does what a session says. `received` is how long the datagram was that it was given, if any;
    /// `timed` that its timer has it send again.
    fn poll(&mut self, core: &mut Core, now: Instant, index: u32, received: u32, timed: bool) {
        let session = &mut self.sessions.slots[index as usize];
        let (peer, own) = (session.peer, session.own);
        let (mut fresh, mut copied) = (0, 0);
        let (mut connected, mut closed) = (false, false);
        loop {
            match session.secure.poll(&mut self.buffer) {
                Said::Datagram {
                    bytes,
                    fresh: is_fresh,
                } => {
                    if let Some(handshake) = &mut session.handshake {
                        handshake.proven |= record::records(bytes).any(|record| record.epoch > 0);
                    }
                    let count = if is_fresh { &mut fresh } else { &mut copied };
                    *count += bytes.len() as u32;
                    self.outbox.push(peer, own, bytes);
                }
                Said::Message(bytes) => {
                    self.inbox.extend_from_slice(bytes);
                    self.ends.push(self.inbox.len());
                }
                Said::Certificate(der) => {
                    let name = self.names.get(&peer).map(|name| &**name);
                    let checked = match &session.role {
                        Role::Client {
                            verifier: Some(verifier),
                            ..
                        } => verifier.check(der, session.secure.chain(der), name, peer),
                        Role::Server {
                            verifier: Some(verifier),
                            ..
                        } => verifier.check(der, session.secure.chain(der)),
                        // Nobody has asked for it, and it proves nothing.
                        _ => continue,
                    };
                    if let Err(wrong) = checked {
                        let problem = wrong.problem;
                        let error = HandshakeError::NotTrusted { problem };
                        return self.fail(core, now, index, error, Some(wrong.alert));
                    }
                    session.identity = Some(Arc::new(PeerIdentity::Certificate(der.to_vec())));
                }
                Said::Identity { identity, known } => {
                    if known {
                        session.identity = Some(Arc::new(PeerIdentity::PreSharedKey(identity)));
                    } else {
                        let identity = String::from_utf8_lossy(&identity).into_owned();
                        tracing::debug!(%peer, identity, "the identity is not known");
                    }
                }
                Said::NotProven => {
                    if let Some(handshake) = &mut session.handshake
                        && !std::mem::replace(&mut handshake.refused, true)
                    {
                        // decrypt_error, whether the key is wrong or the identity not known
                        // (RFC 4279 2). The session lives on: anybody could have sent that.
                        let alert = session.secure.alert(51);
                        self.outbox.push(peer, own, &alert);
                    }
                }
                Said::Connected => connected = true,
                Said::Closed => closed = true,
                Said::Nothing => break,
            }
        }
        self.note_flight(
            core,
            now,
            index,
            (fresh, copied, received),
            connected,
            timed,
        );
        if connected {
            self.promote(core, now, index);
        }
        if !self.ends.is_empty() {
            self.deliver(core, now, index, peer, own);
        }
        if closed {
            // The library has answered in kind.
            self.end(core, now, index, SessionEnd::Closed);
        }
    }

    /// Hands the engine what has come.
    fn deliver(
        &mut self,
        core: &mut Core,
        now: Instant,
        index: u32,
        peer: SocketAddr,
        own: Option<IpAddr>,
    ) {
        self.sessions.touch(now, index);
        let inbox = std::mem::take(&mut self.inbox);
        let mut ends = std::mem::take(&mut self.ends);
        let mut start = 0;
        for end in ends.drain(..) {
            let message = &inbox[start..end];
            start = end;
            core.ears.comes(now, peer, own, message);
            core.endpoint.handle_datagram(now, peer, message);
            core.drain(self, now);
        }
        (self.inbox, self.ends) = (inbox, ends);
        self.inbox.clear();
    }

    /// A session cannot go on.
    fn breaks(&mut self, core: &mut Core, now: Instant, index: u32, broken: Broken) {
        let session = &self.sessions.slots[index as usize];
        tracing::debug!(peer = %session.peer, ?broken, "a session breaks");
        let Some(handshake) = &session.handshake else {
            return self.end(core, now, index, SessionEnd::Broken);
        };
        let identity = match &session.role {
            Role::Client { identity, .. } => identity.as_deref(),
            Role::Server { .. } => None,
        };
        let alert = broken.alert();
        let error = HandshakeError::of(broken, identity, handshake.proven);
        self.fail(core, now, index, error, alert);
    }

    /// Says goodbye in a session and ends it.
    fn close_session(&mut self, core: &mut Core, now: Instant, index: u32, why: SessionEnd) {
        self.say_goodbye(index);
        self.end(core, now, index, why);
    }

    fn say_goodbye(&mut self, index: u32) {
        let session = &mut self.sessions.slots[index as usize];
        session.secure.close();
        while let Said::Datagram { bytes, .. } = session.secure.poll(&mut self.buffer) {
            self.outbox.push(session.peer, session.own, bytes);
        }
    }

    /// A live session ends, and with it all that is under way in it.
    fn end(&mut self, core: &mut Core, now: Instant, index: u32, why: SessionEnd) {
        let Session { peer, .. } = self.sessions.remove(index);
        tracing::debug!(%peer, %why, "a session ends");
        if let Some(serving) = &mut core.serving {
            serving.forget_uploads(peer);
        }
        core.endpoint.session_ended(now, peer, why);
        core.drain(self, now);
    }

    /// Makes the sessions that the engine has asked for, and looks after those that it doubts.
    fn settle(&mut self, core: &mut Core, now: Instant) {
        while let Some(peer) = self.doubted.pop() {
            match self.sessions.of(peer).live {
                // Whoever has lost its session can only be asked for another.
                Some(live) if self.sessions.slots[live as usize].role.is_client() => {
                    self.close_session(core, now, live, SessionEnd::Silent);
                }
                // A client that does not answer may sleep; it comes back by itself.
                Some(_) => {
                    core.endpoint.session_opened(now, peer);
                    core.drain(self, now);
                }
                None => {
                    core.endpoint.session_ended(now, peer, SessionEnd::Silent);
                    core.drain(self, now);
                }
            }
        }
        while let Some(peer) = self.wanted.pop() {
            let place = self.sessions.of(peer);
            if place.live.is_some() {
                core.endpoint.session_opened(now, peer);
                core.drain(self, now);
            } else if place.next.is_none() {
                self.dial(core, now, peer);
            }
        }
    }
}

impl Transport for Secured {
    fn out(&mut self) -> &mut impl Out {
        &mut self.leaving
    }

    async fn ready(&mut self) -> io::Result<()> {
        if self.socket.ready().await? {
            self.socket.errors(&mut self.unreachable);
        }
        Ok(())
    }

    fn receive(&mut self, core: &mut Core) -> bool {
        let now = core.clock.now();
        let Self {
            socket,
            leaving,
            unreachable,
        } = self;
        let received = socket.receive(|from, destination, bytes| {
            // There are no sessions with groups.
            if let Destination::Us(address) = destination {
                leaving.take(core, now, from, address, bytes);
            }
        });
        received.unwrap_or_else(|error| {
            tracing::debug!(%error, "nothing received");
            socket.errors(unreachable);
            true
        })
    }

    async fn flush(&mut self, core: &mut Core) -> io::Result<()> {
        loop {
            let now = core.clock.now();
            self.leaving.settle(core, now);
            let Self {
                socket,
                leaving,
                unreachable,
            } = self;
            while let Err(error) = socket.send(&mut leaving.outbox, unreachable) {
                debug_assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                socket.writable().await?;
            }
            let Some(Unreachable {
                peer,
                error,
                quoted,
            }) = unreachable.pop()
            else {
                return Ok(());
            };
            // A live session is not ended by what anybody could say. A handshake is: what is
            // quoted must be one of its records in the clear.
            let quotes = |quoted: &[u8]| matches!(quoted, [22, 0xfe, _, 0, 0, ..]);
            if quoted.is_some_and(|quoted| !quotes(quoted.as_slice())) {
                continue;
            }
            if let Some(index) = leaving.sessions.of(peer).next {
                let now = core.clock.now();
                leaving.drop_handshake(core, now, index);
                core.requests.os_error = Some(error);
                core.endpoint.session_not_made(now, peer);
                core.drain(leaving, now);
                core.requests.os_error = None;
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let Leaving {
            sessions, limits, ..
        } = &self.leaving;
        let idle = sessions
            .oldest_live()
            .map(|oldest| sessions.slots[oldest as usize].used + Duration::from(limits.idle));
        let due = sessions.next_due().map(|(due, _)| due);
        due.into_iter().chain(idle).min()
    }

    fn pass(&mut self, core: &mut Core, now: Instant) {
        let leaving = &mut self.leaving;
        while let Some((due, index)) = leaving.sessions.next_due() {
            if due > now || leaving.is_full() {
                break;
            }
            leaving.expire(core, now, index);
        }
        let idle = Duration::from(leaving.limits.idle);
        while let Some(oldest) = leaving.sessions.oldest_live() {
            let used = leaving.sessions.slots[oldest as usize].used;
            if used + idle > now || leaving.is_full() {
                break;
            }
            leaving.close_session(core, now, oldest, SessionEnd::Idle);
        }
    }

    /// Says goodbye in every session.
    fn end(&mut self) {
        for index in self.leaving.sessions.all_live() {
            self.leaving.say_goodbye(index);
        }
    }

    fn counts(&self) -> TransportCounts {
        let Leaving {
            sessions,
            limits,
            ended,
            admission,
            ..
        } = &self.leaving;
        TransportCounts::Secured {
            dropped: self.socket.dropped(),
            sessions: sessions.live(),
            handshakes: sessions.handshakes(),
            done: ended.done,
            failed: ended.failed,
            cookies: ended.cookies,
            refused: admission.refused,
            limits: (limits.sessions, limits.handshakes),
        }
    }
}
