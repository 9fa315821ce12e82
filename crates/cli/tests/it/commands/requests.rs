//! `carob get`, `put`, `post` and the like: requests, output, exit codes and transmission parameters.

use std::io::Read as _;
use std::net::UdpSocket;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::commands::harness::{
    Members as _, Parts as _, Ran, Server, carob, carob_reading, command,
};
use crate::process::Scratch;
use crate::responder::Responder;

/// The value of an option in a response.
fn option<'a>(answer: &'a Value, name: &str) -> Option<&'a Value> {
    let options = answer["options"].as_array().unwrap();
    let found = options.iter().find(|option| option["name"] == name)?;
    Some(&found["value"])
}

#[test]
fn every_method_with_a_body_is_echoed() {
    let server = Server::start();
    let echo = server.path("echo");
    for (method, code) in [
        ("put", "2.04"),
        ("post", "2.04"),
        ("fetch", "2.05"),
        ("patch", "2.04"),
        ("ipatch", "2.04"),
    ] {
        assert_eq!(
            carob(&format!("{method} {echo} 'some text'")).quiet(),
            "some text"
        );
        let ran = carob(&[method, &echo, "{}", "--format", "json", "--json"]).ended(0);
        let [answer] = &ran.json()[..] else {
            panic!("{ran:?}")
        };
        answer.includes(json!({"code": code, "payload": "{}", "uri": echo}));
        assert_eq!(option(answer, "Content-Format"), Some(&50.into()));
    }
}

#[test]
fn body_from_stdin_or_from_file_with_format_by_extension() {
    let (server, scratch) = (Server::start(), Scratch::new());
    let echo = server.path("echo");
    let piped = carob_reading(&["post", &echo, "-"], b"piped");
    assert_eq!(piped.quiet(), "piped");
    let large: Vec<u8> = (0..50_000_u32).map(|n| n as u8).collect();
    assert_eq!(carob_reading(&["post", &echo, "-"], &large).bytes, large);
    for (name, format, told) in [
        ("a.json", None, Some(50)),
        ("a.cbor", None, Some(60)),
        ("a.unknown", None, None),
        ("b.json", Some("senml+json"), Some(110)),
    ] {
        let file = scratch.with(name, "[]");
        let mut arguments = vec!["post", &echo, "--file", &file, "--json"];
        arguments.extend(format.iter().flat_map(|format| ["--format", format]));
        let ran = carob(&arguments);
        let answer = &ran.json()[0];
        assert_eq!(answer["payload"], "[]");
        assert_eq!(
            option(answer, "Content-Format"),
            told.map(Value::from).as_ref(),
            "{name}"
        );
    }
    let missing = carob(&["post", &echo, "--file", &scratch.text("missing")]);
    missing.refused(1).has(&["cannot read"]);
}

#[test]
fn token_length_option_sets_the_token_length() {
    let server = Server::start();
    let hello = server.path("hello");
    let token = |line: &str| {
        let token = line.split_once(" token ").map_or("", |(_, rest)| rest);
        token.split(' ').next().unwrap_or_default().len() / 2
    };
    for (length, code) in [("0", 0), ("3", 0), ("20", 0), ("64", 0), ("300", 1)] {
        let ran = carob(&format!("get {hello} -v --token-length {length}"));
        let lines: Vec<_> = ran.stderr.lines().collect();
        let expected: usize = length.parse().unwrap();
        assert_eq!(
            (token(lines[0]), token(lines[1])),
            (expected, expected),
            "{lines:?}"
        );
        assert_eq!(ran.code, Some(code), "{ran:?}");
    }
}

#[test]
fn option_values_are_sent_unchanged() {
    let server = Server::start();
    let hello = server.path("hello");
    let ran = carob(&format!(
        "get {hello} -v --option 65000=0x00ff --option '65002=a b' --option Hop-Limit=16 --accept text --non"
    ));
    let sent = ran.stderr.lines().find(|line| line.contains('→')).unwrap();
    sent.has(&["NON GET"]);
    let options = "Uri-Path=hello Hop-Limit=16 Accept=text/plain 65000=00ff 65002=612062";
    assert!(sent.ends_with(options), "{sent}");
    // An unknown critical option is refused by the server (RFC 7252 5.4.1).
    let critical = carob(&format!("get {hello} --option 65001=x"));
    critical.refused(1).has(&["4.02 Bad Option"]);
}

#[test]
fn q_block_carries_downloads_files_and_stdin() {
    let scratch = Scratch::new();
    let server = Server::serving(&scratch);
    let body: Vec<u8> = (0..5_000_u32).map(|n| (n % 251) as u8).collect();
    let file = scratch.with("body.bin", &body);
    let carries = |ran: &Ran, option: &str| {
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.stderr.has(&[option]);
    };
    let (a, b, copy) = (
        server.path("a.bin"),
        server.path("b.bin"),
        scratch.text("copy.bin"),
    );
    let put = carob(&format!("put {a} --q-block on -v --file {file}"));
    carries(&put, "Q-Block1");
    assert_eq!(scratch.read("a.bin"), body);
    let put = carob_reading(&format!("put {b} - --q-block on -v"), &body);
    carries(&put, "Q-Block1");
    assert_eq!(scratch.read("b.bin"), body);
    carries(
        &carob(&format!("get {a} --q-block on -v -o {copy}")),
        "Q-Block2",
    );
    assert_eq!(scratch.read("copy.bin"), body);
}

#[test]
fn if_match_if_none_match_and_etag_are_sent() {
    let scratch = Scratch::new();
    let server = Server::serving(&scratch);
    let file = server.path("file.txt");
    let put =
        |text: &str, condition: &[&str]| carob(&[&["put", &file, text], condition].concat()).code;
    assert_eq!(
        put("one", &["--if-match", "any"]),
        Some(1),
        "no representation exists yet"
    );
    assert_eq!(put("one", &["--if-none-match"]), Some(0));
    assert_eq!(put("two", &["--if-none-match"]), Some(1));
    let ran = carob(&format!("get {file} --json"));
    let answer = &ran.json()[0];
    let etag = option(answer, "ETag").unwrap().as_str().unwrap();
    assert_eq!(answer["payload"], "one");
    let known = carob(&format!("get {file} --etag {etag}"));
    assert_eq!(
        (known.code, known.stdout(), &*known.stderr),
        (Some(0), "", "2.03 Valid\n")
    );
    assert_eq!(put("two", &["--if-match", "0011"]), Some(1));
    assert_eq!(
        put("two", &["--if-match", "0011", "--if-match", etag]),
        Some(0)
    );
    assert_eq!(carob(&format!("get {file} --etag {etag}")).quiet(), "two");
    assert_eq!(
        carob(&format!("delete {file} --if-match {etag}")).code,
        Some(1)
    );
    assert_eq!(
        carob(&format!("delete {file} --if-match any")).code,
        Some(0)
    );
}

#[test]
fn several_uris_run_in_order_and_worst_exit_code_wins() {
    let server = Server::start();
    let [hello, missing, count] = ["hello", "missing", "count"].map(|path| server.path(path));
    let ran = carob(&format!("get {hello} {count}"));
    assert_eq!(
        ran.quiet(),
        "hello, this is 32 bytes of text\n0",
        "bodies and nothing else"
    );
    let ran = carob(&format!("get {hello} {missing} {count}")).ended(1);
    assert_eq!(
        ran.stdout(),
        "hello, this is 32 bytes of text\n0",
        "it goes on after a refusal"
    );
    assert_eq!(
        ran.stderr.matches("4.04 Not Found").count(),
        1,
        "{}",
        ran.stderr
    );
    let ran = carob(&format!("get {missing} {hello} {count} --json")).ended(1);
    let answers = ran.json();
    let codes: Vec<_> = answers
        .iter()
        .map(|answer| (&answer["uri"], &answer["code"]))
        .collect();
    assert_eq!(
        codes,
        [
            (&Value::from(missing), &Value::from("4.04")),
            (&Value::from(hello), &Value::from("2.05")),
            (&Value::from(count), &Value::from("2.05")),
        ]
    );
}

#[test]
fn invalid_uri_is_found_before_the_first_request() {
    let server = Server::start();
    let count = server.path("count");
    let ran = carob(&format!("delete {count} coap:/nonsense"));
    ran.refused(2).has(&["bad URI"]);
}

#[test]
fn json_reports_unreachable_servers() {
    let unused = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = unused.local_addr().unwrap();
    drop(unused);
    let uri = format!("coap://{address}");
    for command in ["get", "ping"] {
        let ran = carob(&format!("{command} {uri} --json --timing")).ended(4);
        let answer = &ran.json()[0];
        assert_eq!(answer["uri"], *uri);
        assert!(
            answer["error"]
                .as_str()
                .unwrap()
                .contains("cannot be reached"),
            "{answer}"
        );
        assert_eq!(answer["timing"]["exchanges"], 1);
        ran.stderr.has(&["cannot be reached"]);
    }
}

#[test]
fn ping_prints_the_address() {
    let server = Server::start();
    let host = server.uri.strip_prefix("coap://").unwrap();
    let ran = carob(&["ping", &server.uri, host]);
    assert_eq!(
        ran.quiet()
            .matches(&format!("{} responds: ", server.uri))
            .count(),
        2
    );
}

#[test]
fn output_file_is_replaced_only_on_success() {
    let (server, scratch) = (Server::start(), Scratch::new());
    let file = scratch.text("large.bin");
    assert_eq!(
        carob(&["get", &server.path("large"), "-o", &file]).quiet(),
        ""
    );
    let bytes = scratch.read("large.bin");
    assert_eq!(bytes.len(), 1 << 20);
    let ran = carob(&["get", &server.path("missing"), "-o", &file]);
    ran.refused(1).has(&["4.04"]);
    assert_eq!(scratch.read("large.bin"), bytes);
    let ran = carob(&["get", &server.path("hello"), "-o", &file, "--json"]);
    let answer = &ran.json()[0];
    answer.includes(json!({"file": file, "bytes": 32}));
    assert_eq!(answer.get("payload"), None);
}

#[test]
fn partial_files_of_killed_processes_are_removed() {
    let (server, scratch) = (Server::start(), Scratch::new());
    for left in ["out.1.part", "out.x.part", "other.1.part"] {
        scratch.with(left, "left");
    }
    let running = std::fs::File::create(scratch.path("out.2.part")).unwrap();
    running.try_lock().unwrap();
    carob(&["get", &server.path("hello"), "-o", &scratch.text("out")]).ended(0);
    assert_eq!(scratch.read("out").len(), 32);
    assert!(!scratch.path("out.1.part").exists());
    for stays in ["out.2.part", "out.x.part", "other.1.part"] {
        assert!(scratch.path(stays).exists(), "{stays}");
    }
}

#[test]
fn closed_pipe_is_not_an_error() {
    let server = Server::start();
    let mut child = command(&["get", &server.path("large")])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 10]).unwrap();
    drop(out);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]));
}

#[test]
fn created_response_shows_its_code() {
    let scratch = Scratch::new();
    let server = Server::serving(&scratch);
    let ran = carob(&["put", &server.path("new"), "x"]);
    assert_eq!(
        (ran.code, ran.stdout(), &*ran.stderr),
        (Some(0), "", "2.01 Created\n")
    );
    assert_eq!(scratch.read("new"), b"x");
}

#[test]
fn slow_no_response_request_ends_with_its_ack() {
    let server = Server::start();
    let (echo, nothing) = (server.path("echo"), server.path("nothing"));
    for message in [&[][..], &["--non"]] {
        let mut arguments = vec!["put", &echo, "some text", "--no-response", "--json"];
        arguments.extend(message);
        let ran = carob(&arguments).ended(0);
        let [answer] = &ran.json()[..] else {
            panic!("{ran:?}")
        };
        answer.includes(json!({"unanswered": true, "attempts": 1}));
    }
    let ran = carob(&format!("put {echo} 'some text' --no-response"));
    ran.stderr.has(&["as No-Response requested"]);
    // Errors are still reported, and so are responses that arrive anyway.
    carob(&format!("get {nothing} --no-response=2xx")).ended(1);
    let ran = carob(&format!("get {nothing} --no-response=4xx,5xx --json"));
    assert_eq!(
        (ran.code, &ran.json()[0]["unanswered"]),
        (Some(0), &true.into())
    );
}

/// Sends a request to a silent host; returns the arrival times of its datagrams.
fn arrivals(verb: &str, others: &str) -> Vec<Instant> {
    let arrivals = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::clone(&arrivals);
    let silent = Responder::start(move |_| {
        shared.lock().unwrap().push(Instant::now());
        vec![]
    });
    carob(&format!("{verb} {} {others}", silent.uri())).ended(3);
    // Stops the host, after it has received all.
    drop(silent);
    core::mem::take(&mut *arrivals.lock().unwrap())
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
    default.includes(json!({"nstart": 1, "ack_timeout_ms": 2_000.0, "max_retransmit": 4}));
    let changed = parameters("--ack-timeout 9s --max-retransmit 5 --rto-max 32s --nstart 4");
    assert!(default["rto_max_ms"].is_null(), "RFC 7252 has no limit");
    changed.includes(json!({"nstart": 4, "max_retransmit": 5}));
    changed.includes(json!({"ack_timeout_ms": 9_000.0, "rto_max_ms": 32_000.0}));
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
