//! Metrics, health checks and the systemd unit.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::commands::harness::{Parts as _, Server, carob};
use crate::process::Scratch;

/// Fetches `http://ADDRESS/PATH`.
fn fetch(uri: &str) -> String {
    let rest = uri.strip_prefix("http://").unwrap();
    let (address, path) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
    response
}

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
    let wrong = carob("serve --health health");
    wrong.refused(2).has(&["such as /health"]);
}

fn read(path: &str) -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap()
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
