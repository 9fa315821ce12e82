//! DTLS interoperability, as client and as server: with libcoap on OpenSSL and on GnuTLS, go-coap and Californium. Covers
//! pre-shared keys, server and client certificates, and with libcoap also loss and duplication.
//!
//! Cases of a missing library are skipped, unless `CAROB_REQUIRE_PEERS=1`, which makes them fail. Results:
//! `docs/evidence/interoperability.md`.
#![cfg(unix)]

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::installed::{Peer, is_on_path};
use crate::interop::bench::can_run;
use crate::interop::clients::program;
use crate::interop::path::{Faults, Path};
use crate::interop::transport::Certificates;
use crate::process::{Running, Scratch, free_ports};

const LIMIT: Duration = Duration::from_secs(60);
const HELLO: &str = "hello, this is 32 bytes of text";
const LIBCOAP_HELLO: &str = "This is a test server made with libcoap";
const LOSSY: Faults = Faults {
    loss: 156,
    duplication: 234,
    reordering: 0,
};

/// Credentials of both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    Key,
    Server,
    Both,
}

/// Credentials and their files. Both ends use the same certificate.
struct Setting {
    proof: Proof,
    faults: Faults,
    keys: PathBuf,
    files: Certificates,
    scratch: Scratch,
}

impl Setting {
    fn new(proof: Proof, faults: Faults) -> Self {
        let scratch = Scratch::new();
        Self {
            proof,
            faults,
            keys: scratch.with("keys.txt", b"device:secret-1\n").into(),
            files: Certificates::write(&scratch),
            scratch,
        }
    }

    fn is_lossy(&self) -> bool {
        self.faults.loss > 0
    }

    /// Adds certificate and key under a program's option names.
    fn add_certificate(&self, command: &mut Command, [certificate, key]: [&str; 2]) {
        command.arg(certificate).arg(&self.files.certificate);
        command.arg(key).arg(&self.files.key);
    }

    /// Starts Carob's server; returns its DTLS port.
    fn our_server(&self) -> (Running, u16) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_carob"));
        command.args(["serve", "--json", "--bind", "127.0.0.1:0"]);
        command.args(["--dtls", "127.0.0.1:0"]);
        match self.proof {
            Proof::Key => _ = command.arg("--psk-file").arg(&self.keys),
            _ => self.add_certificate(&mut command, ["--cert", "--key"]),
        }
        if self.proof == Proof::Both {
            command.arg("--client-ca").arg(&self.files.authority);
        }
        let mut server = Running::start(&mut command, &self.scratch, "server");
        server.wait_until(LIMIT, |server| server.stdout().contains("coaps://"));
        let line: serde_json::Value = serde_json::from_str(&server.stdout()).expect("JSON");
        let uri = line["also"][0].as_str().expect("an address").to_owned();
        let port = uri.rsplit(':').next().and_then(|port| port.parse().ok());
        (server, port.expect("a port"))
    }

    /// Carob's client for a request to `uri`.
    fn our_client(&self, uri: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_carob"));
        command.args(["get", uri, "--cc", "cocoa-plus"]);
        match self.proof {
            Proof::Key => command.arg("--psk-file").arg(&self.keys),
            _ => command.arg("--ca").arg(&self.files.authority),
        };
        if self.proof == Proof::Both {
            self.add_certificate(&mut command, ["--cert", "--key"]);
        }
        command
    }

    /// Starts a path to this port if the setting has loss; returns the port to send to.
    fn through(&self, port: u16, seed: u64) -> (Option<Path>, u16) {
        let path = self
            .is_lossy()
            .then(|| Path::start(port, self.faults, seed));
        let port = path.as_ref().map_or(port, Path::port);
        (path, port)
    }
}

/// Runs a program to completion; returns its output.
fn output(command: &mut Command) -> String {
    let ran = command.output().expect("the program starts");
    let text = String::from_utf8_lossy(&ran.stdout).into_owned();
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{command:?}: {text}\n{said}");
    format!("{text}\n{said}")
}

/// Tests libcoap on a TLS library as client and as server.
fn libcoap(library: &str, proof: Proof, faults: Faults) {
    let mut programs = ["client", "server"]
        .map(|end| format!("coap-{end}-{library}"))
        .into_iter();
    if !programs.all(|program| is_on_path(&program)) {
        let required = std::env::var_os("CAROB_REQUIRE_PEERS").is_some_and(|value| value == "1");
        assert!(!required, "libcoap on {library} is missing");
        return crate::skipped(&format!(
            "libcoap on {library} (apt-get install libcoap3-bin)"
        ));
    }
    let setting = Setting::new(proof, faults);
    libcoap_asks(library, &setting);
    libcoap_answers(library, &setting);
}

fn libcoap_asks(library: &str, setting: &Setting) {
    let (_server, port) = setting.our_server();
    let client = || {
        let mut command = Command::new(format!("coap-client-{library}"));
        command.args(["-B", "50"]);
        match setting.proof {
            Proof::Key => command.args(["-u", "device", "-k", "secret-1"]),
            _ => command.arg("-C").arg(&setting.files.authority),
        };
        if setting.proof == Proof::Both {
            setting.add_certificate(&mut command, ["-c", "-j"]);
        }
        command
    };
    // libcoap's client gives up a handshake after about five seconds; two losses may take longer.
    let tries = if setting.is_lossy() { 6 } else { 1 };
    let succeeds = |arguments: &[&str], resource: &str, expected: &str| {
        (0..tries).any(|seed| {
            let (_path, port) = setting.through(port, seed);
            let uri = format!("coaps://127.0.0.1:{port}/{resource}");
            output(client().args(arguments).arg(uri)).contains(expected)
        })
    };
    assert!(succeeds(&["-m", "get"], "hello", HELLO));
    let post = ["-m", "post", "-e", "over DTLS"];
    assert!(succeeds(&post, "echo", "over DTLS"));
}

fn libcoap_answers(library: &str, setting: &Setting) {
    // libcoap serves DTLS on the second port.
    let port = free_ports(2);
    let mut command = Command::new(format!("coap-server-{library}"));
    command.args(["-A", "127.0.0.1", "-p", &port.to_string()]);
    match setting.proof {
        Proof::Key => _ = command.args(["-k", "secret-1"]),
        _ => setting.add_certificate(&mut command, ["-c", "-j"]),
    }
    match setting.proof {
        Proof::Server => _ = command.arg("-n"),
        Proof::Both => _ = command.arg("-C").arg(&setting.files.authority),
        Proof::Key => {}
    }
    let _server = Running::start(&mut command, &setting.scratch, "server");
    // The server prints nothing when it is ready. A request that is too early is retransmitted.
    std::thread::sleep(Duration::from_millis(500));
    let (_path, port) = setting.through(port + 1, 20);
    let hello = output(&mut setting.our_client(&format!("coaps://127.0.0.1:{port}/")));
    assert!(hello.contains(LIBCOAP_HELLO), "{hello}");
}

/// Tests the program on another library as client and as server.
fn programs(peer: Peer, proof: Proof) {
    if !can_run(&[peer]) {
        return;
    }
    let setting = Setting::new(proof, Faults::default());
    program_asks(peer, &setting);
    program_answers(peer, &setting);
}

fn program_asks(peer: Peer, setting: &Setting) {
    let (_server, port) = setting.our_server();
    // Also a block-wise body.
    for (resource, length) in [("hello", HELLO.len() + 1), ("large", 1 << 20)] {
        let uri = format!("coaps://127.0.0.1:{port}/{resource}");
        let body = setting.scratch.with(resource, b"");
        let mut command = program(peer, "client");
        command.args(["get", &uri, "--output"]).arg(&body);
        match setting.proof {
            Proof::Key => command.args(["--psk", "device:secret-1"]),
            _ => command.arg("--ca").arg(&setting.files.authority),
        };
        if setting.proof == Proof::Both {
            setting.add_certificate(&mut command, ["--cert", "--key"]);
        }
        assert!(output(&mut command).contains("2.05"));
        let body = std::fs::read(body).expect("it was written");
        assert_eq!(body.len(), length);
    }
}

fn program_answers(peer: Peer, setting: &Setting) {
    let port = free_ports(1);
    let mut command = program(peer, "server");
    command.args([&port.to_string(), "--scheme", "coaps"]);
    match setting.proof {
        Proof::Key => _ = command.args(["--psk", "device:secret-1"]),
        _ => setting.add_certificate(&mut command, ["--cert", "--key"]),
    }
    if setting.proof == Proof::Both {
        command.arg("--client-ca").arg(&setting.files.authority);
    }
    let _server = Running::start(&mut command, &setting.scratch, "server");
    // The servers print nothing when they are ready; earlier requests fail with ECONNREFUSED.
    let uri = format!("coaps://127.0.0.1:{port}/hello");
    let hello = (0..100).find_map(|_| {
        let ran = setting.our_client(&uri).output().expect("it runs");
        let there = ran.status.success();
        if !there {
            std::thread::sleep(Duration::from_millis(100));
        }
        there.then(|| String::from_utf8_lossy(&ran.stdout).into_owned())
    });
    let hello = hello.expect("it answers in time");
    assert!(hello.starts_with("hello from "), "{hello}");
    let uri = format!("coaps://127.0.0.1:{port}/large");
    let large = setting.our_client(&uri).output().expect("it runs");
    assert_eq!(large.stdout.len(), 1 << 20);
}

macro_rules! tests {
    ($($module:ident { $($name:ident: $run:ident($($argument:expr),*);)* })*) => {
        $(mod $module {
            use super::*;

            $(#[test]
            fn $name() {
                $run($($argument),*);
            })*
        })*
    };
}

tests! {
    openssl {
        with_a_key: libcoap("openssl", Proof::Key, Faults::default());
        with_the_servers_certificate: libcoap("openssl", Proof::Server, Faults::default());
        with_certificates_on_both_sides: libcoap("openssl", Proof::Both, Faults::default());
        with_a_key_through_loss_and_duplication: libcoap("openssl", Proof::Key, LOSSY);
        with_certificates_on_both_sides_through_loss_and_duplication: libcoap("openssl", Proof::Both, LOSSY);
    }
    gnutls {
        with_a_key: libcoap("gnutls", Proof::Key, Faults::default());
        with_the_servers_certificate: libcoap("gnutls", Proof::Server, Faults::default());
        with_certificates_on_both_sides: libcoap("gnutls", Proof::Both, Faults::default());
        with_a_key_through_loss_and_duplication: libcoap("gnutls", Proof::Key, LOSSY);
        with_certificates_on_both_sides_through_loss_and_duplication: libcoap("gnutls", Proof::Both, LOSSY);
    }
    go_coap {
        with_a_key: programs(Peer::GoCoap, Proof::Key);
        with_the_servers_certificate: programs(Peer::GoCoap, Proof::Server);
        with_certificates_on_both_sides: programs(Peer::GoCoap, Proof::Both);
    }
    californium {
        with_a_key: programs(Peer::Californium, Proof::Key);
        with_the_servers_certificate: programs(Peer::Californium, Proof::Server);
        with_certificates_on_both_sides: programs(Peer::Californium, Proof::Both);
    }
}
