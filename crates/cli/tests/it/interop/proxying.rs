//! Forward-proxies: peers' clients and servers through Carob's proxy, and Carob's through those of the peers.
//!
//! libcoap's and aiocoap's own commands have an option for a proxy; the programs on the other libraries send
//! Proxy-Uri as an option.

use std::{process::Command, time::Duration};

use crate::commands::harness::carob;
use crate::interop::bench::{Bench, assert_same, can_run, pattern};
use crate::interop::clients::{Implementation, program};
use crate::interop::matrix::Column;
use crate::interop::requests::Ask;
use crate::interop::transport::Transport;
use crate::{
    installed::Peer,
    process::{Running, answers_ping, free_port},
};

const READY_LIMIT: Duration = Duration::from_secs(20);
const BODY_BYTES: usize = 100_000;

fn ready(command: &mut Command, port: u16) -> Running {
    let mut running = Running::spawn(command);
    running.wait_until(READY_LIMIT, |_| answers_ping(port));
    running
}

/// Starts Carob's proxy with this host allowed; returns its port.
pub(crate) fn our_proxy() -> (Running, u16) {
    let port = free_port();
    let bind = format!("127.0.0.1:{port}");
    let mut command = Command::new(crate::PROGRAM);
    command.args(["proxy", "--allow", "127.0.0.1", "--bind", &bind]);
    (ready(&mut command, port), port)
}

/// A module of aiocoap's own commands.
fn aiocoap(module: &str) -> Command {
    let mut command = Command::new(program(Peer::Aiocoap, "client").get_program());
    command.args(["-m", module]);
    command
}

/// A GET by the peer's client through a proxy; returns the body.
fn their_get(peer: Peer, bench: &Bench, proxy: u16, path: &str) -> Vec<u8> {
    if peer == Peer::Aiocoap {
        let mut command = aiocoap("aiocoap.cli.client");
        command.args(["-q", "--proxy", &format!("coap://127.0.0.1:{proxy}")]);
        command.arg(bench.to().uri(path));
        return Running::complete(&mut command).bytes;
    }
    let get = Ask::get(path).through(proxy).limit(READY_LIMIT);
    let answer = bench.ask(&get);
    if peer == Peer::Libcoap && answer.payload.is_empty() {
        // Under load, libcoap's client gave up without a response in one of nine runs.
        return bench.succeed(&get).payload;
    }
    assert!(answer.is_success(), "{}", answer.said);
    answer.payload
}

/// The peer's client through Carob's proxy to the peer's server.
fn through_ours(peer: Peer) {
    if !can_run(&[peer]) {
        return;
    }
    let bench = Bench::of_column(Column {
        client: Implementation::Of(peer),
        ..Column::our_client(peer, Transport::Udp)
    });
    let paths = bench.server.paths;
    let direct = bench.ask_aside(&Ask::get(paths.hello));
    assert!(!direct.payload.is_empty());
    let (_proxy, port) = our_proxy();
    let got = their_get(peer, &bench, port, paths.hello);
    assert_eq!(got.trim_ascii_end(), direct.payload.trim_ascii_end());
    let body = pattern(BODY_BYTES);
    let path = if let Some(large) = paths.large {
        format!("{large}?{BODY_BYTES}")
    } else {
        bench.ask_aside(&Ask::put(paths.store).payload(&body));
        paths.store.to_owned()
    };
    let proxy = format!("--proxy coap://127.0.0.1:{port}");
    if peer == Peer::GoCoap {
        // go-coap 3.3.6 requests the second block of a separate response in an Acknowledgement with code 0.01, so the
        // proxy must have the body cached and answer at once.
        let uri = bench.to().uri(&path);
        carob(&format!("get {uri} {proxy} --raw")).ended(0);
    }
    // Block-wise on both sides; aiocoap's command adds to its output.
    if peer != Peer::Aiocoap {
        assert_same(&their_get(peer, &bench, port, &path), &body);
    }
    let refused = carob(&format!("get coap://127.0.0.2/ {proxy}"));
    assert_eq!(refused.code, Some(5), "a host that is not allowed");
    // Observation of the peer's server through Carob's proxy.
    let uri = bench.to().uri(paths.short_lived);
    let observed = carob(&format!("observe {uri} {proxy} --count 3 --raw"));
    assert!(
        observed.code == Some(0) && !observed.bytes.is_empty(),
        "{observed:?}"
    );
}

/// Carob's client through the peer's proxy to Carob's server.
fn through_theirs(peer: Peer) {
    if !can_run(&[peer]) {
        return;
    }
    let bench = Bench::of_column(Column::CAROB);
    let port = free_port();
    let mut command = match peer {
        Peer::Libcoap => program(peer, "server"),
        Peer::Aiocoap => aiocoap("aiocoap.cli.proxy"),
        Peer::Californium | Peer::GoCoap => panic!("it brings no proxy that is installed"),
    };
    let (digits, address) = (port.to_string(), format!("127.0.0.1:{port}"));
    match peer {
        Peer::Libcoap => command.args(["-A", "127.0.0.1", "-p", &digits, "-P", ",proxy.example"]),
        _ => command.args(["--forward", "--bind", &address]),
    };
    let _proxy = ready(&mut command, port);
    let ask = |ask: Ask| bench.succeed(&ask.through(port)).payload;
    assert_eq!(ask(Ask::get("hello")), b"hello, this is 32 bytes of text\n");
    assert_eq!(ask(Ask::post("count").payload(b"42")), b"42");
    let body = pattern(BODY_BYTES);
    assert!(bench.server.place("large.bin", &body));
    assert_same(&ask(Ask::get("large.bin")), &body);
}

calls! {
    libcoap_through_carob_proxy: through_ours(Peer::Libcoap);
    aiocoap_through_carob_proxy: through_ours(Peer::Aiocoap);
    californium_through_carob_proxy: through_ours(Peer::Californium);
    go_coap_through_carob_proxy: through_ours(Peer::GoCoap);
    carob_through_libcoap_proxy: through_theirs(Peer::Libcoap);
    carob_through_aiocoap_proxy: through_theirs(Peer::Aiocoap);
}
