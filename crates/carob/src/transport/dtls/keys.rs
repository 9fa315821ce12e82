//! Pre-shared keys (RFC 4279) with a server's store of them, and the credentials of sessions: keys and certificates, for each
//! peer and as a server.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use zeroize::{Zeroize as _, Zeroizing};

use super::hello::Cookies;
use crate::transport::dtls::dimpl_config::ServerSide;
use crate::transport::dtls::{ClientDtls, ClientSessions, ClientVerifier, Credential, ServerDtls};
use crate::transport::handshake::Replaceable;
use crate::transport::tls::{ClientTls, TlsError};

/// Longest key or identity in bytes (RFC 4279 5.3: 64 and 128 must be supported).
const LONGEST: usize = 256;

/// Pre-shared key and its identity (RFC 4279), 1 to 256 bytes each. Its memory is overwritten when
/// it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct PreSharedKey {
    pub(crate) identity: Vec<u8>,
    pub(crate) key: Zeroizing<Vec<u8>>,
}

impl fmt::Debug for PreSharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreSharedKey")
            .field("identity", &String::from_utf8_lossy(&self.identity))
            .finish_non_exhaustive()
    }
}

/// Error of a key, an identity, or a file of keys.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PskError {
    /// A key or an identity is unusable.
    #[error("{what} {problem}")]
    Unusable {
        /// Key or identity.
        what: &'static str,
        /// The problem.
        problem: &'static str,
    },
    /// A line of a file is malformed.
    #[error("line {line}: {problem}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// The problem.
        problem: String,
    },
    /// A file has no key.
    #[error("it has no key; each line is IDENTITY:KEY")]
    Empty,
}

impl PreSharedKey {
    /// Creates a key with its identity, 1 to 256 bytes each.
    ///
    /// # Errors
    ///
    /// [`PskError::Unusable`] for other lengths.
    pub fn new(identity: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Result<Self, PskError> {
        let (identity, key) = (identity.into(), Zeroizing::new(key.into()));
        for (what, bytes) in [("the identity", &identity), ("the pre-shared key", &*key)] {
            let problem = match bytes.len() {
                0 => "is empty",
                1..=LONGEST => continue,
                _ => "has more than 256 bytes",
            };
            return Err(PskError::Unusable { what, problem });
        }
        Ok(Self { identity, key })
    }

    /// Creates a key from text: `0x` and hexadecimal digits, or else the bytes of the text itself.
    /// Applies to both parts.
    ///
    /// # Errors
    ///
    /// [`PskError::Unusable`] for invalid digits or lengths.
    pub fn from_text(identity: &str, key: &str) -> Result<Self, PskError> {
        Self::new(
            bytes("the identity", identity)?,
            bytes("the pre-shared key", key)?,
        )
    }

    /// Returns whether the key has this identity, written as for [`from_text`](Self::from_text).
    pub fn is_of(&self, identity: &str) -> bool {
        bytes("the identity", identity).is_ok_and(|identity| identity == self.identity)
    }

    /// Returns the identity.
    pub fn identity(&self) -> &[u8] {
        &self.identity
    }

    /// Returns the key itself.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Parses a file of keys: one `IDENTITY:KEY` per line, each part as for
    /// [`from_text`](Self::from_text), or text in double quotes. Quotes are needed for text with
    /// colons, as in `"urn:imei:490154203237518":0x6a1f09c2`, with blanks at either end, or that begins
    /// with `#`, `0x` or a quote. Between quotes, `\"` is a quote and `\\` a backslash. Empty
    /// lines and lines that begin with `#` are ignored.
    ///
    /// # Errors
    ///
    /// [`PskError::Line`], which does not show the key, also if a line has several colons outside
    /// quotes, or the identity of an earlier line; [`PskError::Empty`].
    pub fn read_all(text: &str) -> Result<Vec<Self>, PskError> {
        let mut all = Vec::new();
        let mut lines = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |problem: String| PskError::Line {
                line: number + 1,
                problem,
            };
            // The key itself is not shown: errors are written to logs.
            let key = Self::from_line(line).map_err(wrong)?;
            if let Some(earlier) = lines.insert(key.identity.clone(), number + 1) {
                return Err(wrong(format!("line {earlier} has the same identity")));
            }
            all.push(key);
        }
        if all.is_empty() {
            return Err(PskError::Empty);
        }
        Ok(all)
    }
}

impl PreSharedKey {
    /// Parses a line of a file. Error: the problem.
    fn from_line(line: &str) -> Result<Self, String> {
        let form = || "it is not of the form IDENTITY:KEY".to_owned();
        let (identity, rest) = part("the identity", line)?;
        let rest = rest.strip_prefix(':').ok_or_else(form)?;
        let (key, rest) = part("the pre-shared key", rest)?;
        let key = Zeroizing::new(key);
        match rest.chars().next() {
            None => Self::new(identity, key.to_vec()).map_err(|error| error.to_string()),
            Some(':') => Err("it has several colons; write text with colons in quotes".to_owned()),
            Some(_) => Err(form()),
        }
    }
}

/// The bytes of one part of a line, in quotes or up to a colon, and the rest of the line.
fn part<'a>(what: &'static str, text: &'a str) -> Result<(Vec<u8>, &'a str), String> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(':').unwrap_or(text.len());
        let plain = bytes(what, &text[..end]).map_err(|error| error.to_string())?;
        return Ok((plain, &text[end..]));
    };
    // One allocation, so that no part of a key remains in another.
    let mut unquoted = Vec::with_capacity(quoted.len());
    let mut rest = quoted.bytes().enumerate();
    while let Some((at, byte)) = rest.next() {
        match byte {
            b'"' => return Ok((unquoted, &quoted[at + 1..])),
            b'\\' => match rest.next() {
                Some((_, escaped @ (b'"' | b'\\'))) => unquoted.push(escaped),
                _ => break,
            },
            byte => unquoted.push(byte),
        }
    }
    unquoted.zeroize();
    Err(format!(
        "{what} has no closing quote, or a backslash before another character"
    ))
}

fn bytes(what: &'static str, text: &str) -> Result<Vec<u8>, PskError> {
    let Some(digits) = text.strip_prefix("0x") else {
        return Ok(text.as_bytes().to_vec());
    };
    let wrong = PskError::Unusable {
        what,
        problem: "begins with 0x, but is not an even number of hexadecimal digits",
    };
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    // One allocation of the final size, so that no part of a key remains in another.
    let mut bytes = Vec::with_capacity(digits.len() / 2);
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    for [high, low] in pairs {
        let (Some(high), Some(low)) = (digit(high), digit(low)) else {
            bytes.zeroize();
            return Err(wrong);
        };
        bytes.push(high << 4 | low);
    }
    if rest.is_empty() {
        return Ok(bytes);
    }
    bytes.zeroize();
    Err(wrong)
}

type Find = dyn Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync;

/// Length in bytes of the dummy key of unknown identities, if no key lengths are known.
const DUMMY_LENGTH: usize = 16;

/// Pre-shared keys of a server's clients.
///
/// ```
/// use std::collections::HashMap;
/// use std::sync::{Arc, RwLock};
///
/// use carob::{PreSharedKey, PskStore};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // From a file, from a list, or from a map that another task fills, for example from a database.
/// let file = PskStore::from_text("# identity:key\ndevice-7:secret\ndevice-8:0x0011aaff\n")?;
/// let list = PskStore::new([PreSharedKey::new("device-7", "secret")?]);
/// let keys = Arc::new(RwLock::new(HashMap::from([(b"device-7".to_vec(), b"secret".to_vec())])));
/// let known = Arc::clone(&keys);
/// let lookup = PskStore::by(move |identity| known.read().ok()?.get(identity).cloned());
/// # let _ = (file, list, lookup);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PskStore {
    find: Arc<Find>,
    /// Length in bytes of the dummy key of unknown identities.
    dummy_length: usize,
}

impl fmt::Debug for PskStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PskStore").finish_non_exhaustive()
    }
}

impl PskStore {
    /// Creates a store of these keys. Of several keys for an identity, the last applies.
    pub fn new(keys: impl IntoIterator<Item = PreSharedKey>) -> Self {
        let keys: BTreeMap<Vec<u8>, Zeroizing<Vec<u8>>> = keys
            .into_iter()
            .map(|PreSharedKey { identity, key }| (identity, key))
            .collect();
        let mut lengths = BTreeMap::<usize, usize>::new();
        for key in keys.values() {
            *lengths.entry(key.len()).or_default() += 1;
        }
        let most = lengths.into_iter().max_by_key(|(_, count)| *count);
        let store = Self::by(move |identity| keys.get(identity).map(|key| key.to_vec()));
        Self {
            dummy_length: most.map_or(DUMMY_LENGTH, |(length, _)| length),
            ..store
        }
    }

    /// Creates a store from the text of a file; see [`PreSharedKey::read_all`].
    ///
    /// # Errors
    ///
    /// [`PskError`].
    pub fn from_text(text: &str) -> Result<Self, PskError> {
        PreSharedKey::read_all(text).map(Self::new)
    }

    /// Creates a store that looks up keys with a function. The function must not block.
    ///
    /// An unknown identity takes the time of a known one with a key of 16 bytes, so that the two
    /// cannot be distinguished.
    pub fn by(find: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        Self {
            find: Arc::new(find),
            dummy_length: DUMMY_LENGTH,
        }
    }

    pub(crate) fn find(&self, identity: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        // An empty key would be public.
        let found = (self.find)(identity).filter(|key| !key.is_empty());
        found.map(Zeroizing::new)
    }

    /// Length in bytes of the dummy key of unknown identities, as of most keys.
    pub(crate) fn dummy_length(&self) -> usize {
        self.dummy_length
    }
}

/// Credentials of sessions opened by this endpoint.
pub(super) struct Client {
    dtls: ClientDtls,
    tls: ClientTls,
    /// By peer with its own credential; `None` for all others. Created at first use.
    made: HashMap<Option<SocketAddr>, Arc<ClientSessions>, FixedState>,
}

impl Client {
    pub(super) fn new(dtls: ClientDtls, tls: ClientTls) -> Self {
        Self {
            dtls,
            tls,
            made: HashMap::with_hasher(FixedState::default()),
        }
    }

    /// Returns the credentials for a peer.
    pub(super) fn of(&mut self, peer: SocketAddr) -> Result<Arc<ClientSessions>, TlsError> {
        let own = self.dtls.peers.get(&peer);
        // Peers without a credential of their own share one entry, so that the table is bounded
        // by the configuration.
        let key = own.map(|_| peer);
        if let Some(made) = self.made.get(&key) {
            return Ok(Arc::clone(made));
        }
        let by_certificate = Credential::Certificates(self.tls.clone());
        let credential = own.or(self.dtls.all.as_ref()).unwrap_or(&by_certificate);
        let made = Arc::new(ClientSessions::of(credential)?);
        self.made.insert(key, Arc::clone(&made));
        Ok(made)
    }
}

/// Credentials of sessions opened by peers.
pub(crate) struct ServerCredentials {
    pub(super) side: ServerSide,
    pub(super) verifier: Option<ClientVerifier>,
}

/// The part of sessions that peers open.
pub(crate) struct Server {
    credentials: Replaceable<ServerCredentials>,
    pub(super) cookies: Cookies,
}

impl ServerCredentials {
    pub(crate) fn new(dtls: &ServerDtls) -> Result<Self, TlsError> {
        if dtls.keys.is_none() && dtls.identity.is_none() {
            let problem = "a server for coaps:// needs pre-shared keys, a certificate, or both";
            return Err(TlsError::Dtls(problem.to_owned()));
        }
        let clients = dtls.clients.clone();
        Ok(Self {
            side: ServerSide::new(
                dtls.keys.clone(),
                dtls.hint.clone(),
                dtls.identity.as_ref(),
                clients.is_some(),
            )?,
            verifier: clients.map(ClientVerifier::new).transpose()?,
        })
    }
}

impl Server {
    pub(crate) fn new(dtls: &ServerDtls) -> Result<Self, TlsError> {
        let credentials = ServerCredentials::new(dtls)?;
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)
            .map_err(|error| TlsError::Dtls(format!("no randomness: {error}")))?;
        Ok(Self {
            credentials: Replaceable::new(Arc::new(credentials)),
            cookies: Cookies::new(secret),
        })
    }

    /// The credentials in use, which can be replaced.
    pub(crate) fn credentials(&self) -> &Replaceable<ServerCredentials> {
        &self.credentials
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_keys_is_read_as_text_and_as_digits() {
        let text = "# devices\n\ndevice-1:\"secret:with:colons\"\n0x0102:0xA0ff\n";
        let store = PskStore::from_text(text).expect("it is well-formed");
        assert_eq!(
            store.find(b"device-1"),
            Some(b"secret:with:colons".to_vec().into())
        );
        assert_eq!(store.find(&[1, 2]), Some(vec![0xa0, 0xff].into()));
        assert_eq!(store.find(b"device-2"), None);
    }

    #[test]
    fn every_identity_can_be_written() {
        let identities = [
            "urn:imei:490154203237518",
            "urn:dev:ops:32473-Refrigerator-5002",
            " device 7 ",
            "#7",
            "0x7",
            "a\"b\\c",
            "\u{fc}\u{5d0}\u{1f600}",
            ":",
        ];
        for identity in identities {
            let quoted = identity.replace('\\', "\\\\").replace('"', "\\\"");
            let digits = |hex: String, byte| hex + &format!("{byte:02x}");
            let hex = identity.bytes().fold(String::new(), digits);
            for text in [format!("\"{quoted}\":key"), format!("0x{hex}:key")] {
                let store = PskStore::from_text(&text).expect(&text);
                let found = store.find(identity.as_bytes());
                assert_eq!(found, Some(b"key".to_vec().into()), "{text}");
            }
        }
        let plain = "Client \u{fc}:key";
        let store = PskStore::from_text(plain).expect("blanks inside need no quotes");
        assert!(store.find("Client \u{fc}".as_bytes()).is_some());
    }

    #[test]
    fn a_wrong_line_is_named_and_its_key_is_not_shown() {
        for (text, line) in [
            ("a:b\nnocolon-secret", 2),
            ("a:0xzz", 1),
            (":key", 1),
            ("a:", 1),
            ("urn:imei:secret", 1),
            ("a:secret\na:other", 2),
            ("a:secret\n0x61:other", 2),
            ("\"a:secret", 1),
            ("\"a\"secret", 1),
            ("a:\"secret\"x", 1),
            ("a:\"sec\\ret\"", 1),
        ] {
            let error = PskStore::from_text(text).expect_err(text).to_string();
            assert!(error.starts_with(&format!("line {line}: ")), "{error}");
            assert!(
                !error.contains("secret") && !error.contains("zz"),
                "{error}"
            );
        }
        assert!(matches!(
            PskStore::from_text("# none"),
            Err(PskError::Empty)
        ));
        let key = PreSharedKey::from_text("me", "secret").expect("it is one");
        assert!(!format!("{key:?}").contains("secret"));
    }
}
