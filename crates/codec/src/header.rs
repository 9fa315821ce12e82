//! The fixed part of a CoAP message: type, code, Message ID (RFC 7252 3).

use core::fmt;

use super::numbers::Code;

/// The length of the fixed header before the token, in bytes.
pub const HEADER_LENGTH: usize = 4;

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

/// The fixed header of a message, readable even when the rest is malformed.
///
/// An endpoint needs it to reject a Confirmable message with a format error (RFC 7252 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The message type.
    pub kind: Type,
    /// The code, without classification.
    pub code: Code,
    /// The Message ID.
    pub message_id: MessageId,
    /// The token length field, 0 to 15: a length up to 12; 13 and 14 if the length comes later; 15 is a
    /// format error (RFC 8974 2.1).
    pub token_length: u8,
}
