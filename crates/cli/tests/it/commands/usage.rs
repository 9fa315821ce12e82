//! Usage errors: message, accepted values and remedy.

use std::net::{TcpListener, UdpSocket};

use crate::commands::harness::{LIMIT, Parts as _, carob};
use crate::process::Scratch;

/// Stderr of a command that fails with this code.
#[track_caller]
fn refused(code: i32, arguments: &[&str]) -> String {
    carob(arguments).refused(code).to_owned()
}

#[test]
fn folder_that_is_missing_or_a_file_is_an_error() {
    let scratch = Scratch::new();
    for path in [scratch.text("missing"), scratch.with("file", "x")] {
        let said = refused(1, &["serve", "--bind", "127.0.0.1:0", "--dir", &path]);
        let why = format!("cannot serve the folder {path}: ");
        assert!(said.contains(&why), "{said}");
    }
}

#[test]
fn a_uri_without_slashes_is_corrected() {
    let said = refused(2, &["get", "coap:/localhost"]);
    said.has(&["did you mean coap://localhost?"]);
}

#[test]
fn a_refused_connection_names_transport_and_port() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    for (scheme, expected) in [
        ("coap", "UDP port; the usual one of coap:// is 5683"),
        ("coap+tcp", "TCP port; the usual one of coap+tcp:// is 5683"),
        (
            "coaps+tcp",
            "TCP port; the usual one of coaps+tcp:// is 5684",
        ),
    ] {
        let said = refused(4, &["get", &format!("{scheme}://{address}/")]);
        said.has(&[expected]);
    }
}

#[test]
fn invalid_listen_port_is_a_usage_error() {
    for command in ["serve", "proxy"] {
        for option in ["--bind", "--tcp", "--dtls"] {
            let said = refused(2, &[command, option, "127.0.0.1:70000"]);
            said.has(&["\"70000\" is not a port (0 to 65535)"]);
        }
    }
}

#[test]
fn numbers_of_runs_and_states_are_at_least_one() {
    for command in [
        &["lab", "run", "--seeds", "0"][..],
        &["observe", "coap://[::1]/", "--count", "0"],
    ] {
        let said = refused(2, command);
        said.has(&["expected a whole number of at least 1"]);
    }
}

#[test]
fn a_pre_shared_key_needs_coaps() {
    for command in [
        &["get", "coap://localhost/"][..],
        &["put", "coap+tcp://localhost/", "x"],
        &["observe", "coap://localhost/"],
        &["ping", "coap://localhost"],
        &["discover", "localhost"],
    ] {
        let said = refused(2, &[command, &["--psk-identity", "me"]].concat());
        said.has(&["--psk-identity needs a coaps:// URI"]);
    }
}

#[test]
fn unknown_names_suggest_similar_ones() {
    let said = refused(2, &["get", "coap://[::1]/", "--cc", "cocoa-3"]);
    said.has(&[
        "--cc: unknown controller \"cocoa-3\"",
        "did you mean \"cocoa-03\"?",
    ]);
    assert!(
        said.matches('"').count() <= 8,
        "more than three suggestions: {said}"
    );
    said.has(&["hint: `carob cc list` explains all"]);
    let said = refused(2, &["get", "coap://[::1]/", "--option", "Hop-Limt=1"]);
    said.has(&["unknown option \"Hop-Limt\"; did you mean \"Hop-Limit\""]);
}

#[test]
fn silent_host_error_has_transmissions_and_remedy() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let uri = format!("coap://{}", silent.local_addr().unwrap());
    let times = ["--ack-timeout", "50ms", "--max-retransmit", "2"];
    let said = refused(3, &[&["get", &format!("{uri}/a?b")][..], &times].concat());
    let hint =
        format!("3 transmissions went unanswered; `carob ping {uri}` checks the host, -v shows");
    assert!(said.contains(&hint), "{said}");
    assert!(!said.contains("--deadline"), "{said}");
    let said = refused(3, &["get", &uri, "--deadline", "300ms"]);
    said.has(&[
        "1 transmission went unanswered",
        "--deadline allows more time",
    ]);
    let said = refused(3, &["ping", &uri, "--deadline", "300ms"]);
    said.has(&["1 ping went unanswered"]);
}

#[test]
fn a_final_2_31_is_a_failure() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let uri = format!("coap://{}/", socket.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let mut buffer = [0; 1_500];
        let (_, from) = socket.recv_from(&mut buffer).unwrap();
        let token = usize::from(buffer[0] & 0xf);
        // ACK with code 2.31, the same Message ID and Token.
        let mut response = vec![0x60 | buffer[0] & 0xf, 0x5f];
        response.extend_from_slice(&buffer[2..4 + token]);
        socket.send_to(&response, from).unwrap();
    });
    let said = refused(1, &["put", &uri, "x"]);
    said.has(&["answered a complete request with 2.31"]);
    server.join().unwrap();
}
