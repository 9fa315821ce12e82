//! Pending replies of an endpoint's task, and their errors.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use carob_proto::endpoint::Failure;
use tokio::sync::oneshot;

use crate::error::Error;
use crate::runtime::{FailureCause, Handle, RequestControl, RequestFailure};
use crate::transport::LinkFailure;
#[cfg(feature = "dtls")]
use crate::transport::dtls::HandshakeError;

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
