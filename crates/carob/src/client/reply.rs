//! What comes back.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carob_proto::message::{Payload, Response};
use tokio::sync::mpsc;

use super::Cancel;
use crate::driver::{Failed, Handle, Note};
use crate::error::Error;

/// Where a response came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From the server, just now.
    Network,
    /// From the client's cache: it is fresh, and nothing was sent (RFC 7252 5.6.1).
    Fresh,
    /// From the client's cache, after the server had found it valid (RFC 7252 5.6.2).
    Validated,
}

/// A response with what is known about how it came. It can be used like a [`Response`].
#[derive(Clone, Debug)]
pub struct Reply {
    /// The response.
    pub response: Response,
    /// Who sent it; of a fresh one from the cache, at the time.
    pub peer: SocketAddr,
    /// Time from the request to the response, its whole body included.
    pub after: Duration,
    /// Where it came from.
    pub origin: Origin,
}

impl Reply {
    /// The body as text, if it is.
    pub fn text(&self) -> Option<&str> {
        core::str::from_utf8(self.bytes()).ok()
    }

    /// The reply if its code is of class 2; the error that it is otherwise.
    ///
    /// ```no_run
    /// # async fn example(client: carob::Client) -> Result<(), carob::Error> {
    /// let reply = client.get("coap://[::1]/sensors/7").await?.success()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn success(self) -> Result<Self, Error> {
        match self.error_for_code() {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }

    /// The error that the reply is, if its code is of class 4 or 5: [`Error::Response`].
    pub fn error_for_code(&self) -> Option<Error> {
        Error::of_response(&self.response)
    }
}

impl Deref for Reply {
    type Target = Response;

    fn deref(&self) -> &Response {
        &self.response
    }
}

/// The beginning of a response whose body is read as it arrives.
#[derive(Debug)]
pub struct StreamedReply {
    /// Code and options; the payload is empty.
    pub head: Response,
    /// Size of the body, if the server told.
    pub size: Option<u64>,
    /// Who sends it.
    pub peer: SocketAddr,
    /// Time from the request to this beginning.
    pub after: Duration,
    /// Where it came from.
    pub origin: Origin,
    /// The body.
    pub body: BodyStream,
}

impl StreamedReply {
    /// A reply that is here already, as one whose body is read.
    pub(super) fn of(reply: Reply, handle: Arc<Handle>) -> Self {
        let Reply {
            mut response,
            peer,
            after,
            origin,
        } = reply;
        let bytes = response.bytes().clone();
        response.payload = Payload::Whole(Bytes::new());
        let (sender, parts) = mpsc::unbounded_channel();
        let size = Some(bytes.len() as u64);
        // The receiver is in hand, so this cannot fail.
        let _ = sender.send(Ok((bytes, true)));
        // Nothing is under way under this ticket.
        let cancel = Cancel {
            ticket: handle.ticket(),
            handle,
            ended: false,
        };
        Self {
            head: response,
            size,
            peer,
            after,
            origin,
            body: BodyStream {
                parts,
                cancel,
                peer,
            },
        }
    }
}

/// A response's body as it arrives. Dropping it ends the transfer.
#[derive(Debug)]
pub struct BodyStream {
    pub(super) parts: mpsc::UnboundedReceiver<Result<(Bytes, bool), Failed>>,
    pub(super) cancel: Cancel,
    pub(super) peer: SocketAddr,
}

impl BodyStream {
    /// The next part; nothing after the last. A slow reader slows the transfer down.
    ///
    /// Dropping this future loses no part.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        if self.cancel.ended {
            return Ok(None);
        }
        match self.parts.recv().await {
            Some(Ok((bytes, last))) => {
                if last {
                    self.cancel.ended = true;
                } else {
                    // A driver that has stopped says so at the next part.
                    let _ = self
                        .cancel
                        .handle
                        .notes
                        .send(Note::ReadOn(self.cancel.ticket));
                }
                Ok(Some(bytes))
            }
            Some(Err(failed)) => {
                self.cancel.ended = true;
                Err(failed.for_people(self.peer))
            }
            None => {
                self.cancel.ended = true;
                Err(Error::Closed)
            }
        }
    }
}
