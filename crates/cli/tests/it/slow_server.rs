//! Clients of a slow server, as people and programs meet them in the lab.

use std::process::{Command, Output};

use serde_json::Value;

fn carob(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_carob"))
        .arg("lab")
        .args(arguments)
        .output()
        .expect("the command starts")
}

fn says(arguments: &[&str]) -> String {
    let output = carob(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

fn refuses(arguments: &[&str]) -> String {
    let output = carob(arguments);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
    error
}

fn rows(arguments: &[&str]) -> Vec<Value> {
    let all = [arguments, &["--json"]].concat();
    let read = |line: &str| serde_json::from_str(line).expect("nothing but JSON");
    says(&all).lines().map(read).collect()
}

/// A server that is as slow as it takes for congestion to begin between 25 and 50 clients, and that
/// drops nothing.
const SLOW: [&str; 4] = ["--set", "service=60 ms", "--set", "receive_queue=1000"];

#[test]
fn a_run_says_how_many_requests_were_answered_and_how_fast() {
    let run = [
        "run",
        "retrycount/clients-100",
        "--seeds",
        "2",
        "--no-report",
    ];
    let text = says(&run);
    for word in ["answers/s", "answered", "at once", "per second of a run"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(
        text.contains("--set 'service=60 ms' --set receive_queue=1000"),
        "{text}"
    );
    // What other scenarios print has none of this.
    let other = [
        "run",
        "thesis/long-1c-none-2500",
        "--seeds",
        "2",
        "--no-report",
    ];
    assert!(!says(&other).contains("answers/s"));
}

#[test]
fn json_has_what_became_of_requests_and_the_server() {
    let run = ["run", "retrycount/clients-100", "--seeds", "2"];
    let rows = rows(&[&run[..], &SLOW].concat());
    assert_eq!(rows.len(), 4);
    for row in &rows {
        for metric in [
            "throughput_rps",
            "client_rps",
            "answered_ratio",
            "first_attempt_ratio",
            "server_handled",
            "server_repeated_ratio",
            "server_dropped",
            "server_queue",
            "server_busy_ratio",
        ] {
            assert!(row["metrics"][metric]["mean"].is_f64(), "{metric}: {row}");
        }
    }
    let mean = |row: &Value, metric: &str| row["metrics"][metric]["mean"].as_f64().expect("one");
    let [default, count] = [&rows[0], &rows[1]];
    assert_eq!(
        (&default["algorithm"], &count["algorithm"]),
        (&"default".into(), &"rtt-count".into())
    );
    // Three in four datagrams that the server works on are copies of what it has answered.
    assert!(mean(default, "server_repeated_ratio") > 0.6);
    assert!(mean(count, "throughput_rps") > 2.0 * mean(default, "throughput_rps"));
}

#[test]
fn lines_are_of_swept_numbers_and_say_so_where_there_is_none() {
    let few = [
        "--seeds",
        "2",
        "--algorithm",
        "default,rtt-count",
        "--no-report",
    ];
    let lines = ["run", "retrycount/clients", "--svg", "lines"];
    let lines = says(&[&lines[..], &["--metric", "throughput_rps"], &few].concat());
    assert!(lines.starts_with("<svg") && lines.contains("throughput_rps (1/s) against clients"));
    let none = ["run", "thesis/long-1c-none-2500", "--svg", "lines"];
    let error = refuses(&[&none[..], &["--seeds", "2", "--no-report"]].concat());
    assert!(error.contains("differ in a number"), "{error}");
}

#[test]
fn slow_claims_have_stored_verdicts_by_interpretation() {
    let kept = rows(&["claims", "retrycount", "--part", "clients"]);
    let ids: Vec<&str> = kept
        .iter()
        .filter_map(|claim| claim["id"].as_str())
        .collect();
    assert_eq!(ids.len(), 11);
    assert!(kept.iter().all(|claim| claim["stale"] == false));
    // The link before calibration: nothing is congested.
    let fast = ["claims", "retrycount", "--part", "clients", "--seeds", "2"];
    let link = [
        "--set",
        "down.rate=100 kbit/s",
        "--set",
        "up.rate=100 kbit/s",
    ];
    let fast = rows(&[&fast[..], &link].concat());
    let verdict = |claims: &[Value]| {
        let claim = claims.iter().find(|claim| claim["id"] == "retrycount-01");
        claim.expect("it is judged")["verdict"].clone()
    };
    assert_eq!(
        (verdict(&kept), verdict(&fast)),
        ("holds".into(), "fails".into())
    );
}

#[test]
fn what_a_server_cannot_be_is_refused_with_the_remedy() {
    let run = ["run", "retrycount/clients-10"];
    let error = refuses(&[&run[..], &["--algorithm", "tcp-newreno"]].concat());
    assert!(
        error.contains("over TCP") && error.contains("server.service out"),
        "{error}"
    );
    for (set, expected) in [
        ("receive_queue=0", "from 1 to 65536"),
        ("server.copies=maybe", "cost or free"),
        ("after_failure=again", "stop or next"),
        ("server.servise=1 s", "server.service"),
    ] {
        let error = refuses(&[&run[..], &["--set", set]].concat());
        assert!(error.contains(expected), "{set}: {error}");
    }
}
