//! Configuration of the DTLS library: credentials and suites of clients and servers.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dimpl::crypto::{CryptoProvider, Dtls12CipherSuite};
use dimpl::{Config, Dtls, DtlsCertificate, PskResolver};
use zeroize::Zeroizing;

use super::dimpl_hmac::{CookieHmac, hmac, real};
use super::dimpl_session::{DimplSession, HANDSHAKE};
use super::hello::Hello;
use super::keys::{PreSharedKey, PskStore};
use super::secure::DtlsError;
use crate::transport::tls::{Identity, TlsError};

/// The largest datagram in bytes: it fits an IPv6 packet of 1280 bytes.
const DATAGRAM: usize = 1_232;
/// The library's retransmission timeout, longer than any of the engine's.
const NEVER: Duration = Duration::from_secs(3_600);
/// The suites: first for certificates, then for keys.
const CERTIFICATE_SUITES: [Dtls12CipherSuite; 3] = [
    Dtls12CipherSuite::ECDHE_ECDSA_AES128_GCM_SHA256,
    Dtls12CipherSuite::ECDHE_ECDSA_AES256_GCM_SHA384,
    Dtls12CipherSuite::ECDHE_ECDSA_CHACHA20_POLY1305_SHA256,
];
const PSK_SUITE: Dtls12CipherSuite = Dtls12CipherSuite::PSK_AES128_CCM_8;

fn config() -> dimpl::ConfigBuilder {
    let provider = CryptoProvider {
        hmac_provider: &CookieHmac,
        ..real().clone()
    };
    Config::builder()
        .with_crypto_provider(provider)
        .mtu(DATAGRAM)
        .flight_start_rto(NEVER)
        .flight_retries(usize::MAX)
        .handshake_timeout(HANDSHAKE)
        // RFC 7252 9.1 is about DTLS 1.2, and the layer reads its records.
        .dtls13_cipher_suites(&[])
}

fn built(config: dimpl::ConfigBuilder) -> Result<Arc<Config>, TlsError> {
    let config = config.build();
    let config = config.map_err(|error| TlsError::Dtls(error.to_string()))?;
    Ok(Arc::new(config))
}

/// A certificate and its key.
#[derive(Clone)]
struct OwnCertificate {
    certificate: Vec<u8>,
    private_key: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for OwnCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnCertificate").finish_non_exhaustive()
    }
}

impl OwnCertificate {
    /// Returns the certificate in the library's form.
    fn for_session(&self) -> DtlsCertificate {
        DtlsCertificate {
            certificate: self.certificate.clone(),
            private_key: self.private_key.to_vec(),
        }
    }
}

/// Checks that the library accepts a certificate; it would panic at others.
fn own(identity: &Identity) -> Result<OwnCertificate, TlsError> {
    if identity.chain_length() > 1 {
        return Err(TlsError::Dtls(format!(
            "over DTLS only one certificate can be sent, and the chain has {}: give the certificate \
             alone, and have the peers trust its issuer",
            identity.chain_length()
        )));
    }
    let (certificate, private_key) = identity.leaf();
    let key = real().key_provider.load_private_key(private_key);
    key.map_err(|_| {
        TlsError::Dtls(
            "over DTLS the key must be an ECDSA key on P-256 or P-384; RSA keys and raw public \
             keys are not supported"
                .to_owned(),
        )
    })?;
    Ok(OwnCertificate {
        certificate: certificate.to_vec(),
        private_key: private_key.to_vec().into(),
    })
}

/// A certificate for clients without one: the library needs one even if the server requests none.
fn nobody() -> Result<OwnCertificate, TlsError> {
    let failed = |error: rcgen::Error| TlsError::Dtls(error.to_string());
    let made = rcgen::generate_simple_self_signed(Vec::new()).map_err(failed)?;
    Ok(OwnCertificate {
        certificate: made.cert.der().to_vec(),
        private_key: made.signing_key.serialize_der().into(),
    })
}

/// The shared state of a client's sessions with one credential.
#[derive(Clone, Debug)]
pub(crate) struct ClientSide {
    config: Arc<Config>,
    certificate: Option<OwnCertificate>,
}

struct OwnKey(PreSharedKey);

impl PskResolver for OwnKey {
    fn resolve(&self, identity: &[u8]) -> Option<Vec<u8>> {
        (identity == self.0.identity).then(|| self.0.key.to_vec())
    }
}

impl ClientSide {
    pub(crate) fn with_key(key: PreSharedKey) -> Result<Self, TlsError> {
        let identity = key.identity.clone();
        let config = config()
            .dtls12_cipher_suites(&[PSK_SUITE])
            .with_psk_client(identity, Arc::new(OwnKey(key)));
        Ok(Self {
            config: built(config)?,
            certificate: None,
        })
    }

    pub(crate) fn with_certificates(identity: Option<&Identity>) -> Result<Self, TlsError> {
        Ok(Self {
            config: built(config().dtls12_cipher_suites(&CERTIFICATE_SUITES))?,
            certificate: Some(identity.map_or_else(nobody, own)?),
        })
    }

    /// Starts a session; its first flight is ready to be polled.
    pub(crate) fn connect(&self, now: Instant) -> Result<DimplSession, DtlsError> {
        let mut dtls = match &self.certificate {
            Some(own) => Dtls::new_12(Arc::clone(&self.config), own.for_session(), now),
            None => Dtls::new_12_psk(Arc::clone(&self.config), now),
        };
        dtls.set_active(true);
        let mut library = DimplSession::new(dtls, now, None);
        library.tick(now)?;
        Ok(library)
    }
}

/// The keys of a server's clients, and the last lookup.
pub(super) struct Lookup {
    keys: AssertUnwindSafe<PskStore>,
    /// The secret from which dummy keys of unknown identities are derived.
    secret: Zeroizing<[u8; 32]>,
    pub(super) last: Mutex<Option<(Vec<u8>, bool)>>,
}

impl PskResolver for Lookup {
    fn resolve(&self, identity: &[u8]) -> Option<Vec<u8>> {
        let found = self.keys.find(identity);
        // Also derived for known identities, with the same length, so that both take the same
        // time.
        let dummy = self.dummy(identity);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((identity.to_vec(), found.is_some()));
        // An unknown identity gets a key that nobody has, and fails like a wrong key:
        // identities cannot be probed (RFC 4279 2).
        Some(std::mem::take(&mut *found.unwrap_or(dummy)))
    }
}

impl Lookup {
    /// The dummy key of an unknown identity.
    fn dummy(&self, identity: &[u8]) -> Zeroizing<Vec<u8>> {
        let length = self.keys.dummy_length();
        let mut key = Zeroizing::new(Vec::with_capacity(length.next_multiple_of(32)));
        let mut block = identity.to_vec();
        while key.len() < length {
            let Some(derived) = hmac(&*self.secret, &block) else {
                debug_assert!(false, "HMAC takes keys of any length");
                break;
            };
            key.extend_from_slice(&derived);
            block = derived.to_vec();
        }
        key.truncate(length);
        key
    }
}

/// The shared state of a server's sessions.
#[derive(Clone)]
pub(crate) struct ServerSide {
    keys: Option<(Arc<Config>, Arc<Lookup>)>,
    certificates: Option<(Arc<Config>, OwnCertificate)>,
}

impl ServerSide {
    pub(crate) fn new(
        keys: Option<PskStore>,
        hint: Option<Vec<u8>>,
        identity: Option<&Identity>,
        asks_clients: bool,
    ) -> Result<Self, TlsError> {
        let keys = match keys {
            None => None,
            Some(keys) => {
                let mut secret = Zeroizing::new([0; 32]);
                // The dummy keys must be secret, or an unknown identity could be proven.
                getrandom::fill(&mut *secret)
                    .map_err(|error| TlsError::Dtls(format!("no random numbers: {error}")))?;
                let lookup = Arc::new(Lookup {
                    keys: AssertUnwindSafe(keys),
                    secret,
                    last: Mutex::new(None),
                });
                let resolver: Arc<dyn PskResolver> = lookup.clone();
                let config = config()
                    .dtls12_cipher_suites(&[PSK_SUITE])
                    .with_psk_server(hint, resolver);
                Some((built(config)?, lookup))
            }
        };
        let certificates = match identity {
            None => None,
            Some(identity) => {
                let config = config()
                    .dtls12_cipher_suites(&CERTIFICATE_SUITES)
                    .require_client_certificate(asks_clients);
                Some((built(config)?, own(identity)?))
            }
        };
        Ok(Self { keys, certificates })
    }

    /// Starts a session with a client whose address this cookie has validated.
    pub(crate) fn accept(
        &self,
        now: Instant,
        hello: &Hello<'_>,
        cookie: [u8; 32],
    ) -> Result<DimplSession, DtlsError> {
        // The client's preference order applies, as in the library.
        let chosen = hello.suites().find_map(|suite| {
            let suite = Dtls12CipherSuite::from_u16(suite);
            match (&self.keys, &self.certificates) {
                (Some((config, lookup)), _) if suite == PSK_SUITE => {
                    let dtls = Dtls::new_12_psk(Arc::clone(config), now);
                    Some((dtls, Some(Arc::clone(lookup))))
                }
                (_, Some((config, own))) if CERTIFICATE_SUITES.contains(&suite) => {
                    let dtls = Dtls::new_12(Arc::clone(config), own.for_session(), now);
                    Some((dtls, None))
                }
                _ => None,
            }
        });
        let (dtls, lookup) = chosen.ok_or(DtlsError::NoCommonSuite)?;
        let mut library = DimplSession::new(dtls, now, lookup);
        library.tick(now)?;
        library.start_from(hello, cookie)?;
        Ok(library)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_identity_has_derived_key_of_common_length() {
        let store = PskStore::from_text("a:123\nb:0x01\nc:xyz").expect("keys");
        let lookup = |secret| Lookup {
            keys: AssertUnwindSafe(store.clone()),
            secret: Zeroizing::new([secret; 32]),
            last: Mutex::new(None),
        };
        let (one, other) = (lookup(1), lookup(2));
        let key = one.resolve(b"nobody").expect("a key all the same");
        assert_eq!(key.len(), 3, "as most have");
        assert_eq!(
            one.last.lock().unwrap().take(),
            Some((b"nobody".to_vec(), false))
        );
        assert_eq!(one.resolve(b"nobody"), Some(key.clone()));
        assert_ne!(one.resolve(b"somebody"), Some(key.clone()));
        assert_ne!(other.resolve(b"nobody"), Some(key));
        assert_eq!(one.resolve(b"a"), Some(b"123".to_vec()));
        assert_eq!(one.last.lock().unwrap().take(), Some((b"a".to_vec(), true)));
        let by = Lookup {
            keys: AssertUnwindSafe(PskStore::by(|_| None)),
            ..lookup(1)
        };
        assert_eq!(by.dummy(b"x").len(), 16);
    }
}
