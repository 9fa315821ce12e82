//! A resource that is observed: a stream of its states.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::{Cancel, Origin, Reply};
use crate::driver::{Heard, Note, Received, Updates};
use crate::error::Error;

/// A resource that is observed (RFC 7641).
///
/// It is a [`Stream`] of updates, and has [`next`](Self::next) for those who need no more. Its
/// first update is the state that the registration was answered with.
///
/// It goes on for as long as it is held. When what it knows grows older than the server promised
/// (Max-Age), or a try to renew it fails, it says so with [`Update::Stale`] and registers again by
/// itself, less and less often; so it survives a restart of the server, and any length of silence.
/// It ends when the server ends it ([`Update::Ended`]), or with an error when the endpoint is shut
/// down.
///
/// Dropping it sends nothing: the server learns of it with its next notification, which is refused
/// (RFC 7641 3.6). [`stop`](Self::stop) tells the server at once.
///
/// Observations of the same thing by one client and its clones share one registration: the server
/// knows one observer (RFC 7641 3.1). Each is told everything, and the last of them ends it.
///
/// An application that takes updates more slowly than they come gets the newest; the states
/// between are [skipped](Self::skipped).
#[derive(Debug)]
pub struct Observation {
    first: Option<Received>,
    updates: Arc<Updates>,
    cancel: Cancel,
    peer: SocketAddr,
    observed: bool,
}

/// What an observation tells.
#[derive(Debug)]
#[non_exhaustive]
pub enum Update {
    /// A new state.
    State(Reply),
    /// What was told last is older than the server promised it to be. With an error if it is a try
    /// to renew the observation that failed; more follow.
    Stale(Option<Error>),
    /// The server's last word: an error such as 4.04, or a state of a resource that it does not,
    /// or not any more, let us observe.
    Ended(Reply),
}

impl Update {
    /// The response, if it is one.
    pub fn reply(&self) -> Option<&Reply> {
        match self {
            Self::State(reply) | Self::Ended(reply) => Some(reply),
            Self::Stale(_) => None,
        }
    }
}

impl Observation {
    pub(super) fn new(
        cancel: Cancel,
        peer: SocketAddr,
        first: Received,
        updates: Arc<Updates>,
        observed: bool,
    ) -> Self {
        Self {
            first: Some(first),
            updates,
            cancel,
            peer,
            observed,
        }
    }

    /// Whether the server has put us on its list. If not, the first update is the last.
    pub fn is_observed(&self) -> bool {
        self.observed
    }

    /// Who is observed.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// States that were skipped because newer ones had come before they were taken.
    pub fn skipped(&self) -> u64 {
        self.updates.skipped()
    }

    /// The next update; nothing after the end.
    ///
    /// Dropping this future loses no update.
    pub async fn next(&mut self) -> Option<Result<Update, Error>> {
        poll_fn(|context| self.poll_update(context)).await
    }

    /// Tells the server that we are not interested any more (RFC 7641 3.6), and waits for its
    /// answer, which is the resource's state.
    pub async fn stop(mut self) -> Result<Option<Reply>, Error> {
        if self.cancel.ended {
            return Ok(None);
        }
        let stop = Note::StopObserving(self.cancel.ticket);
        if self.cancel.handle.notes.send(stop).is_err() {
            return Err(Error::Closed);
        }
        loop {
            match self.next().await {
                Some(Ok(Update::Ended(reply))) => return Ok(Some(reply)),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Ok(None),
            }
        }
    }

    fn reply(&self, received: Received) -> Reply {
        Reply {
            response: received.response,
            peer: self.peer,
            after: received.after,
            origin: Origin::Network,
        }
    }

    fn poll_update(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Update, Error>>> {
        if let Some(first) = self.first.take() {
            let reply = self.reply(first);
            return Poll::Ready(Some(Ok(if self.observed {
                Update::State(reply)
            } else {
                Update::Ended(reply)
            })));
        }
        if self.cancel.ended {
            return Poll::Ready(None);
        }
        let Poll::Ready(heard) = self.updates.poll(context) else {
            return Poll::Pending;
        };
        let update = match heard {
            Some(Heard::State(received)) => Ok(Update::State(self.reply(received))),
            Some(Heard::Stale(failed)) => {
                let error = failed.map(|failed| failed.for_people(self.peer));
                Ok(Update::Stale(error))
            }
            Some(Heard::Ended(received)) => {
                self.cancel.ended = true;
                Ok(Update::Ended(self.reply(received)))
            }
            Some(Heard::Failed(failed)) => {
                self.cancel.ended = true;
                Err(failed.for_people(self.peer))
            }
            None => {
                self.cancel.ended = true;
                Err(Error::Closed)
            }
        };
        Poll::Ready(Some(update))
    }
}

impl Stream for Observation {
    type Item = Result<Update, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_update(context)
    }
}
