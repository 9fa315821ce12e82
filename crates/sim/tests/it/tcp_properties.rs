//! Properties under random loss, duplication, reordering and marks, for every profile and algorithm: every byte arrives
//! exactly once in order, and connections end.

use crate::tcp_common::{Fate, Path, ms, pattern};
use carob_cc::time::Duration;
use carob_sim::random::{Probability, Stream};
use carob_sim::tcp::settings::PROFILES;
use carob_sim::tcp::{Event, State, TcpSettings};

/// Variants of every profile.
fn variants() -> Vec<(String, TcpSettings)> {
    let changes: &[&[(&str, &str)]] = &[
        &[],
        &[("congestion", "bbr1")],
        &[
            ("congestion", "bbr1"),
            ("bbr_era", "linux-5"),
            ("sack", "true"),
        ],
        &[("congestion", "bbr3")],
        &[("congestion", "bbr3"), ("sack", "true")],
        &[("congestion", "cubic")],
        &[("reduction", "classic")],
        &[("reduction", "reno"), ("limited_transmit", "false")],
        &[("sack", "true"), ("reduction", "classic")],
        &[("sack", "true"), ("timestamps", "true"), ("ecn", "true")],
        &[("after_timeout", "head-only")],
        &[("careful", "false"), ("nagle", "true")],
        &[("ecn", "true"), ("prr_bound", "crb")],
        &[
            ("receive_window", "4000"),
            ("send_buffer", "3000"),
            ("mss", "300"),
        ],
        &[("backoff_end", "new-ack"), ("delayed_ack", "none")],
    ];
    let mut all = Vec::new();
    for profile in &PROFILES {
        for change in changes {
            let mut settings = profile.settings;
            let mut name = profile.name.to_owned();
            for (key, value) in *change {
                settings.set(key, value).expect("a setting");
                name = format!("{name} {key}={value}");
            }
            settings.rto_max = Duration::from_secs(20);
            settings.retries = 60;
            settings.syn_retries = 60;
            settings.synack_retries = 60;
            settings.time_wait = Duration::from_secs(30);
            all.push((name, settings));
        }
    }
    all
}

/// A path with random loss, duplication, reordering and marks.
fn unruly(settings: &TcpSettings, seed: u64, loss_ppm: u32) -> Path {
    let mut path = Path::new(settings, settings, seed);
    let mut chance = Stream::new(seed, "path");
    path.filter(move |_, _, _| {
        let (lost, twice, late, marked) = (
            chance.happens(Probability::ppm(loss_ppm)),
            chance.happens(Probability::ppm(30_000)),
            chance.happens(Probability::ppm(50_000)),
            chance.happens(Probability::ppm(30_000)),
        );
        let by = chance.uniform(Duration::ZERO, ms(300));
        match (lost, twice, late, marked) {
            (true, ..) => Fate::Drop,
            (_, true, ..) => Fate::Twice(by),
            (_, _, true, _) => Fate::Late(by),
            (.., true) => Fate::Mark,
            _ => Fate::Deliver,
        }
    });
    path
}

#[test]
fn every_byte_arrives_in_order_exactly_once_and_connections_end() {
    for (name, settings) in variants() {
        for seed in 0..60 {
            let loss = [0, 20_000, 100_000, 250_000][seed as usize % 4];
            let mut path = unruly(&settings, seed, loss);
            let (forth, back) = (pattern(30_000, 1), pattern(20_000, 2));
            path.connect();
            path.send(true, forth.clone(), true);
            path.send(false, back.clone(), true);
            path.run_for(Duration::from_secs(4 * 3_600));
            let what = format!("{name}, seed {seed}");
            assert!(
                path.b.received == forth,
                "{what}: {} bytes",
                path.b.received.len()
            );
            assert!(
                path.a.received == back,
                "{what}: {} bytes",
                path.a.received.len()
            );
            for a in [true, false] {
                assert!(path.told(a, Event::PeerClosed), "{what}");
                assert!(!path.told(a, Event::Reset), "{what}");
                // If the last ACK is lost after the other end is gone, the last FIN is answered with a RST or given up.
                // In any case the connection ends.
                let end = if a { &path.a } else { &path.b };
                assert_eq!(end.socket.state(), State::Closed, "{what} {:?}", end.events);
            }
        }
    }
}

#[test]
fn a_connection_survives_minutes_of_silence() {
    for (name, settings) in variants() {
        let mut path = Path::new(&settings, &settings, 3);
        path.connect();
        path.run_for(ms(500));
        path.filter(|_, _, _| Fate::Drop);
        let body = pattern(12_000, 7);
        path.send(true, body.clone(), true);
        path.run_for(Duration::from_secs(150));
        assert!(path.b.received.is_empty());
        path.filter(|_, _, _| Fate::Deliver);
        path.run_for(Duration::from_secs(300));
        assert!(path.b.received == body, "{name}");
    }
}

#[test]
fn runs_with_one_seed_are_equal() {
    let run = |seed| {
        let mut path = unruly(&TcpSettings::MODERN, seed, 50_000);
        path.connect();
        path.send(true, pattern(50_000, 1), true);
        path.run_for(Duration::from_secs(3_600));
        let times = path.sent.iter().map(|sent| (sent.at, sent.segment.seq));
        times.collect::<Vec<_>>()
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn mutated_segments_never_panic() {
    for (_, settings) in variants().into_iter().step_by(5) {
        let mut path = Path::connected(&settings);
        let mut chance = Stream::new(11, "noise");
        path.send(true, pattern(20_000, 1), false);
        path.send(false, pattern(20_000, 2), false);
        for _ in 0..3_000 {
            let Some(sent) = path.sent.get(chance.next_u64() as usize % path.sent.len()) else {
                continue;
            };
            let (mut segment, at_a) = (sent.segment.clone(), !sent.forth);
            let draw = chance.next_u64();
            // Sequence numbers near valid ones, any flags except RST, and random SACK blocks.
            segment.seq = segment
                .seq
                .wrapping_add((draw as u32 & 0xffff).wrapping_sub(0x8000));
            segment.ack = segment
                .ack
                .wrapping_add((draw >> 16) as u32 & 0xffff)
                .wrapping_sub(0x8000);
            segment.flags = carob_sim::tcp::segment::Flags((draw >> 32) as u8 & 0xfb);
            segment.window = (draw >> 40) as u16;
            segment
                .options
                .sack
                .push(segment.ack, segment.ack.wrapping_add(draw as u32 >> 20));
            segment.options.timestamps = Some((draw as u32, (draw >> 32) as u32));
            path.inject(at_a, &segment);
            path.run_for(Duration::from_micros(draw >> 50));
            if path.sent.len() > 5_000 {
                path.sent.truncate(1_000);
            }
        }
    }
}

#[test]
fn random_segments_outside_window_keep_the_connection() {
    let mut path = Path::connected(&TcpSettings::MODERN);
    let mut chance = Stream::new(9, "noise");
    let (a, b) = (pattern(3_000, 1), pattern(3_000, 2));
    path.send(true, a.clone(), false);
    let seen: Vec<_> = path.sent.iter().map(|sent| sent.segment.clone()).collect();
    for k in 0..5_000_usize {
        let mut segment = seen[k % seen.len()].clone();
        let draw = chance.next_u64();
        // At least a quarter of the sequence space away, so that none is valid by chance.
        let away = 0x4000_0000 + (draw as u32 >> 2);
        let (of_a, of_b) = (
            segment.seq.wrapping_add(away),
            segment.ack.wrapping_add(away),
        );
        segment.seq = of_a;
        segment.flags = carob_sim::tcp::segment::Flags((draw >> 40) as u8 & 0x17);
        path.inject(false, &segment);
        (segment.seq, segment.ack) = (of_b, of_a);
        path.inject(true, &segment);
    }
    path.send(false, b.clone(), false);
    path.run_for(Duration::from_secs(200));
    assert!(path.b.received == a && path.a.received == b);
}
