//! Transfers over TCP.

use serde_json::Value;

use crate::commands::harness::Parts as _;
use crate::lab::STREAM;
use crate::process::Scratch;

#[test]
fn tcp_transfers_have_metrics_and_sequences() {
    let folder = Scratch::new();
    let run = format!("lab run {STREAM} --seeds 2");
    let rows = folder.lines(&format!("{run} --json"));
    let names: Vec<&Value> = rows.iter().map(|row| &row["algorithm"]).collect();
    assert_eq!(names, ["tcp-newreno", "tcp-bbr1"]);
    for row in &rows {
        for metric in [
            "fct_s",
            "setup_s",
            "segments",
            "retransmissions",
            "rto_count",
            "queue_bytes",
        ] {
            assert_eq!(row["metrics"][metric]["n"], 2, "{metric}");
        }
    }
    let newreno = &rows[0]["metrics"];
    let (segments, again) = (
        &newreno["segments"]["p50"],
        &newreno["retransmissions"]["p50"],
    );
    let new = segments
        .as_f64()
        .zip(again.as_f64())
        .map(|(all, again)| all - again);
    assert_eq!(new, Some(402.0));
    let text = folder.stdout_of(&format!("{run} --report tcp.html"));
    text.has(&["tcp-newreno"]);
    let html = std::fs::read_to_string(folder.path("tcp.html")).expect("a report");
    assert!(html.contains("Sequence numbers over time") && html.contains("Box plots"));
}

#[test]
fn tcp_settings_are_shown_set_and_misspellings_suggested() {
    let folder = Scratch::new();
    let show = format!("lab show {STREAM} --set 'rto_max=60 s' --set tcp.sack=true");
    let text = folder.stdout_of(&show);
    assert!(
        text.contains("tcp.rto_max 60 s (changed)") && text.contains("tcp.sack true (changed)")
    );
    text.has(&["tcp.mss 256,", "tcp.bbr_era 2016"]);
    let shown = &folder.lines(&format!("{show} --json"))[0];
    let newreno = &shown["algorithms"][2];
    assert_eq!(
        (&newreno["name"], &newreno["transport"]),
        (&"tcp-newreno".into(), &"tcp".into())
    );
    assert_eq!(newreno["constants"]["sack"]["changed"], true);
    assert_eq!(newreno["constants"]["ack_delay"]["value"], "200 ms");
    assert_eq!(shown["algorithms"][0]["transport"], "udp");

    let error = folder.usage_error(&format!("lab run {STREAM} --set tcp.sakc=true"));
    error.has(&["did you mean \"tcp.sack\"?"]);

    let hash = |more: &str| {
        let run = format!("lab run {STREAM} --algorithm tcp-newreno --seed 1 --each --json {more}");
        folder.lines(&run)[0]["trace_hash"].clone()
    };
    assert_eq!(hash(""), hash("--threads 1"));
    assert_ne!(hash(""), hash("--set tcp.sack=true"));
    assert_ne!(hash(""), hash("--set queue=codel"));
}
