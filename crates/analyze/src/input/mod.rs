//! Readers of captures and event logs. Each yields one packet or event at a time.

mod bytes;
mod fragments;
mod ieee802154;
pub(crate) mod link;
pub(crate) mod log;
pub(crate) mod packet;
mod pcap;
mod pcapng;
pub(crate) mod sixlowpan;

use std::fmt;
use std::io::{self, Read};

use bytes::Bytes;
use pcap::PcapReader;
use pcapng::PcapngReader;

use crate::limits::PACKET_BYTES_MAX;

/// The direction of a packet at the interface where it was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Direction {
    Inbound,
    Outbound,
}

/// A packet of the file.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    /// Number of the packet in the file, from 1.
    pub(crate) number: u64,
    /// Offset of its record in the file, in bytes.
    pub(crate) offset: u64,
    /// Time in microseconds; `None` where the file has none.
    pub(crate) at: Option<u64>,
    /// Link type (tcpdump.org/linktypes).
    pub(crate) link_type: u32,
    pub(crate) interface: u32,
    pub(crate) direction: Option<Direction>,
    /// Bytes of the packet on the wire: more than were captured, if the capture cut it short.
    pub(crate) original_bytes: u32,
    pub(crate) bytes: &'a [u8],
}

/// A place where the file violates its format.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Damage {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Number of the packet or line there, from 1.
    pub number: u64,
    /// The problem.
    pub problem: String,
    /// True if nothing after this place could be read.
    pub is_end: bool,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            offset,
            number,
            problem,
            is_end,
        } = self;
        write!(f, "byte {offset}, packet {number}: {problem}")?;
        if *is_end {
            f.write_str("; the rest of the file was not read")?;
        }
        Ok(())
    }
}

/// Format of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Format {
    /// A capture in the format of libpcap.
    Pcap,
    /// A capture in the format of Wireshark.
    Pcapng,
    /// An event log of Carob: one JSON object a line.
    EventLog,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pcap => "pcap",
            Self::Pcapng => "pcapng",
            Self::EventLog => "event log",
        })
    }
}

/// Returns the format of a file that begins with these bytes; four suffice for a capture.
pub fn detect(start: &[u8]) -> Option<Format> {
    if let Some(magic) = start.first_chunk::<4>() {
        if pcap::Layout::of(*magic).is_some() {
            return Some(Format::Pcap);
        }
        if *magic == pcapng::SECTION_HEADER {
            return Some(Format::Pcapng);
        }
    }
    let first = start.iter().find(|byte| !byte.is_ascii_whitespace());
    (first == Some(&b'{')).then_some(Format::EventLog)
}

/// Returns the name of another format that tools write captures in, by its first bytes.
pub(crate) fn foreign_format(start: &[u8]) -> Option<&'static str> {
    let names: [(&[u8], &str); 7] = [
        (&[0x1f, 0x8b], "gzip: decompress it first"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "zstd: decompress it first"),
        (&[0x04, 0x22, 0x4d, 0x18], "LZ4: decompress it first"),
        (&[0xfd, b'7', b'z', b'X', b'Z'], "xz: decompress it first"),
        (b"snoop\0", "snoop: convert it with editcap -F pcap"),
        (b"GMBU", "Network Monitor: convert it with editcap -F pcap"),
        (b"RTSS", "Network Monitor: convert it with editcap -F pcap"),
    ];
    let row = names
        .into_iter()
        .find(|(magic, _)| start.starts_with(magic));
    row.map(|(_, name)| name)
}

/// A step of a reader.
pub(crate) enum Step<'a> {
    Frame(Frame<'a>),
    Damaged(Damage),
    End,
}

/// A reader of either capture format.
pub(crate) enum CaptureReader<R> {
    Pcap(PcapReader<R>),
    Pcapng(PcapngReader<R>),
}

impl<R: Read> CaptureReader<R> {
    /// Creates a reader at the beginning of the file.
    pub(crate) fn new(format: Format, inner: R) -> Self {
        let bytes = Bytes::new(inner);
        match format {
            Format::Pcapng => Self::Pcapng(PcapngReader::new(bytes)),
            Format::Pcap | Format::EventLog => Self::Pcap(PcapReader::new(bytes)),
        }
    }

    pub(crate) fn next(&mut self) -> io::Result<Step<'_>> {
        match self {
            Self::Pcap(reader) => reader.next(),
            Self::Pcapng(reader) => reader.next(),
        }
    }

    /// Returns the bytes read so far.
    pub(crate) fn offset(&self) -> u64 {
        match self {
            Self::Pcap(reader) => reader.offset(),
            Self::Pcapng(reader) => reader.offset(),
        }
    }
}

/// The problem of a packet with an impossible length.
fn too_long(bytes: u64) -> String {
    format!("a packet of {bytes} bytes; at most {PACKET_BYTES_MAX} are possible")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_is_detected_by_the_first_bytes() {
        assert_eq!(detect(&[0xd4, 0xc3, 0xb2, 0xa1]), Some(Format::Pcap));
        assert_eq!(detect(&[0xa1, 0xb2, 0x3c, 0x4d, 0]), Some(Format::Pcap));
        assert_eq!(detect(&[0x0a, 0x0d, 0x0d, 0x0a]), Some(Format::Pcapng));
        assert_eq!(detect(b"\n {\"at_us\":1}"), Some(Format::EventLog));
        assert_eq!(detect(&[0x34, 0xcd, 0xb2, 0xa1]), Some(Format::Pcap));
        assert_eq!(detect(b"[link]"), None);
        let gzip = foreign_format(&[0x1f, 0x8b, 8, 0]).expect("gzip");
        assert!(gzip.starts_with("gzip"), "{gzip}");
        assert_eq!(foreign_format(b"text"), None);
        assert_eq!(detect(b""), None);
    }
}
