//! Transports: UDP, DTLS, TCP, TLS and WebSocket.
//!
//! A [`Transport`] moves bytes between sockets and the layer above it, which it knows as
//! [`Engine`]. Everything the engine transmits goes into the transport's [`Outbound`] half.
//! Layers, from the bottom: [`socket`] (UDP sockets in batches), [`duplex`] (byte streams);
//! [`udp`] with [`dtls`] as one of its protections; [`tls`] and [`websocket`], over which
//! [`tcp`] runs connections (RFC 8323).

pub(crate) mod capture;
#[cfg(feature = "dtls")]
pub mod dtls;
mod duplex;
pub(crate) mod handshake;
#[cfg(any(feature = "dtls", feature = "tls"))]
pub(crate) mod key_log;
pub(crate) mod limits;
pub(crate) mod socket;
mod sources;
pub(crate) mod tcp;
#[cfg(any(feature = "dtls", feature = "tls"))]
pub mod tls;
pub(crate) mod udp;
#[cfg(feature = "websocket")]
pub(crate) mod websocket;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;

use carob_cc::time::Instant;
use carob_proto::endpoint::Endpoint;
#[cfg(feature = "dtls")]
use carob_proto::endpoint::SessionEnd;

use capture::Capture;
use handshake::PeerIdentity;

/// The cause for which a peer cannot be reached, as a transport reports it.
#[derive(Clone, Debug)]
pub(crate) enum LinkFailure {
    /// The system, or ICMP, reports this error number for datagrams.
    Unreachable(i32),
    /// The system, or ICMP, reports this error number during a DTLS handshake.
    #[cfg(feature = "dtls")]
    HandshakeUnreachable(i32),
    /// The DTLS handshake failed.
    #[cfg(feature = "dtls")]
    Handshake(Arc<dtls::HandshakeError>),
    /// The connection could not be made.
    NotConnected(Arc<io::Error>),
}

/// Sends and receives messages for one engine.
pub(crate) trait Transport: Send {
    /// The sink for the messages of the engine.
    fn outbound(&mut self) -> &mut impl Outbound;
    /// Waits until there is something to receive. Cancel-safe.
    fn ready(&mut self) -> impl Future<Output = io::Result<()>> + Send;
    /// Hands one batch of received messages to the engine. Returns whether more may wait.
    fn receive(&mut self, engine: &mut impl Engine) -> bool;
    /// Sends the messages of the outbound half.
    fn flush(&mut self, engine: &mut impl Engine) -> impl Future<Output = io::Result<()>> + Send;
    /// The time of the transport's own next timer.
    fn deadline(&self) -> Option<Instant> {
        None
    }
    /// Executes the timers that are due.
    fn on_timer(&mut self, _engine: &mut impl Engine, _now: Instant) {}
    /// Queues the last messages of open sessions, which the next flush sends.
    fn close(&mut self) {}
    /// Counters and sizes for metrics.
    fn counts(&self) -> TransportCounts;
}

/// Sink for the messages of the engine.
pub(crate) trait Outbound {
    /// Returns whether the sink holds enough for one turn.
    fn is_full(&self) -> bool;
    /// Returns whether the sink must be flushed before more is received. Datagrams never need it:
    /// they are short, and each causes few replies.
    fn must_flush(&self) -> bool {
        false
    }
    /// Queues a datagram, or a message over a connection.
    fn transmit(&mut self, capture: &mut Capture, now: Instant, to: SocketAddr, bytes: &[u8]);
    /// Records that the current request is answered later, so its destination is remembered.
    fn answered_later(&mut self) {}
    /// Opens a connection or session.
    fn connect(&mut self, to: SocketAddr) {
        debug_assert!(false, "no connection is made with {to} here");
    }
    /// Sets the host name by which the peer is contacted.
    fn set_peer_name(&mut self, _to: SocketAddr, _name: &Arc<str>) {}
    /// Returns whether the transport authenticates peers.
    fn is_secured(&self) -> bool {
        false
    }
    /// The authenticated identity of a peer; `None` for an unauthenticated transport.
    fn identity(&self, _peer: SocketAddr) -> Option<Arc<PeerIdentity>> {
        None
    }
    /// Open sessions and their limit; `None` for a transport without sessions.
    fn sessions(&self) -> Option<(usize, usize)> {
        None
    }
    /// Closes a connection once its queue is sent.
    fn close(&mut self, to: SocketAddr) {
        debug_assert!(false, "there is no connection with {to} here");
    }
    /// Ends the session with a peer at the application's request. Returns whether there is one.
    fn end_session(&mut self, _peer: SocketAddr) -> bool {
        false
    }
}

/// The layer above a transport: the protocol engine, its clock and its users.
pub(crate) trait Engine: Send {
    /// The current time.
    fn now(&self) -> Instant;
    /// `at` on the clock of the standard library, of which only differences count.
    #[cfg(feature = "dtls")]
    fn std_time(&self, at: Instant) -> std::time::Instant;
    /// The protocol engine. Every call that is given input is followed by [`drain`](Self::drain).
    fn endpoint(&mut self) -> &mut Endpoint;
    /// The observer of datagrams.
    fn capture(&mut self) -> &mut Capture;
    /// Executes the engine's outputs, until it waits or `out` is full.
    fn drain(&mut self, out: &mut impl Outbound, now: Instant);
    /// Returns whether `out` must be flushed before more is received.
    fn must_flush(&self, out: &impl Outbound) -> bool;
    /// Returns whether the engine has more to do than one turn takes.
    fn has_more(&self) -> bool;
    /// Ends the exchanges of an ended session.
    #[cfg(feature = "dtls")]
    fn session_ended(&mut self, now: Instant, peer: SocketAddr, end: SessionEnd);
    /// Fails the exchanges with an unreachable peer, because of `failure`.
    fn peer_failed(
        &mut self,
        out: &mut impl Outbound,
        now: Instant,
        peer: SocketAddr,
        failure: LinkFailure,
    );
}

/// Counters of a transport since it was opened, and its sizes now.
#[cfg_attr(
    not(feature = "metrics"),
    allow(dead_code, reason = "read by metrics alone")
)]
#[derive(Clone, Copy, Debug)]
pub(crate) enum TransportCounts {
    /// UDP.
    Datagrams {
        /// Datagrams that the system dropped because the receive buffer was full.
        dropped: u64,
    },
    /// DTLS.
    #[cfg(feature = "dtls")]
    Secured {
        /// Datagrams that the system dropped because the receive buffer was full.
        dropped: u64,
        /// Open sessions.
        sessions: usize,
        /// Handshakes in progress.
        handshakes: usize,
        /// Handshakes that led to a session.
        done: u64,
        /// Handshakes that failed.
        failed: u64,
        /// Sessions closed at the limit, and after their idle time.
        closed: (u64, u64),
        /// HelloVerifyRequests sent (RFC 6347 4.2.1).
        cookies: u64,
        /// Handshakes refused by admission control.
        refused: u64,
        /// The limits on sessions and handshakes.
        limits: (usize, usize),
    },
    /// TCP, TLS and WebSocket.
    Streams {
        /// Connections accepted.
        accepted: u64,
        /// Connections refused.
        refused: u64,
        /// Connections made.
        made: u64,
        /// Connections that could not be made.
        failed: u64,
        /// Handshakes of accepted connections over TLS or WebSocket: done, failed, refused by admission control.
        handshakes: Option<(u64, u64, u64)>,
    },
}

/// Yields to other tasks. `tokio::task::yield_now` would resume on the same worker after all its
/// tasks: one that blocks its worker would block the caller. Waking before yielding lets another
/// worker resume it.
pub(crate) async fn yield_to_peers() {
    let mut waited = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
