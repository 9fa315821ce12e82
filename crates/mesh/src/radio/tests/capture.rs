//! The capture effect: by hand, against closed forms, and compared with ns-3.

use std::collections::BTreeSet;

use super::*;
use crate::radio::medium::Signal;
use crate::spec::{CaptureRule, Spacing};

const THREE_DB: CaptureRule = CaptureRule::Threshold(300);

fn radio(rule: CaptureRule) -> RadioSpec {
    RadioSpec {
        range_mm: 100_000,
        interference_mm: 200_000,
        capture: Some(rule),
        clear_on_first_end: false,
        ..RadioSpec::default()
    }
}

/// A medium with its counters. Node 0 receives.
struct Air {
    medium: Medium,
    counters: Vec<MacCounters>,
}

impl Air {
    /// Senders at these distances from node 0 in millimetres, in all directions.
    fn new(distances: &[i32], rule: CaptureRule, seed: u64) -> Self {
        let mut positions: Vec<Place> = vec![(0, 0, 0)];
        positions.extend(distances.iter().map(|distance| (*distance, 0, 0)));
        let ground = Ground {
            positions: &positions,
            regions: &[],
            table: None,
        };
        Self {
            medium: Medium::new(&ground, &radio(rule), seed),
            counters: vec![MacCounters::default(); positions.len()],
        }
    }

    fn begin(&mut self, at: u64, from: Node, until: u64) {
        let signal = Signal {
            to: 0,
            until: Instant::from_micros(until),
            number: 0,
            acknowledges: false,
        };
        let now = Instant::from_micros(at);
        self.medium.begin(now, from, signal, &mut self.counters);
    }

    /// Ends a signal. Returns whether node 0 received it.
    fn end(&mut self, from: Node) -> bool {
        let mut received = Vec::new();
        self.medium.end(from, &mut self.counters, &mut received);
        received.contains(&0)
    }
}

/// Which frames node 0 receives: a frame of the first sender, and frames of the others, which start in its middle.
fn overlap(distances: &[i32], rule: CaptureRule, seed: u64) -> Vec<bool> {
    let mut air = Air::new(distances, rule, seed);
    let others = 2..=distances.len() as Node;
    air.begin(0, 1, 2_000);
    for other in others.clone() {
        air.begin(1_000, other, 3_000);
    }
    let mut received = vec![air.end(1)];
    received.extend(others.map(|other| air.end(other)));
    assert!(air.medium.is_silent());
    let lost = received.iter().zip(distances);
    let lost = lost.filter(|(arrived, distance)| !**arrived && **distance <= 100_000);
    assert_eq!(air.counters[0].collisions, lost.count() as u64);
    received
}

#[test]
fn frames_of_equal_power_destroy_each_other_below_a_threshold() {
    assert_eq!(overlap(&[50_000, 50_000], THREE_DB, 1), [false, false]);
    // Without overlap both arrive.
    let mut air = Air::new(&[50_000, 50_000], THREE_DB, 1);
    air.begin(0, 1, 1_000);
    assert!(air.end(1));
    air.begin(1_000, 2, 2_000);
    assert!(air.end(2));
}

#[test]
fn the_first_frame_survives_if_it_is_stronger_by_the_threshold() {
    // 30 log10(x / 50) is 3 dB at x = 62.946 m.
    assert_eq!(overlap(&[50_000, 62_950], THREE_DB, 1), [true, false]);
    assert_eq!(overlap(&[50_000, 62_940], THREE_DB, 1), [false, false]);
    // A receiver stays locked to the first frame even if the second is stronger.
    assert_eq!(overlap(&[62_950, 50_000], THREE_DB, 1), [false, false]);
}

#[test]
fn powers_of_interfering_signals_add_up() {
    // Each is weaker by 10 dB (distance 50 x 10^(1/3) m): five give 3.01 dB, six 2.22 dB.
    for (others, survives) in [(1, true), (5, true), (6, false), (9, false)] {
        let mut distances = vec![50_000];
        distances.resize(1 + others, 107_722);
        assert_eq!(overlap(&distances, THREE_DB, 1)[0], survives, "{others}");
    }
}

#[test]
fn signals_out_of_transmission_range_interfere() {
    // 95 and 119 m: 2.94 dB.
    assert_eq!(overlap(&[95_000, 119_000], THREE_DB, 1), [false, false]);
    assert_eq!(overlap(&[95_000, 120_000], THREE_DB, 1), [true, false]);
}

#[test]
fn frames_captured_from_uniform_places_have_the_share_of_the_closed_form() {
    // Squared distances are uniform, so the first of two is stronger by a ratio z with probability z^(-2/n) / 2.
    let mut stream = Stream::new(1, "test");
    let draws = 20_000;
    let mut captured = 0;
    for seed in 0..draws {
        let mut distance = || (100_000.0 * uniform(&mut stream).sqrt()) as i32;
        let distances = [distance(), distance()];
        captured += u32::from(overlap(&distances, THREE_DB, seed)[0]);
    }
    let expected = f64::powf(10.0, -0.3 * 2.0 / 3.0) / 2.0;
    let share = f64::from(captured) / draws as f64;
    // Standard deviation 0.0033.
    assert!((share - expected).abs() < 0.012, "{share} {expected}");
}

fn uniform(stream: &mut Stream) -> f64 {
    stream
        .uniform(Duration::ZERO, Duration::from_secs(1))
        .as_micros() as f64
        / 1e6
}

/// Success probability of `bits` bits (IEEE 802.15.4-2006, E.4.1.8).
fn bits_survive(decibels: f64, bits: f64) -> f64 {
    const BINOMIALS: [f64; 15] = [
        120.0, -560.0, 1_820.0, -4_368.0, 8_008.0, -11_440.0, 12_870.0, -11_440.0, 8_008.0,
        -4_368.0, 1_820.0, -560.0, 120.0, -16.0, 1.0,
    ];
    let ratio = f64::powf(10.0, decibels / 10.0);
    let terms = BINOMIALS.iter().zip(2..);
    let sum: f64 = terms
        .map(|(binomial, k)| binomial * f64::exp(20.0 * ratio * (1.0 / f64::from(k) - 1.0)))
        .sum();
    f64::powf(1.0 - 8.0 / 15.0 / 16.0 * sum, bits)
}

#[test]
fn packets_succeed_as_the_bit_error_ratio_of_the_standard_has_it() {
    // 250 bits overlap. At 0 dB the bit error ratio is 1.6e-4.
    assert!((bits_survive(0.0, 1.0) - (1.0 - 1.615e-4)).abs() < 1e-6);
    for decibels in [-3.0, -2.0, -1.5, -1.0, -0.5, 0.0, 1.0, 3.0] {
        let further = 50_000.0 * f64::powf(10.0, decibels / 30.0);
        let runs = 4_000;
        let survived =
            |seed: &u64| overlap(&[50_000, further as i32], CaptureRule::Ieee802154, *seed)[0];
        let share = (0..runs).filter(survived).count() as f64 / runs as f64;
        let expected = bits_survive(decibels, 250.0);
        let deviation = (expected * (1.0 - expected) / runs as f64).sqrt();
        let off = (share - expected).abs();
        assert!(
            off < 4.0 * deviation + 0.002,
            "{decibels} dB: {share} {expected}"
        );
    }
}

/// Frames per second that a star of saturated nodes of equal power delivers.
fn saturated(nodes: u16, bytes: u16, capture: Option<CaptureRule>) -> f64 {
    star(nodes, bytes, capture, false, 40)
}

/// The same with optional hidden senders, which receive node 0 only.
fn star(nodes: u16, bytes: u16, capture: Option<CaptureRule>, hidden: bool, seconds: u64) -> f64 {
    let always = Probability::ALWAYS;
    let pairs = (0..=nodes).flat_map(|a| (0..=nodes).map(move |b| (a, b)));
    let table: Vec<TableLink> = pairs
        .filter(|(a, b)| a != b && (!hidden || *a == 0 || *b == 0))
        .map(|(from, to)| TableLink {
            from,
            to,
            delivery: always,
        })
        .collect();
    let positions = vec![(0, 0, 0); usize::from(nodes) + 1];
    let ground = Ground {
        positions: &positions,
        regions: &[],
        table: Some(&table),
    };
    let (radio, mac) = standard();
    let radio = RadioSpec {
        delivery: Delivery::Table,
        cca_delay: Duration::ZERO,
        clear_on_first_end: false,
        sfd_sense: false,
        capture,
        ..radio
    };
    let mac = MacSpec {
        spacing: Spacing::AfterSuccess,
        duplicates_remembered: 0,
        ..mac
    };
    let mut bench = Bench::on(&ground, &radio, &mac, 1);
    let mut number = 0;
    let mut next = |bench: &mut Bench, at, node| {
        number += 1;
        let sent = bench.send(at, node, Some(0), bytes, number);
        sent.expect("room");
    };
    for node in 1..=nodes {
        // One of the two always waits for the other.
        next(&mut bench, 0, node);
        next(&mut bench, 0, node);
    }
    let mut delivered = BTreeSet::new();
    while bench.step(seconds * 1_000_000) {
        for (at, up) in std::mem::take(&mut bench.upcalls) {
            match up {
                Upcall::Sent { node, .. } => next(&mut bench, at.as_micros(), node),
                Upcall::Received { payload, .. } => {
                    delivered.insert(payload);
                }
            }
        }
    }
    delivered.len() as f64 / seconds as f64
}

#[test]
fn slow_saturated_stars_match_ns3() {
    // ns-3.37 with its own interference and error model, crates/mesh/examples/radio_validation/README.md.
    for (nodes, bytes, expected) in [
        (2, 50, 244.8),
        (3, 50, 256.0),
        (5, 50, 262.1),
        (10, 50, 250.2),
        (20, 50, 207.8),
        (5, 100, 173.5),
        (10, 100, 158.8),
    ] {
        let found = saturated(nodes, bytes, Some(CaptureRule::Ieee802154));
        assert!(
            (found / expected - 1.0).abs() < 0.05,
            "{nodes} {bytes}: {found} {expected}"
        );
    }
    // Without capture; the value is from the same page.
    let found = saturated(10, 50, None);
    assert!((found / 160.7 - 1.0).abs() < 0.05, "{found}");
}

#[test]
fn slow_hidden_stars_match_ns3() {
    for (nodes, expected) in [(2, 348.8), (3, 369.9), (5, 384.5), (10, 239.4)] {
        let found = star(nodes, 20, Some(CaptureRule::Ns3), true, 100);
        assert!(
            (found / expected - 1.0).abs() < 0.05,
            "{nodes}: {found} {expected}"
        );
    }
    // If remainders of older frames interfere, the throughput is a third lower.
    let found = star(10, 20, Some(CaptureRule::Ieee802154), true, 100);
    assert!((0.55..0.75).contains(&(found / 239.4)), "{found}");
}

#[test]
fn remaining_part_of_an_older_frame_interferes() {
    // Node 2's frame starts while node 0 sends and ends in the middle of node 1's: 1,000 us at -3 dB.
    let received = |rule| {
        let mut air = Air::new(&[50_000, 39_716], rule, 1);
        let signal = Signal {
            to: 1,
            until: Instant::from_micros(500),
            number: 0,
            acknowledges: false,
        };
        (air.medium).begin(Instant::ZERO, 0, signal, &mut air.counters);
        air.begin(400, 2, 2_000);
        air.end(0);
        air.begin(1_000, 1, 3_000);
        assert!(!air.end(2));
        air.end(1)
    };
    assert!(!received(CaptureRule::Ieee802154));
    assert!(received(CaptureRule::Ns3));
}
