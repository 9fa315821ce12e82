//! `coaps://` against libcoap, built on OpenSSL and on GnuTLS, against go-coap and Californium, both
//! ways: keys, certificates on one side and on both, and with libcoap all of it through loss and
//! duplication.
//!
//! A library that is missing is named as skipped, unless `CAROB_REQUIRE_PEERS=1`, which makes its
//! absence a failure. What came of it is in `docs/evidence/interoperability.md`.
#![cfg(unix)]

use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::installed::Peer;
use crate::process::{Running, Scratch};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
};

const LIMIT: Duration = Duration::from_secs(60);
const HELLO: &str = "hello, this is 32 bytes of text";
const LIBCOAP_HELLO: &str = "This is a test server made with libcoap";

/// How both ends prove who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    Key,
    Server,
    Both,
}

/// What lies between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    Clear,
    /// Of 256 datagrams, 40 are lost and 60 come twice, in either direction.
    Lossy,
}

struct Files {
    scratch: Scratch,
    keys: PathBuf,
    ca: PathBuf,
    server: (PathBuf, PathBuf),
    client: (PathBuf, PathBuf),
}

impl Files {
    fn new() -> Self {
        let scratch = Scratch::new();
        let ca_key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = named("authority");
        let ca = params.self_signed(&ca_key).expect("a certificate").pem();
        let issuer = Issuer::new(params, ca_key);
        let issue = |name: &str| {
            let key = KeyPair::generate().expect("a key");
            let own = CertificateParams::new(vec!["127.0.0.1".to_owned()]);
            let mut params = own.expect("parameters");
            params.distinguished_name = named(name);
            let certificate = params.signed_by(&key, &issuer).expect("a certificate");
            let chain = scratch.with(&format!("{name}.pem"), certificate.pem().as_bytes());
            let key = scratch.with(&format!("{name}.key"), key.serialize_pem().as_bytes());
            (chain, key)
        };
        Self {
            keys: scratch.with("keys.txt", b"device:secret-1\n"),
            ca: scratch.with("ca.pem", ca.as_bytes()),
            server: issue("server"),
            client: issue("client"),
            scratch,
        }
    }
}

/// A distinguished name. OpenSSL takes a certificate with its issuer's name for self-signed.
fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

/// A port with one above it, both free a moment ago: libcoap's server takes DTLS at the second.
fn two_ports() -> u16 {
    loop {
        let first = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let port = first.local_addr().expect("bound").port();
        if port < u16::MAX && UdpSocket::bind(("127.0.0.1", port + 1)).is_ok() {
            return port;
        }
    }
}

/// Relays datagrams to this port until the value goes.
struct Relay {
    port: u16,
    stop: Arc<AtomicBool>,
}

impl Relay {
    fn start(server: u16, seed: u32) -> Self {
        let wait = Some(Duration::from_millis(1));
        let bound = || {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
            socket.set_read_timeout(wait).expect("a time");
            socket
        };
        let (outer, inner) = (bound(), bound());
        inner.connect(("127.0.0.1", server)).expect("loopback");
        let port = outer.local_addr().expect("bound").port();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        std::thread::spawn(move || {
            let (mut client, mut count): (Option<SocketAddr>, u32) = (None, seed);
            let mut buffer = [0; 4_096];
            let mut copies = || {
                count = count.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                match count >> 24 {
                    0..40 => 0,
                    40..100 => 2,
                    _ => 1,
                }
            };
            while !stopped.load(Ordering::Relaxed) {
                while let Ok((length, from)) = outer.recv_from(&mut buffer) {
                    client = Some(from);
                    for _ in 0..copies() {
                        let _ = inner.send(&buffer[..length]);
                    }
                }
                while let Ok(length) = inner.recv(&mut buffer) {
                    for _ in 0..copies() {
                        if let Some(client) = client {
                            let _ = outer.send_to(&buffer[..length], client);
                        }
                    }
                }
            }
        });
        Self { port, stop }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn is_installed(library: &str) -> bool {
    let found = ["client", "server"].iter().all(|end| {
        let program = format!("coap-{end}-{library}");
        let paths = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&paths).any(|folder| folder.join(&program).is_file())
    });
    let required = std::env::var_os("CAROB_REQUIRE_PEERS").is_some_and(|value| value == "1");
    assert!(found || !required, "libcoap on {library} is missing");
    if !found {
        crate::skipped(&format!(
            "libcoap on {library} (apt-get install libcoap3-bin)"
        ));
    }
    found
}

fn through(path: Path, port: u16, seed: u32) -> (Option<Relay>, u16) {
    match path {
        Path::Clear => (None, port),
        Path::Lossy => {
            let relay = Relay::start(port, seed);
            let port = relay.port;
            (Some(relay), port)
        }
    }
}

/// Runs a program to its end; what it prints.
fn output(command: &mut Command) -> String {
    let ran = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{command:?}: {text}\n{said}");
    format!("{text}\n{said}")
}

/// Our server, and the port at which it takes DTLS.
fn our_server(files: &Files, proof: Proof) -> (Running, u16) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_carob"));
    command.args([
        "serve",
        "--json",
        "--bind",
        "127.0.0.1:0",
        "--dtls",
        "127.0.0.1:0",
    ]);
    match proof {
        Proof::Key => command.arg("--psk-file").arg(&files.keys),
        _ => command
            .args(["--cert".as_ref(), files.server.0.as_os_str()])
            .args(["--key".as_ref(), files.server.1.as_os_str()]),
    };
    if proof == Proof::Both {
        command.arg("--client-ca").arg(&files.ca);
    }
    let mut server = Running::start(&mut command, &files.scratch, "server");
    server.wait_until(LIMIT, |server| server.stdout().contains("coaps://"));
    let line: serde_json::Value = serde_json::from_str(&server.stdout()).expect("JSON");
    let uri = line["also"][0].as_str().expect("an address").to_owned();
    let port = uri.rsplit(':').next().and_then(|port| port.parse().ok());
    (server, port.expect("a port"))
}

/// Our client, about to ask.
fn our_command(files: &Files, proof: Proof, uri: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_carob"));
    command.args(["get", uri, "--cc", "cocoa-plus"]);
    match proof {
        Proof::Key => command.arg("--psk-file").arg(&files.keys),
        _ => command.arg("--ca").arg(&files.ca),
    };
    if proof == Proof::Both {
        command.arg("--cert").arg(&files.client.0);
        command.arg("--key").arg(&files.client.1);
    }
    command
}

fn their_client(library: &str, proof: Proof, path: Path) {
    let files = Files::new();
    let (_server, port) = our_server(&files, proof);
    let client = || {
        let mut command = Command::new(format!("coap-client-{library}"));
        command.args(["-B", "50"]);
        match proof {
            Proof::Key => command.args(["-u", "device", "-k", "secret-1"]),
            _ => command.arg("-C").arg(&files.ca),
        };
        if proof == Proof::Both {
            command.arg("-c").arg(&files.client.0);
            command.arg("-j").arg(&files.client.1);
        }
        command
    };
    // Its client gives a handshake some five seconds, which is less than two losses may take.
    let tries = if path == Path::Lossy { 6 } else { 1 };
    let succeeds = |arguments: &[&str], resource: &str, expected: &str| {
        (0..tries).any(|number| {
            let (_relay, port) = through(path, port, number);
            let uri = format!("coaps://127.0.0.1:{port}/{resource}");
            output(client().args(arguments).arg(uri)).contains(expected)
        })
    };
    assert!(succeeds(&["-m", "get"], "hello", HELLO));
    assert!(succeeds(
        &["-m", "post", "-e", "over DTLS"],
        "echo",
        "over DTLS"
    ));
}

fn our_client(library: &str, proof: Proof, path: Path) {
    let files = Files::new();
    let port = two_ports();
    let mut command = Command::new(format!("coap-server-{library}"));
    command.args(["-A", "127.0.0.1", "-p", &port.to_string()]);
    match proof {
        Proof::Key => command.args(["-k", "secret-1"]),
        _ => command
            .arg("-c")
            .arg(&files.server.0)
            .arg("-j")
            .arg(&files.server.1),
    };
    match proof {
        Proof::Server => _ = command.arg("-n"),
        Proof::Both => _ = command.arg("-C").arg(&files.ca),
        Proof::Key => {}
    }
    let _server = Running::start(&mut command, &files.scratch, "server");
    // It says nothing when it is ready; a request to a server that is not ready is repeated.
    std::thread::sleep(Duration::from_millis(500));
    let (_relay, port) = through(path, port + 1, 20);
    let uri = format!("coaps://127.0.0.1:{port}/");
    let mut command = our_command(&files, proof, &uri);
    let hello = output(&mut command);
    assert!(hello.contains(LIBCOAP_HELLO), "{hello}");
}

macro_rules! tests {
    ($($module:ident $library:literal;)*) => {
        $(mod $module {
            use super::{Path, Proof, is_installed, our_client, their_client};

            fn both_ways(proof: Proof, path: Path) {
                if is_installed($library) {
                    their_client($library, proof, path);
                    our_client($library, proof, path);
                }
            }

            #[test]
            fn with_a_key() {
                both_ways(Proof::Key, Path::Clear);
            }

            #[test]
            fn with_the_servers_certificate() {
                both_ways(Proof::Server, Path::Clear);
            }

            #[test]
            fn with_certificates_on_both_sides() {
                both_ways(Proof::Both, Path::Clear);
            }

            #[test]
            fn with_a_key_through_loss_and_duplication() {
                both_ways(Proof::Key, Path::Lossy);
            }

            #[test]
            fn with_certificates_on_both_sides_through_loss_and_duplication() {
                both_ways(Proof::Both, Path::Lossy);
            }
        })*
    };
}

tests! {
    openssl "openssl";
    gnutls "gnutls";
}

/// Whether our programs on a library have been built.
fn is_built(peer: Peer) -> bool {
    let current = peer.is_current(&root());
    let required = std::env::var_os("CAROB_REQUIRE_PEERS").is_some_and(|value| value == "1");
    assert!(current || !required, "{} is missing", peer.name());
    if !current {
        crate::skipped(&format!("{} (cargo xtask peers)", peer.name()));
    }
    current
}

fn root() -> PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Our `client` or `server` on a library.
fn program(peer: Peer, end: &str) -> Command {
    let built = peer.built(&root());
    if peer == Peer::GoCoap {
        return Command::new(built.join(end));
    }
    let mut path = built.join("classes").into_os_string();
    path.push(":");
    path.push(built.join("lib/*"));
    let class = if end == "client" {
        "interop.Client"
    } else {
        "interop.Server"
    };
    let mut command = Command::new("java");
    // What starts fastest, as in `interop/clients.rs`.
    command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp"]);
    command.arg(path).arg(class);
    command
}

fn prove(command: &mut Command, proof: Proof, own: Option<&(PathBuf, PathBuf)>) {
    if proof == Proof::Key {
        command.args(["--psk", "device:secret-1"]);
    } else if let Some((chain, key)) = own {
        command.arg("--cert").arg(chain).arg("--key").arg(key);
    }
}

fn their_program_asks(peer: Peer, proof: Proof) {
    let files = Files::new();
    let (_server, port) = our_server(&files, proof);
    // A body of many blocks, too.
    for (resource, length) in [("hello", HELLO.len() + 1), ("large", 1 << 20)] {
        let uri = format!("coaps://127.0.0.1:{port}/{resource}");
        let body = files.scratch.with(resource, b"");
        let mut command = program(peer, "client");
        command.args(["get", &uri, "--output"]).arg(&body);
        let own = Some(&files.client).filter(|_| proof == Proof::Both);
        prove(&mut command, proof, own);
        if proof != Proof::Key {
            command.arg("--ca").arg(&files.ca);
        }
        assert!(output(&mut command).contains("2.05"));
        let body = std::fs::read(body).expect("it was written");
        assert_eq!(body.len(), length);
    }
}

fn their_program_answers(peer: Peer, proof: Proof) {
    let files = Files::new();
    let port = two_ports();
    let mut command = program(peer, "server");
    command.args([&port.to_string(), "--scheme", "coaps"]);
    prove(&mut command, proof, Some(&files.server));
    if proof == Proof::Both {
        command.arg("--client-ca").arg(&files.ca);
    }
    let _server = Running::start(&mut command, &files.scratch, "server");
    // Neither says when it listens. The system refuses earlier requests.
    let uri = format!("coaps://127.0.0.1:{port}/hello");
    let hello = (0..100).find_map(|_| {
        let ran = our_command(&files, proof, &uri).output().expect("it runs");
        let there = ran.status.success();
        if !there {
            std::thread::sleep(Duration::from_millis(100));
        }
        there.then(|| String::from_utf8_lossy(&ran.stdout).into_owned())
    });
    let hello = hello.expect("it answers in time");
    assert!(hello.starts_with("hello from "), "{hello}");
    let uri = format!("coaps://127.0.0.1:{port}/large");
    let large = our_command(&files, proof, &uri).output().expect("it runs");
    assert_eq!(large.stdout.len(), 1 << 20);
}

macro_rules! tests_of_programs {
    ($($module:ident $peer:ident;)*) => {
        $(mod $module {
            use super::{Peer, Proof, is_built, their_program_answers, their_program_asks};

            fn both_ways(proof: Proof) {
                if is_built(Peer::$peer) {
                    their_program_asks(Peer::$peer, proof);
                    their_program_answers(Peer::$peer, proof);
                }
            }

            #[test]
            fn with_a_key() {
                both_ways(Proof::Key);
            }

            #[test]
            fn with_the_servers_certificate() {
                both_ways(Proof::Server);
            }

            #[test]
            fn with_certificates_on_both_sides() {
                both_ways(Proof::Both);
            }
        })*
    };
}

tests_of_programs! {
    go_coap GoCoap;
    californium Californium;
}
