//! The interface of a DTLS library, so that another can replace the one in use.

use std::time::Instant;

/// One end of a DTLS session, without socket or clock.
///
/// After each call the caller polls until [`DtlsOutput::Nothing`]. The caller times
/// retransmissions: a flight is sent again only by [`resend`](Self::resend), or in reply to a
/// retransmission of the peer.
pub(crate) trait SecureDatagram: Send {
    /// Processes a datagram. Once keys are established, unauthenticated data is dropped without an
    /// error.
    fn receive(&mut self, now: Instant, datagram: &[u8]) -> Result<(), DtlsError>;
    /// Encrypts a message; valid after [`DtlsOutput::Connected`].
    fn send(&mut self, message: &[u8]) -> Result<(), DtlsError>;
    /// Retransmits the current flight of the handshake.
    fn resend(&mut self, now: Instant) -> Result<(), DtlsError>;
    /// Sends close_notify.
    fn close(&mut self);
    /// A plaintext fatal alert of this endpoint, before keys are established.
    fn alert(&mut self, number: u8) -> Vec<u8>;
    /// The certificates that followed the peer's own certificate (DER); stored until
    /// [`DtlsOutput::Connected`].
    fn chain(&self, own: &[u8]) -> &[Vec<u8>];
    /// The next output. The buffer must hold the longest datagram, message or certificate.
    fn poll<'a>(&mut self, buffer: &'a mut [u8]) -> DtlsOutput<'a>;
}

/// An output of a session.
#[derive(Debug)]
pub(crate) enum DtlsOutput<'a> {
    /// Send this datagram; `fresh` unless it is a retransmission.
    Datagram { bytes: &'a [u8], fresh: bool },
    /// A message was received.
    Message(&'a [u8]),
    /// The peer's certificate; reported before anything is sent that relies on it.
    Certificate(&'a [u8]),
    /// The identity claimed by the client, and whether it has a key.
    Identity { identity: Vec<u8>, known: bool },
    /// The peer's proof of possession cannot be decrypted: its key may differ.
    NotProven,
    /// The handshake is complete: the peer has proven its identity.
    Connected,
    /// The peer has closed the session.
    Closed,
    /// No output until the next call.
    Nothing,
}

/// Fatal error of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DtlsError {
    /// An alert of the peer.
    Alert(u8),
    /// The peer's proof of possession is invalid: its key differs.
    NotProven,
    /// The two sides have no suite in common.
    NoCommonSuite,
    /// Another error of the library.
    Library(String),
}

impl DtlsError {
    /// The alert that reports the failed handshake to the peer, unless the peer reported it (RFC
    /// 5246 7.2.2).
    pub(crate) fn alert(&self) -> Option<u8> {
        match self {
            Self::Alert(_) => None,
            Self::NoCommonSuite => Some(40),
            // The same alert for a wrong key and for an unknown identity (RFC 4279 2).
            Self::NotProven => Some(51),
            Self::Library(_) => Some(80),
        }
    }
}
