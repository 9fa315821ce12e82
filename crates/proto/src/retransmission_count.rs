//! The encoding of the retransmission count, and its echo by a server (draft-ietf-core-fasor-02
//! 4.4, 4.5).
//!
//! A piggybacked response, and the reply to a duplicate, carries the count of the request it
//! replies to. The reply stored for duplicates has no count and gets the count of each retransmission.
//! Replayed unchanged, it would have a client measure a retransmission's round trip from the
//! original. The same holds for a token whose last byte counts. A separate response has no count,
//! and is not sent again for a duplicate.

use alloc::vec::Vec;

use crate::codec::{MessageView, OptionNumber, Type};
use crate::codec::{SMALL_OPTION_BYTES, set_option};
use crate::context::Context;

/// A token counts copies only if it has a byte before the count, by which duplicates of one
/// request are distinguished from another request with its Message ID.
pub(crate) const COUNTING_TOKEN_BYTES: usize = 2;

/// The value of the counting option: a byte, or empty for 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count(Option<u8>);

impl Count {
    /// The count of the first request to an unknown peer: it means 0, at full size.
    pub(crate) const FIRST: Self = Self(Some(u8::MAX));
    /// The last retransmission with a separate count.
    pub(crate) const LARGEST: u8 = u8::MAX - 1;

    /// The count of the original (0) or of a retransmission.
    pub(crate) fn of(copy: u8) -> Self {
        Self((copy > 0).then_some(copy.min(Self::LARGEST)))
    }

    /// The number of the transmission.
    pub(crate) fn copy(self) -> u8 {
        self.0.filter(|_| self != Self::FIRST).unwrap_or_default()
    }

    /// Reads the count of a message.
    pub(crate) fn read(message: &MessageView<'_>, number: OptionNumber) -> Option<Self> {
        Self::of_value(message.option(number)?)
    }

    /// Decodes an option value; one that is too long does not count (RFC 7252 5.4.3).
    pub(crate) fn of_value(value: &[u8]) -> Option<Self> {
        match value {
            [] => Some(Self(None)),
            [value] => Some(Self(Some(*value))),
            _ => None,
        }
    }

    /// Writes the count into the message at the beginning of `buffer`. Returns the new length, or
    /// `None` if it does not fit.
    pub(crate) fn write(
        self,
        buffer: &mut [u8],
        length: usize,
        number: OptionNumber,
    ) -> Option<usize> {
        set_option(buffer, length, number, Some(self.0.as_slice()))
    }

    /// Writes the count into the message at `start..`. Returns whether it fits within `limit`
    /// bytes.
    pub(crate) fn write_at(
        self,
        bytes: &mut Vec<u8>,
        start: usize,
        limit: usize,
        number: OptionNumber,
    ) -> bool {
        let length = bytes.len() - start;
        bytes.resize(
            start + (length + SMALL_OPTION_BYTES).min(limit.max(length)),
            0,
        );
        let written = self.write(&mut bytes[start..], length, number);
        bytes.truncate(start + written.unwrap_or(length));
        written.is_some()
    }
}

impl Context {
    /// The count that a piggybacked response to the request is to echo.
    pub(crate) fn count_to_echo(&self, request: &MessageView<'_>) -> Option<(OptionNumber, Count)> {
        let number = self.count_option?;
        Some((number, Count::read(request, number)?))
    }

    /// Adapts the stored reply to this retransmission of its request.
    pub(crate) fn set_reply_count(&self, answer: &mut Vec<u8>, copy: &MessageView<'_>) {
        let Ok(first) = MessageView::parse(answer) else {
            return; // there is none
        };
        let (token, own) = (first.token(), copy.token());
        if first.kind() != Type::Acknowledgement || !first.code().is_response() {
            return;
        }
        if token != own {
            if own.len() < COUNTING_TOKEN_BYTES || !token.is_sibling(&own) {
                return; // another request with the same Message ID
            }
            let end = first.options_start();
            answer[end - own.len()..end].copy_from_slice(own.as_slice());
        }
        if let Some((number, count)) = self.count_to_echo(copy) {
            count.write_at(answer, 0, crate::config::MESSAGE_BYTES, number);
        }
    }
}
