//! Commands over DTLS.

use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};

use crate::commands::harness::{Parts as _, Server, carob, carob_with};
use crate::process::Scratch;

const KEYS: &str = "# two devices\nsensor:correct horse\n0x0001:0x0102030405060708\n";

/// A server with pre-shared keys and a certificate; returns the key file and the CA file.
fn serve(scratch: &Scratch) -> (Server, String, String) {
    let [cert, key] = scratch.certified("cert", "localhost");
    let keys = scratch.with("keys.txt", KEYS);
    let credentials = format!("--psk-file {keys} --cert {cert} --key {key}");
    let server = Server::with(&format!("--dtls 127.0.0.1:0 {credentials}"));
    (server, keys, cert)
}

#[test]
fn slow_every_command_works_over_dtls() {
    let scratch = Scratch::new();
    let (server, keys, ca) = serve(&scratch);
    let uri = |path| server.over("coaps", path);
    for credentials in [
        ["--psk-file", &keys, "--psk-identity", "sensor"].as_slice(),
        &["--psk-file", &keys, "--psk-identity", "0x0001"],
        &["--ca", &ca],
    ] {
        let with = |arguments: &[&str]| carob(&[arguments, credentials].concat());
        let hello = with(&["get", &uri("hello")]);
        assert_eq!(hello.quiet(), "hello, this is 32 bytes of text\n");
        let back = with(&["post", &uri("echo"), "over DTLS"]);
        assert_eq!(back.quiet(), "over DTLS");
        assert!(with(&["ping", &uri("")]).quiet().contains("responds"));
        assert!(with(&["discover", &uri("")]).quiet().contains("/hello"));
        let states = with(&["observe", &uri("time"), "--count", "2", "--raw"]);
        assert_eq!(states.quiet().lines().count(), 2);
        let file = scratch.text("large.bin");
        with(&["get", &uri("large"), "-o", &file]).quiet();
        assert_eq!(scratch.read("large.bin").len(), 1 << 20);
    }
}

#[test]
fn decrypted_messages_are_shown_and_captured() {
    let scratch = Scratch::new();
    let (server, keys, _) = serve(&scratch);
    let file = scratch.text("x.pcapng");
    let uri = server.over("coaps", "hello");
    let ran = carob(&format!(
        "get {uri} --psk-file {keys} --psk-identity sensor -v --pcap {file}"
    ));
    let lines: Vec<_> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(lines[0].contains("coaps GET") && lines[0].contains("Uri-Path=hello"));
    assert!(lines[1].contains("2.05 Content"));
    let capture = scratch.read("x.pcapng");
    let text = b"hello, this is 32 bytes of text";
    assert!(capture.windows(text.len()).any(|bytes| bytes == text));
    // On an interface for decrypted packets, with the ports of both ends.
    let mut reader = PcapNgReader::new(&capture[..]).unwrap();
    let mut seen = Vec::new();
    while let Some(block) = reader.next_block() {
        match block.unwrap() {
            Block::InterfaceDescription(it) => seen.push(format!("{:?}", it.linktype)),
            Block::EnhancedPacket(packet) => {
                let said = |option: &_| matches!(option, EnhancedPacketOption::Comment(_));
                assert!(packet.options.iter().any(said), "{packet:?}");
                seen.push(packet.interface_id.to_string());
            }
            _ => {}
        }
    }
    assert_eq!(seen, ["RAW", "WIRESHARK_UPPER_PDU", "1", "1"]);
    let port = uri.rsplit(':').next().unwrap().split('/').next().unwrap();
    let read = |fields: &[&str]| {
        let tshark = std::process::Command::new("tshark")
            .args(["-r", &file, "-T", "fields"])
            .args(fields.iter().flat_map(|field| ["-e", field]))
            .output();
        tshark.ok().filter(|ran| ran.status.success())
    };
    // If installed, tshark dissects the decrypted packets as CoAP.
    if let Some(ran) = read(&["_ws.col.Protocol", "coap.code", "exported_pdu.dst_port"]) {
        let text = String::from_utf8_lossy(&ran.stdout);
        let [request, response] = &text.lines().collect::<Vec<_>>()[..] else {
            panic!("{text}")
        };
        assert_eq!(*request, format!("CoAP\t1\t{port}"));
        assert!(response.starts_with("CoAP\t69\t"), "{text}");
    }
}

#[test]
fn slow_psk_from_file_or_environment_and_errors_with_remedy() {
    let scratch = Scratch::new();
    let (server, keys, _) = serve(&scratch);
    let uri = server.over("coaps", "hello");
    let ask = ["get", &uri, "--psk-identity", "sensor"];
    let hello = carob_with(&ask, &[("CAROB_PSK", "correct horse")]);
    assert_eq!(hello.quiet(), "hello, this is 32 bytes of text\n");
    let said = carob_with(&ask, &[("CAROB_PSK", "wrong horse")])
        .refused(4)
        .to_owned();
    said.has(&[
        "does not accept the pre-shared key of identity \"sensor\"",
        "hint: check the identity and its key",
    ]);
    assert!(!said.contains("horse"), "the error shows the key: {said}");
    let ran = carob(&ask);
    ran.refused(2).has(&["--psk-file", "CAROB_PSK"]);
    let ran = carob(&format!("get {uri} --psk-file {keys}"));
    ran.refused(2).has(&["it has 2 keys", "--psk-identity"]);
    let bad = scratch.with("bad.txt", "sensor:key\nsecret\n");
    let said = carob(&format!("get {uri} --psk-file {bad}"))
        .refused(1)
        .to_owned();
    assert!(
        said.contains("line 2") && !said.contains("secret"),
        "{said}"
    );
    let ran = carob(&format!("get {uri}"));
    ran.refused(4)
        .has(&["certificate of the peer is not trusted"]);
}

#[test]
fn timing_shows_peer_state_over_dtls_and_tcp() {
    let scratch = Scratch::new();
    let keys = scratch.with("keys.txt", KEYS);
    let any = "127.0.0.1:0";
    let server = Server::with(&format!("--dtls {any} --psk-file {keys} --tcp {any}"));
    let credentials = ["--psk-file", &*keys, "--psk-identity", "sensor"];
    for scheme in ["coaps", "coap+tcp"] {
        let uri = server.over(scheme, "hello");
        let mut arguments = vec!["get", &uri, "--json", "--timing", "--cc", "cocoa-03"];
        let with: &[&str] = if scheme == "coaps" { &credentials } else { &[] };
        arguments.extend(with);
        let answers = carob(&arguments).json();
        let timing = &answers[0]["timing"];
        let port = uri.rsplit_once(':').unwrap().1.trim_end_matches("/hello");
        let address = timing["peer"]["address"].as_str().unwrap_or_default();
        assert!(address.ends_with(port), "{scheme}: {timing}");
        assert_eq!(timing["exchanges"], 1, "{scheme}: {timing}");
        let has_timers = timing["peer"]["rto_ms"].is_number();
        assert_eq!(has_timers, scheme == "coaps", "{scheme}: {timing}");
    }
    let time = server.over("coaps", "time");
    let observe = ["observe", &time, "--count", "2", "--json"];
    let states = carob(&[observe.as_slice(), &credentials].concat()).json();
    let measured = states.iter().any(|state| state["rtt_ms"].is_number());
    assert!(measured, "{states:?}");
}
