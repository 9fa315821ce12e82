//! 6LoWPAN (RFC 4944, 6282) by sizes: header compression at each hop, fragmentation and reassembly.
//!
//! No bytes are written. [`Header`] has the properties that determine sizes in Contiki's
//! SICSlowpan. Interface identifiers that follow from link-layer addresses are elided, the mesh's
//! prefix is context 0, and a packet with an extension header has an uncompressed UDP header.
//! Link-layer addresses differ at each hop, so a packet may be one frame at its origin and two a
//! hop later.

mod fragments;
mod headers;
mod reassembly;

use std::fmt;

pub use fragments::{Frame, Frames, frames};
pub use headers::{Address, Header, HopPosition, Protocol};
pub use reassembly::{Dropped, Fragment, Reassembly};

use super::spec::LowpanSpec;

/// Size of the frame check sequence, in bytes.
pub const FCS_BYTES: u16 = 2;
/// The largest MAC frame without its FCS, in bytes (aMaxPHYPacketSize, 802.15.4-2006 6.4.1).
pub const MAC_BYTES_MOST: u16 = 127 - FCS_BYTES;
/// The smallest maximum frame size with which every first fragment has room for headers and eight
/// bytes.
pub const MAC_BYTES_LEAST: u16 = 80;
/// The largest IPv6 datagram, in bytes: IPv6's minimum MTU, which 6LoWPAN uses (RFC 4944 4).
pub const DATAGRAM_MOST: u16 = 1_280;

/// An invalid adaptation layer, or a packet that exceeds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LowpanError {
    /// A frame size below [`MAC_BYTES_LEAST`] or above [`MAC_BYTES_MOST`] bytes.
    Frame(u16),
    /// A datagram size above [`DATAGRAM_MOST`] bytes.
    Datagram(u16),
    /// A reassembly timeout of zero.
    Timeout,
    /// A packet larger than the largest datagram.
    TooLarge {
        /// Its size with all headers, uncompressed, in bytes.
        bytes: u32,
        /// The maximum, in bytes.
        most: u16,
    },
}

impl fmt::Display for LowpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frame(bytes) => write!(
                f,
                "frames of at most {bytes} bytes; it is {MAC_BYTES_LEAST} to {MAC_BYTES_MOST} without the FCS"
            ),
            Self::Datagram(bytes) => write!(
                f,
                "datagrams of up to {bytes} bytes; 6LoWPAN carries {DATAGRAM_MOST}"
            ),
            Self::Timeout => f.write_str("no time to put datagrams together again"),
            Self::TooLarge { bytes, most } => write!(
                f,
                "a datagram of {bytes} bytes, where nodes take {most}: shorten the message or allow larger datagrams"
            ),
        }
    }
}

impl std::error::Error for LowpanError {}

impl LowpanSpec {
    /// Checks the settings of the adaptation layer.
    pub fn check(&self) -> Result<(), LowpanError> {
        if !(MAC_BYTES_LEAST..=MAC_BYTES_MOST).contains(&self.mac_bytes_max) {
            return Err(LowpanError::Frame(self.mac_bytes_max));
        }
        if self.datagram_max > DATAGRAM_MOST {
            return Err(LowpanError::Datagram(self.datagram_max));
        }
        if self.reassembly_timeout.is_zero() {
            return Err(LowpanError::Timeout);
        }
        Ok(())
    }
}
