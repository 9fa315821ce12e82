//! Scenarios with a slow server: `retrycount/*`.

use serde_json::Value;

use crate::commands::harness::Parts as _;
use crate::process::Scratch;

/// A server that gets congested between 25 and 50 clients and drops nothing.
const SLOW: &str = "--set 'service=60 ms' --set receive_queue=1000";

#[test]
fn run_of_slow_server_prints_response_rates() {
    let folder = Scratch::new();
    let text = folder.stdout_of("lab run retrycount/clients-100 --seeds 2 --no-report");
    text.has(&[
        "answers/s",
        "answered",
        "at once",
        "per second of a run",
        "--set 'service=60 ms' --set receive_queue=1000",
    ]);
    // Other scenarios do not print response rates.
    let other = "lab run thesis/long-1c-none-2500 --seeds 2 --no-report";
    assert!(!folder.stdout_of(other).contains("answers/s"));
}

#[test]
fn json_has_request_and_server_metrics() {
    let run = format!("lab run retrycount/clients-100 --seeds 2 {SLOW} --json");
    let rows = Scratch::new().lines(&run);
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
    assert_eq!(default["algorithm"], "default");
    assert_eq!(count["algorithm"], "rtt-count");
    // Three in four processed datagrams are retransmissions of answered requests.
    assert!(mean(default, "server_repeated_ratio") > 0.6);
    assert!(mean(count, "throughput_rps") > 2.0 * mean(default, "throughput_rps"));
}

#[test]
fn line_chart_needs_a_swept_number() {
    let folder = Scratch::new();
    let run = "lab run retrycount/clients --svg lines --metric throughput_rps";
    let few = "--seeds 2 --algorithm default,rtt-count --no-report";
    let lines = folder.stdout_of(&format!("{run} {few}"));
    assert!(lines.starts_with("<svg") && lines.contains("throughput_rps (1/s) against clients"));
}
