//! Captures and `carob try` over shaped paths, compared with the ground truth.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use carob_analyze::{Analysis, Analyzer, LossBasis, Options, Place, analyze};
use serde_json::Value;

use super::relay::{Relay, Shape, Truth};
use crate::commands::harness::{Parts as _, Ran, Server, carob};
use crate::process::Scratch;
use crate::responder::Responder;

pub(super) fn server_address(server: &Server) -> SocketAddr {
    let address = server.uri.strip_prefix("coap://");
    address
        .and_then(|text| text.parse().ok())
        .expect("an address")
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
        losses: [60_000, 40_000],
        slow: (38_000, Duration::from_millis(130)),
    };
    let relay = Relay::start(server_address(&server), shape, 3);
    let (uri, pcap) = (
        format!("coap://{}/body.bin", relay.address),
        scratch.text("own.pcapng"),
    );
    let body = scratch.text("body.bin");
    carob(&format!(
        "get {uri} -o {body} --block-size 64 --ack-timeout 100ms --max-retransmit 8 --pcap {pcap}"
    ))
    .ended(0);
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

/// A path with this one-way delay in milliseconds and loss in parts per million.
fn path(delay: u64, loss: u32) -> Shape {
    Shape {
        delay: Duration::from_millis(delay),
        losses: [loss, loss],
        ..Shape::default()
    }
}

/// Runs `carob try` with a limit on the number of pairs.
fn trial(scratch: &Scratch, shape: Shape, pairs: u32, more: &str) -> Ran {
    let server = serving(scratch, 64);
    let relay = Relay::start(server_address(&server), shape, 11);
    let uri = format!("coap://{}/body.bin", relay.address);
    let prefix = scratch.text("trial");
    carob(&format!(
        "try {uri} --interval 2ms --pairs {pairs} -o {prefix} {more}"
    ))
}

fn answer(ran: &Ran) -> Value {
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.json().remove(0)
}

#[test]
fn slow_trial_recommends_carob_on_a_lossy_path() {
    let scratch = Scratch::new();
    let answer = answer(&trial(&scratch, path(10, 80_000), 80, "--json"));
    assert_eq!(answer["recommended"], "carob", "{answer}");
    assert_eq!(answer["is_settled"], true, "{answer}");
    let [before, carob] = [0, 1].map(|place| &answer["controllers"][place]);
    assert_eq!(before["requests"], carob["requests"], "{answer}");
    let ratio = carob["ratio"]["high"].as_f64().expect("a ratio");
    assert!(ratio < 1.0, "{answer}");
    // `carob lab compare` accepts the link file that the trial wrote.
    let link = fs::read_to_string(scratch.text("trial.toml")).expect("a link");
    let loss = link
        .lines()
        .find_map(|line| line.strip_prefix("loss = \""))
        .expect("losses");
    let loss: f64 = loss.trim_end_matches(" %\"").parse().expect("a share");
    assert!((2.0..=16.0).contains(&loss), "{link}");
    assert!(Path::new(&scratch.text("trial.pcapng")).exists());
}

#[test]
fn trial_keeps_default_on_a_lossless_path() {
    let scratch = Scratch::new();
    let ran = trial(&scratch, path(5, 0), 10, "").ended(0);
    let text = ran.stdout();
    assert!(text.starts_with("Stay with default"), "{text}");
    text.has(&["carob lab compare --link"]);
    ran.stderr.has(&["at most 22 requests"]);
}

#[test]
fn trial_validates_its_arguments_first() {
    let scratch = Scratch::new();
    let prefix = scratch.text("trial");
    let wrong = |more: &str| {
        let ran = carob(&format!("try coap://127.0.0.1:9/x -o {prefix} {more}"));
        assert_ne!(ran.code, Some(0), "{ran:?}");
        ran.stderr
    };
    assert!(wrong("--cc carob").contains("2 to 8 controllers"));
    assert!(wrong("--cc carob,carob").contains("names carob twice"));
    assert!(
        wrong("--cc default,caro").contains("carob"),
        "a name nearby"
    );
    assert!(wrong("--pairs 1").contains("not in 2..=100000"));
    // Never answers. Without the deadline, the client gives up after MAX_TRANSMIT_WAIT (93 s).
    let silent = Responder::silent();
    let uri = format!("{}x", silent.uri());
    let began = std::time::Instant::now();
    let ran = carob(&format!("try {uri} --deadline 300ms -o {prefix}"));
    assert_ne!(ran.code, Some(0), "{ran:?}");
    assert!(began.elapsed() < Duration::from_secs(20), "{ran:?}");
    let server = serving(&scratch, 64);
    let uri = format!("{}/nothing", server.uri.trim_end_matches('/'));
    let ran = carob(&format!("try {uri} -o {prefix}"));
    ran.stderr.has(&["4.04"]);
    assert_ne!(ran.code, Some(0));
}

/// Cost ratio of `carob` to `default` as measured, and as compared for the fitted link with default settings.
fn measured_and_compared(shape: Shape) -> (Value, f64) {
    let scratch = Scratch::new();
    let measured = answer(&trial(&scratch, shape, 150, "--json"));
    let link = scratch.text("trial.toml");
    let ran = carob(&format!(
        "lab compare --link {link} --traffic command --json"
    ));
    let predicted = answer(&ran);
    let time = |name: &str| {
        let ranked = predicted["ranked"].as_array().expect("configurations");
        let plain = ranked.iter().find(|one| {
            one["configuration"]["controller"] == name
                && one["configuration"]["timers"] == "rfc7252"
        });
        plain.expect("it is ranked")["measured"]["time_s"]
            .as_f64()
            .expect("seconds")
    };
    (
        measured["controllers"][1]["ratio"].clone(),
        time("carob") / time("default"),
    )
}

#[test]
fn nightly_trial_agrees_with_the_comparison_of_its_link() {
    let links = [
        (5, 40_000),
        (10, 80_000),
        (20, 20_000),
        (40, 60_000),
        (80, 100_000),
        (15, 0),
    ];
    for (delay, loss) in links {
        let (ratio, predicted) = measured_and_compared(path(delay, loss));
        let end = |name: &str| ratio[name].as_f64().expect("an interval");
        eprintln!("{delay} ms, {loss} ppm: {ratio}, predicted {predicted:.2}");
        assert!(
            (end("low") * 0.8..=end("high") * 1.2).contains(&predicted),
            "{delay} ms, {loss} ppm: {ratio}, predicted {predicted:.2}"
        );
    }
}
