//! What handshakes of DTLS, TLS and WebSocket share: the limit on their processor time, the identity that they
//! authenticate, reports of failures, and credentials that can be replaced.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
#[cfg(any(feature = "dtls", feature = "tls"))]
use std::sync::{Mutex, PoisonError};
use std::time::Duration as Span;

use carob_cc::time::{Duration, Instant};
use carob_proto::Escaped;
use carob_proto::codec::Scheme;

/// A handshake with a client that failed; see
/// [`Config::on_handshake_failed`](crate::Config::on_handshake_failed).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FailedHandshake<'a> {
    /// Time since the endpoint was opened, on the clock of
    /// [`Trace::at`](carob_proto::trace::Trace::at).
    pub at: Span,
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

/// Burst of processor time before the share applies. Meanwhile other traffic may wait.
pub(super) const AT_ONCE: Span = Span::from_millis(250);

/// A token bucket of processor time: its state is the time at which it will be full.
pub(super) struct HandshakeWork {
    percent: u64,
    full: Instant,
}

impl HandshakeWork {
    pub(super) fn new(percent: u8) -> Self {
        Self {
            percent: u64::from(percent.clamp(1, 100)),
            full: Instant::ZERO,
        }
    }

    /// The time in which the bucket refills by `work`.
    fn refill(&self, work: Span) -> Duration {
        let micros = u64::try_from(work.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(micros.saturating_mul(100) / self.percent)
    }

    /// Returns whether another handshake may begin.
    pub(super) fn has_room(&self, now: Instant) -> bool {
        // Decided before the work, whose duration is known only afterwards: the bucket may run
        // into debt.
        self.percent == 100 || self.full.since(now) < self.refill(AT_ONCE)
    }

    /// Counts time that a handshake took.
    pub(super) fn add(&mut self, now: Instant, work: Span) {
        self.full = self.full.max(now) + self.refill(work);
    }
}

/// Authenticated identity of the peer of a DTLS session.
#[derive(Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PeerIdentity {
    /// Pre-shared key identity (RFC 4279): of the client, or the one whose key the server has
    /// proven to know.
    PreSharedKey(Vec<u8>),
    /// Certificate of the peer (DER), verified against the trust anchors.
    Certificate(Vec<u8>),
    /// None: a client that was not required to have a certificate.
    Anonymous,
}

impl fmt::Debug for PeerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PreSharedKey(identity) => write!(f, "PreSharedKey(\"{}\")", Escaped(identity)),
            Self::Certificate(der) => write!(f, "Certificate({} bytes)", der.len()),
            Self::Anonymous => f.write_str("Anonymous"),
        }
    }
}

/// A shared value that handshakes read and the application replaces. Clones are one and the same.
#[cfg(any(feature = "dtls", feature = "tls"))]
pub(crate) struct Replaceable<T>(Arc<Mutex<Arc<T>>>);

#[cfg(any(feature = "dtls", feature = "tls"))]
impl<T> Replaceable<T> {
    pub(crate) fn new(value: Arc<T>) -> Self {
        Self(Arc::new(Mutex::new(value)))
    }

    pub(crate) fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set(&self, value: Arc<T>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = value;
    }
}

#[cfg(any(feature = "dtls", feature = "tls"))]
impl<T> Clone for Replaceable<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[cfg(any(feature = "dtls", feature = "tls"))]
impl<T> fmt::Debug for Replaceable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replaceable").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_shows_identity_as_text() {
        let shown =
            |identity: &[u8]| format!("{:?}", PeerIdentity::PreSharedKey(identity.to_vec()));
        assert_eq!(shown(b"meter-7"), r#"PreSharedKey("meter-7")"#);
        assert_eq!(shown(b"\xff"), r#"PreSharedKey("\xff")"#);
        let certificate = PeerIdentity::Certificate(vec![0; 400]);
        assert_eq!(format!("{certificate:?}"), "Certificate(400 bytes)");
    }
}
