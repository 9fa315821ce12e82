//! Commands over TCP, TLS and WebSocket.

use crate::commands::harness::{Parts as _, Server, carob};
use crate::process::Scratch;

const SCHEMES: [&str; 4] = ["coap+tcp", "coaps+tcp", "coap+ws", "coaps+ws"];

/// A server with TCP, TLS and WebSocket listeners, and the CA file for its clients.
fn serve(scratch: &Scratch) -> (Server, String) {
    let [cert, key] = scratch.certified("cert", "localhost");
    let any = "127.0.0.1:0";
    let arguments = [
        "--tcp", any, "--tls", any, "--ws", any, "--wss", any, "--cert", &cert, "--key", &key,
    ];
    (Server::with(&arguments), cert)
}

#[test]
fn every_scheme_is_understood() {
    let scratch = Scratch::new();
    let (server, ca) = serve(&scratch);
    for scheme in SCHEMES {
        let hello = carob(&["get", &server.over(scheme, "hello"), "--ca", &ca]);
        assert_eq!(
            hello.quiet(),
            "hello, this is 32 bytes of text\n",
            "{scheme}"
        );
        let large = server.over(scheme, "large");
        let file = scratch.text("large.bin");
        carob(&format!("get {large} --ca {ca} -o {file}")).quiet();
        assert_eq!(scratch.read("large.bin").len(), 1 << 20, "{scheme}");
    }
}

#[test]
fn messages_over_connections_have_no_type_or_message_id() {
    let scratch = Scratch::new();
    let (server, _) = serve(&scratch);
    let ran = carob(&["get", &server.over("coap+tcp", "hello"), "-v"]);
    let lines: Vec<_> = ran.stderr.lines().collect();
    assert_eq!(lines.len(), 4, "{lines:#?}");
    assert!(lines[0].contains("coap+tcp 7.01 CSM Max-Message-Size=66688 Block-Wise-Transfer"));
    assert!(lines[0].ends_with("Extended-Token-Length=64"));
    assert!(lines[1].contains("coap+tcp GET token ") && !lines[1].contains(" mid "));
}

#[test]
fn capture_of_tls_connection_has_decrypted_payload() {
    let scratch = Scratch::new();
    let (server, ca) = serve(&scratch);
    let file = scratch.text("x.pcapng");
    let large = server.over("coaps+tcp", "large");
    let body = scratch.text("large");
    carob(&format!("get {large} --ca {ca} --pcap {file} -o {body}")).quiet();
    let capture = scratch.read("x.pcapng");
    // The capture has the decrypted payload.
    assert!(capture.len() > 1 << 20);
    assert!(
        capture
            .windows(9)
            .any(|bytes| bytes == b"\x45localhos" || bytes == b"localhost")
    );
}

#[test]
fn untrusted_certificate_error_names_the_remedy() {
    let scratch = Scratch::new();
    let (server, _) = serve(&scratch);
    let ran = carob(&["get", &server.over("coaps+tcp", "hello")]);
    let said = ran.refused(4);
    said.has(&["certificate", "hint: "]);
    let none = scratch.text("none.pem");
    let ran = carob(&["get", &server.over("coaps+tcp", "hello"), "--ca", &none]);
    ran.refused(1).has(&["none.pem"]);
    let empty = scratch.with("empty.pem", "no PEM at all");
    let ran = carob(&["get", &server.over("coaps+tcp", "hello"), "--ca", &empty]);
    ran.refused(1).has(&["no usable certificate"]);
}

#[test]
fn slow_a_ping_and_an_observation_go_over_connections() {
    let scratch = Scratch::new();
    let (server, ca) = serve(&scratch);
    for scheme in SCHEMES {
        let ran = carob(&["ping", &server.over(scheme, ""), "--ca", &ca]);
        assert!(ran.quiet().contains("responds"), "{scheme}");
        let time = server.over(scheme, "time");
        let ran = carob(&format!("observe {time} --ca {ca} --count 2"));
        assert_eq!(ran.quiet().lines().count(), 2, "{scheme}");
    }
}
