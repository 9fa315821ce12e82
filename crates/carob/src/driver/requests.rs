//! Requests of our own: who waits for which.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carob_cc::time::Instant;
use carob_proto::endpoint::{
    BodyMode, Endpoint, Event, Failure, Gathering, RequestError, RequestId, Sending,
};

use super::shared::{Listener, Shared, Target};
use super::updates::{Teller, Updates};
use crate::client::Keeper;
use crate::dtls::HandshakeError;
use carob_proto::keyed_hash::KeyedState;
use carob_proto::message::{Request, Response};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use tokio::sync::{Notify, mpsc, oneshot};

/// A request that an application makes.
pub(crate) struct NewRequest {
    pub(crate) ticket: u64,
    pub(crate) to: SocketAddr,
    /// By what name it was asked for, if it matters to the transport.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) request: Request,
    pub(crate) sending: Sending,
    pub(crate) reply: ReplyTo,
}

/// A request to a group that an application makes.
pub(crate) struct NewGathering {
    pub(crate) ticket: u64,
    pub(crate) to: SocketAddr,
    pub(crate) request: Request,
    pub(crate) gathering: Gathering,
    pub(crate) members: Members,
}

/// Who hears of a group's members. [`Limits::gathered`](carob_proto::endpoint::Limits::gathered)
/// bounds this queue.
pub(crate) type Members = mpsc::UnboundedSender<(SocketAddr, Result<Received, Failed>)>;

/// A ping that an application makes.
pub(crate) struct Ping {
    pub(crate) ticket: u64,
    pub(crate) to: SocketAddr,
    /// As of a request.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) reply: oneshot::Sender<Result<Duration, Failed>>,
}

/// Who hears of a request.
pub(crate) struct ReplyTo {
    /// The response, or its beginning.
    pub(crate) head: oneshot::Sender<Result<Received, Failed>>,
    /// The parts of its body, if streamed. The engine sends as many as were asked for with
    /// `read_on` and sixteen more, which bounds this queue.
    pub(crate) parts: Option<mpsc::UnboundedSender<Result<(Bytes, bool), Failed>>>,
    /// Told when a streamed request body needs more.
    pub(crate) starved: Option<Arc<Notify>>,
    /// Who hears of an observation.
    pub(crate) observing: Option<Observing>,
}

/// Who hears of an observation.
#[derive(Debug)]
pub(crate) struct Observing {
    /// The application, after the first state.
    pub(crate) updates: Arc<Updates>,
    /// A cache.
    pub(crate) keeper: Option<Keeper>,
}

/// A response, or its beginning.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) response: Response,
    /// Size of a streamed body, if the server told.
    pub(crate) size: Option<u64>,
    pub(crate) after: Duration,
}

/// A request without a response.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    pub(crate) why: Why,
    /// The system's error number, where the system said why.
    pub(crate) os_error: Option<i32>,
    /// What is wrong, where no number says it.
    pub(crate) explanation: Option<Arc<str>>,
    /// Why there is no session.
    pub(crate) handshake: Option<Arc<HandshakeError>>,
    pub(crate) after: Duration,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Why {
    Refused(RequestError),
    Failure(Failure),
    /// No response had to come (RFC 7967).
    Unanswered,
}

impl NewRequest {
    pub(crate) fn refuse(self, why: Why) {
        let _ = self.reply.head.send(Err(Failed::at_once(why)));
    }
}

impl NewGathering {
    pub(crate) fn refuse(self, why: Why) {
        let _ = self.members.send((self.to, Err(Failed::at_once(why))));
    }
}

impl Ping {
    pub(crate) fn refuse(self, why: Why) {
        let _ = self.reply.send(Err(Failed::at_once(why)));
    }
}

impl Failed {
    fn at_once(why: Why) -> Self {
        Self {
            why,
            os_error: None,
            explanation: None,
            handshake: None,
            after: Duration::ZERO,
        }
    }
}

struct Pending {
    began: Instant,
    waiting: Waiting,
}

enum Waiting {
    Response {
        ticket: u64,
        /// Taken once the response, or its beginning, was told.
        head: Option<oneshot::Sender<Result<Received, Failed>>>,
        parts: Option<mpsc::UnboundedSender<Result<(Bytes, bool), Failed>>>,
        starved: Option<Arc<Notify>>,
    },
    Observation(Box<Shared>),
    Members {
        ticket: u64,
        group: SocketAddr,
        members: Members,
    },
    Pong {
        ticket: u64,
        reply: oneshot::Sender<Result<Duration, Failed>>,
    },
}

/// Requests under way. The engine's limit on them is that of those who wait, too: several may wait
/// for one observation.
pub(super) struct Requests {
    pending: HashMap<RequestId, Pending, FixedState>,
    ids: HashMap<u64, RequestId, FixedState>,
    /// What is observed. An observation that is being given back is not here any more.
    observed: HashMap<Target, RequestId, KeyedState>,
    /// The system's error number, while the engine is told of it.
    pub(super) os_error: Option<i32>,
    /// What is wrong, where no number says it.
    pub(super) explanation: Option<Arc<str>>,
    /// Why there is no session.
    pub(super) handshake: Option<Arc<HandshakeError>>,
}

impl Requests {
    pub(super) fn new(seed: u64) -> Self {
        // The other keys are our own numbers, so nobody can make them collide.
        Self {
            pending: HashMap::with_hasher(FixedState::default()),
            ids: HashMap::with_hasher(FixedState::default()),
            observed: HashMap::with_hasher(KeyedState::with_seed(seed)),
            os_error: None,
            explanation: None,
            handshake: None,
        }
    }

    pub(super) fn begin(&mut self, endpoint: &mut Endpoint, now: Instant, new: NewRequest) {
        // Who dropped the request before it began told so already, and was not understood.
        if new.reply.head.is_closed() {
            return;
        }
        let NewRequest {
            ticket,
            to,
            name: _,
            request,
            sending,
            reply,
        } = new;
        let ReplyTo {
            head,
            parts,
            starved,
            observing,
        } = reply;
        if self.ids.len() >= endpoint.config().limits.requests {
            let refused = Why::Refused(RequestError::RequestsFull);
            let _ = head.send(Err(Failed::at_once(refused)));
            return;
        }
        let waiting = if let Some(Observing { updates, keeper }) = observing {
            let listener = Listener {
                ticket,
                head: Some(head),
                updates: Teller(updates),
            };
            let target = Target::of(to, &request);
            // A body that is still to come cannot be compared; the engine refuses it.
            let comparable = sending.request_body == BodyMode::Whole;
            if let Some(id) = self.observed.get(&target).filter(|_| comparable)
                && let Some(Pending {
                    waiting: Waiting::Observation(shared),
                    ..
                }) = self.pending.get_mut(id)
            {
                self.ids.insert(ticket, *id);
                return shared.join(listener, keeper);
            }
            Waiting::Observation(Box::new(Shared::new(target, listener, keeper)))
        } else {
            Waiting::Response {
                ticket,
                head: Some(head),
                parts,
                starved,
            }
        };
        let pending = Pending {
            began: now,
            waiting,
        };
        match endpoint.request(now, to, request, sending) {
            Ok(id) => self.add(id, pending),
            Err(error) => pending.fail(Failed::at_once(Why::Refused(error))),
        }
    }

    pub(super) fn gather(&mut self, endpoint: &mut Endpoint, now: Instant, new: NewGathering) {
        if new.members.is_closed() {
            return;
        }
        match endpoint.gather(now, new.to, new.request.clone(), new.gathering) {
            Ok(id) => {
                let waiting = Waiting::Members {
                    ticket: new.ticket,
                    group: new.to,
                    members: new.members,
                };
                let began = now;
                self.add(id, Pending { began, waiting });
            }
            Err(error) => new.refuse(Why::Refused(error)),
        }
    }

    pub(super) fn ping(&mut self, endpoint: &mut Endpoint, now: Instant, ping: Ping) {
        if ping.reply.is_closed() {
            return;
        }
        match endpoint.ping(now, ping.to) {
            Ok(id) => {
                let Ping { ticket, reply, .. } = ping;
                let waiting = Waiting::Pong { ticket, reply };
                let began = now;
                self.add(id, Pending { began, waiting });
            }
            Err(error) => ping.refuse(Why::Refused(error)),
        }
    }

    fn add(&mut self, id: RequestId, pending: Pending) {
        pending.each_ticket(|ticket| _ = self.ids.insert(ticket, id));
        if let Waiting::Observation(shared) = &pending.waiting {
            self.observed.insert(shared.target.clone(), id);
        }
        self.pending.insert(id, pending);
    }

    pub(super) fn find(&self, ticket: u64) -> Option<RequestId> {
        self.ids.get(&ticket).copied()
    }

    /// Gives an observation back for one who observes; its last event will come.
    pub(super) fn stop_observing(&mut self, endpoint: &mut Endpoint, now: Instant, ticket: u64) {
        let Some(id) = self.find(ticket) else { return };
        if let Some(Pending {
            waiting: Waiting::Observation(shared),
            ..
        }) = self.pending.get_mut(&id)
        {
            if shared.part(ticket) {
                self.ids.remove(&ticket);
                return;
            }
            self.observed.remove(&shared.target);
        }
        endpoint.stop_observing(now, id);
    }

    /// Ends every observation: they would never end by themselves.
    pub(super) fn end_observations(&mut self, endpoint: &mut Endpoint, now: Instant) {
        let observes = |pending: &Pending| matches!(pending.waiting, Waiting::Observation(_));
        let mut all: Vec<RequestId> = (self.pending.iter())
            .filter(|(_, pending)| observes(pending))
            .map(|(id, _)| *id)
            .collect();
        all.sort_unstable();
        for id in all {
            endpoint.cancel(now, id);
            if let Some(pending) = self.remove(id) {
                let after = now.since(pending.began).into();
                pending.fail(Failed {
                    why: Why::Failure(Failure::ShutDown),
                    os_error: None,
                    explanation: None,
                    handshake: None,
                    after,
                });
            }
        }
    }

    pub(super) fn cancel(&mut self, endpoint: &mut Endpoint, now: Instant, ticket: u64) {
        let Some(id) = self.ids.remove(&ticket) else {
            return;
        };
        if let Some(Pending {
            waiting: Waiting::Observation(shared),
            ..
        }) = self.pending.get_mut(&id)
        {
            shared.leave(ticket);
            if !shared.is_deserted() {
                return;
            }
        }
        self.remove(id);
        endpoint.cancel(now, id);
    }

    fn remove(&mut self, id: RequestId) -> Option<Pending> {
        let pending = self.pending.remove(&id)?;
        pending.each_ticket(|ticket| _ = self.ids.remove(&ticket));
        if let Waiting::Observation(shared) = &pending.waiting
            && self.observed.get(&shared.target) == Some(&id)
        {
            self.observed.remove(&shared.target);
        }
        Some(pending)
    }

    /// Passes an event of the engine on. Whoever waited may have gone; then nobody needs it.
    pub(super) fn take(&mut self, now: Instant, event: Event) {
        match event {
            Event::Response { id, response } => {
                let Some(pending) = self.remove(id) else {
                    return;
                };
                let received = Received {
                    response,
                    size: None,
                    after: now.since(pending.began).into(),
                };
                match pending.waiting {
                    Waiting::Response {
                        head: Some(head), ..
                    } => {
                        let _ = head.send(Ok(received));
                    }
                    Waiting::Observation(shared) => shared.end(&received),
                    _ => {}
                }
            }
            Event::Notification { id, response } => {
                if let Some(Pending {
                    began,
                    waiting: Waiting::Observation(shared),
                }) = self.pending.get_mut(&id)
                {
                    shared.state(Received {
                        response,
                        size: None,
                        after: now.since(*began).into(),
                    });
                }
            }
            Event::Stale { id, failure } => {
                if let Some(Pending {
                    began,
                    waiting: Waiting::Observation(shared),
                }) = self.pending.get_mut(&id)
                {
                    let failed = failure.map(|failure| Failed {
                        why: Why::Failure(failure),
                        os_error: self.os_error,
                        explanation: self.explanation.clone(),
                        handshake: self.handshake.clone(),
                        after: now.since(*began).into(),
                    });
                    shared.stale(failed.as_ref());
                }
            }
            Event::Head { id, response, size } => {
                let Some(pending) = self.pending.get_mut(&id) else {
                    return;
                };
                let after = now.since(pending.began).into();
                if let Waiting::Response { head, .. } = &mut pending.waiting
                    && let Some(head) = head.take()
                {
                    let _ = head.send(Ok(Received {
                        response,
                        size,
                        after,
                    }));
                }
            }
            Event::Part { id, bytes, last } => {
                if let Some(Pending {
                    waiting:
                        Waiting::Response {
                            parts: Some(parts), ..
                        },
                    ..
                }) = self.pending.get(&id)
                {
                    let _ = parts.send(Ok((bytes, last)));
                }
                if last {
                    self.remove(id);
                }
            }
            Event::Starved(id) => {
                if let Some(Pending {
                    waiting: Waiting::Response { starved, .. },
                    ..
                }) = self.pending.get(&id)
                    && let Some(starved) = starved
                {
                    starved.notify_one();
                }
            }
            Event::Unanswered(id) => {
                let Some(pending) = self.remove(id) else {
                    return;
                };
                let failed = Failed {
                    why: Why::Unanswered,
                    os_error: None,
                    explanation: None,
                    handshake: None,
                    after: now.since(pending.began).into(),
                };
                pending.fail(failed);
            }
            Event::Member { id, from, response } => {
                let Some(Pending {
                    began,
                    waiting: Waiting::Members { members, .. },
                }) = self.pending.get(&id)
                else {
                    return;
                };
                let after = now.since(*began).into();
                let received = match response {
                    Ok(response) => Ok(Received {
                        response,
                        size: None,
                        after,
                    }),
                    Err(failure) => Err(Failed {
                        why: Why::Failure(failure),
                        os_error: self.os_error,
                        explanation: self.explanation.clone(),
                        handshake: self.handshake.clone(),
                        after,
                    }),
                };
                let _ = members.send((from, received));
            }
            Event::Gathered(id) => drop(self.remove(id)),
            Event::Pong(id) => {
                let Some(pending) = self.remove(id) else {
                    return;
                };
                if let Waiting::Pong { reply, .. } = pending.waiting {
                    let _ = reply.send(Ok(now.since(pending.began).into()));
                }
            }
            Event::Failed { id, failure } => {
                let Some(pending) = self.remove(id) else {
                    return;
                };
                let failed = Failed {
                    why: Why::Failure(failure),
                    os_error: self.os_error,
                    explanation: self.explanation.clone(),
                    handshake: self.handshake.clone(),
                    after: now.since(pending.began).into(),
                };
                pending.fail(failed);
            }
            _ => debug_assert!(false, "an event unknown to this driver"),
        }
    }
}

impl Pending {
    /// Visits those who wait.
    fn each_ticket(&self, mut visit: impl FnMut(u64)) {
        match &self.waiting {
            Waiting::Response { ticket, .. }
            | Waiting::Members { ticket, .. }
            | Waiting::Pong { ticket, .. } => visit(*ticket),
            Waiting::Observation(shared) => shared.tickets().for_each(visit),
        }
    }

    /// Tells whoever waits that nothing will come any more.
    fn fail(self, failed: Failed) {
        match self.waiting {
            Waiting::Response {
                head: Some(head), ..
            } => {
                let _ = head.send(Err(failed));
            }
            Waiting::Response {
                parts: Some(parts), ..
            } => {
                let _ = parts.send(Err(failed));
            }
            Waiting::Observation(shared) => shared.fail(&failed),
            Waiting::Response { .. } => {}
            Waiting::Members { group, members, .. } => {
                let _ = members.send((group, Err(failed)));
            }
            Waiting::Pong { reply, .. } => {
                let _ = reply.send(Err(failed));
            }
        }
    }
}
