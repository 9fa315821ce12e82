//! Exchanges with times computed by hand.

use super::*;

#[test]
fn a_byte_takes_32_us_and_six_come_before() {
    assert_eq!(air_time(100).as_micros(), 3_392);
    assert_eq!(air_time(FRAME_BYTES_MAX).as_micros(), 4_256);
    assert_eq!(air_time(ACKNOWLEDGEMENT_BYTES).as_micros(), 352);
}

#[test]
fn standard_exchange_takes_frame_turnaround_and_ack() {
    let (radio, mac) = standard();
    let mut bench = Bench::new(&row(2), &radio, &mac, 1);
    bench.send(0, 0, Some(1), 100, 7).unwrap();
    bench.finish();
    let begun = bench.begun[0].0;
    assert_eq!(bench.received(), [(begun + 3_392, 1, 7)]);
    let done = begun + 3_392 + 192 + 352;
    assert_eq!(bench.sent(), [(done, 7, 1, Outcome::Acknowledged)]);
    // Backoff in units of 320 us, assessment and turnaround.
    let backoff = begun - 128 - 192;
    assert!(
        backoff.is_multiple_of(320) && backoff <= 7 * 320,
        "{backoff}"
    );
}

#[test]
fn contiki_sends_at_once_and_checks_ack_after_its_wait() {
    for csma in [Csma::Contiki27, Csma::Contiki30, Csma::Contiki3x] {
        let mut bench = Bench::new(&row(2), &RadioSpec::default(), &contiki(csma), 1);
        bench.send(1_000, 0, Some(1), 100, 7).unwrap();
        bench.finish();
        let arrived = 1_000 + 224 + 3_392;
        assert_eq!(bench.received(), [(arrived, 1, 7)]);
        let done = arrived + 1_041;
        assert_eq!(bench.sent(), [(done, 7, 1, Outcome::Acknowledged)]);
        assert_eq!(bench.radio.counters(1).acknowledgements, 1);
    }
}

#[test]
fn queued_frames_of_a_neighbour_are_sent_back_to_back() {
    let mac = contiki(Csma::Contiki27);
    let mut bench = Bench::new(&row(2), &RadioSpec::default(), &mac, 1);
    for frame in 0..4 {
        bench.send(0, 0, Some(1), 100, frame).unwrap();
    }
    bench.finish();
    let begun: Vec<u64> = bench.begun.iter().map(|(at, _)| *at).collect();
    // The first frame was sent before the others were queued. They follow 16 ticks later, at a tick.
    let done = 224 + 3_392 + 1_041;
    let first = begun[1] - 224;
    let ahead = u64::from(
        bench.radio.stations[0]
            .clock
            .after(Instant::ZERO, 1)
            .as_micros() as u16,
    );
    assert!((done + 15 * 7_812..=done + 16 * 7_813).contains(&first));
    let ticks = (first - ahead) / 7_812;
    assert!(
        (first - ahead).abs_diff(ticks * 15_625 / 2) <= 1,
        "at a tick"
    );
    for (place, at) in begun[1..].iter().enumerate() {
        assert_eq!(*at, begun[1] + place as u64 * (3_392 + 1_041 + 224));
    }
    assert_eq!(bench.received().len(), 4);
}

#[test]
fn four_hops_take_four_frames_and_three_acknowledgements() {
    let mac = contiki(Csma::Contiki27);
    let mut bench = Bench::new(&row(5), &RadioSpec::default(), &mac, 1);
    bench.send(0, 0, Some(1), 100, 7).unwrap();
    let mut upcalls = 0;
    while bench.step(u64::MAX) {
        for place in upcalls..bench.upcalls.len() {
            let (now, up) = bench.upcalls[place];
            if let Upcall::Received { at, payload, .. } = up
                && at < 4
            {
                let now = now.as_micros();
                bench.send(now, at, Some(at + 1), 100, payload).unwrap();
            }
        }
        upcalls = bench.upcalls.len();
    }
    bench.finish();
    // Turnaround and frame; then per relay an acknowledgement after its turnaround, and the frame.
    let first = 224 + 3_392;
    let hop = 256 + 352 + first;
    let expected: Vec<_> = (0..4)
        .map(|k| (first + k * hop, k as Node + 1, 7))
        .collect();
    assert_eq!(bench.received(), expected);
    assert_eq!(expected[3].0, 16_288);
    let counters = bench.radio.counters(2);
    assert_eq!((counters.busy, counters.collisions), (0, 0));
}

#[test]
fn without_acknowledgements_every_frame_succeeds() {
    let mac = MacSpec {
        acknowledged: false,
        ..MacSpec::default()
    };
    let radio = RadioSpec {
        delivery: Delivery::Fixed(Probability::NEVER),
        ..RadioSpec::default()
    };
    let mut bench = Bench::new(&row(2), &radio, &mac, 1);
    bench.send(0, 0, Some(1), 100, 7).unwrap();
    bench.finish();
    let done = 224 + 3_392;
    assert_eq!(bench.sent(), [(done, 7, 1, Outcome::Acknowledged)]);
    assert_eq!(bench.radio.counters(1).losses, 1);
    assert!(bench.received().is_empty());
}

#[test]
fn a_broadcast_reaches_all_neighbours_and_is_not_acknowledged() {
    let mac = contiki(Csma::Contiki27);
    let mut bench = Bench::new(&grid(3), &RadioSpec::default(), &mac, 1);
    bench.send(0, 4, None, 50, 7).unwrap();
    bench.finish();
    let arrived = 224 + 56 * 32;
    let received: Vec<_> = [1, 3, 5, 7].map(|node| (arrived, node, 7)).into();
    assert_eq!(bench.received(), received);
    assert_eq!(bench.sent(), [(arrived, 7, 1, Outcome::Broadcast)]);
    assert!((0..9).all(|node| bench.radio.counters(node).acknowledgements == 0));
}

#[test]
fn hidden_frames_collide_within_one_air_time() {
    let mac = MacSpec {
        acknowledged: false,
        ..MacSpec::default()
    };
    for apart in [0, 1, 500, 3_391, 3_392, 3_393] {
        let mut bench = Bench::new(&row(3), &RadioSpec::default(), &mac, 1);
        bench.send(0, 0, Some(1), 100, 0).unwrap();
        bench.run(apart);
        bench.send(apart, 2, Some(1), 100, 2).unwrap();
        bench.finish();
        let expected = if apart < 3_392 { 0 } else { 2 };
        assert_eq!(bench.received().len(), expected, "{apart}");
        let collisions = bench.radio.counters(1).collisions;
        assert_eq!(collisions, 2 - expected as u64);
        // Neither end senses the other, 20 m away.
        assert_eq!(
            bench.radio.counters(0).busy + bench.radio.counters(2).busy,
            0
        );
    }
}

#[test]
fn neighbours_sense_each_other_after_the_turnaround() {
    let mac = MacSpec {
        acknowledged: false,
        ..MacSpec::default()
    };
    // Node 1 assesses the channel while node 0 turns around or has just started.
    for (apart, is_busy) in [
        (0, false),
        (335, false),
        (336, true),
        (3_615, true),
        (3_617, false),
    ] {
        let mut bench = Bench::new(&row(2), &RadioSpec::default(), &mac, 1);
        bench.send(0, 0, None, 100, 0).unwrap();
        bench.run(apart);
        bench.send(apart, 1, None, 100, 1).unwrap();
        bench.finish();
        assert_eq!(bench.radio.counters(1).busy > 0, is_busy, "{apart}");
        let arrive = if is_busy || apart > 3_616 { 2 } else { 0 };
        assert_eq!(bench.received().len(), arrive, "{apart}");
    }
}

/// Nodes 0 and 2 send to 1 and 3, which receive nothing else. Node 0 also receives 3; node 1 does not receive 0.
fn crossed() -> Vec<TableLink> {
    let link = |from, to| TableLink {
        from,
        to,
        delivery: Probability::ALWAYS,
    };
    vec![link(2, 3), link(3, 2), link(3, 0)]
}

#[test]
fn acknowledgement_is_matched_by_sequence_number_only() {
    let radio = RadioSpec {
        delivery: Delivery::Table,
        ..RadioSpec::default()
    };
    let table = crossed();
    let ground = Ground {
        positions: &[(0, 0, 0); 4],
        regions: &[],
        table: Some(&table),
    };
    let mac = contiki(Csma::Contiki27);
    let mut bench = Bench::on(&ground, &radio, &mac, 1);
    // Both frames have sequence number 1.
    bench.send(0, 0, Some(1), 100, 0).unwrap();
    bench.send(0, 2, Some(3), 100, 2).unwrap();
    bench.finish();
    assert!(
        bench
            .sent()
            .iter()
            .all(|sent| sent.3 == Outcome::Acknowledged)
    );
    assert_eq!(bench.received().len(), 1);
    // With node 2 one number ahead, node 0 receives an acknowledgement with another number. Contiki treats the attempt as
    // no transmission, so there are five.
    let mut bench = Bench::on(&ground, &radio, &mac, 1);
    bench.send(0, 2, None, 20, 1).unwrap();
    bench.run(100_000);
    bench.send(100_000, 0, Some(1), 100, 0).unwrap();
    bench.send(100_000, 2, Some(3), 100, 2).unwrap();
    bench.finish();
    let last = *bench.sent().last().expect("node 0's");
    assert_eq!((last.1, last.2, last.3), (0, 4, Outcome::NotAcknowledged));
    assert_eq!(bench.radio.counters(0).transmissions, 5);
    // The standard keeps listening for the right acknowledgement.
    let (_, mac) = standard();
    let mut bench = Bench::on(&ground, &radio, &mac, 1);
    bench.send(0, 2, None, 20, 1).unwrap();
    bench.run(100_000);
    bench.send(100_000, 0, Some(1), 100, 0).unwrap();
    bench.send(100_000, 2, Some(3), 100, 2).unwrap();
    bench.finish();
    assert_eq!(bench.radio.counters(0).transmissions, 4);
}
