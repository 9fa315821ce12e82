//! PROBE_BW: the cycle that drains, cruises, refills the pipe and probes for bandwidth.

use carob_cc::time::{Duration, Instant};

use super::model::ShortTerm;
use super::{AckPhase, Bbr3, Mode, RENO_ROUNDS, bandwidth, exceeds_threshold};
use crate::tcp::congestion::{Ack, Window};

impl Bbr3 {
    pub(super) fn start_down(&mut self, now: Instant, delivered: u64) {
        self.latest.reset();
        self.long.stop_growth();
        // BBRPickProbeWait: 0 or 1 rounds and 2 to 3 s, random so that flows do not probe together.
        let draw = self.stream.next_u64();
        self.rounds_since_probe = (draw & 1) as u32;
        self.probe_wait = Duration::from_micros(2_000_000 + (((draw >> 32) * 1_000_000) >> 32));
        self.cycle_at = now;
        self.ack_phase = AckPhase::ProbeStopping;
        self.start_round(delivered);
        self.mode = Mode::Down;
    }

    pub(super) fn start_refill(&mut self, delivered: u64) {
        self.short = ShortTerm::default();
        self.long.begin_probe();
        self.probe_precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round(delivered);
        self.mode = Mode::Refill;
    }

    fn start_up(&mut self, ack: &Ack, cwnd: u32) {
        self.is_probe_sample = true;
        self.ack_phase = AckPhase::ProbeStarting;
        self.start_round(ack.delivered);
        self.reset_full_bw(ack.rate.map_or(0, |rate| bandwidth(&rate)));
        self.mode = Mode::Up;
        self.long.raise_slope(cwnd);
    }

    pub(super) fn update_probe_bw(&mut self, window: &Window, ack: &Ack) {
        if !self.full || self.adapt_long_term(window, ack) || !self.mode.is_probe_bw() {
            return;
        }
        let mode = self.mode;
        match mode {
            Mode::Down | Mode::Cruise if self.is_time_to_probe(window, ack.now) => {
                self.start_refill(ack.delivered);
            }
            Mode::Down if self.is_time_to_cruise(ack.in_flight) => self.mode = Mode::Cruise,
            Mode::Refill if self.round_start => self.start_up(ack, window.cwnd),
            Mode::Up if self.is_time_to_go_down(window, ack) => {
                self.probe_too_high = false;
                self.start_down(ack.now, ack.delivered);
            }
            _ => {}
        }
    }

    /// Tracks the ACKs of a probe, and raises the limit of data in flight. Returns whether the mode changed.
    fn adapt_long_term(&mut self, window: &Window, ack: &Ack) -> bool {
        let probing = self.mode.is_probe_bw();
        if self.ack_phase == AckPhase::ProbeStarting && self.round_start {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round_start {
            self.is_probe_sample = false;
            self.ack_phase = AckPhase::Init;
            if probing && ack.rate.is_some_and(|rate| !rate.app_limited) {
                self.long.advance();
            }
            if probing && self.probe_precautionary && !self.probe_too_high {
                self.start_refill(ack.delivered);
                return true;
            }
        }
        let Some(rate) = ack.rate else { return false };
        let too_high = self.is_inflight_too_high(rate.lost, rate.tx_in_flight);
        if !too_high && self.long.is_limited() {
            self.long.inflight = self.long.inflight.max(rate.tx_in_flight);
            if self.mode == Mode::Up {
                let uses = ack.window_limited && window.cwnd >= self.long.inflight;
                self.long
                    .grow(uses, ack.acked, self.round_start, window.cwnd);
            }
        }
        false
    }

    pub(super) fn is_inflight_too_high(&self, lost: u32, in_flight: u32) -> bool {
        // Without SACK, recovery shows one loss per round trip, too few for a share.
        exceeds_threshold(lost, in_flight) || (lost > 0 && !self.latest.has_sack)
    }

    fn is_time_to_probe(&self, window: &Window, now: Instant) -> bool {
        // BBRIsRenoCoexistenceProbeTime: no more rarely than Reno, which needs a round per segment of the
        // window to fill the path again.
        let rounds = self.target_inflight(window.cwnd).min(RENO_ROUNDS);
        now > self.cycle_at + self.probe_wait || self.rounds_since_probe >= rounds
    }

    fn is_time_to_cruise(&self, in_flight: u32) -> bool {
        in_flight <= self.long.with_headroom() && in_flight <= self.inflight(self.long.max_bw())
    }

    fn is_time_to_go_down(&mut self, window: &Window, ack: &Ack) -> bool {
        if self.probe_too_high && ack.in_flight >= self.long.inflight {
            self.probe_precautionary = true;
            return true;
        }
        if ack.window_limited && window.cwnd >= self.long.inflight {
            self.reset_full_bw(ack.rate.map_or(0, |rate| bandwidth(&rate)));
            return false;
        }
        self.full_now
    }
}
