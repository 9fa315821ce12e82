//! What secures `coaps`, CoAP over DTLS 1.2 (RFC 7252 9): pre-shared keys and certificates, for each
//! peer and for each identity, and how many sessions there may be.
//!
//! Reading order: [`PreSharedKey`] and [`PskStore`] (keys), [`ClientDtls`] and [`ServerDtls`] (who
//! uses which), [`SessionLimits`], [`PeerIdentity`] (who is at the other end), [`HandshakeError`];
//! [`ClientSessions`] and [`ClientSession`] (a client's sessions over sockets that are not ours).
//! Inside: `secure` (what is asked of a DTLS library), `library` (the one that is used), `verify`
//! (certificates).
//!
//! What is not offered, because the library below has none of it: raw public keys and RSA keys,
//! connection IDs, resumption, the suite TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8, and names sent by a
//! client (SNI). Of a chain of certificates only the first can be sent, so an identity with a longer one
//! is refused; a peer's chain is read.

mod chain;
mod error;
mod keys;
pub(crate) mod library;
pub(crate) mod secure;
mod session;
mod verify;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::tls::{ClientTls, Identity, TlsError};

pub use error::HandshakeError;
pub use keys::{PreSharedKey, PskError, PskStore};
pub use session::{ClientSession, ClientSessions, NoSession, SESSION_BUFFER, SessionOutput};
pub(crate) use verify::{ClientVerifier, ServerVerifier};

/// Who is at the other end of a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PeerIdentity {
    /// A client that has proven to know the key of this identity, or a server that knows the key
    /// of the identity we gave it.
    PreSharedKey(Vec<u8>),
    /// The owner of this certificate (DER), which was checked against those that we trust.
    Certificate(Vec<u8>),
    /// A client that was not asked who it is.
    Anonymous,
}

/// How we prove who we are, and whom we believe.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Credential {
    /// A key that both sides know.
    PreSharedKey(PreSharedKey),
    /// Certificates: those we trust, and our own.
    Certificates(ClientTls),
}

/// What a client needs for DTLS.
///
/// Default: certificates, as [`Settings::tls`](crate::Settings::tls) has them.
#[derive(Clone, Debug, Default)]
pub struct ClientDtls {
    pub(crate) all: Option<Credential>,
    pub(crate) peers: BTreeMap<SocketAddr, Credential>,
}

impl ClientDtls {
    /// A client that knows its servers by certificates.
    pub fn new() -> Self {
        Self::default()
    }

    /// Uses this key with every server that is not given its own.
    pub fn psk(mut self, key: PreSharedKey) -> Self {
        self.all = Some(Credential::PreSharedKey(key));
        self
    }

    /// Uses these certificates with every server that is not given its own.
    pub fn certificates(mut self, tls: ClientTls) -> Self {
        self.all = Some(Credential::Certificates(tls));
        self
    }

    /// What is used with the server at this address.
    pub fn peer(mut self, peer: SocketAddr, credential: Credential) -> Self {
        self.peers.insert(peer, credential);
        self
    }
}

/// What a server needs for DTLS: keys of its clients, a certificate of its own, or both.
#[derive(Clone, Default)]
pub struct ServerDtls {
    pub(crate) keys: Option<PskStore>,
    pub(crate) hint: Option<Vec<u8>>,
    pub(crate) identity: Option<Identity>,
    pub(crate) clients: Option<Arc<rustls::RootCertStore>>,
}

impl fmt::Debug for ServerDtls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerDtls")
            .field("keys", &self.keys)
            .field("identity", &self.identity.is_some())
            .field("clients", &self.clients.is_some())
            .finish_non_exhaustive()
    }
}

impl ServerDtls {
    /// A server that nobody can connect to yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Clients with one of these keys may connect.
    pub fn keys(mut self, keys: PskStore) -> Self {
        self.keys = Some(keys);
        self
    }

    /// What clients are told that may help them choose an identity (RFC 4279 5.2).
    pub fn hint(mut self, hint: impl Into<Vec<u8>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Who we are, for clients that know servers by certificates. The key must be an ECDSA key on
    /// P-256 or P-384.
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Of these clients only those may connect that have a certificate of these, given as PEM.
    pub fn clients_pem(mut self, pem: &[u8]) -> Result<Self, TlsError> {
        self.clients = Some(Arc::new(crate::tls::roots(pem)?));
        Ok(self)
    }
}

/// What sessions may take.
///
/// What waits for a session waits in the engine, within
/// [`Limits::queue`](carob_proto::endpoint::Limits::queue).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionLimits {
    /// Sessions, handshakes not counted. At it, the one used longest ago is closed. Default 10,000.
    pub sessions: usize,
    /// Handshakes under way, of DTLS at a socket, or of TLS and WebSocket at another. At it, the one
    /// that began longest ago is dropped; no session is closed for one. A source that has its
    /// [share](carob_proto::endpoint::Limits::source_share) of them drops its own oldest for
    /// another. As a server we keep nothing of a client before it has shown that it receives what
    /// is sent to its address (RFC 6347 4.2.1). Default 1,000.
    pub handshakes: usize,
    /// Handshakes that a source may begin a second, in the long run, of DTLS, TLS and WebSocket. At
    /// it, a hello over DTLS is not answered, its client says it again later, and a connection is
    /// closed. 0: any number. Default 100.
    pub handshake_rate: usize,
    /// Handshakes that a source may begin at once, before its rate counts. Default 1,000.
    pub handshake_burst: usize,
    /// Percent of a processor's time that handshakes begun by others may take at a socket, of DTLS, TLS
    /// and WebSocket, in the long run and beyond a quarter of a second at once. At it, hellos over DTLS
    /// are not answered and connections are closed, whatever their source; there remains time for peers
    /// that have a session or a connection. 100: all of it. Default 50.
    pub handshake_work: u8,
    /// After this long without a message a session is closed. Default one hour.
    pub idle: Duration,
    /// How long a handshake may take, whatever its timers say. Default 93 s: MAX_TRANSMIT_WAIT, as
    /// long as a request may wait for its answer.
    pub handshake_time: Duration,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            sessions: 10_000,
            handshakes: 1_000,
            handshake_rate: 100,
            handshake_burst: 1_000,
            handshake_work: 50,
            idle: Duration::from_secs(3_600),
            handshake_time: Duration::from_secs(93),
        }
    }
}

impl SessionLimits {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with so many sessions.
    pub fn sessions(mut self, limit: usize) -> Self {
        self.sessions = limit.max(1);
        self
    }

    /// The same with so many handshakes at once.
    pub fn handshakes(mut self, limit: usize) -> Self {
        self.handshakes = limit.max(1);
        self
    }

    /// The same with so many handshakes of a source a second, 0 for any number, and so many at once.
    pub fn handshake_rate(mut self, rate: usize, burst: usize) -> Self {
        (self.handshake_rate, self.handshake_burst) = (rate, burst.max(1));
        self
    }

    /// The same with another share of processor time for handshakes, in percent.
    pub fn handshake_work(mut self, percent: u8) -> Self {
        self.handshake_work = percent.clamp(1, 100);
        self
    }

    /// The same with another time after which an unused session is closed.
    pub fn idle(mut self, time: Duration) -> Self {
        self.idle = time;
        self
    }

    /// The same with another limit on a handshake's time.
    pub fn handshake_time(mut self, time: Duration) -> Self {
        self.handshake_time = time;
        self
    }
}
