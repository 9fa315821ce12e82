//! Diagnostics: `-v`, `--timing`, event logs and captures.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime};

use carob_proto::codec::{Code, MessageView, OptionNumber};
use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use serde_json::{Value, json};

use crate::commands::harness::{Members as _, Parts as _, Running, Server, carob};
use crate::process::Scratch;
use crate::responder::Responder;

/// A server that drops the first transmission and answers all later ones with 2.05.
fn deaf_at_first() -> Responder {
    let mut copies = 0;
    Responder::start(move |request| {
        copies += 1;
        let answer = (copies > 1).then(|| request.answer_with(0x45, b"\xffheard"));
        answer.into_iter().collect()
    })
}

#[test]
fn event_logs_and_captures_are_readable_by_the_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let (server, scratch) = (Server::start(), Scratch::new());
    let (log, pcap) = (scratch.text("log"), scratch.text("pcap"));
    carob(&["get", &server.path("hello"), "--log", &log, "--pcap", &pcap]).ended(0);
    for name in ["log", "pcap"] {
        let metadata = std::fs::metadata(scratch.path(name)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{name}");
    }
}

#[test]
fn slow_retransmission_is_shown_in_every_view() {
    let (server, scratch) = (deaf_at_first(), Scratch::new());
    let (uri, address, log) = (server.uri(), server.address, scratch.text("log"));
    let ran = carob(&format!("get {uri} -v --timing --log {log} --cc cocoa-03"));
    assert_eq!((ran.code, ran.stdout()), (Some(0), "heard"));
    let lines: Vec<_> = ran.stderr.lines().collect();
    let [original, again, answer, timing, peer] = &lines[..] else {
        panic!("{lines:#?}")
    };
    original.has(&[&format!("→ {address} CON GET mid ")]);
    assert!(
        original.contains("(timer ") && !original.contains("retransmission"),
        "{original}"
    );
    again.has(&["(retransmission 1, timer "]);
    answer.has(&[&format!("← {address} ACK 2.05 Content mid ")]);
    assert!(answer.ends_with(" 5 bytes"), "{answer}");
    let mid = |line: &str| line.split(" mid ").nth(1).unwrap()[..5].to_owned();
    assert_eq!((mid(original), mid(again)), (mid(answer), mid(answer)));
    timing.has(&["1 exchange, 1 retransmission, first RTO "]);
    assert!(peer.starts_with(&format!("{address} now: ")), "{peer}");

    let lines = scratch.json_lines("log");
    let names: Vec<_> = lines
        .iter()
        .map(|line| line["event"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["sent", "sent", "received", "answered"]);
    for (line, count) in lines[..2].iter().zip([0, 1]) {
        assert_eq!(line["retransmissions"], count);
    }
    // The first timeout is the delay between the two transmissions.
    let micros = |n: usize, key: &str| lines[n][key].as_u64().unwrap();
    let waited = micros(1, "at_us") - micros(0, "at_us");
    assert!(waited >= micros(0, "timeout_us"), "{waited}");
}

#[test]
fn slow_json_timing_is_in_milliseconds() {
    let server = deaf_at_first();
    let (uri, address) = (server.uri(), server.address);
    let ran = carob(&format!("get {uri} --json --timing --cc cocoa-03"));
    let answer = &ran.json()[0];
    let timing = &answer["timing"];
    answer.includes(json!({"attempts": 2, "retransmissions": 1}));
    timing.includes(json!({"exchanges": 1, "retransmissions": 1}));
    let millis = |value: &Value| value.as_f64().unwrap();
    // RFC 7252 4.8: ACK_TIMEOUT to ACK_TIMEOUT * ACK_RANDOM_FACTOR.
    let first = millis(&timing["first_rto_ms"]);
    assert!((2_000.0..=3_000.0).contains(&first), "{timing}");
    assert!(millis(&timing["total_ms"]) >= first, "{timing}");
    let peer = &timing["peer"];
    assert_eq!(peer["address"], address.to_string());
    assert_eq!(
        peer["rtt_ms"],
        Value::Null,
        "no exchange went without retransmission"
    );
    assert!(
        millis(&peer["rto_ms"]) > 0.0 && millis(&peer["state"]["srtt_weak_ms"]) > 0.0,
        "{peer}"
    );
}

#[test]
fn slow_each_block_is_an_exchange() {
    let server = Server::start();
    let uri = server.path("large");
    let ran = carob(&format!("get {uri} --timing --json --block-size 512"));
    assert_eq!(ran.json()[0]["timing"]["exchanges"], 2_048);
    assert_eq!(ran.json()[0]["bytes"], 1 << 20);
}

#[test]
fn double_verbose_shows_message_bytes() {
    let server = Server::start();
    let ran = carob(&["get", &server.path("hello"), "-vv"]);
    assert_eq!(ran.stdout(), "hello, this is 32 bytes of text\n");
    let dumped: Vec<_> = ran
        .stderr
        .lines()
        .filter(|line| line.contains("0000  "))
        .collect();
    assert_eq!(dumped.len(), 2, "{}", ran.stderr);
    ran.stderr.has(&["ytes of text."]);
}

/// A captured packet.
struct Packet {
    time: Duration,
    inbound: bool,
    from: SocketAddr,
    to: SocketAddr,
    message: Vec<u8>,
}

fn capture(bytes: &[u8]) -> Vec<Packet> {
    let mut reader = PcapNgReader::new(bytes).unwrap();
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        match block.unwrap() {
            Block::InterfaceDescription(interface) => {
                assert_eq!(interface.linktype, DataLink::RAW);
            }
            Block::EnhancedPacket(packet) => {
                let direction = packet.options.iter().find_map(|option| match option {
                    EnhancedPacketOption::Flags(flags) => Some(flags & 3),
                    _ => None,
                });
                let ip = &packet.data[..];
                assert_eq!(ip[0], 0x45, "IPv4 without options");
                assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len());
                assert_eq!(ip[9], 17, "UDP");
                let port = |at: usize| u16::from_be_bytes([ip[at], ip[at + 1]]);
                let address = |at: usize| {
                    let octets: [u8; 4] = ip[at..at + 4].try_into().unwrap();
                    IpAddr::V4(Ipv4Addr::from(octets))
                };
                packets.push(Packet {
                    time: packet.timestamp,
                    inbound: direction == Some(1),
                    from: (address(12), port(20)).into(),
                    to: (address(16), port(22)).into(),
                    message: ip[28..].to_vec(),
                });
            }
            other => panic!("{other:?}"),
        }
    }
    packets
}

#[test]
fn client_and_server_captures_hold_the_same_messages() {
    let scratch = Scratch::new();
    let (ours, theirs) = (scratch.text("client"), scratch.text("server"));
    let server = Server::with(&format!("--pcap {theirs}"));
    let address: SocketAddr = server.uri["coap://".len()..].parse().unwrap();
    let before = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    let ran = carob(&["get", &server.path("hello"), "--pcap", &ours]);
    ran.quiet();
    let after = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap();
    server.stop();
    let (ours, theirs) = (
        capture(&scratch.read("client")),
        capture(&scratch.read("server")),
    );
    let [request, response] = &ours[..] else {
        panic!("{} packets", ours.len())
    };
    assert_eq!((request.inbound, response.inbound), (false, true));
    assert_eq!((request.to, response.from), (address, address));
    assert_eq!(request.from, response.to);
    assert_eq!(
        request.from.ip(),
        address.ip(),
        "the source address, not [::]"
    );
    let message = MessageView::parse(&request.message).unwrap();
    assert_eq!(message.code(), Code::GET);
    assert_eq!(message.option(OptionNumber::URI_PATH), Some(&b"hello"[..]));
    let message = MessageView::parse(&response.message).unwrap();
    assert_eq!(message.payload().len(), 32);
    assert!(before <= request.time && request.time <= response.time && response.time <= after);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!((ours.from, ours.to), (theirs.from, theirs.to));
        assert_eq!(ours.message, theirs.message);
        assert_ne!(ours.inbound, theirs.inbound);
    }
    assert_eq!(theirs.len(), 2);
}

#[test]
fn unwritable_files_are_found_before_sending() {
    let server = Server::start();
    let missing = Scratch::new().text("missing/file");
    for flag in ["--log", "--pcap"] {
        let ran = carob(&["post", &server.path("count"), flag, &missing]);
        ran.refused(1).has(&["cannot write"]);
    }
    assert_eq!(carob(&["get", &server.path("count")]).quiet(), "0");
}

#[test]
fn verbose_server_shows_requests() {
    let server = Server::with("-v --log -");
    carob(&["get", &server.path("hello")]).quiet();
    let ran = server.stop();
    let lines: Vec<_> = ran.stderr.lines().collect();
    assert!(
        lines
            .iter()
            .any(|line| line.contains("← 127.0.0.1:") && line.contains("CON GET"))
    );
    assert!(
        lines
            .iter()
            .any(|line| line.contains("→ 127.0.0.1:") && line.contains("ACK 2.05"))
    );
    assert!(
        lines
            .iter()
            .any(|line| line.contains(r#""event":"replied""#)),
        "{lines:#?}"
    );
}

#[test]
fn an_event_log_can_be_read_while_it_grows() {
    let (server, scratch) = (Server::start(), Scratch::new());
    let log = scratch.text("log");
    let mut running = Running::start(&["observe", &server.path("count"), "--log", &log]);
    running.line();
    let text = scratch.read_text("log");
    assert!(
        text.ends_with("}\n") && text.contains(r#""event":"answered""#),
        "{text}"
    );
    running.signal("INT");
    running.finish();
}
