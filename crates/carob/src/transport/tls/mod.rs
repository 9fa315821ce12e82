//! TLS for `coaps+tcp` and `coaps+ws` (RFC 8323 section 9): trust anchors and certificates.
//!
//! [`ServerTls`] configures a server, [`ClientTls`] a client; an [`Identity`] is a certificate
//! chain with its key. [`ClientTls`] also holds the certificates for [`dtls`](crate::dtls).
//!
//! ```no_run
//! # #[cfg(feature = "tls")]
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use carob::{Client, ClientTls, Config};
//!
//! let tls = ClientTls::new().trust_pem(&std::fs::read("ca.pem")?)?;
//! let client = Client::builder().config(Config::new().tls(tls)).open()?;
//! let reply = client.get("coaps+tcp://example.org/hello").await?;
//! # drop(reply);
//! # Ok(())
//! # }
//! ```
//!
//! TLS 1.2 and 1.3 are supported, with certificates only; pre-shared keys and raw public keys (RFC
//! 8323 sections 9.1 and 9.2) are not offered by the TLS library.

#[cfg(feature = "tls")]
mod connections;

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, RootCertStore};
use zeroize::Zeroize as _;

#[cfg(feature = "tls")]
pub use connections::ServerTls;
#[cfg(feature = "tls")]
pub(crate) use connections::{ALPN, TlsConnections};

/// Error of certificates or keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The PEM text has no usable item of the required kind.
    #[error("no usable {what} in the PEM text: {problem}")]
    Pem {
        /// Kind of the item: certificate or private key.
        what: &'static str,
        /// The problem.
        problem: String,
    },
    /// The key does not match the certificate, or its kind is not supported.
    #[error("certificate and key cannot be used: {0}")]
    Identity(rustls::Error),
    /// A trust anchor cannot be parsed.
    #[error("a certificate to trust cannot be read: {0}")]
    Trust(rustls::Error),
    /// The DTLS configuration is invalid.
    #[error("{0}")]
    Dtls(String),
    /// The trust anchors of the system cannot be read.
    #[error("the system's certificates cannot be read: {0}")]
    System(String),
}

/// Certificate chain and private key. The memory of the key is overwritten when it is dropped.
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
        // A key must not stay in freed memory, from which a later fault may leak it.
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
    /// Parses a chain (PEM, end-entity certificate first) and its private key (PEM).
    ///
    /// # Errors
    ///
    /// [`TlsError::Pem`]; [`TlsError::Identity`] if the key is of an unsupported type or does not belong
    /// to the certificate.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain = certificates(chain)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| TlsError::Pem {
            what: "private key",
            problem: error.to_string(),
        })?;
        let key = OwnKey(key);
        let matching = CertifiedKey::from_der(chain.clone(), key.0.clone_key(), &provider());
        // Here rather than in the first handshake: a wrong pair of files is found at the start.
        matching.map_err(TlsError::Identity)?;
        Ok(Self { chain, key })
    }

    /// Verifies that the certificate is valid at the current time of the system.
    ///
    /// # Errors
    ///
    /// [`TlsError::Pem`] if it has expired or is not valid yet.
    pub fn check_validity(&self) -> Result<(), TlsError> {
        let own = self.chain.first().expect("a chain is not empty");
        // Validity is verified before trust, so the trust anchor does not matter.
        let mut roots = RootCertStore::empty();
        roots.add(own.clone()).map_err(TlsError::Trust)?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build();
        let Ok(verifier) = verifier else {
            return Ok(());
        };
        let name = ServerName::IpAddress(std::net::IpAddr::from([127, 0, 0, 1]).into());
        let verified = verifier.verify_server_cert(own, &[], &name, &[], UnixTime::now());
        let problem = match verified {
            Err(rustls::Error::InvalidCertificate(
                error @ (CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. }),
            )) => error.to_string(),
            _ => return Ok(()),
        };
        Err(TlsError::Pem {
            what: "certificate",
            problem,
        })
    }

    /// The own certificate and its key (DER), without the rest of the chain.
    #[cfg(feature = "dtls")]
    pub(crate) fn leaf(&self) -> (&[u8], &[u8]) {
        let own = self.chain.first().expect("a chain is not empty");
        (own, self.key.0.secret_der())
    }

    /// Number of certificates in the chain, the own one included.
    #[cfg(feature = "dtls")]
    pub(crate) fn chain_length(&self) -> usize {
        self.chain.len()
    }
}

/// Configuration of a TLS client: trust anchors and client certificate. Default: the trust anchors
/// of the system, no client certificate.
///
/// ```
/// use carob::{ClientTls, Config, Identity};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let made = rcgen::generate_simple_self_signed(vec!["device-7".to_owned()])?;
/// # let (chain, key) = (made.cert.pem(), made.signing_key.serialize_pem());
/// # let ca = chain.clone();
/// // `chain`, `key` and `ca` are PEM texts.
/// let tls = ClientTls::new()
///     .trust_pem(ca.as_bytes())?
///     .identity(Identity::from_pem(chain.as_bytes(), key.as_bytes())?);
/// let config = Config::new().tls(tls);
/// # let _ = config;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ClientTls {
    trust: Option<Arc<RootCertStore>>,
    identity: Option<Identity>,
}

impl ClientTls {
    /// Creates the default configuration.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the trust anchors (PEM), in place of the system's.
    ///
    /// # Errors
    ///
    /// [`TlsError`] if the PEM holds no usable certificate.
    pub fn trust_pem(mut self, pem: &[u8]) -> Result<Self, TlsError> {
        self.trust = Some(Arc::new(roots(pem)?));
        Ok(self)
    }

    /// Sets the client certificate, for servers that request one.
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Returns the trust anchors.
    pub(crate) fn roots(&self) -> Result<Arc<RootCertStore>, TlsError> {
        match &self.trust {
            Some(trust) => Ok(Arc::clone(trust)),
            None => system_roots().map(Arc::new),
        }
    }

    /// The client certificate.
    #[cfg(feature = "dtls")]
    pub(crate) fn own(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }
}

fn system_roots() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Stores of systems hold certificates that the verifier cannot read; the others count.
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

pub(crate) fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    // Named, because the default of the process may be missing, and rustls then panics.
    Arc::new(rustls::crypto::ring::default_provider())
}
