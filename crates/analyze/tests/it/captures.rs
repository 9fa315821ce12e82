//! Capture files with four exchanges in various file layouts and link types.

use std::net::SocketAddr;

use carob_analyze::synthetic::{CaptureFile, Flag, message, udp_packet};
use carob_analyze::{Analysis, Format, Options, Place, analyze};
use carob_codec::{Code, OptionNumber, Type};

/// Timestamp, whether it is a request, and IP packet.
pub(crate) type Packets = Vec<(u64, bool, Vec<u8>)>;

pub(crate) const RAW: u16 = 101;
pub(crate) const SLL: u16 = 113;
pub(crate) const SLL2: u16 = 276;
pub(crate) const ROUND_TRIP: u64 = 50_000;

/// A pcap file of any link type, little endian with microseconds.
pub(crate) fn pcap(link_type: u16) -> CaptureFile {
    CaptureFile::pcap(link_type, [false; 3])
}

/// A pcapng section with interfaces: link type and time resolution.
pub(crate) fn section(interfaces: &[(u16, u8)]) -> CaptureFile {
    CaptureFile::pcapng(false, interfaces)
}

/// The direction of a request or response at the client.
pub(crate) fn way(is_request: bool) -> Flag {
    if is_request {
        Flag::Outbound
    } else {
        Flag::Inbound
    }
}

/// Packets of four exchanges one second apart. The client's packets have even IPv4 identifications, starting at 0.
pub(crate) fn exchanges(from: SocketAddr, to: SocketAddr) -> Packets {
    let mut packets = Vec::new();
    for number in 0..4_u8 {
        let at = 1_000_000 * (1 + u64::from(number));
        for (later, is_request) in [(0, true), (ROUND_TRIP, false)] {
            let payload = payload(is_request, number);
            let (from, to, ttl) = if is_request {
                (from, to, 64)
            } else {
                (to, from, 57)
            };
            let mut packet = udp_packet(from, to, ttl, &payload);
            if from.is_ipv4() {
                packet[5] = 2 * number + u8::from(!is_request);
            }
            packets.push((at + later, is_request, packet));
        }
    }
    packets
}

pub(crate) fn payload(is_request: bool, number: u8) -> Vec<u8> {
    let path = [(OptionNumber::URI_PATH, &b"temp"[..])];
    let id = u16::from(number) + 100;
    if is_request {
        message(Type::Confirmable, Code::GET, id, &[1, number], &path, b"")
    } else {
        let format = [(OptionNumber::CONTENT_FORMAT, &b""[..])];
        message(
            Type::Acknowledgement,
            Code::CONTENT,
            id,
            &[1, number],
            &format,
            b"21.5 C",
        )
    }
}

pub(crate) fn v6(text: &str, port: u16) -> SocketAddr {
    SocketAddr::new(text.parse().expect("an address"), port)
}

/// Checks for the four exchanges without retransmissions.
#[track_caller]
pub(crate) fn assert_four(found: &Analysis, about: &str) {
    let requests = &found.requests;
    assert_eq!(
        (
            requests.exchanges,
            requests.answered,
            requests.retransmissions
        ),
        (4, 4, 0),
        "{about}: {:?}",
        found.contents
    );
    assert_eq!(found.contents.messages, 8, "{about}");
    assert_eq!(found.contents.stray_replies, 0, "{about}");
    assert_eq!(found.contents.damage_count, 0, "{about}");
    if let Some(times) = requests.round_trip {
        assert_eq!(times.count, 4, "{about}");
        assert!(
            times.p50_us.abs_diff(ROUND_TRIP) <= ROUND_TRIP / 50,
            "{about}: {times:?}"
        );
    }
}

pub(crate) fn ethertype(packet: &[u8]) -> [u8; 2] {
    if packet[0] >> 4 == 4 {
        [0x08, 0]
    } else {
        [0x86, 0xdd]
    }
}

pub(crate) fn sll(kind: u8, packet: &[u8]) -> Vec<u8> {
    let head = [0, kind, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0];
    [&head[..], &ethertype(packet), packet].concat()
}

pub(crate) fn sll2(interface: u8, kind: u8, packet: &[u8]) -> Vec<u8> {
    let head = [
        0, 0, 0, 0, 0, interface, 0, 1, kind, 6, 2, 0, 0, 0, 0, 1, 0, 0,
    ];
    [&ethertype(packet)[..], &head, packet].concat()
}

/// An Ethernet header with VLAN tags (EtherType and VLAN ID).
pub(crate) fn ethernet(host: u8, tags: &[[u8; 2]], packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, host, 2, 0, 0, 0, 0, host + 1];
    for tag in tags {
        frame.extend(tag);
        frame.extend([0, 7]);
    }
    frame.extend(ethertype(packet));
    frame.extend(packet);
    // Short frames are padded to the Ethernet minimum.
    frame.resize(frame.len().max(60), 0);
    frame
}

pub(crate) fn found(bytes: &[u8]) -> Analysis {
    analyze(bytes, &Options::default()).expect("a capture")
}

/// A client log of ten requests with round-trip times of 100 to 109 ms; the fifth is retransmitted.
fn log() -> String {
    let mut text = String::new();
    let mut at = 1_000;
    let mut line = |rest: String| text.extend(["{", &rest, "}\n"]);
    for id in 0..10 {
        let head = |at: u64, event: &str| {
            format!("\"at_us\":{at},\"peer\":\"[fd00::1]:5683\",\"event\":\"{event}\",\"id\":{id}")
        };
        let copies = if id == 4 { 2 } else { 1 };
        for copy in 0..copies {
            let sent = head(at + copy * 2_000_000, "sent");
            line(format!(
                "{sent},\"type\":\"CON\",\"purpose\":\"request\",\"retransmissions\":{copy},\"timeout_us\":2000000,\"bytes\":14"
            ));
        }
        at += (copies - 1) * 2_000_000 + 100_000 + id * 1_000;
        let received = head(at, "received");
        line(format!(
            "{received},\"type\":\"ACK\",\"code\":\"2.05\",\"bytes\":20"
        ));
        let answered = head(at, "answered");
        line(format!(
            "{answered},\"retransmissions\":0,\"since_original_us\":1"
        ));
        at += 1_000_000;
    }
    text
}

#[test]
fn a_log_is_analysed_as_its_packets_would_be() {
    let found = analyze(log().as_bytes(), &Options::default()).expect("a log");
    assert_eq!(found.contents.formats, [Format::EventLog]);
    assert_eq!(found.place, Place::Client);
    assert_eq!(found.requests.exchanges, 10);
    assert_eq!(found.requests.retransmissions, 1);
    assert_eq!(found.requests.spurious, Some(0));
    let times = found.requests.round_trip.expect("at the client");
    assert_eq!(
        (times.count, times.min_us, times.max_us),
        (10, 100_000, 109_000)
    );
    // Without `received` lines, `answered` is the reply.
    let short: String = log()
        .lines()
        .filter(|line| !line.contains("received"))
        .map(|line| line.to_owned() + "\n")
        .collect();
    let found = analyze(short.as_bytes(), &Options::default()).expect("a log");
    assert_eq!(
        (found.requests.answered, found.requests.spurious),
        (10, Some(0))
    );
}

#[test]
fn invalid_lines_are_reported_with_their_position() {
    let text = format!("{}not json\n{}\n{}", log(), "x".repeat(70_000), log());
    let found = analyze(text.as_bytes(), &Options::default()).expect("a log");
    assert_eq!(found.contents.damage_count, 2);
    assert_eq!(found.contents.damages[0].offset, log().len() as u64);
    assert!(
        found.contents.damages[1]
            .problem
            .contains("more than 65536 bytes")
    );
    assert_eq!(found.contents.bytes, text.len() as u64);
}

#[test]
fn a_log_of_the_simulator_is_read_at_the_senders() {
    let of_client = log().replace("{\"at_us\"", "{\"host\":0,\"at_us\"");
    let of_server = log()
        .replace("{\"at_us\"", "{\"host\":1,\"at_us\"")
        .replace("\"sent\"", "\"received\"")
        .replace("\"ACK\"", "\"CON\"");
    let text = of_client + &of_server;
    let found = analyze(text.as_bytes(), &Options::default()).expect("a log");
    assert_eq!(found.requests.exchanges, 10);
}
