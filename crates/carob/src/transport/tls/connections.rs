//! TLS over connections: configurations of both sides, and the client's handshake.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use carob_proto::codec::Scheme;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::ServerName;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, InconsistentKeys, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;

use super::{ClientTls, Identity, TlsError, provider, roots};
use crate::transport::duplex::Duplex;
use crate::transport::key_log::TlsKeyLog;

/// The protocol's name in ALPN (RFC 8323 8.2).
pub(crate) const ALPN: &[u8] = b"coap";

/// TLS of outgoing connections.
pub(crate) struct TlsConnections {
    tls: ClientTls,
    alpn: Option<&'static [u8]>,
    /// Created at first use, because it may read the system's certificates.
    config: OnceCell<Arc<ClientConfig>>,
}

impl TlsConnections {
    pub(crate) fn new(tls: ClientTls, alpn: Option<&'static [u8]>) -> Self {
        Self {
            tls,
            alpn,
            config: OnceCell::new(),
        }
    }

    /// Performs the handshake with `to`; `name` is the host of the URI, if that is not an address.
    pub(crate) async fn connect(
        &self,
        stream: TcpStream,
        to: SocketAddr,
        name: Option<&str>,
    ) -> io::Result<Box<dyn Duplex>> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        let make = || async { self.tls.config(self.alpn).map_err(invalid) };
        let config = self.config.get_or_try_init(make).await?;
        let server = match name {
            Some(name) => ServerName::try_from(name.to_owned()).map_err(io::Error::other)?,
            // The certificate must name the address itself.
            None => ServerName::IpAddress(to.ip().into()),
        };
        let connector = TlsConnector::from(Arc::clone(config));
        let stream = connector.connect(server, stream).await?;
        let (_, session) = stream.get_ref();
        // ALPN is optional on the default port only (RFC 8323 8.2).
        let named = session.alpn_protocol() == Some(ALPN);
        if self.alpn.is_some() && !named && to.port() != Scheme::CoapsTcp.default_port() {
            let text = "the server does not offer CoAP (ALPN)";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(Box::new(stream))
    }
}

impl Identity {
    /// Returns the identity in the library's form, without another copy of the key.
    fn resolver(&self) -> Result<Arc<SingleCertAndKey>, TlsError> {
        let key = any_supported_type(&self.key.0).map_err(TlsError::Identity)?;
        let certified = CertifiedKey::new(self.chain.clone(), key);
        match certified.keys_match() {
            // Unknown: this kind of key does not show its public half, so nothing speaks against
            // the pair.
            Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(error) => return Err(TlsError::Identity(error)),
        }
        Ok(Arc::new(SingleCertAndKey::from(certified)))
    }
}

impl ClientTls {
    pub(crate) fn config(&self, alpn: Option<&[u8]>) -> Result<Arc<ClientConfig>, TlsError> {
        let trust = self.roots()?;
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Identity)?
            .with_root_certificates(trust);
        let mut config = match &self.identity {
            Some(identity) => builder.with_client_cert_resolver(identity.resolver()?),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = alpn.into_iter().map(<[u8]>::to_vec).collect();
        // Writes nothing unless the application has asked for a log.
        config.key_log = Arc::new(TlsKeyLog);
        Ok(Arc::new(config))
    }
}

/// Configuration of a TLS server, for
/// [`ServerBuilder::bind_tls`](crate::server::ServerBuilder::bind_tls).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use carob::server::fixed;
/// use carob::{Client, ClientTls, Config, Identity, Server, ServerTls};
///
/// # let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
/// # let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
/// # let ca = chain.clone();
/// // `chain`, `key` and `ca` are PEM texts.
/// let tls = ServerTls::new(Identity::from_pem(chain.as_bytes(), key.as_bytes())?);
/// let server = Server::builder()
///     .without_datagrams()
///     .bind_tls("127.0.0.1:0", tls)
///     .resource("/hello", fixed("hello"))
///     .start()
///     .await?;
///
/// let trust = ClientTls::new().trust_pem(ca.as_bytes())?;
/// let client = Client::builder().config(Config::new().tls(trust)).open()?;
/// let uri = format!("coaps+tcp://localhost:{}/hello", server.local_address().port());
/// let reply = client.get(uri).address(server.local_address()).await?;
/// assert_eq!(reply.text(), Some("hello"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ServerTls {
    identity: Identity,
    clients: Option<Arc<RootCertStore>>,
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls")
            .field("clients", &self.clients.is_some())
            .finish_non_exhaustive()
    }
}

impl ServerTls {
    /// Creates a configuration with the server's certificate. Clients need no certificate.
    pub fn new(identity: Identity) -> Self {
        Self {
            identity,
            clients: None,
        }
    }

    /// Requires a client certificate issued by one of these trust anchors (PEM).
    ///
    /// # Errors
    ///
    /// [`TlsError`] if the PEM holds no usable certificate.
    pub fn clients_pem(mut self, pem: &[u8]) -> Result<Self, TlsError> {
        self.clients = Some(Arc::new(roots(pem)?));
        Ok(self)
    }

    pub(crate) fn config(&self, alpn: Option<&[u8]>) -> Result<Arc<ServerConfig>, TlsError> {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Identity)?;
        let builder = match &self.clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                // Without `allow_unauthenticated`, a client that has no certificate is refused.
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::clone(clients), provider())
                        .build()
                        .map_err(|error| {
                            TlsError::Trust(rustls::Error::General(error.to_string()))
                        })?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_cert_resolver(self.identity.resolver()?);
        config.alpn_protocols = alpn.into_iter().map(<[u8]>::to_vec).collect();
        config.key_log = Arc::new(TlsKeyLog);
        Ok(Arc::new(config))
    }
}
