//! Secrets that decrypt captured sessions: pre-shared keys, and key logs.

use std::collections::BTreeMap;
use std::fmt;

use crate::limits::KEY_LOG_LINES_MAX;

/// Bytes of a random value of a hello message, and of a master secret (RFC 5246 sections 7.4.1.2, 8.1).
pub(crate) const RANDOM_BYTES: usize = 32;
pub(crate) const MASTER_BYTES: usize = 48;

/// Label of the lines of a key log that DTLS 1.2 uses.
const CLIENT_RANDOM: &str = "CLIENT_RANDOM";

/// Pre-shared keys and master secrets of DTLS 1.2 sessions.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct DtlsSecrets {
    keys: BTreeMap<Vec<u8>, Vec<u8>>,
    masters: BTreeMap<[u8; RANDOM_BYTES], [u8; MASTER_BYTES]>,
}

impl fmt::Debug for DtlsSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DtlsSecrets")
            .field("keys", &self.keys.len())
            .field("masters", &self.masters.len())
            .finish()
    }
}

/// Error of a key log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyLogError {
    /// A line with a known label is malformed; its number, from 1.
    Line(usize),
    /// No line has the label `CLIENT_RANDOM`.
    Empty,
    /// The file has more lines than [`KEY_LOG_LINES_MAX`].
    TooLong,
}

impl fmt::Display for KeyLogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(number) => write!(
                f,
                "line {number} is not of the form {CLIENT_RANDOM} RANDOM SECRET, with 64 and 96 \
                 hexadecimal digits"
            ),
            Self::Empty => write!(f, "no line begins with {CLIENT_RANDOM}"),
            Self::TooLong => write!(f, "more than {KEY_LOG_LINES_MAX} lines"),
        }
    }
}

impl std::error::Error for KeyLogError {}

impl DtlsSecrets {
    /// Adds a pre-shared key.
    #[must_use]
    pub fn pre_shared_key(mut self, identity: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.keys.insert(identity.into(), key.into());
        self
    }

    /// Adds the master secrets of a key log: lines `CLIENT_RANDOM RANDOM SECRET`, as `SSLKEYLOGFILE` has
    /// them for TLS 1.2 (RFC 9850 section 2.2). Lines with other labels are of other versions, and are
    /// ignored.
    ///
    /// # Errors
    ///
    /// A malformed line, a log without such a line, and one with too many lines.
    pub fn key_log(mut self, text: &str) -> Result<Self, KeyLogError> {
        let before = self.masters.len();
        for (number, line) in text.lines().enumerate() {
            if number >= KEY_LOG_LINES_MAX {
                return Err(KeyLogError::TooLong);
            }
            let mut words = line.split_ascii_whitespace();
            if words.next() != Some(CLIENT_RANDOM) {
                continue;
            }
            let wrong = KeyLogError::Line(number + 1);
            let random = words.next().and_then(bytes).ok_or(wrong)?;
            let master = words.next().and_then(bytes).ok_or(wrong)?;
            if words.next().is_some() {
                return Err(wrong);
            }
            self.masters.insert(random, master);
        }
        if self.masters.len() == before {
            return Err(KeyLogError::Empty);
        }
        Ok(self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.masters.is_empty()
    }

    pub(crate) fn key(&self, identity: &[u8]) -> Option<&[u8]> {
        self.keys.get(identity).map(Vec::as_slice)
    }

    pub(crate) fn master(&self, random: &[u8; RANDOM_BYTES]) -> Option<[u8; MASTER_BYTES]> {
        self.masters.get(random).copied()
    }
}

/// The bytes of hexadecimal digits; `None` for another number of them.
fn bytes<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    if pairs.len() != N || !rest.is_empty() {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        let digit = |of: &u8| char::from(*of).to_digit(16);
        *byte = (digit(high)? << 4 | digit(low)?) as u8;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_log_has_lines_of_other_versions() {
        let line = format!("CLIENT_RANDOM {} {}", "0a".repeat(32), "Fe".repeat(48));
        let text = format!("# made by a test\nCLIENT_HANDSHAKE_TRAFFIC_SECRET 00 00\n{line}\n");
        let secrets = DtlsSecrets::default().key_log(&text).expect("a key log");
        assert_eq!(secrets.master(&[10; 32]), Some([0xfe; 48]));
        assert_eq!(secrets.master(&[11; 32]), None);
        assert!(!secrets.is_empty());
    }

    #[test]
    fn malformed_key_log_names_its_line() {
        let of = |text: &str| DtlsSecrets::default().key_log(text).expect_err("malformed");
        assert_eq!(of("# nothing\n"), KeyLogError::Empty);
        assert_eq!(of("\nCLIENT_RANDOM 00 00"), KeyLogError::Line(2));
        let long = format!("CLIENT_RANDOM {} {} 1", "00".repeat(32), "00".repeat(48));
        assert_eq!(of(&long), KeyLogError::Line(1));
        let odd = format!("CLIENT_RANDOM {}g {}", "0".repeat(63), "00".repeat(48));
        assert_eq!(of(&odd), KeyLogError::Line(1));
        assert_eq!(
            of(&"\n".repeat(KEY_LOG_LINES_MAX + 1)),
            KeyLogError::TooLong
        );
    }

    #[test]
    fn debug_text_shows_no_secret() {
        let secrets = DtlsSecrets::default().pre_shared_key("device", "secret");
        assert_eq!(
            format!("{secrets:?}"),
            "DtlsSecrets { keys: 1, masters: 0 }"
        );
    }
}
