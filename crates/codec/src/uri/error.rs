//! Errors of URIs.

use core::fmt;

/// Kinds of [`UriError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UriErrorKind {
    /// The text is longer than 16,384 bytes.
    TooLong,
    /// There is no scheme: the text is not an absolute URI.
    SchemeMissing,
    /// The scheme is none of [`Scheme`](super::Scheme).
    UnknownScheme,
    /// The scheme is not followed by `//`.
    AuthorityMissing,
    /// The host is preceded by user information, which CoAP URIs do not have.
    UserInformation,
    /// The host is empty.
    HostMissing,
    /// The text in brackets is not an IPv6 address.
    InvalidIpLiteral,
    /// The zone of an IPv6 address is empty or wrongly escaped.
    InvalidZone,
    /// An IPv6 address lacks its brackets.
    BracketsMissing,
    /// The port is not a number from 1 to 65535.
    InvalidPort,
    /// A character that needs percent-encoding here.
    InvalidCharacter,
    /// A percent sign without two hexadecimal digits.
    InvalidEscape,
    /// A component is not UTF-8 after decoding.
    NotUtf8,
    /// A path segment is `.` or `..` after decoding (RFC 7252 5.10.1).
    DotSegment,
    /// A component is longer than 255 bytes after decoding.
    ComponentTooLong,
    /// The options exceed the limits of [`Options`](super::Options).
    TooManyOptions,
    /// There is a fragment, which a request cannot carry (RFC 7252 6.4).
    Fragment,
}

/// An unusable URI: the reason and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct UriError {
    /// The reason.
    pub kind: UriErrorKind,
    /// The byte offset in the URI, or in the option value of a URI composed from options.
    pub offset: u16,
}

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            UriErrorKind::TooLong => "URI is longer than 16384 bytes",
            UriErrorKind::SchemeMissing => "URI has no scheme such as coap://",
            UriErrorKind::UnknownScheme => "scheme is not one of CoAP",
            UriErrorKind::AuthorityMissing => "scheme is not followed by //",
            UriErrorKind::UserInformation => "CoAP URI cannot have user information",
            UriErrorKind::HostMissing => "host is empty",
            UriErrorKind::InvalidIpLiteral => "brackets do not hold an IPv6 address",
            UriErrorKind::InvalidZone => "zone of the IPv6 address is invalid",
            UriErrorKind::BracketsMissing => "IPv6 address needs brackets",
            UriErrorKind::InvalidPort => "port is not a number from 1 to 65535",
            UriErrorKind::InvalidCharacter => "character must be percent-encoded",
            UriErrorKind::InvalidEscape => "percent sign lacks two hexadecimal digits",
            UriErrorKind::NotUtf8 => "component is not UTF-8 after decoding",
            UriErrorKind::DotSegment => "path segment is . or .. after decoding",
            UriErrorKind::ComponentTooLong => "component is longer than 255 bytes",
            UriErrorKind::TooManyOptions => "URI needs too many options",
            UriErrorKind::Fragment => "CoAP URI cannot have a fragment",
        };
        write!(f, "{what} at byte {}", self.offset)
    }
}

impl core::error::Error for UriError {}

pub(super) fn error(kind: UriErrorKind, offset: usize) -> UriError {
    UriError {
        kind,
        offset: u16::try_from(offset).unwrap_or(u16::MAX),
    }
}
