//! TCP rules of the RFCs, one per test, with times computed by hand.
//!
//! The round-trip time is 100 ms without a rate limit. By default `a` connects and sends; segments have 256 bytes.

use crate::tcp_common::{
    BEGIN, Fate, MSS, Path, at, copies, linux, ms, pattern, rfc, segments, with,
};
use carob_cc::time::Duration;
use carob_sim::tcp::counters::SenderEvent;
use carob_sim::tcp::segment::{Ecn, Flags};
use carob_sim::tcp::{Event, Segment, State, TcpSettings};

// ---- opening and closing ----

#[test]
fn rfc_9293_3_5_three_segments_open_a_connection() {
    let mut path = Path::new(&TcpSettings::THESIS, &TcpSettings::THESIS, 1);
    path.connect();
    path.run_for(ms(1_000));
    let flags: Vec<_> = path.sent.iter().map(|sent| sent.segment.flags).collect();
    assert_eq!(flags, [Flags::SYN, Flags::SYN | Flags::ACK, Flags::ACK]);
    assert_eq!(path.a.events, [(at(100), Event::Connected)]);
    assert_eq!(path.b.events, [(at(150), Event::Connected)]);
    assert_eq!(path.a.socket.counters().setup, Some(ms(100)));
    assert_eq!(path.a.socket.srtt(), Some(ms(100)));
}

#[test]
fn rfc_9293_3_5_simultaneous_open() {
    let settings = TcpSettings::THESIS;
    let mut path = Path::new(&settings, &settings, 1);
    path.b.socket.close(path.now);
    path.drain(false);
    path.b.socket = carob_sim::tcp::Socket::new(&settings, carob_sim::random::Stream::new(2, "b"))
        .expect("possible");
    path.b.events.clear();
    path.b.socket.connect(path.now).expect("closed");
    path.drain(false);
    path.connect();
    path.run_for(ms(500));
    assert_eq!(path.a.socket.state(), State::Established);
    assert_eq!(path.b.socket.state(), State::Established);
    path.send(true, segments(3), true);
    path.run_for(ms(2_000));
    assert_eq!(path.b.received, segments(3));
}

#[test]
fn rfc_6298_5_syn_repeats_after_2_4_8_seconds_then_gives_up() {
    let mut path = Path::new(&linux(&[("syn_retries", "3")]), &linux(&[]), 1);
    path.filter(|_, _, _| Fate::Drop);
    path.connect();
    path.run_for(Duration::from_secs(100));
    let times: Vec<u64> = path
        .sent
        .iter()
        .map(|sent| sent.at.as_micros() / 1_000)
        .collect();
    assert_eq!(times, [0, 2_000, 6_000, 14_000]);
    assert_eq!(path.a.events, [(at(30_000), Event::TimedOut)]);
    assert_eq!(path.a.socket.counters().handshake_retransmissions, 3);
}

#[test]
fn rfc_6298_5_7_after_a_repeated_syn_data_has_3_seconds() {
    for (changes, expected) in [
        (&[][..], 3_000),
        (&[("rto_after_handshake_loss", "0 s")], 1_000),
    ] {
        let mut path = Path::new(&rfc(changes), &rfc(&[]), 1);
        path.drop_if(|_, forth, number| forth && number == 0);
        path.connect();
        // The second SYN is sent after 1 s; its response is no sample (Karn).
        path.run_for(ms(1_200));
        assert_eq!(path.a.socket.srtt(), None);
        path.sent.clear();
        path.drop_data(&[0]);
        path.send(true, segments(1), false);
        path.run_for(ms(5_000));
        assert_eq!(copies(&path, 0), [1_200, 1_200 + expected]);
    }
}

#[test]
fn rfc_5681_3_1_lost_syn_sets_the_window_to_one() {
    for (retries, window) in [("0", 1), ("1", 4)] {
        let settings = rfc(&[("window_handshake_losses", retries)]);
        let mut path = Path::new(&settings, &settings, 1);
        path.drop_if(|_, forth, number| forth && number == 0);
        path.connect();
        path.run_for(ms(1_200));
        assert_eq!(path.a.socket.window().cwnd, window);
    }
}

#[test]
fn lost_handshake_ack_is_replaced_by_data() {
    let mut path = Path::new(&linux(&[]), &linux(&[]), 1);
    path.drop_if(|segment, forth, _| {
        forth && segment.flags == Flags::ACK && segment.payload.is_empty()
    });
    path.connect();
    path.run_for(ms(200));
    assert!(!path.told(false, Event::Connected));
    path.send(true, segments(1), false);
    path.run_for(ms(60));
    assert_eq!(path.b.received, segments(1));
}

#[test]
fn rfc_9293_3_6_close_has_two_fins_and_time_wait() {
    let mut path = Path::connected(&linux(&[("time_wait", "10 s")]));
    path.close(true);
    path.run_for(ms(5_000));
    assert_eq!(path.a.socket.state(), State::TimeWait);
    assert_eq!(path.b.socket.state(), State::Closed);
    assert!(path.told(true, Event::Closed) && path.told(false, Event::Closed));
    path.run_for(ms(10_000));
    assert_eq!(path.a.socket.state(), State::Closed);
}

#[test]
fn rfc_9293_3_6_simultaneous_close_and_half_close() {
    let mut path = Path::connected(&linux(&[]));
    path.close(true);
    path.close(false);
    path.run_for(ms(1_000));
    assert_eq!(path.a.socket.state(), State::TimeWait);
    assert_eq!(path.b.socket.state(), State::TimeWait);

    let mut path = Path::connected(&linux(&[]));
    path.b.answers_close = false;
    path.close(true);
    path.run_for(ms(500));
    assert_eq!(path.a.socket.state(), State::FinWait2);
    path.send(false, segments(10), true);
    path.run_for(ms(3_000));
    assert_eq!(path.a.received, segments(10));
    assert_eq!(path.b.socket.state(), State::Closed);
}

#[test]
fn rfc_9293_3_5_2_unmatched_segment_is_reset() {
    let mut path = Path::new(&linux(&[]), &linux(&[]), 1);
    path.b.socket.close(path.now); // nobody listens
    path.connect();
    path.run_for(ms(200));
    assert!(path.told(true, Event::Reset));
    assert_eq!(path.a.socket.state(), State::Closed);
}

#[test]
fn rfc_5961_3_2_reset_needs_the_expected_sequence_number() {
    let mut path = Path::connected(&linux(&[]));
    path.send(true, segments(1), false);
    let good = path.sent[0].segment.clone();
    path.run_for(ms(500));
    let next = good.seq.wrapping_add(MSS);
    let reset = |seq| Segment {
        seq,
        flags: Flags::RST,
        ..Segment::default()
    };
    let before = path.sent.len();
    path.inject(false, &reset(next.wrapping_add(1)));
    assert_eq!(path.b.socket.state(), State::Established);
    assert_eq!(path.sent.len(), before + 1, "challenged");
    path.inject(false, &reset(next));
    assert!(path.told(false, Event::Reset));
}

#[test]
fn an_abort_resets_the_peer() {
    let mut path = Path::connected(&linux(&[]));
    path.a.socket.abort(path.now);
    path.drain(true);
    path.run_for(ms(100));
    assert!(path.told(false, Event::Reset));
}

// ---- acknowledging ----

fn delayed(changes: &[(&str, &str)]) -> TcpSettings {
    let base = with(TcpSettings::THESIS, &[("rto_min", "1 s")]);
    with(base, changes)
}

#[test]
fn rfc_5681_4_2_one_segment_waits_200_ms_two_do_not() {
    let mut path = Path::connected(&delayed(&[]));
    path.send(true, segments(1), false);
    path.run_for(ms(1_000));
    assert_eq!(path.acks_of_b(), [BEGIN + 50 + 200]);
    path.sent.clear();
    let now = path.now.as_micros() / 1_000;
    path.send(true, segments(2), false);
    path.run_for(ms(1_000));
    assert_eq!(path.acks_of_b(), [now + 50]);
}

#[test]
fn rfc_5681_4_2_out_of_order_and_hole_filling_acked_at_once() {
    let mut path = Path::connected(&delayed(&[]));
    // The first of three arrives 30 ms late.
    path.filter(|segment, forth, number| {
        if forth && !segment.payload.is_empty() && number == 0 {
            Fate::Late(ms(30))
        } else {
            Fate::Deliver
        }
    });
    path.send(true, segments(3), false);
    path.run_for(ms(1_000));
    assert_eq!(path.acks_of_b(), [BEGIN + 50, BEGIN + 50, BEGIN + 80]);
    assert_eq!(path.b.received, segments(3));
}

#[test]
fn an_ack_travels_with_data() {
    let mut path = Path::connected(&delayed(&[]));
    path.send(true, segments(1), false);
    path.run_for(ms(60));
    path.send(false, segments(1), false);
    path.run_for(ms(30));
    assert!(path.acks_of_b().is_empty());
    let reply = path.sent.iter().find(|sent| !sent.forth).expect("data");
    assert_eq!(
        reply.segment.ack,
        path.sent[0].segment.seq.wrapping_add(MSS)
    );
}

#[test]
fn linux_acknowledges_16_segments_at_once_and_then_after_40_ms() {
    let mut path = Path::connected(&TcpSettings::KERNEL);
    // One segment every 100 ms, so that no ACK waits for a second segment.
    for _ in 0..18 {
        path.send(true, segments(1), false);
        path.run_for(ms(100));
    }
    path.run_for(ms(200));
    let acks = path.acks_of_b();
    let arrival = |k: u64| BEGIN + 100 * k + 50;
    for k in 0..16 {
        assert_eq!(acks[k as usize], arrival(k), "segment {k}");
    }
    assert_eq!(acks[16], arrival(16) + 40);
    // The delay was too short to see the next segment, so it doubles; the gap of 100 ms keeps it there.
    assert_eq!(acks[17], arrival(17) + 80);
}

#[test]
fn rfc_9293_3_8_6_zero_window_probe_until_data_is_read() {
    let settings = linux(&[("receive_window", "1024")]);
    let mut path = Path::connected(&settings);
    path.b.reads = false;
    path.send(true, segments(12), true);
    path.run_for(Duration::from_secs(20));
    assert_eq!(path.b.socket.readable(), 1_024);
    let probes = path
        .data_of_a()
        .iter()
        .filter(|&&(_, offset)| offset == 1_024)
        .count();
    assert!((2..8).contains(&probes), "{probes} probes in 20 s");
    let before = path.data_of_a().len();
    path.read(false);
    path.b.reads = true;
    path.run_for(Duration::from_secs(20));
    assert_eq!(path.b.received, segments(12));
    assert!(path.data_of_a().len() < before + 20);
}

#[test]
fn rfc_9293_3_7_4_nagle_holds_short_segment_with_data_out() {
    for (nagle, sent) in [
        ("true", vec![BEGIN, BEGIN + 100]),
        ("false", vec![BEGIN, BEGIN]),
    ] {
        let mut path = Path::connected(&linux(&[("nagle", nagle)]));
        path.send(true, pattern(10, 1), false);
        path.send(true, pattern(10, 1), false);
        path.run_for(ms(1_000));
        let times: Vec<u64> = path.data_of_a().iter().map(|&(time, _)| time).collect();
        assert_eq!(times, sent);
    }
}

// ---- retransmission timer ----

#[test]
fn rfc_6298_5_timer_doubles_until_an_ack() {
    // A sample of 100 ms: the RFC's minimum of 1 s applies.
    let mut path = Path::connected(&rfc(&[]));
    path.drop_data(&[0, 1, 2]);
    path.send(true, segments(1), false);
    path.run_for(Duration::from_secs(20));
    assert_eq!(
        copies(&path, 0),
        [BEGIN, BEGIN + 1_000, BEGIN + 3_000, BEGIN + 7_000]
    );
    assert_eq!(path.a.socket.counters().timeouts, 3);
    // Karn: no sample from a retransmission, so the timeout stays doubled.
    assert_eq!(path.a.socket.rto(), (Duration::from_secs(8), 3));
    assert_eq!(path.a.socket.counters().rto_peak, Duration::from_secs(8));
    path.send(true, segments(1), false);
    path.run_for(ms(200));
    assert_eq!(path.a.socket.rto(), (Duration::from_secs(1), 0));
}

#[test]
fn backoff_can_end_with_any_new_ack() {
    let mut path = Path::connected(&rfc(&[("backoff_end", "new-ack")]));
    path.drop_data(&[0, 1, 2]);
    path.send(true, segments(1), false);
    path.run_for(Duration::from_secs(20));
    assert_eq!(path.a.socket.rto(), (Duration::from_secs(1), 0));
}

#[test]
fn rfc_7323_4_timestamps_give_samples_of_retransmissions() {
    let settings = rfc(&[("timestamps", "true"), ("mss", "268")]);
    let mut path = Path::connected(&settings);
    assert_eq!(path.a.socket.mss(), 256);
    path.drop_data(&[0, 1]);
    path.send(true, segments(1), false);
    path.run_for(Duration::from_secs(20));
    assert_eq!(path.a.socket.counters().timeouts, 2);
    assert_eq!(path.a.socket.rto(), (Duration::from_secs(1), 0));
}

#[test]
fn linux_floors_the_variance_and_not_the_timeout() {
    // 100 ms and a first variance of 2 x 100 ms.
    let mut path = Path::connected(&linux(&[]));
    path.drop_data(&[0]);
    path.send(true, segments(1), false);
    path.run_for(ms(2_000));
    assert_eq!(copies(&path, 0), [BEGIN, BEGIN + 300]);
}

#[test]
fn connection_is_closed_after_the_maximum_of_timeouts() {
    let mut path = Path::connected(&rfc(&[("retries", "3")]));
    path.filter(|_, _, _| Fate::Drop);
    path.send(true, segments(1), false);
    path.run_for(Duration::from_secs(60));
    assert_eq!(copies(&path, 0).len(), 4);
    assert_eq!(
        path.a.events.last(),
        Some(&(at(BEGIN + 15_000), Event::TimedOut))
    );
}

#[test]
fn timeout_retransmits_all_in_slow_start() {
    // Ten segments: four arrive, then all are lost until the timeout of the fifth.
    let mut path = Path::connected(&linux(&[]));
    path.drop_data(&[4, 5, 6, 7, 8, 9, 10, 11]);
    path.send(true, segments(12), false);
    path.run_for(ms(3_000));
    assert_eq!(path.b.received, segments(12));
    let resent = copies(&path, 4)[1];
    assert_eq!(path.a.socket.counters().timeouts, 1);
    // Slow start: one segment, then two with its ACK, then four.
    assert_eq!(copies(&path, 5)[1], resent + 100);
    assert_eq!(copies(&path, 6)[1], resent + 100);
    for number in 7..=10 {
        assert_eq!(copies(&path, number)[1], resent + 200, "segment {number}");
    }
}

#[test]
fn timeout_may_retransmit_the_first_segment_only() {
    let mut path = Path::connected(&linux(&[("after_timeout", "head-only")]));
    path.drop_data(&[4, 5, 6, 7, 8, 9, 10, 11]);
    path.send(true, segments(12), false);
    path.run_for(Duration::from_secs(600));
    assert_eq!(path.b.received, segments(12));
    // Nothing but timers finds the other losses.
    assert!(
        path.a.socket.counters().timeouts >= 5,
        "{:?}",
        path.a.socket.counters()
    );
}

#[test]
fn rfc_5681_3_1_a_timeout_halves_once_and_leaves_one_segment() {
    // Half of the outstanding data equals half of the window here. A second halving would show in the window
    // only, because nothing is acknowledged.
    for settings in [rfc(&[]), linux(&[])] {
        let mut path = Path::connected(&settings);
        path.send(true, segments(40), false);
        path.run_for(ms(220)); // two round trips: the window has doubled twice
        assert_eq!(path.a.socket.window().cwnd, 16);
        path.filter(|_, _, _| Fate::Drop);
        path.run_for(ms(4_000));
        let window = path.a.socket.window();
        assert!(path.a.socket.counters().timeouts >= 2);
        assert_eq!((window.cwnd, window.ssthresh), (1, 8));
    }
}

#[test]
fn rfc_5681_4_1_an_idle_connection_starts_slowly() {
    for (reading, expected) in [("none", 16), ("rfc5681", 4), ("decay", 8)] {
        let settings = linux(&[("idle_restart", reading), ("validate_window", "false")]);
        let mut path = Path::connected(&settings);
        path.send(true, segments(12), false);
        path.run_for(ms(1_000));
        assert_eq!(path.a.socket.window().cwnd, 16);
        // The timeout is 100 + 200 ms or a little more: between one and two of them are idle.
        path.run_until(at(BEGIN + 200 + 500));
        let idle = path.a.socket.rto().0.as_millis();
        assert!((290..320).contains(&idle), "{idle}");
        let mut late = Path::connected(&settings);
        late.send(true, segments(12), false);
        late.run_for(ms(100 + 450));
        late.send(true, segments(20), false);
        assert_eq!(late.a.socket.window().cwnd, expected, "{reading}");
    }
}

// ---- ECN and the rest ----

#[test]
fn rfc_3168_6_1_a_mark_is_echoed_until_the_window_is_reduced() {
    let settings = linux(&[("ecn", "true"), ("initial_window", "16")]);
    let mut path = Path::connected(&settings);
    path.filter(|_, forth, number| {
        if forth && number == 3 {
            Fate::Mark
        } else {
            Fate::Deliver
        }
    });
    path.send(true, segments(40), false);
    assert!(
        path.sent
            .iter()
            .all(|sent| sent.segment.ecn == Ecn::Capable)
    );
    path.run_for(ms(2_000));
    assert_eq!(path.b.received, segments(40));
    let echoes = path.flagged(Flags::ECE);
    assert!(
        echoes >= 12,
        "{echoes}: all ACKs until the reduction is told"
    );
    assert_eq!(path.flagged(Flags::CWR), 1);
    let counters = path.a.socket.counters();
    assert_eq!((counters.ecn_reductions, counters.retransmissions), (1, 0));
    // Not on bare ACKs (6.1.4).
    let bare = |sent: &&crate::tcp_common::Sent| sent.segment.payload.is_empty();
    assert!(
        path.sent
            .iter()
            .filter(bare)
            .all(|sent| sent.segment.ecn == Ecn::NotCapable)
    );
}

#[test]
fn rfc_3168_6_1_1_ecn_needs_both_ends() {
    for (a, b) in [("true", "false"), ("false", "true")] {
        let mut path = Path::new(&linux(&[("ecn", a)]), &linux(&[("ecn", b)]), 1);
        path.connect();
        path.send(true, segments(3), false);
        path.run_for(ms(1_000));
        assert!(
            path.sent
                .iter()
                .all(|sent| sent.segment.ecn == Ecn::NotCapable)
        );
        assert_eq!(path.b.received, segments(3));
    }
}

#[test]
fn options_are_used_only_if_both_ends_offer_them() {
    let plain = with(TcpSettings::RFC, &[("receive_window", "60000")]);
    let mut path = Path::new(&TcpSettings::MODERN, &plain, 1);
    path.connect();
    path.send(true, pattern(50_000, 1), true);
    path.run_for(ms(5_000));
    assert_eq!(path.b.received, pattern(50_000, 1));
    assert_eq!(path.a.socket.mss(), 536);
    let after = path
        .sent
        .iter()
        .filter(|sent| !sent.segment.flags.has(Flags::SYN));
    assert!(
        after
            .clone()
            .all(|sent| sent.segment.options.wire_bytes() == 0)
    );
    assert!(after.count() > 50);
}

#[test]
fn history_is_bounded() {
    let mut path = Path::connected(&linux(&[("initial_window", "16")]));
    path.a.socket.record(20);
    path.drop_data(&[2]);
    path.send(true, segments(16), false);
    path.run_for(ms(2_000));
    let points = path.a.socket.points();
    assert_eq!(points.len(), 20);
    assert!(
        points[..16]
            .iter()
            .all(|point| point.what == SenderEvent::Sent && point.cwnd == 16)
    );
    assert_eq!(
        (points[0].seq, points[1].seq, points[15].pipe),
        (1, 257, 16)
    );
    assert_eq!(points[16].what, SenderEvent::Acked);
}

#[test]
fn write_is_limited_by_the_send_buffer() {
    let mut path = Path::connected(&linux(&[("send_buffer", "1000")]));
    path.send(true, segments(40), true);
    assert_eq!(path.a.socket.writable(), 0);
    path.run_for(ms(5_000));
    assert_eq!(path.b.received, segments(40));
    assert!(path.told(true, Event::Writable) && path.told(false, Event::PeerClosed));
}
