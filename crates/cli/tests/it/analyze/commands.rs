//! Options, output and errors.

use std::fs;

use serde_json::Value;

use crate::commands::harness::{Parts as _, Server, carob};
use crate::process::Scratch;

/// Returns the capture and the event log of a download of 1024 blocks over loopback.
fn download(scratch: &Scratch) -> [String; 2] {
    let server = Server::start();
    let [pcap, log] = ["get.pcapng", "get.jsonl"].map(|name| scratch.text(name));
    let body = scratch.text("large.bin");
    let large = server.path("large");
    carob(&format!("get {large} -o {body} --pcap {pcap} --log {log}")).ended(0);
    [pcap, log]
}

fn json(arguments: &[&str]) -> Value {
    let ran = carob(&[&["analyze", "--json"], arguments].concat()).ended(0);
    ran.json().remove(0)
}

#[test]
fn a_capture_and_a_log_of_the_same_download_agree() {
    let scratch = Scratch::new();
    let [pcap, log] = download(&scratch);
    let (of_pcap, of_log) = (json(&[&pcap]), json(&[&log]));
    for found in [&of_pcap, &of_log] {
        assert_eq!(found["requests"]["exchanges"], 1_024);
        assert_eq!(found["requests"]["answered"], 1_024);
        assert_eq!(found["losses"]["round_trip"], 0.0);
        assert!(found["controllers"].as_array().expect("a list").len() > 30);
    }
    assert_eq!(of_pcap["transfers"]["listed"][0]["bytes"], 1 << 20);
    let median = |found: &Value| {
        found["requests"]["round_trip"]["p50_us"]
            .as_f64()
            .expect("a time")
    };
    let ratio = median(&of_pcap) / median(&of_log);
    assert!((0.9..1.1).contains(&ratio), "{ratio}");
}

#[test]
fn findings_precede_tables_of_80_columns() {
    let scratch = Scratch::new();
    let [pcap, _] = download(&scratch);
    let ran = carob(&format!("analyze {pcap}")).ended(0);
    let text = ran.stdout();
    assert!(
        text.starts_with("2048 messages between 1 client and 1 server in "),
        "{text}"
    );
    text.has(&[
        "1024 exchanges of requests: 1024 answered, 0 not.",
        "No loss: each of 1024 CON transmissions had a reply.",
        "Block-wise transfers: 1 complete, 0 incomplete",
        "\ndownload   1048576    1024     1024",
        "\ndefault ",
        "\nNext:\n  carob lab compare --link ",
    ]);
    let table = text
        .lines()
        .filter(|line| line.contains("  ") && !line.contains("carob"));
    assert!(table.clone().count() > 20);
    for line in table {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let all = carob(&format!("analyze {pcap} --all"));
    assert!(all.stdout().contains("cocoa-contiki") && !text.contains("cocoa-contiki"));
}

#[test]
fn nightly_compare_reads_the_link_file_and_the_capture() {
    let scratch = Scratch::new();
    let [pcap, log] = download(&scratch);
    let (link, page) = (scratch.text("link.toml"), scratch.text("page.html"));
    carob(&format!(
        "analyze {pcap} --link-file {link} --report {page}"
    ))
    .ended(0);
    let text = fs::read_to_string(&link).expect("the link");
    assert!(
        text.starts_with("# Fitted to 1024 round trips of "),
        "{text}"
    );
    let keys = text.lines().filter(|line| line.contains(" = "));
    let comments = text.lines().filter(|line| line.starts_with("# "));
    assert!(comments.count() > keys.count(), "{text}");
    let html = fs::read_to_string(&page).expect("the page");
    assert!(html.contains("<svg") && html.contains("linux-rto-kernel"));
    let mut answers = Vec::new();
    for link in [&link, &pcap, &log] {
        let ran = carob(&format!("lab compare --link {link} --size 2048 --json")).ended(0);
        let answer: Value = ran.json().remove(0);
        assert_eq!(answer["link"]["name"], link.as_str());
        answers.push(answer["link"]["rtt_us"].clone());
    }
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn files_other_than_captures_are_refused_with_the_next_step() {
    let scratch = Scratch::new();
    let text = scratch.with("notes.txt", "no capture\n");
    let ran = carob(&format!("analyze '{text}'")).ended(1);
    ran.stderr
        .has(&["not a capture: it begins with 6e 6f 20 63", "tcpdump -w"]);
    let ran = carob(&["analyze", &scratch.text("none.pcap")]).ended(1);
    ran.stderr.has(&["cannot read"]);
    let ran = carob(&format!("lab compare --link '{text}'")).ended(2);
    ran.stderr.has(&["unknown link"]);
    // A pcap file header without packets.
    let empty = scratch.text("empty.pcap");
    let mut header = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
    header.extend([0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 101, 0, 0, 0]);
    fs::write(&empty, header).expect("a file");
    let ran = carob(&format!("analyze {empty}")).ended(1);
    assert!(
        ran.stdout().starts_with("No CoAP messages"),
        "{}",
        ran.stdout()
    );
    let ran = carob(&format!("lab compare --link {empty}")).ended(1);
    ran.stderr.has(&["too few round trips for a link"]);
}

#[test]
fn captures_of_dtls_clients_are_analysed_decrypted() {
    let scratch = Scratch::new();
    let keys = scratch.with("keys.txt", "device:secret\n");
    let server = Server::with(&format!("--dtls 127.0.0.1:0 --psk-file {keys}"));
    let pcap = scratch.text("secured.pcapng");
    let hello = server.over("coaps", "hello");
    carob(&format!(
        "get {hello} --psk-file {keys} --psk-identity device --pcap {pcap}"
    ))
    .ended(0);
    let found = json(&[&pcap]);
    assert_eq!(
        found["contents"]["decrypted"],
        found["contents"]["messages"]
    );
    assert!(found["requests"]["answered"].as_u64() >= Some(1), "{found}");
}
