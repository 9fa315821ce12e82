//! Requests in progress, and the applications that wait for them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carob_cc::time::Instant;
use carob_proto::endpoint::{BodyMode, Endpoint, Event, Failure, RequestError, RequestId};
use carob_proto::message::Response;
use carob_proto::tables::keyed_hash::KeyedState;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use tokio::sync::{Notify, mpsc, oneshot};

use super::messages::{
    FailureCause, Members, NewMulticast, NewRequest, Observing, Ping, Received, ReplyTo,
    RequestFailure,
};
use super::shared_observation::{ObservationListener, SharedObservation, Target};
use super::updates::UpdateSender;
use crate::transport::LinkFailure;

/// A peer that cannot be reached, and the cause that its transport reports.
pub(super) type FailedPeer = (SocketAddr, LinkFailure);

struct Pending {
    began: Instant,
    /// The peer, or the group.
    to: SocketAddr,
    waiting: Waiting,
}

enum Waiting {
    Response {
        ticket: u64,
        /// Taken once the response, or its beginning, was delivered.
        head: Option<oneshot::Sender<Result<Received, RequestFailure>>>,
        parts: Option<mpsc::UnboundedSender<Result<(Bytes, bool), RequestFailure>>>,
        starved: Option<Arc<Notify>>,
    },
    Observation(Box<SharedObservation>),
    Members {
        ticket: u64,
        members: Members,
    },
    Pong {
        ticket: u64,
        reply: oneshot::Sender<Result<Duration, RequestFailure>>,
    },
}

/// Requests in progress, by id. The engine's limit on requests bounds them and their waiting
/// applications: several may share one observation.
pub(super) struct PendingRequests {
    pending: HashMap<RequestId, Pending, FixedState>,
    ids: HashMap<u64, RequestId, FixedState>,
    /// Observations by target, except those being deregistered.
    observed: HashMap<Target, RequestId, KeyedState>,
}

impl PendingRequests {
    pub(super) fn new(seed: u64) -> Self {
        // The other keys are own numbers, so remote hosts cannot make them collide.
        Self {
            pending: HashMap::with_hasher(FixedState::default()),
            ids: HashMap::with_hasher(FixedState::default()),
            observed: HashMap::with_hasher(KeyedState::with_seed(seed)),
        }
    }

    pub(super) fn begin(&mut self, endpoint: &mut Endpoint, now: Instant, new: NewRequest) {
        // A request dropped before its start was cancelled in vain.
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
        // The engine counts observations, of which each may have many applications here.
        if self.ids.len() >= endpoint.config().limits.requests {
            let refused = FailureCause::Refused(RequestError::RequestsFull);
            let _ = head.send(Err(RequestFailure::at_once(refused)));
            return;
        }
        let waiting = if let Some(Observing {
            updates,
            cache_writer,
        }) = observing
        {
            let listener = ObservationListener {
                ticket,
                head: Some(head),
                updates: UpdateSender(updates),
            };
            let target = Target::of(to, &request);
            // A streamed body cannot be compared; the engine rejects it.
            let comparable = sending.request_body == BodyMode::Whole;
            if let Some(id) = self.observed.get(&target).filter(|_| comparable)
                && let Some(Pending {
                    waiting: Waiting::Observation(shared),
                    ..
                }) = self.pending.get_mut(id)
            {
                self.ids.insert(ticket, *id);
                return shared.join(listener, cache_writer);
            }
            Waiting::Observation(Box::new(SharedObservation::new(
                target,
                listener,
                cache_writer,
            )))
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
            to,
            waiting,
        };
        match endpoint.request(now, to, request, sending) {
            Ok(id) => self.add(id, pending),
            Err(error) => pending.fail(RequestFailure::at_once(FailureCause::Refused(error))),
        }
    }

    pub(super) fn multicast(&mut self, endpoint: &mut Endpoint, now: Instant, new: NewMulticast) {
        if new.members.is_closed() {
            return;
        }
        match endpoint.multicast(now, new.to, new.request.clone(), new.gathering) {
            Ok(id) => {
                let waiting = Waiting::Members {
                    ticket: new.ticket,
                    members: new.members,
                };
                let (began, to) = (now, new.to);
                self.add(id, Pending { began, to, waiting });
            }
            Err(error) => new.refuse(FailureCause::Refused(error)),
        }
    }

    pub(super) fn ping(&mut self, endpoint: &mut Endpoint, now: Instant, ping: Ping) {
        if ping.reply.is_closed() {
            return;
        }
        match endpoint.ping(now, ping.to) {
            Ok(id) => {
                let Ping {
                    ticket, to, reply, ..
                } = ping;
                let waiting = Waiting::Pong { ticket, reply };
                let began = now;
                self.add(id, Pending { began, to, waiting });
            }
            Err(error) => ping.refuse(FailureCause::Refused(error)),
        }
    }

    fn add(&mut self, id: RequestId, pending: Pending) {
        pending.visit_tickets(|ticket| _ = self.ids.insert(ticket, id));
        if let Waiting::Observation(shared) = &pending.waiting {
            self.observed.insert(shared.target.clone(), id);
        }
        let before = self.pending.insert(id, pending);
        debug_assert!(before.is_none(), "{id:?} is in use");
        debug_assert!(self.observed.len() <= self.pending.len());
    }

    pub(super) fn find(&self, ticket: u64) -> Option<RequestId> {
        self.ids.get(&ticket).copied()
    }

    /// Deregisters an observation of a listener; its last event follows.
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
            // From now on a new listener begins an observation of its own.
            self.observed.remove(&shared.target);
        }
        endpoint.stop_observing(now, id);
    }

    /// Ends every observation, because observations do not end by themselves.
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
                pending.fail(RequestFailure {
                    why: FailureCause::Failure(Failure::ShutDown),
                    link: None,
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
            if !shared.is_unobserved() {
                return;
            }
        }
        self.remove(id);
        endpoint.cancel(now, id);
    }

    fn remove(&mut self, id: RequestId) -> Option<Pending> {
        let pending = self.pending.remove(&id)?;
        pending.visit_tickets(|ticket| _ = self.ids.remove(&ticket));
        if let Waiting::Observation(shared) = &pending.waiting
            // During a deregistration, another observation may have taken the place.
            && self.observed.get(&shared.target) == Some(&id)
        {
            self.observed.remove(&shared.target);
        }
        debug_assert!(self.observed.len() <= self.pending.len());
        Some(pending)
    }

    /// Passes an event of the engine to the waiting application, which may have been dropped.
    /// `failed` is the peer whose failure caused the event, if any.
    pub(super) fn on_event(&mut self, now: Instant, event: Event, failed: Option<&FailedPeer>) {
        match event {
            Event::Response { id, response } => self.on_response(now, id, response),
            Event::Notification { id, response } => {
                if let Some((shared, began, _)) = self.observation(id) {
                    shared.state(received(now, began, response));
                }
            }
            Event::Stale { id, failure } => {
                if let Some((shared, began, to)) = self.observation(id) {
                    let failure = failure.map(|failure| RequestFailure {
                        why: FailureCause::Failure(failure),
                        link: link_of(failed, to),
                        after: now.since(began).into(),
                    });
                    shared.stale(failure.as_ref());
                }
            }
            Event::ResponseHead { id, response, size } => {
                let Some(pending) = self.pending.get_mut(&id) else {
                    return;
                };
                let began = pending.began;
                if let Waiting::Response { head, .. } = &mut pending.waiting
                    && let Some(head) = head.take()
                {
                    let mut received = received(now, began, response);
                    received.size = size;
                    let _ = head.send(Ok(received));
                }
            }
            Event::ResponseChunk { id, bytes, last } => self.on_chunk(id, bytes, last),
            Event::BodyNeeded(id) => {
                if let Some(Pending {
                    waiting: Waiting::Response { starved, .. },
                    ..
                }) = self.pending.get(&id)
                    && let Some(starved) = starved
                {
                    // Stores a permit if nobody waits yet, so that the call is not lost.
                    starved.notify_one();
                }
            }
            Event::ResponseSuppressed(id) => self.fail(now, id, FailureCause::Suppressed, None),
            Event::MulticastResponse { id, from, response } => {
                self.on_multicast_response(now, id, from, response, failed);
            }
            Event::MulticastComplete(id) => drop(self.remove(id)),
            Event::Pong(id) => {
                let Some(pending) = self.remove(id) else {
                    return;
                };
                if let Waiting::Pong { reply, .. } = pending.waiting {
                    let _ = reply.send(Ok(now.since(pending.began).into()));
                }
            }
            Event::Failed { id, failure } => {
                self.fail(now, id, FailureCause::Failure(failure), failed);
            }
            _ => debug_assert!(false, "an event unknown to this driver"),
        }
    }

    /// An observation, the time at which it began, and its peer.
    fn observation(
        &mut self,
        id: RequestId,
    ) -> Option<(&mut SharedObservation, Instant, SocketAddr)> {
        match self.pending.get_mut(&id)? {
            Pending {
                began,
                to,
                waiting: Waiting::Observation(shared),
            } => Some((shared, *began, *to)),
            _ => None,
        }
    }

    fn on_response(&mut self, now: Instant, id: RequestId, response: Response) {
        let Some(pending) = self.remove(id) else {
            return;
        };
        let received = received(now, pending.began, response);
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

    fn on_chunk(&mut self, id: RequestId, bytes: Bytes, last: bool) {
        if let Some(Pending {
            waiting: Waiting::Response {
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

    fn on_multicast_response(
        &mut self,
        now: Instant,
        id: RequestId,
        from: SocketAddr,
        response: Result<Response, Failure>,
        failed: Option<&FailedPeer>,
    ) {
        let Some(Pending {
            began,
            waiting: Waiting::Members { members, .. },
            ..
        }) = self.pending.get(&id)
        else {
            return;
        };
        let outcome = match response {
            Ok(response) => Ok(received(now, *began, response)),
            Err(failure) => Err(RequestFailure {
                why: FailureCause::Failure(failure),
                link: link_of(failed, from),
                after: now.since(*began).into(),
            }),
        };
        let _ = members.send((from, outcome));
    }

    fn fail(
        &mut self,
        now: Instant,
        id: RequestId,
        why: FailureCause,
        failed: Option<&FailedPeer>,
    ) {
        let Some(pending) = self.remove(id) else {
            return;
        };
        let failure = RequestFailure {
            why,
            link: link_of(failed, pending.to),
            after: now.since(pending.began).into(),
        };
        pending.fail(failure);
    }
}

fn received(now: Instant, began: Instant, response: Response) -> Received {
    Received {
        response,
        size: None,
        after: now.since(began).into(),
    }
}

/// The cause for which `peer` failed, if it is the one that did.
fn link_of(failed: Option<&FailedPeer>, peer: SocketAddr) -> Option<LinkFailure> {
    failed
        .filter(|(of, _)| *of == peer)
        .map(|(_, failure)| failure.clone())
}

impl Pending {
    /// Visits the tickets of waiting applications.
    fn visit_tickets(&self, mut visit: impl FnMut(u64)) {
        match &self.waiting {
            Waiting::Response { ticket, .. }
            | Waiting::Members { ticket, .. }
            | Waiting::Pong { ticket, .. } => visit(*ticket),
            Waiting::Observation(shared) => shared.tickets().for_each(visit),
        }
    }

    /// Fails the waiting request or observation.
    fn fail(self, failed: RequestFailure) {
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
            Waiting::Members { members, .. } => {
                let _ = members.send((self.to, Err(failed)));
            }
            Waiting::Pong { reply, .. } => {
                let _ = reply.send(Err(failed));
            }
        }
    }
}
