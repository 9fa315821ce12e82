//! One source port: a socket and the engine behind it, with a DTLS session between them where the
//! server is asked over coaps.

use std::collections::VecDeque;
use std::io;
use std::net::UdpSocket;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use carob::dtls::HandshakeError;
use carob::{Code, Error, Response};
use carob_cc::time::Instant;
use carob_proto::Endpoint;
use carob_proto::endpoint::{Config, Event, Output, RequestError, RequestId, Sending, SessionEnd};
use carob_proto::message::Request;

use super::answers::{Odd, SentLately};
use super::entropy::Entropy;
use super::plan::Target;
use super::session::{Happened, Room, Session};
use super::socket::{Batch, Outbox};
use super::tally::Traffic;

/// Requests that a server sends to us, who are no server, get this.
static NOT_FOUND: LazyLock<Response> = LazyLock::new(|| Response::new(Code::NOT_FOUND));

/// What the ports of a thread tell, and what they share.
#[derive(Debug, Default)]
pub(super) struct Ears {
    /// Events of ports, by the port's key, that nobody has heard yet.
    pub(super) events: VecDeque<(usize, Event)>,
    pub(super) traffic: Traffic,
    /// Why there was no session, when that was to be made last.
    pub(super) no_session: Option<Error>,
    pub(super) room: Room,
}

/// A source port. What it hears and counts goes to [`Ears`].
pub(super) struct Port {
    key: usize,
    target: Arc<Target>,
    socket: UdpSocket,
    endpoint: Endpoint,
    /// None where the server is asked in the clear, or when there is none.
    session: Option<Session>,
    /// When something last came in it.
    heard: Instant,
    /// How long a handshake may take, or an answer.
    patience: Duration,
    outbox: Outbox,
    sent: SentLately,
    /// When the engine wants to be called.
    due: Option<Instant>,
    /// Messages sent, repetitions apart.
    messages: u32,
}

impl Port {
    pub(super) fn new(
        key: usize,
        target: Arc<Target>,
        socket: UdpSocket,
        config: &Config,
        patience: Duration,
    ) -> io::Result<Self> {
        let outstanding = usize::from(config.parameters.nstart);
        let mut config = config.clone();
        config.secured = target.secure.is_some();
        Ok(Self {
            key,
            target,
            socket,
            endpoint: Endpoint::new(config, Entropy::from_system()?),
            session: None,
            heard: Instant::ZERO,
            patience,
            outbox: Outbox::default(),
            sent: SentLately::new(outstanding),
            due: None,
            messages: 0,
        })
    }

    pub(super) fn messages(&self) -> u32 {
        self.messages
    }

    /// When the engine, or the session, wants to be called.
    pub(super) fn due(&self) -> Option<Instant> {
        let session = self.session.as_ref().and_then(Session::due);
        self.due.into_iter().chain(session).min()
    }

    /// Whether a session is needed before anything can be sent.
    pub(super) fn wants_session(&self) -> bool {
        self.target.secure.is_some() && self.session.is_none()
    }

    pub(super) fn is_connecting(&self) -> bool {
        self.session.as_ref().is_some_and(Session::is_connecting)
    }

    /// The cipher suite of the session, if there is one.
    pub(super) fn suite(&self) -> Option<&'static str> {
        self.session.as_ref().and_then(Session::suite)
    }

    /// Starts a request; its message leaves with the next [`flush`](Self::flush).
    pub(super) fn request(
        &mut self,
        now: Instant,
        request: Request,
        sending: Sending,
        ears: &mut Ears,
    ) -> Result<RequestId, RequestError> {
        let server = self.target.address;
        let id = self.endpoint.request(now, server, request, sending)?;
        self.drain(now, ears);
        Ok(id)
    }

    /// Lets a body that is read as a stream go on.
    pub(super) fn read_on(&mut self, now: Instant, id: RequestId, ears: &mut Ears) {
        self.endpoint.read_on(now, id, 1);
        self.drain(now, ears);
    }

    /// Gives an observation back.
    pub(super) fn stop_observing(&mut self, now: Instant, id: RequestId, ears: &mut Ears) {
        self.endpoint.stop_observing(now, id);
        self.drain(now, ears);
    }

    /// Does what is due.
    pub(super) fn expire(&mut self, now: Instant, ears: &mut Ears) {
        if self.due.is_some_and(|due| due <= now) {
            self.endpoint.handle_timeout(now);
            self.drain(now, ears);
        }
        if let Some(session) = &mut self.session
            && let Some(happened) = session.expire(now, &mut ears.room, &mut self.outbox)
        {
            self.happen(now, happened, ears);
            self.drain(now, ears);
        }
    }

    /// Reads one batch; what it leaves behind makes the socket ready again. `clock` is asked once
    /// it is read.
    pub(super) fn receive(
        &mut self,
        batch: &mut Batch,
        clock: impl FnOnce() -> Instant,
        ears: &mut Ears,
    ) {
        let count = match batch.receive(&self.socket) {
            Ok(count) => count,
            Err(error) => return self.unreachable(clock(), error, ears),
        };
        let now = clock();
        for index in 0..count {
            match batch.datagram(index) {
                None => ears.traffic.oversized += 1,
                Some(bytes) if self.target.secure.is_some() => self.open(now, bytes, ears),
                Some(bytes) => self.take(now, bytes, ears),
            }
        }
    }

    /// Takes a datagram that is of a session, or is ignored.
    fn open(&mut self, now: Instant, datagram: &[u8], ears: &mut Ears) {
        let Some(session) = &mut self.session else {
            return;
        };
        self.heard = now;
        let happened = session.receive(now, datagram, &mut ears.room, &mut self.outbox);
        if let Some(Happened::Connected) = happened {
            self.happen(now, Happened::Connected, ears);
            self.drain(now, ears);
        }
        let messages = ears.room.take();
        let (inbox, ends) = &messages;
        let mut start = 0;
        for &end in ends {
            self.take(now, &inbox[start..end], ears);
            start = end;
        }
        ears.room.give_back(messages);
        if let Some(end @ (Happened::Failed(_) | Happened::Ended(_))) = happened {
            self.happen(now, end, ears);
            self.drain(now, ears);
        }
    }

    /// Takes a message.
    fn take(&mut self, now: Instant, message: &[u8], ears: &mut Ears) {
        let server = self.target.address;
        self.endpoint.handle_datagram(now, server, message);
        if !self.drain(now, ears) {
            let traffic = &mut ears.traffic;
            match self.sent.judge(message) {
                Odd::Late => traffic.late += 1,
                Odd::MessageId => traffic.wrong_message_id += 1,
                Odd::Token => traffic.wrong_token += 1,
                Odd::Kind => traffic.wrong_kind += 1,
                Odd::Malformed => traffic.malformed += 1,
                Odd::Nothing => {}
            }
        }
    }

    /// Sends what waits; whether the system had no room for all of it.
    pub(super) fn flush(&mut self, batch: &mut Batch, now: Instant, ears: &mut Ears) -> bool {
        match batch.send(&self.socket, &mut self.outbox) {
            Ok(()) => false,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => true,
            Err(error) => {
                // What is left belongs to exchanges that this ends.
                self.outbox.clear();
                self.unreachable(now, error, ears);
                self.outbox.clear();
                false
            }
        }
    }

    /// Begins a handshake; it goes on by what is received and when it is due.
    pub(super) fn dial(&mut self, now: Instant, ears: &mut Ears) {
        let begun = Session::begin(&self.target, now, self.patience);
        let happened = match begun {
            Ok(session) => {
                let session = self.session.insert(session);
                session.drain(now, &mut ears.room, &mut self.outbox)
            }
            Err(why) => Some(Happened::Failed(why)),
        };
        if let Some(happened) = happened {
            self.happen(now, happened, ears);
        }
    }

    /// A request has had no answer in time. A session in which nothing has come for as long is given
    /// up: the server may have lost it, and could not say so. The next request has another made.
    pub(super) fn doubt(&mut self, now: Instant, ears: &mut Ears) {
        let patience = carob_cc::time::Duration::from(self.patience);
        if !self.is_connecting()
            && now >= self.heard + patience
            && let Some(mut session) = self.session.take()
        {
            session.close(&mut ears.room, &mut self.outbox);
            let peer = self.target.address;
            self.endpoint.session_ended(now, peer, SessionEnd::Silent);
            self.drain(now, ears);
        }
    }

    /// Ends the session, if there is one.
    pub(super) fn close(&mut self, ears: &mut Ears) {
        if let Some(mut session) = self.session.take() {
            session.close(&mut ears.room, &mut self.outbox);
            self.outbox.send_or_drop(&self.socket);
        }
    }

    /// The network, or the system, says that the server cannot be reached. A session that is live is
    /// not ended by what anybody could say.
    fn unreachable(&mut self, now: Instant, error: io::Error, ears: &mut Ears) {
        let said = &mut ears.traffic.unreachable;
        said.get_or_insert_with(|| error.to_string());
        if self.target.secure.is_none() {
            self.endpoint.handle_unreachable(now, self.target.address);
        } else if self.is_connecting() {
            let (peer, source) = (self.target.address, error);
            self.has_no_session(now, Error::Unreachable { peer, source }, ears);
        }
        self.drain(now, ears);
    }

    /// Tells the engine what has become of the session.
    fn happen(&mut self, now: Instant, happened: Happened, ears: &mut Ears) {
        let peer = self.target.address;
        match happened {
            Happened::Connected => {
                ears.traffic.handshakes += 1;
                self.endpoint.session_opened(now, peer);
            }
            Happened::Failed(why) => self.has_no_session(now, no_session(peer, why), ears),
            Happened::Ended(why) => {
                self.session = None;
                self.endpoint.session_ended(now, peer, why);
            }
        }
    }

    fn has_no_session(&mut self, now: Instant, error: Error, ears: &mut Ears) {
        ears.traffic.handshakes_failed += 1;
        ears.no_session = Some(error);
        self.session = None;
        self.endpoint.session_not_made(now, self.target.address);
    }

    /// Does what the engine says until it waits; whether it had any use for its last input.
    fn drain(&mut self, now: Instant, ears: &mut Ears) -> bool {
        let mut used = false;
        loop {
            match self.endpoint.poll() {
                Output::Transmit { bytes, .. } => {
                    self.sent.note(bytes);
                    if self.target.secure.is_none() {
                        self.outbox.push(bytes);
                    } else if let Some(session) = &mut self.session {
                        session.send(bytes, &mut ears.room, &mut self.outbox);
                    }
                }
                Output::Event(Event::Trace(trace)) => {
                    let heard = ears.traffic.hear(&trace);
                    used |= heard.used;
                    self.messages += u32::from(heard.first_copy);
                }
                Output::Event(Event::Request(id)) => {
                    self.endpoint.respond(now, id, &NOT_FOUND);
                    ears.traffic.wrong_kind += 1;
                    used = true;
                }
                Output::Event(event) => {
                    ears.events.push_back((self.key, event));
                    used = true;
                }
                Output::Connect { to } => match &self.session {
                    None => self.dial(now, ears),
                    Some(session) if session.is_connecting() => {}
                    Some(_) => self.endpoint.session_opened(now, to),
                },
                // The server may have lost the session, and could not say so.
                Output::Close { to } => {
                    if let Some(mut session) = self.session.take() {
                        session.close(&mut ears.room, &mut self.outbox);
                    }
                    self.endpoint.session_ended(now, to, SessionEnd::Silent);
                }
                Output::Wait(due) => {
                    self.due = due;
                    return used;
                }
                _ => debug_assert!(false, "an output unknown to this driver"),
            }
        }
    }
}

/// As all of the command says it.
pub(super) fn no_session(peer: std::net::SocketAddr, why: HandshakeError) -> Error {
    Error::Handshake { peer, why }
}
