//! What secures `coaps+tcp` and `coaps+ws`: certificates we trust, and our own (RFC 8323 9.2).
//!
//! Pre-shared and raw public keys, which RFC 8323 9.1 and 9.2 know, are not offered over TLS: the
//! library below has none.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, InconsistentKeys, RootCertStore, ServerConfig};
use zeroize::Zeroize as _;

/// The protocol's name in ALPN (RFC 8323 8.2).
pub(crate) const ALPN: &[u8] = b"coap";

/// Why certificates or keys cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The text holds no PEM of the kind that is needed, or a damaged one.
    #[error("no usable {what} in the PEM text: {problem}")]
    Pem {
        /// What was looked for.
        what: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// The key does not belong to the certificate, or is of a kind that is not supported.
    #[error("certificate and key cannot be used: {0}")]
    Identity(rustls::Error),
    /// A certificate cannot be trusted because it cannot be read.
    #[error("a certificate to trust cannot be read: {0}")]
    Trust(rustls::Error),
    /// DTLS cannot be set up like this.
    #[error("{0}")]
    Dtls(String),
    /// The system has no certificates to trust.
    #[error("the system's certificates cannot be read: {0}")]
    System(String),
}

/// A chain of certificates and the key of the first. The memory of the key is overwritten when it is
/// dropped.
#[derive(Clone, Debug)]
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: OwnKey,
}

/// A private key, overwritten when dropped.
#[derive(Debug)]
struct OwnKey(PrivateKeyDer<'static>);

impl Clone for OwnKey {
    fn clone(&self) -> Self {
        Self(self.0.clone_key())
    }
}

impl Drop for OwnKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |problem: String| TlsError::Pem {
        what: "certificate",
        problem,
    };
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| failed(error.to_string()))?;
    if all.is_empty() {
        return Err(failed("there is none".to_owned()));
    }
    Ok(all)
}

pub(crate) fn roots(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate).map_err(TlsError::Trust)?;
    }
    Ok(roots)
}

impl Identity {
    /// From PEM: the chain with our own certificate first, and its key.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain = certificates(chain)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| TlsError::Pem {
            what: "private key",
            problem: error.to_string(),
        })?;
        let key = OwnKey(key);
        Ok(Self { chain, key })
    }

    /// Our own certificate and its key (DER), without those that vouch for it.
    pub(crate) fn leaf(&self) -> (&[u8], &[u8]) {
        let own = self.chain.first().expect("a chain is not empty");
        (own, self.key.0.secret_der())
    }

    /// Certificates, our own included.
    pub(crate) fn chain_length(&self) -> usize {
        self.chain.len()
    }

    /// As the library takes it, without another copy of the key.
    fn resolver(&self) -> Result<Arc<SingleCertAndKey>, TlsError> {
        let key = any_supported_type(&self.key.0).map_err(TlsError::Identity)?;
        let certified = CertifiedKey::new(self.chain.clone(), key);
        match certified.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(error) => return Err(TlsError::Identity(error)),
        }
        Ok(Arc::new(SingleCertAndKey::from(certified)))
    }
}

/// What a client needs for TLS.
#[derive(Clone, Debug, Default)]
pub struct ClientTls {
    trust: Option<Arc<RootCertStore>>,
    identity: Option<Identity>,
}

impl ClientTls {
    /// A client that trusts whom the system trusts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts these certificates instead, given as PEM.
    pub fn trust_pem(mut self, pem: &[u8]) -> Result<Self, TlsError> {
        self.trust = Some(Arc::new(roots(pem)?));
        Ok(self)
    }

    /// Who we are, for servers that ask.
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Whom we trust.
    pub(crate) fn roots(&self) -> Result<Arc<RootCertStore>, TlsError> {
        match &self.trust {
            Some(trust) => Ok(Arc::clone(trust)),
            None => system_roots().map(Arc::new),
        }
    }

    /// Who we are, for servers that ask.
    pub(crate) fn own(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }

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
        Ok(Arc::new(config))
    }
}

fn system_roots() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let problems: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        let problem = if problems.is_empty() {
            "there are none".to_owned()
        } else {
            problems.join("; ")
        };
        return Err(TlsError::System(problem));
    }
    Ok(roots)
}

/// What a server needs for TLS.
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
    /// A server that anybody may connect to.
    pub fn new(identity: Identity) -> Self {
        Self {
            identity,
            clients: None,
        }
    }

    /// Only clients with a certificate of these, given as PEM, may connect.
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
        Ok(Arc::new(config))
    }
}

pub(crate) fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// As what a connection fails that cannot be secured.
pub(crate) fn refused(error: TlsError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}
