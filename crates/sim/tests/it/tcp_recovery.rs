//! Fast retransmit and recovery (RFC 5681, 6582, 3042, 6675, 6937), one rule per test, with times computed by hand. The
//! round-trip time is 100 ms without a rate limit, as in `tcp_rules.rs`.
//!
//! Transmission times of a paced sender.
//!
//! The path takes 50 ms per direction: the initial rate is 2.887 times the initial window in 100 ms.

use carob_sim::tcp::TcpSettings;
use carob_sim::tcp::congestion::State as LossState;
use carob_sim::tcp::counters::SenderEvent;

use crate::tcp_common::{BEGIN, Fate, MSS, Path, copies, linux, ms, rfc, segments, with};

/// Sends a window of 16 segments at `BEGIN` and drops these.
fn window_of_16(settings: &TcpSettings, lost: &'static [u64], count: usize) -> Path {
    let mut path = Path::connected(&with(*settings, &[("initial_window", "16")]));
    path.drop_data(lost);
    path.send(true, segments(count), false);
    path
}

#[test]
fn rfc_5681_3_2_the_third_duplicate_sends_the_missing_segment() {
    for settings in [rfc(&[]), linux(&[]), linux(&[("sack", "true")])] {
        let mut path = window_of_16(&settings, &[2], 16);
        path.run_for(ms(90));
        assert_eq!(copies(&path, 2).len(), 1);
        path.run_for(ms(2_000));
        assert_eq!(copies(&path, 2), [BEGIN, BEGIN + 100]);
        assert_eq!(path.b.received, segments(16));
        assert_eq!(path.repairs_of_a(), (1, 0, 1));
    }
}

#[test]
fn two_duplicates_are_treated_as_reordering() {
    let mut path = Path::connected(&linux(&[("initial_window", "16")]));
    // The third segment arrives after the two that follow it.
    path.filter(|segment, forth, number| match (forth, number) {
        (true, 2) if !segment.payload.is_empty() => Fate::Late(ms(1)),
        (true, 5..) => Fate::Late(ms(2)),
        _ => Fate::Deliver,
    });
    path.send(true, segments(16), false);
    path.run_for(ms(2_000));
    let counters = path.a.socket.counters();
    assert_eq!((counters.retransmissions, counters.duplicate_acks), (0, 2));
    assert_eq!(path.a.socket.loss_state(), LossState::Open);
}

#[test]
fn rfc_3042_the_first_two_duplicates_send_new_segments() {
    for (limited, expected) in [("true", vec![16, 17]), ("false", vec![])] {
        for base in [rfc(&[]), linux(&[])] {
            let settings = with(base, &[("limited_transmit", limited)]);
            let mut path = Path::connected(&with(settings, &[("initial_window", "16")]));
            // The first segment is lost, and all ACKs but the first two duplicates.
            let mut acks = 0;
            path.drop_if(move |segment, forth, number| {
                acks += u64::from(!forth && segment.payload.is_empty());
                if forth { number == 0 } else { acks > 2 }
            });
            path.send(true, segments(30), false);
            path.run_for(ms(110));
            let new: Vec<u32> = path
                .data_of_a()
                .iter()
                .filter(|&&(time, _)| time > BEGIN)
                .map(|&(_, offset)| offset / MSS)
                .collect();
            assert_eq!(new, expected);
            assert_eq!(path.a.socket.window().cwnd, 16, "the window is not changed");
        }
    }
}

#[test]
fn rfc_6582_3_2_partial_ack_sends_next_hole() {
    for settings in [rfc(&[]), linux(&[])] {
        let mut path = window_of_16(&settings, &[2, 5, 9], 16);
        path.run_for(ms(3_000));
        // One hole per round trip.
        assert_eq!(copies(&path, 2), [BEGIN, BEGIN + 100]);
        assert_eq!(copies(&path, 5), [BEGIN, BEGIN + 200]);
        assert_eq!(copies(&path, 9), [BEGIN, BEGIN + 300]);
        assert_eq!(path.repairs_of_a(), (3, 0, 1));
    }
}

#[test]
fn rfc_6582_3_2_partial_ack_deflates_the_window() {
    // Segments 2 and 12 of 16 are lost, so the partial ACK covers 2 to 11: ten are deflated, one is added back.
    let mut path = Path::connected(&rfc(&[("initial_window", "16")]));
    path.a.socket.record(1_000);
    path.drop_data(&[2, 12]);
    path.send(true, segments(16), false);
    path.run_for(ms(1_000));
    let points = path.a.socket.points();
    let partial = points
        .iter()
        .position(|point| point.what == SenderEvent::Acked && point.seq == 1 + 12 * u64::from(MSS));
    let partial = partial.expect("a partial ACK");
    let before = points[..partial]
        .iter()
        .rev()
        .find(|point| point.what == SenderEvent::Duplicate);
    let before = before.expect("duplicates").cwnd;
    assert_eq!(points[partial].cwnd, before - 10 + 1);
}

#[test]
fn rfc_5681_without_6582_the_first_new_ack_ends_recovery() {
    let mut path = window_of_16(&linux(&[("reduction", "reno")]), &[2, 5, 9], 16);
    path.run_for(ms(10_000));
    assert_eq!(path.b.received, segments(16));
    let counters = path.a.socket.counters();
    assert!(
        counters.timeouts > 0 || counters.recoveries > 1,
        "{counters:?}"
    );
}

#[test]
fn rfc_6582_3_2_recovery_ends_with_half_the_window() {
    for (settings, expected) in [
        (rfc(&[]), 9),
        (linux(&[]), 9),
        (linux(&[("sack", "true")]), 9),
    ] {
        let mut path = window_of_16(&settings, &[2], 60);
        path.run_for(ms(190));
        assert_eq!(path.a.socket.loss_state(), LossState::Recovery);
        assert_eq!(path.a.socket.window().ssthresh, expected);
        // The retransmission is acknowledged at 200 ms; then the ACKs of later segments arrive.
        path.run_for(ms(20));
        let cwnd = path.a.socket.window().cwnd;
        assert!((expected - 1..=expected + 1).contains(&cwnd), "{cwnd}");
    }
}

#[test]
fn rfc_6582_4_impatient_lets_the_timer_run_on() {
    // Ten holes at one per round trip take 1 s, which is the RFC's minimum timeout.
    let lost = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
    let run = |reading| {
        let settings = rfc(&[
            ("partial_ack_timer", reading),
            ("limited_transmit", "false"),
        ]);
        let mut path = window_of_16(&settings, lost, 16);
        path.run_for(ms(10_000));
        assert_eq!(path.b.received, segments(16));
        path.a.socket.counters().timeouts
    };
    assert_eq!((run("slow-but-steady"), run("impatient")), (0, 1));
}

#[test]
fn rfc_6582_3_2_dupacks_from_before_timeout_start_no_recovery() {
    // All ACKs are lost until the timeout. Go-back-N then retransmits received segments, each of which causes a
    // duplicate ACK.
    for (careful, expected) in [("true", 0), ("false", 1)] {
        let mut path = Path::connected(&linux(&[("initial_window", "16"), ("careful", careful)]));
        path.drop_if(|segment, forth, number| {
            let early = !forth && segment.payload.is_empty() && number < 15;
            early || (forth && number == 0)
        });
        path.send(true, segments(16), false);
        path.run_for(ms(340));
        // Three old ACKs are repeated as if delayed.
        let ack = path
            .sent
            .iter()
            .rev()
            .find(|sent| !sent.forth)
            .expect("an ACK")
            .segment
            .clone();
        for _ in 0..3 {
            path.inject(true, &ack);
        }
        path.run_for(ms(3_000));
        let counters = path.a.socket.counters();
        assert_eq!(counters.timeouts, 1);
        assert_eq!(counters.recoveries, expected, "careful = {careful}");
    }
}

#[test]
fn rfc_6675_5_holes_are_filled_within_a_round_trip() {
    for reduction in ["prr", "classic"] {
        let settings = linux(&[("sack", "true"), ("reduction", reduction)]);
        let mut path = window_of_16(&settings, &[2, 5, 9], 16);
        path.run_for(ms(3_000));
        for number in [2, 5, 9] {
            let times = copies(&path, number);
            assert_eq!(times.len(), 2);
            assert!(times[1] <= BEGIN + 200, "segment {number} at {times:?}");
        }
        assert_eq!(path.repairs_of_a(), (3, 0, 1));
    }
}

#[test]
fn rfc_2018_4_the_first_block_has_the_latest_segment() {
    let mut path = window_of_16(&linux(&[("sack", "true")]), &[1, 4, 7], 10);
    path.run_for(ms(60));
    let base = path.sent[0].segment.seq;
    let last = path
        .sent
        .iter()
        .rev()
        .find(|sent| !sent.forth)
        .expect("an ACK");
    let number = |seq: u32| seq.wrapping_sub(base) / MSS;
    let blocks: Vec<_> = last.segment.options.sack.as_slice().iter().collect();
    let blocks: Vec<_> = blocks
        .iter()
        .map(|&&(low, high)| (number(low), number(high)))
        .collect();
    assert_eq!(blocks, [(8, 10), (5, 7), (2, 4)]);
}

#[test]
fn rfc_6937_3_1_reduction_bounds_after_heavy_loss() {
    // Fourteen of 32 are lost: the pipe falls below half a window.
    let lost = &[
        0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22,
    ];
    let sent_in_recovery = |bound| {
        let settings = linux(&[
            ("sack", "true"),
            ("prr_bound", bound),
            ("initial_window", "32"),
        ]);
        let mut path = Path::connected(&settings);
        path.drop_data(lost);
        path.send(true, segments(60), false);
        path.run_for(ms(105));
        path.data_of_a()
            .iter()
            .filter(|&&(time, _)| time > BEGIN)
            .count()
    };
    // Ten segments arrived: the first is acknowledged normally, nine duplicates follow. The conservative bound sends one
    // segment per ACK, slow start one more.
    let (crb, ssrb) = (sent_in_recovery("crb"), sent_in_recovery("ssrb"));
    assert!(crb <= 10 && ssrb > crb && ssrb <= 16, "{crb} and {ssrb}");
}

/// Times of the first segments of a connection.
fn departures(base: TcpSettings, changes: &[(&str, &str)]) -> Vec<u64> {
    let bbr = with(base, &[("congestion", "bbr1"), ("initial_window", "16")]);
    let mut path = Path::connected(&with(bbr, changes));
    path.send(true, segments(16), false);
    path.run_for(ms(90));
    let times = path.data_of_a().into_iter().map(|(time, _)| time - BEGIN);
    times.collect()
}

#[test]
fn linux_paces_from_the_tenth_segment_on() {
    let paced = departures(TcpSettings::KERNEL, &[("unpaced_segments", "0")]);
    // 16 segments in 100 ms, times 2.887 less one percent: one in 2.19 ms. The first gap is halved as for a late
    // transmission.
    assert_eq!(paced[..6], [0, 1, 3, 5, 7, 9]);
    let linux = departures(TcpSettings::KERNEL, &[]);
    assert_eq!(linux[..10], [0; 10]);
    assert_eq!(linux[10..13], [1, 3, 5]);
}

#[test]
fn headers_count_in_the_rate_as_in_the_segments() {
    let payload = departures(
        TcpSettings::KERNEL,
        &[("unpaced_segments", "0"), ("bbr_pacing_headers", "false")],
    );
    let packets = departures(
        TcpSettings::KERNEL,
        &[("unpaced_segments", "0"), ("bbr_pacing_headers", "true")],
    );
    assert_eq!(payload, packets);
}

#[test]
fn frame_header_counts_in_the_segments_only() {
    // 2.17 ms for 296 bytes of 296, twice that for 592.
    let packets = departures(TcpSettings::THESIS, &[]);
    assert_eq!(packets[..5], [0, 1, 3, 5, 7]);
    let frames = departures(TcpSettings::THESIS, &[("bbr_pacing_frame", "296")]);
    assert_eq!(frames[..5], [0, 2, 6, 10, 15]);
}
