//! A CoAP message as far as the analysis needs it.

use std::net::SocketAddr;

use carob_codec::numbers::RETRANSMISSION_COUNT;
use carob_codec::{BlockValue, Code, MessageView, OptionNumber, Type};

use crate::input::Direction;
use crate::input::packet::Datagram;

/// A message with its time and addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    /// Time in microseconds.
    pub(crate) at: u64,
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) kind: Type,
    pub(crate) code: Code,
    pub(crate) id: u16,
    /// Hash of the token.
    pub(crate) token: u64,
    /// Hash of all that is equal in transmissions of one message.
    pub(crate) fingerprint: u64,
    /// Hash of code and URI of a request.
    pub(crate) resource: u64,
    /// Bytes of the message.
    pub(crate) bytes: u32,
    /// Bytes of the IP packet.
    pub(crate) packet_bytes: u32,
    pub(crate) payload_bytes: u32,
    pub(crate) observe: Option<u32>,
    pub(crate) block1: Option<BlockValue>,
    pub(crate) block2: Option<BlockValue>,
    pub(crate) interface: u32,
    pub(crate) direction: Option<Direction>,
    pub(crate) ttl: u8,
}

/// FNV-1a with 64 bits.
#[derive(Clone, Copy)]
pub(crate) struct Hash(pub(crate) u64);

impl Hash {
    pub(crate) const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        // Parts are distinguished by their lengths.
        self.0 = (self.0 ^ bytes.len() as u64).wrapping_mul(0x0100_0000_01b3);
    }
}

/// Requests have a token that may differ in its last byte between transmissions (FASOR).
fn stable_token(token: &[u8]) -> &[u8] {
    match token {
        [start @ .., _] if !start.is_empty() => start,
        token => token,
    }
}

impl Message {
    /// Reads the message of a datagram; `None` if it is no CoAP. The capture may have cut it short behind its
    /// token.
    pub(crate) fn read(datagram: &Datagram<'_>, at: u64, interface: u32) -> Option<Self> {
        let whole = Whole {
            bytes: datagram.payload,
            has_options: true,
        };
        let whole = if datagram.is_cut() {
            whole_options(datagram.payload)?
        } else {
            whole
        };
        let view = MessageView::parse(whole.bytes).ok()?;
        if !is_plausible(view.kind(), view.code()) {
            return None;
        }
        let mut fingerprint = Hash::new();
        let mut resource = Hash::new();
        let code = view.code();
        fingerprint.add(&[code.0]);
        resource.add(&[code.0]);
        fingerprint.add(stable_token(view.token().as_slice()));
        for option in view.options() {
            if option.number != RETRANSMISSION_COUNT {
                fingerprint.add(&option.number.0.to_be_bytes());
                fingerprint.add(option.value);
            }
            if option.number.is_of_uri() {
                resource.add(&option.number.0.to_be_bytes());
                resource.add(option.value);
            }
        }
        let captured = view.payload();
        fingerprint.add(captured);
        let mut token = Hash::new();
        token.add(view.token().as_slice());
        let block = |number| {
            // Without the end of the options the length of the payload is not known.
            let value = view.option(number).filter(|_| whole.has_options)?;
            BlockValue::decode(value).ok()
        };
        let cut = datagram.payload_bytes as usize - datagram.payload.len();
        Some(Self {
            at,
            from: datagram.from,
            to: datagram.to,
            kind: view.kind(),
            code,
            id: view.message_id().0,
            token: token.0,
            fingerprint: fingerprint.0,
            resource: resource.0,
            bytes: datagram.payload_bytes,
            packet_bytes: datagram.packet_bytes,
            payload_bytes: if whole.has_options {
                (captured.len() + cut) as u32
            } else {
                0
            },
            observe: view.uint_option(OptionNumber::OBSERVE),
            block1: block(OptionNumber::BLOCK1),
            block2: block(OptionNumber::BLOCK2),
            interface,
            direction: datagram.direction,
            ttl: datagram.ttl,
        })
    }

    pub(crate) fn is_request(&self) -> bool {
        self.code.is_request()
    }

    pub(crate) fn is_response(&self) -> bool {
        self.code.is_response()
    }

    /// True for a message that begins an exchange.
    pub(crate) fn begins(&self) -> bool {
        matches!(self.kind, Type::Confirmable | Type::NonConfirmable)
    }
}

/// The part of a message that can be read.
struct Whole<'a> {
    bytes: &'a [u8],
    /// True if the options are whole: the payload follows them.
    has_options: bool,
}

/// Returns the header, the token and the options that were captured whole, and the payload as far as it
/// was captured. `None` without a whole token.
fn whole_options(bytes: &[u8]) -> Option<Whole<'_>> {
    const MARKER: u8 = 0xff;
    // A length of 13 or 14 is extended by one or two bytes (RFC 7252 section 3.1, RFC 8974 section 2.1).
    let extended = |nibble: u8, at: usize| -> Option<(usize, usize)> {
        match nibble {
            13 => Some((usize::from(*bytes.get(at)?) + 13, 1)),
            14 => {
                let field = bytes.get(at..at + 2)?;
                let number = u16::from_be_bytes([field[0], field[1]]);
                Some((usize::from(number) + 269, 2))
            }
            _ => Some((usize::from(nibble), 0)),
        }
    };
    let (token, length) = extended(bytes.first()? & 15, 4)?;
    let mut end = 4 + length + token;
    bytes.get(..end)?;
    let option_end = |at: usize| {
        let first = *bytes.get(at)?;
        let (_, delta) = extended(first >> 4, at + 1)?;
        let (value, length) = extended(first & 15, at + 1 + delta)?;
        let end = at + 1 + delta + length + value;
        (end <= bytes.len()).then_some(end)
    };
    loop {
        if bytes.get(end) == Some(&MARKER) {
            // A marker without a payload would be malformed.
            let is_last = end + 1 == bytes.len();
            return Some(Whole {
                bytes: if is_last { &bytes[..end] } else { bytes },
                has_options: true,
            });
        }
        match option_end(end) {
            Some(next) => end = next,
            None => {
                return Some(Whole {
                    bytes: &bytes[..end],
                    has_options: false,
                });
            }
        }
    }
}

/// Combinations of type and code that RFC 7252 (Table 1) allows. Others would be another protocol
/// that happens to parse.
fn is_plausible(kind: Type, code: Code) -> bool {
    let is_known = code.is_empty()
        || code.is_request() && code.detail() <= 7
        || code.is_response() && code.class() != 3;
    is_known
        && match kind {
            Type::Confirmable => true,
            Type::NonConfirmable => !code.is_empty(),
            Type::Acknowledgement => !code.is_request(),
            Type::Reset => code.is_empty(),
        }
}
