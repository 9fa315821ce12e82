//! Reading messages without copying them (RFC 7252 3).

use core::fmt;

use super::header::{HEADER_LENGTH, Header, MessageId, Type, VERSION};
use super::numbers::{Code, OptionNumber};
use super::option_iter::decode_option;
use super::option_iter::{OptionIter, OptionList, split_option};
use super::token::{
    BASE_TOKEN_LENGTH, LONGEST_PLAIN, RESERVED, TokenView, extension_length, token_length,
};

/// The byte that separates options from payload.
pub(super) const PAYLOAD_MARKER: u8 = 0xff;

/// The longest message that is read, in bytes: more than any UDP datagram carries.
pub(crate) const MAX_MESSAGE_LENGTH: usize = u16::MAX as usize;

/// Kinds of [`DecodeError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// Fewer than the four bytes of a header.
    HeaderTruncated,
    /// The version is not 1; such messages are silently ignored (RFC 7252 3).
    UnsupportedVersion,
    /// More than 65,535 bytes.
    MessageTooLong,
    /// The token length field is 15 (RFC 8974 2.1).
    TokenLengthReserved,
    /// The message ends within its token or its token length.
    TokenTruncated,
    /// A message with code 0.00 has a token or bytes after the Message ID (RFC 7252 4.1).
    EmptyMessageHasContent,
    /// An option's delta nibble is 15 in a byte that is not the payload marker.
    OptionDeltaReserved,
    /// An option's length nibble is 15.
    OptionLengthReserved,
    /// The message ends within an option.
    OptionTruncated,
    /// The sum of the deltas exceeds 65535.
    OptionNumberTooLarge,
    /// The payload marker is the last byte.
    PayloadMissing,
}

/// A message format error and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct DecodeError {
    /// The reason.
    pub kind: DecodeErrorKind,
    /// The offset of the offending element's first byte in the message.
    pub offset: u16,
}

impl fmt::Display for DecodeErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::HeaderTruncated => "message is shorter than its header",
            Self::UnsupportedVersion => "protocol version is not 1",
            Self::MessageTooLong => "message is longer than 65535 bytes",
            Self::TokenLengthReserved => "token length is reserved",
            Self::TokenTruncated => "message ends within its token",
            Self::EmptyMessageHasContent => "empty message has content",
            Self::OptionDeltaReserved => "option delta is reserved",
            Self::OptionLengthReserved => "option length is reserved",
            Self::OptionTruncated => "message ends within an option",
            Self::OptionNumberTooLarge => "option number exceeds 65535",
            Self::PayloadMissing => "payload marker is followed by no payload",
        })
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.kind, self.offset)
    }
}

impl core::error::Error for DecodeError {}

#[cold]
const fn error(kind: DecodeErrorKind, offset: usize) -> DecodeError {
    // Larger offsets arise only for messages that are too long, whose offset is the limit.
    let offset = if offset > u16::MAX as usize {
        u16::MAX
    } else {
        offset as u16
    };
    DecodeError { kind, offset }
}

/// Decodes the fixed header alone, even of a message that [`MessageView::parse`] refuses.
///
/// The header determines the reply to a malformed message. A Confirmable message with a format
/// error is rejected with a Reset (RFC 7252 4.2). A message of another version or with an
/// incomplete header is ignored; those are the two errors returned.
///
/// # Errors
///
/// [`DecodeError`] if the header is incomplete or of another version.
#[inline]
pub fn parse_header(bytes: &[u8]) -> Result<Header, DecodeError> {
    let Some(&[first, code, high, low]) = bytes.first_chunk::<HEADER_LENGTH>() else {
        return Err(error(DecodeErrorKind::HeaderTruncated, bytes.len()));
    };
    if first >> 6 != VERSION {
        return Err(error(DecodeErrorKind::UnsupportedVersion, 0));
    }
    Ok(Header {
        kind: Type::from_bits(first >> 4),
        code: Code(code),
        message_id: MessageId(u16::from_be_bytes([high, low])),
        token_length: first & 0x0f,
    })
}

/// The offset of the options when the token length field exceeds [`LONGEST_PLAIN`].
#[cold]
fn extended_start(nibble: u8, bytes: &[u8]) -> Result<usize, DecodeError> {
    if nibble == RESERVED {
        return Err(error(DecodeErrorKind::TokenLengthReserved, 0));
    }
    let length = bytes.get(HEADER_LENGTH..);
    match length.and_then(|rest| token_length(nibble, rest)) {
        Some(length) => Ok(HEADER_LENGTH + extension_length(nibble) + length),
        None => Err(error(DecodeErrorKind::TokenTruncated, HEADER_LENGTH)),
    }
}

#[cold]
const fn empty_with_content(header: Header) -> DecodeError {
    match header.token_length {
        RESERVED => error(DecodeErrorKind::TokenLengthReserved, 0),
        0 => error(DecodeErrorKind::EmptyMessageHasContent, HEADER_LENGTH),
        _ => error(DecodeErrorKind::EmptyMessageHasContent, 0),
    }
}

/// The end of the token in a message that begins with these bytes. `None` if the bytes are too few
/// or the token length field is reserved.
pub fn token_end(bytes: &[u8]) -> Option<usize> {
    let nibble = bytes.first()? & 0x0f;
    if usize::from(nibble) <= LONGEST_PLAIN {
        return Some(HEADER_LENGTH + usize::from(nibble));
    }
    extended_start(nibble, bytes).ok()
}

/// A well-formed message, borrowed from its datagram.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MessageView<'a> {
    bytes: &'a [u8],
    kind: Type,
    code: Code,
    message_id: MessageId,
    /// Bounds of the options in the message, in bytes. They end at the payload marker or at the end
    /// of the message.
    options_start: u16,
    options_end: u16,
}

/// Offsets within a well-formed message that is stored and parsed again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    kind: Type,
    code: Code,
    message_id: MessageId,
    options_start: u16,
    options_end: u16,
}

impl<'a> MessageView<'a> {
    /// The offsets of the message's parts.
    pub const fn layout(&self) -> Layout {
        Layout {
            kind: self.kind,
            code: self.code,
            message_id: self.message_id,
            options_start: self.options_start,
            options_end: self.options_end,
        }
    }

    /// A view of these bytes without another check. `layout` must come from a message with the same
    /// bytes.
    pub const fn with_layout(bytes: &'a [u8], layout: Layout) -> Self {
        Self {
            bytes,
            kind: layout.kind,
            code: layout.code,
            message_id: layout.message_id,
            options_start: layout.options_start,
            options_end: layout.options_end,
        }
    }

    /// Checks a whole message and gives access to its parts.
    ///
    /// The checks follow RFC 7252 3 and 4.1. Codes, option numbers and option value lengths
    /// are not checked.
    ///
    /// # Errors
    ///
    /// [`DecodeError`], with the position of the format error.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        if bytes.len() > MAX_MESSAGE_LENGTH {
            parse_header(bytes)?;
            return Err(error(DecodeErrorKind::MessageTooLong, MAX_MESSAGE_LENGTH));
        }
        Self::parse_long(bytes)
    }

    /// Checks a message from a reliable transport, whose payload may have any length. Its options
    /// still end within 65,535 bytes.
    ///
    /// # Errors
    ///
    /// [`DecodeError`], with the position of the format error.
    #[inline]
    pub fn parse_long(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let header = parse_header(bytes)?;
        let nibble = usize::from(header.token_length);
        if header.code.is_empty() && bytes.len() + nibble != HEADER_LENGTH {
            return Err(empty_with_content(header));
        }
        let options_start = if nibble <= LONGEST_PLAIN {
            HEADER_LENGTH + nibble
        } else {
            extended_start(header.token_length, bytes)?
        };
        let Some(mut rest) = bytes.get(options_start..) else {
            return Err(error(DecodeErrorKind::TokenTruncated, HEADER_LENGTH));
        };
        let mut number = 0;
        while let Some(&first) = rest.first() {
            let offset = bytes.len() - rest.len();
            if first == PAYLOAD_MARKER {
                if rest.len() == 1 {
                    return Err(error(DecodeErrorKind::PayloadMissing, offset));
                }
                break;
            }
            let option = match split_option(first, rest) {
                Ok(option) => option,
                Err(kind) => return Err(error(kind, offset)),
            };
            number += option.delta;
            if number > u32::from(u16::MAX) {
                return Err(error(DecodeErrorKind::OptionNumberTooLarge, offset));
            }
            rest = option.rest;
        }
        let Ok(options_end) = u16::try_from(bytes.len() - rest.len()) else {
            return Err(error(DecodeErrorKind::MessageTooLong, MAX_MESSAGE_LENGTH));
        };
        let Header {
            kind,
            code,
            message_id,
            ..
        } = header;
        Ok(Self {
            bytes,
            kind,
            code,
            message_id,
            options_start: options_start as u16, // which is no more than their end
            options_end,
        })
    }

    /// Returns the message type.
    #[inline]
    pub const fn kind(&self) -> Type {
        self.kind
    }

    /// Returns the code.
    #[inline]
    pub const fn code(&self) -> Code {
        self.code
    }

    /// Returns the Message ID.
    #[inline]
    pub const fn message_id(&self) -> MessageId {
        self.message_id
    }

    /// Returns the token.
    #[inline]
    pub fn token(&self) -> TokenView<'a> {
        let end = self.options_start();
        let token = if end <= HEADER_LENGTH + LONGEST_PLAIN {
            self.bytes.get(HEADER_LENGTH..end)
        } else {
            self.extended_token()
        };
        TokenView::new(token.unwrap_or_default())
    }

    #[cold]
    fn extended_token(&self) -> Option<&'a [u8]> {
        let extension = extension_length(self.bytes.first()? & 0x0f);
        self.bytes
            .get(HEADER_LENGTH + extension..self.options_start())
    }

    /// Returns whether the token exceeds [`BASE_TOKEN_LENGTH`] bytes, which not every peer
    /// supports.
    #[inline]
    pub const fn has_long_token(&self) -> bool {
        self.options_start() > HEADER_LENGTH + BASE_TOKEN_LENGTH
    }

    /// The offset of the options: the length of header and token.
    #[inline]
    pub const fn options_start(&self) -> usize {
        self.options_start as usize
    }

    /// Returns the options in the order of the message: by ascending number.
    #[inline]
    pub fn options(&self) -> OptionIter<'a> {
        let encoded = self
            .bytes
            .get(self.options_start as usize..self.options_end as usize)
            .unwrap_or_default();
        OptionIter::new(encoded)
    }

    /// Returns the value of the first option with this number.
    pub fn option(&self, number: OptionNumber) -> Option<&'a [u8]> {
        self.options()
            .take_while(|option| option.number <= number)
            .find(|option| option.number == number)
            .map(|option| option.value)
    }

    /// Returns every value of a repeatable option, in order.
    pub fn values(&self, number: OptionNumber) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.options()
            .take_while(move |option| option.number <= number)
            .filter(move |option| option.number == number)
            .map(|option| option.value)
    }

    /// Returns the first option with this number as an integer. `None` if it is absent or its
    /// length is outside its definition.
    pub fn uint_option(&self, number: OptionNumber) -> Option<u32> {
        decode_option(number, self.option(number)?)
    }

    /// Returns the payload; empty when the message has none.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.bytes
            .get(self.options_end as usize + 1..)
            .unwrap_or_default()
    }

    /// Returns the whole message as received.
    #[inline]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl fmt::Debug for MessageView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageView")
            .field("kind", &self.kind())
            .field("code", &self.code())
            .field("message_id", &self.message_id())
            .field("token", &self.token())
            .field("options", &OptionList(self.options()))
            .field("payload_length", &self.payload().len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::{format, vec};

    use super::super::option_iter::OptionView;
    use super::*;

    fn fails(bytes: &[u8]) -> (DecodeErrorKind, u16) {
        let error = MessageView::parse(bytes).expect_err("message is malformed");
        (error.kind, error.offset)
    }

    #[test]
    fn reserved_nibbles_are_format_errors() {
        assert_eq!(
            fails(&[0x40, 1, 0, 0, 0xf0]),
            (DecodeErrorKind::OptionDeltaReserved, 4)
        );
        assert_eq!(
            fails(&[0x40, 1, 0, 0, 0x0f]),
            (DecodeErrorKind::OptionLengthReserved, 4)
        );
    }

    #[test]
    fn option_number_may_reach_65535_but_not_pass_it() {
        let largest = [0x40, 1, 0, 0, 0xe0, 0xfe, 0xf2];
        let message = MessageView::parse(&largest).expect("65535 is a valid number");
        assert_eq!(
            message.options().next().map(|option| option.number),
            Some(OptionNumber(65535))
        );
        let beyond = [0x40, 1, 0, 0, 0xe0, 0xfe, 0xf2, 0x10];
        assert_eq!(fails(&beyond), (DecodeErrorKind::OptionNumberTooLarge, 7));
        let in_one_step = [0x40, 1, 0, 0, 0xe0, 0xfe, 0xf3];
        assert_eq!(
            fails(&in_one_step),
            (DecodeErrorKind::OptionNumberTooLarge, 4)
        );
    }

    #[test]
    fn payload_marker_without_payload_is_a_format_error() {
        assert_eq!(
            fails(&[0x40, 1, 0, 0, 0xff]),
            (DecodeErrorKind::PayloadMissing, 4)
        );
        let one_byte = [0x40, 1, 0, 0, 0xff, 0xff];
        assert_eq!(
            MessageView::parse(&one_byte)
                .expect("has payload")
                .payload(),
            [0xff]
        );
    }

    #[test]
    fn empty_message_is_exactly_four_bytes() {
        assert!(MessageView::parse(&[0x60, 0, 0x12, 0x34]).is_ok());
        assert_eq!(
            fails(&[0x60, 0, 0, 0, 0]),
            (DecodeErrorKind::EmptyMessageHasContent, 4)
        );
        assert_eq!(
            fails(&[0x61, 0, 0, 0, 0]),
            (DecodeErrorKind::EmptyMessageHasContent, 0)
        );
        assert_eq!(
            fails(&[0x61, 0, 0, 0]),
            (DecodeErrorKind::EmptyMessageHasContent, 0)
        );
    }

    #[test]
    fn header_of_a_malformed_message_can_still_be_read() {
        let malformed = [0x4f, 1, 0x12, 0x34];
        assert_eq!(fails(&malformed), (DecodeErrorKind::TokenLengthReserved, 0));
        let header = parse_header(&malformed).expect("four bytes of version 1");
        assert_eq!(header.kind, Type::Confirmable);
        assert_eq!(header.message_id, MessageId(0x1234));
        assert_eq!(header.token_length, 15);
    }

    #[test]
    fn other_versions_and_truncated_headers_have_no_header() {
        assert_eq!(
            fails(&[0x80, 1, 0, 0]),
            (DecodeErrorKind::UnsupportedVersion, 0)
        );
        assert_eq!(
            fails(&[0x00, 1, 0, 0]),
            (DecodeErrorKind::UnsupportedVersion, 0)
        );
        assert_eq!(fails(&[0x40, 1, 0]), (DecodeErrorKind::HeaderTruncated, 3));
        assert_eq!(fails(&[]), (DecodeErrorKind::HeaderTruncated, 0));
    }

    #[test]
    fn reserved_code_classes_parse() {
        for code in [0x20, 0xc0, 0xff] {
            let bytes = [0x40, code, 0, 0];
            assert_eq!(
                MessageView::parse(&bytes).expect("well formed").code(),
                Code(code)
            );
        }
    }

    #[test]
    fn message_length_is_limited() {
        let mut bytes = vec![0; MAX_MESSAGE_LENGTH + 1];
        bytes[..5].copy_from_slice(&[0x40, 2, 0, 0, 0xff]);
        assert_eq!(fails(&bytes), (DecodeErrorKind::MessageTooLong, u16::MAX));
        let message = MessageView::parse(&bytes[..MAX_MESSAGE_LENGTH]).expect("at the limit");
        assert_eq!(message.payload().len(), MAX_MESSAGE_LENGTH - 5);
    }

    #[test]
    fn long_payload_is_parsed_and_long_options_are_not() {
        let mut bytes = vec![0; MAX_MESSAGE_LENGTH + 10];
        bytes[..5].copy_from_slice(&[0x50, 2, 0, 0, 0xff]);
        let message = MessageView::parse_long(&bytes).expect("well formed");
        assert_eq!(message.payload().len(), MAX_MESSAGE_LENGTH + 5);
        // One option of 65535 bytes.
        bytes[4..7].copy_from_slice(&[0x1e, 0xfe, 0xf2]);
        bytes.truncate(7 + 0xffff);
        let refused = MessageView::parse_long(&bytes).expect_err("beyond the limit");
        assert_eq!(refused.kind, DecodeErrorKind::MessageTooLong);
    }

    #[test]
    fn first_value_wins_and_all_values_are_listed() {
        let bytes = [0x40, 1, 0, 0, 0xb1, b'a', 0x01, b'b', 0x41, b'c'];
        let message = MessageView::parse(&bytes).expect("well formed");
        assert_eq!(message.option(OptionNumber::URI_PATH), Some(&b"a"[..]));
        assert!(message.values(OptionNumber::URI_PATH).eq([b"a", b"b"]));
        assert_eq!(
            message.uint_option(OptionNumber::URI_QUERY),
            Some(u32::from(b'c'))
        );
        assert_eq!(message.option(OptionNumber::ACCEPT), None);
        assert_eq!(
            format!("{:?}", message.options().next().expect("has options")),
            "Uri-Path: \"a\""
        );
    }

    #[test]
    fn an_option_outside_its_length_limits_is_not_recognized() {
        let view = |number, value| OptionView { number, value };
        assert!(view(OptionNumber::ACCEPT, &[0, 0]).recognized().is_some());
        assert!(
            view(OptionNumber::ACCEPT, &[0, 0, 0])
                .recognized()
                .is_none()
        );
        assert!(view(OptionNumber(2), &[]).recognized().is_none());
    }

    #[test]
    fn error_has_kind_and_position() {
        let error = MessageView::parse(&[0x40, 1, 0, 0, 0xb5, b'x']).expect_err("truncated");
        assert_eq!(error.to_string(), "message ends within an option at byte 4");
    }
}
