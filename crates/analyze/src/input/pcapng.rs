//! The format of Wireshark: sections of blocks, interfaces with their own link type and resolution
//! of times (draft-ietf-opsawg-pcapng).

use std::io::{self, Read};

use super::bytes::Bytes;
use super::{Damage, Direction, Frame, Step, too_long};
use crate::limits::{BLOCK_BYTES_MAX, INTERFACES_MAX, PACKET_BYTES_MAX};

/// Type of a section header block; it reads the same in both byte orders.
pub(super) const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const INTERFACE_DESCRIPTION: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// Type, length, and length again at the end.
const BLOCK_FRAME: u32 = 12;

const OPTION_END: u16 = 0;
const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;
const EPB_FLAGS: u16 = 2;

/// Units of time: ticks a second, and the seconds that are added.
#[derive(Clone, Copy, Debug)]
struct Clock {
    ticks: u128,
    offset_seconds: i64,
}

impl Clock {
    /// Microseconds, the default of interfaces.
    const DEFAULT: Self = Self {
        ticks: 1_000_000,
        offset_seconds: 0,
    };

    /// Ticks a second of the option if_tsresol: a power of 10, or of 2 with the highest bit.
    fn resolution(value: u8) -> Option<u128> {
        let exponent = u32::from(value & 0x7f);
        if value & 0x80 == 0 {
            10_u128.checked_pow(exponent)
        } else {
            2_u128.checked_pow(exponent)
        }
    }

    fn micros(self, ticks: u64) -> u64 {
        let micros = u128::from(ticks) * 1_000_000 / self.ticks.max(1);
        let micros = u64::try_from(micros).unwrap_or(u64::MAX);
        micros.saturating_add_signed(self.offset_seconds.saturating_mul(1_000_000))
    }
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link_type: u32,
    /// Most bytes of a packet that are captured; 0 without a limit.
    snap_bytes: u32,
    clock: Clock,
}

#[derive(Debug)]
pub(crate) struct PcapngReader<R> {
    bytes: Bytes<R>,
    is_big_endian: bool,
    /// Interfaces of this section and the index offset of earlier sections.
    interfaces: Vec<Interface>,
    interfaces_before: u32,
    number: u64,
    block: Vec<u8>,
    is_over: bool,
}

/// Place of a packet in the block that was read.
struct Packet {
    interface: usize,
    at: Option<u64>,
    start: usize,
    length: usize,
    original: u32,
    direction: Option<Direction>,
}

impl<R: Read> PcapngReader<R> {
    pub(super) fn new(bytes: Bytes<R>) -> Self {
        Self {
            bytes,
            is_big_endian: false,
            interfaces: Vec::new(),
            interfaces_before: 0,
            number: 0,
            block: Vec::new(),
            is_over: false,
        }
    }

    pub(super) fn offset(&self) -> u64 {
        self.bytes.offset()
    }

    fn damage(&mut self, offset: u64, is_end: bool, problem: impl Into<String>) -> Step<'_> {
        self.is_over |= is_end;
        Step::Damaged(Damage {
            offset,
            number: self.number,
            problem: problem.into(),
            is_end,
        })
    }

    fn word(&self, bytes: [u8; 4]) -> u32 {
        if self.is_big_endian {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        }
    }

    /// The number at `at` of the block, 0 beyond its end.
    fn word_at(&self, at: usize) -> u32 {
        let field = self.block.get(at..).and_then(|rest| rest.first_chunk());
        self.word(field.copied().unwrap_or_default())
    }

    fn short_at(&self, at: usize) -> u16 {
        let field = self.block.get(at..).and_then(|rest| rest.first_chunk());
        let field = field.copied().unwrap_or_default();
        if self.is_big_endian {
            u16::from_be_bytes(field)
        } else {
            u16::from_le_bytes(field)
        }
    }

    pub(super) fn next(&mut self) -> io::Result<Step<'_>> {
        loop {
            if self.is_over {
                return Ok(Step::End);
            }
            let offset = self.bytes.offset();
            let mut start = [0; 8];
            match self.bytes.fill(&mut start)? {
                0 => {
                    self.is_over = true;
                    return Ok(Step::End);
                }
                8 => {}
                _ => return Ok(self.damage(offset, true, "the file ends within a block")),
            }
            let [t0, t1, t2, t3, l0, l1, l2, l3] = start;
            let (kind, length) = ([t0, t1, t2, t3], [l0, l1, l2, l3]);
            if kind == SECTION_HEADER {
                if let Some(problem) = self.section(length)? {
                    return Ok(self.damage(offset, true, problem));
                }
                continue;
            }
            let (kind, length) = (self.word(kind), self.word(length));
            if length < BLOCK_FRAME || !length.is_multiple_of(4) {
                let problem =
                    format!("a block of {length} bytes, which is no multiple of 4 from 12");
                return Ok(self.damage(offset, true, problem));
            }
            let rest = (length - 8) as usize;
            let is_packet = matches!(kind, OBSOLETE_PACKET | SIMPLE_PACKET | ENHANCED_PACKET);
            self.number += u64::from(is_packet);
            let is_read = is_packet || kind == INTERFACE_DESCRIPTION;
            if is_read && rest > BLOCK_BYTES_MAX {
                return Ok(self.damage(offset, true, too_long(u64::from(length))));
            }
            if !is_read {
                if self.bytes.skip(rest as u64)? < rest as u64 {
                    return Ok(self.damage(offset, true, "the file ends within a block"));
                }
                continue;
            }
            self.block.resize(rest, 0);
            let mut block = std::mem::take(&mut self.block);
            let filled = self.bytes.fill(&mut block)?;
            self.block = block;
            if filled < rest {
                return Ok(self.damage(offset, true, "the file ends within a block"));
            }
            // The length at the end, which repeats the first one.
            self.block.truncate(rest - 4);
            if kind == INTERFACE_DESCRIPTION {
                self.describe();
                continue;
            }
            return Ok(match self.packet(kind) {
                Ok(packet) => self.frame(offset, &packet),
                Err(problem) => self.damage(offset, false, problem),
            });
        }
    }

    fn frame(&self, offset: u64, packet: &Packet) -> Step<'_> {
        let bytes = self.block.get(packet.start..packet.start + packet.length);
        let link_type = self.interfaces.get(packet.interface).map(|i| i.link_type);
        Step::Frame(Frame {
            number: self.number,
            offset,
            at: packet.at,
            link_type: link_type.unwrap_or(u32::MAX),
            interface: self
                .interfaces_before
                .saturating_add(packet.interface as u32),
            direction: packet.direction,
            original_bytes: packet.original,
            bytes: bytes.unwrap_or_default(),
        })
    }

    /// Reads a section header after its type and length; a problem, if it is damaged.
    fn section(&mut self, length: [u8; 4]) -> io::Result<Option<String>> {
        let Some(magic) = self.bytes.array::<4>()? else {
            return Ok(Some("the file ends within a section header".to_owned()));
        };
        self.is_big_endian = match magic {
            _ if u32::from_be_bytes(magic) == BYTE_ORDER_MAGIC => true,
            _ if u32::from_le_bytes(magic) == BYTE_ORDER_MAGIC => false,
            _ => return Ok(Some("a section header without a byte order".to_owned())),
        };
        let length = self.word(length);
        if length < BLOCK_FRAME + 16 || !length.is_multiple_of(4) {
            return Ok(Some(format!("a section header of {length} bytes")));
        }
        let rest = u64::from(length - BLOCK_FRAME);
        if self.bytes.skip(rest)? < rest {
            return Ok(Some("the file ends within a section header".to_owned()));
        }
        let count = self.interfaces.len() as u32;
        self.interfaces_before = self.interfaces_before.saturating_add(count);
        self.interfaces.clear();
        Ok(None)
    }

    /// Adds the interface of the block that was read. Further ones than the limit are left out, and
    /// their packets are damaged.
    fn describe(&mut self) {
        if self.interfaces.len() >= INTERFACES_MAX {
            return;
        }
        let mut clock = Clock::DEFAULT;
        self.options(8, |code, value| match (code, value) {
            (IF_TSRESOL, [value, ..]) => {
                if let Some(ticks) = Clock::resolution(*value) {
                    clock.ticks = ticks;
                }
            }
            (IF_TSOFFSET, value) => {
                if let Some(seconds) = value.first_chunk::<8>() {
                    clock.offset_seconds = if self.is_big_endian {
                        i64::from_be_bytes(*seconds)
                    } else {
                        i64::from_le_bytes(*seconds)
                    };
                }
            }
            _ => {}
        });
        let link_type = u32::from(self.short_at(0));
        let snap_bytes = self.word_at(4);
        self.interfaces.push(Interface {
            link_type,
            snap_bytes,
            clock,
        });
    }

    /// Visits the options of the block from `at` on.
    fn options(&self, mut at: usize, mut visit: impl FnMut(u16, &[u8])) {
        while at + 4 <= self.block.len() {
            let (code, length) = (self.short_at(at), usize::from(self.short_at(at + 2)));
            if code == OPTION_END {
                return;
            }
            let start = at + 4;
            let Some(value) = self.block.get(start..start + length) else {
                return;
            };
            visit(code, value);
            at = start + length.next_multiple_of(4);
        }
    }

    fn packet(&self, kind: u32) -> Result<Packet, String> {
        let (interface, start, length) = match kind {
            SIMPLE_PACKET => {
                let snap = self.interfaces.first().map_or(0, |first| first.snap_bytes);
                let most = if snap == 0 { usize::MAX } else { snap as usize };
                let original = self.word_at(0) as usize;
                let captured = original.min(self.block.len().saturating_sub(4));
                (0, 4, captured.min(most))
            }
            OBSOLETE_PACKET => (usize::from(self.short_at(0)), 20, self.word_at(12) as usize),
            _ => (self.word_at(0) as usize, 20, self.word_at(12) as usize),
        };
        if length > PACKET_BYTES_MAX {
            return Err(too_long(length as u64));
        }
        if self.block.get(start..start + length).is_none() {
            return Err(format!(
                "a packet of {length} bytes in a block that is shorter"
            ));
        }
        let Some(described) = self.interfaces.get(interface) else {
            return Err(format!("interface {interface} is not described"));
        };
        let ticks = u64::from(self.word_at(4)) << 32 | u64::from(self.word_at(8));
        let at = (kind != SIMPLE_PACKET).then(|| described.clock.micros(ticks));
        let original = self.word_at(if kind == SIMPLE_PACKET { 0 } else { 16 });
        let mut direction = None;
        // Both kinds have the flags as option 2.
        if kind != SIMPLE_PACKET {
            self.options(start + length.next_multiple_of(4), |code, value| {
                if let (EPB_FLAGS, Some(flags)) = (code, value.first_chunk::<4>()) {
                    direction = match self.word(*flags) & 3 {
                        1 => Some(Direction::Inbound),
                        2 => Some(Direction::Outbound),
                        _ => None,
                    };
                }
            });
        }
        Ok(Packet {
            interface,
            at,
            start,
            length,
            original: original.max(length as u32),
            direction,
        })
    }
}
