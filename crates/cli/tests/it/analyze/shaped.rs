//! Captures over a shaped path, compared with the ground truth.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use carob_analyze::{Analysis, Analyzer, LossBasis, Options, Place, analyze};

use super::relay::{Relay, Shape, Truth};
use crate::commands::harness::{Server, carob};
use crate::process::Scratch;

pub(super) fn server_address(server: &Server) -> SocketAddr {
    let text = server.uri.trim_start_matches("coap://");
    let port = text.rsplit(':').next().and_then(|port| port.parse().ok());
    SocketAddr::from(([127, 0, 0, 1], port.expect("a port")))
}

/// A server with a file `body.bin` of this size.
pub(super) fn serving(scratch: &Scratch, bytes: usize) -> Server {
    let folder = scratch.text("served");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(format!("{folder}/body.bin"), vec![b'x'; bytes]).expect("a file");
    Server::with(&format!("--dir {folder}"))
}

/// Checks an analysis: percentiles within 5 %, losses within two points, retransmissions exact. Returns the error in
/// spurious retransmissions.
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

/// Requires 95 % of retransmissions to be classified correctly.
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
    let ran = carob(&format!(
        "get {uri} -o {body} --block-size 64 --ack-timeout 100ms --max-retransmit 8 --pcap {pcap}"
    ));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // Delayed packets are still in flight.
    std::thread::sleep(Duration::from_millis(400));
    let truth = relay.truth();
    assert!(
        truth.exchanges >= 300 && truth.spurious > 5 && truth.retransmissions > 20,
        "{truth:?}"
    );
    let at_client = relay.capture(true);
    let wrong = check(&of(&at_client), &truth, "capture of the path");
    check_spurious(wrong, truth.retransmissions);
    // Captures of both ends give the losses of each direction.
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
    // The client's own capture lacks replies that arrive after its end.
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
