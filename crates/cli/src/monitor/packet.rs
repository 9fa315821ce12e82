//! UDP datagrams in IP packets, as a capture wants them.
//!
//! We never see the headers our datagrams travel with, so these are our own: right in addresses,
//! ports, lengths and checksums, made up in the rest.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const UDP: u8 = 17;
const HOP_LIMIT: u8 = 64;
const UDP_HEADER: usize = 8;
const IPV4_HEADER: usize = 20;

/// The packet that carries a payload; both addresses are of one family.
pub(super) fn udp(from: SocketAddr, to: SocketAddr, payload: &[u8]) -> Vec<u8> {
    let datagram = datagram(from, to, payload);
    let mut packet = match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => ipv4(from, to, datagram.len()),
        (from, to) => ipv6(in_v6(from), in_v6(to), datagram.len()),
    };
    packet.extend_from_slice(&datagram);
    packet
}

fn in_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// Lengths fit 16 bits: what is captured was a datagram.
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
    sum.add(&[0, UDP]);
    sum.add(&short(length).to_be_bytes());
    sum.add(&datagram);
    // A sum of 0 would say that there is none (RFC 768).
    let checksum = match sum.checksum() {
        0 => u16::MAX,
        other => other,
    };
    datagram[6..8].copy_from_slice(&checksum.to_be_bytes());
    datagram
}

/// RFC 791 3.1.
fn ipv4(from: Ipv4Addr, to: Ipv4Addr, length: usize) -> Vec<u8> {
    let mut header = vec![0x45, 0];
    header.extend_from_slice(&short(IPV4_HEADER + length).to_be_bytes());
    // Identification 0, which is fine for packets that must not be fragmented (RFC 6864).
    header.extend_from_slice(&[0, 0, 0x40, 0, HOP_LIMIT, UDP, 0, 0]);
    header.extend_from_slice(&from.octets());
    header.extend_from_slice(&to.octets());
    let mut sum = Sum::default();
    sum.add(&header);
    header[10..12].copy_from_slice(&sum.checksum().to_be_bytes());
    header
}

/// RFC 8200 3.
fn ipv6(from: Ipv6Addr, to: Ipv6Addr, length: usize) -> Vec<u8> {
    let mut header = vec![0x60, 0, 0, 0];
    header.extend_from_slice(&short(length).to_be_bytes());
    header.extend_from_slice(&[UDP, HOP_LIMIT]);
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

    /// What was summed with its checksum sums up to all ones.
    fn sums_up(parts: &[&[u8]]) -> bool {
        let mut sum = Sum::default();
        for part in parts {
            sum.add(part);
        }
        sum.checksum() == 0
    }

    #[test]
    fn the_checksum_of_rfc_1071_is_ours() {
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
    fn an_ipv6_packet_has_lengths_and_checksums_that_are_right() {
        let (from, to) = ("[2001:db8::1]:5683", "[fe80::2]:1");
        let packet = udp(from.parse().unwrap(), to.parse().unwrap(), b"abc");
        assert_eq!(packet.len(), 40 + 8 + 3);
        assert_eq!(packet[4..8], [0, 11, UDP, HOP_LIMIT]);
        assert!(sums_up(&[&packet[8..40], &[0, UDP, 0, 11], &packet[40..]]));
    }
}
