//! Observations (RFC 7641): streams of the states of a resource.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::reply::Cancel;
use super::{Origin, Reply};
use crate::error::Error;
use crate::runtime::{ObservationUpdate, Received, RequestControl, Updates};

/// Observation of a resource (RFC 7641): a `Stream` (of the crate `futures-core`) of [`Update`]s,
/// from [`RequestBuilder::observe`](super::RequestBuilder::observe).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use carob::client::Update;
/// use carob::server::{Notifier, Request, get};
/// use carob::{Client, Server};
///
/// let changes = Notifier::new();
/// let clock = get(|_: Request| async { "12:00" }).observable(&changes);
/// let server = Server::builder().bind("127.0.0.1:0").resource("/clock", clock).start().await?;
/// let uri = format!("coap://{}/clock", server.local_address());
/// let mut observation = Client::new()?.get(uri).observe().await?;
/// assert!(observation.is_observed());
/// for _ in 0..2 {
///     let Some(Ok(Update::State(reply))) = observation.next().await else { panic!() };
///     assert_eq!(reply.text(), Some("12:00"));
///     changes.changed();
/// }
/// # Ok(())
/// # }
/// ```
///
/// - **Start**: the first update is the response to the registration.
/// - **Renewal**: when a representation is older than its Max-Age, or an attempt to renew it fails,
///   the stream yields [`Update::Stale`] and registers again, at growing intervals. It thus
///   survives a restart of the server, and any length of silence.
/// - **End**: [`Update::Ended`] if the server ends the observation, an error if the endpoint is
///   shut down. Then the stream yields `None`.
/// - **Dropping** it sends nothing. The server's next notification is rejected, which ends the
///   registration (RFC 7641 section 3.6). [`stop`](Self::stop) deregisters at once.
/// - **Sharing**: observations of one resource with equal requests, by a client and its clones,
///   share one registration (RFC 7641 section 3.1). Each receives every update; the registration
///   ends with the last of them.
/// - **Backpressure**: at most 64 updates are kept for the application. At the limit the oldest is
///   dropped and counted ([`skipped`](Self::skipped)).
#[derive(Debug)]
pub struct Observation {
    first: Option<Received>,
    updates: Arc<Updates>,
    cancel: Cancel,
    peer: SocketAddr,
    observed: bool,
}

/// Update of an [`Observation`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Update {
    /// New state of the resource.
    State(Reply),
    /// The last representation is older than its Max-Age. The error is set if an attempt to
    /// register again failed. Further updates follow.
    Stale(Option<Error>),
    /// Last update. Either a final response of the server, such as 4.04, or a representation of a
    /// resource for which the server has no registration (any more).
    Ended(Reply),
}

impl Update {
    /// Returns the reply of the update; `None` for [`Stale`](Self::Stale).
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

    /// Returns whether the server registered the client. If not, the first update is the last.
    pub fn is_observed(&self) -> bool {
        self.observed
    }

    /// Returns the address of the server.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Returns the number of updates dropped because the application did not take them in time.
    pub fn skipped(&self) -> u64 {
        self.updates.skipped()
    }

    /// Returns the next update, or `None` after the end.
    ///
    /// Cancel safe: dropping the future loses no update.
    pub async fn next(&mut self) -> Option<Result<Update, Error>> {
        poll_fn(|context| self.poll_update(context)).await
    }

    /// Deregisters at the server (RFC 7641 section 3.6) and returns its response, the current state
    /// of the resource. `None` if the observation has ended already.
    ///
    /// While others [share](Observation) the registration, it remains, and the newest known state
    /// is returned.
    ///
    /// # Errors
    ///
    /// The error with which the observation ended; [`Error::Closed`].
    pub async fn stop(mut self) -> Result<Option<Reply>, Error> {
        // The server or a failure has ended it: there is nothing to deregister.
        if self.cancel.ended {
            return Ok(None);
        }
        let stop = RequestControl::StopObserving(self.cancel.ticket);
        if self.cancel.handle.control.send(stop).is_err() {
            return Err(Error::Closed);
        }
        loop {
            // Notifications that are already queued come before the last response.
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
            // A response without Observe: the server has not registered the client, and nothing
            // follows (RFC 7641 4.1).
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
            Some(ObservationUpdate::State(received)) => Ok(Update::State(self.reply(received))),
            Some(ObservationUpdate::Stale(failed)) => {
                let error = failed.map(|failed| failed.into_public(self.peer));
                Ok(Update::Stale(error))
            }
            Some(ObservationUpdate::Ended(received)) => {
                self.cancel.ended = true;
                Ok(Update::Ended(self.reply(received)))
            }
            Some(ObservationUpdate::Failed(failed)) => {
                self.cancel.ended = true;
                Err(failed.into_public(self.peer))
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
