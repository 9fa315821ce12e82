//! Packet capture at hosts: each packet when it is sent, and again when it arrives.
//!
//! Hosts have IPv4 addresses here, so that packets have the length they had on the link: client `n`
//! is 10.0.0.0 + 2 + `n`, the server 10.255.0.1. All use CoAP's port, 5683, since every host has
//! one endpoint; a client that restarts or reconnects uses the next port up.

use std::net::{Ipv4Addr, SocketAddrV4};

use bytes::Bytes;
use carob_cc::time::Instant;

use crate::address::PORT;
use crate::tcp::Segment;
use crate::tcp::wire;

const UDP: u8 = 17;
/// Hop limit of captured packets, as of TCP's.
const TTL: u8 = 64;
/// The largest UDP payload that an IPv4 packet holds: 20 bytes are IP's header, 8 are UDP's.
const PAYLOAD_MAX: usize = 65_535 - 28;

/// A packet that a host sent or received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Time.
    pub at: Instant,
    /// The capturing host: its sender, or its receiver.
    pub host: u32,
    /// The sending host; clients come first, the server last.
    pub from: u32,
    /// The destination host.
    pub to: u32,
    /// Restarts, rebindings or reconnections of its client before.
    pub restarts: u32,
    /// Its content.
    pub content: Content,
}

/// The content of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A UDP datagram.
    Datagram(Bytes),
    /// A TCP segment.
    Segment(Segment),
}

impl Captured {
    /// Returns whether it was captured at its sender.
    pub fn is_outgoing(&self) -> bool {
        self.host == self.from
    }

    /// The IPv4 packet; `clients` is the number of clients of the run.
    pub fn packet(&self, clients: u32) -> Vec<u8> {
        let address = |host: u32| {
            if host >= clients {
                Ipv4Addr::new(10, 255, 0, 1)
            } else {
                Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 2).to_bits() + host)
            }
        };
        let end = |host: u32| {
            let port = if host < clients {
                PORT.wrapping_add(self.restarts as u16)
            } else {
                PORT
            };
            SocketAddrV4::new(address(host), port)
        };
        match &self.content {
            Content::Datagram(bytes) => datagram(end(self.from), end(self.to), bytes),
            Content::Segment(segment) => {
                let mut packet = Vec::new();
                // Packets that must not be fragmented need no identification (RFC 6864 4.1).
                wire::encode(segment, end(self.from), end(self.to), 0, &mut packet);
                packet
            }
        }
    }
}

/// The IPv4 packet around a UDP payload (RFC 791, RFC 768); a payload too long for it is cut.
fn datagram(from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let payload = &payload[..payload.len().min(PAYLOAD_MAX)];
    let length = (payload.len() + 8) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend_from_slice(&(length + 20).to_be_bytes());
    packet.extend_from_slice(&[0, 0, 0, 0, TTL, UDP, 0, 0]);
    packet.extend_from_slice(&from.ip().octets());
    packet.extend_from_slice(&to.ip().octets());
    let sum = wire::checksum(0, &packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    for field in [from.port(), to.port(), length, 0] {
        packet.extend_from_slice(&field.to_be_bytes());
    }
    packet.extend_from_slice(payload);
    let over = wire::pseudo_header_of(UDP, *from.ip(), *to.ip(), usize::from(length));
    // A checksum of 0 would mean that there is none (RFC 768).
    let sum = match wire::checksum(over, &packet[20..]) {
        0 => u16::MAX,
        sum => sum,
    };
    packet[26..28].copy_from_slice(&sum.to_be_bytes());
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(content: Content) -> Captured {
        Captured {
            at: Instant::ZERO,
            host: 0,
            from: 0,
            to: 4,
            restarts: 0,
            content,
        }
    }

    #[test]
    fn datagram_has_correct_lengths_addresses_and_checksums() {
        for payload in [&b""[..], b"odd", b"even"] {
            let packet = captured(Content::Datagram(Bytes::from_static(payload))).packet(4);
            assert_eq!(packet.len(), 28 + payload.len());
            assert_eq!(packet[2..4], (packet.len() as u16).to_be_bytes());
            assert_eq!(packet[12..20], [10, 0, 0, 2, 10, 255, 0, 1]);
            assert_eq!(packet[24..26], (packet.len() as u16 - 20).to_be_bytes());
            assert_eq!(wire::checksum(0, &packet[..20]), 0);
            let [from, to] = [Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 255, 0, 1)];
            let over = wire::pseudo_header_of(UDP, from, to, packet.len() - 20);
            assert_eq!(wire::checksum(over, &packet[20..]), 0);
            assert_eq!(&packet[28..], payload);
        }
    }

    #[test]
    fn segment_round_trips_and_connections_differ_in_port() {
        let segment = Segment {
            seq: 7,
            payload: Bytes::from_static(b"carob"),
            ..Segment::default()
        };
        for restarts in [0, 1] {
            let captured = Captured {
                restarts,
                ..captured(Content::Segment(segment.clone()))
            };
            let (from, to, decoded) = wire::decode(&captured.packet(4)).expect("a segment");
            assert_eq!(decoded, segment);
            assert_eq!(u32::from(from.port()), 5_683 + restarts);
            assert_eq!(to.port(), 5_683);
        }
    }
}
