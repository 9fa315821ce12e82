//! Percent-encoding and the characters that do not need it (RFC 3986 2).

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::error::{UriError, UriErrorKind, error};

/// Percent-decodes a component in which only bytes that satisfy `allowed` are literal.
pub(crate) fn decode_text(
    text: &str,
    offset: usize,
    allowed: impl Fn(u8) -> bool,
) -> Result<String, UriError> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let at = offset + text.len() - rest.len();
        if byte == b'%' {
            let value = hex_pair(tail).ok_or_else(|| error(UriErrorKind::InvalidEscape, at))?;
            decoded.push(value);
            rest = tail.get(2..).unwrap_or_default();
        } else if allowed(byte) {
            decoded.push(byte);
            rest = tail;
        } else {
            return Err(error(UriErrorKind::InvalidCharacter, at));
        }
    }
    String::from_utf8(decoded).map_err(|_| error(UriErrorKind::NotUtf8, offset))
}

/// Percent-decodes bytes; a percent sign without two digits is literal.
pub(crate) fn percent_decoded(bytes: impl Iterator<Item = u8> + Clone) -> impl Iterator<Item = u8> {
    let mut rest = bytes;
    core::iter::from_fn(move || {
        let byte = rest.next()?;
        if byte == b'%' {
            let mut ahead = rest.clone();
            if let (Some(high), Some(low)) = (ahead.next(), ahead.next())
                && let Some(value) = hex_pair(&[high, low])
            {
                rest = ahead;
                return Some(value);
            }
        }
        Some(byte)
    })
}

/// The byte that the first two characters name in hexadecimal.
pub(crate) fn hex_pair(bytes: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let &[high, low] = bytes.first_chunk::<2>()?;
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

/// Writes bytes, percent-encoding all that do not satisfy `allowed`.
pub(crate) fn encode(
    out: &mut impl fmt::Write,
    bytes: &[u8],
    allowed: impl Fn(u8) -> bool,
) -> fmt::Result {
    bytes.iter().try_for_each(|&byte| {
        if allowed(byte) {
            out.write_char(byte.into())
        } else {
            write!(out, "%{byte:02X}")
        }
    })
}

/// The characters that never need encoding (RFC 3986 2.3).
pub(crate) fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// The characters of a host name: unreserved and sub-delimiters (RFC 3986 3.2.2).
pub(crate) fn is_name_byte(byte: u8) -> bool {
    is_unreserved(byte) || b"!$&'()*+,;=".contains(&byte)
}

/// The characters of a path segment (RFC 3986 3.3).
pub(crate) fn is_path_byte(byte: u8) -> bool {
    is_name_byte(byte) || b":@".contains(&byte)
}

/// The characters of a query (RFC 3986 3.4).
pub(crate) fn is_query_byte(byte: u8) -> bool {
    is_path_byte(byte) || b"/?".contains(&byte)
}
