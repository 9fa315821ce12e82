//! Multicast responses: a stream of replies, one for each member of the group.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::sync::mpsc;

use super::answer::Cancel;
use super::{Origin, Reply};
use crate::error::Error;
use crate::runtime::{Received, RequestFailure};

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
