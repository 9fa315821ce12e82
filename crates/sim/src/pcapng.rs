//! Writer of pcapng files (draft-ietf-opsawg-pcapng), in big endian: packets with times in nanoseconds, interfaces, comments.

use std::io::{self, Write};
use std::time::Duration;

/// Link type of packets that begin with an IP header (LINKTYPE_RAW).
pub const RAW_IP: u16 = 101;
/// Link type of exported PDUs of Wireshark (LINKTYPE_WIRESHARK_UPPER_PDU).
pub const UPPER_PDU: u16 = 252;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

const COMMENT: u16 = 1;
const IF_NAME: u16 = 2;
const EPB_FLAGS: u16 = 2;
const SHB_USER_APPLICATION: u16 = 4;
const IF_TIME_RESOLUTION: u16 = 9;

/// Direction of a packet, as `epb_flags` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Received by the interface.
    Inbound = 1,
    /// Sent by the interface.
    Outbound = 2,
}

/// A packet for the file.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Number of its interface, in the order of [`Writer::interface`], from 0.
    pub interface: u32,
    /// Time since the Unix epoch.
    pub at: Duration,
    /// Received or sent.
    pub direction: Direction,
    /// Remark that analysers show with the packet.
    pub comment: Option<&'a str>,
    /// The packet, from the first header of the interface's link type.
    pub bytes: &'a [u8],
}

/// Writer of one section. Each block is handed over whole; the file is not flushed.
#[derive(Debug)]
pub struct Writer<W> {
    file: W,
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Writes the section header: the program that writes, and a comment on the whole file.
    ///
    /// # Errors
    /// When writing fails.
    pub fn new(file: W, program: &str, comment: Option<&str>) -> io::Result<Self> {
        let mut writer = Self {
            file,
            block: Vec::new(),
        };
        writer.begin(SECTION_HEADER);
        writer.block.extend(0x1a2b_3c4d_u32.to_be_bytes()); // byte order
        writer.block.extend([0, 1, 0, 0]); // version 1.0
        writer.block.extend(u64::MAX.to_be_bytes()); // length not stated
        writer.comment(comment);
        writer.option(SHB_USER_APPLICATION, program.as_bytes());
        writer.end()?;
        Ok(writer)
    }

    /// Adds an interface.
    ///
    /// # Errors
    /// When writing fails.
    pub fn interface(&mut self, name: &str, link_type: u16) -> io::Result<()> {
        self.begin(INTERFACE_DESCRIPTION);
        self.block.extend(link_type.to_be_bytes());
        self.block.extend([0; 6]); // reserved, and no limit of captured bytes
        self.option(IF_NAME, name.as_bytes());
        self.option(IF_TIME_RESOLUTION, &[9]); // 10^-9 s
        self.end()
    }

    /// Adds a packet. Times after the year 2554 are cut to the last one that the field holds.
    ///
    /// # Errors
    /// When writing fails.
    pub fn packet(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        let at = u64::try_from(packet.at.as_nanos()).unwrap_or(u64::MAX);
        // Packets are captured whole, so captured and original length are the same.
        let length = packet.bytes.len() as u32;
        self.begin(ENHANCED_PACKET);
        for word in [
            packet.interface,
            (at >> 32) as u32,
            at as u32,
            length,
            length,
        ] {
            self.block.extend(word.to_be_bytes());
        }
        self.padded(packet.bytes);
        self.comment(packet.comment);
        self.option(EPB_FLAGS, &(packet.direction as u32).to_be_bytes());
        self.end()
    }

    /// Hands the blocks written so far to the file.
    ///
    /// # Errors
    /// When writing fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.block.extend(kind.to_be_bytes());
        self.block.extend([0; 4]); // the length, known at the end
    }

    fn comment(&mut self, comment: Option<&str>) {
        if let Some(comment) = comment {
            self.option(COMMENT, comment.as_bytes());
        }
    }

    /// Adds an option, cut at the length that its field can state.
    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.block.extend(code.to_be_bytes());
        self.block.extend((value.len() as u16).to_be_bytes());
        self.padded(value);
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.block.extend(bytes);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn end(&mut self) -> io::Result<()> {
        self.block.extend([0; 4]); // opt_endofopt
        // The length is at both ends of a block, so that files can be read backward.
        let length = (self.block.len() as u32 + 4).to_be_bytes();
        self.block[4..8].copy_from_slice(&length);
        self.block.extend(length);
        self.file.write_all(&self.block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_the_bytes_of_the_specification() {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, "carob", None).unwrap();
        writer.interface("a", RAW_IP).unwrap();
        let packet = Packet {
            interface: 0,
            at: Duration::new(5, 7),
            direction: Direction::Outbound,
            comment: Some("note"),
            bytes: &[0x45, 1, 2],
        };
        writer.packet(&packet).unwrap();
        let words: Vec<u32> = file
            .chunks(4)
            .map(|word| u32::from_be_bytes(word.try_into().unwrap()))
            .collect();
        let section = [
            0x0a0d_0d0a,
            44,
            0x1a2b_3c4d,
            0x0001_0000,
            u32::MAX,
            u32::MAX,
            0x0004_0005,
        ];
        assert_eq!(words[..7], section);
        let name = u32::from(b'a') << 24;
        let interface = [
            1,
            40,
            101 << 16,
            0,
            0x0002_0001,
            name,
            0x0009_0001,
            9 << 24,
            0,
            40,
        ];
        assert_eq!(words[11..21], interface);
        let at = 5_000_000_007_u64;
        let (high, low) = ((at >> 32) as u32, at as u32);
        assert_eq!(words[21..29], [6, 56, 0, high, low, 3, 3, 0x4501_0200]);
        assert_eq!(words[29..31], [0x0001_0004, u32::from_be_bytes(*b"note")]);
        assert_eq!(words[31..], [0x0002_0004, 2, 0, 56]);
    }
}
