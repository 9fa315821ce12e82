//! UDP datagrams and TCP segments in IP packets, for captures.
//!
//! Addresses, ports, lengths and checksums are right. Other fields of IP are those of Linux.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::tcp::segment::{Ecn, Options, Segment};

const UDP: u8 = 17;
const TCP: u8 = 6;
const HOP_LIMIT: u8 = 64;
const UDP_HEADER: usize = 8;
const IPV4_HEADER: usize = 20;
const TCP_HEADER: usize = 20;
/// The largest payload of a datagram in an IPv4 packet.
const PAYLOAD_MAX: usize = u16::MAX as usize - IPV4_HEADER - UDP_HEADER;
/// The flag of IPv4 packets that must not be fragmented. They need no identification (RFC 6864 4.1).
const DONT_FRAGMENT: u8 = 0x40;

/// The packet of a datagram. A payload too long for it is cut. Addresses of two families become IPv6 addresses.
pub fn udp(from: SocketAddr, to: SocketAddr, may_fragment: bool, payload: &[u8]) -> Vec<u8> {
    let payload = &payload[..payload.len().min(PAYLOAD_MAX)];
    let length = UDP_HEADER + payload.len();
    let mut datagram = Vec::with_capacity(length);
    for field in [from.port(), to.port(), length as u16, 0] {
        datagram.extend_from_slice(&field.to_be_bytes());
    }
    datagram.extend_from_slice(payload);
    // A checksum of 0 would mean that there is none (RFC 768).
    let checksum = match transport_checksum(from, to, UDP, &datagram) {
        0 => u16::MAX,
        other => other,
    };
    datagram[6..8].copy_from_slice(&checksum.to_be_bytes());
    let flags = if may_fragment { 0 } else { DONT_FRAGMENT };
    in_ip(from, to, [0, flags, UDP], &datagram)
}

/// The packet of a segment. A payload too long for it is cut; sockets here never send one.
pub fn tcp(from: SocketAddr, to: SocketAddr, segment: &Segment) -> Vec<u8> {
    let header = TCP_HEADER + segment.options.wire_bytes() as usize;
    let most = usize::from(u16::MAX) - IPV4_HEADER - header;
    let mut bytes = Vec::with_capacity(header + segment.payload.len());
    for port in [from.port(), to.port()] {
        bytes.extend_from_slice(&port.to_be_bytes());
    }
    bytes.extend_from_slice(&segment.seq.to_be_bytes());
    bytes.extend_from_slice(&segment.ack.to_be_bytes());
    // At most 15: a receiver reports no more SACK blocks than 40 bytes of options hold.
    let words = (header / 4) as u8;
    bytes.extend_from_slice(&[words << 4, segment.flags.0]);
    bytes.extend_from_slice(&segment.window.to_be_bytes());
    bytes.extend_from_slice(&[0; 4]); // checksum, urgent pointer
    encode_options(&segment.options, &mut bytes);
    bytes.extend_from_slice(&segment.payload[..segment.payload.len().min(most)]);
    let checksum = transport_checksum(from, to, TCP, &bytes);
    bytes[16..18].copy_from_slice(&checksum.to_be_bytes());
    let ecn = match segment.ecn {
        Ecn::NotCapable => 0,
        Ecn::Capable => 2,
        Ecn::Experienced => 3,
    };
    in_ip(from, to, [ecn, DONT_FRAGMENT, TCP], &bytes)
}

/// Options in the order and padding that Linux uses.
fn encode_options(options: &Options, out: &mut Vec<u8>) {
    if let Some(mss) = options.mss {
        out.extend_from_slice(&[2, 4]);
        out.extend_from_slice(&mss.to_be_bytes());
    }
    // Each option below begins with no-operations (kind 1), so that its 32-bit fields are at word
    // boundaries and the header ends at one (RFC 7323 appendix A).
    if options.sack_permitted {
        out.extend_from_slice(&[1, 1, 4, 2]);
    }
    if let Some((value, echo)) = options.timestamps {
        out.extend_from_slice(&[1, 1, 8, 10]);
        out.extend_from_slice(&value.to_be_bytes());
        out.extend_from_slice(&echo.to_be_bytes());
    }
    if let Some(shift) = options.window_scale {
        out.extend_from_slice(&[1, 3, 3, shift]);
    }
    let blocks = options.sack.as_slice();
    if !blocks.is_empty() {
        out.extend_from_slice(&[1, 1, 5, 2 + 8 * blocks.len() as u8]);
        for (start, end) in blocks {
            out.extend_from_slice(&start.to_be_bytes());
            out.extend_from_slice(&end.to_be_bytes());
        }
    }
}

/// The IP packet around `content`: ECN field, flags of IPv4, protocol.
fn in_ip(from: SocketAddr, to: SocketAddr, fields: [u8; 3], content: &[u8]) -> Vec<u8> {
    let [ecn, flags, protocol] = fields;
    let mut packet = Vec::with_capacity(40 + content.len());
    match (from.ip(), to.ip()) {
        // RFC 791 3.1
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            packet.extend_from_slice(&[0x45, ecn]);
            packet.extend_from_slice(&((IPV4_HEADER + content.len()) as u16).to_be_bytes());
            packet.extend_from_slice(&[0, 0, flags, 0, HOP_LIMIT, protocol, 0, 0]);
            packet.extend_from_slice(&from.octets());
            packet.extend_from_slice(&to.octets());
            let checksum = checksum(0, &packet);
            packet[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        // RFC 8200 3
        (from, to) => {
            packet.extend_from_slice(&[0x60, ecn << 4, 0, 0]);
            packet.extend_from_slice(&(content.len() as u16).to_be_bytes());
            packet.extend_from_slice(&[protocol, HOP_LIMIT]);
            packet.extend_from_slice(&in_v6(from).octets());
            packet.extend_from_slice(&in_v6(to).octets());
        }
    }
    packet.extend_from_slice(content);
    packet
}

/// Returns an address as an IPv6 address, mapped if it is none.
pub fn in_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

/// The checksum of UDP and TCP (RFC 768, RFC 9293 3.1): over addresses, protocol, length, and their own bytes.
fn transport_checksum(from: SocketAddr, to: SocketAddr, protocol: u8, content: &[u8]) -> u16 {
    // The sum of a mapped address differs from that of the IPv4 address, unless both families are equal.
    let words = |address: IpAddr| match (address, from.is_ipv4() == to.is_ipv4()) {
        (IpAddr::V4(address), true) => sum(&address.octets()),
        (address, _) => sum(&in_v6(address).octets()),
    };
    let pseudo = words(from.ip()) + words(to.ip()) + u32::from(protocol) + content.len() as u32;
    checksum(pseudo, content)
}

/// The sum of 16-bit words. An odd last byte is padded with a zero byte behind it, which is not sent (RFC 9293 3.1).
fn sum(bytes: &[u8]) -> u32 {
    // A packet has at most 32,768 words, so the sum stays below 2^32 and carries need to be folded only at the end.
    let word = |pair: &[u8]| u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]);
    bytes.chunks(2).map(|pair| u32::from(word(pair))).sum()
}

/// The Internet checksum (RFC 1071) over `bytes`, starting from a partial sum.
fn checksum(partial: u32, bytes: &[u8]) -> u16 {
    let mut sum = partial + sum(bytes);
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::random::Stream;
    use crate::tcp::segment::Flags;

    fn addresses(from: &str, to: &str) -> (SocketAddr, SocketAddr) {
        (
            from.parse().expect("an address"),
            to.parse().expect("an address"),
        )
    }

    /// A packet summed together with its own checksums gives 0 (RFC 1071 1).
    fn assert_sums(packet: &[u8]) {
        let (header, addresses, protocol) = match packet[0] >> 4 {
            4 => (20, &packet[12..20], packet[9]),
            _ => (40, &packet[8..40], packet[6]),
        };
        if header == 20 {
            assert_eq!(packet[2..4], (packet.len() as u16).to_be_bytes());
            assert_eq!(checksum(0, &packet[..20]), 0);
        } else {
            assert_eq!(packet[4..6], (packet.len() as u16 - 40).to_be_bytes());
        }
        let pseudo = sum(addresses) + u32::from(protocol) + (packet.len() - header) as u32;
        assert_eq!(checksum(pseudo, &packet[header..]), 0);
    }

    #[test]
    fn checksum_matches_rfc_1071() {
        // Its example in section 3.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(0, &bytes), !0xddf2);
    }

    #[test]
    fn datagram_has_correct_lengths_ports_and_checksums() {
        for (from, to, header) in [
            ("192.0.2.1:5683", "198.51.100.7:40000", 20),
            ("[2001:db8::1]:5683", "[fe80::2]:40000", 40),
            ("192.0.2.1:5683", "[fe80::2]:40000", 40),
        ] {
            let (from, to) = addresses(from, to);
            for payload in [&b""[..], b"odd", b"even"] {
                for may_fragment in [false, true] {
                    let packet = udp(from, to, may_fragment, payload);
                    assert_sums(&packet);
                    assert_eq!(packet[header..header + 4], [0x16, 0x33, 0x9c, 0x40]);
                    let length = (8 + payload.len() as u16).to_be_bytes();
                    assert_eq!(packet[header + 4..header + 6], length);
                    assert_eq!(&packet[header + 8..], payload);
                }
            }
        }
    }

    #[test]
    fn a_syn_has_the_bytes_worked_by_hand() {
        let segment = Segment {
            seq: 0x0102_0304,
            flags: Flags::SYN,
            window: 0xffff,
            options: Options {
                mss: Some(256),
                ..Options::default()
            },
            ..Segment::default()
        };
        let (from, to) = addresses("192.0.2.1:5683", "192.0.2.2:49152");
        let by_hand = [
            0x45, 0x00, 0x00, 0x2c, 0x00, 0x00, 0x40, 0x00, 0x40, 0x06, IP_SUM[0], IP_SUM[1], 192,
            0, 2, 1, 192, 0, 2, 2, //
            0x16, 0x33, 0xc0, 0x00, 0x01, 0x02, 0x03, 0x04, 0, 0, 0, 0, 0x60, 0x02, 0xff, 0xff,
            TCP_SUM[0], TCP_SUM[1], 0, 0, 2, 4, 1, 0,
        ];
        assert_eq!(tcp(from, to, &segment), by_hand);
    }

    /// 4500 + 002c + 4000 + 4006 + c000 + 0201 + c000 + 0202 = 0x24935, folded 0x4937.
    const IP_SUM: [u8; 2] = (!0x4937_u16).to_be_bytes();
    /// Pseudo-header c000 + 0201 + c000 + 0202 + 0006 + 0018 = 0x18421; 1633 + c000 + 0102 + 0304
    /// + 6002 + ffff + 0204 + 0100 = 0x23d3e; both 0x3c15f, folded 0xc162.
    const TCP_SUM: [u8; 2] = (!0xc162_u16).to_be_bytes();

    #[test]
    fn options_have_the_order_and_padding_of_linux() {
        let mut options = Options {
            mss: Some(0x0102),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some((0x0304_0506, 0x0708_090a)),
            ..Options::default()
        };
        options.sack.push(0x1112_1314, 0x1516_1718);
        let mut bytes = Vec::new();
        encode_options(&options, &mut bytes);
        let by_hand = [
            &[2, 4, 1, 2, 1, 1, 4, 2][..],
            &[1, 1, 8, 10, 3, 4, 5, 6, 7, 8, 9, 10, 1, 3, 3, 7],
            &[1, 1, 5, 10, 17, 18, 19, 20, 21, 22, 23, 24],
        ];
        assert_eq!(bytes, by_hand.concat());
    }

    #[test]
    fn segments_of_any_options_have_correct_lengths_and_checksums() {
        let mut stream = Stream::new(1, "wire");
        let (from, to) = addresses("192.0.2.1:5683", "192.0.2.2:49152");
        for _ in 0..2_000 {
            let draw = stream.next_u64();
            let bit = |at: u32| draw >> at & 1 == 1;
            let mut options = Options {
                mss: bit(0).then_some((draw >> 40) as u16),
                window_scale: bit(1).then_some((draw >> 20 & 7) as u8),
                sack_permitted: bit(2),
                timestamps: bit(3).then_some((draw as u32, (draw >> 9) as u32)),
                ..Options::default()
            };
            // Within the limit of a segment: 40 bytes of options.
            while options.wire_bytes() + 12 <= 40 && bit(4) {
                options.sack.push((draw >> 7) as u32, (draw >> 11) as u32);
            }
            let segment = Segment {
                seq: (draw >> 13) as u32,
                ack: (draw >> 17) as u32,
                flags: Flags((draw >> 24) as u8),
                window: (draw >> 30) as u16,
                options,
                ecn: [Ecn::NotCapable, Ecn::Capable, Ecn::Experienced][(draw >> 50) as usize % 3],
                payload: Bytes::from(vec![draw as u8; (draw >> 52) as usize % 300]),
            };
            let packet = tcp(from, to, &segment);
            assert_sums(&packet);
            assert_eq!(packet.len(), segment.wire_bytes() as usize);
            assert_eq!(packet[24..28], segment.seq.to_be_bytes());
            assert_eq!(packet[28..32], segment.ack.to_be_bytes());
            assert_eq!(packet[33], segment.flags.0);
            assert_eq!(packet[34..36], segment.window.to_be_bytes());
            let data = 20 + usize::from(packet[32] >> 4) * 4;
            assert_eq!(packet[data..], segment.payload);
        }
    }
}
