//! The DTLS library that is used: `dimpl`.
//!
//! What it has, we do not do; what it lacks is here. Its clock is ours to move: its own timers are
//! set so long that they never run out, and when ours does, its time leaps to where its own would
//! have. So the controller of the peer decides when copies leave. And its servers make cookies of
//! their own, each with its own secret; ours are made before there is a server (`driver/dtls`), so
//! it is given the one that was checked already.

use std::cell::Cell;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use dimpl::crypto::{CryptoProvider, Dtls12CipherSuite, HmacProvider, rust_crypto};
use dimpl::{Config, CryptoError, Dtls, DtlsCertificate, HashAlgorithm, Output, PskResolver};

use super::chain::Chain;
use super::keys::{PreSharedKey, PskStore};
use super::secure::{Broken, Said, SecureDatagram};
use crate::driver::dtls::hello::Hello;
use crate::driver::dtls::record::{self, Record};
use crate::tls::{Identity, TlsError};

/// The largest datagram that is made: what an IPv6 packet of 1280 bytes has room for.
const DATAGRAM: usize = 1_232;
/// What the library takes for a flight's first timer; longer than any of ours.
const NEVER: Duration = Duration::from_secs(3_600);
/// What it takes for the end of a handshake, beyond every leap of its clock.
const HANDSHAKE: Duration = Duration::from_secs(3_000 * 24 * 3_600);
/// How often a server sends its flight again to who repeats the one before.
const AGAIN: Duration = Duration::from_millis(200);

/// The suites: first those of certificates, then that of keys.
const CERTIFICATE_SUITES: [Dtls12CipherSuite; 3] = [
    Dtls12CipherSuite::ECDHE_ECDSA_AES128_GCM_SHA256,
    Dtls12CipherSuite::ECDHE_ECDSA_AES256_GCM_SHA384,
    Dtls12CipherSuite::ECDHE_ECDSA_CHACHA20_POLY1305_SHA256,
];
const PSK_SUITE: Dtls12CipherSuite = Dtls12CipherSuite::PSK_AES128_CCM_8;

thread_local! {
    /// The cookie of the handshake that [`expecting`] sets up on this thread.
    static EXPECTED: Cell<Option<Expected>> = const { Cell::new(None) };
}

/// The cookie that the client with this random number was sent and has returned.
#[derive(Clone, Copy)]
struct Expected {
    random: [u8; 32],
    cookie: [u8; 32],
}

/// HMAC of the library, with the cookies that `driver/dtls` has verified.
///
/// The library computes a cookie by `hmac_sha256` over the client's random number alone, and all
/// else, the pseudorandom function included, by `hmac`. So `hmac` is never replaced, and
/// `hmac_sha256` only for the one random number of the handshake that is being set up.
#[derive(Debug)]
struct CookieHmac;

impl HmacProvider for CookieHmac {
    fn hmac_sha256(&self, key: &[u8], data: &[u8]) -> Result<[u8; 32], CryptoError> {
        match EXPECTED.get() {
            Some(expected) if expected.random == data => Ok(expected.cookie),
            _ => real().hmac_provider.hmac_sha256(key, data),
        }
    }

    fn hmac(
        &self,
        hash: HashAlgorithm,
        key: &[u8],
        data: &[u8],
        out: &mut [u8],
    ) -> Result<usize, CryptoError> {
        real().hmac_provider.hmac(hash, key, data, out)
    }
}

/// Runs `set_up` on this thread with an expected cookie, which is forgotten however that ends.
fn expecting<T>(expected: Expected, set_up: impl FnOnce() -> T) -> T {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            EXPECTED.set(None);
        }
    }
    let _reset = Reset;
    EXPECTED.set(Some(expected));
    set_up()
}

fn real() -> &'static CryptoProvider {
    static PROVIDER: OnceLock<CryptoProvider> = OnceLock::new();
    PROVIDER.get_or_init(rust_crypto::default_provider)
}

/// HMAC-SHA-256, for cookies.
pub(crate) fn hmac(key: &[u8], data: &[u8]) -> Option<[u8; 32]> {
    real().hmac_provider.hmac_sha256(key, data).ok()
}

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
        .dtls13_cipher_suites(&[])
}

fn built(config: dimpl::ConfigBuilder) -> Result<Arc<Config>, TlsError> {
    let config = config.build();
    let config = config.map_err(|error| TlsError::Dtls(error.to_string()))?;
    Ok(Arc::new(config))
}

/// A certificate and its key.
#[derive(Clone)]
struct Own {
    certificate: Vec<u8>,
    private_key: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Own").finish_non_exhaustive()
    }
}

impl Own {
    /// As a session of the library takes it.
    fn for_session(&self) -> DtlsCertificate {
        DtlsCertificate {
            certificate: self.certificate.clone(),
            private_key: self.private_key.to_vec(),
        }
    }
}

/// A certificate that the library takes. It panics at others.
fn own(identity: &Identity) -> Result<Own, TlsError> {
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
    Ok(Own {
        certificate: certificate.to_vec(),
        private_key: private_key.to_vec().into(),
    })
}

/// A certificate for clients that have none: the library wants one even where none is asked for.
fn nobody() -> Result<Own, TlsError> {
    let failed = |error: rcgen::Error| TlsError::Dtls(error.to_string());
    let made = rcgen::generate_simple_self_signed(Vec::new()).map_err(failed)?;
    Ok(Own {
        certificate: made.cert.der().to_vec(),
        private_key: made.signing_key.serialize_der().into(),
    })
}

/// What a client's sessions with one credential have in common.
#[derive(Clone, Debug)]
pub(crate) struct ClientSide {
    config: Arc<Config>,
    certificate: Option<Own>,
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

    /// Begins a session; its first flight is there to be polled.
    pub(crate) fn connect(&self, now: Instant) -> Result<Library, Broken> {
        let mut dtls = match &self.certificate {
            Some(own) => Dtls::new_12(Arc::clone(&self.config), own.for_session(), now),
            None => Dtls::new_12_psk(Arc::clone(&self.config), now),
        };
        dtls.set_active(true);
        let mut library = Library::new(dtls, now, None);
        library.tick(now)?;
        Ok(library)
    }
}

/// The keys of a server's clients, and what was looked up last.
struct Lookup {
    keys: AssertUnwindSafe<PskStore>,
    /// From which the keys of unknown identities are derived.
    secret: Zeroizing<[u8; 32]>,
    last: Mutex<Option<(Vec<u8>, bool)>>,
}

impl PskResolver for Lookup {
    fn resolve(&self, identity: &[u8]) -> Option<Vec<u8>> {
        let found = self.keys.find(identity);
        // Derived for known identities too, and of the same length, so that the two cost the same.
        let dummy = self.dummy(identity);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((identity.to_vec(), found.is_some()));
        Some(std::mem::take(&mut *found.unwrap_or(dummy)))
    }
}

impl Lookup {
    /// A key that nobody knows, in the place of that of an unknown identity.
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

/// What a server's sessions have in common.
#[derive(Clone)]
pub(crate) struct ServerSide {
    keys: Option<(Arc<Config>, Arc<Lookup>)>,
    certificates: Option<(Arc<Config>, Own)>,
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

    /// Begins a session with a client that has shown, with this cookie, that it is where it says.
    pub(crate) fn accept(
        &self,
        now: Instant,
        hello: &Hello<'_>,
        cookie: [u8; 32],
    ) -> Result<Library, Broken> {
        // The client's order counts, as the library has it.
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
        let (dtls, lookup) = chosen.ok_or(Broken::NoCommonSuite)?;
        let mut library = Library::new(dtls, now, lookup);
        library.tick(now)?;
        // The library reaches the state in which it would be had it sent the cookie itself.
        let expected = Expected {
            random: hello.random(),
            cookie,
        };
        expecting(expected, || {
            library.feed(&hello.without_cookie())?;
            let mut buffer = [0; 256];
            while !matches!(library.poll(&mut buffer), Said::Nothing) {}
            library.feed(hello.record())
        })?;
        library.shift = hello.sequence().saturating_sub(library.last_sequence + 1);
        library.highest = None;
        Ok(library)
    }
}

/// A session.
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are facts that do not exclude each other"
)]
pub(crate) struct Library {
    dtls: Dtls,
    /// By how much its clock is before ours.
    leap: Duration,
    /// When it would do something by itself, on its clock.
    due: Option<Instant>,
    /// Our time, as it was last told.
    now: Instant,
    lookup: Option<Arc<Lookup>>,
    /// The identity that a client has given and has yet to be told; and whether it has given one.
    identified: Option<(Vec<u8>, bool)>,
    /// The identity that the client has given has no key.
    unknown: bool,
    resolved: bool,
    /// The highest number of a handshake message that has left.
    highest: Option<u16>,
    /// What is added to the numbers of records in the clear, so that they follow those of the
    /// cookie's exchange; and the last such number.
    shift: u64,
    last_sequence: u64,
    /// The peer has said that what follows is encrypted.
    changed: bool,
    connected: bool,
    not_proven: bool,
    server: bool,
    chain: Chain,
    /// When the last flight was last sent again to who asked.
    again: Option<Instant>,
}

impl Library {
    fn new(dtls: Dtls, now: Instant, lookup: Option<Arc<Lookup>>) -> Self {
        let server = !dtls.is_active();
        Self {
            dtls,
            leap: Duration::ZERO,
            due: None,
            now,
            lookup,
            identified: None,
            unknown: false,
            resolved: false,
            highest: None,
            shift: 0,
            last_sequence: 0,
            changed: false,
            connected: false,
            not_proven: false,
            server,
            chain: Chain::default(),
            again: None,
        }
    }

    fn tick(&mut self, now: Instant) -> Result<(), Broken> {
        self.now = self.now.max(now);
        self.dtls
            .handle_timeout(self.now + self.leap)
            .map_err(broken)
    }

    fn feed(&mut self, datagram: &[u8]) -> Result<(), Broken> {
        self.dtls.handle_packet(datagram).map_err(broken)
    }

    /// Moves the library's clock to where it does the next thing by itself.
    fn leap(&mut self) -> Result<(), Broken> {
        let Some(due) = self.due.take() else {
            return Ok(());
        };
        self.leap += due.saturating_duration_since(self.now + self.leap);
        self.tick(self.now)
    }

    /// Whether a datagram may be of this session, once it is live: what is in the clear may be
    /// anybody's. A client may not have got our last flight, and then repeats its own.
    fn is_of_session(&self, datagram: &[u8]) -> bool {
        let mut records = record::records(datagram);
        let repeats = self.server
            && records.clone().next().is_some_and(|first| {
                first.epoch == 0 && first.is_handshake() && first.message_type() != Some(1)
            });
        let allowed = |record: Record<'_>| {
            record.epoch == 1 || repeats && (record.is_handshake() || record.is_change())
        };
        records.all(allowed)
    }
}

impl SecureDatagram for Library {
    fn receive(&mut self, now: Instant, datagram: &[u8]) -> Result<(), Broken> {
        self.tick(now)?;
        if self.connected {
            if !self.is_of_session(datagram) {
                return Ok(());
            }
            let clear = record::records(datagram).any(|record| record.epoch == 0);
            if clear && self.again.is_none_or(|last| now >= last + AGAIN) {
                self.again = Some(now);
                // Its own pause between copies is on its own clock.
                self.leap()?;
            }
            return self.feed(datagram);
        }
        let hello = record::first(datagram).and_then(|record| record.message_type()) == Some(1);
        if self.server && hello {
            // It is the one that was accepted: our flight was lost.
            if self.again.is_some_and(|last| now < last + AGAIN) {
                return Ok(());
            }
            self.again = Some(now);
            return self.leap();
        }
        let mut proof = false;
        for record in record::records(datagram) {
            self.chain.read(&record);
            self.changed |= record.epoch == 0 && record.is_change();
            proof |= record.epoch == 1 && record.is_handshake() && self.changed;
        }
        let fed = self.feed(datagram);
        if let Some(lookup) = &self.lookup {
            let mut last = lookup.last.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(found) = last.take() {
                self.unknown |= !found.1;
                self.identified = Some(found);
                self.resolved = true;
            }
        }
        self.not_proven = proof && self.resolved;
        match fed {
            Err(Broken::Library(_)) if self.not_proven => Err(Broken::NotProven),
            fed => fed,
        }
    }

    fn send(&mut self, message: &[u8]) -> Result<(), Broken> {
        self.dtls
            .send_application_data(message)
            .map(|_| ())
            .map_err(broken)
    }

    fn resend(&mut self, now: Instant) -> Result<(), Broken> {
        self.tick(now)?;
        self.leap()
    }

    fn close(&mut self) {
        // One that has not begun is closed by being dropped.
        let _ = self.dtls.close();
    }

    fn alert(&mut self, number: u8) -> Vec<u8> {
        self.last_sequence += 1;
        record::alert(self.last_sequence + self.shift, number)
    }

    fn chain(&self, own: &[u8]) -> &[Vec<u8>] {
        self.chain.after(own)
    }

    fn poll<'a>(&mut self, buffer: &'a mut [u8]) -> Said<'a> {
        enum Step {
            Datagram(usize),
            Message(usize),
            Certificate(usize),
            Connected,
            Closed,
            Timer(Instant),
            Other,
        }
        if let Some((identity, known)) = self.identified.take() {
            return Said::Identity { identity, known };
        }
        loop {
            let step = match self.dtls.poll_output(buffer) {
                Output::Packet(bytes) => Step::Datagram(bytes.len()),
                Output::ApplicationData(bytes) => Step::Message(bytes.len()),
                Output::PeerCert(der) => Step::Certificate(der.len()),
                Output::Connected => Step::Connected,
                Output::CloseNotify => Step::Closed,
                Output::Timeout(at) => Step::Timer(at),
                Output::BufferTooSmall { .. } => {
                    debug_assert!(false, "the buffer holds the longest datagram");
                    return Said::Nothing;
                }
                _ => Step::Other,
            };
            return match step {
                Step::Datagram(length) => {
                    let fresh = self.leaves(&mut buffer[..length]);
                    Said::Datagram {
                        bytes: &buffer[..length],
                        fresh,
                    }
                }
                Step::Message(length) => Said::Message(&buffer[..length]),
                Step::Certificate(length) => Said::Certificate(&buffer[..length]),
                // Nobody can prove to have the key that stands for one.
                Step::Connected if self.unknown => Said::NotProven,
                Step::Connected => {
                    self.connected = true;
                    self.chain = Chain::default();
                    self.not_proven = false;
                    Said::Connected
                }
                Step::Closed => Said::Closed,
                Step::Timer(at) => {
                    let soon = at.saturating_duration_since(self.now + self.leap) < HANDSHAKE / 2;
                    self.due = soon.then_some(at);
                    if std::mem::take(&mut self.not_proven) {
                        return Said::NotProven;
                    }
                    Said::Nothing
                }
                Step::Other => continue,
            };
        }
    }
}

impl Library {
    /// Numbers a datagram's records in the clear; whether it is no copy.
    fn leaves(&mut self, datagram: &mut [u8]) -> bool {
        let mut fresh = self.connected;
        let mut at = 0;
        while let Some(record) = record::first(&datagram[at..]) {
            let length = record.length();
            if record.epoch == 0 {
                if let Some(number) = record.message_number() {
                    fresh |= self.highest.is_none_or(|highest| number > highest);
                    self.highest = self.highest.max(Some(number));
                }
                self.last_sequence = self.last_sequence.max(record.sequence);
                let sequence = record.sequence + self.shift;
                record::number(&mut datagram[at..], sequence);
            }
            at += length;
        }
        fresh
    }
}

fn broken(error: dimpl::Error) -> Broken {
    use dimpl::{Error, SecurityError};
    match error {
        Error::SecurityError(SecurityError::FatalAlert { description }) => {
            Broken::Alert(description)
        }
        Error::SecurityError(
            SecurityError::NoMutuallyAcceptableCipherSuite
            | SecurityError::ServerSelectedUnknownCipherSuite
            | SecurityError::ServerSelectedIncompatibleCipherSuite(_)
            | SecurityError::ServerSelectedDisallowedCipherSuite(_),
        ) => Broken::NoCommonSuite,
        other => Broken::Library(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_identity_has_a_key_of_the_usual_length_that_is_derived_and_not_drawn() {
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

    const EXPECTED: Expected = Expected {
        random: [1; 32],
        cookie: [2; 32],
    };

    #[test]
    fn a_panic_while_a_session_is_set_up_leaves_no_cookie_on_the_thread() {
        let set_up = || expecting(EXPECTED, || panic!("in the library"));
        std::panic::catch_unwind(set_up).expect_err("it panics");
        let after = CookieHmac.hmac_sha256(&[3; 32], &EXPECTED.random);
        assert_eq!(after.ok(), hmac(&[3; 32], &EXPECTED.random));
    }

    #[test]
    fn a_session_that_is_set_up_replaces_the_hmac_of_its_cookie_and_no_other() {
        expecting(EXPECTED, || {
            let cookie = CookieHmac.hmac_sha256(&[3; 32], &EXPECTED.random);
            assert_eq!(cookie.ok(), Some(EXPECTED.cookie));
            let other = CookieHmac.hmac_sha256(&[3; 32], &[4; 32]);
            assert_eq!(other.ok(), hmac(&[3; 32], &[4; 32]));
            // The pseudorandom function, even over the same bytes.
            let mut prf = [0; 32];
            let written =
                CookieHmac.hmac(HashAlgorithm::SHA256, &[3; 32], &EXPECTED.random, &mut prf);
            assert_eq!(written.ok(), Some(32));
            assert_eq!(Some(prf), hmac(&[3; 32], &EXPECTED.random));
        });
    }
}
