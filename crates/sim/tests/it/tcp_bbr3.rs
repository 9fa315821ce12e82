//! BBR version 3 on a drop-tail queue: rate and queue alone, and its share next to other algorithms.

use carob_cc::time::Duration;
use carob_sim::link::{DirectionSpec, LinkSpec};
use carob_sim::tcp::TcpSettings;
use carob_sim::tcp::settings::Algorithm;

use crate::tcp_common::transfer::{self, Flow, Spec};

/// Bottleneck in bytes per second, and its bandwidth-delay product with 100 ms: 85 segments of 1,460 bytes.
const RATE: u64 = 1_250_000;
const CAPACITY: u64 = 125_000;
const SECONDS: u64 = 60;

fn settings(congestion: Algorithm) -> TcpSettings {
    TcpSettings {
        congestion,
        ..TcpSettings::MODERN
    }
}

/// Unlimited transfers through a buffer of `buffer` bytes.
fn flows(buffer: u64, algorithms: [Algorithm; 2], clients: u32, seed: u64) -> Vec<Flow> {
    let direction = |buffer| DirectionSpec {
        delay: Duration::from_millis(50),
        ..DirectionSpec::new(RATE * 8, buffer)
    };
    let link = LinkSpec {
        down: direction(buffer),
        up: direction(CAPACITY),
    };
    let spec = Spec {
        clients,
        start: Duration::from_secs(1),
        response_bytes: 2 * (RATE * SECONDS) as u32,
        rival: Some(settings(algorithms[1])),
        time_limit: Duration::from_secs(SECONDS),
        points: 200_000,
        ..Spec::thesis(link, settings(algorithms[0]), seed)
    };
    transfer::run(&spec).expect("a transfer").flows
}

/// Share of the bottleneck used by a flow's new data.
fn share(flow: &Flow) -> f64 {
    let segments = flow.server.data_segments - flow.server.retransmissions;
    (segments * 1_460) as f64 / (RATE * SECONDS) as f64
}

/// Mean round-trip time in milliseconds after ten seconds.
fn round_trip_ms(flow: &Flow) -> f64 {
    let late = (flow.points.iter()).filter(|point| point.at.as_micros() > 10_000_000);
    let times: Vec<_> = late.filter_map(|point| point.srtt).collect();
    let sum: u64 = times.iter().map(|time| time.as_micros()).sum();
    sum as f64 / times.len() as f64 / 1e3
}

#[test]
fn slow_bbr3_alone_fills_the_link_without_queue() {
    for buffer in [CAPACITY, 4 * CAPACITY] {
        let alone = |algorithm| flows(buffer, [algorithm; 2], 1, 1).remove(0);
        let (bbr, cubic) = (alone(Algorithm::Bbr3), alone(Algorithm::Cubic));
        assert!(share(&bbr) > 0.9 && share(&cubic) > 0.9);
        // The path takes 101 ms without a queue.
        assert!(round_trip_ms(&bbr) < 125.0, "{}", round_trip_ms(&bbr));
        assert!(round_trip_ms(&cubic) > 150.0);
    }
}

/// Share of the first flow against the second, with a buffer of a quarter of the bandwidth-delay product.
fn beside(first: Algorithm, second: Algorithm) -> f64 {
    share(&flows(CAPACITY / 4, [first, second], 2, 1)[0])
}

#[test]
fn slow_bbr3_is_fairer_than_bbr1_in_a_short_queue() {
    for rival in [Algorithm::NewReno, Algorithm::Cubic] {
        let (one, three) = (
            beside(Algorithm::Bbr1, rival),
            beside(Algorithm::Bbr3, rival),
        );
        assert!(one > 0.8, "{one}");
        assert!((0.4..0.7).contains(&three), "{three}");
    }
}

#[test]
fn slow_two_bbr3_flows_share_the_link() {
    for buffer in [CAPACITY / 4, 4 * CAPACITY] {
        let both = flows(buffer, [Algorithm::Bbr3; 2], 2, 1);
        let (one, two) = (share(&both[0]), share(&both[1]));
        assert!(one + two > 0.9, "{one} and {two}");
        assert!(one.min(two) > 0.3, "{one} and {two}");
    }
}

#[test]
fn bbr3_limits_losses_in_a_short_queue() {
    let resent = |algorithm| {
        let flow = flows(CAPACITY / 4, [algorithm; 2], 1, 1).remove(0);
        flow.server.retransmissions as f64 / flow.server.data_segments as f64
    };
    let (one, three) = (resent(Algorithm::Bbr1), resent(Algorithm::Bbr3));
    assert!(three < 0.01 && one > 0.015, "{one} and {three}");
}
