//! `carob try` over shaped paths.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::relay::{Relay, Shape};
use super::shaped::{server_address, serving};
use crate::commands::harness::{Parts as _, Ran, carob};
use crate::process::Scratch;

/// A path with this one-way delay in milliseconds and loss in parts per million.
fn path(delay: u64, loss: u32) -> Shape {
    Shape {
        delay: Duration::from_millis(delay),
        jitter: Duration::ZERO,
        rates: [0, 0],
        losses: [loss, loss],
        slow: (0, Duration::ZERO),
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
    serde_json::from_str(ran.stdout()).expect("a JSON object")
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
    let link = std::fs::read_to_string(scratch.text("trial.toml")).expect("a link");
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
    let ran = trial(&scratch, path(5, 0), 10, "");
    assert_eq!(ran.code, Some(0), "{ran:?}");
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
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let uri = format!("coap://{}/x", silent.local_addr().expect("its address"));
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
