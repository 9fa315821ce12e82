//! Captures of real programs over a shaped path, beside the truth.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use carob_analyze::{Analysis, Analyzer, LossBasis, Options, Place, analyze};
use serde_json::Value;

use super::relay::{Relay, Shape, Truth};
use crate::commands::harness::{Scratch, Server, carob};
use crate::installed::Peer;

pub(super) fn server_address(server: &Server) -> SocketAddr {
    let text = server.uri.trim_start_matches("coap://");
    let port = text.rsplit(':').next().and_then(|port| port.parse().ok());
    SocketAddr::from(([127, 0, 0, 1], port.expect("a port")))
}

/// A server of a file of this size, `body.bin`.
pub(super) fn serving(scratch: &Scratch, bytes: usize) -> Server {
    let folder = scratch.text("served");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(format!("{folder}/body.bin"), vec![b'x'; bytes]).expect("a file");
    Server::with(&["--dir", &folder])
}

/// Compares an analysis with the truth: percentiles within 5 %, losses within two points, every
/// retransmission. Returns by how many the spurious ones differ.
pub(super) fn check(found: &Analysis, truth: &Truth, about: &str) -> u64 {
    let requests = &found.requests;
    assert_eq!(found.place, Place::Client, "{about}");
    assert_eq!(requests.exchanges, truth.exchanges, "{about}");
    assert_eq!(requests.retransmissions, truth.retransmissions, "{about}");
    let times = requests.round_trip.expect("at the client");
    for (share, us) in [
        (0.5, times.p50_us),
        (0.9, times.p90_us),
        (0.95, times.p95_us),
    ] {
        let expected = truth.quantile(share).as_micros() as f64;
        let off = (us as f64 / expected - 1.0).abs();
        assert!(off < 0.05, "{about}: {share}: {us} us for {expected} us");
    }
    let sent = truth.packets[0] as f64;
    let replies = (truth.packets[1] - truth.lost[1]) as f64;
    let lost = found.losses.round_trip.expect("at the client");
    assert!(
        (lost - (1.0 - replies / sent)).abs() < 0.02,
        "{about}: {lost}"
    );
    let spurious = requests.spurious.expect("at the client");
    eprintln!(
        "{about}: {} exchanges, median {} us for {:?}, {} retransmissions, {spurious} spurious for {}, lost {lost:.4} for {:.4}",
        truth.exchanges,
        times.p50_us,
        truth.quantile(0.5),
        truth.retransmissions,
        truth.spurious,
        1.0 - replies / sent,
    );
    spurious.abs_diff(truth.spurious)
}

/// Checks that spurious retransmissions are right in 95 % of all.
fn check_spurious(wrong: u64, retransmissions: u64) {
    assert!(
        wrong * 20 <= retransmissions,
        "{wrong} of {retransmissions}"
    );
}

fn of(file: &[u8]) -> Analysis {
    analyze(file, &Options::default().port(5_683)).expect("a capture")
}

#[test]
fn nightly_round_trips_and_losses_match_those_of_both_peers() {
    let scratch = Scratch::new();
    let server = serving(&scratch, 300 * 64);
    let shape = Shape {
        delay: Duration::from_millis(15),
        jitter: Duration::from_millis(8),
        rates: [0, 0],
        losses: [60_000, 40_000],
        slow: (38_000, Duration::from_millis(130)),
    };
    let relay = Relay::start(server_address(&server), shape, 3);
    let (uri, pcap) = (
        format!("coap://{}/body.bin", relay.address),
        scratch.text("own.pcapng"),
    );
    let body = scratch.text("body.bin");
    let ran = carob(&[
        "get",
        &uri,
        "-o",
        &body,
        "--block-size",
        "64",
        "--ack-timeout",
        "100ms",
        "--max-retransmit",
        "8",
        "--pcap",
        &pcap,
    ]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // The last late packets.
    std::thread::sleep(Duration::from_millis(400));
    let truth = relay.truth();
    assert!(
        truth.exchanges >= 300 && truth.spurious > 5 && truth.retransmissions > 20,
        "{truth:?}"
    );
    let at_client = relay.capture(true);
    let wrong = check(&of(&at_client), &truth, "capture of the path");
    check_spurious(wrong, truth.retransmissions);
    // Both ends: losses of each direction.
    let mut both = Analyzer::new(Options::default());
    both.read(&at_client[..]).expect("a capture");
    both.read(&relay.capture(false)[..]).expect("a capture");
    let both = both.finish();
    for (loss, way) in [(both.losses.to_server, 0), (both.losses.to_client, 1)] {
        let loss = loss.expect("both ends");
        let share = truth.lost[way] as f64 / truth.packets[way] as f64;
        assert_eq!(loss.basis, LossBasis::BothEnds);
        assert!(
            (loss.share - share).abs() < 0.02,
            "{} for {share}",
            loss.share
        );
    }
    // The client's own capture; replies after its end are not in it.
    let own = fs::read(&pcap).expect("the capture");
    let found = analyze(&own[..], &Options::default()).expect("a capture");
    assert_eq!(found.requests.retransmissions, truth.retransmissions);
    let times = found.requests.round_trip.expect("one host");
    let expected = truth.quantile(0.5).as_micros() as f64;
    assert!(
        (times.p50_us as f64 / expected - 1.0).abs() < 0.05,
        "{times:?} {expected}"
    );
}

#[test]
fn slow_retransmissions_of_libcoap_match() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if !Peer::Libcoap.is_current(&root) {
        eprintln!("libcoap is not installed: `cargo xtask peers`");
        return;
    }
    let scratch = Scratch::new();
    let server = serving(&scratch, 100 * 64);
    let shape = Shape {
        delay: Duration::from_millis(20),
        jitter: Duration::from_millis(10),
        rates: [0, 0],
        losses: [20_000, 20_000],
        slow: (40_000, Duration::from_millis(2_600)),
    };
    let relay = Relay::start(server_address(&server), shape, 5);
    let mut client = Command::new("coap-client-notls")
        .args(["-b", "64", "-o", &scratch.text("body.bin"), "-B", "120"])
        .arg(format!("coap://{}/body.bin", relay.address))
        .stdout(Stdio::null())
        .spawn()
        .expect("libcoap's client");
    assert!(client.wait().expect("its end").success());
    std::thread::sleep(Duration::from_secs(3));
    let truth = relay.truth();
    assert!(
        truth.exchanges >= 100 && truth.retransmissions > 3,
        "{truth:?}"
    );
    let wrong = check(&of(&relay.capture(true)), &truth, "libcoap's client");
    check_spurious(wrong, truth.retransmissions);
}

/// Links over which a download is predicted and then measured.
fn predicted_links() -> [Shape; 5] {
    let shape = |delay, jitter, rates, losses| Shape {
        delay: Duration::from_millis(delay),
        jitter: Duration::from_millis(jitter),
        rates,
        losses,
        slow: (0, Duration::ZERO),
    };
    [
        shape(20, 0, [200_000, 100_000], [0, 0]),
        shape(60, 10, [0, 0], [10_000, 10_000]),
        shape(5, 2, [1_000_000, 500_000], [20_000, 20_000]),
        shape(150, 0, [60_000, 60_000], [0, 0]),
        shape(35, 5, [80_000, 40_000], [30_000, 30_000]),
    ]
}

/// Downloads of a size over a path, in seconds.
fn download(server: &Server, scratch: &Scratch, shape: Shape, seed: u64, options: &[&str]) -> f64 {
    let relay = Relay::start(server_address(server), shape, seed);
    let uri = format!("coap://{}/body.bin", relay.address);
    let body = scratch.text("body.bin");
    let began = Instant::now();
    let ran = carob(&[&["get", &uri, "-o", &body], options].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    began.elapsed().as_secs_f64()
}

/// Measures a link by a capture, asks for the best configuration, and measures its completion time.
/// Returns predicted and measured seconds.
fn predict(shape: Shape, runs: u64) -> (f64, f64) {
    const BYTES: usize = 16_000;
    const SIZES: [&str; 2] = ["128", "1024"];
    let scratch = Scratch::new();
    let server = serving(&scratch, BYTES);
    // Blocks of several sizes show the rates.
    for size in SIZES {
        let relay = Relay::start(server_address(&server), shape, 17);
        let uri = format!("coap://{}/body.bin", relay.address);
        let body = scratch.text("body.bin");
        let file = scratch.text(&format!("{size}.pcapng"));
        let ran = carob(&[
            "get",
            &uri,
            "-o",
            &body,
            "--block-size",
            size,
            "--pcap",
            &file,
            "--ack-timeout",
            "500ms",
            "--max-retransmit",
            "8",
            "--deadline",
            "300s",
        ]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    // One analysis of both.
    let files = SIZES.map(|size| scratch.text(&format!("{size}.pcapng")));
    let link = scratch.text("link.toml");
    let ran = carob(&["analyze", &files[0], &files[1], "--link-file", &link]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    eprintln!("{}", fs::read_to_string(&link).expect("the link"));
    let size = BYTES.to_string();
    let ran = carob(&["lab", "compare", "--link", &link, "--size", &size, "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let answer: Value = serde_json::from_str(ran.stdout()).expect("an object");
    let best = &answer["ranked"][answer["recommended"].as_u64().expect("a place") as usize];
    let predicted = best["measured"]["time_s"].as_f64().expect("a time");
    let configuration = &best["configuration"];
    let text = |key: &str| configuration[key].as_str().expect("a word").to_owned();
    let number = |key: &str| configuration[key].to_string();
    let (cc, block, timers) = (text("controller"), number("block"), text("timers"));
    let mut options = vec!["--cc", &cc, "--block-size", &block, "--deadline", "300s"];
    if timers != "rfc7252" {
        options.extend(["--profile", &timers]);
    }
    let measured: f64 = (0..runs)
        .map(|seed| download(&server, &scratch, shape, 100 + seed, &options))
        .sum();
    let measured = measured / runs as f64;
    eprintln!(
        "{shape:?}: {cc} {block} B, {timers}: predicted {predicted:.2} s, measured {measured:.2} s"
    );
    (predicted, measured)
}

#[test]
fn nightly_a_download_takes_as_long_as_its_capture_predicted() {
    // Other tests run at the same time, on the same processors.
    let (predicted, measured) = predict(predicted_links()[0], 2);
    assert!(
        (predicted / measured - 1.0).abs() < 0.35,
        "{predicted} {measured}"
    );
}

#[test]
#[ignore = "takes minutes; all five links of docs/analyze.md"]
fn every_link_predicts_its_download() {
    let results = predicted_links().map(|shape| predict(shape, 6));
    for (predicted, measured) in results {
        assert!(
            (predicted / measured - 1.0).abs() < 0.2,
            "{predicted} {measured}: {results:?}"
        );
    }
}
