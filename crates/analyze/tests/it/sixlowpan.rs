//! Captures of IEEE 802.15.4 with 6LoWPAN (RFC 4944, RFC 6282).

use carob_analyze::synthetic::message;
use carob_analyze::{Analysis, Options, analyze};
use carob_codec::{Code, OptionNumber, Type};

const WITH_FCS: u32 = 195;
const WITHOUT_FCS: u32 = 230;
const TAP: u32 = 283;

const CLIENT: [u8; 8] = [2, 0, 0, 0, 0, 0, 0, 1];
const SERVER: [u8; 8] = [2, 0, 0, 0, 0, 0, 0, 2];

/// Analyses a capture of these frames, one second apart.
fn found(link_type: u32, frames: &[Vec<u8>]) -> Analysis {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65_535, link_type] {
        file.extend(u32::to_le_bytes(word));
    }
    for (second, frame) in frames.iter().enumerate() {
        let length = frame.len() as u32;
        for word in [second as u32, 0, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    analyze(&file[..], &Options::default()).expect("a capture")
}

fn payload(is_request: bool, number: u8) -> Vec<u8> {
    let path = [(OptionNumber::URI_PATH, &b"temp"[..])];
    let id = u16::from(number);
    if is_request {
        message(Type::Confirmable, Code::GET, id, &[number], &path, b"")
    } else {
        message(
            Type::Acknowledgement,
            Code::CONTENT,
            id,
            &[number],
            &[],
            b"21.5 C",
        )
    }
}

/// Address modes of a frame's header.
#[derive(Clone, Copy)]
enum Addresses {
    Short,
    Extended,
}

/// A MAC header (version 2006, one PAN), from or to the client.
fn mac(addresses: Addresses, is_request: bool, number: u8) -> Vec<u8> {
    let ends = if is_request {
        [SERVER, CLIENT]
    } else {
        [CLIENT, SERVER]
    };
    let modes = match addresses {
        Addresses::Short => 0x88,
        Addresses::Extended => 0xcc,
    };
    let mut header = vec![0x41, modes, number, 0xcd, 0xab];
    for end in ends {
        match addresses {
            Addresses::Short => header.extend([end[7], end[6]]),
            Addresses::Extended => header.extend(end.iter().rev()),
        }
    }
    header
}

/// A compressed UDP header, with both ports inline or one of them in eight bits.
fn ports(is_request: bool, is_short: bool) -> Vec<u8> {
    match (is_short, is_request) {
        (false, true) => vec![0xf0, 0x9c, 0x40, 0x16, 0x33, 0xaa, 0xbb],
        (false, false) => vec![0xf0, 0x16, 0x33, 0x9c, 0x40, 0xaa, 0xbb],
        // The checksum is elided, too.
        (true, true) => vec![0xf6, 0x17, 0x16, 0x33],
        (true, false) => vec![0xf5, 0x16, 0x33, 0x17],
    }
}

/// Frames of two exchanges with IPHC headers.
fn frames(addresses: Addresses, is_short: bool, header: impl Fn(bool) -> Vec<u8>) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for number in 0..2 {
        for is_request in [true, false] {
            frames.push(
                [
                    mac(addresses, is_request, number),
                    header(is_request),
                    ports(is_request, is_short),
                    payload(is_request, number),
                ]
                .concat(),
            );
        }
    }
    frames
}

#[track_caller]
fn assert_two(found: &Analysis, client: &str, server: &str) {
    let requests = &found.requests;
    let counts = (
        requests.exchanges,
        requests.answered,
        requests.retransmissions,
    );
    assert_eq!(counts, (2, 2, 0), "{:?}", found.contents);
    assert_eq!((found.contents.messages, found.contents.malformed), (4, 0));
    assert_eq!(found.contents.damage_count, 0);
    let peer = &found.peers[0];
    let ends = [peer.client.to_string(), peer.server.to_string()];
    assert_eq!(ends, [client, server]);
}

#[test]
fn addresses_and_ports_are_expanded() {
    let short = |is_short: bool| if is_short { 61_463 } else { 40_000 };
    for is_short in [false, true] {
        let port = short(is_short);
        // Link-local addresses derived from short and extended MAC addresses.
        let elided = |_: bool| vec![0x7e, 0x33];
        for (addresses, identifiers) in [
            (Addresses::Short, ["ff:fe00:1", "ff:fe00:2"]),
            (Addresses::Extended, [":1", ":2"]),
        ] {
            let found = found(WITHOUT_FCS, &frames(addresses, is_short, elided));
            let of = |identifier: &str| match identifier.strip_prefix(':') {
                Some(rest) => format!("fe80::{rest}"),
                None => format!("fe80::{identifier}"),
            };
            let [client, server] = identifiers.map(of);
            assert_two(
                &found,
                &format!("[{client}]:{port}"),
                &format!("[{server}]:5683"),
            );
            assert_eq!(found.contents.unknown_prefixes, 0);
        }
    }
    // Inline identifiers of 16 and 64 bits, with traffic class, flow label and hop limit.
    let inline = |is_request: bool| {
        let both = [&[0, 0x31][..], &[0, 0, 0, 0, 0, 0, 0, 0x32]];
        let modes = if is_request { 0x21 } else { 0x12 };
        let order = if is_request {
            both.concat()
        } else {
            [both[1], both[0]].concat()
        };
        [&[0x64, modes, 1, 2, 3, 4, 61], &order[..]].concat()
    };
    let frames = frames(Addresses::Short, false, inline);
    let found = found(WITHOUT_FCS, &frames);
    assert_two(&found, "[fe80::ff:fe00:31]:40000", "[fe80::32]:5683");
}

#[test]
fn unknown_context_prefixes_are_replaced_and_reported() {
    let contexts = |is_request: bool| {
        let contexts = if is_request { 0x01 } else { 0x10 };
        vec![0x7e, 0x80 | 0x77, contexts]
    };
    let found = found(WITHOUT_FCS, &frames(Addresses::Short, true, contexts));
    let client = "[2001:db8:6282::ff:fe00:1]:61463";
    assert_two(&found, client, "[2001:db8:6282:1:0:ff:fe00:2]:5683");
    assert_eq!(found.contents.unknown_prefixes, 4);
    let text = found.unknowns().join(" ");
    assert!(
        text.contains("Prefixes of 6LoWPAN contexts in 4 messages"),
        "{text}"
    );
}

#[test]
fn hop_by_hop_options_and_inner_headers_of_rpl_are_passed() {
    // An RPL option (RFC 6553) of six bytes, and an encapsulated IPv6 header.
    let options = |_: bool| vec![0x7e, 0x33, 0xe1, 6, 0x63, 4, 0, 0x1e, 1, 0];
    let port = "[fe80::ff:fe00:1]:40000";
    let server = "[fe80::ff:fe00:2]:5683";
    let analysis = found(WITHOUT_FCS, &frames(Addresses::Short, false, options));
    assert_two(&analysis, port, server);
    let inner = |is_request: bool| [options(is_request), vec![0xee, 0x7e, 0x33]].concat();
    let analysis = found(WITHOUT_FCS, &frames(Addresses::Short, false, inner));
    assert_two(&analysis, port, server);
}

#[test]
fn fcs_and_tap_headers_are_stripped() {
    let elided = |_: bool| vec![0x7e, 0x33];
    let plain = frames(Addresses::Short, false, elided);
    let client = "[fe80::ff:fe00:1]:40000";
    let with_fcs: Vec<Vec<u8>> = plain
        .iter()
        .map(|f| [&f[..], &[0xde, 0xad]].concat())
        .collect();
    let server = "[fe80::ff:fe00:2]:5683";
    let analysis = found(WITH_FCS, &with_fcs);
    assert_two(&analysis, client, server);
    for (kind, fcs) in [(0, 0), (1, 2), (2, 4)] {
        let tap = [
            0, 0, 20, 0, 0, 0, 1, 0, kind, 0, 0, 0, 1, 0, 4, 0, 0, 0, 0, 0,
        ];
        let frames: Vec<Vec<u8>> = plain
            .iter()
            .map(|frame| [&tap[..], frame, &[0xee; 4][..fcs]].concat())
            .collect();
        let analysis = found(TAP, &frames);
        assert_two(&analysis, client, server);
    }
}

#[test]
fn fragments_of_6lowpan_are_put_together() {
    let elided = vec![0x7e, 0x33];
    let mut fragmented = Vec::new();
    for number in 0..2 {
        for is_request in [true, false] {
            let payload = payload(is_request, number);
            let size = 48 + payload.len();
            let head = |dispatch: u8| vec![dispatch | (size >> 8) as u8, size as u8, 0, number];
            // The first fragment has the headers and eight bytes of the message.
            let first = [
                mac(Addresses::Short, is_request, 2 * number),
                head(0xc0),
                elided.clone(),
                ports(is_request, false),
                payload[..8].to_vec(),
            ];
            let second = [
                mac(Addresses::Short, is_request, 2 * number + 1),
                head(0xe0),
                vec![7],
                payload[8..].to_vec(),
            ];
            fragmented.push(first.concat());
            fragmented.push(second.concat());
        }
    }
    let ends = ["[fe80::ff:fe00:1]:40000", "[fe80::ff:fe00:2]:5683"];
    assert_two(&found(WITHOUT_FCS, &fragmented), ends[0], ends[1]);
    // If a fragment is missing, its message is not read and the other fragment is counted.
    fragmented.remove(1);
    let analysis = found(WITHOUT_FCS, &fragmented);
    assert_eq!(analysis.contents.messages, 3);
    assert_eq!(analysis.contents.fragments, 1);
}

#[test]
fn frames_without_a_reader_are_named() {
    let payload = payload(true, 0);
    let data = |control: [u8; 2], rest: &[u8]| {
        [&control[..], &[0, 0xcd, 0xab, 2, 0, 1, 0], rest, &payload].concat()
    };
    for (frame, name) in [
        (
            data([0x49, 0x88], &[0x7e, 0x33]),
            Some("encrypted IEEE 802.15.4"),
        ),
        (
            data([0x41, 0x88], &[0xf1, 0x80]),
            Some("6LoWPAN routing header (RFC 8138)"),
        ),
        // A beacon, an acknowledgement, and another protocol.
        (data([0x40, 0x88], &[]), None),
        (vec![2, 0, 7], None),
        (data([0x41, 0x88], &[0x08]), None),
    ] {
        let analysis = found(WITHOUT_FCS, &[frame]);
        let contents = &analysis.contents;
        assert_eq!(
            (contents.messages, contents.damage_count),
            (0, 0),
            "{name:?}"
        );
        match name {
            Some(name) => assert_eq!(contents.encapsulations.get(name), Some(&1)),
            None => assert_eq!(contents.others, 1),
        }
    }
}

#[test]
fn a_frame_that_is_repeated_or_forwarded_counts_once() {
    let elided = |_: bool| vec![0x7e, 0x33];
    let plain = frames(Addresses::Short, false, elided);
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 65_535, WITHOUT_FCS] {
        file.extend(u32::to_le_bytes(word));
    }
    let mut add = |second: u32, micros: u32, frame: &[u8]| {
        for word in [second, micros, frame.len() as u32, frame.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    };
    for (second, frame) in (0..).zip(&plain) {
        add(second, 0, frame);
        // A MAC retransmission has the same sequence number.
        add(second, 9_000, frame);
    }
    // A CoAP retransmission has a new one.
    let mut again = plain[0].clone();
    again[2] = 99;
    add(0, 700_000, &again);
    let analysis = analyze(&file[..], &Options::default()).expect("a capture");
    assert_eq!(analysis.contents.repeated, 4);
    assert_eq!(
        (
            analysis.requests.exchanges,
            analysis.requests.retransmissions
        ),
        (2, 1)
    );
}
