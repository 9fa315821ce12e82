//! BBR version 1, as in Linux (`docs/algorithms.md#tcp-bbr1`).
//!
//! Bandwidth is in segments per microsecond, shifted by 24 as in Linux: at the thesis's 12.7
//! segments a second one step is half a per cent, as in the kernel's own estimate. Gains are the
//! settings' ratios.

mod filters;

use carob_cc::ratio::Ratio;
use carob_cc::time::{Duration, Instant};

use super::{Ack, Congestion, State, Timeout, Window};
use crate::random::Stream;
use crate::tcp::settings::{BbrEra, TcpSettings};
use filters::{AckAggregation, Policer, PolicerInput};

pub(super) use filters::MaxFilter;

/// Shift of bandwidths.
const BW_SHIFT: u32 = 24;
/// Phases of PROBE_BW.
const CYCLE: u32 = 8;
/// Below this pacing rate a burst is one segment, below the next two (bytes a second).
const QUANTUM_1: u64 = 1_200_000 / 8;
const QUANTUM_2: u64 = 24_000_000 / 8;
/// Deliveries up to which the window grows beyond its target before the pipe is full, the
/// handshake's included (`TCP_INIT_CWND` of Linux).
const GROWS_ANYWAY: u64 = 10;
/// Largest burst.
const QUANTUM_MAX: u64 = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// State of BBR.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what is known and what was decided are independent"
)]
pub struct Bbr1 {
    settings: TcpSettings,
    /// Bytes of a full packet, as pacing counts them.
    packet: u32,
    stream: Stream,
    mode: Mode,
    pacing_gain: Ratio,
    window_gain: Ratio,
    bandwidth: MaxFilter,
    rounds: u32,
    round_start: bool,
    /// The round ends with the delivery of a segment sent after this many deliveries.
    round_end: u64,
    min_rtt: Option<Duration>,
    min_rtt_at: Instant,
    probe_rtt_done: Option<Instant>,
    probe_rtt_round: bool,
    full_bw: u64,
    full_bw_rounds: u32,
    full: bool,
    cycle: u32,
    cycle_at: Instant,
    prior_cwnd: u32,
    prior_state: State,
    conserve: bool,
    idle_restart: bool,
    saw_rtt: bool,
    pacing_rate: u64,
    policer: Policer,
    aggregation: AckAggregation,
}

impl Bbr1 {
    /// Creates the state of a new connection with this window; pacing counts `packet` bytes in a
    /// full segment.
    pub fn new(
        settings: &TcpSettings,
        now: Instant,
        packet: u32,
        window: &Window,
        srtt: Option<Duration>,
        stream: Stream,
    ) -> Self {
        let mut bbr = Self {
            settings: *settings,
            packet,
            stream,
            mode: Mode::Startup,
            pacing_gain: settings.bbr_high_gain,
            window_gain: settings.bbr_high_gain,
            bandwidth: MaxFilter::default(),
            rounds: 0,
            round_start: false,
            round_end: 0,
            min_rtt: srtt,
            min_rtt_at: now,
            probe_rtt_done: None,
            probe_rtt_round: false,
            full_bw: 0,
            full_bw_rounds: 0,
            full: false,
            cycle: 0,
            cycle_at: Instant::ZERO,
            prior_cwnd: 0,
            prior_state: State::Open,
            conserve: false,
            idle_restart: false,
            saw_rtt: srtt.is_some(),
            pacing_rate: 0,
            policer: Policer::default(),
            aggregation: AckAggregation::default(),
        };
        bbr.set_initial_rate(window.cwnd, srtt);
        bbr
    }

    fn newer(&self) -> bool {
        self.settings.bbr_era == BbrEra::Linux5
    }

    /// High gain times the initial window over the round-trip time, or over 1 ms.
    fn set_initial_rate(&mut self, cwnd: u32, srtt: Option<Duration>) {
        let rtt = srtt.unwrap_or(Duration::from_millis(1)).as_micros().max(1);
        let bw = (u64::from(cwnd) << BW_SHIFT) / rtt;
        self.pacing_rate = self.rate_of(bw, self.settings.bbr_high_gain);
    }

    fn max_bw(&self) -> u64 {
        self.bandwidth.max()
    }

    fn bw(&self) -> u64 {
        self.policer.rate().unwrap_or_else(|| self.max_bw())
    }

    /// Bytes per second of `bw` at `gain`.
    fn rate_of(&self, bw: u64, gain: Ratio) -> u64 {
        let bytes = u128::from(gain.of(bw)) * u128::from(self.packet) * 1_000_000;
        let rate = u64::try_from(bytes >> BW_SHIFT).unwrap_or(u64::MAX);
        // Since 4.20 Linux paces 1 % below the estimate, so that a queue drains (`bbr_pacing_margin_percent`).
        if self.newer() { rate / 100 * 99 } else { rate }
    }

    /// Segments of a burst.
    fn quantum(&self) -> u32 {
        let least = match self.pacing_rate {
            rate if rate < QUANTUM_1 => 1,
            rate if rate < QUANTUM_2 => 2,
            rate => (rate / 1_000).min(QUANTUM_MAX) / u64::from(self.packet),
        };
        least.max(1) as u32
    }

    /// Segments in flight that `gain` times the path's capacity allows.
    fn inflight(&self, bw: u64, gain: Ratio) -> u32 {
        let Some(min_rtt) = self.min_rtt else {
            return self.settings.initial_window;
        };
        self.quantize(Self::capacity(bw, min_rtt, gain))
    }

    fn capacity(bw: u64, min_rtt: Duration, gain: Ratio) -> u32 {
        let bdp = u128::from(bw) * u128::from(min_rtt.as_micros());
        let bdp = gain.of(u64::try_from(bdp).unwrap_or(u64::MAX >> 4));
        bdp.div_ceil(1 << BW_SHIFT).min(1 << 22) as u32
    }

    /// The target window.
    fn target(&self) -> u32 {
        let Some(min_rtt) = self.min_rtt else {
            return self.settings.initial_window;
        };
        let mut segments = Self::capacity(self.bw(), min_rtt, self.window_gain);
        if self.newer() && self.full {
            segments += self.aggregation.extra(self.bw(), BW_SHIFT);
        }
        self.quantize(segments)
    }

    fn quantize(&self, segments: u32) -> u32 {
        // `bbr_quantization_budget`: bursts in the hosts need room beyond the path's capacity, and an even
        // window leaves no single segment to a delayed ACK.
        let mut segments = (segments + 3 * self.quantum()).next_multiple_of(2);
        // With a capacity of a few segments, 5/4 of it would round to no probe at all.
        if self.newer() && self.mode == Mode::ProbeBw && self.cycle == 0 {
            segments += 2;
        }
        segments
    }

    /// Updates rounds and the bandwidth filter.
    fn update_bandwidth(&mut self, ack: &Ack) {
        self.round_start = false;
        let Some(rate) = ack.rate else { return };
        if rate.prior_delivered >= self.round_end {
            self.round_end = ack.delivered;
            self.rounds += 1;
            self.round_start = true;
            self.conserve = false;
        }
        if self.settings.bbr_policer {
            let input = PolicerInput {
                at: ack.now,
                app_limited: rate.app_limited,
                delivered: ack.delivered,
                lost: ack.lost,
                loses: ack.losses > 0,
                round_start: self.round_start,
                probing_bw: self.mode == Mode::ProbeBw,
            };
            if self.policer.sample(&input) {
                self.enter_probe_bw(ack.now);
            }
        }
        let interval = rate.interval.as_micros().max(1);
        let bw = (rate.delivered << BW_SHIFT) / interval;
        // A sample that the application limited is a lower bound of the path's rate.
        if !rate.app_limited || bw >= self.max_bw() {
            self.bandwidth
                .update(self.settings.bbr_bw_rounds, self.rounds, bw);
        }
    }

    /// The segments of `in_flight` still in flight when pacing permits the next one, that one
    /// included if it adds to them (Linux 4.20).
    fn in_network(&self, in_flight: u32, held_back: Duration) -> u32 {
        if !self.newer() {
            return in_flight;
        }
        let gone = (self.bw() * held_back.as_micros()) >> BW_SHIFT;
        let adds = self.pacing_gain.of(256) > 256;
        let then = in_flight + u32::from(adds) * self.quantum();
        u64::from(then).saturating_sub(gone) as u32
    }

    fn cycle_is_over(&self, ack: &Ack) -> bool {
        let rtt = self.min_rtt.unwrap_or(Duration::ZERO);
        let full = ack.now.since(self.cycle_at) > rtt;
        let gain = self.pacing_gain;
        let in_flight = self.in_network(ack.prior_in_flight, ack.held_back);
        // Probing lasts until the data in flight has grown by the gain, which may take several round trips, or
        // until losses show that the buffer does not hold it.
        if self.cycle == 0 && !self.policer.holds() {
            return full && (ack.losses > 0 || in_flight >= self.inflight(self.max_bw(), gain));
        }
        // Draining ends early once the queue is gone: a longer phase would leave capacity unused.
        if self.cycle == 1 && !self.policer.holds() {
            return full || in_flight <= self.inflight(self.max_bw(), Ratio::ONE);
        }
        full
    }

    fn advance_cycle(&mut self, now: Instant) {
        self.cycle = (self.cycle + 1) % CYCLE;
        self.cycle_at = now;
        self.set_cycle_gain();
    }

    fn set_cycle_gain(&mut self) {
        self.pacing_gain = match self.cycle {
            _ if self.policer.holds() => Ratio::ONE,
            0 => self.settings.bbr_probe_gain,
            1 => self.settings.bbr_relax_gain,
            _ => Ratio::ONE,
        };
        self.window_gain = self.settings.bbr_window_gain;
    }

    /// Enters PROBE_BW in a random phase, except the draining one.
    fn enter_probe_bw(&mut self, now: Instant) {
        self.mode = Mode::ProbeBw;
        // Random, so that flows that started together do not probe together.
        let draw = self.stream.next_u64() >> 32;
        self.cycle = CYCLE - 1 - ((draw * u64::from(CYCLE - 1)) >> 32) as u32;
        self.advance_cycle(now);
    }

    fn enter_startup(&mut self) {
        self.mode = Mode::Startup;
        self.pacing_gain = self.settings.bbr_high_gain;
        self.window_gain = self.settings.bbr_high_gain;
    }

    fn check_full(&mut self, ack: &Ack) {
        if self.full || !self.round_start || ack.rate.is_none_or(|rate| rate.app_limited) {
            return;
        }
        if self.max_bw() >= self.settings.bbr_full_growth.of(self.full_bw) {
            self.full_bw = self.max_bw();
            self.full_bw_rounds = 0;
            return;
        }
        self.full_bw_rounds += 1;
        self.full = self.full_bw_rounds >= self.settings.bbr_full_rounds;
    }

    fn check_drain(&mut self, ack: &Ack) {
        if self.mode == Mode::Startup && self.full {
            self.mode = Mode::Drain;
            self.pacing_gain = self.settings.bbr_drain_gain;
            self.window_gain = self.settings.bbr_high_gain;
        }
        let in_flight = self.in_network(ack.in_flight, ack.held_back);
        if self.mode == Mode::Drain && in_flight <= self.inflight(self.max_bw(), Ratio::ONE) {
            self.enter_probe_bw(ack.now);
        }
    }

    fn update_min_rtt(&mut self, window: &mut Window, ack: &Ack) {
        let expired = ack.now > self.min_rtt_at + self.settings.bbr_min_rtt_window;
        // Where the path's delay is constant, samples that equal the least are the rule.
        let renews =
            |rtt: Duration, least: Duration| rtt < least || (rtt == least && !self.newer());
        if let Some(rtt) = ack.rtt
            && (expired || self.min_rtt.is_none_or(|least| renews(rtt, least)))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = ack.now;
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.pacing_gain = Ratio::ONE;
            self.window_gain = Ratio::ONE;
            self.save_window(window.cwnd);
            self.probe_rtt_done = None;
        }
        if self.mode == Mode::ProbeRtt {
            if self.probe_rtt_done.is_some() {
                self.probe_rtt_round |= self.round_start;
                if self.probe_rtt_round {
                    self.check_probe_rtt_done(window, ack.now);
                }
            } else if ack.in_flight <= self.settings.bbr_min_window {
                self.probe_rtt_done = Some(ack.now + self.settings.bbr_probe_rtt_time);
                self.probe_rtt_round = false;
                self.round_end = ack.delivered;
            }
        }
        if ack.rate.is_some_and(|rate| rate.delivered > 0) {
            self.idle_restart = false;
        }
    }

    fn check_probe_rtt_done(&mut self, window: &mut Window, now: Instant) {
        if self.probe_rtt_done.is_none_or(|done| now <= done) {
            return;
        }
        self.min_rtt_at = now;
        window.cwnd = window.cwnd.max(self.prior_cwnd);
        if self.full {
            self.enter_probe_bw(now);
        } else {
            self.enter_startup();
        }
    }

    fn save_window(&mut self, cwnd: u32) {
        self.prior_cwnd = if self.prior_state < State::Recovery && self.mode != Mode::ProbeRtt {
            cwnd
        } else {
            self.prior_cwnd.max(cwnd)
        };
    }

    fn set_pacing_rate(&mut self, cwnd: u32, srtt: Option<Duration>) {
        if !self.saw_rtt && srtt.is_some() {
            self.saw_rtt = true;
            self.set_initial_rate(cwnd, srtt);
        }
        let rate = self.rate_of(self.bw(), self.pacing_gain);
        // Before the path is full, low early samples must not slow the start.
        if self.full || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    fn set_window(&mut self, window: &mut Window, ack: &Ack) {
        let least = self.settings.bbr_min_window;
        if ack.acked > 0 {
            let mut cwnd = window.cwnd.saturating_sub(ack.losses).max(1);
            let (recovery, was) = (State::Recovery, self.prior_state);
            if ack.state == recovery && was != recovery {
                // One round of packet conservation.
                self.conserve = true;
                self.round_end = ack.delivered;
                cwnd = ack.in_flight + ack.acked;
            } else if was >= recovery && ack.state < recovery {
                cwnd = cwnd.max(self.prior_cwnd);
                self.conserve = false;
            }
            self.prior_state = ack.state;
            if self.conserve {
                cwnd = cwnd.max(ack.in_flight + ack.acked);
            } else {
                let target = self.target();
                if self.full {
                    cwnd = (cwnd + ack.acked).min(target);
                } else if cwnd < target || ack.delivered + 1 < GROWS_ANYWAY {
                    cwnd += ack.acked;
                }
                cwnd = cwnd.max(least);
            }
            window.cwnd = cwnd;
        }
        if self.mode == Mode::ProbeRtt {
            window.cwnd = window.cwnd.min(least);
        }
    }
}

impl Congestion for Bbr1 {
    /// BBR has no threshold; the window before recovery is saved.
    fn ssthresh(&mut self, _now: Instant, window: &Window, _half_of: u32) -> u32 {
        self.save_window(window.cwnd);
        window.ssthresh
    }

    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        self.update_bandwidth(ack);
        if self.newer() {
            let bw = self.bw();
            self.aggregation
                .update(ack, bw, BW_SHIFT, self.round_start, window.cwnd);
        }
        if self.mode == Mode::ProbeBw && self.cycle_is_over(ack) {
            self.advance_cycle(ack.now);
        }
        self.check_full(ack);
        self.check_drain(ack);
        self.update_min_rtt(window, ack);
        if self.mode == Mode::ProbeBw {
            self.set_cycle_gain(); // a policer may have been found
        }
        self.set_pacing_rate(window.cwnd, ack.srtt);
        self.set_window(window, ack);
    }

    fn on_timeout(&mut self, window: &mut Window, timeout: &Timeout) {
        self.prior_state = State::Loss;
        self.full_bw = 0;
        self.round_start = true;
        if self.settings.bbr_policer {
            let input = PolicerInput {
                at: timeout.delivered_at,
                app_limited: false,
                delivered: timeout.delivered,
                lost: timeout.lost,
                loses: true,
                round_start: true,
                probing_bw: self.mode == Mode::ProbeBw,
            };
            if self.policer.sample(&input) {
                self.enter_probe_bw(timeout.now);
            }
        }
        window.cwnd = if self.newer() {
            timeout.in_flight + 1
        } else {
            1
        };
    }

    fn on_restart(&mut self, window: &mut Window, now: Instant) {
        self.idle_restart = true;
        self.aggregation.restart();
        if self.mode == Mode::ProbeBw {
            let rate = self.rate_of(self.bw(), Ratio::ONE);
            if self.full || rate > self.pacing_rate {
                self.pacing_rate = rate;
            }
        } else if self.newer() && self.mode == Mode::ProbeRtt {
            self.check_probe_rtt_done(window, now);
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
}

#[cfg(test)]
mod tests;
