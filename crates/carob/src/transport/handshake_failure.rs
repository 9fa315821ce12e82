//! Failed handshakes with clients, reported to the application.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use carob_proto::codec::Scheme;

/// A handshake with a client that failed; see
/// [`Config::on_handshake_failed`](crate::Config::on_handshake_failed).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FailedHandshake<'a> {
    /// Time since the endpoint was opened, on the clock of
    /// [`Trace::at`](carob_proto::trace::Trace::at).
    pub at: Duration,
    /// URI scheme of the transport.
    pub scheme: Scheme,
    /// Address of the client.
    pub peer: SocketAddr,
    /// Pre-shared key identity that the client named. It is not authenticated.
    pub identity: Option<&'a [u8]>,
    /// The reason: a [`HandshakeError`](crate::dtls::HandshakeError) of DTLS, an [`io::Error`](std::io::Error) of TLS and
    /// WebSocket.
    pub reason: &'a (dyn Error + 'static),
}

/// Callback for failed handshakes.
pub(crate) type OnHandshakeFailed = Arc<dyn Fn(&FailedHandshake<'_>) + Send + Sync>;
