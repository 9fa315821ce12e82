//! Forward-proxies: peers' clients and servers through Carob's proxy, and Carob's through those of the peers.
//!
//! libcoap's and aiocoap's own commands have an option for a proxy; the programs on the other libraries send
//! Proxy-Uri as an option.

use std::{fs, process::Command, time::Duration};

use crate::interop::{
    bench::{assert_same, can_run, pattern},
    clients::{Ask, Client, hex, program},
    servers::Server,
    transport::{To, Transport},
};
use crate::{
    installed::Peer,
    process::{Running, Scratch, answers_ping, free_port},
};

const READY_LIMIT: Duration = Duration::from_secs(20);
const LIMIT: Duration = Duration::from_secs(60);

fn carob() -> Command {
    Command::new(env!("CARGO_BIN_EXE_carob"))
}

fn run(command: &mut Command, scratch: &Scratch) -> String {
    let mut running = Running::start(command, scratch, "client");
    let status = running.finish(LIMIT);
    assert!(status.success(), "{status}\n{}", running.output());
    running.stdout()
}

fn ready(command: &mut Command, port: u16, scratch: &Scratch) -> Running {
    let mut running = Running::start(command, scratch, "proxy");
    running.wait_until(READY_LIMIT, |_| answers_ping(port));
    running
}

/// Starts Carob's proxy with this host allowed; returns its port.
pub(crate) fn our_proxy(scratch: &Scratch) -> (Running, u16) {
    let port = free_port();
    let mut command = carob();
    command.args([
        "proxy",
        "--allow",
        "127.0.0.1",
        "--bind",
        &format!("127.0.0.1:{port}"),
    ]);
    (ready(&mut command, port, scratch), port)
}

/// A GET by the peer's client through a proxy; returns the body.
fn their_get(peer: Peer, scratch: &Scratch, proxy: &str, uri: &str) -> Vec<u8> {
    let output = scratch.path("through");
    let _ = fs::remove_file(&output);
    let mut command = match peer {
        Peer::Libcoap => {
            let mut command = program(peer, "client");
            command
                .args(["-B", "30", "-P", proxy, "-o"])
                .arg(&output)
                .arg(uri);
            command
        }
        Peer::Aiocoap => {
            let python = program(peer, "client").get_program().to_owned();
            let mut command = Command::new(python);
            command.args(["-m", "aiocoap.cli.client", "-q", "--proxy", proxy, uri]);
            return run(&mut command, scratch).into_bytes();
        }
        Peer::Californium | Peer::GoCoap => {
            let digits = hex(uri.as_bytes());
            let mut command = program(peer, "client");
            command.args([
                "get",
                &format!("{proxy}/"),
                "--option",
                &format!("35={digits}"),
            ]);
            command.arg("--output").arg(&output);
            command
        }
    };
    run(&mut command, scratch);
    if peer == Peer::Libcoap && !output.exists() {
        // Under load, libcoap's client gave up without a response in one of nine runs.
        run(&mut command, scratch);
    }
    fs::read(&output).expect("the client wrote what it got")
}

fn through_ours(peer: Peer) {
    if !can_run(&[peer]) {
        return;
    }
    let scratch = Scratch::new();
    let server = Server::start(Client::Of(peer), Transport::Udp, &scratch, &[]);
    let direct = Client::Carob.ask(&scratch, server.to(), &Ask::new("get", server.paths.hello));
    assert!(direct.is_success() && !direct.payload.is_empty());
    let (_proxy, port) = our_proxy(&scratch);
    let proxy = format!("coap://127.0.0.1:{port}");
    let uri = server.to().uri(server.paths.hello);
    let got = their_get(peer, &scratch, &proxy, &uri);
    assert_eq!(got.trim_ascii_end(), direct.payload.trim_ascii_end());
    // Block-wise on both sides; aiocoap's command adds to its output.
    let body = pattern(100_000);
    let path = if let Some(large) = server.paths.large {
        format!("{large}?{}", body.len())
    } else {
        let put = Ask::new("put", server.paths.store).payload(&body);
        assert!(Client::Carob.ask(&scratch, server.to(), &put).is_success());
        server.paths.store.to_owned()
    };
    if peer == Peer::GoCoap {
        // go-coap 3.3.6 requests the second block of a separate response in an Acknowledgement with code 0.01, so the
        // proxy must have the body cached and answer at once.
        let uri = server.to().uri(&path);
        run(
            carob().args(["get", &uri, "--proxy", &proxy, "--raw"]),
            &scratch,
        );
    }
    if peer != Peer::Aiocoap {
        let got = their_get(peer, &scratch, &proxy, &server.to().uri(&path));
        assert_same(&got, &body);
    }
    // A host that is not allowed.
    let refused = carob()
        .args(["get", "coap://127.0.0.2/", "--proxy", &proxy])
        .output()
        .expect("it runs");
    assert_eq!(refused.status.code(), Some(5));
    // Observation of the peer's server through Carob's proxy.
    let observed = run(
        carob()
            .args(["observe", &server.to().uri(server.paths.short_lived)])
            .args(["--proxy", &proxy, "--count", "3", "--raw"]),
        &scratch,
    );
    assert!(!observed.is_empty());
}

/// Carob's client through the peer's proxy to Carob's server.
fn through_theirs(peer: Peer) {
    if !can_run(&[peer]) {
        return;
    }
    let scratch = Scratch::new();
    let server = Server::start(Client::Carob, Transport::Udp, &scratch, &[]);
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let mut command = match peer {
        Peer::Libcoap => {
            let mut command = program(peer, "server");
            command.args([
                "-A",
                "127.0.0.1",
                "-p",
                &port.to_string(),
                "-P",
                ",proxy.example",
            ]);
            command
        }
        Peer::Aiocoap => {
            let python = program(peer, "client").get_program().to_owned();
            let mut command = Command::new(python);
            command.args(["-m", "aiocoap.cli.proxy", "--forward", "--bind", &address]);
            command
        }
        Peer::Californium | Peer::GoCoap => panic!("it brings no proxy that is installed"),
    };
    let _proxy = ready(&mut command, port, &scratch);
    let proxy = format!("coap://{address}");
    let ask = |arguments: &[&str]| {
        let mut command = carob();
        run(command.args(arguments).args(["--proxy", &proxy]), &scratch)
    };
    let to: To = server.to();
    let hello = ask(&["get", &to.uri("hello")]);
    assert_eq!(hello, "hello, this is 32 bytes of text\n");
    let posted = ask(&["post", &to.uri("count"), "42"]);
    assert_eq!(posted.trim_end(), "42");
    let body = pattern(100_000);
    assert!(server.place("large.bin", &body));
    let copy = scratch.path("copy");
    let mut command = carob();
    command.args(["get", &to.uri("large.bin"), "--proxy", &proxy, "-o"]);
    run(command.arg(&copy), &scratch);
    assert_eq!(fs::read(&copy).expect("it was written"), body);
}

#[test]
fn libcoap_through_carob_proxy() {
    through_ours(Peer::Libcoap);
}

#[test]
fn aiocoap_through_carob_proxy() {
    through_ours(Peer::Aiocoap);
}

#[test]
fn californium_through_carob_proxy() {
    through_ours(Peer::Californium);
}

#[test]
fn go_coap_through_carob_proxy() {
    through_ours(Peer::GoCoap);
}

#[test]
fn carob_through_libcoap_proxy() {
    through_theirs(Peer::Libcoap);
}

#[test]
fn carob_through_aiocoap_proxy() {
    through_theirs(Peer::Aiocoap);
}
