//! Captures of made-up exchanges, for tests and examples.

use std::net::{IpAddr, SocketAddr};

use carob_codec::{Code, MessageId, OptionNumber, Token, Type, Writer};

/// Raw IP packets (tcpdump.org/linktypes).
const LINK_TYPE_RAW: u16 = 101;
/// Bytes of the largest message.
const MESSAGE_BYTES_MAX: usize = 2_048;

/// Layout of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileLayout {
    /// pcap with microseconds, little endian.
    Pcap,
    /// pcap with nanoseconds, big endian.
    PcapNanosecondsBigEndian,
    /// pcapng with microseconds, little endian.
    Pcapng,
    /// pcapng with a resolution of 2^-20 s, big endian.
    PcapngBinaryBigEndian,
}

/// A capture that is being written.
#[derive(Clone, Debug)]
pub struct CaptureFile {
    is_big_endian: bool,
    format: Format,
    bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Format {
    Pcap {
        is_nanoseconds: bool,
        is_modified: bool,
    },
    Pcapng {
        /// Time resolutions of the interfaces, as `if_tsresol` has them.
        resolutions: Vec<u8>,
    },
}

/// The directions of a packet in pcapng.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Flag {
    None = 0,
    Inbound = 1,
    Outbound = 2,
}

impl CaptureFile {
    /// Begins a file with one interface of raw IP packets.
    pub fn new(layout: FileLayout) -> Self {
        match layout {
            FileLayout::Pcap => Self::pcap(LINK_TYPE_RAW, [false; 3]),
            FileLayout::PcapNanosecondsBigEndian => Self::pcap(LINK_TYPE_RAW, [true, true, false]),
            FileLayout::Pcapng => Self::pcapng(false, &[(LINK_TYPE_RAW, 6)]),
            FileLayout::PcapngBinaryBigEndian => Self::pcapng(true, &[(LINK_TYPE_RAW, 0x80 + 20)]),
        }
    }

    /// Begins a pcap file: whether it is big endian, has nanoseconds, and the packet headers of a modified libpcap.
    pub fn pcap(link_type: u16, flags: [bool; 3]) -> Self {
        let [is_big_endian, is_nanoseconds, is_modified] = flags;
        let format = Format::Pcap {
            is_nanoseconds,
            is_modified,
        };
        let mut file = Self::empty(is_big_endian, format);
        file.words(&[match (is_nanoseconds, is_modified) {
            (true, _) => 0xa1b2_3c4d,
            (false, true) => 0xa1b2_cd34,
            (false, false) => 0xa1b2_c3d4,
        }]);
        file.shorts(&[2, 4]);
        file.words(&[0, 0, 65_535, u32::from(link_type)]);
        file
    }

    /// Begins a pcapng section with interfaces: link type and time resolution, as `if_tsresol` has it.
    pub fn pcapng(is_big_endian: bool, interfaces: &[(u16, u8)]) -> Self {
        let resolutions = interfaces.iter().map(|interface| interface.1).collect();
        let mut file = Self::empty(is_big_endian, Format::Pcapng { resolutions });
        file.words(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d]);
        file.shorts(&[1, 0]);
        file.words(&[u32::MAX, u32::MAX, 28]);
        for (link_type, resolution) in interfaces {
            file.words(&[1, 32]);
            file.shorts(&[*link_type, 0]);
            file.words(&[0]);
            file.shorts(&[9, 1]);
            file.bytes.extend([*resolution, 0, 0, 0]);
            file.shorts(&[0, 0]);
            file.words(&[32]);
        }
        file
    }

    fn empty(is_big_endian: bool, format: Format) -> Self {
        Self {
            is_big_endian,
            format,
            bytes: Vec::new(),
        }
    }

    fn words(&mut self, words: &[u32]) {
        for word in words {
            self.bytes.extend(if self.is_big_endian {
                word.to_be_bytes()
            } else {
                word.to_le_bytes()
            });
        }
    }

    fn shorts(&mut self, shorts: &[u16]) {
        for short in shorts {
            self.bytes.extend(if self.is_big_endian {
                short.to_be_bytes()
            } else {
                short.to_le_bytes()
            });
        }
    }

    /// Adds a packet of the first interface at a time in microseconds.
    pub fn packet(&mut self, at_us: u64, flag: Flag, packet: &[u8]) {
        self.packet_of(0, at_us, flag, packet);
    }

    /// Adds a packet of an interface at a time in microseconds.
    pub fn packet_of(&mut self, interface: u32, at_us: u64, flag: Flag, packet: &[u8]) {
        self.cut(interface, at_us, flag, packet, packet.len());
    }

    /// Adds a packet of which at most `snap` bytes were captured.
    pub fn cut(&mut self, interface: u32, at_us: u64, flag: Flag, packet: &[u8], snap: usize) {
        let captured = &packet[..packet.len().min(snap)];
        let lengths = [captured.len() as u32, packet.len() as u32];
        match &self.format {
            Format::Pcap {
                is_nanoseconds,
                is_modified,
            } => {
                let (unit, is_modified) = (if *is_nanoseconds { 1_000 } else { 1 }, *is_modified);
                let fraction = (at_us % 1_000_000) as u32 * unit;
                self.words(&[(at_us / 1_000_000) as u32, fraction]);
                self.words(&lengths);
                if is_modified {
                    self.words(&[3, 0]);
                }
                self.bytes.extend(captured);
            }
            Format::Pcapng { resolutions } => {
                let ticks = match resolutions[interface as usize] {
                    binary @ 0x80.. => {
                        (u128::from(at_us) * (1 << (binary & 0x7f)) / 1_000_000) as u64
                    }
                    decimal @ 6.. => at_us * 10_u64.pow(u32::from(decimal) - 6),
                    decimal => at_us / 10_u64.pow(6 - u32::from(decimal)),
                };
                let padding = captured.len().next_multiple_of(4) - captured.len();
                let total = 32 + lengths[0] + padding as u32 + 12;
                self.words(&[6, total, interface, (ticks >> 32) as u32, ticks as u32]);
                self.words(&lengths);
                self.bytes.extend(captured);
                self.bytes.extend(&[0; 3][..padding]);
                self.shorts(&[2, 4]);
                self.words(&[flag as u32]);
                self.shorts(&[0, 0]);
                self.words(&[total]);
            }
        }
    }

    /// Adds a datagram without a direction.
    pub fn datagram(&mut self, at_us: u64, from: SocketAddr, to: SocketAddr, payload: &[u8]) {
        self.packet(at_us, Flag::None, &udp_packet(from, to, 64, payload));
    }

    /// Returns the file so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the file.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Returns an IP packet with a UDP datagram; checksums are 0.
pub fn udp_packet(from: SocketAddr, to: SocketAddr, ttl: u8, payload: &[u8]) -> Vec<u8> {
    let length = 8 + payload.len() as u16;
    let mut packet = Vec::with_capacity(48 + payload.len());
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            packet.extend([0x45, 0]);
            packet.extend((20 + length).to_be_bytes());
            packet.extend([0, 0, 0, 0, ttl, 17, 0, 0]);
            packet.extend(from.octets());
            packet.extend(to.octets());
        }
        (from, to) => {
            packet.extend([0x60, 0, 0, 0]);
            packet.extend(length.to_be_bytes());
            packet.extend([17, ttl]);
            for address in [from, to] {
                packet.extend(match address {
                    IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                    IpAddr::V6(address) => address.octets(),
                });
            }
        }
    }
    for field in [from.port(), to.port(), length, 0] {
        packet.extend(field.to_be_bytes());
    }
    packet.extend(payload);
    packet
}

/// Returns a message; options must be in ascending order.
///
/// # Panics
///
/// If the message is longer than 2,048 bytes, or an option is out of order.
pub fn message(
    kind: Type,
    code: Code,
    id: u16,
    token: &[u8],
    options: &[(OptionNumber, &[u8])],
    payload: &[u8],
) -> Vec<u8> {
    let mut buffer = [0; MESSAGE_BYTES_MAX];
    let token = Token::new(token).expect("a short token");
    let mut writer =
        Writer::new(&mut buffer, kind, code, MessageId(id), &token).expect("a header fits");
    for (number, value) in options {
        writer.option(*number, value).expect("options in order");
    }
    if !payload.is_empty() {
        writer.payload(payload).expect("a short payload");
    }
    let length = writer.finish();
    buffer[..length].to_vec()
}

/// Returns a capture at a client: 20 requests with round trips of 100 to 119 ms; the tenth is lost
/// and retransmitted after 2 s.
pub fn capture() -> Vec<u8> {
    let client = SocketAddr::from(([10, 0, 0, 1], 40_000));
    let server = SocketAddr::from(([10, 0, 0, 2], 5_683));
    let mut file = CaptureFile::new(FileLayout::Pcapng);
    let mut at = 1_700_000_000_000_000;
    for id in 0..20 {
        let path = [(OptionNumber::URI_PATH, &b"temperature"[..])];
        let token = [7, id as u8];
        let request = message(Type::Confirmable, Code::GET, id, &token, &path, b"");
        let response = message(Type::Acknowledgement, Code::CONTENT, id, &token, &[], b"21");
        let copies = if id == 9 { 2 } else { 1 };
        for copy in 0..copies {
            let packet = udp_packet(client, server, 64, &request);
            file.packet(at + copy * 2_000_000, Flag::Outbound, &packet);
        }
        at += (copies - 1) * 2_000_000 + 100_000 + u64::from(id) * 1_000;
        let packet = udp_packet(server, client, 60, &response);
        file.packet(at, Flag::Inbound, &packet);
        at += 1_000_000;
    }
    file.into_bytes()
}
