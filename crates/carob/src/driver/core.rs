//! What a driver does whatever the transport: commands, notes, and what the engine says.

use std::net::SocketAddr;
use std::sync::Arc;

use carob_cc::time::Instant;
use carob_proto::endpoint::{Endpoint, Event, Failure, Output, Usage};
use tokio::sync::oneshot;

use super::ears::Ears;
use super::requests::{Requests, Why};
use super::serving::{self, Answer, Serving};
use super::{Command, Finish, Note};
use crate::clock::Clock;
use crate::dtls::PeerIdentity;

/// A shutdown under way.
struct Ending {
    at: Instant,
    done: Vec<oneshot::Sender<Finish>>,
}

/// What takes what the engine sends.
pub(super) trait Out {
    /// Whether it has enough to send for one turn.
    fn is_full(&self) -> bool;
    /// Returns whether what it has is to be sent before anything else is taken that may be answered. Datagrams
    /// are short, and each that comes is answered by few.
    fn holds_back(&self) -> bool {
        false
    }
    /// Takes a datagram, or a message over a connection.
    fn transmit(&mut self, ears: &mut Ears, now: Instant, to: SocketAddr, bytes: &[u8]);
    /// A request is answered later.
    fn answered_later(&mut self) {}
    /// Makes a connection.
    fn connect(&mut self, to: SocketAddr) {
        debug_assert!(false, "no connection is made with {to} here");
    }
    /// A peer is asked for by this name.
    fn is_named(&mut self, _to: SocketAddr, _name: &Arc<str>) {}
    /// Whether peers are known by more than their addresses.
    fn is_secured(&self) -> bool {
        false
    }
    /// Who a peer is.
    fn identity(&self, _peer: SocketAddr) -> Option<Arc<PeerIdentity>> {
        None
    }
    /// Closes a connection after what was to be sent on it.
    fn close(&mut self, to: SocketAddr) {
        debug_assert!(false, "there is no connection with {to} here");
    }
}

/// The engine and who uses it.
pub(super) struct Core {
    pub(super) clock: Clock,
    pub(super) endpoint: Endpoint,
    pub(super) requests: Requests,
    pub(super) serving: Option<Serving>,
    pub(super) ears: Ears,
    /// When the engine wants to be called.
    pub(super) deadline: Option<Instant>,
    /// The engine has more to say than one turn takes.
    pub(super) more: bool,
    ending: Option<Ending>,
}

impl Core {
    pub(super) fn new(
        clock: Clock,
        endpoint: Endpoint,
        serving: Option<Serving>,
        ears: Ears,
        seed: u64,
    ) -> Self {
        Self {
            clock,
            endpoint,
            requests: Requests::new(seed),
            serving,
            ears,
            deadline: None,
            more: false,
            ending: None,
        }
    }

    /// When a shutdown under way is to be over.
    pub(super) fn ends_at(&self) -> Option<Instant> {
        self.ending.as_ref().map(|ending| ending.at)
    }

    /// Lets time pass for the engine.
    pub(super) fn pass(&mut self, out: &mut impl Out, now: Instant) {
        if self.deadline.is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
            self.drain(out, now);
        } else if self.more {
            self.drain(out, now);
        }
    }

    /// Returns whether what there is to send comes first, before more is taken that may be answered.
    pub(super) fn holds_back(&self, out: &impl Out) -> bool {
        out.holds_back()
            || (self.endpoint.config().reliable.is_some() && self.endpoint.queued_bytes() > 0)
    }

    /// Whether handlers have been begun since this was asked last.
    pub(super) fn has_begun_handlers(&mut self) -> bool {
        self.serving.as_mut().is_some_and(Serving::has_begun)
    }

    /// Does what the engine says until it waits, or has said enough for a turn.
    pub(super) fn drain(&mut self, out: &mut impl Out, now: Instant) {
        let Self {
            endpoint,
            requests,
            serving,
            ears,
            ..
        } = self;
        loop {
            if out.is_full() {
                self.more = true;
                return;
            }
            match endpoint.poll() {
                Output::Transmit { to, bytes } => out.transmit(ears, now, to, bytes),
                Output::Wait(until) => {
                    (self.deadline, self.more) = (until, false);
                    return;
                }
                Output::Event(Event::Request(id)) => match serving {
                    Some(serving) => {
                        if out.is_secured() {
                            let from = endpoint.incoming(id).map(|incoming| incoming.from);
                            serving.identity = from.and_then(|from| out.identity(from));
                        }
                        if serving.take(endpoint, now, id) == Answer::Later {
                            out.answered_later();
                        }
                    }
                    // Over a connection a client, too, must answer (RFC 8323 3.3).
                    None if endpoint.config().reliable.is_some() => {
                        endpoint.respond(now, id, &serving::NO_SERVER);
                    }
                    None => endpoint.respond(now, id, &serving::NOT_FOUND),
                },
                Output::Event(Event::Unobserved(subject)) => {
                    if let Some(serving) = serving {
                        serving.views.forget(subject);
                    }
                }
                Output::Event(Event::Trace(trace)) => ears.trace(&trace),
                Output::Event(event) => requests.take(now, event),
                Output::Connect { to } => out.connect(to),
                Output::Close { to } => out.close(to),
                _ => debug_assert!(false, "an output unknown to this driver"),
            }
        }
    }

    pub(super) fn take_command(&mut self, out: &mut impl Out, now: Instant, command: Command) {
        match command {
            Command::Request(request) if self.ending.is_none() => {
                if let Some(name) = &request.name {
                    out.is_named(request.to, name);
                }
                self.requests.begin(&mut self.endpoint, now, *request);
            }
            Command::Ping(ping) if self.ending.is_none() => {
                if let Some(name) = &ping.name {
                    out.is_named(ping.to, name);
                }
                self.requests.ping(&mut self.endpoint, now, ping);
            }
            Command::Gather(new) if self.ending.is_none() => {
                self.requests.gather(&mut self.endpoint, now, *new);
            }
            Command::Gather(new) => new.refuse(Why::Failure(Failure::ShutDown)),
            Command::Request(request) => request.refuse(Why::Failure(Failure::ShutDown)),
            Command::Ping(ping) => ping.refuse(Why::Failure(Failure::ShutDown)),
            Command::SetPeer(settings) => {
                let (peer, controller, parameters) = *settings;
                self.endpoint.set_peer(peer, controller, parameters);
            }
            Command::Gauges(peer, reply) => {
                let mut gauges = Vec::new();
                let known = self
                    .endpoint
                    .gauges(now, peer, &mut |name, gauge| gauges.push((name, gauge)));
                // Who asked may have gone, here and below; then nobody needs the answer.
                let _ = reply.send(known.then_some(gauges));
            }
            Command::Snapshot(peer, reply) => {
                let _ = reply.send(self.endpoint.snapshot(now, peer));
            }
            Command::Identity(peer, reply) => {
                let _ = reply.send(out.identity(peer));
            }
            Command::Peers(reply) => {
                let _ = reply.send(self.endpoint.peers().collect());
            }
            Command::Usage(reply) => {
                let _ = reply.send(self.endpoint.usage());
            }
            Command::ShutDown { limit, done } => {
                if let Some(serving) = &mut self.serving {
                    serving.stop();
                }
                self.requests.end_observations(&mut self.endpoint, now);
                self.endpoint.release_all(now);
                let at = now + limit.into();
                let ending = self.ending.get_or_insert(Ending {
                    at,
                    done: Vec::new(),
                });
                ending.at = ending.at.min(at);
                ending.done.push(done);
            }
        }
        self.drain(out, now);
    }

    pub(super) fn take_note(&mut self, out: &mut impl Out, now: Instant, note: Note) {
        match note {
            Note::Cancel(ticket) => self.requests.cancel(&mut self.endpoint, now, ticket),
            Note::StopObserving(ticket) => {
                self.requests
                    .stop_observing(&mut self.endpoint, now, ticket);
            }
            Note::Supply {
                ticket,
                bytes,
                last,
            } => {
                if let Some(id) = self.requests.find(ticket) {
                    self.endpoint.supply(now, id, bytes, last);
                }
            }
            Note::ReadOn(ticket) => {
                if let Some(id) = self.requests.find(ticket) {
                    self.endpoint.read_on(now, id, 1);
                }
            }
            Note::Respond(id, response) => self.endpoint.respond(now, id, &response),
            Note::Unobserve(id) => self.endpoint.unobserve(now, id),
            Note::Changed(notifier, place) => {
                if let (Some(serving), Some(changes)) = (&mut self.serving, notifier.take(place)) {
                    serving.views.changed(&notifier, &changes);
                }
            }
            Note::View(subject, response) => {
                if let Some(serving) = &mut self.serving {
                    let endpoint = &mut self.endpoint;
                    serving.views.tell(endpoint, now, subject, response);
                }
            }
            Note::HandlerDone(of, upload) => {
                if let Some(serving) = &mut self.serving {
                    serving.handler_done(of, upload);
                }
            }
        }
        self.drain(out, now);
    }

    /// Whether a shutdown is complete or its time is up; tells who waits for it.
    pub(super) fn has_ended(&mut self, out: &mut impl Out) -> bool {
        let Some(ending) = &self.ending else {
            return false;
        };
        let now = self.clock.now();
        let handlers = self.serving.as_ref().map_or(0, Serving::active);
        let finish = if handlers == 0 && self.endpoint.is_idle() {
            Finish::Complete
        } else if ending.at <= now {
            let usage = self.endpoint.usage();
            let Usage {
                requests,
                exchanges,
                ..
            } = usage;
            Finish::CutOff {
                handlers,
                requests,
                exchanges: exchanges.saturating_sub(requests),
            }
        } else {
            return false;
        };
        self.endpoint.shut_down(now);
        self.drain(out, now);
        for done in self
            .ending
            .take()
            .into_iter()
            .flat_map(|ending| ending.done)
        {
            let _ = done.send(finish);
        }
        true
    }
}
