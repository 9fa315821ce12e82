//! The format of libpcap: a header of 24 bytes, then packets with a header of 16 bytes each
//! (draft-ietf-opsawg-pcap).

use std::io::{self, Read};

use super::bytes::Bytes;
use super::{Damage, Frame, Step, too_long};
use crate::limits::PACKET_BYTES_MAX;

const FILE_HEADER: usize = 24;
const PACKET_HEADER: usize = 16;
/// Bytes after a packet header of modified files: interface, protocol and type of the packet.
const MODIFIED_HEADER: u64 = 8;
/// Bits of the link type; those above hold the length of the frame check sequence and are reserved.
const LINK_TYPE_BITS: u32 = 0xffff;

/// Byte order and resolution of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    is_big_endian: bool,
    is_nanoseconds: bool,
    /// True for packet headers with eight bytes more, as patched versions of libpcap wrote them.
    is_modified: bool,
}

impl Layout {
    /// Returns the layout that the first four bytes name.
    pub(super) fn of(magic: [u8; 4]) -> Option<Self> {
        let (is_big_endian, is_nanoseconds, is_modified) = match magic {
            [0xa1, 0xb2, 0xc3, 0xd4] => (true, false, false),
            [0xd4, 0xc3, 0xb2, 0xa1] => (false, false, false),
            [0xa1, 0xb2, 0x3c, 0x4d] => (true, true, false),
            [0x4d, 0x3c, 0xb2, 0xa1] => (false, true, false),
            [0xa1, 0xb2, 0xcd, 0x34] => (true, false, true),
            [0x34, 0xcd, 0xb2, 0xa1] => (false, false, true),
            _ => return None,
        };
        Some(Self {
            is_big_endian,
            is_nanoseconds,
            is_modified,
        })
    }

    /// The number at `at`, 0 beyond the end.
    fn number(self, bytes: &[u8], at: usize) -> u32 {
        let field = bytes.get(at..).and_then(|rest| rest.first_chunk());
        let field = field.copied().unwrap_or_default();
        if self.is_big_endian {
            u32::from_be_bytes(field)
        } else {
            u32::from_le_bytes(field)
        }
    }
}

#[derive(Debug)]
pub(crate) struct PcapReader<R> {
    bytes: Bytes<R>,
    /// Layout and link type, once the header is read.
    header: Option<(Layout, u32)>,
    number: u64,
    packet: Vec<u8>,
    is_over: bool,
}

impl<R: Read> PcapReader<R> {
    pub(super) fn new(bytes: Bytes<R>) -> Self {
        Self {
            bytes,
            header: None,
            number: 0,
            packet: Vec::new(),
            is_over: false,
        }
    }

    pub(super) fn offset(&self) -> u64 {
        self.bytes.offset()
    }

    fn end(&mut self, offset: u64, problem: impl Into<String>) -> Step<'_> {
        self.is_over = true;
        Step::Damaged(Damage {
            offset,
            number: self.number,
            problem: problem.into(),
            is_end: true,
        })
    }

    pub(super) fn next(&mut self) -> io::Result<Step<'_>> {
        if self.is_over {
            return Ok(Step::End);
        }
        let (layout, link_type) = match self.header {
            Some(header) => header,
            None => match self.read_header()? {
                Some(header) => *self.header.insert(header),
                None => return Ok(self.end(0, "the file ends within its header")),
            },
        };
        let offset = self.bytes.offset();
        self.number += 1;
        let mut header = [0; PACKET_HEADER];
        match self.bytes.fill(&mut header)? {
            0 => {
                self.is_over = true;
                return Ok(Step::End);
            }
            PACKET_HEADER => {}
            _ => return Ok(self.end(offset, "the file ends within the header of a packet")),
        }
        let [seconds, fraction, captured, original] =
            [0, 4, 8, 12].map(|at| layout.number(&header, at));
        if layout.is_modified && self.bytes.skip(MODIFIED_HEADER)? < MODIFIED_HEADER {
            return Ok(self.end(offset, "the file ends within the header of a packet"));
        }
        let length = captured as usize;
        if length > PACKET_BYTES_MAX {
            return Ok(self.end(offset, too_long(u64::from(captured))));
        }
        self.packet.resize(length, 0);
        if self.bytes.fill(&mut self.packet)? < length {
            return Ok(self.end(offset, "the file ends within a packet"));
        }
        let fraction = u64::from(fraction);
        let micros = if layout.is_nanoseconds {
            fraction / 1_000
        } else {
            fraction
        };
        Ok(Step::Frame(Frame {
            number: self.number,
            offset,
            at: Some(u64::from(seconds) * 1_000_000 + micros),
            link_type,
            interface: 0,
            direction: None,
            original_bytes: original.max(captured),
            bytes: &self.packet,
        }))
    }

    fn read_header(&mut self) -> io::Result<Option<(Layout, u32)>> {
        let Some(header) = self.bytes.array::<FILE_HEADER>()? else {
            return Ok(None);
        };
        let magic = [header[0], header[1], header[2], header[3]];
        let layout = Layout::of(magic);
        Ok(layout.map(|layout| (layout, layout.number(&header, 20) & LINK_TYPE_BITS)))
    }
}
