//! `coaps`: CoAP over DTLS 1.2 (RFC 7252 section 9) with pre-shared keys and certificates.
//!
//! | type | task |
//! |---|---|
//! | [`PreSharedKey`], [`PskStore`] | keys, of a client and of a server |
//! | [`ClientDtls`], [`Credential`] | credentials of a client, for all servers or for one |
//! | [`ServerDtls`] | credentials of a server |
//! | [`SessionLimits`] | limits on sessions and handshakes |
//! | [`PeerIdentity`] | authenticated identity of a peer |
//! | [`HandshakeError`] | reason of a failed handshake |
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use carob::{Client, ClientDtls, Config, PreSharedKey};
//!
//! let key = PreSharedKey::from_text("device-7", "0x00112233445566778899aabbccddeeff")?;
//! let config = Config::new().dtls(ClientDtls::new().psk(key));
//! let client = Client::builder().config(config).open()?;
//! let reply = client.get("coaps://example.org/hello").await?;
//! # drop(reply);
//! # Ok(())
//! # }
//! ```
//!
//! Cipher suites: TLS_PSK_WITH_AES_128_CCM_8 with keys; TLS_ECDHE_ECDSA with AES-GCM or ChaCha20
//! with certificates.
//!
//! Not supported by the DTLS library: raw public keys, RSA keys, connection IDs, resumption,
//! TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8, and SNI of the client. Only one certificate can be sent, so
//! an identity with a longer chain is rejected; a peer's chain is verified.
// Modules: `secure` is the interface of a DTLS library, `dimpl_session` its implementation,
// `verify` checks certificates; `layer` holds the sessions of a socket, `handshakes` establishes
// them.

mod chain;
mod dimpl_config;
mod dimpl_hmac;
mod dimpl_session;
mod error;
mod handshakes;
pub(crate) mod hello;
mod keys;
mod layer;
pub(crate) mod record;
mod secure;
mod session;
mod session_io;
mod sessions;
mod verify;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::transport::socket::canonical;
use crate::transport::tls::{ClientTls, Identity, TlsError};

use dimpl_config::ClientSide;
pub use error::HandshakeError;
pub use keys::{PreSharedKey, PskError, PskStore};
pub(crate) use keys::{Server, ServerCredentials};
pub(crate) use layer::{DtlsLayer, DtlsOptions};
#[doc(hidden)]
pub use session::{ClientSession, ClientSessions, SESSION_BUFFER, SessionClosed, SessionOutput};
use verify::{ClientVerifier, ServerVerifier};

pub use crate::transport::handshake::PeerIdentity;
pub use crate::transport::limits::SessionLimits;

/// Credential of a DTLS client for one server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Credential {
    /// Pre-shared key.
    PreSharedKey(PreSharedKey),
    /// Trust anchors and client certificate.
    Certificates(ClientTls),
}

/// Credentials of a DTLS client, for [`Config::dtls`](crate::Config::dtls). Default: certificates
/// as set by [`Config::tls`](crate::Config::tls).
///
/// ```
/// use carob::dtls::Credential;
/// use carob::{ClientDtls, Config, PreSharedKey};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let gateway = PreSharedKey::from_text("device-7", "secret")?;
/// let dtls = ClientDtls::new()
///     // One server has a key; all others are verified with the system's trust anchors.
///     .peer("192.0.2.1:5684".parse()?, Credential::PreSharedKey(gateway));
/// let config = Config::new().dtls(dtls);
/// # let _ = config;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ClientDtls {
    pub(crate) all: Option<Credential>,
    pub(crate) peers: BTreeMap<SocketAddr, Credential>,
}

impl ClientDtls {
    /// Creates the default: servers are authenticated by certificates.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the pre-shared key for all servers without their own credential.
    pub fn psk(mut self, key: PreSharedKey) -> Self {
        self.all = Some(Credential::PreSharedKey(key));
        self
    }

    /// Sets trust anchors and client certificate for all servers without their own credential.
    pub fn certificates(mut self, tls: ClientTls) -> Self {
        self.all = Some(Credential::Certificates(tls));
        self
    }

    /// Sets the credential for the server at one address.
    pub fn peer(mut self, peer: SocketAddr, credential: Credential) -> Self {
        self.peers.insert(canonical(peer), credential);
        self
    }

    /// Returns an error for a key or certificate that no handshake could use.
    pub(crate) fn check(&self) -> Result<(), TlsError> {
        let mut credentials = self.all.iter().chain(self.peers.values());
        credentials.try_for_each(|credential| match credential {
            Credential::PreSharedKey(key) => ClientSide::with_key(key.clone()).map(drop),
            Credential::Certificates(tls) => ClientSide::with_certificates(tls.own()).map(drop),
        })
    }
}

/// Credentials of a DTLS server: keys of its clients, a certificate, or both. For
/// [`ServerBuilder::bind_dtls`](crate::server::ServerBuilder::bind_dtls).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use carob::server::fixed;
/// use carob::{Client, ClientDtls, Config, PreSharedKey, PskStore, Server, ServerDtls};
///
/// let key = || PreSharedKey::from_text("device-7", "a secret of the two");
/// let keys = PskStore::new([key()?]);
/// let server = Server::builder()
///     .without_datagrams()
///     .bind_dtls("127.0.0.1:0", ServerDtls::new().keys(keys))
///     .resource("/hello", fixed("hello"))
///     .start()
///     .await?;
/// let config = Config::new().dtls(ClientDtls::new().psk(key()?));
/// let client = Client::builder().config(config).open()?;
/// let reply = client.get(format!("coaps://{}/hello", server.local_address())).await?;
/// assert_eq!(reply.text(), Some("hello"));
/// # Ok(())
/// # }
/// ```
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
    /// Creates an empty configuration. Without keys or a certificate the server does not start.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the pre-shared keys of clients.
    pub fn keys(mut self, keys: PskStore) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Sets the PSK identity hint (RFC 4279 section 5.2). Default: none.
    pub fn hint(mut self, hint: impl Into<Vec<u8>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the server's certificate, for clients that authenticate servers by certificates. The
    /// key must be an ECDSA key on P-256 or P-384.
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Requires a certificate of clients without a pre-shared key, issued by one of these trust
    /// anchors (PEM). Default: such clients are [anonymous](PeerIdentity::Anonymous).
    ///
    /// # Errors
    ///
    /// [`TlsError`] if the PEM holds no usable certificate.
    pub fn clients_pem(mut self, pem: &[u8]) -> Result<Self, TlsError> {
        self.clients = Some(Arc::new(crate::transport::tls::roots(pem)?));
        Ok(self)
    }
}
