//! Segments as sockets exchange them, with their size on the wire, and ranges of bytes of a connection.

use core::fmt;
use core::ops::BitOr;

use bytes::Bytes;

/// Bytes of an IPv4 header without options.
pub const IP_HEADER: u32 = 20;
/// Bytes of a TCP header without options.
pub const TCP_HEADER: u32 = 20;
/// The maximum number of SACK blocks in a segment (RFC 2018 3: four fill the 40 bytes of options).
pub const SACK_BLOCKS_MAX: usize = 4;

/// Control bits (RFC 9293 3.1), in their places on the wire.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// No bit.
    pub const NONE: Self = Self(0);
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(0x02);
    /// Reset the connection.
    pub const RST: Self = Self(0x04);
    /// Push buffered data to the application.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgment number is valid.
    pub const ACK: Self = Self(0x10);
    /// Congestion was experienced; set by the receiver of a marked packet (RFC 3168 6.1).
    pub const ECE: Self = Self(0x40);
    /// The congestion window was reduced (RFC 3168 6.1).
    pub const CWR: Self = Self(0x80);

    /// Returns whether all bits of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flags {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Flags {
    /// The letters of the bits that are set, as packet sniffers print them: `SA`, `PA`, `F`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (bit, letter) in [
            (Self::FIN, 'F'),
            (Self::SYN, 'S'),
            (Self::RST, 'R'),
            (Self::PSH, 'P'),
            (Self::ACK, 'A'),
            (Self::ECE, 'E'),
            (Self::CWR, 'W'),
        ] {
            if self.has(bit) {
                write!(f, "{letter}")?;
            }
        }
        Ok(())
    }
}

/// The ECN field of the IP header (RFC 3168 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// Not ECN-capable: dropped where a capable packet is marked.
    #[default]
    NotCapable,
    /// ECN-capable: ECT(0).
    Capable,
    /// Congestion experienced: CE.
    Experienced,
}

/// Options of a segment; those on a SYN are offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The maximum segment size of the sender as receiver, in bytes (RFC 9293 3.7.1); on a SYN
    /// only.
    pub mss: Option<u16>,
    /// Shift of the window in later segments (RFC 7323 2), 0 to 14; on a SYN only.
    pub window_scale: Option<u8>,
    /// SACK is permitted (RFC 2018 2); on a SYN only.
    pub sack_permitted: bool,
    /// Value and echo (RFC 7323 3), both in milliseconds of the sender's clock.
    pub timestamps: Option<(u32, u32)>,
    /// SACK blocks (RFC 2018 3), the one that caused this segment first.
    pub sack: SackBlocks,
}

impl Options {
    /// Bytes on the wire, padded to a multiple of four as stacks do.
    pub fn wire_bytes(&self) -> u32 {
        let mut bytes = 0;
        if self.mss.is_some() {
            bytes += 4;
        }
        if self.window_scale.is_some() {
            bytes += 4;
        }
        if self.sack_permitted {
            bytes += 4;
        }
        if self.timestamps.is_some() {
            bytes += 12;
        }
        let blocks = self.sack.as_slice().len() as u32;
        if blocks > 0 {
            bytes += 4 + 8 * blocks;
        }
        bytes
    }
}

/// Up to [`SACK_BLOCKS_MAX`] blocks of sequence numbers, each `[start, end)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(u32, u32); SACK_BLOCKS_MAX],
    len: u8,
}

impl SackBlocks {
    /// Adds a block. Returns whether there was room.
    pub fn push(&mut self, start: u32, end: u32) -> bool {
        let Some(slot) = self.blocks.get_mut(usize::from(self.len)) else {
            return false;
        };
        *slot = (start, end);
        self.len += 1;
        true
    }

    /// The blocks.
    pub fn as_slice(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.len)]
    }
}

/// One segment. Addresses and ports are the driver's task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Sequence number of the first byte, or of the SYN or FIN.
    pub seq: u32,
    /// The next sequence number expected, if [`Flags::ACK`] is set.
    pub ack: u32,
    /// Control bits.
    pub flags: Flags,
    /// The window field, before scaling.
    pub window: u16,
    /// Options.
    pub options: Options,
    /// The ECN field of the packet around it.
    pub ecn: Ecn,
    /// Data.
    pub payload: Bytes,
}

impl Segment {
    /// Bytes of the packet on the wire: IPv4 and TCP headers, options and payload.
    pub fn wire_bytes(&self) -> u32 {
        IP_HEADER + TCP_HEADER + self.options.wire_bytes() + self.payload.len() as u32
    }

    /// The sequence numbers it occupies: its bytes, and one each for SYN and FIN (RFC 9293 3.4).
    pub fn sequence_length(&self) -> u32 {
        self.payload.len() as u32
            + u32::from(self.flags.has(Flags::SYN))
            + u32::from(self.flags.has(Flags::FIN))
    }
}

/// The position, counted from `base` without wrapping, of the 32-bit number `wire`: the one
/// nearest to `reference`.
///
/// Positions are 0 for the SYN, 1 for the first byte, and so on; `base` is the initial sequence
/// number. Numbers before the SYN give 0.
pub(super) fn position(base: u32, wire: u32, reference: u64) -> u64 {
    // The sign of the difference modulo 2^32 decides between older and newer numbers (RFC 9293
    // 3.4). Windows of at most 2^30 bytes (RFC 7323 2.3) keep all numbers in use within 2^31.
    let low = wire.wrapping_sub(base);
    let ahead = low.wrapping_sub(reference as u32) as i32;
    reference.saturating_add_signed(i64::from(ahead))
}

/// The 32-bit number of a position.
pub(super) fn number(base: u32, position: u64) -> u32 {
    base.wrapping_add(position as u32)
}

/// Ranges of bytes, ordered and disjoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(Vec<(u32, u32)>);

impl Ranges {
    /// Returns true if one of them has all bytes from `from` up to before `to`.
    pub fn has(&self, from: u32, to: u32) -> bool {
        let at = self.0.partition_point(|range| range.1 < to);
        self.0.get(at).is_some_and(|range| range.0 <= from)
    }

    /// Adds the bytes from `from` up to before `to`.
    pub fn add(&mut self, from: u32, to: u32) {
        // Adjacent ranges are merged.
        let first = self.0.partition_point(|range| range.1 < from);
        let end = self.0.partition_point(|range| range.0 <= to);
        let merged = self.0[first..end].iter();
        let (from, to) = merged.fold((from, to), |all, range| {
            (all.0.min(range.0), all.1.max(range.1))
        });
        self.0.splice(first..end, [(from, to)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_segment_of_the_thesis_weighs_296_bytes() {
        let segment = Segment {
            payload: Bytes::from(vec![0; 256]),
            ..Segment::default()
        };
        assert_eq!(segment.wire_bytes(), 296);
    }

    #[test]
    fn options_are_padded_to_words() {
        let mut options = Options {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some((1, 2)),
            ..Options::default()
        };
        assert_eq!(options.wire_bytes(), 24);
        options = Options {
            timestamps: Some((1, 2)),
            ..Options::default()
        };
        for _ in 0..3 {
            assert!(options.sack.push(1, 2));
        }
        assert_eq!(options.wire_bytes(), 40);
    }

    #[test]
    fn positions_continue_across_wraparound() {
        let base = u32::MAX - 5;
        for at in [0_u64, 1, 5, 6, 100, 1 << 31, (1 << 32) + 17, 1 << 40] {
            let wire = number(base, at);
            for reference in [at.saturating_sub(70_000), at, at + 70_000] {
                assert_eq!(position(base, wire, reference), at, "{at} from {reference}");
            }
        }
        assert_eq!(position(10, 5, 0), 0);
    }

    #[test]
    fn ranges_that_touch_become_one_and_holes_stay() {
        let mut ranges = Ranges::default();
        for (from, to) in [(1, 8), (8, 20), (30, 40), (50, 60)] {
            ranges.add(from, to);
        }
        assert_eq!(ranges.0, [(1, 20), (30, 40), (50, 60)]);
        assert!(ranges.has(1, 20) && ranges.has(5, 7) && ranges.has(31, 40));
        assert!(!ranges.has(15, 25) && !ranges.has(20, 30) && !ranges.has(60, 61));
        ranges.add(20, 45);
        assert_eq!(ranges.0, [(1, 45), (50, 60)]);
        ranges.add(45, 50);
        assert_eq!(ranges.0, [(1, 60)]);
        ranges.add(5, 6);
        assert_eq!(ranges.0, [(1, 60)]);
    }
}
