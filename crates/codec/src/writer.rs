//! Writing messages into a caller's buffer (RFC 7252 3).

use core::fmt;

use super::header::{HEADER_LENGTH, MessageId, Type, VERSION};
use super::numbers::{Code, OptionNumber};
use super::option_iter::encode_uint;
use super::token::{LONGEST_PLAIN, TokenLength};
use super::view::PAYLOAD_MARKER;

/// The longest option value the format can express, in bytes.
pub(crate) const MAX_ENCODABLE_VALUE: usize = 269 + u16::MAX as usize;

/// Reasons an element cannot be written.
///
/// After an error the message is unchanged and may be continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EncodeError {
    /// The buffer has no room for the element.
    BufferTooSmall,
    /// The option number is below one already written.
    OutOfOrder,
    /// The option value is longer than 65,804 bytes (RFC 7252 3.1).
    ValueTooLong,
    /// The token is longer than 65,804 bytes (RFC 8974 2.1).
    TokenTooLong,
    /// An option or a second payload after the payload.
    AfterPayload,
    /// A token, option or payload in a message with code 0.00 (RFC 7252 4.1).
    EmptyMessage,
    /// The message may not have this option, this number of it, or this value (RFC 7252 5.4, 5.10).
    /// Reported by the endpoint; a writer accepts every option.
    NotAllowed(OptionNumber),
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAllowed(number) => {
                return write!(
                    f,
                    "{number} is not allowed in this message, or not with this count or value"
                );
            }
            Self::BufferTooSmall => "buffer is too small for the message",
            Self::OutOfOrder => "option number is below the previous one",
            Self::ValueTooLong => "option value is too long to encode",
            Self::TokenTooLong => "token is too long to encode",
            Self::AfterPayload => "payload has already been written",
            Self::EmptyMessage => "empty message cannot have content",
        })
    }
}

impl core::error::Error for EncodeError {}

/// Writes one message: header first, options by ascending number, payload last.
#[derive(Debug)]
pub struct Writer<'b> {
    buffer: &'b mut [u8],
    length: usize,
    last_number: u16,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Options,
    Complete(EncodeError),
}

impl<'b> Writer<'b> {
    /// Starts a message with its header and token: a [`Token`](super::Token), a
    /// [`TokenView`](super::TokenView) or bytes.
    ///
    /// # Errors
    ///
    /// [`EncodeError`]: the buffer is too small, the token too long, or the code 0.00 and the token not
    /// empty.
    pub fn new(
        buffer: &'b mut [u8],
        kind: Type,
        code: Code,
        message_id: MessageId,
        token: &(impl AsRef<[u8]> + ?Sized),
    ) -> Result<Self, EncodeError> {
        let token = token.as_ref();
        let mut state = State::Options;
        if code.is_empty() {
            if !token.is_empty() {
                return Err(EncodeError::EmptyMessage);
            }
            state = State::Complete(EncodeError::EmptyMessage);
        }
        if token.len() > LONGEST_PLAIN {
            return Self::with_extended_token(buffer, (kind, code, message_id), token, state);
        }
        let length = HEADER_LENGTH + token.len();
        let head = buffer
            .get_mut(..length)
            .ok_or(EncodeError::BufferTooSmall)?;
        let (fixed, rest) = head
            .split_first_chunk_mut::<HEADER_LENGTH>()
            .ok_or(EncodeError::BufferTooSmall)?;
        let [high, low] = message_id.0.to_be_bytes();
        *fixed = [
            VERSION << 6 | (kind as u8) << 4 | token.len() as u8,
            code.0,
            high,
            low,
        ];
        rest.copy_from_slice(token);
        Ok(Self {
            buffer,
            length,
            last_number: 0,
            state,
        })
    }

    /// Starts a message whose token length field is extended (RFC 8974 2.1).
    #[cold]
    fn with_extended_token(
        buffer: &'b mut [u8],
        (kind, code, message_id): (Type, Code, MessageId),
        token: &[u8],
        state: State,
    ) -> Result<Self, EncodeError> {
        let Some(field) = TokenLength::new(token.len()) else {
            return Err(EncodeError::TokenTooLong);
        };
        let [high, low] = message_id.0.to_be_bytes();
        let first = VERSION << 6 | (kind as u8) << 4 | field.nibble;
        let pieces = [&[first, code.0, high, low][..], field.extension(), token];
        let length = pieces.iter().map(|piece| piece.len()).sum();
        let mut head = buffer
            .get_mut(..length)
            .ok_or(EncodeError::BufferTooSmall)?;
        for piece in pieces {
            let (spot, rest) = head.split_at_mut(piece.len());
            spot.copy_from_slice(piece);
            head = rest;
        }
        Ok(Self {
            buffer,
            length,
            last_number: 0,
            state,
        })
    }

    /// Appends an option; numbers must not descend.
    ///
    /// # Errors
    ///
    /// [`EncodeError`]; the message is then unchanged.
    #[inline]
    pub fn option(&mut self, number: OptionNumber, value: &[u8]) -> Result<(), EncodeError> {
        if let State::Complete(error) = self.state {
            return Err(error);
        }
        let Some(delta) = number.0.checked_sub(self.last_number) else {
            return Err(EncodeError::OutOfOrder);
        };
        if delta > 12 || value.len() > 12 {
            return self.extended_option(number, delta, value);
        }
        let spot = self
            .buffer
            .get_mut(self.length..)
            .and_then(|tail| tail.get_mut(..=value.len()))
            .and_then(<[u8]>::split_first_mut);
        let Some((first, rest)) = spot else {
            return Err(EncodeError::BufferTooSmall);
        };
        *first = (delta as u8) << 4 | value.len() as u8;
        rest.copy_from_slice(value);
        self.length += 1 + value.len();
        self.last_number = number.0;
        Ok(())
    }

    fn extended_option(
        &mut self,
        number: OptionNumber,
        delta: u16,
        value: &[u8],
    ) -> Result<(), EncodeError> {
        if value.len() > MAX_ENCODABLE_VALUE {
            return Err(EncodeError::ValueTooLong);
        }
        let head = OptionHead::new(delta, value.len());
        let head = head.as_slice();
        let total = head.len() + value.len();
        let spot = self
            .buffer
            .get_mut(self.length..)
            .and_then(|tail| tail.get_mut(..total));
        let Some(spot) = spot else {
            return Err(EncodeError::BufferTooSmall);
        };
        debug_assert!(head.len() > 1 && head.len() <= 5, "an extended head");
        let (head_spot, value_spot) = spot.split_at_mut(head.len());
        head_spot.copy_from_slice(head);
        value_spot.copy_from_slice(value);
        self.length += total;
        self.last_number = number.0;
        Ok(())
    }

    /// Appends an option holding an integer in as few bytes as possible.
    ///
    /// # Errors
    ///
    /// [`EncodeError`]; the message is then unchanged.
    #[inline]
    pub fn uint_option(&mut self, number: OptionNumber, value: u32) -> Result<(), EncodeError> {
        self.option(number, encode_uint(value).as_slice())
    }

    /// Appends the payload; an empty one writes nothing, as the format demands.
    ///
    /// # Errors
    ///
    /// [`EncodeError`]; the message is then unchanged.
    #[inline]
    pub fn payload(&mut self, payload: &[u8]) -> Result<(), EncodeError> {
        self.payload_with(payload.len(), |spot| spot.copy_from_slice(payload))
    }

    /// Appends a payload of `length` bytes that `fill` writes in place.
    ///
    /// `fill` gets exactly `length` bytes of unspecified content; for 0 it is not called.
    ///
    /// # Errors
    ///
    /// [`EncodeError`]; the message is then unchanged.
    #[inline]
    pub fn payload_with(
        &mut self,
        length: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), EncodeError> {
        if length == 0 {
            return Ok(());
        }
        if let State::Complete(error) = self.state {
            return Err(error);
        }
        let spot = self
            .buffer
            .get_mut(self.length..)
            .and_then(<[u8]>::split_first_mut)
            .and_then(|(marker, tail)| Some((marker, tail.get_mut(..length)?)));
        let Some((marker, spot)) = spot else {
            return Err(EncodeError::BufferTooSmall);
        };
        *marker = PAYLOAD_MARKER;
        fill(spot);
        self.length += 1 + length;
        self.state = State::Complete(EncodeError::AfterPayload);
        Ok(())
    }

    /// Returns the largest payload that still fits, in bytes.
    pub const fn payload_room(&self) -> usize {
        (self.buffer.len() - self.length).saturating_sub(1)
    }

    /// Ends the message and returns its length in bytes.
    #[inline]
    pub const fn finish(self) -> usize {
        debug_assert!(self.length >= HEADER_LENGTH && self.length <= self.buffer.len());
        self.length
    }
}

/// The bytes before an option's value: delta, length and their extensions (RFC 7252 3.1).
#[derive(Clone, Copy)]
pub(super) struct OptionHead {
    bytes: [u8; 5],
    length: u8,
}

impl OptionHead {
    /// The head of an option whose value has at most [`MAX_ENCODABLE_VALUE`] bytes.
    #[inline]
    pub(super) fn new(delta: u16, value_length: usize) -> Self {
        let (delta_nibble, delta_extension, delta_length) = extension(u32::from(delta));
        let (length_nibble, length_extension, length_length) = extension(value_length as u32);
        let [d0, d1] = delta_extension;
        let [l0, l1] = length_extension;
        let first = delta_nibble << 4 | length_nibble;
        let bytes = match delta_length {
            0 => [first, l0, l1, 0, 0],
            1 => [first, d0, l0, l1, 0],
            _ => [first, d0, d1, l0, l1],
        };
        Self {
            bytes,
            length: 1 + delta_length + length_length,
        }
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.length as usize).unwrap_or_default()
    }
}

/// The nibble for a delta or length, the extension bytes, and their number.
#[inline]
const fn extension(value: u32) -> (u8, [u8; 2], u8) {
    match value {
        0..=12 => (value as u8, [0; 2], 0),
        13..=268 => (13, [(value - 13) as u8, 0], 1),
        _ => (14, ((value - 269) as u16).to_be_bytes(), 2),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::super::Token;
    use super::super::view::MessageView;
    use super::*;

    fn writer(buffer: &mut [u8]) -> Writer<'_> {
        Writer::new(
            buffer,
            Type::Confirmable,
            Code::POST,
            MessageId(1),
            &Token::EMPTY,
        )
        .expect("buffer holds a header")
    }

    #[test]
    fn descending_option_numbers_are_refused() {
        let mut buffer = [0; 32];
        let mut writer = writer(&mut buffer);
        writer.option(OptionNumber::URI_PATH, b"a").expect("fits");
        assert_eq!(
            writer.option(OptionNumber::URI_HOST, b"h"),
            Err(EncodeError::OutOfOrder)
        );
        writer
            .option(OptionNumber::URI_PATH, b"b")
            .expect("equal numbers repeat");
        let length = writer.finish();
        assert_eq!(&buffer[4..length], [0xb1, b'a', 0x01, b'b']);
    }

    #[test]
    fn nothing_follows_the_payload() {
        let mut buffer = [0; 32];
        let mut writer = writer(&mut buffer);
        writer.payload(b"x").expect("fits");
        assert_eq!(writer.payload(b"y"), Err(EncodeError::AfterPayload));
        assert_eq!(
            writer.option(OptionNumber::SIZE1, &[]),
            Err(EncodeError::AfterPayload)
        );
    }

    #[test]
    fn empty_payload_writes_no_marker() {
        let mut buffer = [0; 32];
        let mut writer = writer(&mut buffer);
        writer.payload(&[]).expect("nothing to write");
        assert_eq!(writer.finish(), 4);
    }

    #[test]
    fn empty_message_takes_no_content() {
        let token = Token::new(&[1]).expect("fits");
        let mut buffer = [0; 32];
        let kind = Type::Reset;
        let refused = Writer::new(&mut buffer, kind, Code::EMPTY, MessageId(1), &token);
        assert_eq!(refused.err(), Some(EncodeError::EmptyMessage));
        let mut writer = Writer::new(&mut buffer, kind, Code::EMPTY, MessageId(1), &Token::EMPTY)
            .expect("a bare header");
        assert_eq!(
            writer.option(OptionNumber::ETAG, &[1]),
            Err(EncodeError::EmptyMessage)
        );
        assert_eq!(writer.payload(b"x"), Err(EncodeError::EmptyMessage));
        assert_eq!(writer.finish(), 4);
    }

    #[test]
    fn exact_buffer_suffices_and_smaller_ones_are_refused() {
        let value = [7; 300];
        let write = |buffer: &mut [u8]| {
            let token = Token::new(&[1, 2, 3]).expect("fits");
            let mut writer =
                Writer::new(buffer, Type::Confirmable, Code::PUT, MessageId(1), &token)?;
            writer.option(OptionNumber::URI_PATH, b"short")?;
            writer.option(OptionNumber(1000), &value)?;
            writer.payload(b"payload")?;
            Ok(writer.finish())
        };
        let mut buffer = [0; 512];
        let exact = write(&mut buffer).expect("large buffer");
        assert_eq!(exact, 4 + 3 + 6 + (5 + 300) + 8);
        for length in 0..exact {
            assert_eq!(
                write(&mut buffer[..length]),
                Err(EncodeError::BufferTooSmall)
            );
        }
        assert_eq!(write(&mut buffer[..exact]), Ok(exact));
    }

    #[test]
    fn failed_option_leaves_the_message_intact() {
        let mut buffer = [0; 8];
        let mut writer = writer(&mut buffer);
        let long = [0; 40];
        assert_eq!(
            writer.option(OptionNumber::ECHO, &long),
            Err(EncodeError::BufferTooSmall)
        );
        writer.option(OptionNumber::ETAG, &[9]).expect("fits");
        assert_eq!(writer.payload_room(), 1);
        let length = writer.finish();
        let message = MessageView::parse(&buffer[..length]).expect("well formed");
        assert_eq!(message.option(OptionNumber::ETAG), Some(&[9][..]));
        assert_eq!(message.options().count(), 1);
    }

    #[test]
    fn longest_encodable_value_is_written_and_one_more_is_refused() {
        let value = vec![0; MAX_ENCODABLE_VALUE + 1];
        let mut buffer = vec![0; MAX_ENCODABLE_VALUE + 64];
        let mut writer = writer(&mut buffer);
        assert_eq!(
            writer.option(OptionNumber(1), &value),
            Err(EncodeError::ValueTooLong)
        );
        writer
            .option(OptionNumber(1), &value[1..])
            .expect("longest value");
        let length = writer.finish();
        assert_eq!(&buffer[4..7], [0x1e, 0xff, 0xff]);
        assert_eq!(length, 4 + 3 + MAX_ENCODABLE_VALUE);
    }

    #[test]
    fn payload_can_be_filled_in_place() {
        let mut buffer = [0; 16];
        let mut writer = writer(&mut buffer);
        writer.payload_with(3, |spot| spot.fill(5)).expect("fits");
        let length = writer.finish();
        assert_eq!(&buffer[4..length], [0xff, 5, 5, 5]);
    }
}
