//! A CoAP message as far as the analysis needs it.

use std::net::SocketAddr;

use carob_proto::codec::{BlockValue, Code, MessageView, OptionNumber, Type};
use carob_proto::endpoint::RETRANSMISSION_COUNT;

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
struct Hash(u64);

impl Hash {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
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
    /// Reads the message of a datagram; `None` if it is no CoAP. The payload may be cut short by the
    /// capture.
    pub(crate) fn read(datagram: &Datagram<'_>, at: u64, interface: u32) -> Option<Self> {
        let view = MessageView::parse(datagram.payload).ok()?;
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
            let value = view.option(number)?;
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
            payload_bytes: (captured.len() + cut) as u32,
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
