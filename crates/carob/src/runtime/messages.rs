//! Messages between clients or servers and the task of an endpoint.
//!
//! [`Command`]s are bounded: their senders wait. [`RequestControl`]s are not, but each request in
//! progress has at most a few of them queued, so that the limit on requests bounds them.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use carob_cc::controller::Gauge;
use carob_proto::endpoint::{
    Failure, MulticastRequest, RequestConfig, RequestError, Snapshot, Usage,
};
use carob_proto::message::{Request, Response};
use futures_util::future::try_join_all;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::updates::Updates;
use crate::config::PeerConfig;
use crate::transport::LinkFailure;
use crate::transport::handshake::PeerIdentity;

/// Commands of applications; senders wait while [`COMMANDS`](super::task::COMMANDS) are queued.
pub(crate) enum Command {
    Request(Box<NewRequest>),
    Multicast(Box<NewMulticast>),
    Ping(Ping),
    SetPeer(Box<(SocketAddr, PeerConfig)>),
    Gauges(
        SocketAddr,
        oneshot::Sender<Option<Vec<(&'static str, Gauge)>>>,
    ),
    Snapshot(SocketAddr, oneshot::Sender<Option<Snapshot>>),
    Identity(SocketAddr, oneshot::Sender<Option<Arc<PeerIdentity>>>),
    EndSession(SocketAddr, oneshot::Sender<bool>),
    Peers(oneshot::Sender<Vec<SocketAddr>>),
    Usage(oneshot::Sender<Usage>),
    Shutdown {
        limit: Duration,
        done: oneshot::Sender<ShutdownOutcome>,
    },
}

/// Controls of a request in progress.
#[derive(Debug)]
pub(crate) enum RequestControl {
    /// Cancels a request whose receiver was dropped. At most one for a request.
    Cancel(u64),
    /// Deregisters an observation. At most one for a request.
    StopObserving(u64),
    /// More of a request's body. At most one for each
    /// [`BodyNeeded`](carob_proto::endpoint::Event::BodyNeeded).
    Supply {
        ticket: u64,
        bytes: Bytes,
        last: bool,
    },
    /// A chunk of a response's body was taken. At most as many as there were chunks.
    ReadOn(u64),
}

/// A request of an application.
pub(crate) struct NewRequest {
    pub(crate) ticket: u64,
    pub(crate) to: SocketAddr,
    /// The host name of the URI, if it matters to the transport.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) request: Request,
    pub(crate) sending: RequestConfig,
    pub(crate) reply: ReplyTo,
}

/// A multicast request of an application.
pub(crate) struct NewMulticast {
    pub(crate) ticket: u64,
    pub(crate) to: SocketAddr,
    pub(crate) request: Request,
    pub(crate) gathering: MulticastRequest,
    pub(crate) members: Members,
}

/// Sender of a group's responses. The queue is bounded by
/// [`Limits::multicast_responses`](carob_proto::endpoint::Limits::multicast_responses).
pub(crate) type Members = mpsc::UnboundedSender<(SocketAddr, Result<Received, RequestFailure>)>;

/// A ping of an application.
pub(crate) struct Ping {
    pub(crate) ticket: u64,
    pub(crate) to: SocketAddr,
    /// The host name, as in a request.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) reply: oneshot::Sender<Result<Duration, RequestFailure>>,
}

/// Receivers of a request's outcome.
pub(crate) struct ReplyTo {
    /// The response, or its beginning.
    pub(crate) head: oneshot::Sender<Result<Received, RequestFailure>>,
    /// The parts of its body, if streamed. The engine sends as many as were asked for with
    /// `read_on` and sixteen more, which bounds this queue.
    pub(crate) parts: Option<mpsc::UnboundedSender<Result<(Bytes, bool), RequestFailure>>>,
    /// Notified when a streamed request body needs more data.
    pub(crate) starved: Option<Arc<Notify>>,
    /// The receivers of an observation.
    pub(crate) observing: Option<Observing>,
}

/// Receivers of an observation.
#[derive(Debug)]
pub(crate) struct Observing {
    /// The application, after the first state.
    pub(crate) updates: Arc<Updates>,
    /// The cache to store representations in.
    pub(crate) cache_writer: Option<Box<dyn RepresentationSink>>,
}

/// A store for the representations of an observation, filled before the application receives them:
/// a cache.
pub(crate) trait RepresentationSink: fmt::Debug + Send {
    /// Stores a notification, or the last response.
    fn store(&mut self, response: &Response, peer: SocketAddr);
}

/// A response, or the head of a streamed one.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) response: Response,
    /// Size of a streamed body, if the server sent it.
    pub(crate) size: Option<u64>,
    pub(crate) after: Duration,
}

/// A failed request.
#[derive(Clone, Debug)]
pub(crate) struct RequestFailure {
    pub(crate) why: FailureCause,
    /// The cause for which the peer cannot be reached, where its transport reported one.
    pub(crate) link: Option<LinkFailure>,
    /// Time since the request was made.
    pub(crate) after: Duration,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum FailureCause {
    Refused(RequestError),
    Failure(Failure),
    /// The response was suppressed (RFC 7967).
    Suppressed,
}

impl NewRequest {
    pub(crate) fn refuse(self, why: FailureCause) {
        let _ = self.reply.head.send(Err(RequestFailure::at_once(why)));
    }
}

impl NewMulticast {
    pub(crate) fn refuse(self, why: FailureCause) {
        let _ = self
            .members
            .send((self.to, Err(RequestFailure::at_once(why))));
    }
}

impl Ping {
    pub(crate) fn refuse(self, why: FailureCause) {
        let _ = self.reply.send(Err(RequestFailure::at_once(why)));
    }
}

impl RequestFailure {
    pub(super) fn at_once(why: FailureCause) -> Self {
        Self {
            why,
            link: None,
            after: Duration::ZERO,
        }
    }
}

/// Outcome of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShutdownOutcome {
    /// All pending requests finished.
    Drained,
    /// The time limit passed, and these were aborted.
    Aborted {
        /// Received requests whose handlers were still running.
        handlers: usize,
        /// Own requests without a response.
        requests: usize,
        /// Own messages without an acknowledgement.
        exchanges: usize,
    },
}

/// The application's side of a task: its queues, and its end.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(super) commands: mpsc::Sender<Command>,
    pub(crate) control: mpsc::UnboundedSender<RequestControl>,
    pub(super) next_ticket: AtomicU64,
    pub(super) local: SocketAddr,
    pub(super) ended: watch::Receiver<Ended>,
}

/// The end of a task; `None` while it runs.
pub(super) type Ended = Option<Result<(), Arc<io::Error>>>;

/// Waits until a task has ended. Error: the one that ended it.
async fn until_ended(mut ended: watch::Receiver<Ended>) -> io::Result<()> {
    match ended.wait_for(Option::is_some).await.as_deref() {
        Ok(Some(Err(error))) => Err(match error.raw_os_error() {
            // Callers look for the number of the system, which a wrapped error hides.
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::new(error.kind(), Arc::clone(error)),
        }),
        Ok(_) => Ok(()),
        Err(_) => Err(io::Error::other("the driver of a socket panicked")),
    }
}

/// Waits until all of these tasks have ended, or one of them with an error.
pub(crate) async fn all_ended(handles: Vec<Arc<Handle>>) -> io::Result<()> {
    let ended: Vec<_> = handles.iter().map(|handle| handle.ended.clone()).collect();
    // A handle held here would keep its endpoint from ending.
    drop(handles);
    try_join_all(ended.into_iter().map(until_ended)).await?;
    Ok(())
}

impl Handle {
    pub(crate) fn ticket(&self) -> u64 {
        // Relaxed: the numbers must differ, nothing else is ordered by them.
        self.next_ticket.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Queues a command; returns false if the task has stopped.
    pub(crate) async fn command(&self, command: Command) -> bool {
        self.commands.send(command).await.is_ok()
    }

    /// Sends a command and waits for its reply; `None` if the task has stopped.
    pub(crate) async fn ask<T>(
        &self,
        ask: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        self.commands.send(ask(sender)).await.ok()?;
        receiver.await.ok()
    }
}

impl ShutdownOutcome {
    /// The outcome of two endpoints together.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Drained, other) => other,
            (own, Self::Drained) => own,
            (
                Self::Aborted {
                    handlers: a,
                    requests: b,
                    exchanges: c,
                },
                Self::Aborted {
                    handlers,
                    requests,
                    exchanges,
                },
            ) => Self::Aborted {
                handlers: a + handlers,
                requests: b + requests,
                exchanges: c + exchanges,
            },
        }
    }
}

/// Stops several endpoints at once. Returns their joint outcome.
pub(crate) async fn shutdown_all(handles: Vec<Arc<Handle>>, limit: Duration) -> ShutdownOutcome {
    let mut asked = Vec::with_capacity(handles.len());
    for handle in handles {
        let (done, ended) = oneshot::channel();
        if handle.command(Command::Shutdown { limit, done }).await {
            asked.push(ended);
        }
    }
    let mut outcome = ShutdownOutcome::Drained;
    // Only now, so that all endpoints use the same time limit at once.
    for ended in asked {
        outcome = outcome.and(ended.await.unwrap_or(ShutdownOutcome::Drained));
    }
    outcome
}
