//! `carob serve` and its demo resources.

use std::net::UdpSocket;

use serde_json::Value;

use crate::commands::harness::{Parts as _, Server, carob};
use crate::process::Scratch;

#[test]
fn posts_add_to_the_count() {
    let server = Server::start();
    let count = server.path("count");
    assert_eq!(carob(&format!("get {count}")).quiet(), "0");
    assert_eq!(carob(&format!("post {count}")).quiet(), "1");
    assert_eq!(carob(&format!("post {count} 41")).quiet(), "42");
    assert_eq!(carob(&format!("get {count}")).quiet(), "42");
    let refused = carob(&format!("post {count} many"));
    refused
        .refused(1)
        .has(&["4.00 Bad Request: expected a whole number"]);
}

#[test]
fn retransmission_count_option_needs_support_on_both_sides() {
    let other = ["--count-option", "65084"];
    for (serve, get, number, echoed) in [
        (&[][..], &[][..], 65_052, true),
        (&other, &other, 65_084, true),
        (&other, &[], 65_052, false),
    ] {
        let server = Server::with(serve);
        let count = server.path("count");
        let asked = [&["get", &count, "-v", "--cc", "fasor-option"], get].concat();
        let ran = carob(&asked);
        assert_eq!(ran.stdout(), "0");
        let lines: Vec<_> = ran.stderr.lines().collect();
        let [request, answer] = &lines[..] else {
            panic!("{lines:#?}")
        };
        let option = format!(" {number}=ff ");
        assert!(request.contains(&option), "{request}");
        assert_eq!(answer.contains(&option), echoed, "{answer}");
    }
}

#[test]
fn time_resource_is_in_utc() {
    let server = Server::start();
    let ran = carob(&["get", &server.path("time")]);
    let text = ran.quiet().trim_end();
    assert_eq!(text.len(), "2026-11-21T21:04:51Z".len(), "{text}");
    assert!(text.ends_with('Z') && text.as_bytes()[10] == b'T', "{text}");
}

#[test]
fn sensors_resource_honours_accept() {
    let server = Server::start();
    let sensors = server.path("sensors");
    for accept in [
        &[][..],
        &["--accept", "50"],
        &["--accept", "application/senml+json"],
    ] {
        let arguments = [&["get", &*sensors], accept].concat();
        let ran = carob(&arguments);
        let records: Value = serde_json::from_str(ran.quiet()).unwrap();
        assert_eq!(records[0]["u"], "Cel");
    }
    for accept in ["60", "112"] {
        let ran = carob(&format!("get {sensors} --accept {accept}"));
        assert_eq!(
            ran.bytes[..3],
            [0x82, 0xa4, 0x21],
            "two records, the first with bn"
        );
    }
    let xml = carob(&format!("get {sensors} --accept application/xml"));
    xml.refused(1).has(&["4.06 Not Acceptable"]);
}

#[test]
fn observable_resources_have_attribute_obs() {
    let scratch = Scratch::new();
    let folder = scratch.text("");
    for (arguments, root) in [
        (vec![], false),
        (vec!["--dir", &*folder], false),
        (vec!["--dir", &*folder, "--writable"], true),
    ] {
        let server = Server::with(&arguments);
        let ran = carob(&["get", &server.path(".well-known/core")]);
        let observable: Vec<_> = ran
            .quiet()
            .split(",<")
            .filter(|link| link.contains(";obs"))
            .map(|link| link.trim_start_matches('<').split('>').next().unwrap())
            .collect();
        let mut expected = vec!["/time", "/count"];
        if root {
            expected.insert(0, "/");
        }
        assert_eq!(observable, expected, "{arguments:?}");
    }
}

#[test]
fn sigint_stops_the_server() {
    let ran = Server::start().stop();
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
}

#[test]
fn slow_unvalidated_source_is_challenged_then_served() {
    let server = Server::with("--amplification-limit 127.0.0.0/8=on");
    let large = server.path("large");
    let ran = carob(&format!("get {large} -v"));
    assert_eq!((ran.code, ran.bytes.len()), (Some(0), 1 << 20), "{ran:?}");
    assert_eq!(
        ran.stderr.matches(" 4.01 Unauthorized").count(),
        1,
        "{}",
        ran.stderr
    );
    let bench = carob(&["bench", &server.path("large"), "--requests", "20", "--json"]).ended(0);
    let report = &bench.json()[0];
    assert_eq!(
        report["settings"]["amplification_limit"], "off",
        "by default"
    );
    assert!(report["messages"]["challenged"].as_u64().unwrap() > 0);
    // Loopback sources are exempt by default.
    let server = Server::start();
    let ran = carob(&["get", &server.path("large"), "-v"]);
    assert!(!ran.stderr.contains(" 4.01 Unauthorized"));
    let bench = carob(&["bench", &server.path("hello"), "--requests", "20"]);
    let said = bench.stdout();
    said.has(&["off by default for 127.0.0.1; 0 challenged"]);
}

#[test]
fn limits_are_set_by_their_names() {
    let server = Server::with("--limit observers=0 --limit upload-bytes=1KiB");
    let time = server.path("time");
    let refused = carob(&format!("observe {time} --count 2"));
    assert_eq!(refused.code, Some(1), "no room to observe: {refused:?}");
    let scratch = Scratch::new();
    let body = scratch.with("body", [7; 2_000]);
    let large = carob(&["post", &server.path("echo"), "--file", &body]);
    large.refused(1).has(&["4.13"]);
    let rate = ["--limit", "request_rate=1", "--limit", "request_burst=1"];
    let server = Server::with(&rate);
    let hello = server.path("hello");
    assert_eq!(carob(&format!("get {hello}")).code, Some(0));
    let refused = carob(&format!("get {hello}"));
    refused.refused(1).has(&["4.29"]);
}

#[test]
fn limits_are_listed_as_text_and_json() {
    let listed = carob("serve --limits");
    let text = listed.quiet();
    text.has(&["observers=32768\n    Observers of this endpoint"]);
    let all = carob("serve --limits --json").json();
    assert!(all.len() > 35, "{}", all.len());
    for limit in &all {
        let name = limit["name"].as_str().unwrap();
        let line = format!("{name}={}", limit["default"]);
        assert!(text.lines().any(|found| found == line), "{line}");
    }
}

#[test]
fn aggregate_option_accepts_all_or_a_prefix() {
    for given in ["--aggregate", "--aggregate=127.0.0.0/8", "--aggregate=all"] {
        let server = Server::with(&[given]);
        let ran = carob(&["get", &server.path("hello")]);
        assert_eq!(ran.code, Some(0), "{given}: {ran:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn several_sockets_share_one_port_and_state() {
    let server = Server::with("--sockets 3");
    let count = server.path("count");
    // Each request has a new source port, so that the kernel spreads them over the sockets.
    for _ in 0..12 {
        assert!(
            carob(&format!("post {count}"))
                .quiet()
                .parse::<u32>()
                .is_ok()
        );
    }
    assert_eq!(carob(&format!("get {count}")).quiet(), "12");
}

#[test]
fn sockets_option_is_validated() {
    let none = carob("serve --bind 127.0.0.1:0 --sockets 0").stderr;
    none.has(&["0 sockets at one port: there are 1 to 256"]);
    let both = carob("serve --bind 127.0.0.1:0 --sockets 2 --aggregate").stderr;
    both.has(&["a bottleneck group needs", "use one socket"]);
}

#[test]
fn q_block_is_accepted_unless_it_is_disabled() {
    // CON GET /large, Q-Block2 0/M/1024, from an address that is not validated.
    let request = b"\x40\x01\x00\x01\xb5large\xd1\x07\x0e";
    for (option, code) in [(&[][..], 0x81), (&["--no-q-block"], 0x82)] {
        let server = Server::with(option);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let wait = std::time::Duration::from_secs(10);
        socket.set_read_timeout(Some(wait)).unwrap();
        let address = server.uri.trim_start_matches("coap://");
        socket.send_to(request, address).unwrap();
        let mut response = [0; 1_500];
        socket.recv(&mut response).unwrap();
        assert_eq!(response[1], code, "{option:?}");
    }
}
