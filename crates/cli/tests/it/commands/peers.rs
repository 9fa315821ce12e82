//! Faulty peers and rare features, and how their replies are shown.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, UdpSocket};

use crate::commands::harness::{Parts as _, Server, carob, carob_with};
use crate::process::Scratch;
use crate::responder::Responder;

/// Starts a server that responds with this code, and options and payload as encoded.
fn responder(code: u8, rest: Vec<u8>) -> Responder {
    Responder::start(move |request| vec![request.answer_with(code, &rest)])
}

#[test]
fn diagnostic_text_is_shown_with_escapes() {
    for (text, shown) in [
        (&b"no such sensor\0"[..], r"no such sensor\0"),
        (b"bad \x1b[31mvalue", r"bad \u{1b}[31mvalue"),
        (b"Gr\xf6\xdfe", r"Gr\xf6\xdfe"),
        (b"one\ntwo\n", r"one\ntwo"),
    ] {
        let server = responder(0x80, [&[0xff], text].concat());
        let ran = carob(&["get", &server.uri()]);
        let expected = format!("answered 4.00 Bad Request: {shown}\n");
        assert!(ran.refused(1).ends_with(&expected), "{ran:?}");
    }
}

#[test]
fn rejected_replies_are_named() {
    for (rest, problem) in [
        (vec![0xff], "payload marker is followed by no payload"),
        (vec![0xff; 5_000], "longer than a datagram"),
        (
            [&[0xd1, 0x0a, 0x0a, 0xff], &[7; 50][..]].concat(),
            "the block of 64 bytes at byte 0 has 50 bytes",
        ),
    ] {
        let server = responder(0x45, rest);
        let ran = carob(&format!("get {} --deadline 500ms", server.uri()));
        let error = ran.refused(4);
        error.has(&[problem]);
        assert!(!error.contains("did not respond"), "{error}");
        assert!(!error.contains("as a stream"), "{error}");
    }
}

#[test]
fn oversized_datagrams_are_answered_and_shown() {
    let server = Server::with("-v");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = server.path("").replace("coap://", "");
    socket.connect(address.trim_end_matches('/')).unwrap();
    let put = [&b"\x41\x03\x12\x34\xaa\xb5large\xff"[..], &[0; 5_000]].concat();
    socket.send(&put).unwrap();
    let mut reply = [0; 2_048];
    let length = socket.recv(&mut reply).unwrap();
    assert_eq!(reply[1], 0x8d, "4.13: {:?}", &reply[..length]);
    let ran = server.stop();
    ran.stderr.has(&["longer than 4096 bytes"]);
}

#[test]
fn diagnostic_payload_of_abort_is_shown() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri = format!("coap+tcp://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4_096]);
            // A CSM, then Abort (7.05) with a diagnostic payload.
            let _ = stream.write_all(b"\x00\xe1\xc0\xe5\xffno tenant 7");
        }
    });
    let ran = carob(&format!("get {uri}"));
    let expected = "the peer aborted the connection: no tenant 7";
    ran.refused(4).has(&[expected]);
}

#[test]
fn list_of_links_may_end_with_a_comma() {
    let list = b"</a>;rt=x,</b>,";
    let server = responder(0x45, [&[0xc1, 40, 0xff], &list[..]].concat());
    let ran = carob(&format!("discover {} --raw", server.uri()));
    assert_eq!(ran.stdout(), "</a>;rt=x,\n</b>\n");
    ran.stderr.has(&["ends with a comma"]);
}

#[test]
fn link_local_address_needs_a_zone() {
    let ran = carob("get coap://[fe80::1]/");
    let error = ran.refused(4);
    error.has(&["needs the zone of its interface", "%25"]);
}

#[test]
fn sighup_does_not_stop_a_server() {
    let server = Server::start();
    server.signal("HUP");
    // Signals are handled asynchronously.
    std::thread::sleep(std::time::Duration::from_millis(100));
    carob(&["get", &server.path("hello")]).quiet();
    let ran = server.stop();
    ran.stderr.has(&["SIGHUP ignored"]);
}

#[test]
fn sighup_reloads_keys_and_certificates() {
    let scratch = Scratch::new();
    let [cert, key] = scratch.certified("cert", "localhost");
    let [new_cert, new_key] = scratch.certified("new", "localhost");
    let keys = scratch.with("keys.txt", "sensor:secret\n");
    let server = Server::with(&format!(
        "--dtls 127.0.0.1:0 --psk-file {keys} --tls 127.0.0.1:0 --cert {cert} --key {key}"
    ));
    let dtls = server.over("coaps", "hello");
    let by_key = |identity: &str, key: &str| {
        let arguments = ["get", &dtls, "--psk-identity", identity];
        carob_with(&arguments, &[("CAROB_PSK", key)])
    };
    let tls = server.over("coaps+tcp", "hello");
    let tls = tls.replace("127.0.0.1", "localhost");
    let by_certificate = |ca: &str| carob(&format!("get {tls} --ca {ca}"));
    by_key("sensor", "secret").quiet();
    by_certificate(&cert).quiet();
    // An unusable file leaves the current keys in place.
    std::fs::write(&keys, "no colon\n").unwrap();
    server.signal("HUP");
    std::thread::sleep(std::time::Duration::from_millis(100));
    by_key("sensor", "secret").quiet();
    std::fs::write(&keys, "other:word\n").unwrap();
    std::fs::copy(&new_cert, &cert).unwrap();
    std::fs::copy(&new_key, &key).unwrap();
    server.signal("HUP");
    std::thread::sleep(std::time::Duration::from_millis(100));
    by_key("other", "word").quiet();
    by_key("sensor", "secret").refused(4);
    by_certificate(&new_cert).quiet();
    let ran = server.stop();
    ran.stderr
        .has(&["stay as they are", "keys and certificates are read again"]);
}

#[test]
fn keys_that_others_can_read_give_a_warning() {
    let scratch = Scratch::new();
    let keys = scratch.with("keys.txt", "sensor:secret\n");
    let read = |mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&keys, mode).unwrap();
        let uri = "coaps://127.0.0.1:1/";
        carob(&format!("get {uri} --psk-file {keys}")).stderr
    };
    assert!(!read(0o640).contains("all users can read"));
    assert!(read(0o644).contains("all users can read"));
}

#[test]
fn server_shows_failed_handshakes() {
    let scratch = Scratch::new();
    let keys = scratch.with("keys.txt", "sensor:secret\n");
    let log = scratch.text("log.jsonl");
    let arguments = ["--dtls", "127.0.0.1:0", "--psk-file", &keys, "--log", &log];
    let server = Server::with(&arguments);
    let uri = server.over("coaps", "hello");
    for (identity, key) in [("sensor", "guessed"), ("nobody", "secret")] {
        let arguments = ["get", &uri, "--psk-identity", identity];
        carob_with(&arguments, &[("CAROB_PSK", key)]).refused(4);
    }
    let ran = server.stop();
    let lines = ran.stderr;
    lines.has(&[
        "of identity \"sensor\" failed: wrong key",
        "of identity \"nobody\" failed: unknown identity",
    ]);
    let mut failed = scratch.json_lines("log.jsonl");
    failed.retain(|event| event["event"] == "handshake_failed");
    assert_eq!(failed.len(), 2, "{failed:?}");
    let expected = [("sensor", "wrong key"), ("nobody", "unknown identity")];
    for (event, (identity, reason)) in failed.iter().zip(expected) {
        assert!(event["at_us"].is_u64() && event["peer"].is_string());
        assert_eq!(event["scheme"], "coaps");
        assert_eq!(event["identity"], identity);
        assert_eq!(event["reason"], reason);
    }
}

#[test]
fn server_shows_failed_tls_handshakes() {
    let scratch = Scratch::new();
    let [cert, key] = scratch.certified("cert", "localhost");
    let log = scratch.text("log.jsonl");
    let server = Server::with(&format!(
        "--tls 127.0.0.1:0 --cert {cert} --key {key} --log {log}"
    ));
    // The client does not trust the self-signed certificate.
    carob(&["get", &server.over("coaps+tcp", "hello")]).refused(4);
    let ran = server.stop();
    ran.stderr.has(&["carob: handshake with "]);
    let log = scratch.json_lines("log.jsonl");
    let failed = log
        .iter()
        .find(|event| event["event"] == "handshake_failed");
    assert_eq!(failed.expect("a line")["scheme"], "coaps+tcp");
}

#[test]
fn certificates_that_cannot_be_used_are_refused_at_the_start() {
    let scratch = Scratch::new();
    let name = || vec!["localhost".to_owned()];
    let made = rcgen::generate_simple_self_signed(name()).unwrap();
    let other = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(name()).unwrap();
    params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let expired = params.self_signed(&other).unwrap();
    let cert = scratch.with("cert.pem", made.cert.pem());
    let old = scratch.with("old.pem", expired.pem());
    let key = scratch.with("key.pem", other.serialize_pem());
    for (cert, problem) in [(&cert, "cannot be used"), (&old, "expired")] {
        let ran = carob(&format!(
            "serve --dtls 127.0.0.1:0 --cert {cert} --key {key}"
        ));
        ran.refused(1).has(&[problem]);
    }
}
