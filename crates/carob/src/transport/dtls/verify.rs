//! Verification of certificates: issuer, name and validity (RFC 7252 9.1.3.3).

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{CertificateError, RootCertStore};

use crate::transport::tls::{TlsError, provider};

/// Verifier of server certificates.
#[derive(Clone, Debug)]
pub(crate) struct ServerVerifier(Arc<WebPkiServerVerifier>);

/// Verifier of client certificates.
#[derive(Clone, Debug)]
pub(crate) struct ClientVerifier(Arc<dyn ClientCertVerifier>);

/// Problem of a certificate, as text and as an alert (RFC 5246 7.2.2).
#[derive(Debug)]
pub(crate) struct NotTrusted {
    pub(crate) problem: String,
    pub(crate) alert: u8,
}

impl From<rustls::Error> for NotTrusted {
    fn from(error: rustls::Error) -> Self {
        use CertificateError as Bad;
        let alert = match &error {
            rustls::Error::InvalidCertificate(bad) => match bad {
                // Alerts of RFC 5246 7.2.2: certificate_expired, certificate_revoked, unknown_ca,
                // bad_certificate.
                Bad::Expired | Bad::ExpiredContext { .. } => 45,
                Bad::Revoked => 44,
                Bad::UnknownIssuer => 48,
                _ => 42,
            },
            _ => 46,
        };
        let problem = match &error {
            rustls::Error::InvalidCertificate(bad) => bad.to_string(),
            other => other.to_string(),
        };
        Self { problem, alert }
    }
}

impl ServerVerifier {
    pub(crate) fn new(roots: Arc<RootCertStore>) -> Result<Self, TlsError> {
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider()).build();
        verifier.map(Self).map_err(unusable)
    }

    /// Verifies the certificate of the server at `address`, contacted by this name, with the chain
    /// it sent.
    pub(crate) fn check(
        &self,
        der: &[u8],
        chain: &[Vec<u8>],
        name: Option<&str>,
        peer: SocketAddr,
    ) -> Result<(), NotTrusted> {
        let name = match name {
            Some(name) => ServerName::try_from(name.to_owned()).map_err(|_| NotTrusted {
                problem: format!("\"{name}\" is not a name for a certificate"),
                alert: 42,
            })?,
            // Without a name in the URI, the certificate must be for the address (RFC 7252
            // 9.1.3.3).
            None => ServerName::IpAddress(peer.ip().into()),
        };
        let certificate = CertificateDer::from(der);
        let now = UnixTime::now();
        self.0
            .verify_server_cert(&certificate, &intermediates(chain), &name, &[], now)?;
        Ok(())
    }
}

impl ClientVerifier {
    pub(crate) fn new(roots: Arc<RootCertStore>) -> Result<Self, TlsError> {
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider()).build();
        verifier.map(Self).map_err(unusable)
    }

    pub(crate) fn check(&self, der: &[u8], chain: &[Vec<u8>]) -> Result<(), NotTrusted> {
        let certificate = CertificateDer::from(der);
        self.0
            .verify_client_cert(&certificate, &intermediates(chain), UnixTime::now())?;
        Ok(())
    }
}

fn intermediates(chain: &[Vec<u8>]) -> Vec<CertificateDer<'_>> {
    chain
        .iter()
        .map(|der| CertificateDer::from(&der[..]))
        .collect()
}

#[expect(clippy::needless_pass_by_value, reason = "as `map_err` gives it")]
fn unusable(error: rustls::server::VerifierBuilderError) -> TlsError {
    TlsError::Trust(rustls::Error::General(error.to_string()))
}
