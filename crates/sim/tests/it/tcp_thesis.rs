//! The thesis's long transfers: medians of its Tables 6 to 9 and 11, and what a real kernel did.
//!
//! Tolerances are those that the model was held to when it was written; the cells that are known
//! to differ are in `archive/adr/0014-tcp-model.md`, with the command that shows by how much.

use crate::tcp_common::transfer::{self as transfer, Flow, Spec};
use carob_cc::time::Duration;
use carob_sim::link::{DirectionSpec, ExtraDelay, LinkSpec, LossProfile, profile};
use carob_sim::tcp::TcpSettings;
use carob_sim::tcp::settings::Algorithm;

fn spec(settings: TcpSettings, error: &str, buffer: u64, clients: u32, seed: u64) -> Spec {
    let direction = |rate, delay| DirectionSpec {
        delay: Duration::from_millis(delay),
        extra: ExtraDelay::Constant(Duration::from_millis(15)),
        loss: profile(error)
            .expect("a profile")
            .per_packet(LossProfile::BURST_MILLIPACKETS),
        ..DirectionSpec::new(rate, buffer)
    };
    let link = LinkSpec {
        down: direction(30_000, 400),
        up: direction(60_000, 200),
    };
    Spec {
        clients,
        start: Duration::from_secs(u64::from(clients > 1)),
        ..Spec::thesis(link, settings, seed)
    }
}

fn flows(settings: TcpSettings, error: &str, buffer: u64, clients: u32, seeds: u64) -> Vec<Flow> {
    (0..seeds)
        .flat_map(|seed| {
            let spec = spec(settings, error, buffer, clients, seed);
            transfer::run(&spec).expect("a transfer").flows
        })
        .collect()
}

fn median_s(flows: &[Flow]) -> f64 {
    let mut all: Vec<_> = flows
        .iter()
        .map(|flow| {
            assert!(flow.intact, "a byte is wrong");
            flow.completion.expect("complete")
        })
        .collect();
    all.sort();
    all[all.len() / 2].as_micros() as f64 / 1e6
}

fn with(base: TcpSettings, congestion: Algorithm) -> TcpSettings {
    TcpSettings { congestion, ..base }
}

fn close(what: &str, measured: f64, printed: f64, tolerance: f64) {
    let off = measured / printed - 1.0;
    assert!(
        off.abs() <= tolerance,
        "{what}: {measured:.3} s for {printed:.3} s"
    );
}

const RENO: TcpSettings = TcpSettings::THESIS;

#[test]
fn table_6_new_reno_without_errors_is_within_3_per_cent() {
    for (buffer, printed) in [
        (2_500, 36.213),
        (14_100, 58.235),
        (28_200, 95.138),
        (1_410_000, 32.867),
    ] {
        let measured = median_s(&flows(RENO, "none", buffer, 1, 3));
        close(&format!("{buffer} B"), measured, printed, 0.03);
    }
}

#[test]
fn table_6_bbr_without_errors_is_within_3_per_cent() {
    for buffer in [14_100, 28_200, 1_410_000] {
        let measured = flows(with(RENO, Algorithm::Bbr1), "none", buffer, 1, 10);
        close(&format!("{buffer} B"), median_s(&measured), 34.568, 0.03);
        assert!(measured.iter().all(|flow| flow.server.retransmissions == 0));
    }
}

#[test]
fn a_real_kernel_is_met_within_2_per_cent_and_2_retransmissions() {
    // `docs/emulation.md#agreement-with-the-thesis`: medians and retransmitted segments.
    let kernel = TcpSettings::KERNEL;
    for (buffer, printed, resent) in [
        (2_500, 35.9, 18),
        (14_100, 58.2, 56),
        (28_200, 95.0, 99),
        (1_410_000, 32.7, 0),
    ] {
        let measured = flows(kernel, "none", buffer, 1, 3);
        close(&format!("{buffer} B"), median_s(&measured), printed, 0.02);
        for flow in &measured {
            let off = flow.server.retransmissions.abs_diff(resent);
            assert!(
                off <= 2,
                "{buffer} B: {} resent",
                flow.server.retransmissions
            );
        }
    }
    let bbr = flows(with(kernel, Algorithm::Bbr1), "none", 14_100, 1, 10);
    close("BBR", median_s(&bbr), 34.6, 0.02);
    assert!(bbr.iter().all(|flow| flow.server.retransmissions == 0));
}

#[test]
fn a_kernel_receiver_acknowledges_about_every_second_segment() {
    // `docs/emulation.md#settings-the-kernel-does-not-offer`: 211 ACKs for 405 segments.
    let flow = &flows(TcpSettings::KERNEL, "none", 1_410_000, 1, 1)[0];
    assert!(
        (205..=217).contains(&flow.client.segments),
        "{}",
        flow.client.segments
    );
}

#[test]
fn table_7_four_clients_without_errors_are_within_6_per_cent() {
    for (buffer, printed) in [
        (2_500, 125.964),
        (14_100, 121.516),
        (28_200, 127.502),
        (1_410_000, 109.228),
    ] {
        let measured = median_s(&flows(RENO, "none", buffer, 4, 200));
        close(&format!("{buffer} B"), measured, printed, 0.06);
    }
}

#[test]
fn table_8_low_error_is_within_12_per_cent() {
    for (buffer, printed) in [
        (2_500, 48.844),
        (14_100, 44.521),
        (28_200, 42.888),
        (1_410_000, 42.432),
    ] {
        let measured = median_s(&flows(RENO, "low", buffer, 1, 200));
        close(&format!("New Reno, {buffer} B"), measured, printed, 0.12);
    }
    for (buffer, printed) in [(14_100, 37.973), (28_200, 37.870), (1_410_000, 37.048)] {
        let measured = median_s(&flows(with(RENO, Algorithm::Bbr1), "low", buffer, 1, 200));
        close(&format!("BBR, {buffer} B"), measured, printed, 0.12);
    }
}

#[test]
fn table_11_four_clients_with_low_error_are_within_12_per_cent() {
    for (buffer, printed) in [
        (2_500, 126.763),
        (14_100, 122.251),
        (28_200, 126.246),
        (1_410_000, 121.251),
    ] {
        let measured = median_s(&flows(RENO, "low", buffer, 4, 100));
        close(&format!("{buffer} B"), measured, printed, 0.12);
    }
}

#[test]
fn table_9_medium_error_is_within_quartiles_or_a_quarter() {
    let reno = [
        (2_500, 124.164, 152.292, 174.389),
        (14_100, 119.229, 124.035, 174.882),
        (28_200, 129.765, 143.559, 158.650),
        (1_410_000, 132.257, 145.756, 179.963),
    ];
    // Not BBR with 14,100 B: 124 s, just outside, and with a spread that no seeds settle.
    let bbr = [
        (28_200, 78.552, 99.338, 135.350),
        (1_410_000, 62.055, 84.252, 123.978),
    ];
    let cells = reno.map(|cell| (Algorithm::NewReno, cell)).into_iter();
    for (algorithm, (buffer, low, median, high)) in
        cells.chain(bbr.map(|cell| (Algorithm::Bbr1, cell)))
    {
        let measured = median_s(&flows(with(RENO, algorithm), "medium", buffer, 1, 200));
        let near = (measured / median - 1.0).abs() <= 0.25;
        assert!(
            near || (low..=high).contains(&measured),
            "{algorithm} {buffer} B: {measured:.1} s"
        );
    }
}

#[test]
fn the_response_is_401_full_segments_and_set_up_a_round_trip() {
    let flow = &flows(RENO, "none", 1_410_000, 1, 1)[0];
    // 401 of the response and the one of the capabilities.
    assert_eq!(flow.server.data_segments, 402);
    // A SYN and a SYN-ACK of 48 bytes (MSS and window scale): 215 + 6.4 and 415 + 12.8 ms.
    let setup = flow.setup.expect("connected");
    assert_eq!(setup.as_micros(), 649_200);
}

#[test]
fn one_seed_gives_one_history() {
    let run = |seed| {
        transfer::run(&spec(RENO, "medium", 14_100, 4, seed))
            .expect("a transfer")
            .hash
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn a_marking_queue_replaces_losses() {
    use carob_sim::link::{CoDelSpec, Discipline};
    let outcome = |ecn: bool| {
        let mut spec = spec(TcpSettings { ecn, ..RENO }, "none", 28_200, 1, 1);
        spec.link.down.buffer = spec.link.down.buffer.with(Discipline::CoDel(CoDelSpec {
            target: Duration::from_millis(80),
            interval: Duration::from_millis(700),
            mtu_bytes: 296,
            ecn: true,
        }));
        transfer::run(&spec).expect("a transfer")
    };
    let (plain, marking) = (outcome(false), outcome(true));
    assert!(plain.down.dropped_early > 0 && plain.flows[0].server.retransmissions > 0);
    assert!(marking.down.marked > 0 && marking.flows[0].server.ecn_reductions > 0);
    assert_eq!(marking.down.dropped_early + marking.down.dropped_full, 0);
    assert_eq!(marking.flows[0].server.retransmissions, 0);
}
