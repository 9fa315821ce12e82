//! What a group answers: a stream of replies, one from each member.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::sync::mpsc;

use super::{Cancel, Origin, Reply};
use crate::driver::{Failed, Received};
use crate::error::Error;

/// The replies of a group's members (RFC 7252 8.2), in the order in which they come.
///
/// It is a [`Stream`], and has [`next`](Self::next) for those who need no more. It ends when the
/// time given to [`gather`](super::RequestBuilder::gather) is over and what had begun to come by then
/// is complete. Dropping it ends it at once.
///
/// A member that keeps a large body in blocks is asked for the rest of it alone; if that fails, there
/// is an error in the place of its reply, and the stream goes on.
#[derive(Debug)]
pub struct Gathered {
    members: mpsc::UnboundedReceiver<(SocketAddr, Result<Received, Failed>)>,
    cancel: Cancel,
    group: SocketAddr,
}

impl Gathered {
    pub(super) fn new(
        members: mpsc::UnboundedReceiver<(SocketAddr, Result<Received, Failed>)>,
        cancel: Cancel,
        group: SocketAddr,
    ) -> Self {
        Self {
            members,
            cancel,
            group,
        }
    }

    /// The group that was asked.
    pub fn group(&self) -> SocketAddr {
        self.group
    }

    /// The next reply; nothing after the end. Dropping this future loses none.
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
            Err(failed) => Err(failed.for_people(peer)),
        }))
    }
}

impl Stream for Gathered {
    type Item = Result<Reply, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_reply(context)
    }
}
