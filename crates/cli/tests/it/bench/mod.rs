//! `carob bench` against correct, faulty and silent servers: counters are consistent. Speed is not tested.
#![cfg(unix)]

pub(crate) mod report;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::commands::harness::{Members as _, Parts as _, Running, Server};
use crate::process::Scratch;
use crate::responder::{Message, Responder};
use report::{adds_up, bench, count, flawless, report};
use serde_json::{Value, json};

/// Bytes of `/large`.
const LARGE: u64 = 1 << 20;
const SHORT: &str = "--duration 500ms --warm-up 10ms";

#[test]
fn slow_counters_of_every_kind_of_load_add_up() {
    let server = Server::writable();
    let uri = &server.uri;
    for words in [
        "hello",
        "hello --non",
        "hello --outstanding 64 --ports 8",
        "hello --outstanding 9 --ports 4 --threads 2",
        "hello --cc cocoa-03",
        "hello --rate 500/s",
        "hello --rate 500/s --arrivals poisson --threads 2 --outstanding 50 --ports 3",
        // Bounded: the server keeps the ID of each POST for EXCHANGE_LIFETIME (RFC 7252 4.5).
        "echo --mode post --payload hi --requests 20000",
        "echo --mode post --bytes 1000 --requests 100",
    ] {
        let report = flawless(&format!("{uri}/{words} {SHORT}"));
        assert_eq!(report["unit"], "request");
        assert!(count(&report["messages"]["sent"]) > 0, "{report}");
    }
}

#[test]
fn slow_block_wise_bodies_count_once_with_their_bytes() {
    let server = Server::writable();
    let uri = &server.uri;
    for words in ["", "--nstart 8", "--threads 2", "--block-size 512"] {
        let words = format!("{uri}/large --mode block --ports 2 --requests 4 {words}");
        let report = flawless(&words);
        report.includes(json!({"answered": 4, "bytes": 4 * LARGE, "unit": "body"}));
    }
    for words in ["", "--method post", "--block-size 64 --non"] {
        let path = if words.contains("post") {
            "echo"
        } else {
            "up.bin"
        };
        let words =
            format!("{uri}/{path} --mode upload --bytes 20000 --ports 1 --requests 3 {words}");
        let report = flawless(&words);
        assert_eq!(report["bytes"], 60_000, "{words}: {report}");
        assert!(
            count(&report["messages"]["sent"]) >= 60,
            "{words}: {report}"
        );
    }
}

#[test]
fn requests_option_is_an_exact_count() {
    let server = Server::writable();
    let uri = &server.uri;
    for words in ["", "--threads 3", "--rate 1000/s", "--outstanding 40"] {
        let report = flawless(&format!("{uri}/hello --requests 101 {words}"));
        report.includes(json!({"requests": 101, "warm_up": {"requests": 0}}));
    }
}

#[test]
fn unattainable_rate_is_reported() {
    let server = Server::writable();
    let uri = &server.uri;
    let words = format!("{uri}/hello --rate 5000000/s --duration 300ms --warm-up 0s");
    let report = flawless(&words);
    let open = &report["open_loop"];
    assert!(count(&open["not_sent"]) > 0, "{report}");
    let intended = count(&open["intended"]);
    assert!((1_499_999..=1_500_001).contains(&intended), "{report}");
}

#[test]
fn error_responses_are_counted_by_code_and_set_the_exit_code() {
    let server = Server::writable();
    let uri = &server.uri;
    let (report, code) = report(&format!("{uri}/nothing-here --requests 20"));
    assert_eq!((code, &report["errors"]["4.04"]), (1, &Value::from(20)));
    assert_eq!(report["answered"], 0);
}

#[test]
fn a_closed_port_ends_the_run_after_the_timeout_with_the_count() {
    let port = crate::process::free_port();
    let (report, code) = report(&format!(
        "coap://127.0.0.1:{port}/ --timeout 500ms --ports 3"
    ));
    assert_eq!(code, 3, "{report}");
    assert!(count(&report["errors"]["unreachable"]) >= 3, "{report}");
    assert!(
        report["unreachable"].as_str().unwrap().contains("refused"),
        "{report}"
    );
}

#[test]
fn slow_silent_server_ends_run_after_timeout_with_count() {
    let silent = Responder::silent();
    let began = Instant::now();
    for words in ["", "--rate 100/s --outstanding 3", "--non"] {
        let ran = bench(&format!(
            "{} --timeout 500ms --ports 3 {words}",
            silent.uri()
        ));
        assert_eq!(ran.code, Some(3), "{words}");
        assert!(
            ran.stdout().contains("no answer in time"),
            "{words}: {ran:?}"
        );
        assert!(
            ran.stderr.contains("answered no request within 0.5 s"),
            "{words}: {ran:?}"
        );
    }
    assert!(
        began.elapsed() >= Duration::from_millis(1_500),
        "the timeout was waited for"
    );
    let (report, _) = report(&format!("{} --timeout 500ms --ports 3", silent.uri()));
    assert_eq!(report["errors"]["timeout"], 3, "{report}");
}

#[test]
fn responses_with_a_wrong_token_or_message_id_are_counted() {
    let token: fn(&Message) -> Message = |request| request.answer().with_token(b"!?");
    let id: fn(&Message) -> Message = |request| request.answer().with_id(request.id() ^ 0x8000);
    for (wrong, answer) in [("token", token), ("message_id", id)] {
        let server = Responder::start(move |request| vec![answer(request)]);
        let words = format!("{} --timeout 300ms --ports 2 --requests 2", server.uri());
        let (report, code) = report(&words);
        assert_eq!(
            (code, &report["errors"]["timeout"]),
            (3, &2.into()),
            "{wrong}"
        );
        report["messages"]["wrong"].includes(json!({wrong: 2, "total": 2}));
    }
}

#[test]
fn malformed_and_late_messages_are_counted() {
    let server = Responder::start(|request| {
        let mut noise = request.answer();
        noise.bytes.truncate(3);
        // A GET in an acknowledgement, and a delayed duplicate of the response.
        let mut kind = request.answer();
        kind.bytes[1] = 0x01;
        vec![noise, kind, request.answer(), request.answer()]
    });
    let report = report(&format!("{} --ports 1 --requests 5", server.uri())).0;
    assert_eq!(report["answered"], 5, "{report}");
    let messages = &report["messages"];
    // The duplicate of the last response may arrive after the socket is closed.
    assert!((4..=5).contains(&count(&messages["late"])), "{report}");
    messages["wrong"].includes(json!({"malformed": 5, "kind": 5}));
}

#[test]
fn reset_is_counted_as_an_error() {
    let server = Responder::start(|request| vec![request.reset()]);
    let (report, code) = report(&format!("{} --ports 2 --requests 6", server.uri()));
    assert_eq!((code, &report["errors"]["reset"]), (4, &6.into()));
}

#[test]
fn slow_lost_requests_are_retransmitted() {
    let mut seen = std::collections::BTreeSet::new();
    let server = Responder::start(move |request| {
        let again = !seen.insert((request.from, request.id()));
        again.then(|| request.answer()).into_iter().collect()
    });
    let report = flawless(&format!("{} --ports 4 --requests 4", server.uri()));
    report["messages"].includes(json!({"retransmissions": 4, "sent": 8}));
    assert!(
        report["latency_us"]["min"].as_f64().unwrap() >= 2e6,
        "ACK_TIMEOUT"
    );
}

#[test]
fn body_of_another_length_under_the_same_etag_is_an_error() {
    let mut count = 0_u8;
    let server = Responder::start(move |request| {
        count += 1;
        let body = vec![b'x'; usize::from(count / 3) + 1];
        vec![request.answer().with_etag_and_payload(b"e", &body)]
    });
    let (report, code) = report(&format!(
        "{} --mode block --ports 1 --requests 6",
        server.uri()
    ));
    // Lengths 1, 1, 2, 2, 2, 3: only the first two agree.
    assert_eq!((code, &report["answered"]), (0, &2.into()));
    assert_eq!(report["errors"]["body_differs"], 4, "{report}");
}

#[test]
fn open_loop_latency_includes_the_send_delay() {
    let mut first = true;
    let server = Responder::start(move |request| {
        if core::mem::take(&mut first) {
            thread::sleep(Duration::from_millis(400));
        }
        vec![request.answer()]
    });
    let words = format!("{} --ports 1 --requests 40", server.uri());
    let report = flawless(&format!("{words} --rate 100/s --outstanding 1"));
    // Scheduled at 0, 10, ... 390 ms; the first response at 400 ms delays all others.
    let latency = &report["latency_us"];
    assert!(latency["p50"].as_f64().unwrap() >= 190e3, "{report}");
    assert!(count(&report["open_loop"]["late"]) >= 38, "{report}");
    assert!(report["open_loop"]["longest_delay_us"].as_f64().unwrap() >= 380e3);
}

#[test]
fn a_source_port_is_replaced_before_its_message_ids_recur() {
    let ids = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = Arc::clone(&ids);
    let server = Responder::start(move |request| {
        noted
            .lock()
            .unwrap()
            .push((request.from.port(), request.id()));
        vec![request.answer()]
    });
    let words = "--ports 2 --outstanding 4 --port-messages 10 --requests 205";
    flawless(&format!("{} {words}", server.uri()));
    let mut ids = core::mem::take(&mut *ids.lock().unwrap());
    assert_eq!(ids.len(), 205);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 205, "a Message ID came twice from one port");
    let of_port = ids.chunk_by(|a, b| a.0 == b.0).map(<[_]>::len);
    assert!(of_port.clone().all(|count| count <= 10), "{ids:?}");
    // How the two lanes share the work varies.
    assert!((21..=22).contains(&of_port.count()), "{ids:?}");
}

#[test]
fn ctrl_c_prints_partial_results() {
    let server = Server::writable();
    let uri = &server.uri;
    let words = format!("bench {uri}/hello --duration 60s --warm-up 0s --json");
    let running = Running::start(&words);
    // Long enough for some responses, far less than the duration of the load.
    thread::sleep(Duration::from_millis(700));
    running.signal("INT");
    let ran = running.finish().ended(130);
    let report = ran.json().remove(0);
    adds_up("interrupted", &report);
    assert_eq!(report["interrupted"], true);
    assert!(count(&report["answered"]) > 0, "{report}");
    assert!(report["seconds"].as_f64().unwrap() < 30.0);
}

#[test]
fn distribution_and_server_cpu_time_on_request() {
    let scratch = Scratch::new();
    let file = scratch.path("latency.hgrm");
    let server = Server::writable();
    let uri = &server.uri;
    let words = format!("{uri}/hello --requests 500 --histogram {}", file.display());
    let server = if cfg!(target_os = "linux") {
        // Any live process will do.
        format!("--server-pid {}", std::process::id())
    } else {
        String::new()
    };
    let report = flawless(&format!("{words} {server}"));
    assert_eq!(report["server"].is_null(), server.is_empty());
    let text = std::fs::read_to_string(&file).unwrap();
    let last = text.lines().rfind(|line| !line.starts_with('#')).unwrap();
    let columns: Vec<f64> = last
        .split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect();
    let [value, quantile, total] = columns[..] else {
        panic!("{last}");
    };
    assert!((quantile - 1.0).abs() < 1e-9, "{last}");
    assert_eq!(total as u64, 500);
    assert!(
        (value - report["latency_us"]["max"].as_f64().unwrap()).abs() < 1e-3,
        "{last}"
    );
    text.has(&["#[Mean    ="]);
}

#[test]
fn table_shows_the_load_and_its_results() {
    let server = Server::writable();
    let uri = &server.uri;
    let ran = bench(&format!("{uri}/hello --requests 1200"));
    // stderr is empty: progress is shown on terminals only.
    let said = ran.quiet();
    said.has(&[
        "/hello: 16 outstanding over 16 ports, CON, default",
        "requests              1,200\n",
        "answered 2.xx       1,200\n",
        "p99.9",
        "generator's CPU",
    ]);
}
