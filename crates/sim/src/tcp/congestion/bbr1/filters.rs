//! BBR's filters: windowed maximum, the policer detector and ACK aggregation.

use carob_cc::time::{Duration, Instant};

use crate::tcp::congestion::Ack;

/// The maximum of the last rounds, by three candidates (Kathleen Nichols's algorithm, Linux
/// `lib/win_minmax.c`).
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::tcp::congestion) struct MaxFilter {
    /// (round, value): the best, and the best since each.
    best: [(u32, u64); 3],
}

impl MaxFilter {
    pub(in crate::tcp::congestion) fn max(&self) -> u64 {
        self.best[0].1
    }

    pub(in crate::tcp::congestion) fn update(&mut self, window: u32, round: u32, value: u64) {
        let new = (round, value);
        if value >= self.best[0].1 || round.wrapping_sub(self.best[2].0) > window {
            self.best = [new; 3];
            return;
        }
        if value >= self.best[1].1 {
            self.best[1] = new;
            self.best[2] = new;
        } else if value >= self.best[2].1 {
            self.best[2] = new;
        }
        let age = round.wrapping_sub(self.best[0].0);
        if age > window {
            self.best = [self.best[1], self.best[2], new];
            if round.wrapping_sub(self.best[0].0) > window {
                self.best = [self.best[1], self.best[2], new];
            }
        } else if self.best[1].0 == self.best[0].0 && age > window / 4 {
            self.best[1] = new;
            self.best[2] = new;
        } else if self.best[2].0 == self.best[1].0 && age > window / 2 {
            self.best[2] = new;
        }
    }
}

/// Rounds of the shortest interval.
const POLICER_ROUNDS: u32 = 4;
/// Rounds for which a detected rate is used.
const POLICER_HOLD: u32 = 48;
/// Minimum loss ratio of an interval, in 256ths: a fifth.
const POLICER_LOSS: u64 = 50;

/// The detector of token-bucket policers (`lt_bw` of Linux). Two consecutive intervals between
/// losses, with high loss and about the same delivery rate, give the rate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policer {
    sampling: bool,
    holding: bool,
    rate: u64,
    rounds: u32,
    last_lost: u64,
    last_delivered: u64,
    last_at: Instant,
}

/// The input of the detector.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own about one moment"
)]
pub(super) struct PolicerInput {
    /// Time of the last delivery.
    pub(super) at: Instant,
    pub(super) app_limited: bool,
    pub(super) delivered: u64,
    /// Losses since the connection began, and a flag for new ones.
    pub(super) lost: u64,
    pub(super) loses: bool,
    pub(super) round_start: bool,
    pub(super) probing_bw: bool,
}

impl Policer {
    pub(super) fn holds(&self) -> bool {
        self.holding
    }

    /// The policer's rate, while it is used.
    pub(super) fn rate(&self) -> Option<u64> {
        self.holding.then_some(self.rate)
    }

    fn begin(&mut self, input: &PolicerInput) {
        self.last_at = input.at;
        self.last_delivered = input.delivered;
        self.last_lost = input.lost;
        self.rounds = 0;
    }

    fn reset(&mut self, input: &PolicerInput) {
        self.rate = 0;
        self.holding = false;
        self.sampling = false;
        self.begin(input);
    }

    /// Handles an ACK or a timeout. Returns whether the rate has expired, so that probing restarts.
    pub(super) fn sample(&mut self, input: &PolicerInput) -> bool {
        if self.holding {
            if input.probing_bw && input.round_start {
                self.rounds += 1;
                if self.rounds >= POLICER_HOLD {
                    self.reset(input);
                    return true;
                }
            }
            return false;
        }
        if !self.sampling {
            if !input.loses {
                return false;
            }
            self.begin(input);
            self.sampling = true;
        }
        if input.app_limited {
            self.reset(input);
            return false;
        }
        self.rounds += u32::from(input.round_start);
        if self.rounds < POLICER_ROUNDS {
            return false;
        }
        if self.rounds > 4 * POLICER_ROUNDS {
            self.reset(input);
            return false;
        }
        // An interval ends with a loss.
        if !input.loses {
            return false;
        }
        let (lost, passed) = (
            input.lost - self.last_lost,
            input.delivered - self.last_delivered,
        );
        if passed == 0 || lost * 256 < POLICER_LOSS * passed {
            return false;
        }
        let interval = input.at.since(self.last_at).as_micros();
        // Linux measures the interval in milliseconds and waits for the first.
        if interval < 1_000 {
            return false;
        }
        self.interval_done(input, (passed << super::BW_SHIFT) / interval);
        false
    }

    fn interval_done(&mut self, input: &PolicerInput, bw: u64) {
        if self.rate > 0 {
            let difference = bw.abs_diff(self.rate);
            // Within an eighth, or 4 kbit/s of 1,500-byte packets.
            let absolute = (500_u64 << super::BW_SHIFT) / 1_500 / 1_000_000;
            if difference * 8 <= self.rate || difference <= absolute {
                self.rate = u64::midpoint(bw, self.rate);
                self.holding = true;
                self.rounds = 0;
                return;
            }
        }
        self.rate = bw;
        self.begin(input);
    }
}

/// Segments acknowledged beyond the estimated bandwidth (Linux 5.1): the maximum of five to ten
/// rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AckAggregation {
    epoch: Instant,
    acked: u64,
    extra: [u32; 2],
    rounds: u32,
    slot: usize,
}

/// Rounds of a slot.
const AGGREGATION_ROUNDS: u32 = 5;
/// The maximum window extension, in time at the estimated bandwidth.
const AGGREGATION_MAX: Duration = Duration::from_millis(100);

impl AckAggregation {
    pub(super) fn restart(&mut self) {
        self.epoch = Instant::ZERO;
        self.acked = 0;
    }

    pub(super) fn update(&mut self, ack: &Ack, bw: u64, shift: u32, round: bool, cwnd: u32) {
        if ack.acked == 0 || ack.rate.is_none() {
            return;
        }
        if round {
            self.rounds += 1;
            if self.rounds >= AGGREGATION_ROUNDS {
                self.rounds = 0;
                self.slot ^= 1;
                self.extra[self.slot] = 0;
            }
        }
        let expected = |since: Duration| (bw * since.as_micros().min(1 << 30)) >> shift;
        let mut due = expected(ack.now.since(self.epoch));
        // A new epoch when the deliveries are no longer ahead of the bandwidth; Linux counts them in 20 bits.
        if self.acked <= due || self.acked + u64::from(ack.acked) >= 1 << 20 {
            self.acked = 0;
            self.epoch = ack.now;
            due = 0;
        }
        self.acked += u64::from(ack.acked);
        // At most the window, since no more than that can have been in flight.
        let extra = (self.acked - due.min(self.acked)).min(u64::from(cwnd)) as u32;
        self.extra[self.slot] = self.extra[self.slot].max(extra);
    }

    pub(super) fn extra(&self, bw: u64, shift: u32) -> u32 {
        let most = (bw * AGGREGATION_MAX.as_micros()) >> shift;
        self.extra[0].max(self.extra[1]).min(most as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maximum_is_that_of_the_window() {
        let values = [
            3_u64, 9, 4, 5, 1, 2, 7, 1, 1, 1, 1, 1, 1, 1, 6, 1, 1, 1, 1, 1, 1, 1, 1, 1,
        ];
        let mut filter = MaxFilter::default();
        for (round, &value) in values.iter().enumerate() {
            filter.update(5, round as u32, value);
            let low = round.saturating_sub(5);
            let most = values[low..=round].iter().max().copied().unwrap_or(0);
            // The filter is an approximation: never below the newest, never above the true one
            // of a window, which may be one round older.
            let older = values[low.saturating_sub(1)..=round]
                .iter()
                .max()
                .copied()
                .unwrap_or(0);
            assert!(
                filter.max() >= value && filter.max() <= older,
                "round {round}"
            );
            if round <= 5 {
                assert_eq!(filter.max(), most);
            }
        }
    }

    #[test]
    fn two_lossy_intervals_of_one_rate_are_a_policer() {
        let mut policer = Policer::default();
        let (mut now, mut delivered) = (Instant::ZERO, 0_u64);
        let mut found = None;
        for round in 0..30_u32 {
            now += Duration::from_millis(100);
            delivered += 10;
            policer.sample(&PolicerInput {
                at: now,
                app_limited: false,
                delivered,
                lost: 3 * u64::from(round + 1),
                loses: true,
                round_start: true,
                probing_bw: true,
            });
            if policer.holds() {
                found.get_or_insert(round);
            }
        }
        // The first interval begins with the first loss and takes four rounds, like the second.
        assert_eq!(found, Some(7));
        let rate = policer.rate().expect("a rate");
        assert!(rate.abs_diff((100_u64 << 24) / 1_000_000) <= 2, "{rate}");
    }
}
