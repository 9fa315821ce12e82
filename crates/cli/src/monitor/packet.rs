//! UDP datagrams and TCP segments in IP packets, for captures.
//!
//! We never see the headers our messages travel with, so these are our own: right in addresses,
//! ports, lengths and checksums, and of TCP in sequence numbers; the other fields are made up.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const UDP: u8 = 17;
const TCP: u8 = 6;
const HOP_LIMIT: u8 = 64;
const UDP_HEADER: usize = 8;
const IPV4_HEADER: usize = 20;
const TCP_HEADER: usize = 20;
/// Bytes of a stream in one segment; real ones were cut elsewhere.
pub(super) const SEGMENT: usize = 1_400;

/// The packet that carries a payload; both addresses have one family.
pub(super) fn udp(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    in_ip(from, to, UDP, &datagram(from, to, payload))
}

/// Packet of a datagram without headers, for Wireshark. Tags before it name its dissector and both
/// addresses (Wireshark's Exported PDU, link type 252).
pub(super) fn exported(from: SocketAddr, to: SocketAddr, reader: &str, payload: &[u8]) -> Vec<u8> {
    const READER: u16 = 12;
    const PORT_TYPE: u16 = 24;
    const PORT_TYPE_UDP: u32 = 3;
    const PORTS: [u16; 2] = [25, 26];
    const END: u16 = 0;
    let mut bytes = Vec::with_capacity(64 + payload.len());
    let mut tag = |tag: u16, value: &[u8]| {
        let padded = value.len().next_multiple_of(4);
        bytes.extend_from_slice(&tag.to_be_bytes());
        bytes.extend_from_slice(&short(padded).to_be_bytes());
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len() + padded - value.len(), 0);
    };
    tag(READER, reader.as_bytes());
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            tag(20, &from.octets());
            tag(21, &to.octets());
        }
        (from, to) => {
            tag(22, &in_v6(from).octets());
            tag(23, &in_v6(to).octets());
        }
    }
    tag(PORT_TYPE, &PORT_TYPE_UDP.to_be_bytes());
    for (number, port) in PORTS.into_iter().zip([from.port(), to.port()]) {
        tag(number, &u32::from(port).to_be_bytes());
    }
    tag(END, &[]);
    bytes.extend_from_slice(payload);
    bytes
}

/// The packet that carries a piece of a stream of at most [`SEGMENT`] bytes, which begins at `at`
/// in the sender's stream; the sender has received `heard` bytes.
pub(super) fn tcp(from: SocketAddr, to: SocketAddr, at: u32, heard: u32, piece: &[u8]) -> Vec<u8> {
    const PUSH_AND_ACK: u8 = 0x18;
    let mut segment = Vec::with_capacity(TCP_HEADER + piece.len());
    for port in [from.port(), to.port()] {
        segment.extend_from_slice(&port.to_be_bytes());
    }
    segment.extend_from_slice(&at.to_be_bytes());
    segment.extend_from_slice(&heard.to_be_bytes());
    let words = (TCP_HEADER / 4) as u8;
    segment.extend_from_slice(&[words << 4, PUSH_AND_ACK, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend_from_slice(piece);
    let checksum = transport_sum(from, to, TCP, &segment).checksum();
    segment[16..18].copy_from_slice(&checksum.to_be_bytes());
    in_ip(from, to, TCP, &segment)
}

fn in_ip(from: SocketAddr, to: SocketAddr, protocol: u8, content: &[u8]) -> Vec<u8> {
    let mut packet = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => ipv4(from, to, protocol, content.len()),
        (from, to) => ipv6(in_v6(from), in_v6(to), protocol, content.len()),
    };
    packet.extend_from_slice(content);
    packet
}

/// The sum over what UDP and TCP sum over: addresses, protocol, length, and their own bytes.
fn transport_sum(from: SocketAddr, to: SocketAddr, protocol: u8, content: &[u8]) -> Sum {
    let mut sum = Sum::default();
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            sum.add(&from.octets());
            sum.add(&to.octets());
        }
        (from, to) => {
            sum.add(&in_v6(from).octets());
            sum.add(&in_v6(to).octets());
        }
    }
    sum.add(&[0, protocol]);
    sum.add(&short(content.len()).to_be_bytes());
    sum.add(content);
    sum
}

fn in_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// Lengths fit 16 bits: each capture was a datagram.
fn short(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}

fn datagram(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let length = UDP_HEADER + payload.len();
    let mut datagram = Vec::with_capacity(length);
    for field in [from.port(), to.port(), short(length), 0] {
        datagram.extend_from_slice(&field.to_be_bytes());
    }
    datagram.extend_from_slice(payload);
    // A checksum of 0 means that there is none (RFC 768).
    let checksum = match transport_sum(from, to, UDP, &datagram).checksum() {
        0 => u16::MAX,
        other => other,
    };
    datagram[6..8].copy_from_slice(&checksum.to_be_bytes());
    datagram
}

/// RFC 791 3.1.
fn ipv4(from: Ipv4Addr, to: Ipv4Addr, protocol: u8, length: usize) -> Vec<u8> {
    let mut header = vec![0x45, 0];
    header.extend_from_slice(&short(IPV4_HEADER + length).to_be_bytes());
    // Identification 0, which is fine for packets that must not be fragmented (RFC 6864).
    header.extend_from_slice(&[0, 0, 0x40, 0, HOP_LIMIT, protocol, 0, 0]);
    header.extend_from_slice(&from.octets());
    header.extend_from_slice(&to.octets());
    let mut sum = Sum::default();
    sum.add(&header);
    header[10..12].copy_from_slice(&sum.checksum().to_be_bytes());
    header
}

/// RFC 8200 3.
fn ipv6(from: Ipv6Addr, to: Ipv6Addr, protocol: u8, length: usize) -> Vec<u8> {
    let mut header = vec![0x60, 0, 0, 0];
    header.extend_from_slice(&short(length).to_be_bytes());
    header.extend_from_slice(&[protocol, HOP_LIMIT]);
    header.extend_from_slice(&from.octets());
    header.extend_from_slice(&to.octets());
    header
}

/// The Internet checksum (RFC 1071).
#[derive(Default)]
struct Sum(u32);

impl Sum {
    /// Adds bytes; only the last addition may be of an odd number.
    fn add(&mut self, bytes: &[u8]) {
        for pair in bytes.chunks(2) {
            let word = u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]);
            self.0 += u32::from(word);
            self.0 = (self.0 & 0xffff) + (self.0 >> 16);
        }
    }

    fn checksum(self) -> u16 {
        !(self.0 as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns true if the sum, checksum included, is all ones.
    fn sums_up(parts: &[&[u8]]) -> bool {
        let mut sum = Sum::default();
        for part in parts {
            sum.add(part);
        }
        sum.checksum() == 0
    }

    #[test]
    fn checksum_matches_rfc_1071() {
        // Its example in section 3; 2 + 4 carries have been folded in.
        let mut sum = Sum::default();
        sum.add(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.checksum(), !0xddf2);
    }

    #[test]
    fn an_ipv4_packet_has_lengths_and_checksums_that_are_right() {
        let (from, to) = ("192.0.2.1:5683", "198.51.100.7:40000");
        let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
        for payload in [&b""[..], b"odd", b"even"] {
            let packet = udp(from, to, payload);
            assert_eq!(packet.len(), 28 + payload.len());
            assert_eq!(packet[2..4], short(packet.len()).to_be_bytes());
            assert!(sums_up(&[&packet[..20]]));
            let length = short(8 + payload.len()).to_be_bytes();
            assert_eq!(packet[24..26], length);
            assert!(sums_up(&[
                &packet[12..20],
                &[0, UDP],
                &length,
                &packet[20..]
            ]));
            assert_eq!(&packet[28..], payload);
            assert_eq!(packet[20..24], [0x16, 0x33, 0x9c, 0x40]);
        }
    }

    #[test]
    fn segment_has_stream_position_and_valid_checksum() {
        let (from, to) = ("192.0.2.1:5683", "198.51.100.7:40000");
        let packet = tcp(from.parse().unwrap(), to.parse().unwrap(), 7, 9, b"odd");
        assert_eq!((packet.len(), packet[9]), (43, TCP));
        assert_eq!(packet[24..32], [0, 0, 0, 7, 0, 0, 0, 9]);
        assert!(sums_up(&[&packet[12..20], &[0, TCP, 0, 23], &packet[20..]]));
    }

    #[test]
    fn an_ipv6_packet_has_lengths_and_checksums_that_are_right() {
        let (from, to) = ("[2001:db8::1]:5683", "[fe80::2]:1");
        let packet = udp(from.parse().unwrap(), to.parse().unwrap(), b"abc");
        assert_eq!(packet.len(), 40 + 8 + 3);
        assert_eq!(packet[4..8], [0, 11, UDP, HOP_LIMIT]);
        assert!(sums_up(&[&packet[8..40], &[0, UDP, 0, 11], &packet[40..]]));
    }
}
