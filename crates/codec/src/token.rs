//! Tokens and their length field (RFC 7252 3, 5.3.1; RFC 8974 2.1).

use core::fmt;
use core::hash::Hasher;

use siphasher::sip::SipHasher13;

/// The longest token that every peer supports, in bytes (RFC 7252 3).
pub const BASE_TOKEN_LENGTH: usize = 8;

/// The longest token that a message can have, in bytes (RFC 8974 2.1).
pub(crate) const MAX_TOKEN_LENGTH: usize = 269 + u16::MAX as usize;

/// The longest token whose length fits the field of four bits; longer ones need extension bytes.
pub(super) const LONGEST_PLAIN: usize = 12;
/// The reserved value of the field, a format error (RFC 8974 2.1).
pub(super) const RESERVED: u8 = 15;

/// The token length field and its extension bytes, which precede the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TokenLength {
    /// The field itself, four bits.
    pub(super) nibble: u8,
    extension: [u8; 2],
}

impl TokenLength {
    /// The field for a token of this many bytes; `None` above the maximum.
    #[inline]
    pub(super) const fn new(length: usize) -> Option<Self> {
        let (nibble, extension) = match length {
            0..=LONGEST_PLAIN => (length as u8, [0; 2]),
            13..269 => (13, [(length - 13) as u8, 0]),
            269..=MAX_TOKEN_LENGTH => (14, ((length - 269) as u16).to_be_bytes()),
            _ => return None,
        };
        Some(Self { nibble, extension })
    }

    /// The bytes extending the field: 0 to 2.
    #[inline]
    pub(super) fn extension(&self) -> &[u8] {
        &self.extension[..extension_length(self.nibble)]
    }
}

/// The number of bytes extending the field.
#[inline]
pub(super) const fn extension_length(nibble: u8) -> usize {
    (nibble as usize).saturating_sub(LONGEST_PLAIN)
}

/// The length of a token whose field is `nibble`, which is not [`RESERVED`]. The extension is at
/// the start of `bytes`; `None` if it is incomplete.
#[inline]
pub(super) fn token_length(nibble: u8, bytes: &[u8]) -> Option<usize> {
    match nibble {
        13 => bytes.first().map(|&extension| 13 + usize::from(extension)),
        14 => {
            let extension = bytes.first_chunk::<2>()?;
            Some(269 + usize::from(u16::from_be_bytes(*extension)))
        }
        plain => Some(usize::from(plain)),
    }
}

/// Bytes a token of this length needs beyond [`BASE_TOKEN_LENGTH`], which every message buffer
/// provides.
#[inline]
pub const fn token_room(length: usize) -> usize {
    if length <= BASE_TOKEN_LENGTH {
        0
    } else {
        room_beyond(length)
    }
}

#[cold]
const fn room_beyond(length: usize) -> usize {
    let extension = match length {
        0..=LONGEST_PLAIN => 0,
        13..269 => 1,
        _ => 2,
    };
    length - BASE_TOKEN_LENGTH + extension
}

/// A token of at most [`BASE_TOKEN_LENGTH`] bytes, stored inline.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    // Bytes past the length stay zero, so that derived comparisons equal the slices'.
    bytes: [u8; BASE_TOKEN_LENGTH],
    length: u8,
}

impl Token {
    /// The token of no bytes.
    pub const EMPTY: Self = Self {
        bytes: [0; BASE_TOKEN_LENGTH],
        length: 0,
    };

    /// Copies a token of at most [`BASE_TOKEN_LENGTH`] bytes.
    #[inline]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut token = Self::EMPTY;
        token.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        token.length = bytes.len() as u8;
        Some(token)
    }

    /// Returns the token's bytes on the wire.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes
            .get(..usize::from(self.length))
            .unwrap_or_default()
    }
}

impl core::ops::Deref for Token {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl AsRef<[u8]> for Token {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl fmt::Display for Token {
    /// Writes the bytes in hexadecimal, or `-` for the empty token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        TokenView(self.as_slice()).fmt(f)
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({self})")
    }
}

/// The token of a message, of any length, borrowed from it.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenView<'a>(pub &'a [u8]);

impl<'a> TokenView<'a> {
    /// Creates a token of these bytes.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the token's bytes on the wire.
    #[inline]
    pub const fn as_slice(&self) -> &'a [u8] {
        self.0
    }

    /// Returns whether both tokens have the same length and differ at most in the last byte.
    #[inline]
    pub fn is_sibling(&self, other: &Self) -> bool {
        self.len() == other.len() && stem(self.0) == stem(other.0)
    }
}

/// All bytes but the last, which counts copies under copy tagging.
#[inline]
fn stem(bytes: &[u8]) -> &[u8] {
    bytes
        .get(..bytes.len().saturating_sub(1))
        .unwrap_or_default()
}

impl core::ops::Deref for TokenView<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.0
    }
}

impl AsRef<[u8]> for TokenView<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.0
    }
}

impl PartialEq<Token> for TokenView<'_> {
    fn eq(&self, other: &Token) -> bool {
        self.0 == other.as_slice()
    }
}

impl PartialEq<TokenView<'_>> for Token {
    fn eq(&self, other: &TokenView<'_>) -> bool {
        other == self
    }
}

impl fmt::Display for TokenView<'_> {
    /// Writes the bytes in hexadecimal, or `-` for the empty token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("-");
        }
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for TokenView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({self})")
    }
}

/// The lookup key of a token: the token itself up to [`BASE_TOKEN_LENGTH`] bytes, or a digest of
/// that size.
///
/// Table entries therefore have the same size with or without longer tokens. The full bytes are
/// kept only where they are written again, usually within the received message. The digest is
/// keyed: collisions cannot be constructed without the key and otherwise occur with probability
/// 2^-64.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TokenKey(Token);

/// The length value that marks a digest.
const DIGEST: u8 = u8::MAX;

impl TokenKey {
    /// The key of a short token.
    #[inline]
    pub const fn short(token: Token) -> Self {
        Self(token)
    }

    /// The key of a token; a digest is keyed with these bits.
    #[inline]
    pub fn of(token: TokenView<'_>, key: (u64, u64)) -> Self {
        match Token::new(token.0) {
            Some(short) => Self(short),
            None => Self::digest(token, key),
        }
    }

    #[cold]
    fn digest(token: TokenView<'_>, (high, low): (u64, u64)) -> Self {
        let mut hasher = SipHasher13::new_with_keys(high, low);
        hasher.write(token.0);
        Self(Token {
            bytes: hasher.finish().to_be_bytes(),
            length: DIGEST,
        })
    }

    /// Returns whether the token is longer than [`BASE_TOKEN_LENGTH`] bytes.
    #[inline]
    pub const fn is_long(&self) -> bool {
        self.0.length == DIGEST
    }

    /// The token, if it is short.
    #[inline]
    pub fn token(&self) -> Option<&Token> {
        (!self.is_long()).then_some(&self.0)
    }

    /// The bytes to hash: all but the last, for a short token and for a digest.
    #[inline]
    pub fn stem(&self) -> &[u8] {
        let length = self.0.len().min(BASE_TOKEN_LENGTH);
        stem(self.0.bytes.get(..length).unwrap_or_default())
    }

    /// The last byte of a short token, if it has one. Tokens that count copies are short.
    #[inline]
    pub fn last(&self) -> Option<u8> {
        self.token()?.as_slice().last().copied()
    }

    /// Returns whether both are short, have the same length and differ at most in the last byte.
    #[inline]
    pub fn is_sibling(&self, other: &Self) -> bool {
        !self.is_long() && self.0.length == other.0.length && self.stem() == other.stem()
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn token_holds_eight_bytes_and_no_more() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        assert_eq!(
            Token::new(&bytes[..8]).expect("eight fit").as_slice(),
            &bytes[..8]
        );
        assert_eq!(Token::new(&bytes), None);
        assert_eq!(Token::new(&[]), Some(Token::EMPTY));
    }

    #[test]
    fn tokens_of_different_length_differ_despite_equal_padding() {
        assert_ne!(Token::new(&[0]), Token::new(&[0, 0]));
        assert_ne!(Token::new(&[0]), Some(Token::EMPTY));
    }

    #[test]
    fn siblings_differ_in_their_last_byte_alone() {
        let key = |bytes: &[u8]| TokenKey::of(TokenView(bytes), (1, 2));
        assert!(key(&[1, 2]).is_sibling(&key(&[1, 9])));
        assert!(!key(&[1, 2]).is_sibling(&key(&[3, 2])));
        assert!(!key(&[1]).is_sibling(&key(&[])));
        assert!(!key(&[1; 9]).is_sibling(&key(&[1; 9])));
        assert_eq!(
            (key(&[1, 2]).last(), key(&[]).last(), key(&[3; 9]).last()),
            (Some(2), None, None)
        );
        assert!(TokenView(&[1; 20]).is_sibling(&TokenView(&[1; 20])));
    }

    #[test]
    fn keys_distinguish_long_tokens_in_the_size_of_short_ones() {
        let key = |bytes: &[u8]| TokenKey::of(TokenView(bytes), (1, 2));
        assert!(key(&[7; 9]).is_long() && !key(&[7; 8]).is_long());
        assert_eq!(key(&[7; 9]), key(&[7; 9]));
        assert_ne!(key(&[7; 9]), key(&[7; 10]));
        assert_ne!(
            key(b"a state that begins alike, 1"),
            key(b"a state that begins alike, 2")
        );
        assert_ne!(key(&[7; 9]), TokenKey::of(TokenView(&[7; 9]), (1, 3)));
        assert_eq!(size_of::<TokenKey>(), size_of::<Token>());
    }

    #[test]
    fn token_is_written_in_hexadecimal() {
        assert_eq!(
            Token::new(&[0x0a, 0xff]).expect("two fit").to_string(),
            "0aff"
        );
        assert_eq!(Token::EMPTY.to_string(), "-");
        assert_eq!(TokenView(&[0; 9]).to_string(), "0".repeat(18));
    }

    /// The bounds of RFC 8974 2.1.
    #[test]
    fn token_length_field_encodes_every_length() {
        for (length, nibble, extension) in [
            (0, 0, &[][..]),
            (8, 8, &[]),
            (9, 9, &[]),
            (12, 12, &[]),
            (13, 13, &[0]),
            (268, 13, &[255]),
            (269, 14, &[0, 0]),
            (65_804, 14, &[255, 255]),
        ] {
            let written = TokenLength::new(length).expect("a message can have it");
            assert_eq!((written.nibble, written.extension()), (nibble, extension));
            assert_eq!(extension_length(nibble), extension.len());
            assert_eq!(token_length(nibble, extension), Some(length));
        }
        assert_eq!(TokenLength::new(65_805), None);
        assert_eq!(token_length(13, &[]), None);
        assert_eq!(token_length(14, &[0]), None);
    }
}
