//! Transfers over TCP.

use serde_json::{Value, json};

use crate::commands::harness::{Members as _, Parts as _};
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
    let html = folder.read_text("tcp.html");
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
    shown["algorithms"][2].includes(json!({
        "name": "tcp-newreno",
        "transport": "tcp",
        "constants": {"sack": {"changed": true}, "ack_delay": {"value": "200 ms"}},
    }));
    assert_eq!(shown["algorithms"][0]["transport"], "udp");

    let hash = |more: &str| {
        let run = format!("lab run {STREAM} --algorithm tcp-newreno --seed 1 --each --json {more}");
        folder.lines(&run)[0]["trace_hash"].clone()
    };
    assert_eq!(hash(""), hash("--threads 1"));
    assert_ne!(hash(""), hash("--set tcp.sack=true"));
    assert_ne!(hash(""), hash("--set queue=codel"));
}
