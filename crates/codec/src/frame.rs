//! Messages on reliable transports: the header that a byte stream needs, and what WebSocket leaves
//! of it (RFC 8323 3.2, 4.2).
//!
//! There is no type and no Message ID, and the length comes first. All else is as in a datagram, so
//! the engine reads and writes datagram messages, and this module exchanges their heads. A message
//! taken from a stream gets the head of a NON with Message ID 0, which is ignored.
//!
//! ```
//! use carob_codec::{Code, Framing, FrameReader, MessageView};
//!
//! // A 2.03 with token 7f, in two pieces (RFC 8323 3.2).
//! let mut reader = FrameReader::new(Framing::Stream, 1_152);
//! reader.push(&[0x01, 0x43]);
//! assert_eq!(reader.next()?, None);
//! reader.push(&[0x7f]);
//! let message = MessageView::parse_long(reader.next()?.expect("it is complete"))?;
//! assert_eq!((message.code(), message.token().as_slice()), (Code::VALID, &[0x7f][..]));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use super::header::{HEADER_LENGTH, Type, VERSION};
use super::numbers::Code;
use super::token::{RESERVED, extension_length, token_length};

/// Bytes reserved before a frame, so that a head of two bytes can become one of four in place.
const HEADROOM: usize = 2;
/// Capacity in bytes that an empty buffer retains; larger capacity was for one large message.
const BUFFER_KEPT: usize = 16 << 10;

/// Delimiting of messages by a transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// TCP and TLS: each message carries its length (RFC 8323 3.2).
    #[default]
    Stream,
    /// WebSocket: one message is one WebSocket message, its length field is 0 (RFC 8323 4.2).
    WebSocket,
}

/// Frame errors. Each ends the connection, because the next frame cannot be located.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// The token length field is 15 (RFC 8974 2.1).
    TokenLengthReserved,
    /// The message is longer than the limit announced to the peer.
    TooLong {
        /// The length of the message in bytes, head included.
        length: u64,
        /// The limit in bytes.
        limit: u32,
    },
    /// A WebSocket message shorter than its head and token.
    Truncated,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TokenLengthReserved => f.write_str("token length is reserved"),
            Self::TooLong { length, limit } => {
                write!(f, "message of {length} bytes where {limit} are the most")
            }
            Self::Truncated => f.write_str("message is shorter than its head and token"),
        }
    }
}

impl core::error::Error for FrameError {}

/// The head of a message on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Bytes of options, payload marker and payload.
    pub length: u64,
    /// Bytes of the token.
    pub token_length: u32,
    /// The message code.
    pub code: Code,
    /// Bytes of the head up to the code, 2 to 6.
    pub head_length: u8,
    /// Bytes between head and token that extend the token length field: 0 to 2 (RFC 8974 A.2).
    pub extension_length: u8,
}

impl FrameHead {
    /// Decodes the head at the beginning of `bytes`; `None` if more bytes are needed.
    ///
    /// # Errors
    ///
    /// [`FrameError::TokenLengthReserved`].
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, FrameError> {
        let Some(&first) = bytes.first() else {
            return Ok(None);
        };
        let nibble = first & 0x0f;
        if nibble == RESERVED {
            return Err(FrameError::TokenLengthReserved);
        }
        let (more, base) = match first >> 4 {
            13 => (1, 13),
            14 => (2, 269),
            15 => (4, 65_805),
            short => (0, u64::from(short)),
        };
        let Some(extended) = bytes.get(1..1 + more) else {
            return Ok(None);
        };
        let Some((&code, rest)) = bytes.get(1 + more..).and_then(<[u8]>::split_first) else {
            return Ok(None);
        };
        let Some(token_length) = token_length(nibble, rest) else {
            return Ok(None);
        };
        let extended = extended
            .iter()
            .fold(0, |length, &byte| length << 8 | u64::from(byte));
        Ok(Some(Self {
            length: base + extended,
            token_length: token_length as u32,
            code: Code(code),
            head_length: 2 + more as u8,
            extension_length: extension_length(nibble) as u8,
        }))
    }

    /// Returns the length of the whole message in bytes.
    pub const fn total(&self) -> u64 {
        self.head_length as u64
            + self.extension_length as u64
            + self.token_length as u64
            + self.length
    }
}

/// Appends `message`, encoded as a datagram, to `out` in the form of `framing`.
///
/// # Panics
///
/// If the message is shorter than its header and token.
pub fn write_frame(framing: Framing, message: &[u8], out: &mut Vec<u8>) {
    let (&[first, code, _, _], rest) = message
        .split_first_chunk::<HEADER_LENGTH>()
        .expect("a message has a header");
    let field = first & 0x0f;
    let token_length = token_length(field, rest).expect("a message has a token length");
    let length = rest.len() - extension_length(field) - token_length;
    match framing {
        Framing::WebSocket => out.push(field),
        Framing::Stream => {
            let head = |nibble: u8| nibble << 4 | field;
            match length {
                0..13 => out.push(head(length as u8)),
                13..269 => out.extend_from_slice(&[head(13), (length - 13) as u8]),
                269..65_805 => {
                    out.push(head(14));
                    out.extend_from_slice(&((length - 269) as u16).to_be_bytes());
                }
                _ => {
                    out.push(head(15));
                    out.extend_from_slice(&((length - 65_805) as u32).to_be_bytes());
                }
            }
        }
    }
    out.push(code);
    out.extend_from_slice(rest);
}

/// Extracts messages from a byte stream or from WebSocket messages.
///
/// The buffer holds all bytes pushed and not yet taken. A driver that drains it after every read
/// bounds it to one incomplete message of at most the limit, plus one read.
#[derive(Debug)]
pub struct FrameReader {
    framing: Framing,
    /// [`HEADROOM`] bytes, followed by the received bytes.
    buffer: Vec<u8>,
    /// Where the next message begins in `buffer`.
    start: usize,
    limit: u32,
}

impl FrameReader {
    /// Creates a reader of messages of at most `limit` bytes, head included.
    pub const fn new(framing: Framing, limit: u32) -> Self {
        Self {
            framing,
            buffer: Vec::new(),
            start: 0,
            limit,
        }
    }

    /// Appends received bytes: any part of a stream, or one whole WebSocket message.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start == self.buffer.len() {
            self.buffer.clear();
            if self.buffer.capacity() > BUFFER_KEPT {
                self.buffer.shrink_to(BUFFER_KEPT);
            }
            self.buffer.resize(HEADROOM, 0);
            self.start = HEADROOM;
        } else if self.start > HEADROOM {
            self.buffer.drain(HEADROOM..self.start);
            self.start = HEADROOM;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the number of bytes received and not yet taken.
    pub fn held(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Returns the code of the next message, if its head has been received.
    pub fn next_code(&self) -> Option<Code> {
        let held = &self.buffer[self.start..];
        match self.framing {
            Framing::Stream => Some(FrameHead::parse(held).ok()??.code),
            Framing::WebSocket => held.get(1).copied().map(Code),
        }
    }

    /// The next message, in the form of a datagram's.
    ///
    /// # Errors
    ///
    /// An invalid frame is fatal for the connection, because the next frame cannot be located.
    #[expect(
        clippy::should_implement_trait,
        reason = "what it returns borrows from it"
    )]
    pub fn next(&mut self) -> Result<Option<&[u8]>, FrameError> {
        let Some(range) = self.take()? else {
            return Ok(None);
        };
        Ok(self.buffer.get(range))
    }

    fn take(&mut self) -> Result<Option<Range<usize>>, FrameError> {
        let held = &self.buffer[self.start..];
        let (head, total) = match self.framing {
            Framing::Stream => {
                let Some(head) = FrameHead::parse(held)? else {
                    return Ok(None);
                };
                (head, head.total())
            }
            Framing::WebSocket => {
                if held.is_empty() {
                    return Ok(None);
                }
                let &[first, code, ..] = held else {
                    return Err(FrameError::Truncated);
                };
                let nibble = first & 0x0f;
                if nibble == RESERVED {
                    return Err(FrameError::TokenLengthReserved);
                }
                let extension_length = extension_length(nibble);
                let total = held.len() as u64;
                // The length field is to be 0, and to be ignored (RFC 8323 4.2).
                let rest = held.get(2..).unwrap_or_default();
                let token_length = token_length(nibble, rest);
                let Some((token_length, length)) = token_length.and_then(|token_length| {
                    let head = extension_length + token_length;
                    Some((token_length as u32, rest.len().checked_sub(head)? as u64))
                }) else {
                    return Err(FrameError::Truncated);
                };
                let head = FrameHead {
                    length,
                    token_length,
                    code: Code(code),
                    head_length: 2,
                    extension_length: extension_length as u8,
                };
                (head, total)
            }
        };
        if total > u64::from(self.limit) {
            return Err(FrameError::TooLong {
                length: total,
                limit: self.limit,
            });
        }
        if (held.len() as u64) < total {
            return Ok(None);
        }
        let end = self.start + total as usize;
        let start = self.start + usize::from(head.head_length) - HEADER_LENGTH;
        let kind = (Type::NonConfirmable as u8) << 4;
        let field = self.buffer[self.start] & 0x0f;
        let datagram = [VERSION << 6 | kind | field, head.code.0, 0, 0];
        self.buffer[start..start + HEADER_LENGTH].copy_from_slice(&datagram);
        self.start = end;
        Ok(Some(start..end))
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::super::{MessageId, MessageView, OptionNumber, Writer};
    use super::*;

    fn message(token: &[u8], payload: usize) -> Vec<u8> {
        let mut bytes = vec![0; token.len() + payload + 64];
        let id = MessageId(7);
        let mut writer =
            Writer::new(&mut bytes, Type::Confirmable, Code::POST, id, token).expect("fits");
        writer.option(OptionNumber::URI_PATH, b"a").expect("fits");
        writer.payload(&vec![0x55; payload]).expect("fits");
        let length = writer.finish();
        bytes.truncate(length);
        bytes
    }

    #[test]
    fn the_examples_of_rfc8323_3_2() {
        let mut out = Vec::new();
        write_frame(Framing::Stream, &[0x51, 0x43, 0, 0, 0x7f], &mut out);
        assert_eq!(out, [0x01, 0x43, 0x7f]);
        out.clear();
        write_frame(Framing::Stream, &[0x51, 0xe2, 0, 0, 0x42], &mut out);
        assert_eq!(out, [0x01, 0xe2, 0x42]);
    }

    #[test]
    fn every_length_survives_however_it_is_cut() {
        // Around each step of the length field: 13, 269, 65805, with 3 bytes of option and marker.
        for payload in [0, 1, 9, 10, 265, 266, 267, 65_801, 65_802, 65_803, 102_400] {
            let sent = message(&[1, 2, 3], payload);
            let mut stream = Vec::new();
            write_frame(Framing::Stream, &sent, &mut stream);
            write_frame(Framing::Stream, &sent, &mut stream);
            let mut reader = FrameReader::new(Framing::Stream, 200_000);
            let mut got = 0;
            for piece in stream.chunks(1_000.max(payload / 3)) {
                reader.push(piece);
                while let Some(bytes) = reader.next().expect("well formed") {
                    assert_eq!(bytes[4..], sent[4..], "{payload}");
                    let view = MessageView::parse_long(bytes).expect("well formed");
                    assert_eq!((view.code(), view.payload().len()), (Code::POST, payload));
                    got += 1;
                }
            }
            assert_eq!((got, reader.held()), (2, 0), "{payload}");
        }
    }

    #[test]
    fn byte_by_byte_is_no_different() {
        let sent = message(&[], 20);
        let mut stream = Vec::new();
        (0..3).for_each(|_| write_frame(Framing::Stream, &sent, &mut stream));
        let mut reader = FrameReader::new(Framing::Stream, 1_152);
        let mut got = 0;
        for byte in stream {
            reader.push(&[byte]);
            while reader.next().expect("well formed").is_some() {
                got += 1;
            }
        }
        assert_eq!(got, 3);
    }

    #[test]
    fn frame_beyond_the_limit_is_refused_at_its_header() {
        let mut reader = FrameReader::new(Framing::Stream, 1_152);
        reader.push(&[0xf0, 0, 1, 0, 0, 0x45]);
        let length = 65_805 + 65_536 + 6;
        let limit = 1_152;
        assert_eq!(reader.next(), Err(FrameError::TooLong { length, limit }));
        let mut reader = FrameReader::new(Framing::Stream, 20);
        // 6 bytes of head and content are within, 21 are not.
        reader.push(&[0x40, 1, 0xff, 1, 2, 3]);
        assert!(reader.next().expect("fits").is_some());
        reader.push(&[0xd0, 5, 1]);
        assert!(matches!(
            reader.next(),
            Err(FrameError::TooLong { length: 21, .. })
        ));
    }

    #[test]
    fn a_reserved_token_length_is_refused() {
        let mut reader = FrameReader::new(Framing::Stream, 1_152);
        reader.push(&[0x0f]);
        assert_eq!(reader.next(), Err(FrameError::TokenLengthReserved));
        let mut reader = FrameReader::new(Framing::WebSocket, 1_152);
        reader.push(&[0x0f, 0x45]);
        assert_eq!(reader.next(), Err(FrameError::TokenLengthReserved));
    }

    /// RFC 8974 A.2, A.3.
    #[test]
    fn a_long_token_is_no_part_of_the_length() {
        for (token, head) in [(12, 2), (13, 3), (268, 3), (269, 4), (600, 4)] {
            let sent = message(&vec![0xa5; token], 5);
            for framing in [Framing::Stream, Framing::WebSocket] {
                let mut out = Vec::new();
                write_frame(framing, &sent, &mut out);
                // Uri-Path of one byte, the marker and five bytes.
                assert_eq!(out.len(), head + token + 8, "{token} {framing:?}");
                if framing == Framing::Stream {
                    assert_eq!(out[0] >> 4, 8);
                }
                assert_eq!(out[0] & 0x0f, sent[0] & 0x0f);
                assert_eq!(out[2..], sent[4..]);
                let mut reader = FrameReader::new(framing, 1_152);
                if framing == Framing::Stream {
                    for byte in &out[..out.len() - 1] {
                        reader.push(&[*byte]);
                        assert_eq!(reader.next(), Ok(None));
                    }
                    reader.push(&out[out.len() - 1..]);
                } else {
                    reader.push(&out);
                }
                let bytes = reader.next().expect("well formed").expect("whole");
                let view = MessageView::parse_long(bytes).expect("well formed");
                assert_eq!((view.token().len(), view.payload().len()), (token, 5));
            }
        }
        // A message whose token length is not yet received is incomplete.
        let mut reader = FrameReader::new(Framing::Stream, 1_152);
        reader.push(&[0x0e, 0x45, 0]);
        assert_eq!(reader.next(), Ok(None));
        let mut reader = FrameReader::new(Framing::WebSocket, 1_152);
        reader.push(&[0x0e, 0x45, 0]);
        assert_eq!(reader.next(), Err(FrameError::Truncated));
    }

    #[test]
    fn a_websocket_message_is_one_message() {
        let sent = message(&[9], 300);
        let mut out = Vec::new();
        write_frame(Framing::WebSocket, &sent, &mut out);
        assert_eq!(out[..3], [0x01, 0x02, 9]);
        // A length that is not 0 is ignored.
        out[0] |= 0x50;
        let mut reader = FrameReader::new(Framing::WebSocket, 1_152);
        reader.push(&out);
        let bytes = reader.next().expect("well formed").expect("whole");
        assert_eq!(bytes[4..], sent[4..]);
        assert_eq!(reader.next(), Ok(None));
        reader.push(&[0x02, 0x45, 1]);
        assert_eq!(reader.next(), Err(FrameError::Truncated));
    }

    #[test]
    fn a_large_message_leaves_no_large_buffer() {
        let mut stream = Vec::new();
        write_frame(Framing::Stream, &message(&[], 100_000), &mut stream);
        let mut reader = FrameReader::new(Framing::Stream, 200_000);
        reader.push(&stream);
        assert!(reader.next().expect("well formed").is_some());
        reader.push(&[0x00]);
        assert!(reader.buffer.capacity() <= BUFFER_KEPT);
    }
}
