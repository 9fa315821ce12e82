//! A server under a limit on open files (RLIMIT_NOFILE), as `prlimit` sets it.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::commands::harness::{Server, carob};
use crate::process::Scratch;

/// Returns whether `prlimit` is installed.
fn can_limit() -> bool {
    let ran = Command::new("prlimit").arg("--version").output();
    let there = ran.is_ok_and(|ran| ran.status.success());
    if !there {
        eprintln!("skipped: needs prlimit of util-linux");
    }
    there
}

/// The port in a URI with a path.
fn port_of(uri: &str) -> u16 {
    let (authority, _) = uri.rsplit_once('/').unwrap();
    let (_, port) = authority.rsplit_once(':').unwrap();
    port.parse().unwrap()
}

/// GET /large: the response exceeds the socket's send buffer.
const GET: &[u8] = b"\x60\x01\xb5large";
/// The empty CSM that starts a connection (RFC 8323 5.3).
const CSM: [u8; 2] = [0x00, 0xe1];

#[test]
fn the_soft_limit_on_open_files_is_raised_to_the_hard_one() {
    if !can_limit() {
        return;
    }
    let server = Server::under(&["prlimit", "--nofile=100:2000"], &[]);
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let numbers: Vec<&str> = line.unwrap().split_whitespace().skip(3).collect();
    assert_eq!(numbers[..2], ["2000", "2000"]);
}

#[test]
fn connections_of_one_host_leave_others_connections_and_files() {
    if !can_limit() {
        return;
    }
    let scratch = Scratch::new();
    scratch.with("file", "a file");
    let folder = scratch.text("");
    let server = Server::under(
        &["prlimit", "--nofile=160:160"],
        &["--tcp", "127.0.0.1:0", "--dir", &folder],
    );
    let uri = server.over("coap+tcp", "hello");
    let port: u16 = port_of(&uri);
    let at = SocketAddr::from(([127, 0, 0, 1], port));
    // More than RLIMIT_NOFILE allows. The server closes some of them; the test keeps its ends open like a host that
    // keeps connecting.
    let mut held: Vec<TcpStream> = Vec::new();
    for _ in 0..400 {
        let mut stream = connect_from([127, 0, 0, 2], at);
        // The server may have closed it already.
        let _ = stream.write_all(&[&CSM[..], GET].concat());
        held.push(stream);
    }
    let file = carob(&["get", &server.path("file"), "--deadline", "10s"]);
    assert_eq!(file.quiet(), "a file", "over UDP, from a file");
    let began = Instant::now();
    let hello = carob(&format!("get {uri} --deadline 10s"));
    assert!(hello.quiet().starts_with("hello"), "over a connection");
    assert!(began.elapsed() < Duration::from_secs(5));
    // Bounded by the server's descriptors.
    let open = held.iter_mut().map(is_open).filter(|open| *open).count();
    assert!((10..=96).contains(&open), "{open} are open");
    let ran = server.stop();
    assert!(!ran.stderr.contains("Too many open files"), "{ran:?}");
}

/// Connects from another loopback address.
fn connect_from(from: [u8; 4], to: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        let connected = tokio::time::timeout(Duration::from_secs(5), socket.connect(to));
        connected.await.unwrap().unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream
}

/// Number of open descriptors of the server.
fn open_files(server: &Server) -> usize {
    let all = fs::read_dir(format!("/proc/{}/fd", server.id()));
    all.unwrap().count()
}

fn is_open(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let mut bytes = [0; 64];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}

#[test]
fn running_out_of_descriptors_is_reported_once() {
    if !can_limit() {
        return;
    }
    let tcp = ["--tcp", "127.0.0.1:0"];
    let needed = open_files(&Server::with(&tcp));
    // Leaves one descriptor for connections and none for the reserve.
    let limit = format!("--nofile={0}:{0}", needed + 1);
    let server = Server::under(&["prlimit", &limit], &tcp);
    let uri = server.over("coap+tcp", "hello");
    let port: u16 = port_of(&uri);
    let connect = |_| TcpStream::connect(("127.0.0.1", port)).unwrap();
    let held: Vec<TcpStream> = (0..8).map(connect).collect();
    // accept is retried every 100 ms: without rate limiting there would be ten messages.
    std::thread::sleep(Duration::from_secs(1));
    let ran = server.stop();
    assert_eq!(
        ran.stderr.matches("Too many open files").count(),
        1,
        "{ran:?}"
    );
    drop(held);
}
