//! Replies to requests.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use carob_proto::message::{Payload, Response};
use tokio::sync::mpsc;

use super::answer::Cancel;
use crate::error::Error;
use crate::runtime::{Handle, RequestControl, RequestFailure};

/// Source of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The network: the server's response to this request.
    Network,
    /// A fresh response of the client's cache; no message was sent (RFC 7252 section 5.6.1).
    Fresh,
    /// A stale response of the client's cache that the server confirmed with 2.03 (RFC 7252 section
    /// 5.6.2).
    Validated,
}

/// Response with its sender, its time and its origin. Dereferences to [`Response`].
///
/// ```no_run
/// # async fn example(client: carob::Client) -> Result<(), carob::Error> {
/// let reply = client.get("coap://example.org/sensors/7").await?.success()?;
/// println!("{:?} from {} after {:?}", reply.format(), reply.peer, reply.after);
/// println!("{}", reply.text().unwrap_or("not UTF-8"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Reply {
    /// Code, options and body.
    pub response: Response,
    /// Sender; of a cached response, the original sender.
    pub peer: SocketAddr,
    /// Time from the request to the end of the response.
    pub after: Duration,
    /// Source of the response.
    pub origin: Origin,
}

impl Reply {
    /// Returns the body as text; `None` if it is not UTF-8.
    pub fn text(&self) -> Option<&str> {
        core::str::from_utf8(self.bytes()).ok()
    }

    /// Returns the reply if its code is not of class 4 or 5.
    ///
    /// ```no_run
    /// # async fn example(client: carob::Client) -> Result<(), carob::Error> {
    /// let reply = client.get("coap://[::1]/sensors/7").await?.success()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Response`] for codes 4.xx and 5.xx, with the diagnostic payload.
    pub fn success(self) -> Result<Self, Error> {
        match self.error_for_code() {
            Some(error) => Err(error),
            None => Ok(self),
        }
    }

    /// Returns [`Error::Response`] for codes 4.xx and 5.xx, else `None`.
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

/// First part of a response whose body is read as it arrives
/// ([`RequestBuilder::send_streaming`](super::RequestBuilder::send_streaming)).
#[derive(Debug)]
pub struct StreamedReply {
    /// Code and options, with an empty payload.
    pub head: Response,
    /// Size of the body in bytes, if known: from Size2, or of a body that has arrived completely.
    pub size: Option<u64>,
    /// Sender; of a cached response, the original sender.
    pub peer: SocketAddr,
    /// Time from the request to this first part.
    pub after: Duration,
    /// Source of the response.
    pub origin: Origin,
    /// Body, block by block.
    pub body: BodyStream,
}

impl StreamedReply {
    /// Returns the reply if its code is not of class 4 or 5.
    ///
    /// # Errors
    ///
    /// [`Error::Response`] for codes 4.xx and 5.xx, with the first part of the body as diagnostic
    /// payload.
    pub async fn success(mut self) -> Result<Self, Error> {
        if Error::of_response(&self.head).is_none() {
            return Ok(self);
        }
        // The code is reported even if the diagnostic payload does not arrive.
        let text = self.body.chunk().await.ok().flatten().unwrap_or_default();
        self.head.payload = Payload::Whole(text);
        Error::of_response(&self.head).map_or(Ok(self), Err)
    }

    /// Converts a complete reply into a streamed one.
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
        // The receiver is held here, so this cannot fail.
        let _ = sender.send(Ok((bytes, true)));
        // No request has this ticket.
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

/// Body of a response, block by block. Blocks are requested as they are read. Dropping it ends the
/// transfer.
#[derive(Debug)]
pub struct BodyStream {
    pub(super) parts: mpsc::UnboundedReceiver<Result<(Bytes, bool), RequestFailure>>,
    pub(super) cancel: Cancel,
    pub(super) peer: SocketAddr,
}

impl BodyStream {
    /// Returns the next part, or `None` after the last. A slow reader slows the transfer down.
    ///
    /// Cancel safe: dropping the future loses no part.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] or [`Error::Timeout`] if the transfer breaks off; afterwards `None`.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        if self.cancel.ended {
            return Ok(None);
        }
        match self.parts.recv().await {
            Some(Ok((bytes, last))) => {
                if last {
                    self.cancel.ended = true;
                } else {
                    // A stopped driver is reported at the next chunk.
                    let _ = self
                        .cancel
                        .handle
                        .control
                        .send(RequestControl::ReadOn(self.cancel.ticket));
                }
                Ok(Some(bytes))
            }
            Some(Err(failed)) => {
                self.cancel.ended = true;
                Err(failed.into_public(self.peer))
            }
            None => {
                self.cancel.ended = true;
                Err(Error::Closed)
            }
        }
    }
}
