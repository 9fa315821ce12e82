//! The seam between a task and the server above it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use carob_cc::time::Instant;
use carob_proto::codec::Scheme;
use carob_proto::endpoint::{Endpoint, IncomingId, Subject};

use crate::transport::handshake::PeerIdentity;

/// Facts of a transport with sessions about a request.
#[derive(Debug, Default)]
pub(crate) struct SessionFacts {
    /// The peer's identity.
    pub(crate) identity: Option<Arc<PeerIdentity>>,
    /// Open sessions and their limit; `None` for a transport without sessions.
    pub(crate) sessions: Option<(usize, usize)>,
}

/// Handler of the requests that an engine receives.
///
/// Handlers run in separate tasks and report through the service's queue of completions, which the
/// runtime's task processes in turn with its other inputs.
pub(crate) trait Service: Send {
    /// Handles a request received.
    fn on_request(
        &mut self,
        endpoint: &mut Endpoint,
        now: Instant,
        id: IncomingId,
        session: SessionFacts,
    ) -> Disposition;
    /// Removes a subject without observers.
    fn on_unobserved(&mut self, subject: Subject);
    /// Discards the incomplete bodies of an ended session.
    #[cfg(feature = "dtls")]
    fn on_session_ended(&mut self, peer: SocketAddr);
    /// Waits for a completion. Cancel-safe.
    fn poll_completion(&mut self, context: &mut Context<'_>) -> Poll<()>;
    /// Executes the next completion. Returns false if there is none.
    fn complete_next(&mut self, endpoint: &mut Endpoint, now: Instant) -> bool;
    /// Queued completions.
    fn completions(&self) -> usize;
    /// Returns whether handlers were started since the last call.
    fn has_begun(&mut self) -> bool;
    /// Handlers running, and the limit on them.
    fn load(&self) -> (usize, usize);
    /// Refuses new requests from now on.
    fn stop(&mut self);
}

/// The time at which a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// The request has been answered.
    Answered,
    /// A handler responds later.
    Pending,
}

/// Factory of the services of endpoints.
pub(crate) trait MakeService {
    /// Creates the service of an endpoint that receives requests over `scheme` at `local`.
    fn make(
        &self,
        endpoint: &mut Endpoint,
        scheme: Scheme,
        local: SocketAddr,
        seed: u64,
    ) -> Box<dyn Service>;
}
