//! The engine and its users: execution of the engine's outputs, and of the applications' commands.

use std::net::SocketAddr;
use std::sync::LazyLock;

use carob_cc::time::Instant;
use carob_proto::codec::Code;
use carob_proto::endpoint::{Disconnect, Endpoint, Event, Failure, IncomingId, Output, Usage};
use carob_proto::message::Response;
use tokio::sync::oneshot;

use super::messages::{Command, FailureCause, RequestControl, ShutdownOutcome};
use super::pending::{FailedPeer, PendingRequests};
use super::service::{Disposition, Service, SessionFacts};
use super::spans::Taps;
use crate::clock::Clock;
use crate::transport::capture::Capture;
use crate::transport::{Engine, LinkFailure, Outbound};

#[cfg(feature = "dtls")]
use carob_proto::endpoint::SessionEnd;

/// The response over datagrams of an endpoint without a server (RFC 7252 4.2).
static NOT_FOUND: LazyLock<Response> =
    LazyLock::new(|| Response::diagnostic(Code::NOT_FOUND, "no such resource"));
/// The response over connections of an endpoint without a server (RFC 8323 3.3).
static NO_SERVER: LazyLock<Response> =
    LazyLock::new(|| Response::diagnostic(Code::NOT_IMPLEMENTED, "this endpoint has no server"));

/// A shutdown in progress.
pub(super) struct Ending {
    pub(super) at: Instant,
    pub(super) done: Vec<oneshot::Sender<ShutdownOutcome>>,
}

/// An engine, the requests and the service that use it, and its observers.
pub(super) struct Core {
    pub(super) clock: Clock,
    pub(super) endpoint: Endpoint,
    pub(super) requests: PendingRequests,
    pub(super) service: Option<Box<dyn Service>>,
    taps: Taps,
    capture: Capture,
    /// The time of the engine's next timer.
    pub(super) deadline: Option<Instant>,
    /// The engine has more to do than one turn takes.
    pub(super) more: bool,
    pub(super) ending: Option<Ending>,
}

impl Core {
    pub(super) fn new(
        clock: Clock,
        endpoint: Endpoint,
        service: Option<Box<dyn Service>>,
        (taps, capture): (Taps, Capture),
        seed: u64,
    ) -> Self {
        Self {
            clock,
            endpoint,
            requests: PendingRequests::new(seed),
            service,
            taps,
            capture,
            deadline: None,
            more: false,
            ending: None,
        }
    }

    /// The time at which a shutdown in progress is over.
    pub(super) fn ends_at(&self) -> Option<Instant> {
        self.ending.as_ref().map(|ending| ending.at)
    }

    /// Executes the engine's timers that are due.
    pub(super) fn on_timer(&mut self, out: &mut impl Outbound, now: Instant) {
        if self.deadline.is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
            self.drain(out, now);
        } else if self.more {
            self.drain(out, now);
        }
    }

    /// Returns whether handlers were started since the last call.
    pub(super) fn has_begun_handlers(&mut self) -> bool {
        (self.service.as_mut()).is_some_and(|service| service.has_begun())
    }

    /// Executes the next completion of the service. Returns false if there is none.
    pub(super) fn complete_next(&mut self, out: &mut impl Outbound, now: Instant) -> bool {
        let endpoint = &mut self.endpoint;
        let completed =
            (self.service.as_mut()).is_some_and(|service| service.complete_next(endpoint, now));
        if completed {
            self.drain(out, now);
        }
        completed
    }

    /// Executes the engine's outputs, until it waits or `out` is full. `failed` is the peer whose
    /// failure was reported to the engine: its requests fail for that cause.
    fn drain_after(&mut self, out: &mut impl Outbound, now: Instant, failed: Option<&FailedPeer>) {
        loop {
            // Output goes to the network before more is made: memory holds one batch.
            if out.is_full() {
                self.more = true;
                return;
            }
            match self.endpoint.poll() {
                Output::Transmit { to, bytes } => {
                    out.transmit(&mut self.capture, now, to, bytes);
                }
                Output::Wait(until) => {
                    (self.deadline, self.more) = (until, false);
                    return;
                }
                Output::Event(Event::Request(id)) => self.on_request(out, now, id),
                Output::Event(Event::Unobserved(subject)) => {
                    if let Some(service) = &mut self.service {
                        service.on_unobserved(subject);
                    }
                }
                Output::Event(Event::Trace(trace)) => self.taps.on_trace(&trace),
                Output::Event(event) => self.requests.on_event(now, event, failed),
                Output::Connect { to } => out.connect(to),
                Output::Close { to } => out.close(to),
                _ => debug_assert!(false, "an output unknown to this driver"),
            }
        }
    }

    fn on_request(&mut self, out: &mut impl Outbound, now: Instant, id: IncomingId) {
        let endpoint = &mut self.endpoint;
        let Some(service) = &mut self.service else {
            // Over a connection a client, too, must respond (RFC 8323 3.3).
            let over_connection = endpoint.config().reliable.is_some();
            let response = if over_connection {
                &NO_SERVER
            } else {
                &NOT_FOUND
            };
            return endpoint.respond(now, id, response);
        };
        let session = if out.is_secured() {
            let from = endpoint.incoming(id).map(|incoming| incoming.from);
            SessionFacts {
                identity: from.and_then(|from| out.identity(from)),
                sessions: out.sessions(),
            }
        } else {
            SessionFacts::default()
        };
        if service.on_request(endpoint, now, id, session) == Disposition::Pending {
            out.answered_later();
        }
    }

    /// Returns whether a shutdown is complete or its time is up, and reports its outcome.
    pub(super) fn has_ended(&mut self, out: &mut impl Outbound) -> bool {
        let Some(ending) = &self.ending else {
            return false;
        };
        let now = self.clock.now();
        let handlers = (self.service.as_ref()).map_or(0, |service| service.load().0);
        let outcome = if handlers == 0 && self.endpoint.is_idle() {
            ShutdownOutcome::Drained
        } else if ending.at <= now {
            let Usage {
                requests,
                exchanges,
                ..
            } = self.endpoint.usage();
            ShutdownOutcome::Aborted {
                handlers,
                requests,
                exchanges: exchanges.saturating_sub(requests),
            }
        } else {
            return false;
        };
        // Before the outcome is reported: whoever waits for it finds no request unanswered.
        self.endpoint.shut_down(now);
        debug_assert!(
            self.endpoint.usage().requests == 0,
            "every request has ended"
        );
        self.drain(out, now);
        for done in (self.ending.take().into_iter()).flat_map(|ending| ending.done) {
            let _ = done.send(outcome);
        }
        true
    }
}

impl Engine for Core {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    #[cfg(feature = "dtls")]
    fn std_time(&self, at: Instant) -> std::time::Instant {
        self.clock.as_std(at)
    }

    fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    fn capture(&mut self) -> &mut Capture {
        &mut self.capture
    }

    fn drain(&mut self, out: &mut impl Outbound, now: Instant) {
        self.drain_after(out, now, None);
    }

    fn must_flush(&self, out: &impl Outbound) -> bool {
        out.must_flush()
            || (self.endpoint.config().reliable.is_some() && self.endpoint.queued_bytes() > 0)
    }

    fn has_more(&self) -> bool {
        self.more
    }

    #[cfg(feature = "dtls")]
    fn session_ended(&mut self, now: Instant, peer: SocketAddr, end: SessionEnd) {
        if let Some(service) = &mut self.service {
            service.on_session_ended(peer);
        }
        self.endpoint.session_ended(now, peer, end);
    }

    fn peer_failed(
        &mut self,
        out: &mut impl Outbound,
        now: Instant,
        peer: SocketAddr,
        failure: LinkFailure,
    ) {
        let endpoint = &mut self.endpoint;
        match &failure {
            LinkFailure::Unreachable(_) => endpoint.handle_unreachable(now, peer),
            #[cfg(feature = "dtls")]
            LinkFailure::HandshakeUnreachable(_) | LinkFailure::Handshake(_) => {
                endpoint.session_not_made(now, peer);
            }
            LinkFailure::NotConnected(_) => endpoint.disconnected(now, peer, Disconnect::NotMade),
        }
        self.drain_after(out, now, Some(&(peer, failure)));
    }
}

impl Core {
    /// Executes a command.
    pub(super) fn command(&mut self, out: &mut impl Outbound, now: Instant, command: Command) {
        match command {
            Command::Request(request) if self.ending.is_none() => {
                if let Some(name) = &request.name {
                    out.set_peer_name(request.to, name);
                }
                self.requests.begin(&mut self.endpoint, now, *request);
            }
            Command::Ping(ping) if self.ending.is_none() => {
                if let Some(name) = &ping.name {
                    out.set_peer_name(ping.to, name);
                }
                self.requests.ping(&mut self.endpoint, now, ping);
            }
            Command::Multicast(new) if self.ending.is_none() => {
                self.requests.multicast(&mut self.endpoint, now, *new);
            }
            Command::Multicast(new) => new.refuse(FailureCause::Failure(Failure::ShutDown)),
            Command::Request(request) => request.refuse(FailureCause::Failure(Failure::ShutDown)),
            Command::Ping(ping) => ping.refuse(FailureCause::Failure(Failure::ShutDown)),
            Command::SetPeer(settings) => {
                let (peer, own) = *settings;
                self.endpoint.set_peer(peer, own.controller, own.parameters);
            }
            Command::Gauges(peer, reply) => {
                let mut gauges = Vec::new();
                let known = self
                    .endpoint
                    .gauges(now, peer, &mut |name, gauge| gauges.push((name, gauge)));
                // The receiver may be dropped, here and below; then the reply is not needed.
                let _ = reply.send(known.then_some(gauges));
            }
            Command::Snapshot(peer, reply) => {
                let _ = reply.send(self.endpoint.snapshot(now, peer));
            }
            Command::Identity(peer, reply) => {
                let _ = reply.send(out.identity(peer));
            }
            Command::EndSession(peer, reply) => {
                let _ = reply.send(out.end_session(peer));
            }
            Command::Peers(reply) => {
                let _ = reply.send(self.endpoint.peers().collect());
            }
            Command::Usage(reply) => {
                let _ = reply.send(self.endpoint.usage());
            }
            Command::Shutdown { limit, done } => {
                if let Some(service) = &mut self.service {
                    service.stop();
                }
                self.requests.end_observations(&mut self.endpoint, now);
                // After the observations, whose deregistrations still use the connections.
                self.endpoint.release(now, None);
                let at = now + limit.into();
                let ending = self.ending.get_or_insert(Ending {
                    at,
                    done: Vec::new(),
                });
                // Of two calls the more impatient one counts.
                ending.at = ending.at.min(at);
                ending.done.push(done);
            }
        }
        self.drain(out, now);
    }

    /// Executes a control of a request in progress.
    pub(super) fn control(
        &mut self,
        out: &mut impl Outbound,
        now: Instant,
        control: RequestControl,
    ) {
        let Self {
            requests, endpoint, ..
        } = self;
        match control {
            RequestControl::Cancel(ticket) => requests.cancel(endpoint, now, ticket),
            RequestControl::StopObserving(ticket) => requests.stop_observing(endpoint, now, ticket),
            RequestControl::Supply {
                ticket,
                bytes,
                last,
            } => {
                if let Some(id) = requests.find(ticket) {
                    endpoint.supply(now, id, bytes, last);
                }
            }
            RequestControl::ReadOn(ticket) => {
                if let Some(id) = requests.find(ticket) {
                    endpoint.read_on(now, id, 1);
                }
            }
        }
        self.drain(out, now);
    }
}
