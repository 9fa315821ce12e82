//! The retransmission count as it is on the wire, and a server's part in it: the echo
//! (draft-ietf-core-fasor-02 4.4, 4.5).
//!
//! A server answers the copy that came: its piggybacked response has the count of the request that
//! it answers, and so has what it answers a duplicate with. The answer kept for duplicates has none
//! and gets that of each copy; replayed as it was, it would have a client time the answer to a
//! retransmission from the original. The same goes for a token whose last byte counts. A separate
//! response has no count, and is not sent anew for a duplicate.

use alloc::vec::Vec;

use super::Endpoint;
use crate::codec::edit::{SMALL_OPTION_BYTES, set_option};
use crate::codec::{MessageView, OptionNumber, Type};

/// A token counts copies only if it has a byte before the count, by which duplicates of one
/// request are told from another request with its Message ID.
pub(super) const COUNTING_TOKEN_BYTES: usize = 2;

/// The value of the option that counts: a byte, or none for 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Count(Option<u8>);

impl Count {
    /// That of the original of a request to a peer of which nothing is known: it means 0, and is of
    /// full size.
    pub(super) const FIRST: Self = Self(Some(u8::MAX));
    /// The last copy that has a count of its own.
    pub(super) const LARGEST: u8 = u8::MAX - 1;

    /// That of the original (0), or of a retransmission.
    pub(super) fn of(copy: u8) -> Self {
        Self((copy > 0).then_some(copy.min(Self::LARGEST)))
    }

    /// The copy it is of.
    pub(super) fn copy(self) -> u8 {
        self.0.filter(|_| self != Self::FIRST).unwrap_or_default()
    }

    /// The one that a message carries.
    pub(super) fn read(message: &MessageView<'_>, number: OptionNumber) -> Option<Self> {
        Self::of_value(message.option(number)?)
    }

    /// The one of this value; one that is too long does not count (RFC 7252 5.4.3).
    pub(super) fn of_value(value: &[u8]) -> Option<Self> {
        match value {
            [] => Some(Self(None)),
            [value] => Some(Self(Some(*value))),
            _ => None,
        }
    }

    /// Writes it into the message at the beginning of `buffer`; the length then, or nothing if it
    /// does not fit.
    pub(super) fn write(
        self,
        buffer: &mut [u8],
        length: usize,
        number: OptionNumber,
    ) -> Option<usize> {
        set_option(buffer, length, number, Some(self.0.as_slice()))
    }

    /// Writes it into the message that the bytes from `start` on are; whether it fits there in
    /// `limit` bytes.
    pub(super) fn write_at(
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

impl Endpoint {
    /// The count that the response to a request is to echo, if that is piggybacked.
    pub(super) fn count_to_echo(&self, request: &MessageView<'_>) -> Option<(OptionNumber, Count)> {
        let number = self.count_option?;
        Some((number, Count::read(request, number)?))
    }

    /// Makes the answer to the first copy of a request, at the end of what is to be sent, one to
    /// this copy.
    pub(super) fn answer_this_copy(&mut self, start: usize, copy: &MessageView<'_>) {
        let answer = &mut self.out_bytes[start..];
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
            let limit = super::MESSAGE_BYTES;
            count.write_at(&mut self.out_bytes, start, limit, number);
        }
    }
}
