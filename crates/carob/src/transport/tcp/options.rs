//! Options of stream transports: the protocols below connections, limits and timeouts.

use std::time::Duration;

use carob_proto::codec::{Framing, Scheme};
use carob_proto::tables::quota::QuotaPolicy;

use super::dial::{MakeSocket, OnSocket};
use crate::transport::handshake::OnHandshakeFailed;
use crate::transport::limits::SessionLimits;
#[cfg(feature = "tls")]
use crate::transport::tls::ClientTls;

/// The protocols below connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum StreamKind {
    /// `coap+tcp`.
    Tcp,
    /// `coaps+tcp`.
    #[cfg(feature = "tls")]
    Tls,
    /// `coap+ws`.
    #[cfg(feature = "websocket")]
    WebSocket,
    /// `coaps+ws`.
    #[cfg(all(feature = "tls", feature = "websocket"))]
    SecureWebSocket,
}

impl StreamKind {
    pub(crate) const ALL: &[Self] = &[
        Self::Tcp,
        #[cfg(feature = "tls")]
        Self::Tls,
        #[cfg(feature = "websocket")]
        Self::WebSocket,
        #[cfg(all(feature = "tls", feature = "websocket"))]
        Self::SecureWebSocket,
    ];

    /// The kind of a URI scheme, if that runs over connections and its features are enabled.
    pub(crate) fn of(scheme: Scheme) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|kind| kind.scheme() == scheme)
    }

    pub(crate) const fn scheme(self) -> Scheme {
        match self {
            Self::Tcp => Scheme::CoapTcp,
            #[cfg(feature = "tls")]
            Self::Tls => Scheme::CoapsTcp,
            #[cfg(feature = "websocket")]
            Self::WebSocket => Scheme::CoapWs,
            #[cfg(all(feature = "tls", feature = "websocket"))]
            Self::SecureWebSocket => Scheme::CoapsWs,
        }
    }

    pub(crate) const fn framing(self) -> Framing {
        match self {
            Self::Tcp => Framing::Stream,
            #[cfg(feature = "tls")]
            Self::Tls => Framing::Stream,
            #[cfg(feature = "websocket")]
            Self::WebSocket => Framing::WebSocket,
            #[cfg(all(feature = "tls", feature = "websocket"))]
            Self::SecureWebSocket => Framing::WebSocket,
        }
    }
}

/// The configuration of a [`StreamTransport`](super::StreamTransport).
pub(crate) struct StreamOptions {
    pub(crate) kind: StreamKind,
    pub(crate) make_socket: Option<MakeSocket>,
    pub(crate) on_socket: Option<OnSocket>,
    /// The time in which a connection is made, handshakes included.
    pub(crate) connect_timeout: Duration,
    /// The longest CoAP message received, in bytes.
    #[cfg_attr(
        not(feature = "websocket"),
        allow(dead_code, reason = "read there alone")
    )]
    pub(crate) max_message: usize,
    #[cfg(feature = "tls")]
    pub(crate) tls: ClientTls,
    /// Limits on handshakes of accepted connections.
    pub(crate) sessions: SessionLimits,
    pub(crate) quota_policy: QuotaPolicy,
    /// Sources whose handshake rate is tracked.
    pub(crate) sources: usize,
    pub(crate) on_failed: Option<OnHandshakeFailed>,
    /// Limit on the queued bytes of all connections.
    pub(crate) unsent_bytes: usize,
    /// Limit on closed connections whose queue is still written.
    pub(crate) closing: Option<usize>,
}
