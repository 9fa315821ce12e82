//! One registration for all listeners of the same representation (RFC 7641 3.1).
//!
//! The server has one observer; its notifications are passed to each listener. When the last
//! listener leaves, the observation is deregistered.

use std::net::SocketAddr;

use carob_proto::cache_key::CacheKey;
use carob_proto::message::Request;
use tokio::sync::oneshot;

use super::messages::{Received, RepresentationSink, RequestFailure};
use super::updates::{ObservationUpdate, UpdateSender};

/// The key of an observation: its server, and the [Cache-Key](CacheKey::Observation) of its request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Target {
    to: SocketAddr,
    key: Box<[u8]>,
}

impl Target {
    pub(super) fn of(to: SocketAddr, request: &Request) -> Self {
        let key = CacheKey::Observation.of(request.code, &request.options, &request.payload);
        Self {
            to,
            key: key.into(),
        }
    }
}

/// An application's handle of a shared observation.
#[derive(Debug)]
pub(super) struct ObservationListener {
    pub(super) ticket: u64,
    /// Receiver of the first representation; taken once that was sent.
    pub(super) head: Option<oneshot::Sender<Result<Received, RequestFailure>>>,
    pub(super) updates: UpdateSender,
}

/// One registration at a server and the application's listeners that share it.
#[derive(Debug)]
pub(super) struct SharedObservation {
    pub(super) target: Target,
    listeners: Vec<ObservationListener>,
    /// The newest representation, and whether it is older than its Max-Age.
    last: Option<Received>,
    stale: bool,
    cache_writer: Option<Box<dyn RepresentationSink>>,
}

impl ObservationListener {
    fn state(&mut self, received: Received) {
        match self.head.take() {
            // The receiver may have been dropped; sending then has no effect, here and below.
            Some(head) => _ = head.send(Ok(received)),
            None => self.updates.state(received),
        }
    }

    fn end(self, received: Received) {
        match self.head {
            Some(head) => _ = head.send(Ok(received)),
            None => self.updates.end(ObservationUpdate::Ended(received)),
        }
    }

    fn fail(self, failed: RequestFailure) {
        match self.head {
            Some(head) => _ = head.send(Err(failed)),
            None => self.updates.end(ObservationUpdate::Failed(failed)),
        }
    }
}

impl SharedObservation {
    pub(super) fn new(
        target: Target,
        first: ObservationListener,
        cache_writer: Option<Box<dyn RepresentationSink>>,
    ) -> Self {
        Self {
            target,
            listeners: vec![first],
            last: None,
            stale: false,
            cache_writer,
        }
    }

    pub(super) fn tickets(&self) -> impl Iterator<Item = u64> {
        self.listeners.iter().map(|listener| listener.ticket)
    }

    pub(super) fn is_unobserved(&self) -> bool {
        self.listeners.is_empty()
    }

    /// Adds a listener, which receives the newest representation.
    pub(super) fn join(
        &mut self,
        mut listener: ObservationListener,
        cache_writer: Option<Box<dyn RepresentationSink>>,
    ) {
        // A server's own client has no cache; other clients of its endpoint may.
        self.cache_writer = self.cache_writer.take().or(cache_writer);
        if let Some(last) = &self.last {
            listener.state(last.clone());
            if self.stale {
                listener.updates.stale(None);
            }
        }
        self.listeners.push(listener);
    }

    /// Removes a listener without a last update.
    pub(super) fn leave(&mut self, ticket: u64) {
        self.listeners.retain(|listener| listener.ticket != ticket);
    }

    /// Ends a listener with the newest representation. Returns false, and does nothing, if it is
    /// the only one.
    pub(super) fn part(&mut self, ticket: u64) -> bool {
        if self.listeners.len() < 2 {
            return false;
        }
        let place = self.tickets().position(|other| other == ticket);
        if let (Some(place), Some(last)) = (place, self.last.clone()) {
            self.listeners.remove(place).end(last);
        }
        true
    }

    pub(super) fn state(&mut self, received: Received) {
        // Before listeners wake up: a request that one of them makes then finds the newest
        // state.
        self.keep(&received);
        for listener in &mut self.listeners {
            listener.state(received.clone());
        }
        (self.last, self.stale) = (Some(received), false);
    }

    pub(super) fn stale(&mut self, failed: Option<&RequestFailure>) {
        self.stale = true;
        for listener in &self.listeners {
            listener.updates.stale(failed.cloned());
        }
    }

    /// Stores the representation in the cache before listeners receive it.
    fn keep(&mut self, received: &Received) {
        if let Some(cache_writer) = &mut self.cache_writer {
            cache_writer.store(&received.response, self.target.to);
        }
    }

    /// Ends all listeners with the server's last response.
    pub(super) fn end(mut self, received: &Received) {
        self.keep(received);
        for listener in self.listeners {
            listener.end(received.clone());
        }
    }

    pub(super) fn fail(self, failed: &RequestFailure) {
        for listener in self.listeners {
            listener.fail(failed.clone());
        }
    }
}
