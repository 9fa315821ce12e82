use super::*;
use crate::tcp::congestion::SSTHRESH_NONE;

const RTT: Duration = Duration::from_millis(100);
/// Segments that the path delivers in a round: its capacity.
const BDP: u32 = 100;

fn window(cwnd: u32) -> Window {
    Window {
        cwnd,
        ssthresh: SSTHRESH_NONE,
        count: 0,
    }
}

/// A connection over a path of 1,000 segments a second and 100 ms, and the number of its next round.
struct Connection {
    bbr: Bbr3,
    window: Window,
    number: u64,
}

impl Connection {
    fn new() -> Self {
        let stream = Stream::new(1, "bbr");
        let (settings, first) = (TcpSettings::KERNEL, window(10));
        let bbr = Bbr3::new(&settings, Instant::ZERO, 296, &first, Some(RTT), stream);
        Self {
            bbr,
            window: first,
            number: 0,
        }
    }

    fn delivered(&self) -> u64 {
        self.number * u64::from(BDP)
    }

    fn ack(&self, in_flight: u32) -> Ack {
        Ack {
            now: Instant::ZERO + RTT.times(self.number + 1),
            acked: BDP,
            losses: 0,
            lost: 0,
            prior_in_flight: in_flight,
            in_flight,
            held_back: Duration::ZERO,
            delivered: self.delivered() + u64::from(BDP),
            state: State::Open,
            window_limited: false,
            rtt: Some(RTT),
            srtt: Some(RTT),
            rate: Some(RateSample {
                delivered: BDP.into(),
                interval: RTT,
                prior_delivered: self.delivered(),
                app_limited: false,
                tx_in_flight: in_flight,
                lost: 0,
            }),
        }
    }

    /// A round that ends with `in_flight` segments in flight.
    fn round(&mut self, in_flight: u32) {
        self.round_as(in_flight, |_| ());
    }

    fn round_as(&mut self, in_flight: u32, change: impl FnOnce(&mut Ack)) {
        let mut ack = self.ack(in_flight);
        change(&mut ack);
        self.bbr.on_ack(&mut self.window, &ack);
        self.number += 1;
    }

    /// The loss of a segment, `lost` of those sent since with `in_flight` in flight.
    fn lose(&mut self, lost: u32, in_flight: u32, sack: bool) {
        let segment = LostSegment {
            now: Instant::ZERO + RTT.times(self.number),
            start: 1,
            end: 2,
            tx_in_flight: in_flight,
            lost,
            app_limited: false,
            delivered: self.delivered(),
            sack,
        };
        self.bbr.on_lost(&self.window, &segment);
    }

    /// Rounds until this mode, none of them for PROBE_RTT; fails after 40.
    fn until(&mut self, mode: Mode, in_flight: u32) -> u32 {
        for rounds in 0..40 {
            if self.bbr.mode == mode {
                return rounds;
            }
            self.bbr.probe_rtt_min_at = Instant::ZERO + RTT.times(self.number);
            self.round(in_flight);
        }
        panic!("{:?} stays, {mode:?} does not come", self.bbr.mode);
    }

    fn cruising() -> Self {
        let mut connection = Self::new();
        connection.until(Mode::Cruise, BDP);
        connection
    }

    /// In ProbeBW_UP, with feedback of its probe to come.
    fn probing() -> Self {
        let mut connection = Self::cruising();
        connection.until(Mode::Up, BDP);
        connection
    }
}

#[test]
fn startup_ends_after_three_rounds_without_a_quarter_more() {
    let mut c = Connection::new();
    assert_eq!(c.bbr.mode.pacing_gain(), Ratio::new(277, 100));
    // The first round is the baseline; three more do not exceed it by a quarter.
    for _ in 0..3 {
        c.round(2 * BDP);
        assert_eq!(c.bbr.mode, Mode::Startup);
    }
    c.round(2 * BDP);
    assert_eq!(c.bbr.mode, Mode::Drain);
    assert_eq!(c.bbr.mode.pacing_gain(), Ratio::new(1, 2));
    c.round(BDP + 1);
    assert_eq!(c.bbr.mode, Mode::Drain);
    c.round(BDP);
    assert_eq!(
        c.bbr.mode,
        Mode::Cruise,
        "what is in flight is the capacity"
    );
}

#[test]
fn drain_ends_after_three_rounds_in_any_case() {
    let mut c = Connection::new();
    c.until(Mode::Drain, 2 * BDP);
    assert_eq!(c.until(Mode::Down, 2 * BDP), 4);
}

#[test]
fn application_limited_rounds_do_not_fill_the_pipe() {
    let mut c = Connection::new();
    for _ in 0..20 {
        c.round_as(BDP, |ack| {
            ack.rate = ack.rate.map(|rate| RateSample {
                app_limited: true,
                ..rate
            });
        });
    }
    assert_eq!(c.bbr.mode, Mode::Startup);
}

#[test]
fn the_cycle_drains_cruises_refills_for_a_round_and_probes() {
    let mut c = Connection::new();
    c.until(Mode::Down, 2 * BDP);
    assert_eq!(c.bbr.mode.pacing_gain(), Ratio::new(9, 10));
    c.round(BDP + 1);
    assert_eq!(c.bbr.mode, Mode::Down, "a queue is left");
    c.round(BDP);
    assert_eq!(c.bbr.mode, Mode::Cruise);
    assert_eq!(c.bbr.mode.pacing_gain(), Ratio::ONE);
    // Two to three seconds after the beginning of the cycle, in rounds of 100 ms.
    let rounds = c.until(Mode::Refill, BDP);
    assert!((18..=30).contains(&rounds), "{rounds}");
    assert_eq!(c.until(Mode::Up, BDP), 1);
    assert_eq!(c.bbr.mode.pacing_gain(), Ratio::new(5, 4));
    assert_eq!(c.bbr.mode.window_gain(), Ratio::new(9, 4));
    assert_eq!(c.until(Mode::Down, BDP), 3, "the rate does not grow");
}

#[test]
fn a_small_capacity_is_probed_as_often_as_reno_grows_by_it() {
    let mut c = Connection::cruising();
    // Half of the cap of 63 rounds, within the two seconds.
    c.bbr.probe_wait = Duration::from_secs(100);
    c.window.cwnd = 12;
    c.bbr.rounds_since_probe = 0;
    for _ in 0..11 {
        c.round(BDP);
        c.window.cwnd = 12;
        assert_eq!(c.bbr.mode, Mode::Cruise);
    }
    c.round(BDP);
    assert_eq!(c.bbr.mode, Mode::Refill);
}

#[test]
fn loss_above_2_percent_while_probing_limits_the_flight() {
    let mut c = Connection::probing();
    c.lose(2, 120, true);
    assert_eq!((c.bbr.mode, c.bbr.long.is_limited()), (Mode::Up, false));
    c.lose(3, 120, true);
    // 2 % of 119 are 2.38; two lost before: a prefix of 0.38 / 0.98 segments more.
    assert_eq!((c.bbr.mode, c.bbr.long.inflight), (Mode::Down, 119));
    // Once a probe.
    c.lose(4, 90, true);
    assert_eq!(c.bbr.long.inflight, 119);
}

#[test]
fn without_sack_every_loss_of_a_probe_limits() {
    let mut c = Connection::probing();
    c.lose(1, 120, false);
    assert_eq!(c.bbr.mode, Mode::Down);
    assert!(c.bbr.long.inflight < 130);
}

#[test]
fn the_limit_is_at_least_seven_tenths_of_the_target() {
    let mut c = Connection::probing();
    c.lose(5, 10, true);
    assert_eq!(c.bbr.long.inflight, 70);
}

#[test]
fn losses_cross_the_threshold_within_the_segments_before() {
    assert_eq!(inflight_at_loss(1, 101), 102, "2 of 100, by 0.98");
    assert_eq!(inflight_at_loss(3, 101), 100, "crossed before");
    assert_eq!(inflight_at_loss(1, 1), 0);
}

#[test]
fn cruise_leaves_headroom_below_the_limit() {
    let mut c = Connection::cruising();
    c.bbr.long.inflight = 100;
    c.round(80);
    assert_eq!(c.window.cwnd, 85);
    c.bbr.long.inflight = 4;
    c.round(4);
    assert_eq!(c.window.cwnd, LEAST_WINDOW);
}

#[test]
fn the_probe_after_one_that_went_too_high_is_brief() {
    let mut c = Connection::probing();
    c.lose(3, 120, true);
    let limit = c.bbr.long.inflight;
    c.until(Mode::Cruise, 80);
    c.until(Mode::Up, 80);
    assert!(c.bbr.probe_too_high);
    c.round(limit);
    assert_eq!(c.bbr.mode, Mode::Down, "it reaches the limit");
    // A round without excess loss: the next probe follows at once.
    c.round(limit);
    assert_eq!(c.bbr.mode, Mode::Refill);
}

#[test]
fn a_probe_that_the_window_limits_raises_the_limit_by_one_two_and_four() {
    let mut long = LongTerm::default();
    long.inflight = 100;
    long.begin_probe();
    long.raise_slope(100);
    for expected in [101, 103, 107, 115] {
        long.grow(true, 100, true, 100);
        assert_eq!(long.inflight, expected);
    }
    long.grow(false, 100, true, 100);
    assert_eq!(long.inflight, 115);
}

#[test]
fn losses_between_probes_lower_the_rate_once_a_round_until_the_refill() {
    let mut c = Connection::cruising();
    let before = c.bbr.bw;
    let half = |ack: &mut Ack| {
        ack.rate = ack.rate.map(|rate| RateSample {
            delivered: rate.delivered / 2,
            ..rate
        });
    };
    c.round_as(BDP, half);
    c.lose(1, BDP, true);
    // The round of the loss ends with the delivery of a segment sent after it.
    c.round_as(BDP, half);
    assert_eq!(c.bbr.bw, model::BETA.of(before), "by three tenths at most");
    c.round_as(BDP, half);
    assert_eq!(c.bbr.bw, model::BETA.of(before), "no other loss");
    c.until(Mode::Refill, BDP);
    c.round(BDP);
    assert_eq!(c.bbr.bw, before);
}

#[test]
fn probe_rtt_takes_half_the_capacity_for_a_round_and_200_ms() {
    let mut c = Connection::cruising();
    c.bbr.probe_wait = Duration::from_secs(100);
    c.bbr.probe_rtt_min_at = Instant::ZERO;
    // No sample is below the least.
    while c.number < 50 {
        c.bbr.rounds_since_probe = 0;
        c.round(BDP);
        assert_ne!(c.bbr.mode, Mode::ProbeRtt, "at {} rounds", c.number);
    }
    let before = c.window.cwnd;
    c.round(BDP);
    assert_eq!((c.bbr.mode, c.window.cwnd), (Mode::ProbeRtt, BDP / 2));
    assert!(c.bbr.wants_app_limited());
    c.round(BDP / 2);
    for _ in 0..2 {
        c.round(BDP / 2);
        assert_eq!(c.bbr.mode, Mode::ProbeRtt);
    }
    c.round(BDP / 2);
    assert_eq!(c.bbr.mode, Mode::Cruise, "more than 200 ms have passed");
    assert!(c.window.cwnd >= before);
}

#[test]
fn timeout_sets_the_window_to_flight_plus_one() {
    let mut c = Connection::cruising();
    let timeout = Timeout {
        now: Instant::ZERO,
        in_flight: 3,
        lost: 2,
        delivered: 10,
        delivered_at: Instant::ZERO,
    };
    c.bbr.ssthresh(Instant::ZERO, &c.window, 0);
    let before = c.window.cwnd;
    c.bbr.on_timeout(&mut c.window, &timeout);
    assert_eq!(c.window.cwnd, 4);
    c.round(BDP);
    assert_eq!(c.window.cwnd, before, "restored after the recovery");
}

#[test]
fn startup_ends_with_six_lost_ranges_after_a_round_of_recovery() {
    let mut c = Connection::new();
    let recovering = |ack: &mut Ack| {
        ack.state = State::Recovery;
        // The rate still grows.
        let growth = 2 << (ack.delivered / u64::from(BDP));
        ack.rate = ack.rate.map(|rate| RateSample {
            delivered: rate.delivered * growth,
            ..rate
        });
    };
    for round in 0..2 {
        for range in 0..6 {
            let start = 100 * (10 * round + range);
            let segment = LostSegment {
                now: Instant::ZERO,
                start,
                end: start + 1,
                tx_in_flight: BDP,
                lost: 1,
                app_limited: false,
                delivered: c.delivered(),
                sack: true,
            };
            c.bbr.on_lost(&c.window, &segment);
        }
        assert_eq!(c.bbr.mode, Mode::Startup, "round {round}");
        c.round_as(BDP, recovering);
    }
    assert!(c.bbr.full && c.bbr.long.is_limited());
    assert_ne!(c.bbr.mode, Mode::Startup);
}
