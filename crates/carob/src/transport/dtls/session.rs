//! The DTLS session of a client without socket or clock, for applications that drive the engine
//! ([`carob_proto::Endpoint`]) over their own sockets.
//!
//! As with the engine, the caller drains [`poll`](ClientSession::poll) after each call until it
//! returns [`Nothing`](SessionOutput::Nothing). The caller also times the retransmission of a
//! flight ([`resend`](ClientSession::resend)); RFC 6347 4.2.4.1 suggests 1 s, doubled at each
//! retransmission, and 1 s again for each new flight.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use carob_cc::time::Instant;
use carob_proto::Escaped;
use carob_proto::endpoint::SessionEnd;

use super::dimpl_config::ClientSide;
use super::secure::{DtlsError, DtlsOutput, SecureDatagram};
use super::verify::{NotTrusted, ServerVerifier};
use super::{Credential, HandshakeError};
use crate::transport::dtls::record;
use crate::transport::tls::TlsError;

/// Length in bytes of the longest output of a session: a reassembled certificate.
pub const SESSION_BUFFER: usize = 256 << 10;

/// Shared state of a client's sessions with one credential. Created once, because it may read the
/// system's certificates and tests its cryptography.
#[derive(Clone)]
pub struct ClientSessions {
    pub(crate) side: ClientSide,
    /// `None` if servers are authenticated by a key.
    pub(crate) verifier: Option<ServerVerifier>,
    /// The PSK identity sent to servers.
    pub(crate) identity: Option<Vec<u8>>,
    /// The origin of the library's time, of which it uses differences only.
    zero: std::time::Instant,
}

impl fmt::Debug for ClientSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSessions")
            .field("certificates", &self.verifier.is_some())
            .finish_non_exhaustive()
    }
}

impl ClientSessions {
    /// Creates the shared state of sessions with this credential. Fails with
    /// [`NoCredential`](HandshakeError::NoCredential) if the credential cannot be used over DTLS,
    /// or if there are no trust anchors.
    pub fn new(credential: &Credential) -> Result<Self, HandshakeError> {
        Self::of(credential).map_err(|error| HandshakeError::NoCredential {
            problem: error.to_string(),
        })
    }

    pub(crate) fn of(credential: &Credential) -> Result<Self, TlsError> {
        let zero = std::time::Instant::now();
        Ok(match credential {
            Credential::PreSharedKey(key) => Self {
                side: ClientSide::with_key(key.clone())?,
                verifier: None,
                identity: Some(key.identity().to_vec()),
                zero,
            },
            Credential::Certificates(tls) => Self {
                side: ClientSide::with_certificates(tls.own())?,
                verifier: Some(ServerVerifier::new(tls.roots()?)?),
                identity: None,
                zero,
            },
        })
    }

    /// Returns whether servers are authenticated by certificates, not by a key.
    pub fn by_certificate(&self) -> bool {
        self.verifier.is_some()
    }

    /// Starts a session; its first datagram is ready to be polled. The server's certificate must
    /// match `name`, or the server's address without a name.
    pub fn connect(
        &self,
        now: Instant,
        server: SocketAddr,
        name: Option<&Arc<str>>,
    ) -> Result<ClientSession, HandshakeError> {
        let library = self.side.connect(at(self.zero, now));
        let library = library.map_err(|broken| HandshakeError::of(broken, None, false))?;
        Ok(ClientSession {
            library: Box::new(library),
            verifier: self.verifier.clone(),
            identity: self.identity.clone(),
            server,
            name: name.cloned(),
            zero: self.zero,
            state: State::Young,
            peer_responded: false,
            proven: false,
            copies: 0,
            suite: None,
            alert: None,
            end: None,
        })
    }
}

/// The name of a supported suite in IANA's registry of TLS cipher suites (RFC 6655 6, RFC 5289 7,
/// RFC 7905 4).
fn suite_name(number: u16) -> Option<&'static str> {
    Some(match number {
        0xc0a8 => "TLS_PSK_WITH_AES_128_CCM_8",
        0xc02b => "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        0xc02c => "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        0xcca9 => "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        _ => return None,
    })
}

fn at(zero: std::time::Instant, now: Instant) -> std::time::Instant {
    zero + Duration::from_micros(now.as_micros())
}

/// Error of sending without a session: not yet established, or ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no session to send a message in")]
pub struct SessionClosed(());

/// An output of a session.
#[derive(Debug)]
#[non_exhaustive]
pub enum SessionOutput<'a> {
    /// Send this datagram to the server.
    Datagram {
        /// The datagram.
        bytes: &'a [u8],
        /// The datagram is no retransmission. In a handshake: its flight is sent for the first
        /// time, and its timer starts.
        fresh: bool,
    },
    /// The handshake is complete: the server is authenticated, and messages may be sent.
    Connected,
    /// The server has sent this message.
    Message(&'a [u8]),
    /// The handshake has failed; there is no session.
    Failed(HandshakeError),
    /// The session has ended; report it to
    /// [`Endpoint::session_ended`](carob_proto::Endpoint::session_ended).
    Ended(SessionEnd),
    /// No output until the next call.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The handshake is in progress.
    Young,
    Connected,
    /// The session has ended or was closed; a last datagram may follow.
    Over,
    /// The handshake has failed. None of its datagrams may leave any more: they would trust the
    /// server.
    Failed,
}

#[derive(Debug)]
enum End {
    Failed(HandshakeError),
    Ended(SessionEnd),
}

impl From<End> for SessionOutput<'_> {
    fn from(end: End) -> Self {
        match end {
            End::Failed(error) => Self::Failed(error),
            End::Ended(why) => Self::Ended(why),
        }
    }
}

/// A client's end of a session with one server.
///
/// After each call it is [polled](Self::poll) until [`Nothing`](SessionOutput::Nothing).
///
/// ```no_run
/// # fn example(socket: std::net::UdpSocket) -> Result<(), Box<dyn std::error::Error>> {
/// use carob::PreSharedKey;
/// use carob::dtls::{ClientSessions, Credential, SESSION_BUFFER, SessionOutput};
/// use carob_cc::time::Instant;
///
/// let key = PreSharedKey::from_text("sensor-1", &std::env::var("CAROB_PSK")?)?;
/// let sessions = ClientSessions::new(&Credential::PreSharedKey(key))?;
/// let start = std::time::Instant::now();
/// let now = || Instant::from_micros(start.elapsed().as_micros() as u64);
/// let mut session = sessions.connect(now(), socket.peer_addr()?, None)?;
/// let mut buffer = vec![0; SESSION_BUFFER];
/// let mut datagram = [0; 2_048];
/// loop {
///     match session.poll(&mut buffer) {
///         SessionOutput::Datagram { bytes, .. } => _ = socket.send(bytes)?,
///         SessionOutput::Connected => session.send(b"\x40\x01\x00\x01")?,
///         SessionOutput::Message(message) => break println!("{message:x?}"),
///         SessionOutput::Failed(error) => return Err(error.into()),
///         SessionOutput::Ended(why) => return Err(why.to_string().into()),
///         SessionOutput::Nothing => {
///             let length = socket.recv(&mut datagram)?;
///             session.receive(now(), &datagram[..length]);
///         }
///         _ => {}
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct ClientSession {
    library: Box<dyn SecureDatagram>,
    verifier: Option<ServerVerifier>,
    identity: Option<Vec<u8>>,
    server: SocketAddr,
    name: Option<Arc<str>>,
    zero: std::time::Instant,
    state: State,
    /// The server has responded.
    peer_responded: bool,
    /// The own proof of possession of the key was sent.
    proven: bool,
    /// Transmissions of the current flight.
    copies: usize,
    suite: Option<u16>,
    /// The alert for the server at the end, and the reason for the caller.
    alert: Option<Vec<u8>>,
    end: Option<End>,
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSession")
            .field("server", &self.server)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl ClientSession {
    /// Processes a datagram of the server. Data that is not of the session is ignored.
    pub fn receive(&mut self, now: Instant, datagram: &[u8]) {
        // Not even a record: a forged datagram proves no peer.
        if record::first(datagram).is_none() {
            return;
        }
        self.peer_responded = true;
        // Later records in clear may be from anyone.
        if self.state == State::Young && self.suite.is_none() {
            self.suite = record::records(datagram).find_map(|record| record.chosen_suite());
        }
        let taken = self.library.receive(at(self.zero, now), datagram);
        self.note(taken);
    }

    /// Encrypts a message; the datagram is ready to be polled. Fails unless the session is
    /// [connected](SessionOutput::Connected).
    pub fn send(&mut self, message: &[u8]) -> Result<(), SessionClosed> {
        if self.state != State::Connected {
            return Err(SessionClosed(()));
        }
        self.library.send(message).map_err(|_| SessionClosed(()))
    }

    /// Retransmits the current flight after its timeout. RFC 6347 4.2.4.1 suggests an initial
    /// timeout of 1 s for each flight, doubled at each retransmission.
    pub fn resend(&mut self, now: Instant) {
        if self.state == State::Young {
            self.copies += 1;
            let sent = self.library.resend(at(self.zero, now));
            self.note(sent);
        }
    }

    /// Sends close_notify once; it is ready to be polled. An incomplete handshake is dropped
    /// silently.
    pub fn close(&mut self) {
        self.state = State::Over;
        self.library.close();
    }

    /// The next output. The buffer must have [`SESSION_BUFFER`] bytes.
    pub fn poll<'a>(&mut self, buffer: &'a mut [u8]) -> SessionOutput<'a> {
        enum Step {
            Datagram(usize, bool),
            Message(usize),
            Connected,
        }
        // The alert leaves first: the caller stops at the end.
        if let Some(end) = self.end.take_if(|_| self.alert.is_none()) {
            return end.into();
        }
        if let Some(alert) = self.alert.take() {
            let bytes = &mut buffer[..alert.len()];
            bytes.copy_from_slice(&alert);
            let fresh = true;
            return SessionOutput::Datagram { bytes, fresh };
        }
        if self.state == State::Failed {
            return SessionOutput::Nothing;
        }
        let step = loop {
            break match self.library.poll(buffer) {
                DtlsOutput::Datagram { bytes, fresh } => {
                    self.proven |= record::records(bytes).any(|record| record.epoch > 0);
                    if fresh {
                        self.copies = 1;
                    }
                    Step::Datagram(bytes.len(), fresh)
                }
                DtlsOutput::Message(bytes) => Step::Message(bytes.len()),
                DtlsOutput::Certificate(der) => {
                    // An unrequested certificate proves nothing.
                    let Some(verifier) = &self.verifier else {
                        continue;
                    };
                    let chain = self.library.chain(der);
                    let checked = verifier.check(der, chain, self.name.as_deref(), self.server);
                    let Err(NotTrusted { problem, alert }) = checked else {
                        continue;
                    };
                    self.fail(HandshakeError::NotTrusted { problem }, Some(alert));
                    return self.poll(buffer);
                }
                DtlsOutput::Connected => {
                    self.state = State::Connected;
                    Step::Connected
                }
                DtlsOutput::Closed => {
                    // Reported once the reply has left.
                    if self.state == State::Connected {
                        self.state = State::Over;
                        self.end = Some(End::Ended(SessionEnd::Closed));
                    }
                    continue;
                }
                // Outputs of servers only.
                DtlsOutput::Identity { .. } | DtlsOutput::NotProven => continue,
                DtlsOutput::Nothing if self.end.is_some() => return self.poll(buffer),
                DtlsOutput::Nothing => return SessionOutput::Nothing,
            };
        };
        match step {
            Step::Datagram(length, fresh) => SessionOutput::Datagram {
                bytes: &buffer[..length],
                fresh,
            },
            Step::Message(length) => SessionOutput::Message(&buffer[..length]),
            Step::Connected => SessionOutput::Connected,
        }
    }

    /// The error of a handshake that is given up without a response of the server.
    pub fn given_up(&self) -> HandshakeError {
        match &self.identity {
            _ if !self.peer_responded => HandshakeError::NoAnswer {
                copies: self.copies,
            },
            // A server with another key cannot read the Finished, and drops it silently (RFC 6347
            // 4.1.2.7).
            Some(identity) if self.proven => HandshakeError::WrongKey {
                identity: Escaped(identity).to_string(),
            },
            _ => HandshakeError::Silent,
        }
    }

    /// The selected cipher suite, by its name in IANA's registry; `None` before the ServerHello.
    pub fn suite(&self) -> Option<&'static str> {
        self.suite.and_then(suite_name)
    }

    fn note(&mut self, done: Result<(), DtlsError>) {
        let Err(broken) = done else { return };
        match self.state {
            State::Young => {
                let alert = broken.alert();
                let error = HandshakeError::of(broken, self.identity.as_deref(), self.proven);
                self.fail(error, alert);
            }
            State::Connected => {
                self.state = State::Over;
                self.end = Some(End::Ended(SessionEnd::Broken));
            }
            State::Over | State::Failed => {}
        }
    }

    fn fail(&mut self, error: HandshakeError, alert: Option<u8>) {
        self.state = State::Failed;
        self.alert = alert.map(|number| self.library.alert(number));
        self.end = Some(End::Failed(error));
    }
}

#[cfg(test)]
mod tests;
