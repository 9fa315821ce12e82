use carob_analyze::{Format, Options, Place, analyze};

/// A client log of ten requests with round-trip times of 100 to 109 ms; the fifth is retransmitted.
fn log() -> String {
    let mut text = String::new();
    let mut at = 1_000;
    let mut line = |rest: String| text.extend(["{", &rest, "}\n"]);
    for id in 0..10 {
        let head = |at: u64, event: &str| {
            format!("\"at_us\":{at},\"peer\":\"[fd00::1]:5683\",\"event\":\"{event}\",\"id\":{id}")
        };
        let copies = if id == 4 { 2 } else { 1 };
        for copy in 0..copies {
            let sent = head(at + copy * 2_000_000, "sent");
            line(format!(
                "{sent},\"type\":\"CON\",\"purpose\":\"request\",\"retransmissions\":{copy},\"timeout_us\":2000000,\"bytes\":14"
            ));
        }
        at += (copies - 1) * 2_000_000 + 100_000 + id * 1_000;
        let received = head(at, "received");
        line(format!(
            "{received},\"type\":\"ACK\",\"code\":\"2.05\",\"bytes\":20"
        ));
        let answered = head(at, "answered");
        line(format!(
            "{answered},\"retransmissions\":0,\"since_original_us\":1"
        ));
        at += 1_000_000;
    }
    text
}

#[test]
fn a_log_is_analysed_as_its_packets_would_be() {
    let found = analyze(log().as_bytes(), &Options::default()).expect("a log");
    assert_eq!(found.contents.formats, [Format::EventLog]);
    assert_eq!(found.place, Place::Client);
    assert_eq!(found.requests.exchanges, 10);
    assert_eq!(found.requests.retransmissions, 1);
    assert_eq!(found.requests.spurious, Some(0));
    let times = found.requests.round_trip.expect("at the client");
    assert_eq!(
        (times.count, times.min_us, times.max_us),
        (10, 100_000, 109_000)
    );
    // Without `received` lines, `answered` is the reply.
    let short: String = log()
        .lines()
        .filter(|line| !line.contains("received"))
        .map(|line| line.to_owned() + "\n")
        .collect();
    let found = analyze(short.as_bytes(), &Options::default()).expect("a log");
    assert_eq!(
        (found.requests.answered, found.requests.spurious),
        (10, Some(0))
    );
}

#[test]
fn invalid_lines_are_reported_with_their_position() {
    let text = format!("{}not json\n{}\n{}", log(), "x".repeat(70_000), log());
    let found = analyze(text.as_bytes(), &Options::default()).expect("a log");
    assert_eq!(found.contents.damage_count, 2);
    assert_eq!(found.contents.damages[0].offset, log().len() as u64);
    assert!(
        found.contents.damages[1]
            .problem
            .contains("more than 65536 bytes")
    );
    assert_eq!(found.contents.bytes, text.len() as u64);
}

#[test]
fn a_log_of_the_simulator_is_read_at_the_senders() {
    let of_client = log().replace("{\"at_us\"", "{\"host\":0,\"at_us\"");
    let of_server = log()
        .replace("{\"at_us\"", "{\"host\":1,\"at_us\"")
        .replace("\"sent\"", "\"received\"")
        .replace("\"ACK\"", "\"CON\"");
    let text = of_client + &of_server;
    let found = analyze(text.as_bytes(), &Options::default()).expect("a log");
    assert_eq!(found.requests.exchanges, 10);
}
