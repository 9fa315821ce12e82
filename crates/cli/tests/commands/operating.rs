//! What servers tell those who look after them.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::harness::{Server, carob};

/// What is at an `http://ADDRESS/PATH`.
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

/// Waits for a line in what is told.
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
fn a_server_tells_prometheus_what_was_asked_of_it() {
    let server = Server::with(&["--metrics", "127.0.0.1:0"]);
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
fn a_proxy_tells_of_both_its_sides() {
    let origin = Server::start();
    let route = format!("/there={}", origin.uri);
    let proxy = Server::proxy(&["--route", &route, "--metrics", "127.0.0.1:0"]);
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
fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = carob(&["serve", "--bind", "127.0.0.1:0", "--metrics", &address]);
    let text = ran.refused(4);
    assert!(
        text.contains(&address) && text.contains("--metrics"),
        "{text}"
    );
}
