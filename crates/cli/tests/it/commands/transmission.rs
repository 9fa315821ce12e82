//! Effects of `--nstart`, `--ack-timeout` and `--max-retransmit` on the wire and in the output.

use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use crate::commands::harness::{LIMIT, Server, carob};

/// Sends a request to a silent host; returns the arrival times of its datagrams.
fn arrivals(verb: &str, others: &str) -> Vec<Instant> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let listener = thread::spawn(move || {
        let mut arrivals = Vec::new();
        let mut buffer = [0; 1_500];
        loop {
            match socket.recv_from(&mut buffer) {
                // An empty datagram from the test marks the end.
                Ok((0, _)) => return arrivals,
                Ok(_) => arrivals.push(Instant::now()),
                Err(error) => panic!("{error}"),
            }
        }
    });
    let uri = format!("coap://{address}/");
    let ran = carob(&format!("{verb} {uri} {others}"));
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let end = UdpSocket::bind("127.0.0.1:0").unwrap();
    end.send_to(&[], address).unwrap();
    listener.join().unwrap()
}

#[test]
fn ack_timeout_and_max_retransmit_options_set_transmissions() {
    for (verb, body) in [
        ("get", ""),
        ("put", "x"),
        ("post", "x"),
        ("delete", ""),
        ("observe", ""),
        ("ping", ""),
    ] {
        let arrived = arrivals(
            verb,
            &format!("{body} --ack-timeout 100ms --max-retransmit 2"),
        );
        assert_eq!(arrived.len(), 3, "{verb:?}");
        let first = arrived[1] - arrived[0];
        // ACK_TIMEOUT times up to ACK_RANDOM_FACTOR (1.5), plus slack for a busy machine. The default would be 2 to 3 s.
        let expected = Duration::from_millis(80)..Duration::from_millis(1_500);
        assert!(expected.contains(&first), "{verb:?}: {first:?}");
    }
}

#[test]
fn explicit_options_override_the_controller_and_are_shown() {
    let fasor = "--cc fasor --ack-timeout 100ms --deadline 2s";
    let arrived = arrivals("get", &format!("{fasor} --max-retransmit 0"));
    assert_eq!(arrived.len(), 1);
    let server = Server::start();
    let hello = server.path("hello");
    let parameters = |more: &str| {
        let ran = carob(&format!("get {hello} --json --timing {more}"));
        ran.json().remove(0)["timing"]["parameters"].clone()
    };
    let default = parameters("");
    assert_eq!(default["nstart"], 1);
    assert_eq!(default["ack_timeout_ms"], 2_000.0);
    assert_eq!(default["max_retransmit"], 4);
    let changed = parameters("--ack-timeout 9s --max-retransmit 5 --rto-max 32s --nstart 4");
    assert!(default["rto_max_ms"].is_null(), "RFC 7252 has no limit");
    assert_eq!(changed["nstart"], 4);
    assert_eq!(changed["ack_timeout_ms"], 9_000.0);
    assert_eq!(changed["max_retransmit"], 5);
    assert_eq!(changed["rto_max_ms"], 32_000.0);
    let line = "NSTART 4, ACK_TIMEOUT 500 ms, MAX_RETRANSMIT 4";
    for shown in ["-v", "--timing"] {
        let ran = carob(&format!(
            "get {hello} --nstart 4 --ack-timeout 500ms {shown}"
        ));
        assert!(ran.stderr.contains(line), "{shown}: {ran:?}");
        let ran = carob(&format!("get {hello} {shown}"));
        assert!(!ran.stderr.contains("NSTART"), "{shown}: {ran:?}");
    }
}

#[test]
fn parameters_out_of_range_are_refused() {
    for wrong in [
        ["--nstart", "0"],
        ["--max-retransmit", "31"],
        ["--ack-timeout", "5"],
    ] {
        let ran = carob(&[&["get", "coap://[::1]/"][..], &wrong].concat());
        assert!(ran.refused(2).contains(wrong[0]), "{ran:?}");
    }
}
