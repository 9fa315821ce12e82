//! `carob bench` over DTLS: against `carob serve` with a pre-shared key and with a certificate, and against servers
//! with another key, without trust, or silent.
#![cfg(unix)]

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use crate::bench::report::{bench, count, flawless, report};
use crate::commands::harness::{Parts as _, Server, carob, fetch};
use crate::process::Scratch;
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(30);
const KEY_SUITE: &str = "TLS_PSK_WITH_AES_128_CCM_8";
const CERTIFICATE_SUITE: &str = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
/// Bytes of `/large`.
const LARGE: u64 = 1 << 20;

/// `carob serve` over coap and coaps, with a key, a certificate and a folder for uploads.
struct Serving {
    uri: String,
    keys: String,
    certificate: String,
    server: Server,
    scratch: Scratch,
}

impl Serving {
    fn start() -> Self {
        let scratch = Scratch::new();
        let folder = scratch.text("");
        let keys = scratch.with("keys.txt", b"device:secret-1\n");
        let [certificate, key] = scratch.certified("cert", "127.0.0.1");
        let credentials = format!("--psk-file {keys} --cert {certificate} --key {key}");
        let server = Server::with(&format!(
            "--writable --dtls 127.0.0.1:0 --dir {folder} {credentials}"
        ));
        Self {
            uri: server.secured().to_owned(),
            keys,
            certificate,
            server,
            scratch,
        }
    }

    /// Arguments for a load with the pre-shared key.
    fn by_key(&self, rest: &str) -> String {
        format!("{}/{rest} --psk-file {}", self.uri, self.keys)
    }

    /// Arguments for a load that trusts the server's certificate.
    fn by_certificate(&self, rest: &str) -> String {
        format!("{}/{rest} --ca {}", self.uri, self.certificate)
    }
}

fn is_secured(report: &Value, credential: &str, suite: &str) {
    assert_eq!(report["settings"]["transport"], "dtls", "{report}");
    let dtls = &report["dtls"];
    let said = (&dtls["version"], &dtls["credential"], &dtls["suite"]);
    assert_eq!(said, (&"1.2".into(), &credential.into(), &suite.into()));
    assert_eq!(dtls["failed"], 0, "{report}");
}

#[test]
fn slow_psk_and_certificate_sessions_carry_requests() {
    let serving = Serving::start();
    for words in [
        "hello --requests 200",
        "hello --requests 200 --non",
        "hello --requests 200 --outstanding 9 --ports 4 --threads 2",
        "hello --rate 300/s --duration 500ms --warm-up 100ms",
        "echo --mode post --bytes 1000 --requests 50",
    ] {
        let report = flawless(&serving.by_key(words));
        is_secured(&report, "key", KEY_SUITE);
        assert_eq!(report["unit"], "request");
        assert_eq!(report["dtls"]["handshakes"], 0, "before the load: {report}");
        let report = flawless(&serving.by_certificate(words));
        is_secured(&report, "certificates", CERTIFICATE_SUITE);
    }
    let report = flawless(&format!("{}/hello --requests 20", serving.server.uri));
    assert_eq!(report["settings"]["transport"], "udp");
    assert!(report["dtls"].is_null(), "{report}");
}

#[test]
fn slow_dtls_sessions_carry_block_wise_bodies() {
    let serving = Serving::start();
    let report = flawless(&serving.by_key("large --mode block --ports 2 --requests 2"));
    is_secured(&report, "key", KEY_SUITE);
    assert_eq!(report["bytes"], 2 * LARGE, "{report}");
    let words = "up.bin --mode upload --bytes 20000 --ports 1 --requests 2";
    let report = flawless(&serving.by_certificate(words));
    assert_eq!(report["bytes"], 40_000, "{report}");
}

#[test]
fn each_source_port_has_one_dtls_session() {
    let serving = Serving::start();
    // Ports open their first session before the load starts.
    for (words, expected) in [
        ("--ports 2 --port-messages 10 --requests 100", 7..=9),
        ("--ports 2 --port-messages 1 --requests 40", 38..=38),
    ] {
        for words in [
            serving.by_key(&format!("hello {words}")),
            serving.by_certificate(&format!("hello {words}")),
        ] {
            let report = flawless(&words);
            let more = count(&report["dtls"]["handshakes"]);
            assert!(expected.contains(&more), "{words}: {report}");
        }
    }
}

/// Returns the report of a load over two ports whose server is restarted.
fn over_a_restart(end: impl FnOnce(Server)) -> Value {
    let serving = Serving::start();
    let port = serving.uri.rsplit(':').next().unwrap().to_owned();
    let words = serving.by_key("hello --duration 8s --warm-up 0s --ports 2 --timeout 4s");
    let load = std::thread::spawn(move || report(&words));
    // Both sessions are established and under load.
    std::thread::sleep(Duration::from_millis(1_500));
    let Serving {
        server,
        scratch: _scratch,
        keys,
        ..
    } = serving;
    end(server);
    let _again = Server::with(&format!("--dtls 127.0.0.1:{port} --psk-file {keys}"));
    let (report, code) = load.join().unwrap();
    assert_eq!(code, 0, "{report}");
    assert_eq!(report["dtls"]["handshakes"], 2, "one a port: {report}");
    report
}

#[test]
fn slow_session_closed_by_server_is_renewed_at_once() {
    let report = over_a_restart(|server| {
        // A graceful stop sends close_notify in each session.
        server.stop();
    });
    // No pending request waits for its timeout.
    assert!(report["errors"]["timeout"].is_null(), "{report}");
}

#[test]
fn slow_session_lost_by_server_ends_at_request_timeout() {
    let report = over_a_restart(drop);
    assert_eq!(report["errors"]["timeout"], 2, "one a port: {report}");
}

#[test]
fn slow_all_sessions_are_closed_at_the_end() {
    let scratch = Scratch::new();
    let keys = scratch.with("keys.txt", b"device:secret-1\n");
    let server = Server::with(&format!(
        "--dtls 127.0.0.1:0 --metrics 127.0.0.1:0 --psk-file {keys}"
    ));
    let (uri, metrics) = (server.secured(), server.metrics.clone().unwrap());
    let metric = |text: &str, begins: &str| {
        let line = text.lines().find(|line| line.starts_with(begins));
        let number = line.and_then(|line| line.rsplit(' ').next());
        number.and_then(|number| number.parse::<f64>().ok())
    };
    for (words, made) in [
        ("--port-messages 1 --requests 50 --ports 1", 50.0),
        ("--requests 50 --ports 7", 57.0),
    ] {
        flawless(&format!("{uri}/hello {words} --psk-file {keys}"));
        let began = Instant::now();
        loop {
            // Metrics are cached for up to one second.
            let text = fetch(&metrics);
            let done = metric(&text, "carob_handshakes_total{outcome=\"done\"");
            let left = metric(&text, "carob_sessions{scheme=\"coaps\"}");
            if (done, left) == (Some(made), Some(0.0)) {
                break;
            }
            assert!(began.elapsed() < LIMIT / 4, "{words}: {left:?} of {done:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn slow_session_errors_match_those_of_get() {
    let serving = Serving::start();
    let wrong_keys = serving.scratch.with("wrong.txt", b"device:guessed\n");
    let unknown = serving.scratch.with("unknown.txt", b"nobody:secret-1\n");
    let [other, _] = serving.scratch.certified("other", "127.0.0.1");
    let closed = format!("coaps://127.0.0.1:{}", crate::process::free_port());
    let uri = &serving.uri;
    let key = |path: &str| format!("--psk-file {path}");
    for (uri, proof, said) in [
        (
            uri,
            key(&wrong_keys),
            "does not accept the pre-shared key of identity \"device\"",
        ),
        (uri, key(&unknown), "identity \"nobody\""),
        (uri, format!("--ca {other}"), "is not trusted"),
        (&closed, key(&serving.keys), "cannot be reached"),
    ] {
        let get = carob(&format!("get {uri}/hello {proof}"));
        assert!(get.stderr.contains(said), "{said}: {get:?}");
        let words = format!("{uri}/hello {proof} --timeout 5s");
        let code = get.code.unwrap();
        assert_eq!(bench(&words).refused(code), get.stderr, "{words}");
    }
}

#[test]
fn slow_silent_server_is_given_up_after_the_timeout() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let scratch = Scratch::new();
    let keys = scratch.with("keys.txt", b"device:secret-1\n");
    let uri = format!("coaps://{}/", silent.local_addr().unwrap());
    let began = Instant::now();
    let ran = bench(&format!("{uri} --timeout 1500ms --psk-file {keys}"));
    let said = ran.refused(4);
    // One ClientHello at once, one after DTLS's initial timeout of 1 s.
    said.has(&["no reply to any of 2 transmissions"]);
    assert!(began.elapsed() >= Duration::from_millis(1_500), "{said}");
}

#[test]
fn cipher_suite_mismatch_is_reported() {
    let scratch = Scratch::new();
    let [certificate, key] = scratch.certified("cert", "127.0.0.1");
    let keys = scratch.with("keys.txt", b"device:secret-1\n");
    let server = Server::with(&format!(
        "--dtls 127.0.0.1:0 --cert {certificate} --key {key}"
    ));
    let ran = bench(&format!("{}/hello --psk-file {keys}", server.secured()));
    let said = ran.refused(4);
    said.has(&["no common cipher suite"]);
}

#[test]
fn the_table_names_the_transport_and_renewed_sessions() {
    let serving = Serving::start();
    let ran = bench(&serving.by_key("hello --requests 50 --ports 5 --port-messages 1"));
    let table = ran.stdout();
    table.has(&[
        "transport             DTLS 1.2, a pre-shared key, TLS_PSK_WITH_AES_128_CCM_8\n",
        "  more handshakes     45\n",
        "amplification limit   off, as a handshake shows where we are",
    ]);
}

#[test]
fn help_explains_credentials_and_sessions() {
    let ran = bench("--help");
    let text = ran.stdout();
    text.has(&["--psk-identity", "--psk-file", "--ca", "session", "coaps"]);
    assert!(!text.contains("--psk-key"), "a key cannot be typed");
}
