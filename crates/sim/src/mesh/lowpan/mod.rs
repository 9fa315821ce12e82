//! IPv6 over 802.15.4 (RFC 4944, 6282), by its sizes: what compression leaves of a packet's headers
//! at each hop, how a packet is cut into frames, and how these are put together again.
//!
//! No byte is written. Headers say what their size depends on ([`Header`]), as Contiki's SICSlowpan
//! compresses them: addresses whose interface identifiers follow from link-layer addresses are left
//! out, the mesh's prefix is context 0, and a packet with an extension header keeps its UDP header
//! whole. Each hop has headers of its own, since it knows other addresses from the link layer, so a
//! packet may be one frame at its origin and two a hop later.

mod fragments;
mod headers;
mod reassembly;

use std::fmt;

pub use fragments::{Frame, Frames, frames};
pub use headers::{Address, Header, HopPosition, Protocol};
pub use reassembly::{Dropped, Fragment, Reassembly};

use super::spec::LowpanSpec;

/// The frame check sequence, in bytes.
pub const FCS_BYTES: u16 = 2;
/// The largest MAC frame without its FCS, in bytes (aMaxPHYPacketSize, 802.15.4-2006 6.4.1).
pub const MAC_BYTES_MOST: u16 = 127 - FCS_BYTES;
/// The smallest with which every first fragment has room for headers and eight bytes.
pub const MAC_BYTES_LEAST: u16 = 80;
/// The largest IPv6 datagram, in bytes: IPv6's least MTU, which 6LoWPAN has (RFC 4944 4).
pub const DATAGRAM_MOST: u16 = 1_280;

/// Why there can be no such adaptation layer, or no such packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LowpanError {
    /// Frames of less than [`MAC_BYTES_LEAST`] or more than [`MAC_BYTES_MOST`] bytes.
    Frame(u16),
    /// Datagrams of more than [`DATAGRAM_MOST`] bytes are allowed.
    Datagram(u16),
    /// Datagrams are forgotten at once.
    Timeout,
    /// This packet is larger than a datagram may be.
    TooLarge {
        /// Its size with all headers, uncompressed.
        bytes: u32,
        /// What it may have.
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
    /// Whether there can be such an adaptation layer.
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
