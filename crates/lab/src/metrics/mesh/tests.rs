use std::collections::BTreeMap;

use carob_cc::time::{Duration, Instant};
use carob_sim::mesh::record::{Histogram, MacCounters, MeshBin, MeshRecord, NodeRecord, Traced};

use super::collect;

fn samples(record: &MeshRecord) -> BTreeMap<&'static str, Vec<f64>> {
    let mut samples = BTreeMap::<_, Vec<f64>>::new();
    collect(record, &mut |metric, value| {
        samples.entry(metric.name).or_default().push(value);
    });
    samples
}

fn near(samples: &BTreeMap<&'static str, Vec<f64>>, name: &str, expected: f64) {
    let found = &samples[name];
    assert!(
        found.len() == 1 && (found[0] - expected).abs() < 1e-9,
        "{name}: {found:?}, not {expected}"
    );
}

fn histogram(millis: impl IntoIterator<Item = u64>) -> Histogram {
    let mut histogram = Histogram::default();
    for time in millis {
        histogram.add(Duration::from_millis(time));
    }
    histogram
}

#[test]
fn messages_and_counted_bytes_sum_over_all_nodes() {
    let node = |hops, generated, received| NodeRecord {
        generated,
        received,
        sent: received,
        answered: received,
        transmissions: 2 * received,
        retransmissions: received,
        confirmable: received,
        failed: received / 10,
        app_drops: generated - received,
        round_trips: 10,
        round_trip_sum: Duration::from_millis(10 * (15 + 8 * u64::from(hops))),
        orphan: Duration::from_secs(u64::from(hops)),
        stopped_at: (hops == 5).then_some(Duration::from_secs(9)),
        mac: MacCounters {
            offered: 20,
            transmissions: 30,
            queue_drops: 1,
            no_ack_drops: 2,
            ..MacCounters::default()
        },
        route_drops: 4,
        parent: Some(0),
        hops: Some(hops),
        rank: 512,
        etx: 150,
        ..NodeRecord::default()
    };
    let root = NodeRecord {
        hops: Some(0),
        ..NodeRecord::default()
    };
    let record = MeshRecord {
        nodes: vec![root, node(1, 100, 80), node(5, 100, 20)],
        duration: Duration::from_secs(100),
        counted_bytes: 96,
        ..MeshRecord::default()
    };
    let samples = samples(&record);
    for (name, expected) in [
        ("pdr", 0.5),
        ("pdr_of_sent", 1.0),
        ("pdr_near", 0.8),
        ("pdr_far", 0.2),
        ("carried_Bps", 96.0),
        ("throughput_bps", 768.0),
        ("transmissions_per_exchange", 2.0),
        ("failed_ratio", 0.1),
        ("app_drop_ratio", 0.5),
        ("mac_drops", 6.0),
        ("mac_no_ack_drops", 4.0),
        ("mac_no_ack_ratio", 0.1),
        ("mac_transmissions_per_frame", 1.5),
        ("round_trip_per_hop_s", 0.008),
        ("round_trip_base_s", 0.015),
        ("orphan_ratio", 0.03),
        ("stopped", 1.0),
        ("mac_drops_far", 3.0),
        ("route_drop_ratio", 8.0 / 200.0),
        ("orphaned", 0.0),
        ("nodes", 3.0),
    ] {
        near(&samples, name, expected);
    }
    assert_eq!(samples["hops"], [1.0, 5.0]);
    assert_eq!(samples["etx"], [1.5, 1.5]);
    assert!(!samples.contains_key("settling_s") && !samples.contains_key("delay_s"));
}

#[test]
fn a_silent_network_has_no_ratios() {
    let samples = samples(&MeshRecord {
        nodes: vec![NodeRecord::default(); 3],
        duration: Duration::from_secs(100),
        ..MeshRecord::default()
    });
    assert!(!samples.contains_key("pdr") && !samples.contains_key("pdr_of_sent"));
    near(&samples, "generated", 0.0);
    near(&samples, "orphaned", 3.0);
}

#[test]
fn lost_messages_count_as_endlessly_late() {
    let nodes = vec![NodeRecord {
        generated: 100,
        ..NodeRecord::default()
    }];
    let record = MeshRecord {
        nodes,
        delay: histogram([500; 30].into_iter().chain([7_000; 10])),
        burst_delay: histogram([500; 10]),
        near_burst_delay: histogram([500; 10]),
        ..MeshRecord::default()
    };
    let samples = samples(&record);
    for (name, expected) in [
        ("delay_s", 1.8),
        ("burst_delay_s", 0.5),
        ("within_1_s", 0.4),
        ("within_5_s", 0.4),
        ("within_60_s", 0.5),
    ] {
        near(&samples, name, expected);
    }
}

#[test]
fn retransmissions_at_fixed_times_make_steps() {
    let of = |delay| MeshRecord {
        nodes: vec![NodeRecord {
            generated: 10_000,
            ..NodeRecord::default()
        }],
        delay,
        ..MeshRecord::default()
    };
    let copies =
        |from: u64, to: u64, count: u64| (0..count).map(move |n| from + (to - from) * n / count);
    let stairs = copies(50, 300, 800)
        .chain(copies(2_050, 3_300, 150))
        .chain(copies(6_050, 9_300, 100))
        .chain(copies(14_050, 21_300, 50));
    near(&samples(&of(histogram(stairs))), "delay_steps", 3.0);
    let falling = (15..20_000).map(|n| 300_000 / n);
    near(&samples(&of(histogram(falling))), "delay_steps", 0.0);
}

#[test]
fn timers_have_their_range_and_the_share_of_long_ones() {
    let record = MeshRecord {
        nodes: vec![
            NodeRecord {
                rtos: 2,
                rto_sum: Duration::from_secs(4),
                app_drops: 1,
                ..NodeRecord::default()
            },
            NodeRecord {
                rtos: 1,
                rto_sum: Duration::from_secs(6),
                app_drops: 5,
                ..NodeRecord::default()
            },
        ],
        rto_init: histogram([2_000; 75].into_iter().chain([16_000; 25])),
        rttvar_weak: histogram([1_000, 9_000]),
        rtt_weak: histogram([3_000, 5_000]),
        ..MeshRecord::default()
    };
    let samples = samples(&record);
    near(&samples, "rto_init_s", 5.5);
    near(&samples, "rto_init_above_10_s", 0.25);
    assert!((13.8..14.1).contains(&samples["rto_init_range_s"][0]));
    near(&samples, "rttvar_weak_s", 5.0);
    near(&samples, "rttvar_weak_below_5_s", 0.5);
    near(&samples, "weak_updates", 2.0);
    near(&samples, "rtt_weak_s", 4.0);
    assert_eq!(samples["node_rto_s"], [2.0, 6.0]);
    near(&samples, "rto_drop_correlation", 1.0);
}

/// A bin of ten messages a second that take `millis`.
fn bin(millis: u64, rto: u64) -> MeshBin {
    MeshBin {
        generated: 10,
        received: 10,
        delay: Duration::from_millis(10 * millis),
        parent_resets: 0,
        rtos: 2,
        rto_sum: Duration::from_millis(2 * rto),
    }
}

#[test]
fn network_settles_at_first_window_of_steady_rate() {
    let of = |slow: usize| MeshRecord {
        duration: Duration::from_secs(180),
        burst_at: Some(Duration::from_secs(60)),
        bin_width: Duration::from_secs(1),
        bins: (0..180)
            .map(|n| match n {
                60.. if n < 60 + slow => bin(1_000, 4_000),
                _ => bin(100, 2_000),
            })
            .collect(),
        ..MeshRecord::default()
    };
    // One slow second in a window of 20 adds 45 ms to its mean, so the window must be past them all.
    let samples_of_15 = samples(&of(15));
    near(&samples_of_15, "settling_s", 15.0);
    near(&samples_of_15, "settled", 1.0);
    near(&samples_of_15, "rto_before_burst_s", 2.0);
    near(&samples_of_15, "rto_burst_peak_s", 4.0);
    near(&samples_of_15, "rto_after_burst_s", 2.0);
    let never = samples(&of(120));
    near(&never, "settling_s", 120.0);
    near(&never, "settled", 0.0);
}

#[test]
fn traced_node_records_events_after_a_parent_change() {
    let sample = |n: u64| {
        let (parent, rto, retransmissions) = match n {
            0..100 => (Some(1), 2_000, 1),
            100..140 => (Some(2), 500, 4),
            140..270 => (Some(2), 2_000, 1),
            _ => (None, 2_000, 1),
        };
        Traced {
            at: Instant::from_micros(n * 1_000_000),
            rank: 256,
            parent,
            etx: 100,
            rto: Duration::from_millis(rto),
            retransmissions,
        }
    };
    let record = MeshRecord {
        bin_width: Duration::from_secs(1),
        trace: (0..300).map(sample).collect(),
        ..MeshRecord::default()
    };
    let samples = samples(&record);
    near(&samples, "traced_orphan_end_s", 30.0);
    near(&samples, "traced_changed_ratio", 0.3);
    near(&samples, "traced_rto_s", 1.8);
    near(&samples, "traced_rto_after_change_s", 4.0 / 3.0);
    near(&samples, "traced_rto_below_1_s", 40.0 / 300.0);
    near(&samples, "traced_low_after_change", 1.0);
    near(&samples, "traced_copies_ratio", (160.0 + 50.0) / 90.0);
}
