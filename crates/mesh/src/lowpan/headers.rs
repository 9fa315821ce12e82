//! Header compression by size (IPHC, RFC 6282).

/// IPv6's header.
const IPV6: u16 = 40;
/// UDP's.
const UDP: u16 = 8;
/// The RPL option in a separate hop-by-hop header (RFC 6553).
const HOP_BY_HOP: u16 = 8;
/// A source routing header without addresses (RFC 6554).
const ROUTING: u16 = 8;
/// Size of each of its addresses, of which only the last two bytes differ within the mesh.
const ROUTING_ADDRESS: u32 = 2;

/// MAC header of a unicast data frame, both addresses of 64 bits: frame control 2, sequence number
/// 1, PAN 2, addresses 16.
const MAC_UNICAST: u16 = 21;
/// The same for a broadcast: the destination has 16 bits.
const MAC_BROADCAST: u16 = 15;

/// IPHC's own two bytes (RFC 6282 3.1).
const IPHC: u16 = 2;
/// The context identifier extension. Contiki sends it even for context 0.
const CONTEXTS: u16 = 1;
/// UDP compressed, with checksum and both ports in full: CoAP's 5683 is in neither short range (RFC
/// 6282 4.3).
const UDP_COMPRESSED: u16 = 1 + 4 + 2;

/// A packet's headers at one hop, by the properties that determine their size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The packet's source.
    pub source: Address,
    /// The destination. With a source routing header, the next hop rather than the last.
    pub destination: Address,
    /// True if the hop limit is carried inline: it is none of the compressible values.
    pub hop_limit_inline: bool,
    /// True if it carries the RPL option.
    pub rpl_option: bool,
    /// Addresses in its source routing header, if any: one for each hop after the first.
    pub source_route: Option<u16>,
    /// The payload's protocol.
    pub protocol: Protocol,
}

/// An address, by its compressed form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// In the mesh's prefix, of the frame's sender or receiver: elided.
    Elided,
    /// In the mesh's prefix, of another node: its interface identifier, 8 bytes.
    Mesh,
    /// Outside the mesh, in no context: all 16 bytes.
    Outside,
    /// Link-local, of the frame's sender or receiver: elided, without a context.
    LinkLocal,
    /// All RPL nodes on the link (ff02::1a): 1 byte. The frame is a broadcast.
    AllRplNodes,
}

/// The payload's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// UDP between CoAP's ports.
    Udp,
    /// ICMPv6, whose own header counts as payload.
    Icmpv6,
}

/// The position of a hop on a packet's path through the mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopPosition {
    /// From its source to its destination.
    Only,
    /// From its source to the next node.
    First,
    /// Between two others.
    Middle,
    /// From another to its destination.
    Last,
}

impl HopPosition {
    /// Derives the position: whether the frame's sender is the packet's source, and its receiver
    /// the destination.
    pub const fn of(from_source: bool, to_destination: bool) -> Self {
        match (from_source, to_destination) {
            (true, true) => Self::Only,
            (true, false) => Self::First,
            (false, false) => Self::Middle,
            (false, true) => Self::Last,
        }
    }

    const fn is_first(self) -> bool {
        matches!(self, Self::Only | Self::First)
    }

    const fn is_last(self) -> bool {
        matches!(self, Self::Only | Self::Last)
    }
}

impl Header {
    /// Headers between two nodes of the mesh, by stored routes.
    pub const fn mesh(hop: HopPosition, protocol: Protocol, rpl_option: bool) -> Self {
        Self {
            source: Address::of(hop.is_first()),
            destination: Address::of(hop.is_last()),
            hop_limit_inline: !hop.is_first(),
            rpl_option,
            source_route: None,
            protocol,
        }
    }

    /// Headers from a node of the mesh upwards to a host outside, on the hop from the source or a
    /// later one.
    pub const fn to_outside(is_first: bool, rpl_option: bool) -> Self {
        Self {
            source: Address::of(is_first),
            destination: Address::Outside,
            hop_limit_inline: !is_first,
            rpl_option,
            source_route: None,
            protocol: Protocol::Udp,
        }
    }

    /// Headers from a host outside to a node of the mesh, by stored routes.
    pub const fn from_outside(is_last: bool, rpl_option: bool) -> Self {
        Self {
            source: Address::Outside,
            destination: Address::of(is_last),
            hop_limit_inline: true,
            rpl_option,
            source_route: None,
            protocol: Protocol::Udp,
        }
    }

    /// Headers after the root has added a source route: `addresses` hops follow the first. Each hop
    /// is the packet's destination in turn. Contiki then removes the RPL option.
    pub const fn routed_by_source(self, addresses: u16) -> Self {
        Self {
            destination: Address::Elided,
            rpl_option: false,
            source_route: Some(addresses),
            ..self
        }
    }

    /// Headers of multicast RPL messages.
    pub const fn to_all() -> Self {
        Self {
            destination: Address::AllRplNodes,
            ..Self::to_neighbour()
        }
    }

    /// Headers of unicast RPL messages: probes, answers to a DIS, and DAOs in storing mode.
    pub const fn to_neighbour() -> Self {
        Self {
            source: Address::LinkLocal,
            destination: Address::LinkLocal,
            hop_limit_inline: false,
            rpl_option: false,
            source_route: None,
            protocol: Protocol::Icmpv6,
        }
    }

    /// Returns whether the frame is a broadcast.
    pub const fn is_broadcast(&self) -> bool {
        matches!(self.destination, Address::AllRplNodes)
    }

    /// The MAC header, without the FCS, in bytes.
    pub const fn mac_bytes(&self) -> u16 {
        if self.is_broadcast() {
            MAC_BROADCAST
        } else {
            MAC_UNICAST
        }
    }

    /// Size of the compressed headers, in bytes.
    pub const fn compressed_bytes(&self) -> u16 {
        let contexts = if self.source.is_in_context() || self.destination.is_in_context() {
            CONTEXTS
        } else {
            0
        };
        // The next header is part of UDP's compression.
        let rest = if self.is_udp_compressed() {
            UDP_COMPRESSED
        } else {
            1
        };
        let addresses = self.source.bytes() + self.destination.bytes();
        IPHC + contexts + rest + self.hop_limit_inline as u16 + addresses
    }

    /// Size of these headers before compression, in bytes: fragment offsets count from there.
    pub const fn uncompressed_bytes(&self) -> u16 {
        if self.is_udp_compressed() {
            IPV6 + UDP
        } else {
            IPV6
        }
    }

    /// Uncompressed headers, in bytes. Saturating.
    pub fn inline_bytes(&self) -> u16 {
        let route = self.source_route.map_or(0, |addresses| {
            let addresses = u32::from(addresses) * ROUTING_ADDRESS;
            let padded = addresses.next_multiple_of(8);
            ROUTING.saturating_add(u16::try_from(padded).unwrap_or(u16::MAX))
        });
        let option = if self.rpl_option { HOP_BY_HOP } else { 0 };
        let udp = match self.protocol {
            Protocol::Udp if !self.is_udp_compressed() => UDP,
            _ => 0,
        };
        route.saturating_add(option + udp)
    }

    /// Contiki compresses no extension header, and no header after one.
    const fn is_udp_compressed(&self) -> bool {
        let has_extension = self.rpl_option || self.source_route.is_some();
        matches!(self.protocol, Protocol::Udp) && !has_extension
    }
}

impl Address {
    /// The address of a node of the mesh, elided if it follows from the link layer.
    const fn of(is_known: bool) -> Self {
        if is_known { Self::Elided } else { Self::Mesh }
    }

    const fn is_in_context(self) -> bool {
        matches!(self, Self::Elided | Self::Mesh)
    }

    const fn bytes(self) -> u16 {
        match self {
            Self::Elided | Self::LinkLocal => 0,
            Self::AllRplNodes => 1,
            Self::Mesh => 8,
            Self::Outside => 16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::FCS_BYTES;
    use super::HopPosition::{First, Last, Middle, Only};
    use super::*;

    /// Bytes of a frame around its payload, FCS included.
    fn around(header: Header) -> u16 {
        header.mac_bytes() + header.compressed_bytes() + header.inline_bytes() + FCS_BYTES
    }

    #[test]
    fn contikis_data_has_its_overhead_at_each_hop() {
        let data = |hop| around(Header::mesh(hop, Protocol::Udp, true));
        assert_eq!([First, Middle, Last, Only].map(data), [51, 60, 52, 43]);
        // Without the option UDP is compressed: 7 bytes for 1 + 8 + 8.
        let plain = |hop| around(Header::mesh(hop, Protocol::Udp, false));
        assert_eq!([First, Middle, Last, Only].map(plain), [41, 50, 42, 33]);
    }

    #[test]
    fn hosts_outside_are_named_in_full() {
        // Upwards the destination has 16 bytes at each hop, the last to the root included.
        assert_eq!(around(Header::to_outside(true, true)), 51 - 8 + 16);
        assert_eq!(around(Header::to_outside(false, true)), 60 - 8 + 16);
        // Downwards the source has, and the hop limit is inline from the first hop on.
        assert_eq!(around(Header::from_outside(false, true)), 60 - 8 + 16);
        assert_eq!(around(Header::from_outside(true, true)), 52 - 8 + 16);
    }

    #[test]
    fn padded_source_route_replaces_option_and_destination() {
        let middle = Header::mesh(Middle, Protocol::Udp, true);
        // Three addresses of two bytes, padded to eight: 16 instead of 8 for the option; the
        // destination is the next hop, which the link layer names.
        for (addresses, header) in [(0, 8), (1, 16), (3, 16), (4, 16), (5, 24)] {
            let routed = middle.routed_by_source(addresses);
            assert_eq!(around(routed), 60 - 8 - 8 + header, "{addresses}");
        }
        let routed = Header::from_outside(false, true).routed_by_source(3);
        assert_eq!(around(routed), 60 - 8 + 8 - 8 + 16);
        // No overflow at any argument.
        let endless = middle.routed_by_source(u16::MAX);
        assert_eq!(endless.inline_bytes(), u16::MAX);
    }

    #[test]
    fn rpl_messages_on_the_link_need_no_addresses() {
        // 17 + (2 + 1 next header + 1 group); 23 + (2 + 1).
        assert_eq!(around(Header::to_all()), 21);
        assert_eq!(around(Header::to_neighbour()), 26);
        // A DAO to the root in non-storing mode goes as data does, without UDP's header.
        let dao = |hop| around(Header::mesh(hop, Protocol::Icmpv6, true));
        assert_eq!([First, Middle, Last, Only].map(dao), [43, 52, 44, 35]);
    }
}
