//! The causes for which a peer cannot be reached.

use std::io;
use std::sync::Arc;

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
    Handshake(Arc<super::dtls::HandshakeError>),
    /// The connection could not be made.
    NotConnected(Arc<io::Error>),
}
