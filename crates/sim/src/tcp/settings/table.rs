//! The table of settings. Each row: name, type, \[unit\], (source), and the values of the profiles
//! `thesis`, `kernel`, `rfc`, `modern`.
//!
//! S1 is the thesis (Pesola 2020), KT measurements of a real kernel (`docs/emulation.md`), LNX
//! Linux as shipped, and BBR1 the constants of `tcp_bbr.c` (`docs/algorithms.md#tcp-bbr1`).

use core::fmt;

use carob_cc::constants::SetError;
use carob_cc::ratio::Ratio;
use carob_cc::time::Duration;

use super::{
    AfterTimeout, Algorithm, BackoffEnd, BbrEra, DelayedAck, Estimator, HalfOf, IdleRestart, Key,
    PartialAckTimer, PrrBound, RateSampleOf, Reduction, Setting, settings,
};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn s(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

settings! {
    /// The congestion control algorithm.
    congestion: Algorithm [""] ("S1 4.2; LNX default is cubic")
        = Algorithm::NewReno, Algorithm::NewReno, Algorithm::NewReno, Algorithm::Cubic;

    /// Largest payload of a segment and the options on it (RFC 6691); the smaller one of both ends
    /// counts.
    mss: u32 ["bytes"] ("S1 4: MTU 296; RFC 9293 3.7.1: 536 without an option")
        = 256, 256, 536, 1460;
    /// Congestion window of a new connection.
    initial_window: u32 ["segments"] ("S1 4.2; RFC 3390: 4 of 536 bytes; RFC 6928: 10")
        = 4, 4, 4, 10;
    /// Window offered to the peer, and the most that is buffered until it is read.
    receive_window: u32 ["bytes"] ("KT: 1 MiB, beyond any transfer here")
        = 1 << 20, 1 << 20, 1 << 20, 1 << 20;
    /// The most that is buffered until it is acknowledged.
    send_buffer: u32 ["bytes"] ("KT: 2 MiB")
        = 1 << 21, 1 << 21, 1 << 21, 1 << 21;
    /// Hold back a short segment while data is outstanding (RFC 9293 3.7.4).
    nagle: bool [""] ("KT: no effect of it shows; LNX has it on, CoAP stacks switch it off")
        = false, false, true, false;
    /// Each write begins a new segment, as in a socket without Nagle's algorithm.
    segment_per_write: bool [""] ("S1 2.3 counts a segment for each CSM; 4.2: not stated")
        = false, false, false, false;
    /// The passive end acknowledges a FIN before its application closes, so closing takes four
    /// segments.
    fin_acked_alone: bool [""] ("RFC 9293 3.6, Figure 12, and S1 2.3: four; KT: not looked at")
        = false, false, false, false;

    /// Selective acknowledgments, if the peer permits them, too (RFC 2018, 6675).
    sack: bool [""] ("S1 4.2: off; RFC: not part of the base")
        = false, false, false, true;
    /// Timestamps, if the peer sends them, too (RFC 7323).
    timestamps: bool [""] ("S1 4.2: off")
        = false, false, false, true;
    /// Explicit congestion notification, if the peer agrees (RFC 3168).
    ecn: bool [""] ("S1: not mentioned; KT: off; LNX: on request of the peer")
        = false, false, false, false;

    /// Duplicate ACKs, or segments known received beyond it, that make a segment lost.
    dup_ack_threshold: u32 ["segments"] ("RFC 5681 3.2; KT: held at 3")
        = 3, 3, 3, 3;
    /// Without SACK, duplicates that no segment outstanding explains raise `dup_ack_threshold` to
    /// the outstanding segments, up to this; 0 for a fixed threshold.
    reordering_max: u32 ["segments"] ("LNX: 300; KT: can be held at 3")
        = 0, 300, 0, 300;
    /// New segments on the first duplicate ACKs (RFC 3042).
    limited_transmit: bool [""] ("RFC 3042; LNX has it always")
        = true, true, true, true;
    /// Window reduction during fast recovery.
    reduction: Reduction [""] ("S1 3.2 describes PRR, LNX uses it for reno; RFC 6582")
        = Reduction::Prr, Reduction::Prr, Reduction::Classic, Reduction::Prr;
    /// The bound of proportional rate reduction while the pipe is below ssthresh.
    prr_bound: PrrBound [""] ("RFC 6937 3; LNX since 4.0")
        = PrrBound::Linux, PrrBound::Linux, PrrBound::SlowStart, PrrBound::Linux;
    /// No fast retransmit before all that was outstanding at the last loss is acknowledged
    /// (RFC 6582 3.2 step 2, the careful variant of RFC 2582 5).
    careful: bool [""] ("RFC 6582 3.2; LNX")
        = true, true, true, true;
    /// The ACKs of new data that restart the retransmission timer during fast recovery.
    partial_ack_timer: PartialAckTimer [""] ("RFC 6582 3.2 step 3; LNX restarts with every one")
        = PartialAckTimer::Every, PartialAckTimer::Every, PartialAckTimer::First,
          PartialAckTimer::Every;
    /// Sending the first outstanding segment again restarts the retransmission timer.
    restart_on_retransmit: bool [""] ("RFC 6298 5.1: no; LNX: yes")
        = true, true, false, true;
    /// The quantity of which ssthresh becomes half at a loss: outstanding data or window.
    half_of: HalfOf [""] ("RFC 5681 3.1; LNX halves the window")
        = HalfOf::Window, HalfOf::Window, HalfOf::Flight, HalfOf::Window;
    /// The most an ACK adds to the window in slow start; 0 for the acknowledged segments.
    slow_start_most: u32 ["segments"] ("RFC 5681 3.1: 1; LNX counts segments, unlimited")
        = 0, 0, 1, 0;
    /// The window grows only while it is what limits sending.
    validate_window: bool [""] ("RFC 7661; LNX")
        = true, true, false, true;
    /// Window reduction after an idle time longer than the timeout.
    idle_restart: IdleRestart [""] ("RFC 5681 4.1; LNX")
        = IdleRestart::Decay, IdleRestart::Decay, IdleRestart::Rfc5681, IdleRestart::Decay;

    /// Retransmission timeout before there is a sample.
    rto_initial: Duration [""] ("S1 4.2: 2 s; RFC 6298 2.1: 1 s")
        = s(2), s(2), s(1), s(1);
    /// The same for data after a retransmitted SYN or SYN-ACK; 0 s for no difference.
    rto_after_handshake_loss: Duration [""] ("RFC 6298 5.7; KT: the kernel has it, too")
        = s(3), s(3), s(3), s(3);
    /// The retransmission timeout estimator.
    estimator: Estimator [""] ("RFC 6298 2; LNX")
        = Estimator::Linux, Estimator::Linux, Estimator::Rfc6298, Estimator::Linux;
    /// The least retransmission timeout.
    rto_min: Duration [""] ("S1: not stated; RFC 6298 2.4: 1 s; LNX: none, see rto_variance_min")
        = s(0), s(0), s(1), s(0);
    /// The least the timeout exceeds the smoothed round-trip time by.
    rto_variance_min: Duration [""] ("LNX: 200 ms; RFC 6298 2: the clock's granularity")
        = ms(200), ms(200), ms(1), ms(200);
    /// The largest timeout, however often it was doubled.
    rto_max: Duration [""] ("S1 4.2 and LNX: 120 s; RFC 6298 2.5: 60 s or more")
        = s(120), s(120), s(120), s(120);
    /// Timeouts are rounded up to a multiple of this; 0 s for exact timers.
    clock_tick: Duration [""] ("KT: HZ=250; S1: not stated")
        = s(0), ms(4), s(0), ms(4);
    /// Timeouts run out late as from a timer wheel with this many ticks a second: long ones in
    /// coarser steps; 0 for none.
    timer_wheel: u32 ["Hz"] ("LNX since 4.8: 100 to 1000; KT: 250, late by up to 12.5 %")
        = 0, 250, 0, 250;
    /// The end of a backed-off timeout: the event that resets it to the estimate.
    backoff_end: BackoffEnd [""] ("RFC 6298 5; LNX without timestamps: the same")
        = BackoffEnd::Sample, BackoffEnd::Sample, BackoffEnd::Sample, BackoffEnd::Sample;
    /// Retransmissions after a timeout.
    after_timeout: AfterTimeout [""] ("LNX; RFC 6582 leaves it open")
        = AfterTimeout::GoBackN, AfterTimeout::GoBackN, AfterTimeout::GoBackN,
          AfterTimeout::GoBackN;
    /// With SACK, a timeout takes segments sent within the last round-trip time for under way.
    timeout_spares_recent: bool [""] ("LNX: RACK, which without SACK has no round-trip time")
        = false, true, false, true;
    /// Timeouts in a row before a connection is given up.
    retries: u32 [""] ("KT: 100; LNX: 15")
        = 100, 100, 15, 15;
    /// Retransmissions of a SYN before it is given up.
    syn_retries: u32 [""] ("S1 4.2: 40; LNX: 6")
        = 40, 40, 6, 6;
    /// Retransmissions of a SYN-ACK before it is given up.
    synack_retries: u32 [""] ("S1 4.2: 41; LNX: 5")
        = 41, 41, 5, 5;
    /// With more retransmissions of the handshake than this, the initial window is one segment.
    window_handshake_losses: u32 [""] ("RFC 5681 3.1: 0; LNX keeps the window of accepted sockets")
        = 1000, 1000, 0, 1000;
    /// Duration of TIME-WAIT.
    time_wait: Duration [""] ("RFC 9293 3.4.2: two times 2 min; LNX: 60 s")
        = s(60), s(60), s(240), s(60);

    /// Acknowledgment of in-order data.
    delayed_ack: DelayedAck [""] ("S1 4.2: constant; KT: what the kernel does")
        = DelayedAck::Constant, DelayedAck::Linux, DelayedAck::Constant, DelayedAck::Linux;
    /// The time an ACK waits; with `linux` the least.
    ack_delay: Duration [""] ("S1 4.2: 200 ms; LNX: 40 ms; RFC 9293 3.8.6.3: below 500 ms")
        = ms(200), ms(40), ms(200), ms(40);
    /// Full segments after which an ACK does not wait.
    ack_every: u32 ["segments"] ("RFC 5681 4.2")
        = 2, 2, 2, 2;
    /// Segments acknowledged at once, at the start and after a duplicate.
    quick_acks: u32 ["segments"] ("KT: about the first 16; S1 has a constant delay")
        = 0, 16, 0, 16;

    /// CUBIC's constant C, in segments per cubic second.
    cubic_c: Ratio ["segments/s^3"] ("RFC 9438 5.2")
        = Ratio::new(2, 5), Ratio::new(2, 5), Ratio::new(2, 5), Ratio::new(2, 5);
    /// CUBIC's multiplicative decrease factor.
    cubic_beta: Ratio [""] ("RFC 9438 4.6; LNX: 717/1024")
        = Ratio::new(7, 10), Ratio::new(7, 10), Ratio::new(7, 10), Ratio::new(7, 10);
    /// CUBIC releases bandwidth to new flows after a loss below its last maximum.
    cubic_fast_convergence: bool [""] ("RFC 9438 4.7")
        = true, true, true, true;

    /// The version of BBR 1.
    bbr_era: BbrEra [""] ("BBR1: unknown for S1; KT: as later amended")
        = BbrEra::Era2016, BbrEra::Linux5, BbrEra::Era2016, BbrEra::Linux5;
    /// Gain of pacing and window in STARTUP; its inverse in DRAIN.
    bbr_high_gain: Ratio [""] ("BBR1: 2885/1000 + 1/256, as LNX rounds 2/ln 2")
        = Ratio::new(739, 256), Ratio::new(739, 256), Ratio::new(739, 256), Ratio::new(739, 256);
    /// Gain of pacing in DRAIN.
    bbr_drain_gain: Ratio [""] ("BBR1: 1000/2885, as LNX rounds it")
        = Ratio::new(88, 256), Ratio::new(88, 256), Ratio::new(88, 256), Ratio::new(88, 256);
    /// Gain of the window in PROBE_BW.
    bbr_window_gain: Ratio [""] ("BBR1")
        = Ratio::new(2, 1), Ratio::new(2, 1), Ratio::new(2, 1), Ratio::new(2, 1);
    /// Gain of pacing while it probes for bandwidth.
    bbr_probe_gain: Ratio [""] ("BBR1")
        = Ratio::new(5, 4), Ratio::new(5, 4), Ratio::new(5, 4), Ratio::new(5, 4);
    /// Gain of pacing while it drains what probing queued.
    bbr_relax_gain: Ratio [""] ("BBR1")
        = Ratio::new(3, 4), Ratio::new(3, 4), Ratio::new(3, 4), Ratio::new(3, 4);
    /// Length of the bandwidth filter.
    bbr_bw_rounds: u32 ["rounds"] ("BBR1")
        = 10, 10, 10, 10;
    /// Length of the round-trip filter; then PROBE_RTT.
    bbr_min_rtt_window: Duration [""] ("BBR1")
        = s(10), s(10), s(10), s(10);
    /// Shortest PROBE_RTT.
    bbr_probe_rtt_time: Duration [""] ("BBR1")
        = ms(200), ms(200), ms(200), ms(200);
    /// Growth of the bandwidth that keeps STARTUP going.
    bbr_full_growth: Ratio [""] ("BBR1")
        = Ratio::new(5, 4), Ratio::new(5, 4), Ratio::new(5, 4), Ratio::new(5, 4);
    /// Rounds without that growth that end STARTUP.
    bbr_full_rounds: u32 ["rounds"] ("BBR1")
        = 3, 3, 3, 3;
    /// Least window; the window of PROBE_RTT.
    bbr_min_window: u32 ["segments"] ("BBR1")
        = 4, 4, 4, 4;
    /// Detect a policer and hold its rate (`lt_bw` of LNX).
    bbr_policer: bool [""] ("BBR1: in all versions of LNX")
        = true, true, true, true;
    /// The segment, of those an ACK delivers, that gives BBR's delivery-rate sample.
    rate_sample: RateSampleOf [""] ("LNX since 5.18; before: most-delivered")
        = RateSampleOf::LatestSent, RateSampleOf::LatestSent, RateSampleOf::LatestSent,
          RateSampleOf::LatestSent;
    /// Without SACK, deliveries announced by duplicates are not counted again after a timeout.
    deliveries_once: bool [""] ("draft-cheng-iccrg-delivery-rate-estimation 3.3: once; LNX: again")
        = false, false, false, false;
    /// Segments of a connection that leave before pacing begins.
    unpaced_segments: u32 ["segments"] ("LNX: 9, where TCP paces itself; 2016: fq's quantum")
        = 0, 9, 0, 9;
    /// Pacing counts headers, as the fq queue discipline does; TCP's own pacing counts payload.
    bbr_pacing_headers: bool [""] ("2016 needs fq; KT: no fq there")
        = true, false, true, false;
    /// Additional bytes per packet in pacing, where it counts headers: 14 for the Ethernet header
    /// in fq.
    bbr_pacing_frame: u32 ["bytes"] ("LNX: fq paces by frames; S1: not stated")
        = 0, 0, 0, 0;
}
