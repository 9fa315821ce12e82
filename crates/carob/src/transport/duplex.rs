//! Byte streams below connections.

use std::io;

use carob_proto::endpoint::Disconnect;
#[cfg(any(feature = "tls", feature = "websocket"))]
use tokio::io::{AsyncRead, AsyncWrite};

/// A byte stream in both directions.
#[cfg(any(feature = "tls", feature = "websocket"))]
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

#[cfg(any(feature = "tls", feature = "websocket"))]
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// The way a connection ended that failed with this error.
pub(crate) fn disconnect_of(error: &io::Error) -> Disconnect {
    match error.kind() {
        // TLS without close_notify, too: CoAP messages carry their own length.
        io::ErrorKind::UnexpectedEof => Disconnect::Closed,
        _ => Disconnect::Broken,
    }
}
