//! Memory of a server with connections that request large bodies and never read.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::process::{Running, answers_ping, free_port};

/// Limit of resident memory in KiB: `unsent_bytes` (64 MiB), 30 MiB for the program in a debug build, and buffers
/// between the endpoint and the connections' writers.
const HIGHEST: u64 = (64 + 30 + 36) << 10;

fn start(name: &str, port: u16, arguments: &[&str]) -> Running {
    let address = format!("127.0.0.1:{port}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_carob"));
    command.arg(name).args(["--bind", &address]).args(arguments);
    let mut running = Running::spawn(&mut command);
    running.wait_until(Duration::from_secs(30), |_| answers_ping(port));
    running
}

/// Opens connections that send a CSM without size limit and 32 requests for `path` in one write.
fn request_without_reading(port: u16, path: &[&str], connections: usize) -> Vec<TcpStream> {
    // Max-Message-Size 2^32 - 1 and Block-Wise-Transfer.
    let mut bytes = vec![0x60, 0xe1, 0x24, 0xff, 0xff, 0xff, 0xff, 0x20];
    let mut options = Vec::new();
    for segment in path {
        let delta = if options.is_empty() { 11 } else { 0 };
        options.push(delta << 4 | segment.len() as u8);
        options.extend_from_slice(segment.as_bytes());
    }
    for _ in 0..32 {
        bytes.extend_from_slice(&[(options.len() as u8) << 4, 0x01]);
        bytes.extend_from_slice(&options);
    }
    let connect = |_| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        // The server may already have closed the connection.
        let _ = stream.write_all(&bytes);
        stream
    };
    (0..connections).map(connect).collect()
}

/// Peak resident memory of a process in KiB.
fn highest(running: &Running) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", running.id()));
    let status = status.expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse().ok()).expect("a number")
}

fn assert_within_limit(running: &Running, port: u16) {
    // Three seconds, in which the responses fill the server's buffers.
    for _ in 0..30 {
        thread::sleep(Duration::from_millis(100));
        assert!(is_served(port), "UDP is served meanwhile");
    }
    let highest = highest(running);
    assert!(highest < HIGHEST, "{} MiB", highest >> 10);
}

/// Returns whether a request over UDP is answered within ten seconds.
fn is_served(port: u16) -> bool {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.connect(("127.0.0.1", port)).expect("loopback");
    let limit = Some(Duration::from_secs(10));
    socket.set_read_timeout(limit).expect("a time");
    let get = [0x40, 0x01, 0, 1, 0xb5, b'h', b'e', b'l', b'l', b'o'];
    socket.send(&get).is_ok() && socket.recv(&mut [0; 1_500]).is_ok()
}

#[cfg(target_os = "linux")]
#[test]
fn non_reading_connections_stay_within_unsent_bytes() {
    let port = free_port();
    let tcp = format!("127.0.0.1:{port}");
    let server = start("serve", port, &["--tcp", &tcp]);
    let streams = request_without_reading(port, &["large"], 64);
    assert_within_limit(&server, port);
    drop(streams);
}

/// Opens WebSocket connections that request `/large` 32 times and read the handshake response only.
fn request_over_websocket(port: u16, connections: usize) -> Vec<TcpStream> {
    const UPGRADE: &str = "GET /.well-known/coap HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
        Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
        Sec-WebSocket-Protocol: coap\r\nSec-WebSocket-Version: 13\r\n\r\n";
    // Binary frames masked with 0: a CSM with Max-Message-Size 2^32 - 1 and Block-Wise-Transfer, then requests.
    let frame = |message: &[u8]| {
        let head = [0x82, 0x80 | message.len() as u8, 0, 0, 0, 0];
        [&head, message].concat()
    };
    let mut bytes = frame(&[0, 0xe1, 0x24, 0xff, 0xff, 0xff, 0xff, 0x20]);
    for _ in 0..32 {
        bytes.extend(frame(b"\x00\x01\xb5large"));
    }
    let connect = |_| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.write_all(UPGRADE.as_bytes()).expect("it takes that");
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("an answer");
            answer.extend(byte);
        }
        assert!(answer.starts_with(b"HTTP/1.1 101"));
        // The server may already have closed the connection.
        let _ = stream.write_all(&bytes);
        stream
    };
    (0..connections).map(connect).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn websocket_connections_stay_within_unsent_bytes() {
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let server = start("serve", port, &["--ws", &address]);
    let streams = request_over_websocket(port, 150);
    assert_within_limit(&server, port);
    drop(streams);
}

#[cfg(target_os = "linux")]
#[test]
fn cached_proxy_responses_stay_within_unsent_bytes() {
    let (port, origin) = (free_port(), free_port());
    let tcp = format!("127.0.0.1:{port}");
    let _origin = start("serve", origin, &[]);
    let route = format!("/o=coap://127.0.0.1:{origin}");
    let arguments = ["--host", "127.0.0.1", "--tcp", &tcp, "--route", &route];
    let proxy = start("proxy", port, &arguments);
    let uri = format!("coap://127.0.0.1:{port}/o/large");
    let got = Command::new(env!("CARGO_BIN_EXE_carob"))
        .args(["get", &uri])
        .output();
    assert!(got.is_ok_and(|got| got.stdout.len() == 1 << 20));
    let streams = request_without_reading(port, &["o", "large"], 64);
    assert_within_limit(&proxy, port);
    drop(streams);
}
