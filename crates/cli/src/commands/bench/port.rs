//! One source port: a socket and the engine behind it.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::LazyLock;

use carob::{Code, Response};
use carob_cc::time::Instant;
use carob_proto::Endpoint;
use carob_proto::endpoint::{Config, Event, Output, RequestError, RequestId, Sending};
use carob_proto::message::Request;

use super::answers::{Odd, SentLately};
use super::entropy::Entropy;
use super::socket::{Batch, Outbox};
use super::tally::Traffic;

/// Requests that a server sends to us, who are no server, get this.
static NOT_FOUND: LazyLock<Response> = LazyLock::new(|| Response::new(Code::NOT_FOUND));

/// Events of ports, by the port's key.
pub(super) type Events = VecDeque<(usize, Event)>;

/// A source port. What it hears goes to [`Events`], what it counts to [`Traffic`].
pub(super) struct Port {
    key: usize,
    server: SocketAddr,
    socket: UdpSocket,
    endpoint: Endpoint,
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
        server: SocketAddr,
        socket: UdpSocket,
        config: &Config,
    ) -> io::Result<Self> {
        let outstanding = usize::from(config.parameters.nstart);
        Ok(Self {
            key,
            server,
            socket,
            endpoint: Endpoint::new(config.clone(), Entropy::from_system()?),
            outbox: Outbox::default(),
            sent: SentLately::new(outstanding),
            due: None,
            messages: 0,
        })
    }

    pub(super) fn messages(&self) -> u32 {
        self.messages
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Starts a request; its message leaves with the next [`flush`](Self::flush).
    pub(super) fn request(
        &mut self,
        now: Instant,
        request: Request,
        sending: Sending,
        events: &mut Events,
        traffic: &mut Traffic,
    ) -> Result<RequestId, RequestError> {
        let id = self.endpoint.request(now, self.server, request, sending)?;
        self.drain(now, events, traffic);
        Ok(id)
    }

    /// Lets a body that is read as a stream go on.
    pub(super) fn read_on(
        &mut self,
        now: Instant,
        id: RequestId,
        events: &mut Events,
        traffic: &mut Traffic,
    ) {
        self.endpoint.read_on(now, id, 1);
        self.drain(now, events, traffic);
    }

    /// Gives an observation back.
    pub(super) fn stop_observing(
        &mut self,
        now: Instant,
        id: RequestId,
        events: &mut Events,
        traffic: &mut Traffic,
    ) {
        self.endpoint.stop_observing(now, id);
        self.drain(now, events, traffic);
    }

    /// Does what is due.
    pub(super) fn expire(&mut self, now: Instant, events: &mut Events, traffic: &mut Traffic) {
        if self.due.is_some_and(|due| due <= now) {
            self.endpoint.handle_timeout(now);
            self.drain(now, events, traffic);
        }
    }

    /// Reads one batch; what it leaves behind makes the socket ready again. `clock` is asked once
    /// it is read.
    pub(super) fn receive(
        &mut self,
        batch: &mut Batch,
        clock: impl FnOnce() -> Instant,
        events: &mut Events,
        traffic: &mut Traffic,
    ) {
        let count = match batch.receive(&self.socket) {
            Ok(count) => count,
            Err(error) => return self.unreachable(clock(), &error, events, traffic),
        };
        let now = clock();
        for index in 0..count {
            let Some(bytes) = batch.datagram(index) else {
                traffic.oversized += 1;
                continue;
            };
            self.endpoint.handle_datagram(now, self.server, bytes);
            if !self.drain(now, events, traffic) {
                match self.sent.judge(bytes) {
                    Odd::Late => traffic.late += 1,
                    Odd::MessageId => traffic.wrong_message_id += 1,
                    Odd::Token => traffic.wrong_token += 1,
                    Odd::Kind => traffic.wrong_kind += 1,
                    Odd::Malformed => traffic.malformed += 1,
                    Odd::Nothing => {}
                }
            }
        }
    }

    /// Sends what waits; whether the system had no room for all of it.
    pub(super) fn flush(
        &mut self,
        batch: &mut Batch,
        now: Instant,
        events: &mut Events,
        traffic: &mut Traffic,
    ) -> bool {
        match batch.send(&self.socket, &mut self.outbox) {
            Ok(()) => false,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => true,
            Err(error) => {
                // What is left belongs to exchanges that this ends.
                self.outbox.clear();
                self.unreachable(now, &error, events, traffic);
                self.outbox.clear();
                false
            }
        }
    }

    /// The network, or the system, says that the server cannot be reached.
    fn unreachable(
        &mut self,
        now: Instant,
        error: &io::Error,
        events: &mut Events,
        traffic: &mut Traffic,
    ) {
        traffic.unreachable.get_or_insert_with(|| error.to_string());
        self.endpoint.handle_unreachable(now, self.server);
        self.drain(now, events, traffic);
    }

    /// Does what the engine says until it waits; whether it had any use for its last input.
    fn drain(&mut self, now: Instant, events: &mut Events, traffic: &mut Traffic) -> bool {
        let mut used = false;
        loop {
            match self.endpoint.poll() {
                Output::Transmit { bytes, .. } => {
                    self.sent.note(bytes);
                    self.outbox.push(bytes);
                }
                Output::Event(Event::Trace(trace)) => {
                    let heard = traffic.hear(&trace);
                    used |= heard.used;
                    self.messages += u32::from(heard.first_copy);
                }
                Output::Event(Event::Request(id)) => {
                    self.endpoint.respond(now, id, &NOT_FOUND);
                    traffic.wrong_kind += 1;
                    used = true;
                }
                Output::Event(event) => {
                    events.push_back((self.key, event));
                    used = true;
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
