//! One source port: a socket and the engine behind it, with a DTLS session between them for
//! coaps.

use std::collections::VecDeque;
use std::io;
use std::net::UdpSocket;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use carob::dtls::HandshakeError;
use carob::{Code, Error, Response};
use carob_cc::time::Instant;
use carob_proto::Endpoint;
use carob_proto::endpoint::{
    Config, Event, Output, RequestConfig, RequestError, RequestId, SessionEnd,
};
use carob_proto::message::Request;

use super::answers::{SentLately, UnexpectedAnswer};
use super::counters::Traffic;
use super::entropy::Entropy;
use super::plan::Target;
use super::session::{Happened, Room, Session};
use super::socket::{Batch, Outbox};

/// The response to a request from the server; a client has no resources.
static NOT_FOUND: LazyLock<Response> = LazyLock::new(|| Response::new(Code::NOT_FOUND));

/// Output of a thread's ports, and their common state.
#[derive(Debug, Default)]
pub(super) struct PortOutput {
    /// Events of ports, by the port's key, not handled yet.
    pub(super) events: VecDeque<(usize, Event)>,
    pub(super) traffic: Traffic,
    /// Why there was no session, when that was to be made last.
    pub(super) no_session: Option<Error>,
    pub(super) room: Room,
}

/// A source port. Its events and counters go to [`PortOutput`].
pub(super) struct Port {
    key: usize,
    target: Arc<Target>,
    socket: UdpSocket,
    endpoint: Endpoint,
    /// `None` over plain UDP, or while there is no session.
    session: Option<Session>,
    /// The time of the last message with an effect.
    effect: Instant,
    /// Timeout of a handshake, or of an answer.
    patience: Duration,
    outbox: Outbox,
    sent: SentLately,
    /// Next timeout of the engine.
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
            effect: Instant::ZERO,
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

    /// Next timeout of the engine or the session.
    pub(super) fn due(&self) -> Option<Instant> {
        let session = self.session.as_ref().and_then(Session::due);
        self.due.into_iter().chain(session).min()
    }

    /// Returns true if nothing can be sent without a session.
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
        sending: RequestConfig,
        output: &mut PortOutput,
    ) -> Result<RequestId, RequestError> {
        let server = self.target.address;
        let id = self.endpoint.request(now, server, request, sending)?;
        self.drain(now, output);
        Ok(id)
    }

    /// Lets a body that is read as a stream go on.
    pub(super) fn read_on(&mut self, now: Instant, id: RequestId, output: &mut PortOutput) {
        self.endpoint.read_on(now, id, 1);
        self.drain(now, output);
    }

    /// Handles timers that are due.
    pub(super) fn expire(&mut self, now: Instant, output: &mut PortOutput) {
        if self.due.is_some_and(|due| due <= now) {
            self.endpoint.handle_timeout(now);
            self.drain(now, output);
        }
        if let Some(session) = &mut self.session
            && let Some(happened) = session.expire(now, &mut output.room, &mut self.outbox)
        {
            self.happen(now, happened, output);
            self.drain(now, output);
        }
    }

    /// Reads one batch; datagrams left behind make the socket ready again. `clock` is read after
    /// it.
    pub(super) fn receive(
        &mut self,
        batch: &mut Batch,
        clock: impl FnOnce() -> Instant,
        output: &mut PortOutput,
    ) {
        let count = match batch.receive(&self.socket) {
            Ok(count) => count,
            Err(error) => return self.unreachable(clock(), error, output),
        };
        let now = clock();
        for index in 0..count {
            match batch.datagram(index) {
                None => output.traffic.oversized += 1,
                Some(bytes) if self.target.secure.is_some() => self.open(now, bytes, output),
                Some(bytes) => self.take(now, bytes, output),
            }
        }
    }

    /// Handles a datagram of a session, or ignores it.
    fn open(&mut self, now: Instant, datagram: &[u8], output: &mut PortOutput) {
        let Some(session) = &mut self.session else {
            return;
        };
        self.effect = now;
        let happened = session.receive(now, datagram, &mut output.room, &mut self.outbox);
        if let Some(Happened::Connected) = happened {
            self.happen(now, Happened::Connected, output);
            self.drain(now, output);
        }
        let messages = output.room.take();
        let (inbox, ends) = &messages;
        let mut start = 0;
        for &end in ends {
            self.take(now, &inbox[start..end], output);
            start = end;
        }
        output.room.give_back(messages);
        if let Some(end @ (Happened::Failed(_) | Happened::Ended(_))) = happened {
            self.happen(now, end, output);
            self.drain(now, output);
        }
    }

    /// Takes a message.
    fn take(&mut self, now: Instant, message: &[u8], output: &mut PortOutput) {
        let server = self.target.address;
        self.endpoint.handle_datagram(now, server, message);
        if !self.drain(now, output) {
            let traffic = &mut output.traffic;
            match self.sent.judge(message) {
                UnexpectedAnswer::Late => traffic.late += 1,
                UnexpectedAnswer::MessageId => traffic.wrong_message_id += 1,
                UnexpectedAnswer::Token => traffic.wrong_token += 1,
                UnexpectedAnswer::Kind => traffic.wrong_kind += 1,
                UnexpectedAnswer::Malformed => traffic.malformed += 1,
                UnexpectedAnswer::Nothing => {}
            }
        }
    }

    /// Sends what waits; whether the system had no room for all of it.
    pub(super) fn flush(
        &mut self,
        batch: &mut Batch,
        now: Instant,
        output: &mut PortOutput,
    ) -> bool {
        match batch.send(&self.socket, &mut self.outbox) {
            Ok(()) => false,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => true,
            Err(error) => {
                // Remaining requests belong to exchanges that this ends.
                self.outbox.clear();
                self.unreachable(now, error, output);
                self.outbox.clear();
                false
            }
        }
    }

    /// Starts a handshake; input and timers advance it.
    pub(super) fn dial(&mut self, now: Instant, output: &mut PortOutput) {
        let begun = Session::begin(&self.target, now, self.patience);
        let happened = match begun {
            Ok(session) => {
                let session = self.session.insert(session);
                session.drain(now, &mut output.room, &mut self.outbox)
            }
            Err(why) => Some(Happened::Failed(why)),
        };
        if let Some(happened) = happened {
            self.happen(now, happened, output);
        }
    }

    /// Handles a request without a response in time. A session without input for as long is given
    /// up, since the server may have lost its state. The next request starts a new session.
    pub(super) fn doubt(&mut self, now: Instant, output: &mut PortOutput) {
        let patience = carob_cc::time::Duration::from(self.patience);
        if !self.is_connecting()
            && now >= self.effect + patience
            && let Some(mut session) = self.session.take()
        {
            session.close(&mut output.room, &mut self.outbox);
            let peer = self.target.address;
            self.endpoint.session_ended(now, peer, SessionEnd::Silent);
            self.drain(now, output);
        }
    }

    /// Ends the session, if there is one.
    pub(super) fn close(&mut self, output: &mut PortOutput) {
        if let Some(mut session) = self.session.take() {
            session.close(&mut output.room, &mut self.outbox);
            self.outbox.send_or_drop(&self.socket);
        }
    }

    /// Handles an error of the network or the system: the server is unreachable. It does not end a
    /// live session, because such errors can be forged.
    fn unreachable(&mut self, now: Instant, error: io::Error, output: &mut PortOutput) {
        let said = &mut output.traffic.unreachable;
        said.get_or_insert_with(|| error.to_string());
        if self.target.secure.is_none() {
            self.endpoint.handle_unreachable(now, self.target.address);
        } else if self.is_connecting() {
            let (peer, source) = (self.target.address, error);
            self.has_no_session(now, Error::Unreachable { peer, source }, output);
        }
        self.drain(now, output);
    }

    /// Reports a change of the session to the engine.
    fn happen(&mut self, now: Instant, happened: Happened, output: &mut PortOutput) {
        let peer = self.target.address;
        match happened {
            Happened::Connected => {
                output.traffic.handshakes += 1;
                self.endpoint.session_opened(now, peer);
            }
            Happened::Failed(why) => self.has_no_session(now, no_session(peer, why), output),
            Happened::Ended(why) => {
                self.session = None;
                self.endpoint.session_ended(now, peer, why);
            }
        }
    }

    fn has_no_session(&mut self, now: Instant, error: Error, output: &mut PortOutput) {
        output.traffic.handshakes_failed += 1;
        output.no_session = Some(error);
        self.session = None;
        self.endpoint.session_not_made(now, self.target.address);
    }

    /// Executes the engine's outputs until it waits. Returns true if it used its last input.
    fn drain(&mut self, now: Instant, output: &mut PortOutput) -> bool {
        let mut used = false;
        loop {
            match self.endpoint.poll() {
                Output::Transmit { bytes, .. } => {
                    self.sent.note(bytes);
                    if self.target.secure.is_none() {
                        self.outbox.push(bytes);
                    } else if let Some(session) = &mut self.session {
                        session.send(bytes, &mut output.room, &mut self.outbox);
                    }
                }
                Output::Event(Event::Trace(trace)) => {
                    let effect = output.traffic.on_trace(&trace);
                    used |= effect.used;
                    self.messages += u32::from(effect.first_copy);
                }
                Output::Event(Event::Request(id)) => {
                    self.endpoint.respond(now, id, &NOT_FOUND);
                    output.traffic.wrong_kind += 1;
                    used = true;
                }
                Output::Event(event) => {
                    output.events.push_back((self.key, event));
                    used = true;
                }
                Output::Connect { to } => match &self.session {
                    None => self.dial(now, output),
                    Some(session) if session.is_connecting() => {}
                    Some(_) => self.endpoint.session_opened(now, to),
                },
                // The server may have lost the session without being able to report it.
                Output::Close { to } => {
                    if let Some(mut session) = self.session.take() {
                        session.close(&mut output.room, &mut self.outbox);
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

/// The error text common to the command.
pub(super) fn no_session(peer: std::net::SocketAddr, why: HandshakeError) -> Error {
    Error::Handshake { peer, source: why }
}
