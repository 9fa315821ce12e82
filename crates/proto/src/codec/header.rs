//! The fixed part of a CoAP message: type, Message ID, token (RFC 7252 3).

use core::fmt;

use super::numbers::Code;

/// The longest token, in bytes (RFC 7252 3; lengths 9 to 15 are reserved there).
pub const MAX_TOKEN_LENGTH: usize = 8;

/// The length of the fixed header before the token, in bytes.
pub(crate) const HEADER_LENGTH: usize = 4;

/// The protocol version in the two highest bits of the first byte.
pub(super) const VERSION: u8 = 1;

/// The message type: whether a message asks for an acknowledgement or is one (RFC 7252 4.2, 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Type {
    /// CON: repeated until acknowledged or rejected.
    Confirmable = 0,
    /// NON: sent once, not acknowledged.
    NonConfirmable = 1,
    /// ACK: a Confirmable message arrived; may carry its response.
    Acknowledgement = 2,
    /// RST: a message arrived that could not be processed.
    Reset = 3,
}

impl Type {
    /// The type in the low two bits of `bits`.
    #[inline]
    pub(super) const fn from_bits(bits: u8) -> Self {
        match bits & 3 {
            0 => Self::Confirmable,
            1 => Self::NonConfirmable,
            2 => Self::Acknowledgement,
            _ => Self::Reset,
        }
    }
}

impl fmt::Display for Type {
    /// Writes `CON`, `NON`, `ACK` or `RST`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Confirmable => "CON",
            Self::NonConfirmable => "NON",
            Self::Acknowledgement => "ACK",
            Self::Reset => "RST",
        })
    }
}

/// The Message ID, which pairs acknowledgements with messages and reveals duplicates
/// (RFC 7252 4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u16);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#06x}", self.0)
    }
}

/// The token, which pairs responses with requests: 0 to 8 bytes stored inline (RFC 7252 5.3.1).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    // Bytes past the length stay zero, so that the derived comparisons are those of the slices'
    // contents.
    bytes: [u8; MAX_TOKEN_LENGTH],
    length: u8,
}

impl Token {
    /// The token of no bytes.
    pub const EMPTY: Self = Self {
        bytes: [0; MAX_TOKEN_LENGTH],
        length: 0,
    };

    /// Copies a token of at most [`MAX_TOKEN_LENGTH`] bytes.
    #[inline]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut token = Self::EMPTY;
        token.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        token.length = bytes.len() as u8;
        Some(token)
    }

    /// The token's bytes as they are on the wire.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len()).unwrap_or_default()
    }

    /// The number of bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        self.length as usize
    }

    /// All bytes but the last, which counts copies where tokens tell them apart.
    #[inline]
    pub(crate) fn stem(&self) -> &[u8] {
        self.bytes
            .get(..self.len().saturating_sub(1))
            .unwrap_or_default()
    }

    /// The last byte, if there is one.
    #[inline]
    pub(crate) fn last(&self) -> Option<u8> {
        self.as_slice().last().copied()
    }

    /// Whether `other` is of the same length and the same but for its last byte.
    #[inline]
    pub(crate) fn is_sibling(&self, other: &Self) -> bool {
        self.length == other.length && self.stem() == other.stem()
    }

    /// Whether this is the token of no bytes.
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }
}

impl AsRef<[u8]> for Token {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl fmt::Display for Token {
    /// Writes the bytes in hexadecimal, or `-` for the empty token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("-");
        }
        self.as_slice()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({self})")
    }
}

/// The fixed header of a message, readable even when what follows it is malformed.
///
/// It is what an endpoint needs to reject a Confirmable message with a format error (RFC 7252 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The message type.
    pub kind: Type,
    /// The code, not classified.
    pub code: Code,
    /// The Message ID.
    pub message_id: MessageId,
    /// The token length field, 0 to 15; values above [`MAX_TOKEN_LENGTH`] are format errors.
    pub token_length: u8,
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
    fn tokens_of_different_length_differ_even_when_padded_bytes_agree() {
        assert_ne!(Token::new(&[0]), Token::new(&[0, 0]));
        assert_ne!(Token::new(&[0]), Some(Token::EMPTY));
    }

    #[test]
    fn siblings_differ_in_their_last_byte_alone() {
        let token = |bytes: &[u8]| Token::new(bytes).expect("at most eight");
        assert!(token(&[1, 2]).is_sibling(&token(&[1, 9])));
        assert!(!token(&[1, 2]).is_sibling(&token(&[3, 2])));
        assert!(!token(&[1]).is_sibling(&Token::EMPTY));
        assert_eq!(
            (token(&[1, 2]).last(), Token::EMPTY.last()),
            (Some(2), None)
        );
    }

    #[test]
    fn token_is_written_in_hexadecimal() {
        assert_eq!(
            Token::new(&[0x0a, 0xff]).expect("two fit").to_string(),
            "0aff"
        );
        assert_eq!(Token::EMPTY.to_string(), "-");
    }
}
