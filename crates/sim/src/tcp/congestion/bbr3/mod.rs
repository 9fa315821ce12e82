//! BBR version 3 (draft-ietf-ccwg-bbr, `docs/algorithms.md#tcp-bbr3`).
//!
//! Volumes are in segments, bandwidth in segments per microsecond, shifted by 24. Each function is the draft's of that
//! name. Two parts are left out, because the sender has no such events: the undoing of spurious loss recovery, and
//! ECN, to which the draft has no response either.

mod model;
mod probe_bw;

use carob_cc::ratio::Ratio;
use carob_cc::time::{Duration, Instant};

use super::bbr1::MaxFilter;
use super::{Ack, Congestion, LostSegment, RateSample, State, Timeout, Window};
use crate::random::Stream;
use crate::tcp::settings::TcpSettings;
use model::{LatestSignals, LongTerm, ShortTerm};

/// Shift of bandwidths.
const BW_SHIFT: u32 = 24;
/// BBR.LossThresh, in percent of the segments in flight.
const LOSS_PERCENT: u64 = 2;
/// BBR.MinPipeCwnd.
const LEAST_WINDOW: u32 = 4;
/// Rounds with little growth that fill the pipe.
const FULL_ROUNDS: u32 = 3;
/// Lost ranges in a round that end Startup.
const STARTUP_LOST_RANGES: u32 = 6;
/// Rounds after which Drain ends in any case.
const DRAIN_ROUNDS: u32 = 3;
/// The most rounds between two probes for bandwidth, so that Reno has a share.
const RENO_ROUNDS: u32 = 63;
/// BBR.ExtraAckedFilterLen, in rounds.
const EXTRA_ROUNDS: u32 = 10;
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// Largest burst in bytes, and its time at the pacing rate in parts of a second.
const QUANTUM_MAX: u64 = 64 << 10;
const QUANTA_A_SECOND: u64 = 1_000;

/// BBR.state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl Mode {
    const fn probes_bandwidth(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }

    const fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    const fn pacing_gain(self) -> Ratio {
        match self {
            // 4 ln 2: the least gain with which the rate doubles in each round.
            Self::Startup => Ratio::new(277, 100),
            Self::Drain => Ratio::new(1, 2),
            Self::Down => Ratio::new(9, 10),
            Self::Up => Ratio::new(5, 4),
            Self::Cruise | Self::Refill | Self::ProbeRtt => Ratio::ONE,
        }
    }

    const fn window_gain(self) -> Ratio {
        match self {
            Self::Up => Ratio::new(9, 4),
            Self::ProbeRtt => Ratio::new(1, 2),
            _ => Ratio::new(2, 1),
        }
    }
}

/// BBR.ack_phase: the meaning of ACKs for the latest probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// State of BBR.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "flags of independent estimators"
)]
pub struct Bbr3 {
    initial_window: u32,
    /// Bytes of a full packet, as pacing counts them.
    packet: u32,
    stream: Stream,
    mode: Mode,
    ack_phase: AckPhase,
    rounds: u32,
    round_start: bool,
    /// The round ends with the delivery of a segment sent after this many deliveries.
    round_end: u64,
    long: LongTerm,
    short: ShortTerm,
    latest: LatestSignals,
    bw: u64,
    min_rtt: Option<Duration>,
    min_rtt_at: Instant,
    probe_rtt_min: Option<Duration>,
    probe_rtt_min_at: Instant,
    probe_rtt_expired: bool,
    probe_rtt_done: Option<Instant>,
    probe_rtt_round: bool,
    full_bw: u64,
    full_rounds: u32,
    full_now: bool,
    full: bool,
    drain_round: u32,
    cycle_at: Instant,
    probe_wait: Duration,
    rounds_since_probe: u32,
    is_probe_sample: bool,
    probe_too_high: bool,
    probe_precautionary: bool,
    prior_cwnd: u32,
    prior_state: State,
    recovery_round: u32,
    idle_restart: bool,
    extra: MaxFilter,
    extra_acked: u64,
    extra_since: Instant,
    saw_rtt: bool,
    pacing_rate: u64,
}

impl Bbr3 {
    /// Creates the state of a new connection with this window; pacing counts `packet` bytes in a full segment.
    pub fn new(
        settings: &TcpSettings,
        now: Instant,
        packet: u32,
        window: &Window,
        srtt: Option<Duration>,
        stream: Stream,
    ) -> Self {
        let mut bbr = Self {
            initial_window: settings.initial_window,
            packet,
            stream,
            mode: Mode::Startup,
            ack_phase: AckPhase::Init,
            rounds: 0,
            round_start: false,
            round_end: 0,
            long: LongTerm::default(),
            short: ShortTerm::default(),
            latest: LatestSignals::default(),
            bw: 0,
            min_rtt: srtt,
            min_rtt_at: now,
            probe_rtt_min: srtt,
            probe_rtt_min_at: now,
            probe_rtt_expired: false,
            probe_rtt_done: None,
            probe_rtt_round: false,
            full_bw: 0,
            full_rounds: 0,
            full_now: false,
            full: false,
            drain_round: 0,
            cycle_at: Instant::ZERO,
            probe_wait: Duration::ZERO,
            rounds_since_probe: 0,
            is_probe_sample: false,
            probe_too_high: false,
            probe_precautionary: false,
            prior_cwnd: 0,
            prior_state: State::Open,
            recovery_round: 0,
            idle_restart: false,
            extra: MaxFilter::default(),
            extra_acked: 0,
            extra_since: now,
            saw_rtt: srtt.is_some(),
            pacing_rate: 0,
        };
        bbr.init_pacing_rate(window.cwnd, srtt);
        bbr
    }

    fn init_pacing_rate(&mut self, cwnd: u32, srtt: Option<Duration>) {
        let rtt = srtt.unwrap_or(Duration::from_millis(1)).as_micros().max(1);
        let bw = (u64::from(cwnd) << BW_SHIFT) / rtt;
        self.pacing_rate = self.rate_of(bw, Mode::Startup.pacing_gain());
    }

    /// Bytes per second of `bw` at `gain`, less the pacing margin of 1 %.
    fn rate_of(&self, bw: u64, gain: Ratio) -> u64 {
        let bytes = u128::from(gain.of(bw)) * u128::from(self.packet) * 1_000_000;
        u64::try_from(bytes >> BW_SHIFT).unwrap_or(u64::MAX) / 100 * 99
    }

    fn bdp_multiple(&self, bw: u64, gain: Ratio) -> u32 {
        let Some(min_rtt) = self.min_rtt else {
            return self.initial_window;
        };
        let bdp = u128::from(bw) * u128::from(min_rtt.as_micros());
        let bdp = gain.of(u64::try_from(bdp).unwrap_or(u64::MAX >> 4));
        // Bounded, so that sums of it with budgets and windows stay within 32 bits.
        bdp.div_ceil(1 << BW_SHIFT).min(1 << 22) as u32
    }

    /// Three send quanta, each of a millisecond at the rate and at least two segments.
    fn offload_budget(&self) -> u32 {
        let quantum = (self.pacing_rate / QUANTA_A_SECOND).min(QUANTUM_MAX);
        3 * ((quantum / u64::from(self.packet)).max(2) as u32)
    }

    fn quantization_budget(&self, inflight: u32) -> u32 {
        let least = inflight.max(self.offload_budget()).max(LEAST_WINDOW);
        least + if self.mode == Mode::Up { 2 } else { 0 }
    }

    fn inflight(&self, bw: u64) -> u32 {
        self.quantization_budget(self.bdp_multiple(bw, Ratio::ONE))
    }

    fn target_inflight(&self, cwnd: u32) -> u32 {
        self.bdp_multiple(self.bw, Ratio::ONE).min(cwnd)
    }

    fn start_round(&mut self, delivered: u64) {
        self.round_end = delivered;
    }

    fn update_max_bw(&mut self, ack: &Ack, rate: &RateSample) {
        self.round_start = rate.prior_delivered >= self.round_end;
        if self.round_start {
            self.start_round(ack.delivered);
            self.rounds += 1;
            self.rounds_since_probe += 1;
        }
        let bw = bandwidth(rate);
        // A sample that the application limited is a lower bound of the path's rate.
        if bw > 0 && (bw >= self.long.max_bw() || !rate.app_limited) {
            self.long.add_bw(bw);
        }
    }

    fn update_congestion_signals(&mut self, window: &Window, ack: &Ack) {
        let Some(rate) = ack.rate else {
            self.round_start = false;
            self.latest.round_start = false;
            return;
        };
        self.latest.update(
            bandwidth(&rate),
            rate.delivered as u32,
            rate.prior_delivered,
            ack.delivered,
        );
        self.update_max_bw(ack, &rate);
        if !self.latest.round_start {
            return;
        }
        if self.latest.has_loss && !self.mode.probes_bandwidth() {
            self.short
                .lower(self.long.max_bw(), window.cwnd, &self.latest);
        }
        self.latest.has_loss = false;
    }

    fn update_ack_aggregation(&mut self, ack: &Ack, cwnd: u32) {
        // 2^30 us (18 min), so that the product with a bandwidth of up to 2^33 (512 segments per us) fits.
        let since = ack.now.since(self.extra_since).as_micros().min(1 << 30);
        let mut expected = (self.bw * since) >> BW_SHIFT;
        if self.extra_acked <= expected {
            self.extra_acked = 0;
            self.extra_since = ack.now;
            expected = 0;
        }
        self.extra_acked += u64::from(ack.acked);
        let extra = (self.extra_acked - expected).min(cwnd.into());
        let rounds = if self.full { EXTRA_ROUNDS } else { 1 };
        self.extra.update(rounds, self.rounds, extra);
    }

    fn reset_full_bw(&mut self, bw: u64) {
        (self.full_bw, self.full_rounds, self.full_now) = (bw, 0, false);
    }

    fn check_full_bw(&mut self, ack: &Ack) {
        let Some(rate) = ack.rate.filter(|rate| !rate.app_limited) else {
            return;
        };
        if self.full_now || !self.round_start {
            return;
        }
        let bw = bandwidth(&rate);
        // Startup attempts to double the rate; less than a quarter more counts as no growth.
        if bw >= Ratio::new(5, 4).of(self.full_bw) {
            return self.reset_full_bw(bw);
        }
        self.full_rounds += 1;
        self.full_now = self.full_rounds >= FULL_ROUNDS;
        self.full |= self.full_now;
    }

    fn check_startup_done(&mut self, ack: &Ack) {
        if self.mode != Mode::Startup {
            return;
        }
        if self.has_high_startup_loss(ack) {
            self.full = true;
            let bdp = self.bdp_multiple(self.bw, Ratio::ONE);
            self.long.inflight = bdp.max(self.latest.inflight);
        }
        if self.full {
            self.mode = Mode::Drain;
            self.drain_round = self.rounds;
        }
    }

    /// With SACK, more than 2 % in six ranges or more, after a full round of recovery; without, any loss that
    /// recovery shows.
    fn has_high_startup_loss(&mut self, ack: &Ack) -> bool {
        if ack.state != State::Recovery {
            self.recovery_round = self.rounds;
            self.latest.begin_startup_losses();
            return false;
        }
        if !self.latest.has_sack {
            return self.latest.has_loss;
        }
        if !self.round_start {
            return false;
        }
        let (lost, ranges) = self.latest.begin_startup_losses();
        let in_flight = ack.rate.map_or(ack.in_flight, |rate| rate.tx_in_flight);
        self.rounds > self.recovery_round + 1
            && ranges >= STARTUP_LOST_RANGES
            && exceeds_threshold(lost, in_flight)
    }

    fn check_drain_done(&mut self, ack: &Ack) {
        let late = self.rounds > self.drain_round + DRAIN_ROUNDS;
        if self.mode == Mode::Drain && (ack.in_flight <= self.inflight(self.bw) || late) {
            self.start_down(ack.now, ack.delivered);
        }
    }

    fn update_min_rtt(&mut self, ack: &Ack) {
        self.probe_rtt_expired = ack.now > self.probe_rtt_min_at + PROBE_RTT_INTERVAL;
        if let Some(rtt) = ack.rtt
            && (self.probe_rtt_expired || self.probe_rtt_min.is_none_or(|least| rtt < least))
        {
            self.probe_rtt_min = Some(rtt);
            self.probe_rtt_min_at = ack.now;
        }
        let expired = ack.now > self.min_rtt_at + MIN_RTT_WINDOW;
        let lower = self
            .min_rtt
            .is_none_or(|least| self.probe_rtt_min < Some(least));
        if self.probe_rtt_min.is_some() && (expired || lower) {
            self.min_rtt = self.probe_rtt_min;
            self.min_rtt_at = self.probe_rtt_min_at;
        }
    }

    fn probe_rtt_window(&self) -> u32 {
        let half = self.bdp_multiple(self.bw, Mode::ProbeRtt.window_gain());
        half.max(LEAST_WINDOW)
    }

    fn check_probe_rtt(&mut self, window: &mut Window, ack: &Ack) {
        if self.mode != Mode::ProbeRtt && self.probe_rtt_expired && !self.idle_restart {
            self.save_window(window.cwnd);
            self.mode = Mode::ProbeRtt;
            self.probe_rtt_done = None;
            self.ack_phase = AckPhase::ProbeStopping;
            self.start_round(ack.delivered);
        }
        if self.mode == Mode::ProbeRtt {
            if self.probe_rtt_done.is_some() {
                self.probe_rtt_round |= self.round_start;
                if self.probe_rtt_round {
                    self.check_probe_rtt_done(window, ack.now, ack.delivered);
                }
            } else if ack.in_flight <= self.probe_rtt_window() {
                self.probe_rtt_done = Some(ack.now + PROBE_RTT_TIME);
                self.probe_rtt_round = false;
                self.start_round(ack.delivered);
            }
        }
        if ack.rate.is_some_and(|rate| rate.delivered > 0) {
            self.idle_restart = false;
        }
    }

    fn check_probe_rtt_done(&mut self, window: &mut Window, now: Instant, delivered: u64) {
        if self.probe_rtt_done.is_none_or(|done| now <= done) {
            return;
        }
        self.probe_rtt_min_at = now;
        window.cwnd = window.cwnd.max(self.prior_cwnd);
        self.short = ShortTerm::default();
        if self.full {
            self.start_down(now, delivered);
            self.mode = Mode::Cruise;
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn save_window(&mut self, cwnd: u32) {
        self.prior_cwnd = if self.prior_state < State::Recovery && self.mode != Mode::ProbeRtt {
            cwnd
        } else {
            self.prior_cwnd.max(cwnd)
        };
    }

    fn set_pacing_rate(&mut self, cwnd: u32, srtt: Option<Duration>, gain: Ratio) {
        if !self.saw_rtt && srtt.is_some() {
            self.saw_rtt = true;
            self.init_pacing_rate(cwnd, srtt);
        }
        let rate = self.rate_of(self.bw, gain);
        if self.full || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    fn set_window(&mut self, window: &mut Window, ack: &Ack) {
        let was = core::mem::replace(&mut self.prior_state, ack.state);
        if was >= State::Recovery && ack.state < State::Recovery {
            window.cwnd = window.cwnd.max(self.prior_cwnd);
        }
        if ack.acked > 0 {
            let bdp = self.bdp_multiple(self.bw, self.mode.window_gain());
            let most = self.quantization_budget(bdp + self.extra.max() as u32);
            let grown = window.cwnd + ack.acked;
            if self.full {
                window.cwnd = grown.min(most);
            } else if window.cwnd < most || ack.delivered < u64::from(self.initial_window) {
                window.cwnd = grown;
            }
            window.cwnd = window.cwnd.max(LEAST_WINDOW);
        }
        if self.mode == Mode::ProbeRtt {
            window.cwnd = window.cwnd.min(self.probe_rtt_window());
        }
        let cap = match self.mode {
            Mode::Down | Mode::Refill | Mode::Up => self.long.inflight,
            Mode::Cruise | Mode::ProbeRtt => self.long.with_headroom(),
            Mode::Startup | Mode::Drain => u32::MAX,
        };
        let cap = cap.min(self.short.inflight).max(LEAST_WINDOW);
        window.cwnd = window.cwnd.min(cap);
    }
}

/// Segments per microsecond, shifted.
fn bandwidth(rate: &RateSample) -> u64 {
    (rate.delivered << BW_SHIFT) / rate.interval.as_micros().max(1)
}

/// Returns whether `lost` of the segments in flight are more than BBR.LossThresh.
fn exceeds_threshold(lost: u32, in_flight: u32) -> bool {
    u64::from(lost) * 100 > u64::from(in_flight) * LOSS_PERCENT
}

/// The segments in flight at which losses crossed the threshold: of `lost` among `in_flight`, each including the last.
fn inflight_at_loss(lost: u32, in_flight: u32) -> u32 {
    let before = u64::from(in_flight.saturating_sub(1));
    let lost_before = 100 * u64::from(lost.saturating_sub(1));
    let prefix = (LOSS_PERCENT * before).saturating_sub(lost_before) / (100 - LOSS_PERCENT);
    (before + prefix) as u32
}

impl Congestion for Bbr3 {
    /// BBR has no threshold; the window before recovery is saved.
    fn ssthresh(&mut self, _now: Instant, window: &Window, _half_of: u32) -> u32 {
        self.save_window(window.cwnd);
        window.ssthresh
    }

    fn on_lost(&mut self, window: &Window, lost: &LostSegment) {
        self.latest.note_loss(lost);
        if !self.is_probe_sample || !self.is_inflight_too_high(lost.lost, lost.tx_in_flight) {
            return;
        }
        self.probe_too_high = true;
        self.is_probe_sample = false;
        if !lost.app_limited {
            let beta = model::BETA.of(self.target_inflight(window.cwnd).into()) as u32;
            self.long.inflight = inflight_at_loss(lost.lost, lost.tx_in_flight).max(beta);
        }
        if self.mode == Mode::Up {
            self.start_down(lost.now, lost.delivered);
        }
    }

    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        // In the order of the draft's BBRUpdateModelAndState() and BBRUpdateControlParameters(): states read
        // the signals of this ACK, and rate and window the state.
        self.update_congestion_signals(window, ack);
        self.update_ack_aggregation(ack, window.cwnd);
        self.check_full_bw(ack);
        self.check_startup_done(ack);
        self.check_drain_done(ack);
        if ack.acked > 0 {
            self.update_probe_bw(window, ack);
        }
        self.update_min_rtt(ack);
        self.check_probe_rtt(window, ack);
        if let Some(rate) = ack.rate {
            self.latest.advance(bandwidth(&rate), rate.delivered as u32);
        }
        self.bw = self.long.max_bw().min(self.short.bw);
        self.set_pacing_rate(window.cwnd, ack.srtt, self.mode.pacing_gain());
        self.set_window(window, ack);
    }

    fn on_timeout(&mut self, window: &mut Window, timeout: &Timeout) {
        self.prior_state = State::Loss;
        // One more than in flight: the first retransmission can leave at once.
        window.cwnd = timeout.in_flight + 1;
    }

    fn on_restart(&mut self, window: &mut Window, now: Instant) {
        self.idle_restart = true;
        self.extra_since = now;
        if self.mode.is_probe_bw() {
            self.set_pacing_rate(window.cwnd, None, Ratio::ONE);
        } else if self.mode == Mode::ProbeRtt {
            self.check_probe_rtt_done(window, now, self.round_end);
        }
    }

    fn owns_window(&self) -> bool {
        true
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(self.pacing_rate.max(1))
    }

    fn wants_app_limited(&self) -> bool {
        self.mode == Mode::ProbeRtt
    }

    fn wants_losses(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
