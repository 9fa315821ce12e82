//! `carob bench` over DTLS: against `carob serve` with a key and with a certificate, in every mode, and
//! against servers that know another key, that are not trusted, and that do not answer.
#![cfg(unix)]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "these tests wait for real programs, with a part of what others need for that"
)]

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::bench::report::{bench, count, flawless, report};
use crate::process::{Running, Scratch};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(30);
const KEY_SUITE: &str = "TLS_PSK_WITH_AES_128_CCM_8";
const CERTIFICATE_SUITE: &str = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
/// Bytes of `/large`.
const LARGE: u64 = 1 << 20;

/// `carob serve` over coap and coaps, with a key, a certificate and a folder for uploads.
struct Serving {
    plain: String,
    uri: String,
    keys: PathBuf,
    certificate: PathBuf,
    server: Running,
    scratch: Scratch,
}

impl Serving {
    fn start() -> Self {
        let scratch = Scratch::new();
        let folder = scratch.folder("served");
        let keys = scratch.with("keys.txt", b"device:secret-1\n");
        let names = vec!["127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        let certificate = scratch.with("cert.pem", made.cert.pem().as_bytes());
        let key = made.signing_key.serialize_pem();
        let key = scratch.with("key.pem", key.as_bytes());
        let mut command = Command::new(env!("CARGO_BIN_EXE_carob"));
        command.args(["serve", "--json", "--bind", "127.0.0.1:0", "--writable"]);
        command.args(["--dtls", "127.0.0.1:0"]);
        for (option, path) in [
            ("--dir", &folder),
            ("--psk-file", &keys),
            ("--cert", &certificate),
            ("--key", &key),
        ] {
            command.arg(option).arg(path);
        }
        let mut server = Running::start(&mut command, &scratch, "server");
        server.wait_until(LIMIT, |server| server.stdout().contains("coaps://"));
        let line: Value = serde_json::from_str(&server.stdout()).unwrap();
        let at = |value: &Value| value.as_str().unwrap().trim_end_matches('/').to_owned();
        Self {
            plain: at(&line["listening"]),
            uri: at(&line["also"][0]),
            keys,
            certificate,
            server,
            scratch,
        }
    }

    /// Words for a load with the key.
    fn by_key(&self, rest: &str) -> String {
        format!("{}/{rest} --psk-file {}", self.uri, self.keys.display())
    }

    /// Words for a load that trusts the certificate.
    fn by_certificate(&self, rest: &str) -> String {
        format!("{}/{rest} --ca {}", self.uri, self.certificate.display())
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
    let report = flawless(&format!("{}/hello --requests 20", serving.plain));
    assert_eq!(report["settings"]["transport"], "udp");
    assert!(report["dtls"].is_null(), "{report}");
}

#[test]
fn slow_bodies_go_through_sessions_like_requests() {
    let serving = Serving::start();
    let report = flawless(&serving.by_key("large --mode block --ports 2 --requests 2"));
    is_secured(&report, "key", KEY_SUITE);
    assert_eq!(report["bytes"], 2 * LARGE, "{report}");
    let words = "up.bin --mode upload --bytes 20000 --ports 1 --requests 2";
    let report = flawless(&serving.by_certificate(words));
    assert_eq!(report["bytes"], 40_000, "{report}");
}

#[test]
fn a_fresh_source_port_has_a_session_of_its_own() {
    let serving = Serving::start();
    // The first session of each port is made before the load.
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

/// Loads a server that is ended and started again meanwhile, over two ports; the report.
fn over_a_restart(end: impl FnOnce(&mut Running)) -> Value {
    let serving = Serving::start();
    let port = serving.uri.rsplit(':').next().unwrap().to_owned();
    let words = serving.by_key("hello --duration 8s --warm-up 0s --ports 2 --timeout 4s");
    let load = std::thread::spawn(move || report(&words));
    std::thread::sleep(Duration::from_millis(1_500));
    let Serving {
        mut server,
        scratch,
        keys,
        ..
    } = serving;
    end(&mut server);
    drop(server);
    let mut command = Command::new(env!("CARGO_BIN_EXE_carob"));
    command.args(["serve", "--bind", "127.0.0.1:0", "--dtls"]);
    command.arg(format!("127.0.0.1:{port}"));
    let mut again = Running::start(command.arg("--psk-file").arg(keys), &scratch, "again");
    again.wait_until(LIMIT, |again| again.stdout().contains("coaps://"));
    let (report, code) = load.join().unwrap();
    assert_eq!(code, 0, "{report}");
    assert_eq!(report["dtls"]["handshakes"], 2, "one a port: {report}");
    report
}

#[test]
fn slow_session_closed_by_server_is_renewed_at_once() {
    let report = over_a_restart(|server| {
        // It says goodbye in every session.
        server.interrupt();
        server.finish(LIMIT);
    });
    // What waited for an answer did not wait for long.
    assert!(report["errors"]["timeout"].is_null(), "{report}");
}

#[test]
fn slow_session_lost_by_server_ends_at_request_timeout() {
    let report = over_a_restart(|_| {});
    assert_eq!(report["errors"]["timeout"], 2, "one a port: {report}");
}

#[test]
fn slow_every_session_is_closed_so_that_the_server_keeps_none() {
    let scratch = Scratch::new();
    let keys = scratch.with("keys.txt", b"device:secret-1\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_carob"));
    command.args(["serve", "--json", "--bind", "127.0.0.1:0"]);
    command.args(["--dtls", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]);
    let mut server = Running::start(command.arg("--psk-file").arg(&keys), &scratch, "server");
    server.wait_until(LIMIT, |server| server.stdout().contains("coaps://"));
    let line: Value = serde_json::from_str(&server.stdout()).unwrap();
    let uri = line["also"][0].as_str().unwrap();
    let metrics = line["metrics"].as_str().unwrap().to_owned();
    let told = |text: &str, begins: &str| {
        let line = text.lines().find(|line| line.starts_with(begins));
        let number = line.and_then(|line| line.rsplit(' ').next());
        number.and_then(|number| number.parse::<f64>().ok())
    };
    for (words, made) in [
        ("--port-messages 1 --requests 50 --ports 1", 50.0),
        ("--requests 50 --ports 7", 57.0),
    ] {
        flawless(&format!(
            "{uri}/hello {words} --psk-file {}",
            keys.display()
        ));
        let began = Instant::now();
        loop {
            // Metrics are a second old at most.
            let text = fetch(&metrics);
            let done = told(&text, "carob_handshakes_total{outcome=\"done\"");
            let left = told(&text, "carob_sessions{scheme=\"coaps\"}");
            if (done, left) == (Some(made), Some(0.0)) {
                break;
            }
            assert!(began.elapsed() < LIMIT / 4, "{words}: {left:?} of {done:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A page over HTTP.
fn fetch(url: &str) -> String {
    use std::io::{Read as _, Write as _};
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = std::net::TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn slow_what_is_wrong_with_a_session_is_said_as_get_says_it() {
    let serving = Serving::start();
    let wrong_keys = serving.scratch.with("wrong.txt", b"device:guessed\n");
    let unknown = serving.scratch.with("unknown.txt", b"nobody:secret-1\n");
    let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let other = serving
        .scratch
        .with("other.pem", other.cert.pem().as_bytes());
    let closed = format!("coaps://127.0.0.1:{}", crate::process::free_port());
    let uri = &serving.uri;
    let key = |path: &Path| format!("--psk-file {}", path.display());
    for (uri, proof, said) in [
        (
            uri,
            key(&wrong_keys),
            "does not accept the pre-shared key of identity \"device\"",
        ),
        (uri, key(&unknown), "identity \"nobody\""),
        (uri, format!("--ca {}", other.display()), "is not trusted"),
        (&closed, key(&serving.keys), "cannot be reached"),
    ] {
        let get = run(&format!("get {uri}/hello {proof}"));
        let expected = String::from_utf8_lossy(&get.stderr).into_owned();
        assert!(expected.contains(said), "{said}: {expected}");
        let words = format!("{uri}/hello {proof} --timeout 5s");
        let output = bench(&words);
        assert_eq!(String::from_utf8_lossy(&output.stderr), expected, "{words}");
        assert_eq!(output.status.code(), get.status.code(), "{words}");
        assert_eq!(output.stdout, b"", "{words}");
    }
}

fn run(words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_carob"));
    command.args(words.split_whitespace()).output().unwrap()
}

#[test]
fn slow_silent_server_is_given_up_after_the_timeout() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let scratch = Scratch::new();
    let keys = scratch.with("keys.txt", b"device:secret-1\n");
    let uri = format!("coaps://{}/", silent.local_addr().unwrap());
    let began = Instant::now();
    let keys = keys.display();
    let output = bench(&format!("{uri} --timeout 1500ms --psk-file {keys}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    // One at once, one after a second.
    assert!(
        said.contains("no reply to any of 2 transmissions"),
        "{said}"
    );
    assert!(began.elapsed() >= Duration::from_millis(1_500), "{said}");
}

#[test]
fn a_server_that_has_other_suites_only_is_said_to_be_one() {
    let scratch = Scratch::new();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = scratch.with("cert.pem", made.cert.pem().as_bytes());
    let key = scratch.with("key.pem", made.signing_key.serialize_pem().as_bytes());
    let keys = scratch.with("keys.txt", b"device:secret-1\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_carob"));
    command.args([
        "serve",
        "--json",
        "--bind",
        "127.0.0.1:0",
        "--dtls",
        "127.0.0.1:0",
    ]);
    command.arg("--cert").arg(certificate).arg("--key").arg(key);
    let mut server = Running::start(&mut command, &scratch, "server");
    server.wait_until(LIMIT, |server| server.stdout().contains("coaps://"));
    let line: Value = serde_json::from_str(&server.stdout()).unwrap();
    let uri = line["also"][0].as_str().unwrap();
    let output = bench(&format!("{uri}/hello --psk-file {}", keys.display()));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("no common cipher suite"), "{said}");
}

#[test]
fn the_table_names_the_transport_and_renewed_sessions() {
    let serving = Serving::start();
    let output = bench(&serving.by_key("hello --requests 50 --ports 5 --port-messages 1"));
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    for part in [
        "transport             DTLS 1.2, a pre-shared key, TLS_PSK_WITH_AES_128_CCM_8\n",
        "  more handshakes     45\n",
        "amplification limit   off, as a handshake shows where we are",
    ] {
        assert!(table.contains(part), "no {part:?} in\n{table}");
    }
}

#[test]
fn help_explains_credentials_and_sessions() {
    let output = bench("--help");
    let text = String::from_utf8_lossy(&output.stdout);
    for part in ["--psk-identity", "--psk-file", "--ca", "session", "coaps"] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    assert!(!text.contains("--psk-key"), "a key cannot be typed");
}
