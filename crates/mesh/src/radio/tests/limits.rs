//! Limits: rejected frames, abandoned frames, and their times.

use super::*;
use crate::spec::Interference;

/// Two ticks of Contiki's clock.
const TWO_TICKS: u64 = 15_625;

#[test]
fn contiki27_pauses_as_long_as_it_is_coded_to() {
    // No receiver. After n transmissions the pause is between 125 ms and n + 2 times 125 ms, less a fraction of the first
    // tick.
    let mac = contiki(Csma::Contiki27);
    let mut extremes = [(u64::MAX, 0); 3];
    for seed in 0..500 {
        let mut bench = Bench::new(&row(1), &RadioSpec::default(), &mac, seed);
        bench.send(0, 0, Some(1), 100, 0).unwrap();
        bench.finish();
        assert_eq!(bench.sent()[0].2, 4);
        assert_eq!(bench.sent()[0].3, Outcome::NotAcknowledged);
        assert_eq!(bench.radio.counters(0).no_ack_drops, 1);
        for (pair, extreme) in bench.begun.windows(2).zip(&mut extremes) {
            let pause = pair[1].0 - pair[0].0 - 3_392 - 1_041 - 224;
            *extreme = (extreme.0.min(pause), extreme.1.max(pause));
        }
    }
    for (extreme, most) in extremes.iter().zip([47, 63, 63]) {
        assert!(extreme.0 >= 15 * TWO_TICKS / 2, "{extremes:?}");
        assert!(extreme.0 <= 17 * TWO_TICKS / 2, "{extremes:?}");
        assert!(extreme.1 <= most * TWO_TICKS / 2 + 1, "{extremes:?}");
        assert!(extreme.1 >= (most - 2) * TWO_TICKS / 2, "{extremes:?}");
    }
}

/// A channel that is never clear.
fn jammed() -> RadioSpec {
    RadioSpec {
        interference: Some(Interference {
            on: Duration::from_secs(1 << 40),
            off: Duration::ZERO,
            loss: Probability::ALWAYS,
            busy: Probability::ALWAYS,
            runs: Probability::ALWAYS,
        }),
        ..RadioSpec::default()
    }
}

#[test]
fn busy_channel_blocks_contiki27_and_ends_standard_after_five() {
    for csma in [Csma::Contiki27, Csma::Contiki30] {
        let mut bench = Bench::new(&row(2), &jammed(), &contiki(csma), 1);
        bench.send(0, 0, Some(1), 100, 0).unwrap();
        bench.run(100_000_000);
        // The mean pause is 187.5 ms.
        let busy = bench.radio.counters(0).busy;
        assert!((500..570).contains(&busy), "{busy}");
        assert_eq!(bench.radio.queued(0), 1);
        assert!(bench.upcalls.is_empty() && bench.begun.is_empty());
    }
    for (csma, busy, transmissions) in [(Csma::Ieee802154, 5, 0), (Csma::Contiki3x, 24, 4)] {
        let mut bench = Bench::new(&row(2), &jammed(), &contiki(csma), 1);
        bench.send(0, 0, Some(1), 100, 0).unwrap();
        bench.send(0, 0, None, 100, 1).unwrap();
        bench.finish();
        assert_eq!(bench.radio.counters(0).busy, 2 * busy);
        assert_eq!(bench.radio.counters(0).channel_drops, 2);
        for (_, _, counted, outcome) in bench.sent() {
            assert_eq!((counted, outcome), (transmissions, Outcome::ChannelBusy));
        }
    }
}

#[test]
fn third_concurrent_neighbour_has_no_queue() {
    let mac = contiki(Csma::Contiki27);
    let mut bench = Bench::new(&grid(3), &RadioSpec::default(), &mac, 1);
    assert_eq!(bench.send(0, 4, Some(1), 100, 0), Ok(()));
    assert_eq!(bench.send(0, 4, Some(3), 100, 1), Ok(()));
    assert_eq!(
        bench.send(0, 4, Some(5), 100, 2),
        Err(SendError::Neighbours)
    );
    assert_eq!(bench.send(0, 4, None, 100, 2), Err(SendError::Neighbours));
    assert_eq!(bench.send(0, 4, Some(3), 100, 3), Ok(()));
    bench.finish();
    let counters = bench.radio.counters(4);
    assert_eq!((counters.offered, counters.queue_drops), (5, 2));
    assert_eq!((counters.transmissions, counters.queued_max), (3, 3));
    // Both queues are free again.
    let now = bench.events.now().as_micros();
    assert_eq!(bench.send(now, 4, None, 100, 4), Ok(()));
    assert_eq!(bench.send(now, 4, Some(7), 100, 5), Ok(()));
    bench.finish();
    // The standard MAC has one queue for all neighbours.
    let (radio, mac) = standard();
    let mut bench = Bench::new(&grid(3), &radio, &mac, 1);
    for to in [1, 3, 5, 7] {
        assert_eq!(bench.send(0, 4, Some(to), 100, 0), Ok(()));
    }
    bench.finish();
    let order: Vec<Node> = bench.received().iter().map(|frame| frame.1).collect();
    assert_eq!(order, [1, 3, 5, 7]);
}

#[test]
fn node_may_have_separate_buffers() {
    let mac = MacSpec {
        buffers: 4,
        frames_per_neighbour: 8,
        ..contiki(Csma::Contiki27)
    };
    let mut bench = Bench::new(&row(3), &RadioSpec::default(), &mac, 1);
    bench.radio.set_buffers(0, 2);
    for (node, to, most) in [(0, 1, 2), (2, 1, 4)] {
        let sent = (0..6).map(|frame| bench.send(0, node, Some(to), 100, frame));
        assert_eq!(sent.flatten().count(), most, "node {node}");
    }
}

#[test]
fn shared_buffers_are_released() {
    for csma in [Csma::Contiki27, Csma::Ieee802154] {
        let mac = MacSpec {
            frames_per_neighbour: 8,
            ..contiki(csma)
        };
        let mut bench = Bench::new(&grid(3), &RadioSpec::default(), &mac, 1);
        for frame in 0..8 {
            let to = [1, 3][frame as usize % 2];
            assert_eq!(bench.send(0, 4, Some(to), 100, frame), Ok(()));
        }
        assert_eq!(bench.send(0, 4, Some(1), 100, 8), Err(SendError::Full));
        assert_eq!(bench.radio.queued(4), 8);
        bench.finish();
        assert_eq!(bench.received().len(), 8);
    }
    let mac = MacSpec {
        frames_per_neighbour: 2,
        ..contiki(Csma::Contiki27)
    };
    let mut bench = Bench::new(&grid(3), &RadioSpec::default(), &mac, 1);
    for expected in [Ok(()), Ok(()), Err(SendError::Full)] {
        assert_eq!(bench.send(0, 4, Some(1), 100, 0), expected);
    }
    assert_eq!(bench.send(0, 4, Some(3), 100, 0), Ok(()));
    assert_eq!(bench.send(0, 4, Some(3), 128, 0), Err(SendError::TooLong));
    bench.finish();
}

#[test]
fn a_full_node_without_a_queue_for_the_neighbour_opens_none() {
    let mac = MacSpec {
        buffers: 0,
        ..MacSpec::default()
    };
    let mut bench = Bench::new(&row(2), &RadioSpec::default(), &mac, 1);
    assert_eq!(bench.send(0, 0, Some(1), 100, 0), Err(SendError::Full));
    bench.finish();
}

#[test]
fn frames_whose_acknowledgements_are_lost_arrive_once() {
    let table = [TableLink {
        from: 0,
        to: 1,
        delivery: Probability::ALWAYS,
    }];
    let ground = Ground {
        positions: &[(0, 0, 0); 2],
        regions: &[],
        table: Some(&table),
    };
    let radio = RadioSpec {
        delivery: Delivery::Table,
        ..RadioSpec::default()
    };
    for (remembered, arrive) in [(8, 1), (0, 4)] {
        let mac = MacSpec {
            duplicates_remembered: remembered,
            ..MacSpec::default()
        };
        let mut bench = Bench::on(&ground, &radio, &mac, 1);
        bench.send(0, 0, Some(1), 100, 7).unwrap();
        bench.finish();
        assert_eq!(bench.received().len(), arrive);
        assert_eq!(bench.sent()[0].3, Outcome::NotAcknowledged);
        let counters = bench.radio.counters(1);
        assert_eq!(counters.duplicates, 4 - arrive as u64);
        assert_eq!(counters.acknowledgements, 4);
    }
}

#[test]
fn duplicate_filter_forgets_old_frames() {
    let (radio, mac) = standard();
    let mac = MacSpec {
        duplicates_remembered: 2,
        buffers: 600,
        ..mac
    };
    // Sequence numbers repeat after 256 frames (255, 0, 1 as a byte; 0 is skipped once in 65,536).
    let mut bench = Bench::new(&row(2), &radio, &mac, 1);
    for frame in 0..600 {
        bench.send(0, 0, Some(1), 20, frame).unwrap();
    }
    bench.finish();
    assert_eq!(bench.received().len(), 600);
}

#[test]
fn counters_can_be_reset_while_frames_wait() {
    let mac = contiki(Csma::Contiki27);
    let mut bench = Bench::new(&row(2), &RadioSpec::default(), &mac, 1);
    for frame in 0..3 {
        bench.send(0, 0, Some(1), 100, frame).unwrap();
    }
    bench.run(10_000);
    bench.radio.reset_counters();
    let expected = MacCounters {
        queued_max: 2,
        ..MacCounters::default()
    };
    assert_eq!(*bench.radio.counters(0), expected);
    bench.finish();
    assert_eq!(bench.radio.counters(0).transmissions, 2);
}

#[test]
fn deaf_node_misses_early_frames_without_acknowledging() {
    use Outcome::{Acknowledged, NotAcknowledged};
    let mac = MacSpec {
        transmissions_max: 1,
        ..contiki(Csma::Contiki27)
    };
    let outcomes = |deaf: u64| {
        let mut bench = Bench::new(&row(2), &RadioSpec::default(), &mac, 1);
        bench.radio.set_deaf(1, Duration::from_micros(deaf));
        bench.send(0, 0, Some(1), 100, 0).unwrap();
        bench.run(8_000);
        bench.send(8_000, 0, Some(1), 100, 1).unwrap();
        bench.run(30_000);
        bench.send(30_000, 1, Some(0), 100, 2).unwrap();
        bench.run(u64::MAX);
        let outcomes: Vec<Outcome> = bench.sent().iter().map(|sent| sent.3).collect();
        (outcomes, bench.received().len())
    };
    assert_eq!(outcomes(0), (vec![Acknowledged; 3], 3));
    let missed = vec![Acknowledged, NotAcknowledged, Acknowledged];
    assert_eq!(outcomes(20_000), (missed, 2));
}
