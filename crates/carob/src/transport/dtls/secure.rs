//! The interface of a DTLS library, so that another can replace the one in use.

use std::time::Instant;

/// One end of one session, without socket or clock.
///
/// After each call it is polled until it says [`DtlsOutput::Nothing`]. When copies leave is the caller's
/// decision: none is sent again but by [`resend`](Self::resend), or because the peer asks.
pub(crate) trait SecureDatagram: Send {
    /// Takes a datagram. What cannot be authenticated is dropped without an error, once there are
    /// keys.
    fn receive(&mut self, now: Instant, datagram: &[u8]) -> Result<(), DtlsError>;
    /// Encrypts a message; only where [`DtlsOutput::Connected`] was said.
    fn send(&mut self, message: &[u8]) -> Result<(), DtlsError>;
    /// Sends the present flight of the handshake again.
    fn resend(&mut self, now: Instant) -> Result<(), DtlsError>;
    /// Says close_notify.
    fn close(&mut self);
    /// A fatal alert of ours, in the clear: there are no keys yet.
    fn alert(&mut self, number: u8) -> Vec<u8>;
    /// The certificates that the peer has sent after this one, its own (DER); kept until
    /// [`DtlsOutput::Connected`].
    fn chain(&self, own: &[u8]) -> &[Vec<u8>];
    /// The next output. The buffer must hold the longest datagram, message or certificate.
    fn poll<'a>(&mut self, buffer: &'a mut [u8]) -> DtlsOutput<'a>;
}

/// An output of a session.
#[derive(Debug)]
pub(crate) enum DtlsOutput<'a> {
    /// Send this datagram; `fresh` if it is no copy of one before.
    Datagram { bytes: &'a [u8], fresh: bool },
    /// This has come.
    Message(&'a [u8]),
    /// The peer's certificate; nothing is sent that trusts it before this is said.
    Certificate(&'a [u8]),
    /// The client at the other end says that this is its identity, and it is one that is known,
    /// or not.
    Identity { identity: Vec<u8>, known: bool },
    /// The peer's proof that it has the key cannot be read, so it may be that its key is another
    /// one.
    NotProven,
    /// The handshake is over: the peer has proven what it said.
    Connected,
    /// The peer has closed the session.
    Closed,
    /// Nothing.
    Nothing,
}

/// The reason for which a session cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DtlsError {
    /// The peer says so.
    Alert(u8),
    /// The peer's proof that it has the key is none: its key is another one.
    NotProven,
    /// There is no suite that both sides know.
    NoCommonSuite,
    /// The library says this.
    Library(String),
}

impl DtlsError {
    /// The alert that tells the peer of the end of a handshake, if it does not know (RFC 5246 7.2.2).
    pub(crate) fn alert(&self) -> Option<u8> {
        match self {
            Self::Alert(_) => None,
            Self::NoCommonSuite => Some(40),
            // Whether the key is wrong or the identity not known (RFC 4279 2).
            Self::NotProven => Some(51),
            Self::Library(_) => Some(80),
        }
    }
}
