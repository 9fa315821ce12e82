//! The model of the path: limits of the long term, by probes for bandwidth, and of the short term, by losses since.

use carob_cc::ratio::Ratio;

use super::super::LostSegment;

/// BBR.Beta.
pub(super) const BETA: Ratio = Ratio::new(7, 10);
/// BBR.Headroom.
const HEADROOM: Ratio = Ratio::new(15, 100);

/// Limits by probes for bandwidth, in segments in flight and bandwidth.
#[derive(Clone, Copy, Debug)]
pub(super) struct LongTerm {
    /// BBR.inflight_longterm; `u32::MAX` without a limit.
    pub(super) inflight: u32,
    /// BBR.max_bw_filter: maxima of the previous and of the current cycle.
    bw: [u64; 2],
    acked: u32,
    acked_per_segment: u32,
    up_rounds: u32,
}

impl Default for LongTerm {
    fn default() -> Self {
        Self {
            inflight: u32::MAX,
            bw: [0; 2],
            acked: 0,
            acked_per_segment: u32::MAX,
            up_rounds: 0,
        }
    }
}

impl LongTerm {
    pub(super) fn max_bw(&self) -> u64 {
        self.bw[0].max(self.bw[1])
    }

    pub(super) fn add_bw(&mut self, bw: u64) {
        self.bw[1] = self.bw[1].max(bw);
    }

    /// Begins another cycle of the bandwidth filter, unless this one has no sample.
    pub(super) fn advance(&mut self) {
        if self.bw[1] > 0 {
            self.bw = [self.bw[1], 0];
        }
    }

    pub(super) fn is_limited(&self) -> bool {
        self.inflight < u32::MAX
    }

    /// BBRInflightWithHeadroom.
    pub(super) fn with_headroom(&self) -> u32 {
        if !self.is_limited() {
            return u32::MAX;
        }
        // Unused room for flows that start: without it they would find the buffer full.
        let headroom = (HEADROOM.of(self.inflight.into()) as u32).max(1);
        self.inflight
            .saturating_sub(headroom)
            .max(super::LEAST_WINDOW)
    }

    pub(super) fn stop_growth(&mut self) {
        self.acked_per_segment = u32::MAX;
    }

    pub(super) fn begin_probe(&mut self) {
        (self.up_rounds, self.acked) = (0, 0);
    }

    /// Doubles the growth of the limit, each round of a probe: 1, 2, 4 segments.
    pub(super) fn raise_slope(&mut self, cwnd: u32) {
        let growth = 1 << self.up_rounds;
        // At most 30, so that the shift stays within 32 bits.
        self.up_rounds = (self.up_rounds + 1).min(30);
        self.acked_per_segment = (cwnd / growth).max(1);
    }

    /// Raises the limit by deliveries, if the window is limited by it.
    pub(super) fn grow(&mut self, uses: bool, acked: u32, round_start: bool, cwnd: u32) {
        if !uses {
            return;
        }
        self.acked = self.acked.saturating_add(acked);
        self.inflight = self
            .inflight
            .saturating_add(self.acked / self.acked_per_segment);
        self.acked %= self.acked_per_segment;
        if round_start {
            self.raise_slope(cwnd);
        }
    }
}

/// Limits by losses since the last probe.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShortTerm {
    /// BBR.bw_shortterm; `u64::MAX` without a limit.
    pub(super) bw: u64,
    /// BBR.inflight_shortterm; `u32::MAX` without a limit.
    pub(super) inflight: u32,
}

impl Default for ShortTerm {
    fn default() -> Self {
        Self {
            bw: u64::MAX,
            inflight: u32::MAX,
        }
    }
}

impl ShortTerm {
    /// Lowers both limits after a round with a loss: to the delivery of the round, or by `BETA`.
    pub(super) fn lower(&mut self, max_bw: u64, cwnd: u32, latest: &LatestSignals) {
        if self.bw == u64::MAX {
            self.bw = max_bw;
        }
        if self.inflight == u32::MAX {
            self.inflight = cwnd;
        }
        self.bw = latest.bw.max(BETA.of(self.bw));
        self.inflight = latest.inflight.max(BETA.of(self.inflight.into()) as u32);
    }
}

/// Deliveries and losses of the latest round.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LatestSignals {
    /// BBR.bw_latest and BBR.inflight_latest.
    pub(super) bw: u64,
    pub(super) inflight: u32,
    pub(super) has_loss: bool,
    /// The ACK begins a round.
    pub(super) round_start: bool,
    round_end: u64,
    /// The connection has SACK; known from its first loss.
    pub(super) has_sack: bool,
    /// Losses and ranges of losses in a round of recovery, and the end of the last range.
    lost: u32,
    ranges: u32,
    range_end: u64,
}

impl LatestSignals {
    pub(super) fn update(&mut self, bw: u64, inflight: u32, prior_delivered: u64, delivered: u64) {
        self.bw = self.bw.max(bw);
        self.inflight = self.inflight.max(inflight);
        self.round_start = prior_delivered >= self.round_end;
        if self.round_start {
            self.round_end = delivered;
        }
    }

    /// BBRAdvanceLatestDeliverySignals.
    pub(super) fn advance(&mut self, bw: u64, inflight: u32) {
        if self.round_start {
            (self.bw, self.inflight) = (bw, inflight);
        }
    }

    /// BBRResetCongestionSignals.
    pub(super) fn reset(&mut self) {
        (self.has_loss, self.bw, self.inflight) = (false, 0, 0);
    }

    pub(super) fn note_loss(&mut self, lost: &LostSegment) {
        if !self.has_loss {
            self.round_end = lost.delivered;
        }
        (self.has_loss, self.has_sack) = (true, lost.sack);
        self.lost += 1;
        self.ranges += u32::from(lost.start != self.range_end);
        self.range_end = lost.end;
    }

    /// The losses and ranges of the round that ends; begins another.
    pub(super) fn begin_startup_losses(&mut self) -> (u32, u32) {
        let ended = (self.lost, self.ranges);
        (self.lost, self.ranges) = (0, 0);
        ended
    }
}
