//! Compares the sizes of 802.15.4 frames with bytes written or read by smoltcp.
//!
//! Headers that smoltcp can write are compared with its output. smoltcp only reads headers with context-based addresses:
//! the tests write those according to RFC 6282, and smoltcp parses them. Where Contiki, which the simulator follows,
//! differs from smoltcp, a test states the difference in bytes.

use carob_mesh::lowpan::{
    Address, FCS_BYTES, Fragment, Frame, Header, HopPosition, Protocol, Reassembly, frames,
};
use carob_mesh::rpl::{Lollipop, Message};
use carob_mesh::spec::{LowpanSpec, RplMode};
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    Icmpv6Packet, Icmpv6Repr, Ieee802154Address, Ieee802154Frame, Ieee802154FrameType,
    Ieee802154FrameVersion, Ieee802154Pan, Ieee802154Repr, IpProtocol, Ipv6Address, Ipv6ExtHeader,
    Ipv6OptionRepr, Ipv6RoutingHeader, Ipv6RoutingRepr, RplHopByHopRepr, RplInstanceId,
    RplOptionPacket, RplOptionRepr, RplRepr, SixlowpanAddressContext, SixlowpanExtHeaderId,
    SixlowpanExtHeaderRepr, SixlowpanFragPacket, SixlowpanFragRepr, SixlowpanIphcPacket,
    SixlowpanIphcRepr, SixlowpanNextHeader, SixlowpanUdpNhcPacket, SixlowpanUdpNhcRepr, UdpRepr,
};

/// Prefix of the mesh, context 0.
const PREFIX: [u8; 8] = [0xaa, 0xaa, 0, 0, 0, 0, 0, 0];
const COAP: u16 = 5683;
const HOPS: [HopPosition; 4] = [
    HopPosition::Only,
    HopPosition::First,
    HopPosition::Middle,
    HopPosition::Last,
];

/// Link-layer address of a node.
fn link(node: u8) -> Ieee802154Address {
    Ieee802154Address::Extended([0, 0x12, 0x74, 0, 0, 0, 0, node])
}

/// Interface identifier of a node: the link-layer address with the universal bit inverted (RFC 4291 A).
fn identifier(node: u8) -> [u8; 8] {
    [2, 0x12, 0x74, 0, 0, 0, 0, node]
}

fn address(prefix: [u8; 8], identifier: [u8; 8]) -> Ipv6Address {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&prefix);
    bytes[8..].copy_from_slice(&identifier);
    Ipv6Address::from(bytes)
}

fn in_mesh(node: u8) -> Ipv6Address {
    address(PREFIX, identifier(node))
}

fn on_link(node: u8) -> Ipv6Address {
    address([0xfe, 0x80, 0, 0, 0, 0, 0, 0], identifier(node))
}

fn outside() -> Ipv6Address {
    Ipv6Address::new(0x2001, 0xdb8, 1, 2, 3, 4, 5, 6)
}

/// Packets go from node 1 to node 9, frames from node 3 to node 4 or between these.
const SOURCE: u8 = 1;
const DESTINATION: u8 = 9;
const SENDER: u8 = 3;
const RECEIVER: u8 = 4;
/// The all-RPL-nodes multicast address.
const GROUP: [u8; 16] = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x1a];

/// Senders of the frame and of the packet.
fn sender(header: &Header) -> (u8, Ipv6Address) {
    match header.source {
        Address::Elided => (SOURCE, in_mesh(SOURCE)),
        Address::Mesh => (SENDER, in_mesh(SOURCE)),
        Address::Outside => (SENDER, outside()),
        Address::LinkLocal | Address::AllRplNodes => (SOURCE, on_link(SOURCE)),
    }
}

/// Receivers of the frame and of the packet.
fn receiver(header: &Header) -> (u8, Ipv6Address) {
    match header.destination {
        Address::Elided => (DESTINATION, in_mesh(DESTINATION)),
        Address::Mesh => (RECEIVER, in_mesh(DESTINATION)),
        Address::Outside => (RECEIVER, outside()),
        Address::LinkLocal => (DESTINATION, on_link(DESTINATION)),
        Address::AllRplNodes => (0, Ipv6Address::from(GROUP)),
    }
}

/// Next header after IPv6, unless UDP is compressed.
fn next_header(header: &Header) -> IpProtocol {
    match (header.rpl_option, header.source_route, header.protocol) {
        (true, _, _) => IpProtocol::HopByHop,
        (_, Some(_), _) => IpProtocol::Ipv6Route,
        (_, _, Protocol::Udp) => IpProtocol::Udp,
        (_, _, Protocol::Icmpv6) => IpProtocol::Icmpv6,
    }
}

fn is_udp_compressed(header: &Header) -> bool {
    next_header(header) == IpProtocol::Udp
}

fn hop_limit(header: &Header) -> u8 {
    if header.hop_limit_inline { 61 } else { 64 }
}

/// IPHC (RFC 6282 3.1) without the compressed UDP header.
fn iphc(header: &Header) -> Vec<u8> {
    let bits = |address: Address| match address {
        // Context flag, address mode, and inline bytes.
        Address::Elided => (1, 0b11, 0),
        Address::Mesh => (1, 0b01, 8),
        Address::Outside => (0, 0b00, 16),
        Address::LinkLocal => (0, 0b11, 0),
        Address::AllRplNodes => (0, 0b11, 1),
    };
    let (source_context, source_mode, source_bytes) = bits(header.source);
    let (destination_context, destination_mode, destination_bytes) = bits(header.destination);
    let has_contexts = source_context + destination_context > 0;
    let is_multicast = header.destination == Address::AllRplNodes;
    let is_limit_elided = !header.hop_limit_inline;
    let mut bytes = vec![
        // Traffic class and flow label are elided.
        0b0111_1000 | u8::from(is_udp_compressed(header)) << 2 | u8::from(is_limit_elided) << 1,
        u8::from(has_contexts) << 7
            | source_context << 6
            | source_mode << 4
            | u8::from(is_multicast) << 3
            | destination_context << 2
            | destination_mode,
    ];
    if has_contexts {
        bytes.push(0);
    }
    if !is_udp_compressed(header) {
        bytes.push(next_header(header).into());
    }
    if header.hop_limit_inline {
        bytes.push(hop_limit(header));
    }
    bytes.extend(&sender(header).1.octets()[16 - source_bytes..]);
    bytes.extend(&receiver(header).1.octets()[16 - destination_bytes..]);
    bytes
}

/// The UDP header as compressed by smoltcp.
fn compressed_udp() -> Vec<u8> {
    let udp = SixlowpanUdpNhcRepr(UdpRepr {
        src_port: COAP,
        dst_port: COAP,
    });
    let mut bytes = vec![0; udp.header_len()];
    udp.emit(
        &mut SixlowpanUdpNhcPacket::new_unchecked(&mut bytes[..]),
        &in_mesh(SOURCE),
        &in_mesh(DESTINATION),
        0,
        |_| (),
        &ChecksumCapabilities::ignored(),
    );
    bytes
}

/// Headers of all kinds.
fn headers() -> Vec<Header> {
    let mut headers = vec![Header::to_all(), Header::to_neighbour()];
    for hop in HOPS {
        for has_option in [false, true] {
            for protocol in [Protocol::Udp, Protocol::Icmpv6] {
                let plain = Header::mesh(hop, protocol, has_option);
                headers.extend([plain, plain.routed_by_source(4)]);
            }
        }
    }
    for is_end in [false, true] {
        for has_option in [false, true] {
            headers.push(Header::to_outside(is_end, has_option));
            let down = Header::from_outside(is_end, has_option);
            headers.extend([down, down.routed_by_source(2)]);
        }
    }
    headers
}

fn mac(destination: Ieee802154Address) -> Ieee802154Repr {
    Ieee802154Repr {
        frame_type: Ieee802154FrameType::Data,
        security_enabled: false,
        frame_pending: false,
        ack_request: true,
        sequence_number: Some(7),
        pan_id_compression: true,
        frame_version: Ieee802154FrameVersion::Ieee802154_2006,
        dst_pan_id: Some(Ieee802154Pan(0xabcd)),
        dst_addr: Some(destination),
        // The same PAN, elided.
        src_pan_id: None,
        src_addr: Some(link(SOURCE)),
    }
}

#[test]
fn mac_headers_are_as_long_as_smoltcps() {
    for (header, destination) in [
        (Header::to_neighbour(), link(DESTINATION)),
        (Header::to_all(), Ieee802154Address::BROADCAST),
    ] {
        let repr = mac(destination);
        assert_eq!(repr.buffer_len(), usize::from(header.mac_bytes()));
        let mut bytes = vec![0; repr.buffer_len() + 1];
        repr.emit(&mut Ieee802154Frame::new_unchecked(&mut bytes[..]));
        let frame = Ieee802154Frame::new_checked(&bytes[..]).expect("a frame");
        assert_eq!(Ieee802154Repr::parse(&frame), Ok(repr));
        assert_eq!(frame.payload().expect("a payload").len(), 1);
    }
}

#[test]
fn smoltcp_parses_headers_of_equal_size() {
    let contexts = [SixlowpanAddressContext(PREFIX)];
    for header in headers() {
        let mut bytes = iphc(&header);
        let own = bytes.len();
        let udp = if is_udp_compressed(&header) {
            compressed_udp()
        } else {
            Vec::new()
        };
        bytes.extend(&udp);
        assert_eq!(
            bytes.len(),
            usize::from(header.compressed_bytes()),
            "{header:?}"
        );

        let ((from, source), (to, destination)) = (sender(&header), receiver(&header));
        let packet = SixlowpanIphcPacket::new_checked(&bytes[..]).expect("a header");
        assert_eq!(packet.header_len(), own, "{header:?}");
        assert_eq!(packet.payload(), udp);
        let repr = SixlowpanIphcRepr::parse(&packet, Some(link(from)), Some(link(to)), &contexts);
        let repr = repr.expect("a header");
        assert_eq!((repr.src_addr, repr.dst_addr), (source, destination));
        assert_eq!(repr.hop_limit, hop_limit(&header));
        let next = if is_udp_compressed(&header) {
            SixlowpanNextHeader::Compressed
        } else {
            SixlowpanNextHeader::Uncompressed(next_header(&header))
        };
        assert_eq!(repr.next_header, next, "{header:?}");
    }
}

#[test]
fn smoltcp_link_local_headers_have_equal_size() {
    for header in headers() {
        let ((from, source), (to, destination)) = (sender(&header), receiver(&header));
        let repr = SixlowpanIphcRepr {
            src_addr: source,
            ll_src_addr: Some(link(from)),
            dst_addr: destination,
            ll_dst_addr: Some(link(to)),
            next_header: if is_udp_compressed(&header) {
                SixlowpanNextHeader::Compressed
            } else {
                SixlowpanNextHeader::Uncompressed(next_header(&header))
            },
            hop_limit: hop_limit(&header),
            ecn: None,
            dscp: None,
            flow_label: None,
        };
        // smoltcp writes mesh addresses inline; Contiki writes a byte with the contexts.
        let more = |address| match address {
            Address::Elided => 16,
            Address::Mesh => 8,
            Address::Outside | Address::LinkLocal | Address::AllRplNodes => 0,
        };
        let more = more(header.source) + more(header.destination);
        let contexts = usize::from(more > 0);
        let own = iphc(&header);
        assert_eq!(repr.buffer_len(), own.len() + more - contexts, "{header:?}");
        if more == 0 {
            let mut bytes = vec![0; repr.buffer_len()];
            repr.emit(&mut SixlowpanIphcPacket::new_unchecked(&mut bytes[..]));
            assert_eq!(bytes, own, "{header:?}");
        }
    }
}

#[test]
fn rpl_option_is_eight_bytes_and_smoltcp_saves_two() {
    let option = Ipv6OptionRepr::Rpl(RplHopByHopRepr {
        down: false,
        rank_error: false,
        forwarding_error: false,
        instance_id: RplInstanceId::from(0x1e),
        sender_rank: 0x300,
    });
    // Next header and length, then the option.
    let option_header = 2 + option.buffer_len();
    let with = Header::mesh(HopPosition::Middle, Protocol::Udp, true);
    let udp = 8;
    assert_eq!(usize::from(with.inline_bytes()), option_header + udp);

    // smoltcp compresses the extension header; its next header is then the compressed UDP header.
    let compressed = SixlowpanExtHeaderRepr {
        ext_header_id: SixlowpanExtHeaderId::HopByHopHeader,
        next_header: SixlowpanNextHeader::Compressed,
        length: option.buffer_len() as u8,
    };
    let theirs = compressed.buffer_len() + option.buffer_len() + compressed_udp().len();
    let next_header = 1;
    assert_eq!(theirs + 2, next_header + option_header + udp);
    // Contiki spends both bytes whenever there is an option.
    let without = Header::mesh(HopPosition::Middle, Protocol::Udp, false);
    let size = |header: &Header| header.compressed_bytes() + header.inline_bytes();
    assert_eq!(size(&with) - size(&without), 8 + 2);
}

#[test]
fn source_routes_are_as_long_as_smoltcps() {
    for hops in 0..20_u16 {
        // 14 bytes of each address are elided, two remain; padded to eight.
        let differing = usize::from(hops) * 2;
        let addresses = vec![0; differing.next_multiple_of(8)];
        let route = Ipv6RoutingRepr::Rpl {
            segments_left: hops as u8,
            cmpr_i: 14,
            cmpr_e: 14,
            pad: (addresses.len() - differing) as u8,
            addresses: &addresses,
        };
        // Preceded by next header and length.
        let mut bytes = vec![0; 2 + route.buffer_len()];
        let header = Header::mesh(HopPosition::Middle, Protocol::Icmpv6, true);
        let header = header.routed_by_source(hops);
        assert_eq!(bytes.len(), usize::from(header.inline_bytes()), "{hops}");
        route.emit(&mut Ipv6RoutingHeader::new_unchecked(&mut bytes[2..]));
        bytes[0] = IpProtocol::Icmpv6.into();
        bytes[1] = (bytes.len() / 8 - 1) as u8;
        let whole = Ipv6ExtHeader::new_checked(&bytes[..]).expect("a header");
        let found = Ipv6RoutingHeader::new_checked(whole.payload()).expect("a route");
        assert_eq!(Ipv6RoutingRepr::parse(&found), Ok(route));
    }
}

/// RPL options as written by smoltcp.
fn options(reprs: &[RplOptionRepr<'_>]) -> Vec<u8> {
    let mut all = Vec::new();
    for repr in reprs {
        let mut bytes = vec![0; repr.buffer_len()];
        repr.emit(&mut RplOptionPacket::new_unchecked(&mut bytes[..]));
        all.extend(bytes);
    }
    all
}

#[test]
fn rpl_messages_are_as_long_as_smoltcps() {
    let dis = RplRepr::DodagInformationSolicitation { options: &[] };
    let ours = Message::Dis { multicast: true };
    assert_eq!(
        dis.buffer_len(),
        usize::from(ours.icmp_bytes(RplMode::Storing))
    );

    let dao = |parent: Option<Ipv6Address>, dodag| {
        let options = options(&[
            RplOptionRepr::RplTarget {
                prefix_length: 128,
                prefix: in_mesh(SOURCE),
            },
            RplOptionRepr::TransitInformation {
                external: false,
                path_control: 0,
                path_sequence: 0,
                path_lifetime: 30,
                parent_address: parent,
            },
        ]);
        let repr = RplRepr::DestinationAdvertisementObject {
            rpl_instance_id: RplInstanceId::from(0x1e),
            expect_ack: false,
            sequence: 241,
            dodag_id: dodag,
            options: &options,
        };
        repr.buffer_len()
    };
    let ours = Message::Dao {
        target: 1,
        parent: None,
        no_path: false,
        sequence: Lollipop::START,
    };
    let storing = usize::from(ours.icmp_bytes(RplMode::Storing));
    assert_eq!(dao(None, Some(in_mesh(0))), storing);
    let non_storing = usize::from(ours.icmp_bytes(RplMode::NonStoring));
    assert_eq!(dao(Some(in_mesh(2)), Some(in_mesh(0))), non_storing);
    // smoltcp may omit the DODAGID; Contiki's default build does not.
    assert_eq!(dao(None, None), storing - 16);
}

#[test]
fn smoltcp_parses_a_dio_of_equal_size() {
    let options = options(&[
        RplOptionRepr::DodagConfiguration {
            authentication_enabled: false,
            path_control_size: 0,
            dio_interval_doublings: 8,
            dio_interval_min: 12,
            dio_redundancy_constant: 10,
            max_rank_increase: 7 * 256,
            minimum_hop_rank_increase: 256,
            objective_code_point: 1,
            default_lifetime: 0xff,
            lifetime_unit: 0xffff,
        },
        RplOptionRepr::PrefixInformation {
            prefix_length: 64,
            on_link: false,
            autonomous_address_configuration: true,
            router_address: false,
            valid_lifetime: u32::MAX,
            preferred_lifetime: u32::MAX,
            destination_prefix: &address(PREFIX, [0; 8]).octets(),
        },
    ]);
    // Type, code, checksum; instance, version, rank 256, storing mode, DTSN, flags, reserved; DODAGID.
    let mut bytes = vec![0x9b, 1, 0, 0, 0x1e, 240, 1, 0, 2 << 3, 240, 0, 0];
    bytes.extend(in_mesh(0).octets());
    bytes.extend(&options);
    let ours = Message::Dio {
        rank: 256,
        version: Lollipop::START,
        dtsn: Lollipop::START,
    };
    assert_eq!(bytes.len(), usize::from(ours.icmp_bytes(RplMode::Storing)));
    let packet = Icmpv6Packet::new_checked(&bytes[..]).expect("a packet");
    let group = Ipv6Address::from(GROUP);
    let ignored = ChecksumCapabilities::ignored();
    let found = Icmpv6Repr::parse(&on_link(SOURCE), &group, &packet, &ignored).expect("a message");
    assert_eq!(found.buffer_len(), bytes.len());
    let Icmpv6Repr::Rpl(RplRepr::DodagInformationObject {
        rank,
        dodag_id,
        options: found,
        ..
    }) = found
    else {
        panic!("{found:?}");
    };
    assert_eq!((rank, dodag_id), (256, in_mesh(0)));
    assert_eq!(found, options);
}

#[test]
fn datagram_is_reassembled_from_fragments_of_these_sizes() {
    for (mac_bytes_max, payload) in [(102, 40), (102, 45), (102, 200), (125, 67), (125, 68)] {
        let spec = LowpanSpec {
            mac_bytes_max,
            datagram_max: 1_280,
            ..LowpanSpec::default()
        };
        for header in headers() {
            let sizes = frames(&spec, &header, payload).expect("a packet");
            let (whole, datagram) = (sizes.is_whole(), sizes.datagram_bytes());
            let mut reassembly = Reassembly::new(&spec);
            let mut is_complete = whole;
            for frame in sizes {
                let behind = behind_fragment_header(&header, frame, datagram, whole);
                // The first fragment has the bytes saved by compression.
                let saved = match frame.offset {
                    0 => header.uncompressed_bytes() - header.compressed_bytes(),
                    _ => 0,
                };
                assert_eq!(behind + saved, frame.carries, "{header:?}, {payload}");
                if !whole {
                    let fragment = Fragment {
                        tag: 63,
                        datagram,
                        offset: frame.offset,
                        bytes: frame.carries,
                    };
                    let now = carob_cc::time::Instant::from_micros(0);
                    is_complete = reassembly.accept(now, 1, fragment) == Ok(true);
                }
            }
            assert!(is_complete, "{header:?}, {payload}");
        }
    }
}

/// Writes MAC and fragment headers of a frame with smoltcp and parses them; returns the number of remaining bytes.
fn behind_fragment_header(header: &Header, frame: Frame, datagram: u16, whole: bool) -> u16 {
    let destination = if header.is_broadcast() {
        Ieee802154Address::BROADCAST
    } else {
        link(DESTINATION)
    };
    let repr = mac(destination);
    let mut bytes = vec![0; usize::from(frame.bytes - FCS_BYTES)];
    repr.emit(&mut Ieee802154Frame::new_unchecked(&mut bytes[..]));
    let rest = &mut bytes[repr.buffer_len()..];
    if whole {
        return rest.len() as u16;
    }
    let offset = (frame.offset / 8) as u8;
    let fragment = match offset {
        0 => SixlowpanFragRepr::FirstFragment {
            size: datagram,
            tag: 63,
        },
        _ => SixlowpanFragRepr::Fragment {
            size: datagram,
            tag: 63,
            offset,
        },
    };
    fragment.emit(&mut SixlowpanFragPacket::new_unchecked(&mut rest[..]));
    let packet = SixlowpanFragPacket::new_checked(&rest[..]).expect("a fragment");
    assert_eq!(SixlowpanFragRepr::parse(&packet), Ok(fragment));
    if offset > 0 {
        assert_eq!(u16::from(packet.datagram_offset()) * 8, frame.offset);
    }
    (rest.len() - fragment.buffer_len()) as u16
}
