//! Metrics, health checks, the systemd unit, and a limit on open files (RLIMIT_NOFILE), as `prlimit` sets it.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::commands::harness::{Parts as _, Server, carob, fetch};
use crate::process::Scratch;

/// Waits for a line of the metrics page.
fn expect(uri: &str, line: &str) {
    let began = Instant::now();
    loop {
        let text = fetch(uri);
        if text.lines().any(|it| it == line) {
            return;
        }
        assert!(
            began.elapsed() < Duration::from_secs(8),
            "no {line} in\n{text}"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn server_exports_request_metrics() {
    let server = Server::with("--metrics 127.0.0.1:0");
    let metrics = server.metrics.clone().unwrap();
    for _ in 0..3 {
        carob(&["get", &server.path("hello")]).quiet();
    }
    carob(&["get", &server.path("nothing")]).refused(1);
    let line = |code: &str, count| {
        format!("carob_requests_total{{code=\"{code}\",method=\"GET\",scheme=\"coap\"}} {count}")
    };
    expect(&metrics, &line("2.05", 3));
    expect(&metrics, &line("4.04", 1));
    expect(&metrics, "carob_handlers{scheme=\"coap\"} 0");
}

#[test]
fn proxy_exports_metrics_of_both_sides() {
    let origin = Server::start();
    let route = format!("/there={}", origin.uri);
    let proxy = Server::proxy(&format!("--route {route} --metrics 127.0.0.1:0"));
    let metrics = proxy.metrics.clone().unwrap();
    carob(&["get", &proxy.path("there/hello")]).quiet();
    for line in [
        "carob_requests_total{code=\"2.05\",method=\"GET\",scheme=\"coap\"} 1",
        "carob_responses_total{code=\"2.05\",scheme=\"coap\"} 1",
        "carob_transmissions_total{kind=\"request\",scheme=\"coap\"} 1",
    ] {
        expect(&metrics, line);
    }
}

#[test]
fn metrics_address_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = carob(&format!("serve --bind 127.0.0.1:0 --metrics {address}"));
    let text = ran.refused(4);
    assert!(
        text.contains(&address) && text.contains("--metrics"),
        "{text}"
    );
}

#[test]
fn health_option_sets_the_path() {
    let server = Server::with("--health /health");
    let text = carob(&["get", &server.path("health")]).quiet().to_owned();
    assert!(text.starts_with("ok\nuptime "), "{text}");
    let json = carob(&["get", &server.path("health"), "--accept", "json"]);
    json.quiet().has(&["\"state\":\"ok\""]);
    carob(&["get", &Server::start().path("health")]).refused(1);
}

fn read(path: &str) -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).unwrap()
}

#[test]
fn systemd_unit_starts_a_server() {
    let unit = read("packaging/carob.service");
    let line = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart=/usr/bin/carob serve "));
    let scratch = Scratch::new();
    let keys = scratch.with("psk", "sensor:correct horse\n");
    let line = line.unwrap().replace("%d/psk", &keys);
    let line = line
        .replace(":5683", ":0")
        .replace(":5684", ":0")
        .replace(":9683", ":0");
    let arguments: Vec<&str> = line.split(' ').collect();
    let ["--bind", _, arguments @ ..] = &arguments[..] else {
        panic!("{line}")
    };
    let server = Server::with(arguments);
    let with_key = ["--psk-identity", "sensor", "--psk-file", &keys];
    let uri = server.over("coaps", "hello").replace("[::]", "localhost");
    carob(&[&["get", &uri][..], &with_key].concat()).quiet();
    fetch(&server.metrics.unwrap());
}

#[test]
fn documented_metrics_exist() {
    let names = read("crates/carob/src/metrics/names.md");
    let page = read("docs/operate/metrics.md");
    let words = page.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let named: Vec<&str> = words.filter(|word| word.starts_with("carob_")).collect();
    assert!(named.len() > 20, "{named:?}");
    for name in named.into_iter().filter(|name| *name != "carob_proto") {
        assert!(names.contains(&format!("| `{name}` |")), "{name}");
    }
}

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
