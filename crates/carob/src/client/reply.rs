//! Replies to requests: pending in an endpoint's task, single, and of each member of a group.

use std::io;
use std::net::SocketAddr;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use carob_proto::endpoint::Failure;
use carob_proto::message::{Payload, Response};
use futures_core::Stream;
use tokio::sync::{mpsc, oneshot};

use crate::error::Error;
use crate::runtime::{FailureCause, Handle, Received, RequestControl, RequestFailure};
use crate::transport::LinkFailure;

#[cfg(feature = "dtls")]
use crate::transport::dtls::HandshakeError;

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

/// A pending reply of the endpoint's task; dropping it cancels the request.
#[derive(Debug)]
pub(super) struct Answer<T> {
    receiver: Option<oneshot::Receiver<T>>,
    pub(super) cancel: Cancel,
}

/// Cancels a request when dropped, unless it has ended.
#[derive(Debug)]
pub(super) struct Cancel {
    pub(super) handle: Arc<Handle>,
    pub(super) ticket: u64,
    pub(super) ended: bool,
}

impl<T> Answer<T> {
    pub(super) fn new(handle: &Arc<Handle>, ticket: u64, receiver: oneshot::Receiver<T>) -> Self {
        let cancel = Cancel {
            handle: Arc::clone(handle),
            ticket,
            ended: false,
        };
        Self {
            receiver: Some(receiver),
            cancel,
        }
    }

    /// Waits for the reply, which ends the request.
    pub(super) async fn wait(mut self) -> Option<T> {
        let answer = self.receive().await;
        self.cancel.ended = true;
        answer
    }

    /// Waits for the reply; `None` if the driver has stopped.
    pub(super) async fn receive(&mut self) -> Option<T> {
        self.receiver.as_mut()?.await.ok()
    }

    /// Returns the guard that cancels the request when dropped.
    pub(super) fn into_cancel(mut self) -> Cancel {
        self.receiver = None;
        let Self { cancel, .. } = self;
        cancel
    }
}

impl Drop for Cancel {
    fn drop(&mut self) {
        if !self.ended {
            // A stopped driver has no request to cancel.
            let _ = self
                .handle
                .control
                .send(RequestControl::Cancel(self.ticket));
        }
    }
}

impl RequestFailure {
    /// Converts a failure into the public error.
    pub(super) fn into_public(self, peer: SocketAddr) -> Error {
        let failure = match self.why {
            FailureCause::Refused(source) => return Error::NotSent { peer, source },
            FailureCause::Failure(failure) => failure,
            FailureCause::Suppressed => {
                let after = self.after;
                return Error::ResponseSuppressed { peer, after };
            }
        };
        #[cfg(feature = "dtls")]
        if let (Failure::Unreachable, Some(LinkFailure::Handshake(why))) = (failure, &self.link) {
            let source = HandshakeError::clone(why);
            return Error::Handshake { peer, source };
        }
        match failure {
            Failure::Unreachable => {
                let source = match self.link {
                    Some(LinkFailure::Unreachable(number)) => io::Error::from_raw_os_error(number),
                    #[cfg(feature = "dtls")]
                    Some(LinkFailure::HandshakeUnreachable(number)) => {
                        io::Error::from_raw_os_error(number)
                    }
                    Some(LinkFailure::NotConnected(error)) => match error.raw_os_error() {
                        Some(number) => io::Error::from_raw_os_error(number),
                        None => io::Error::other(error),
                    },
                    _ => io::Error::other("reported by the network"),
                };
                Error::Unreachable { peer, source }
            }
            Failure::TimedOut { .. } | Failure::NoResponse | Failure::DeadlinePassed => {
                Error::Timeout {
                    peer,
                    after: self.after,
                    failure,
                }
            }
            Failure::ShutDown => Error::Closed,
            _ => Error::Failed { peer, failure },
        }
    }
}

/// `Stream` (of the crate `futures-core`) of the responses to a [multicast
/// request](super::RequestBuilder::multicast), in the order of their arrival (RFC 7252 section
/// 8.2).
///
/// The stream ends when the time of the request is over and all bodies begun before are complete.
/// Dropping it ends the request at once.
///
/// The rest of a body in several blocks is requested from its sender by unicast. If that fails, the
/// stream yields an error for this member and continues.
#[derive(Debug)]
pub struct MulticastResponses {
    members: mpsc::UnboundedReceiver<(SocketAddr, Result<Received, RequestFailure>)>,
    cancel: Cancel,
    group: SocketAddr,
}

impl MulticastResponses {
    pub(super) fn new(
        members: mpsc::UnboundedReceiver<(SocketAddr, Result<Received, RequestFailure>)>,
        cancel: Cancel,
        group: SocketAddr,
    ) -> Self {
        Self {
            members,
            cancel,
            group,
        }
    }

    /// Returns the destination of the request.
    pub fn group(&self) -> SocketAddr {
        self.group
    }

    /// Returns the next reply, or `None` after the end.
    ///
    /// Cancel safe: dropping the future loses no reply.
    pub async fn next(&mut self) -> Option<Result<Reply, Error>> {
        std::future::poll_fn(|context| self.poll_reply(context)).await
    }

    fn poll_reply(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Reply, Error>>> {
        let next = std::task::ready!(self.members.poll_recv(context));
        let Some((peer, received)) = next else {
            self.cancel.ended = true;
            return Poll::Ready(None);
        };
        Poll::Ready(Some(match received {
            Ok(received) => Ok(Reply {
                response: received.response,
                peer,
                after: received.after,
                origin: Origin::Network,
            }),
            Err(failed) => Err(failed.into_public(peer)),
        }))
    }
}

impl Stream for MulticastResponses {
    type Item = Result<Reply, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_reply(context)
    }
}
