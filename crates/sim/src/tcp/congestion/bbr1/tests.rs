use super::*;
use crate::tcp::congestion::{RateSample, SSTHRESH_NONE};

const RTT: Duration = Duration::from_millis(100);

fn window(cwnd: u32) -> Window {
    Window {
        cwnd,
        ssthresh: SSTHRESH_NONE,
        count: 0,
    }
}

fn bbr(settings: &TcpSettings) -> Bbr1 {
    let stream = Stream::new(1, "bbr");
    Bbr1::new(settings, Instant::ZERO, 296, &window(4), Some(RTT), stream)
}

/// A path of 100 segments a second and 100 ms, so a capacity of 10 segments, seen round by round.
fn round(bbr: &mut Bbr1, window: &mut Window, number: u64, rate: u64, in_flight: u32) {
    let delivered = (number + 1) * rate / 10;
    bbr.on_ack(
        window,
        &Ack {
            now: Instant::ZERO + RTT.times(number + 1),
            acked: (rate / 10) as u32,
            losses: 0,
            lost: 0,
            prior_in_flight: in_flight,
            in_flight,
            held_back: Duration::ZERO,
            delivered,
            state: State::Open,
            window_limited: true,
            rtt: Some(RTT),
            srtt: Some(RTT),
            rate: Some(RateSample {
                delivered: rate / 10,
                interval: RTT,
                prior_delivered: number * rate / 10,
                app_limited: false,
                tx_in_flight: 10,
                lost: 0,
            }),
        },
    );
}

#[test]
fn startup_ends_after_three_rounds_without_a_quarter_more() {
    let (mut b, mut w) = (bbr(&TcpSettings::THESIS), window(4));
    assert_eq!(b.pacing_gain, TcpSettings::THESIS.bbr_high_gain);
    // The first round raises the maximum; the next three do not.
    for number in 0..3 {
        round(&mut b, &mut w, number, 100, 30);
        assert_eq!(b.mode, Mode::Startup, "round {number}");
    }
    round(&mut b, &mut w, 3, 100, 30);
    assert_eq!(b.mode, Mode::Drain);
    assert_eq!(b.pacing_gain, TcpSettings::THESIS.bbr_drain_gain);
    // Drained: capacity 10, three bursts of one more, rounded up to even: 14.
    round(&mut b, &mut w, 4, 100, 15);
    assert_eq!(b.mode, Mode::Drain);
    round(&mut b, &mut w, 5, 100, 14);
    assert_eq!(b.mode, Mode::ProbeBw);
}

#[test]
fn the_cycle_probes_relaxes_and_cruises() {
    let (mut b, mut w) = (bbr(&TcpSettings::THESIS), window(4));
    (0..6).for_each(|number| round(&mut b, &mut w, number, 100, 10));
    assert_eq!(b.mode, Mode::ProbeBw);
    assert_ne!(b.cycle, 1, "never begins by relaxing");
    b.cycle = 7;
    b.cycle_at = Instant::ZERO;
    round(&mut b, &mut w, 10, 100, 10);
    assert_eq!((b.cycle, b.pacing_gain), (0, Ratio::new(5, 4)));
    // Not over while less than 1.25 times the capacity is in flight and nothing was lost.
    round(&mut b, &mut w, 12, 100, 10);
    assert_eq!(b.cycle, 0);
    round(&mut b, &mut w, 13, 100, 16);
    assert_eq!((b.cycle, b.pacing_gain), (1, Ratio::new(3, 4)));
    // Over at once when the queue is drained.
    round(&mut b, &mut w, 14, 100, 14);
    assert_eq!((b.cycle, b.pacing_gain), (2, Ratio::ONE));
}

#[test]
fn probe_rtt_holds_four_segments_for_a_round_and_200_ms() {
    let (mut b, mut w) = (bbr(&TcpSettings::THESIS), window(4));
    (0..8).for_each(|number| round(&mut b, &mut w, number, 100, 10));
    let before = w.cwnd;
    assert!(before > 4);
    b.min_rtt = Some(RTT.half()); // never seen again
    b.min_rtt_at = Instant::ZERO;
    let mut in_probe = 0;
    for number in 99..120 {
        let in_flight = w.cwnd.min(10);
        round(&mut b, &mut w, number, 100, in_flight);
        in_probe += u32::from(b.mode == Mode::ProbeRtt);
        if b.mode == Mode::ProbeRtt {
            assert_eq!(w.cwnd, 4);
        }
    }
    // Entered at 10.1 s; four in flight a round later; over when more than 200 ms have passed.
    assert_eq!(in_probe, 4);
    assert_eq!(b.mode, Mode::ProbeBw);
    assert!(w.cwnd >= before, "{} restored from {before}", w.cwnd);
}

#[test]
fn recovery_conserves_packets_then_restores_window() {
    let (mut b, mut w) = (bbr(&TcpSettings::THESIS), window(4));
    (0..8).for_each(|number| round(&mut b, &mut w, number, 100, 10));
    let before = w.cwnd;
    b.ssthresh(Instant::ZERO, &w, w.cwnd);
    let mut ack = Ack {
        now: Instant::ZERO + RTT.times(9),
        acked: 1,
        losses: 1,
        lost: 1,
        prior_in_flight: 10,
        in_flight: 8,
        held_back: Duration::ZERO,
        delivered: 80,
        state: State::Recovery,
        window_limited: true,
        rtt: None,
        srtt: Some(RTT),
        rate: None,
    };
    b.on_ack(&mut w, &ack);
    assert_eq!(w.cwnd, 9, "in flight plus what was acknowledged");
    ack.state = State::Open;
    ack.losses = 0;
    b.on_ack(&mut w, &ack);
    assert_eq!(w.cwnd, before);
}

#[test]
fn timeout_sets_the_window_to_one_or_flight_plus_one() {
    let timeout = Timeout {
        now: Instant::ZERO,
        in_flight: 3,
        lost: 2,
        delivered: 10,
        delivered_at: Instant::ZERO,
    };
    let mut w = window(9);
    bbr(&TcpSettings::THESIS).on_timeout(&mut w, &timeout);
    assert_eq!(w.cwnd, 1);
    bbr(&TcpSettings::KERNEL).on_timeout(&mut w, &timeout);
    assert_eq!(w.cwnd, 4);
}

#[test]
fn first_rate_is_initial_window_over_rtt() {
    // 4 segments of 296 bytes in 100 ms, times 739/256: 34,179 bytes a second.
    let rate = bbr(&TcpSettings::THESIS).pacing_rate().expect("paced");
    assert!((34_000..34_300).contains(&rate), "{rate}");
}

/// In PROBE_RTT since 9.9 s; the window before it was more than four.
fn probing_rtt(settings: &TcpSettings) -> (Bbr1, Window) {
    let (mut b, mut w) = (bbr(settings), window(4));
    (0..8).for_each(|number| round(&mut b, &mut w, number, 100, 10));
    b.min_rtt = Some(RTT.half());
    b.min_rtt_at = Instant::ZERO;
    round(&mut b, &mut w, 101, 100, 4);
    assert_eq!((b.mode, w.cwnd), (Mode::ProbeRtt, 4));
    (b, w)
}

#[test]
fn linux_5_11_equal_round_trip_does_not_delay_probe_rtt() {
    for (settings, puts_off) in [(TcpSettings::THESIS, true), (TcpSettings::KERNEL, false)] {
        let (mut b, mut w) = (bbr(&settings), window(4));
        // Every round trip is the least; ten seconds pass.
        (0..102).for_each(|number| round(&mut b, &mut w, number, 100, 10));
        assert_eq!(b.mode != Mode::ProbeRtt, puts_off);
    }
}

#[test]
fn linux_4_19_restart_from_idle_ends_due_probe_rtt() {
    for (settings, ends) in [(TcpSettings::THESIS, false), (TcpSettings::KERNEL, true)] {
        let (mut b, mut w) = probing_rtt(&settings);
        let done = b.probe_rtt_done.expect("four are in flight");
        b.on_restart(&mut w, done);
        assert_eq!(b.mode, Mode::ProbeRtt);
        b.on_restart(&mut w, done + Duration::from_micros(1));
        assert_eq!(b.mode != Mode::ProbeRtt, ends);
        assert_eq!(w.cwnd > 4, ends);
    }
}

#[test]
fn paced_segments_do_not_count_as_in_flight() {
    for (settings, expected) in [(TcpSettings::THESIS, 10), (TcpSettings::KERNEL, 6)] {
        let (mut b, mut w) = (bbr(&settings), window(4));
        (0..8).for_each(|number| round(&mut b, &mut w, number, 100, 10));
        b.pacing_gain = Ratio::ONE;
        // 100 segments a second for 50 ms, rounded down twice.
        assert_eq!(b.in_network(10, RTT.half()), expected);
    }
}

#[test]
fn policer_detection_counts_losses_without_samples() {
    let (mut b, mut w) = (bbr(&TcpSettings::KERNEL), window(4));
    let mut ack = Ack {
        now: Instant::ZERO,
        acked: 10,
        losses: 1,
        lost: 0,
        prior_in_flight: 10,
        in_flight: 10,
        held_back: Duration::ZERO,
        delivered: 0,
        state: State::Open,
        window_limited: true,
        rtt: Some(RTT),
        srtt: Some(RTT),
        rate: None,
    };
    for number in 1..12 {
        ack.now = Instant::ZERO + RTT.times(number);
        // Two losses that duplicates showed, one with the sample.
        ack.lost += 3;
        ack.delivered = 10 * number;
        ack.rate = Some(RateSample {
            delivered: 10,
            interval: RTT,
            prior_delivered: 10 * (number - 1),
            app_limited: false,
            tx_in_flight: 10,
            lost: 0,
        });
        b.on_ack(&mut w, &ack);
    }
    assert!(b.policer.holds());
}
