//! `carob observe`: notifications and termination.

use serde_json::{Value, json};

use crate::commands::harness::{LIMIT, Members as _, Parts as _, Running, Server, carob};
use crate::process::{Scratch, until};

fn event(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// Number of events with this name in the server's log.
fn logged(scratch: &Scratch, name: &str) -> usize {
    let events = scratch.json_lines("log");
    events.iter().filter(|event| event["event"] == name).count()
}

#[test]
fn notifications_are_lines_and_count_ends_the_observation() {
    let server = Server::start();
    let count = server.path("count");
    let mut running = Running::start(&format!("observe {count} --count 3"));
    assert_eq!(running.line(), "0");
    carob(&format!("post {count}")).quiet();
    assert_eq!(running.line(), "1");
    carob(&format!("post {count} 41")).quiet();
    assert_eq!(running.finish().quiet(), "0\n1\n42\n");
}

#[test]
fn duration_option_cancels_the_observation() {
    let scratch = Scratch::new();
    let log = scratch.text("log");
    let server = Server::with(&format!("--log {log}"));
    let ran = carob(&["observe", &server.path("count"), "--for", "300ms"]);
    assert_eq!(ran.quiet(), "0\n");
    server.stop();
    let of = |name| logged(&scratch, name);
    assert_eq!((of("observed"), of("unobserved")), (1, 1));
}

#[test]
fn sigint_cancels_the_observation() {
    for signal in ["INT", "TERM"] {
        let scratch = Scratch::new();
        let log = scratch.text("log");
        let server = Server::with(&format!("--log {log}"));
        let mut running = Running::start(&["observe", &server.path("count"), "--json"]);
        assert_eq!(event(&running.line())["event"], "state");
        running.signal(signal);
        let ran = running.finish();
        assert_eq!((ran.code, &*ran.stderr), (Some(130), ""), "{signal}");
        let last = ran.json().pop().unwrap();
        last.includes(json!({"event": "ended", "by": "client"}));
        server.stop();
        assert!(logged(&scratch, "unobserved") > 0, "{signal}");
    }
}

#[test]
fn json_events_are_objects() {
    let server = Server::start();
    let count = server.path("count");
    let mut running = Running::start(&format!("observe {count} --count 2 --json"));
    let first = event(&running.line());
    carob(&format!("post {count}")).quiet();
    let ran = running.finish();
    assert_eq!((ran.code, &*ran.stderr), (Some(0), ""));
    let [_, second, ended] = &ran.json()[..] else {
        panic!("{ran:?}")
    };
    for (state, payload) in [(&first, "0"), (second, "1")] {
        let code = "2.05";
        state.includes(json!({"event": "state", "code": code, "payload": payload, "uri": count}));
        assert!(state["rtt_ms"].as_f64().unwrap() > 0.0);
        assert!(state["options"].is_array() && state["time"].as_str().unwrap().ends_with('Z'));
    }
    let number = |state: &Value| state["observe"].as_u64().unwrap();
    assert!(number(second) > number(&first), "RFC 7641 3.4");
    ended.includes(json!({"event": "ended", "by": "client"}));
}

#[test]
fn unobservable_resource_is_printed_and_reported() {
    let server = Server::start();
    let hello = server.path("hello");
    let ran = carob(&format!("observe {hello}"));
    assert_eq!(
        (ran.code, ran.stdout()),
        (Some(1), "hello, this is 32 bytes of text\n")
    );
    ran.stderr.has(&["is not observable, or no longer"]);
    // --count 1 is satisfied by the response to the registration.
    let ran = carob(&format!("observe {hello} --count 1"));
    assert_eq!(
        (ran.code, ran.stdout()),
        (Some(0), "hello, this is 32 bytes of text\n")
    );
    let ran = carob(&["observe", &server.path("missing")]);
    ran.refused(1).has(&["4.04 Not Found"]);
}

#[test]
fn file_observation_ends_when_the_file_is_deleted() {
    let scratch = Scratch::new();
    scratch.with("file.txt", "one");
    let server = Server::serving(&scratch);
    let file = server.path("file.txt");
    let mut listing = Running::start(&["observe", &server.path(""), "--json"]);
    let mut running = Running::start(&format!("observe {file}"));
    assert_eq!(running.line(), "one");
    let listed = |listing: &mut Running| event(&listing.line())["payload"].to_string();
    listed(&mut listing).has(&["file.txt"]);
    // Larger than the read buffer and than a notification.
    let large = "x".repeat(100_000);
    carob(&["put", &server.path("other.txt"), "nothing to do with it"]);
    listed(&mut listing).has(&["other.txt"]);
    let source = scratch.with("source", &large);
    carob(&format!("put {file} --file {source}"));
    assert_eq!(running.line(), large);
    carob(&format!("delete {file}"));
    let ran = running.finish().ended(1);
    ran.stderr.has(&["4.04 Not Found"]);
}

#[test]
fn slow_silent_server_makes_the_representation_stale() {
    let server = Server::start();
    let uri = server.path("time");
    let mut running = Running::start(&format!("observe {uri} --json"));
    assert_eq!(event(&running.line())["event"], "state");
    let address = server.uri.trim_start_matches("coap://").to_owned();
    drop(server);
    loop {
        let event = event(&running.line());
        if event["event"] == "stale" {
            break;
        }
        assert_eq!(event["event"], "state");
    }
    // The observation is re-established with a new server at the same port.
    let _server = Server::at(&address, "");
    while event(&running.line())["event"] != "state" {}
}

#[test]
fn closed_pipe_ends_the_observation() {
    let scratch = Scratch::new();
    let log = scratch.text("log");
    let server = Server::with(&format!("--log {log}"));
    let uri = server.path("time");
    let script = format!(
        "'{}' observe '{uri}' | head -n 1",
        env!("CARGO_BIN_EXE_carob")
    );
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .output()
        .unwrap();
    assert_eq!(output.stderr, b"");
    assert_eq!(output.stdout.len(), "2026-11-21T21:04:51Z\n".len());
    until(LIMIT, "cancellation in the log", || {
        (logged(&scratch, "unobserved") > 0).then_some(())
    });
}
