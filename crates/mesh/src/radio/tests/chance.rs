//! Statistical tests against expected values, and random sequences of events.

use carob_cc::random::Random as _;

use super::*;
use crate::spec::{Boundary, CaptureRule, CcaRange, Interference, Spacing};

/// Fails unless `found` is within five standard deviations of `expected`.
fn assert_near(what: &str, found: f64, expected: f64, deviation: f64) {
    let off = (found - expected).abs() / deviation;
    assert!(off < 5.0, "{what}: {found} for {expected}, {off} sd off");
}

#[test]
fn a_lossy_hop_with_four_transmissions_is_as_worked_out() {
    let ratio = |percent| Probability::of(percent, 100);
    // Drawn uniformly from 0.8 to 1: the same mean.
    let drawn = vec![
        (ratio(80), Probability::NEVER),
        (ratio(100), Probability::ALWAYS),
    ];
    for delivery in [Delivery::Fixed(ratio(90)), Delivery::Drawn(drawn)] {
        let radio = RadioSpec {
            delivery,
            ..RadioSpec::default()
        };
        let trials = 200_000_u32;
        let mac = contiki(Csma::Contiki27);
        let mut bench = Bench::new(&row(2), &radio, &mac, 1);
        let mut succeeded = 0_u32;
        let mut arrived = 0_u32;
        let mut transmissions = 0_u64;
        for frame in 0..trials {
            let now = bench.events.now().as_micros();
            bench.send(now, 0, Some(1), 100, frame).unwrap();
            bench.finish();
            arrived += bench.received().len() as u32;
            let [(_, _, count, outcome)] = bench.sent()[..] else {
                panic!("one frame was sent");
            };
            transmissions += u64::from(count);
            succeeded += u32::from(outcome == Outcome::Acknowledged);
            bench.upcalls.clear();
            bench.begun.clear();
        }
        let all = f64::from(trials);
        // Both frame and acknowledgement arrive: 0.81. Four failures: 0.19^4 = 0.0013032.
        let failed = 0.19_f64.powi(4);
        let sd = |p: f64| (all * p * (1.0 - p)).sqrt();
        assert_near(
            "failed",
            f64::from(trials - succeeded),
            all * failed,
            sd(failed),
        );
        // The frame is lost four times: 1e-4.
        assert_near("lost", f64::from(trials - arrived), all * 1e-4, sd(1e-4));
        // 1 + 0.19 + 0.19^2 + 0.19^3 = 1.232959, with variance 0.2802.
        let sum = transmissions as f64;
        assert_near("transmissions", sum, all * 1.232_959, (all * 0.2802).sqrt());
        let counters = bench.radio.counters(1);
        // Each transmission arrives with probability 0.9; arrivals beyond the first are duplicates.
        let duplicates = sum * 0.9 - f64::from(arrived);
        assert_near(
            "duplicates",
            counters.duplicates as f64,
            duplicates,
            (sum * 0.09).sqrt(),
        );
        assert_near(
            "losses",
            counters.losses as f64,
            sum * 0.1,
            (sum * 0.09).sqrt(),
        );
        assert_eq!(bench.radio.counters(0).transmissions, transmissions);
        assert_eq!(
            bench.radio.counters(0).no_ack_drops,
            u64::from(trials - succeeded)
        );
    }
}

#[test]
fn hidden_nodes_share_a_receiver_as_worked_out() {
    // Both ends of a row of three send frames of 3,392 us to the middle, with pauses uniform between 0 and four times that.
    // A frame succeeds if the other end is silent at its start (2 / 3 of the time) and for its air time, with probability
    // (1 - 1 / 4)^2: together 0.375, of two frames in three air times.
    let radio = RadioSpec {
        turnaround: Duration::ZERO,
        clear_on_first_end: false,
        ..RadioSpec::default()
    };
    let mac = MacSpec {
        acknowledged: false,
        ..MacSpec::default()
    };
    let air = air_time(100).as_micros();
    let mut bench = Bench::new(&row(3), &radio, &mac, 1);
    let mut pauses = [0, 2].map(|node| Stream::indexed(1, "pause", node));
    let mut next = [0, 0];
    let mut received = 0_u32;
    let frames = 100_000_u32;
    let end = u64::from(frames) * 3 * air / 2;
    while next[0].min(next[1]) < end {
        let who = usize::from(next[1] < next[0]);
        bench.run(next[who]);
        let now = next[who];
        bench.send(now, who as Node * 2, Some(1), 100, 0).unwrap();
        let pause = (u64::from(pauses[who].next_u32()) * (4 * air + 1)) >> 32;
        next[who] = now + air + pause;
        received += bench.received().len() as u32;
        bench.upcalls.clear();
    }
    bench.finish();
    received += bench.received().len() as u32;
    let sent = bench.radio.counters(0).transmissions + bench.radio.counters(2).transmissions;
    let all = f64::from(frames);
    assert_near("sent", sent as f64, all, all.sqrt());
    // Outcomes of consecutive frames are correlated: twice the binomial deviation.
    let deviation = 2.0 * (all * 0.375 * 0.625).sqrt();
    assert_near("received", f64::from(received), all * 0.375, deviation);
    assert_eq!(
        bench.radio.counters(1).collisions,
        sent - u64::from(received)
    );
}

#[test]
fn endless_noise_loses_frames_and_defers_nodes_by_ratio() {
    let third = Probability::of(1, 3);
    let radio = RadioSpec {
        interference: Some(Interference {
            on: Duration::from_secs(1 << 40),
            off: Duration::ZERO,
            loss: third,
            busy: third,
            runs: Probability::ALWAYS,
        }),
        ..RadioSpec::default()
    };
    let mac = MacSpec {
        acknowledged: false,
        ..MacSpec::default()
    };
    let mut bench = Bench::new(&row(2), &radio, &mac, 1);
    let frames = 20_000;
    for frame in 0..frames {
        let now = bench.events.now().as_micros();
        bench.send(now, 0, Some(1), 100, frame).unwrap();
        bench.finish();
    }
    let all = f64::from(frames);
    let counters = bench.radio.counters(1);
    assert_eq!(counters.collisions, 0);
    assert_near(
        "losses",
        counters.losses as f64,
        all / 3.0,
        (all * 2.0 / 9.0).sqrt(),
    );
    // Busy n times in a row with probability (1/3)^n: mean 1/2, variance 3/4.
    let busy = bench.radio.counters(0).busy as f64;
    assert_near("busy", busy, all / 2.0, (all * 0.75).sqrt());
    assert_eq!(bench.radio.counters(0).transmissions, u64::from(frames));
}

#[test]
fn noise_takes_the_share_of_frames_that_it_lasts() {
    // Noise for a quarter of the time, in which nothing arrives; no node senses it.
    let radio = RadioSpec {
        interference: Some(Interference {
            on: Duration::from_secs(1),
            off: Duration::from_secs(3),
            loss: Probability::ALWAYS,
            busy: Probability::NEVER,
            runs: Probability::ALWAYS,
        }),
        ..RadioSpec::default()
    };
    let mac = MacSpec {
        acknowledged: false,
        ..MacSpec::default()
    };
    let mut bench = Bench::new(&row(2), &radio, &mac, 1);
    let frames = 20_000;
    for frame in 0..frames {
        // Far enough apart to be independent: the noise changes state at a rate of 4/3 per second.
        let now = u64::from(frame) * 10_000_000;
        bench.run(now);
        bench.send(now, 0, Some(1), 100, frame).unwrap();
    }
    bench.finish();
    let all = f64::from(frames);
    let losses = bench.radio.counters(1).losses as f64;
    assert_near("losses", losses, all / 4.0, (all * 3.0 / 16.0).sqrt());
}

/// Runs random settings, frames and times; returns the upcalls.
fn anything(seed: u64, random: &mut Stream) -> Vec<(Instant, Upcall<u32>)> {
    let mut pick = |end: u64| (u64::from(random.next_u32()) * end) >> 32;
    let some = |parts: u64| Probability::of(parts, 100);
    let radio = RadioSpec {
        range_mm: 10_000 + pick(10_000) as u32,
        interference_mm: 5_000 + pick(30_000) as u32,
        boundary: [Boundary::Strict, Boundary::Inclusive][pick(2) as usize],
        cca_range: [
            CcaRange::Interference,
            CcaRange::Transmission,
            CcaRange::Nothing,
        ][pick(3) as usize],
        sfd_sense: pick(2) == 0,
        cca_delay: Duration::from_micros(pick(300)),
        cca_window: Duration::from_micros(pick(300)),
        turnaround: Duration::from_micros(pick(5_000)),
        ack_turnaround: Duration::from_micros(pick(5_000)),
        delivery: match pick(4) {
            0 => Delivery::Perfect,
            1 => Delivery::Fixed(some(70)),
            2 => Delivery::ByDistance(some(40)),
            _ => Delivery::Drawn(vec![(some(50), some(0)), (some(100), some(100))]),
        },
        clear_on_first_end: pick(2) == 0,
        interference: (pick(2) == 0).then(|| Interference {
            on: Duration::from_micros(pick(300_000)),
            off: Duration::from_micros(pick(300_000)),
            loss: some(50),
            busy: some(90),
            runs: Probability::ALWAYS,
        }),
        capture: [
            None,
            Some(CaptureRule::Threshold(300)),
            Some(CaptureRule::Ieee802154),
        ][pick(3) as usize],
    };
    let mac = MacSpec {
        csma: [
            Csma::Contiki27,
            Csma::Contiki30,
            Csma::Contiki3x,
            Csma::Ieee802154,
        ][pick(4) as usize],
        acknowledged: pick(4) > 0,
        transmissions_max: pick(6) as u8,
        buffers: pick(12) as u16,
        root_buffers: None,
        backoff_unit: pick(20) as u16,
        neighbours_max: pick(5) as u16,
        frames_per_neighbour: pick(9) as u16,
        duplicates_remembered: pick(10) as u8,
        ack_wait: Duration::from_micros(pick(3_000)),
        spacing: [Spacing::AfterAll, Spacing::AfterSuccess][pick(2) as usize],
    };
    let regions: Vec<u8> = (0..12).map(|_| pick(3) as u8).collect();
    let positions = grid(4);
    let ground = Ground {
        positions: &positions,
        regions: &regions,
        table: None,
    };
    let mut bench = Bench::on(&ground, &radio, &mac, seed);
    let mut now = 0;
    let mut accepted = 0;
    for frame in 0..300 {
        now += pick(20_000);
        bench.run(now);
        let to = match pick(20) {
            16..18 => None,
            18 => Some(16),
            to => Some(to as Node),
        };
        let sent = bench.send(now, pick(16) as Node, to, pick(130) as u16, frame);
        accepted += u64::from(sent.is_ok());
    }
    // Endless noise would block Contiki 2.7 forever.
    let endless = radio
        .interference
        .is_some_and(|noise| noise.off.is_zero() && !noise.on.is_zero());
    if endless {
        bench.run(now + 1_000_000);
    } else {
        bench.finish();
        assert_eq!(bench.sent().len() as u64, accepted);
    }
    let mut all = MacCounters::default();
    for node in 0..16 {
        let counters = bench.radio.counters(node);
        all.offered += counters.offered;
        all.queue_drops += counters.queue_drops;
        assert!(counters.queued_max <= mac.buffers);
    }
    assert_eq!((all.offered, all.queue_drops), (300, 300 - accepted));
    bench.upcalls
}

#[test]
fn all_buffers_are_released_in_random_runs() {
    let mut upcalls = 0;
    for seed in 0..400 {
        upcalls += anything(seed, &mut Stream::indexed(seed, "anything", 0)).len();
    }
    assert!(upcalls > 40_000, "{upcalls}");
}

#[test]
fn the_same_seed_gives_the_same_sequence() {
    let mut differ = 0;
    for seed in 0..40 {
        let run = |air| anything(air, &mut Stream::indexed(seed, "anything", 1));
        let first = run(1);
        assert_eq!(first, run(1));
        differ += u32::from(first != run(2));
    }
    assert!(differ > 20, "{differ}");
}

#[test]
fn a_share_of_runs_has_noise() {
    let runs = |share: Probability| {
        let radio = RadioSpec {
            interference: Some(Interference {
                on: Duration::from_secs(1 << 40),
                off: Duration::ZERO,
                loss: Probability::ALWAYS,
                busy: Probability::NEVER,
                runs: share,
            }),
            ..RadioSpec::default()
        };
        let lost = |seed: u64| {
            let mac = MacSpec::default();
            let mut bench = Bench::new(&[(0, 0, 0), (EDGE, 0, 0)], &radio, &mac, seed);
            assert!(bench.send(0, 0, Some(1), 50, 1).is_ok());
            bench.run(10_000_000);
            bench.radio.counters(0).no_ack_drops
        };
        (1..=200).map(lost).sum::<u64>()
    };
    assert_eq!(runs(Probability::ALWAYS), 200);
    assert_eq!(runs(Probability::NEVER), 0);
    let half = runs(Probability::of(1, 2));
    assert!((75..=125).contains(&half), "{half}");
}
