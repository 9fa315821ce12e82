//! Captures of DTLS sessions decrypted with pre-shared keys and key logs.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use carob_analyze::synthetic::Flag;
use carob_analyze::{Analysis, DtlsSecrets, Options, analyze};

use super::relay::{Relay, Shape};
use crate::commands::harness::{Parts as _, Server, carob, carob_with};
use crate::process::Scratch;

const BLOCKS: u64 = 40;

fn shape(loss_ppm: u32) -> Shape {
    Shape {
        delay: Duration::from_millis(10),
        jitter: Duration::from_millis(2),
        losses: [loss_ppm; 2],
        ..Shape::default()
    }
}

/// The address of the server's DTLS socket.
fn secured(server: &Server) -> SocketAddr {
    let address = server.secured().strip_prefix("coaps://");
    address
        .and_then(|text| text.parse().ok())
        .expect("an address")
}

fn of(file: &[u8], secrets: DtlsSecrets) -> Analysis {
    analyze(file, &Options::default().secrets(secrets)).expect("a capture")
}

/// A server with a key, a certificate and a file of [`BLOCKS`] blocks of 64 B; also returns the CA and the key file.
fn serving(scratch: &Scratch) -> (Server, String, String) {
    let folder = scratch.text("served");
    fs::create_dir_all(&folder).expect("a folder");
    let body = vec![b'x'; BLOCKS as usize * 64];
    fs::write(format!("{folder}/body.bin"), body).expect("a file");
    let keys = scratch.with("keys.txt", "device:secret-1\nother:0x0102\n");
    let [cert, key] = scratch.certified("cert", "localhost");
    let server = Server::with(&format!(
        "--dir {folder} --dtls 127.0.0.1:0 --psk-file {keys} --cert {cert} --key {key}"
    ));
    (server, keys, cert)
}

/// Options of a download with the key.
fn by_key(file: &str) -> String {
    format!("--psk-file {file} --psk-identity device --block-size 64")
}

fn keys() -> DtlsSecrets {
    DtlsSecrets::default()
        .pre_shared_key("other", [1, 2])
        .pre_shared_key("device", "secret-1")
}

/// Checks that all exchanges of a download were decrypted.
fn check(found: &Analysis) {
    let dtls = found.contents.dtls;
    assert_eq!(dtls.encrypted(), 0, "{dtls:?}");
    assert_eq!(dtls.decrypted, found.contents.messages, "{dtls:?}");
    assert!(found.requests.exchanges >= BLOCKS, "{:?}", found.requests);
    assert_eq!(found.requests.answered, found.requests.exchanges);
    let times = found.requests.round_trip.expect("at the client");
    assert!((20_000..40_000).contains(&times.p50_us), "{times:?}");
    assert_eq!(found.transfers.complete, 1);
}

#[test]
fn pre_shared_key_decrypts_a_lossy_session() {
    let scratch = Scratch::new();
    let (server, file, _) = serving(&scratch);
    let relay = Relay::start(secured(&server), shape(40_000), 4);
    let uri = format!("coaps://{}/body.bin", relay.address);
    let body = scratch.text("body.bin");
    let timers = "--ack-timeout 200ms --max-retransmit 8";
    carob(&format!("get {uri} -o {body} {timers} {}", by_key(&file))).ended(0);
    let capture = relay.capture(true);
    let found = of(&capture, keys());
    check(&found);
    assert!(found.requests.retransmissions > 0);
    // Not decrypted without keys, with a wrong key, or without the handshake.
    let none = of(&capture, DtlsSecrets::default());
    assert_eq!(none.requests.exchanges, 0);
    assert_eq!(
        none.contents.dtls.without_key,
        none.contents.dtls.encrypted()
    );
    assert!(none.unknowns()[0].contains("no key of their sessions"));
    let wrong = of(
        &capture,
        DtlsSecrets::default().pre_shared_key("device", "x"),
    );
    let dtls = wrong.contents.dtls;
    assert!(dtls.failed > BLOCKS && dtls.decrypted == 0, "{dtls:?}");
    let stranger = DtlsSecrets::default().pre_shared_key("stranger", "x");
    let dtls = of(&capture, stranger).contents.dtls;
    assert!(dtls.without_key > BLOCKS && dtls.decrypted == 0, "{dtls:?}");
    let capture = scratch.with("capture.pcapng", capture);
    let ran = carob(&format!("analyze {capture} --psk-file {file} --json"));
    let found: serde_json::Value = ran.json().remove(0);
    assert_eq!(found["contents"]["dtls"]["failed"], 0);
    assert!(found["requests"]["answered"].as_u64() >= Some(BLOCKS));
}

/// Index of the first packet with a handshake message of this type; IPv4 and UDP headers take 28 bytes.
fn handshake(packets: &[(Flag, Vec<u8>)], kind: u8) -> usize {
    let is_it = |(_, packet): &(Flag, Vec<u8>)| {
        let record = &packet[packet.len().min(28)..];
        record.first() == Some(&22) && record.get(3..5) == Some(&[0, 0]) && record[13] == kind
    };
    packets.iter().position(is_it).expect("a handshake message")
}

#[test]
fn handshake_captured_out_of_order_is_decrypted() {
    let scratch = Scratch::new();
    let (server, file, _) = serving(&scratch);
    let relay = Relay::start(secured(&server), shape(0), 4);
    let uri = format!("coaps://{}/body.bin", relay.address);
    let body = scratch.text("body.bin");
    carob(&format!("get {uri} -o {body} {}", by_key(&file))).ended(0);
    // ClientKeyExchange (16) before ServerHello (2), then ServerHello before the ClientHello with the cookie.
    for (later, is_next) in [(16, false), (2, true)] {
        let capture = relay.capture_in_order(true, |packets| {
            let from = handshake(packets, later);
            let to = if is_next {
                from - 1
            } else {
                handshake(packets, 2)
            };
            assert!(to < from && packets[to].0 != packets[from].0);
            let packet = packets.remove(from);
            packets.insert(to, packet);
        });
        check(&of(&capture, keys()));
    }
}

#[test]
fn key_log_decrypts_a_session_with_certificates() {
    let scratch = Scratch::new();
    let (server, _, ca) = serving(&scratch);
    let relay = Relay::start(secured(&server), shape(0), 1);
    let uri = format!("coaps://localhost:{}/body.bin", relay.address.port());
    let (body, log) = (scratch.text("body.bin"), scratch.text("keys.log"));
    let arguments = ["get", &uri, "-o", &body, "--ca", &ca, "--block-size", "64"];
    carob_with(&arguments, &[("SSLKEYLOGFILE", &log)]).ended(0);
    let text = fs::read_to_string(&log).expect("a key log");
    let secrets = DtlsSecrets::default().key_log(&text).expect("a key log");
    let capture = relay.capture(true);
    check(&of(&capture, secrets));
    let dtls = of(&capture, keys()).contents.dtls;
    assert!(dtls.without_key > BLOCKS && dtls.decrypted == 0, "{dtls:?}");
    let capture = scratch.with("capture.pcapng", capture);
    carob(&format!("analyze {capture} --keylog {log}")).ended(0);
    let empty = scratch.with("empty.log", "# nothing\n");
    let ran = carob(&format!("analyze {capture} --keylog {empty}"));
    ran.stderr.has(&["no line begins with CLIENT_RANDOM"]);
}

#[test]
fn slow_pre_shared_key_decrypts_sessions_of_libcoap() {
    let scratch = Scratch::new();
    let (server, ..) = serving(&scratch);
    for library in ["openssl", "gnutls"] {
        let relay = Relay::start(secured(&server), shape(0), 1);
        let program = format!("coap-client-{library}");
        let client = Command::new(&program)
            .args(["-u", "device", "-k", "secret-1", "-b", "64", "-B", "60"])
            .args(["-o", &scratch.text("body.bin")])
            .arg(format!("coaps://{}/body.bin", relay.address))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        let Ok(status) = client else {
            eprintln!("skipped: {program} is not installed: `cargo xtask peers`");
            continue;
        };
        assert!(status.success(), "{program}: {status}");
        check(&of(&relay.capture(true), keys()));
    }
}
