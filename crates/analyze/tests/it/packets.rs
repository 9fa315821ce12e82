//! Link types, tunnels, fragments and truncated packets.

use std::net::SocketAddr;

use carob_analyze::synthetic::{CaptureFile, Flag, message, udp_packet};
use carob_codec::{BlockSize, BlockValue, Code, OptionNumber, Type};

use crate::captures::*;
use crate::traffic::{client, server};

type Wrap = fn(&[u8]) -> Vec<u8>;

#[test]
fn every_link_type_gives_the_same_exchanges() {
    type Frame = fn(bool, &[u8]) -> Vec<u8>;
    let kinds: [(&str, u16, Frame); 15] = [
        ("raw", RAW, |_, packet| packet.to_vec()),
        ("raw IP of BSD", 12, |_, packet| packet.to_vec()),
        ("Ethernet", 1, |_, packet| ethernet(1, &[], packet)),
        ("VLAN", 1, |_, packet| ethernet(1, &[[0x81, 0]], packet)),
        ("QinQ", 1, |_, packet| {
            ethernet(1, &[[0x88, 0xa8], [0x81, 0]], packet)
        }),
        ("older QinQ", 1, |_, packet| {
            ethernet(1, &[[0x91, 0], [0x81, 0]], packet)
        }),
        ("PPPoE", 1, |_, packet| {
            let protocol = if packet[0] >> 4 == 4 { 0x21 } else { 0x57 };
            let head = [
                2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0x64, 0x11, 0, 0, 9, 0, 0, 0,
            ];
            [&head[..], &[protocol], packet].concat()
        }),
        ("SLL", SLL, |is_request, packet| {
            sll(if is_request { 4 } else { 0 }, packet)
        }),
        ("SLL2", SLL2, |is_request, packet| {
            sll2(2, if is_request { 4 } else { 0 }, packet)
        }),
        ("SLL with VLAN", SLL, |_, packet| {
            let mut frame = sll(0, packet);
            frame.splice(14..14, [0x81, 0, 0, 7]);
            frame
        }),
        ("loopback of OpenBSD", 108, |_, packet| {
            [&[0, 0, 0, 2], packet].concat()
        }),
        ("loopback, little endian", 0, |_, packet| {
            [&[2, 0, 0, 0], packet].concat()
        }),
        ("loopback, big endian", 0, |_, packet| {
            [&[0, 0, 0, 2], packet].concat()
        }),
        ("PPP", 9, |_, packet| {
            let protocol = if packet[0] >> 4 == 4 { 0x21 } else { 0x57 };
            [&[0xff, 3, 0, protocol], packet].concat()
        }),
        ("PPP, compressed fields", 50, |_, packet| {
            let protocol = if packet[0] >> 4 == 4 { 0x21 } else { 0x57 };
            [&[protocol], packet].concat()
        }),
    ];
    let ends = [
        (client(), server()),
        (v6("2001:db8::10", 40_000), v6("2001:db8:1::5", 5_683)),
        // IPv4-mapped addresses in IPv6 packets.
        (v6("::ffff:10.0.0.1", 40_000), v6("::ffff:10.9.0.2", 5_683)),
    ];
    for (name, link_type, frame) in kinds {
        for (from, to) in ends {
            for layout in [
                [false; 3],
                [true, false, false],
                [false, true, false],
                [true, false, true],
            ] {
                let mut file = CaptureFile::pcap(link_type, layout);
                for (at, is_request, packet) in exchanges(from, to) {
                    file.packet(at, Flag::None, &frame(is_request, &packet));
                }
                let found = found(file.bytes());
                assert_four(&found, &format!("{name}, {from}, {layout:?}"));
                assert_eq!(found.contents.repeated, 0, "{name}");
            }
        }
    }
}

#[test]
fn cut_packets_are_read_as_far_as_they_go() {
    const NEEDED: u32 = 60;
    // Ethernet, IP and UDP headers take 42 bytes, the CoAP header and token 4 and 2.
    for snap in 0..70 {
        let mut file = pcap(1);
        for (at, _, packet) in exchanges(client(), server()) {
            file.cut(0, at, Flag::None, &ethernet(1, &[], &packet), snap);
        }
        let found = found(file.bytes());
        let contents = &found.contents;
        assert_eq!((contents.malformed, contents.broken), (0, 0), "{snap}");
        match snap {
            48.. => assert_four(&found, &format!("{snap} bytes")),
            _ => assert_eq!((contents.messages, contents.cut_unread), (0, 8), "{snap}"),
        }
        if snap < 53 {
            assert_eq!(contents.cut_short, 8, "{snap}");
            assert_eq!(
                (contents.cut_captured, contents.cut_needed),
                (snap as u32, 60)
            );
            let text = found.unknowns().join(" ");
            assert!(text.contains(&format!("at {snap} B or less")), "{text}");
            assert!(text.contains(&format!("at least -s {NEEDED}")), "{text}");
        }
        if snap >= NEEDED as usize {
            assert_eq!(contents.cut_short, 0);
        }
    }
}

#[test]
fn cut_messages_give_no_sizes_of_transfers_that_were_not_read() {
    let mut file = pcap(RAW);
    for number in 0..4_u32 {
        let size = BlockSize::from_szx(2).expect("64 bytes");
        let block = BlockValue::new(number, number < 3, size)
            .expect("a small number")
            .encode();
        let at = 1_000_000 * u64::from(number);
        let id = number as u16;
        let path = (OptionNumber::URI_PATH, &b"file"[..]);
        let value = (OptionNumber::BLOCK2, &block[..]);
        let request = message(Type::Confirmable, Code::GET, id, &[1], &[path, value], b"");
        // The capture ends within a long option after the block option.
        let size2 = (OptionNumber(2_000), &[0; 40][..]);
        let options = [value, size2];
        let body = [b'x'; 64];
        let response = message(
            Type::Acknowledgement,
            Code::CONTENT,
            id,
            &[1],
            &options,
            &body,
        );
        file.packet(
            at,
            Flag::None,
            &udp_packet(client(), server(), 64, &request),
        );
        let response = udp_packet(server(), client(), 64, &response);
        file.cut(0, at + 9_000, Flag::None, &response, 50);
    }
    let found = found(file.bytes());
    assert_eq!((found.requests.exchanges, found.requests.answered), (4, 4));
    assert_eq!(found.transfers.complete + found.transfers.incomplete, 0);
    assert_eq!(found.contents.cut_short, 4);
}

/// Fragments of an IP packet, with payloads of `size` bytes.
fn fragments(packet: &[u8], size: usize, id: u8) -> Vec<Vec<u8>> {
    let is_v4 = packet[0] >> 4 == 4;
    let (header, payload) = packet.split_at(if is_v4 { 20 } else { 40 });
    let count = payload.len().div_ceil(size);
    let pieces = payload.chunks(size).enumerate();
    let piece = |(number, piece): (usize, &[u8])| {
        let place = (number * size) as u16;
        let more = number + 1 < count;
        let mut header = header.to_vec();
        if is_v4 {
            header[2..4].copy_from_slice(&(20 + piece.len() as u16).to_be_bytes());
            header[5] = id;
            let field = (place / 8) | if more { 0x2000 } else { 0 };
            header[6..8].copy_from_slice(&field.to_be_bytes());
        } else {
            header[4..6].copy_from_slice(&(8 + piece.len() as u16).to_be_bytes());
            let next = std::mem::replace(&mut header[6], 44);
            header.extend([next, 0]);
            header.extend((place | u16::from(more)).to_be_bytes());
            header.extend([0, 0, 0, id]);
        }
        [&header[..], piece].concat()
    };
    pieces.map(piece).collect()
}

#[test]
fn fragments_are_put_together_in_any_order() {
    let ends = [
        (client(), server()),
        (v6("2001:db8::10", 40_000), v6("2001:db8:1::5", 5_683)),
    ];
    for (from, to) in ends {
        for is_reversed in [false, true] {
            for copies in [1, 2] {
                let mut file = pcap(RAW);
                for (number, (at, _, packet)) in exchanges(from, to).into_iter().enumerate() {
                    let mut pieces = fragments(&packet, 8, number as u8 + 1);
                    assert!(pieces.len() > 2);
                    if is_reversed {
                        pieces.reverse();
                    }
                    for (place, piece) in pieces.iter().enumerate() {
                        for copy in 0..copies {
                            file.packet(at + 10 * place as u64 + copy, Flag::None, piece);
                        }
                    }
                }
                let found = found(file.bytes());
                assert_four(&found, &format!("{from} {is_reversed} {copies}"));
                assert_eq!(found.contents.fragments, 0);
            }
        }
        // If one fragment is missing, the message is not read and the other fragments are counted.
        let mut file = pcap(RAW);
        let (at, _, packet) = exchanges(from, to).swap_remove(0);
        let pieces = fragments(&packet, 8, 1);
        for piece in &pieces[1..] {
            file.packet(at, Flag::None, piece);
        }
        let found = found(file.bytes());
        assert_eq!(found.contents.messages, 0);
        assert_eq!(found.contents.fragments, pieces.len() as u64 - 1);
        assert_eq!(found.contents.malformed + found.contents.others, 0);
    }
}

/// An IPv4 packet with this protocol number, between routers.
fn outer(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend((20 + payload.len() as u16).to_be_bytes());
    packet.extend([0, 0, 0, 0, 255, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    packet.extend(payload);
    packet
}

#[test]
fn simple_tunnels_are_opened_and_others_are_named() {
    let over_v4 = exchanges(client(), server());
    let v6_ends = (v6("2001:db8::10", 40_000), v6("2001:db8:1::5", 5_683));
    let over_v6 = exchanges(v6_ends.0, v6_ends.1);
    let opened: [(&str, &Packets, Wrap); 7] = [
        ("IPIP", &over_v4, |packet| outer(4, packet)),
        ("6in4", &over_v6, |packet| outer(41, packet)),
        ("4in6", &over_v4, |packet| {
            let mut head = udp_packet(v6("2001:db8::1", 0), v6("2001:db8::2", 0), 64, &[]);
            head.truncate(40);
            head[4..6].copy_from_slice(&(packet.len() as u16).to_be_bytes());
            head[6] = 4;
            [head, packet.to_vec()].concat()
        }),
        ("GRE of IPv4", &over_v4, |packet| {
            outer(47, &[&[0, 0, 8, 0], packet].concat())
        }),
        ("GRE of IPv6", &over_v6, |packet| {
            outer(47, &[&[0, 0, 0x86, 0xdd], packet].concat())
        }),
        ("GRE with a key and a sequence number", &over_v4, |packet| {
            outer(
                47,
                &[&[0x30, 0, 8, 0, 0, 0, 0, 1, 0, 0, 0, 2], packet].concat(),
            )
        }),
        ("GRE of Ethernet", &over_v4, |packet| {
            outer(
                47,
                &[&[0, 0, 0x65, 0x58], &ethernet(1, &[], packet)[..]].concat(),
            )
        }),
    ];
    for (name, packets, wrap) in opened {
        let mut file = pcap(RAW);
        for (at, _, packet) in packets {
            file.packet(*at, Flag::None, &wrap(packet));
        }
        assert_four(&found(file.bytes()), name);
    }
    let udp = |port: u16, head: &[u8], packet: &[u8]| {
        let payload = [head, packet].concat();
        let ends = [[192, 0, 2, 1], [192, 0, 2, 2]].map(|host| SocketAddr::from((host, port)));
        udp_packet(ends[0], ends[1], 64, &payload)
    };
    let named: [(&str, Vec<u8>); 6] = [
        (
            "VXLAN",
            udp(
                4_789,
                &[8, 0, 0, 0, 0, 0, 1, 0],
                &ethernet(1, &[], &over_v4[0].2),
            ),
        ),
        (
            "GTP-U",
            udp(2_152, &[0x30, 0xff, 0, 60, 0, 0, 0, 1], &over_v4[0].2),
        ),
        (
            "Geneve",
            udp(
                6_081,
                &[0, 0, 0x65, 0x58, 0, 0, 1, 0],
                &ethernet(1, &[], &over_v4[0].2),
            ),
        ),
        ("IPsec ESP", outer(50, &[7; 60])),
        (
            "ERSPAN",
            outer(47, &[&[0x10, 0, 0x88, 0xbe][..], &[0; 60]].concat()),
        ),
        (
            "GRE of another version",
            outer(47, &[&[0x30, 1, 0x88, 0x0b][..], &[0; 60]].concat()),
        ),
    ];
    for (name, packet) in named {
        let mut file = pcap(RAW);
        file.packet(1_000_000, Flag::None, &packet);
        let found = found(file.bytes());
        let contents = &found.contents;
        assert_eq!(contents.messages, 0, "{name}");
        assert_eq!(contents.others, 0, "{name}");
        assert_eq!(contents.encapsulations.get(name), Some(&1), "{contents:?}");
        let text = found.unknowns().join(" ");
        assert!(text.contains(&format!("1 {name}")), "{text}");
    }
}

#[test]
fn link_types_without_a_reader_are_named_with_a_conversion() {
    for (number, name) in [
        (51, "PPPoE"),
        (105, "IEEE 802.11"),
        (127, "radiotap"),
        (147, "user-defined 0"),
        (239, "NFLOG"),
        (258, "PKTAP"),
        (251, "Bluetooth LE"),
        (9_999, "unknown"),
    ] {
        let mut file = pcap(number);
        file.packet(0, Flag::None, &[0; 60]);
        let found = found(file.bytes());
        assert_eq!(found.contents.unknown_link, Some(u32::from(number)));
        let text = found.unknowns().join(" ");
        assert!(
            text.contains(&format!("{number} ({name}")) || text.contains(name),
            "{text}"
        );
        assert!(text.contains("apture") || text.contains("xport"), "{text}");
    }
}
