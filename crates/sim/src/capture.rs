//! Packet capture at hosts: each packet when it is sent, and again when it arrives.
//!
//! Hosts have IPv4 addresses here, so that packets have the length they had on the link: client `n`
//! is 10.0.0.0 + 2 + `n`, the server 10.255.0.1. All use CoAP's port, 5683, since every host has
//! one endpoint; a client that restarts or reconnects uses the next port up.

use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use carob_cc::time::Instant;

use crate::address::PORT;
use crate::packet;
use crate::tcp::Segment;

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
            SocketAddr::from((address(host), port))
        };
        match &self.content {
            Content::Datagram(bytes) => packet::udp(end(self.from), end(self.to), true, bytes),
            Content::Segment(segment) => packet::tcp(end(self.from), end(self.to), segment),
        }
    }
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
    fn datagram_is_from_client_to_server() {
        let packet = captured(Content::Datagram(Bytes::from_static(b"odd"))).packet(4);
        assert_eq!(packet[12..20], [10, 0, 0, 2, 10, 255, 0, 1]);
        assert_eq!(&packet[28..], b"odd");
    }

    #[test]
    fn connections_differ_in_port() {
        for restarts in [0, 1] {
            let captured = Captured {
                restarts,
                ..captured(Content::Segment(Segment::default()))
            };
            let packet = captured.packet(4);
            assert_eq!(packet[20..22], (5_683 + restarts as u16).to_be_bytes());
            assert_eq!(packet[22..24], 5_683_u16.to_be_bytes());
        }
    }
}
