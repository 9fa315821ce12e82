//! One registration for all who observe the same thing (RFC 7641 3.1).
//!
//! The server knows one observer; what it tells is passed on to each listener. The last of them to
//! go ends it.

use std::net::SocketAddr;

use carob_proto::codec::CacheKey;
use carob_proto::message::Request;
use tokio::sync::oneshot;

use super::requests::{Failed, Received};
use super::updates::{Heard, Teller};
use crate::client::Keeper;

/// The key of an observation: whom it asks, and the [Cache-Key](CacheKey::Observation) of its request.
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

/// Somebody who observes.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) ticket: u64,
    /// Taken once the first state was told.
    pub(super) head: Option<oneshot::Sender<Result<Received, Failed>>>,
    pub(super) updates: Teller,
}

/// An observation and who listens to it.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) target: Target,
    listeners: Vec<Listener>,
    /// The newest state, and whether it is older than it was promised to be.
    last: Option<Received>,
    stale: bool,
    keeper: Option<Keeper>,
}

impl Listener {
    fn state(&mut self, received: Received) {
        match self.head.take() {
            // Whoever waited may have gone; then nobody needs it, here and below.
            Some(head) => _ = head.send(Ok(received)),
            None => self.updates.state(received),
        }
    }

    fn end(self, received: Received) {
        match self.head {
            Some(head) => _ = head.send(Ok(received)),
            None => self.updates.end(Heard::Ended(received)),
        }
    }

    fn fail(self, failed: Failed) {
        match self.head {
            Some(head) => _ = head.send(Err(failed)),
            None => self.updates.end(Heard::Failed(failed)),
        }
    }
}

impl Shared {
    pub(super) fn new(target: Target, first: Listener, keeper: Option<Keeper>) -> Self {
        Self {
            target,
            listeners: vec![first],
            last: None,
            stale: false,
            keeper,
        }
    }

    pub(super) fn tickets(&self) -> impl Iterator<Item = u64> {
        self.listeners.iter().map(|listener| listener.ticket)
    }

    pub(super) fn is_deserted(&self) -> bool {
        self.listeners.is_empty()
    }

    /// Another one listens, and is told what is known.
    pub(super) fn join(&mut self, mut listener: Listener, keeper: Option<Keeper>) {
        // A server's own client has no cache; others that share its endpoint may.
        self.keeper = self.keeper.take().or(keeper);
        if let Some(last) = &self.last {
            listener.state(last.clone());
            if self.stale {
                listener.updates.stale(None);
            }
        }
        self.listeners.push(listener);
    }

    /// One goes without a word.
    pub(super) fn leave(&mut self, ticket: u64) {
        self.listeners.retain(|listener| listener.ticket != ticket);
    }

    /// One wants to know no more: whether the others go on, and it was told what is known.
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
        self.keep(&received);
        for listener in &mut self.listeners {
            listener.state(received.clone());
        }
        (self.last, self.stale) = (Some(received), false);
    }

    pub(super) fn stale(&mut self, failed: Option<&Failed>) {
        self.stale = true;
        for listener in &self.listeners {
            listener.updates.stale(failed.cloned());
        }
    }

    /// Has a cache know it before anybody is told.
    fn keep(&mut self, received: &Received) {
        if let Some(keeper) = &mut self.keeper {
            keeper.keep(&received.response, self.target.to);
        }
    }

    /// The server's last word.
    pub(super) fn end(mut self, received: &Received) {
        self.keep(received);
        for listener in self.listeners {
            listener.end(received.clone());
        }
    }

    pub(super) fn fail(self, failed: &Failed) {
        for listener in self.listeners {
            listener.fail(failed.clone());
        }
    }
}
