//! CUBIC (RFC 9438) in integers: windows in 1/1024 segments, times in milliseconds.
//!
//! Slow start is RFC 5681's; HyStart++ (RFC 9438 4.10: recommended) is not modelled.

use carob_cc::ratio::Ratio;
use carob_cc::time::{Duration, Instant};

use super::{Ack, Congestion, Timeout, Window};
use crate::tcp::settings::TcpSettings;

/// Fractions of a segment.
const UNIT: u64 = 1 << 10;

/// State of CUBIC.
#[derive(Clone, Copy, Debug)]
pub struct Cubic {
    c: Ratio,
    beta: Ratio,
    fast_convergence: bool,
    /// Window before the last reduction, in [`UNIT`]s; 0 before the first.
    w_max: u64,
    /// The beginning of this stage of congestion avoidance.
    epoch: Option<Instant>,
    /// Milliseconds from the epoch until the window reaches `w_max` again.
    k_ms: u64,
    /// The estimated window of Reno, in [`UNIT`]s (RFC 9438 4.3).
    w_est: u64,
    /// `w_est` grows like Reno from here on.
    w_prior: u64,
}

impl Cubic {
    /// With the constants of `settings`.
    pub fn new(settings: &TcpSettings) -> Self {
        Self {
            c: settings.cubic_c,
            beta: settings.cubic_beta,
            fast_convergence: settings.cubic_fast_convergence,
            w_max: 0,
            epoch: None,
            k_ms: 0,
            w_est: 0,
            w_prior: 0,
        }
    }

    /// RFC 9438 4.2: `W(t) = C (t - K)^3 + W_max`, in [`UNIT`]s, for `t` in milliseconds.
    fn window_at(&self, t_ms: u64) -> u64 {
        let distance = i128::from(t_ms.min(1 << 32)) - i128::from(self.k_ms);
        // At most 2^32 ms, so the cube is below 2^97 and leaves room for the factor UNIT in 128 bits.
        let cube = distance.unsigned_abs().pow(3).min(1 << 110);
        // C x (ms / 1000)^3 segments.
        let offset = self
            .c
            .of(u64::try_from(cube * u128::from(UNIT) / 1_000_000_000).unwrap_or(u64::MAX >> 8));
        if distance < 0 {
            self.w_max.saturating_sub(offset)
        } else {
            self.w_max.saturating_add(offset)
        }
    }

    /// Begins a stage at a window of `cwnd`.
    fn begin(&mut self, now: Instant, cwnd: u64) {
        self.epoch = Some(now);
        self.w_est = cwnd;
        if cwnd >= self.w_max {
            self.k_ms = 0;
            self.w_max = cwnd;
            return;
        }
        // RFC 9438 4.2: K = cbrt((W_max - cwnd) / C) seconds, by bisection in milliseconds.
        // 2^22 ms are 70 minutes.
        let (mut low, mut high) = (0_u64, 1 << 22);
        while low + 1 < high {
            self.k_ms = low.midpoint(high);
            if self.window_at(0) > cwnd {
                low = self.k_ms;
            } else {
                high = self.k_ms;
            }
        }
        self.k_ms = high;
    }
}

impl Congestion for Cubic {
    fn ssthresh(&mut self, _now: Instant, window: &Window, half_of: u32) -> u32 {
        let cwnd = u64::from(window.cwnd) * UNIT;
        self.epoch = None;
        self.w_prior = cwnd;
        // RFC 9438 4.7: below the last maximum, leave more to others.
        self.w_max = if self.fast_convergence && cwnd < self.w_max {
            u64::midpoint(cwnd, self.beta.of(cwnd))
        } else {
            cwnd
        };
        (self.beta.of(u64::from(half_of)) as u32).max(2)
    }

    fn on_ack(&mut self, window: &mut Window, ack: &Ack) {
        if !ack.window_limited {
            // RFC 9438 5.8: an application-limited stage does not advance.
            self.epoch = None;
            return;
        }
        let mut acked = ack.acked;
        if window.in_slow_start() {
            acked = window.slow_start(acked);
            if acked == 0 {
                return;
            }
        }
        let cwnd = u64::from(window.cwnd) * UNIT;
        if self.epoch.is_none() {
            self.begin(ack.now, cwnd);
        }
        let since = ack.now.since(self.epoch.unwrap_or(ack.now));
        let srtt = ack.srtt.unwrap_or(Duration::ZERO);
        // RFC 9438 4.2: the window in a round trip, at most half as much again.
        let target = self
            .window_at((since + srtt).as_millis())
            .clamp(cwnd, cwnd + cwnd / 2);
        // RFC 9438 4.3: alpha = 3 (1 - beta) / (1 + beta) until the window of the loss is reached.
        let beta = self.beta.of(UNIT);
        let alpha = if self.w_est >= self.w_prior {
            UNIT
        } else {
            3 * UNIT * (UNIT - beta.min(UNIT)) / (UNIT + beta)
        };
        self.w_est += alpha * u64::from(acked) * UNIT / cwnd.max(1);
        let target = target.max(self.w_est);
        if target > cwnd {
            // (target - cwnd) / cwnd segments for every one acknowledged.
            // At least two acknowledged for one more: Linux limits growth to 1.5 times per round trip.
            let per = (cwnd / UNIT) * UNIT / (target - cwnd);
            window.avoid(u32::try_from(per).unwrap_or(u32::MAX).max(2), acked);
        } else {
            // At the plateau Linux still grows by a hundredth of a segment per round trip.
            window.avoid(window.cwnd.saturating_mul(100), acked);
        }
    }

    fn on_timeout(&mut self, _window: &mut Window, _timeout: &Timeout) {
        self.epoch = None; // RFC 9438 4.8: the stage after slow start begins anew
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::congestion::State;

    fn window(cwnd: u32) -> Window {
        Window {
            cwnd,
            ssthresh: 2,
            count: 0,
        }
    }

    #[test]
    fn rfc_9438_4_6_and_4_7_reductions() {
        let mut cubic = Cubic::new(&TcpSettings::MODERN);
        assert_eq!(cubic.ssthresh(Instant::ZERO, &window(100), 100), 70);
        assert_eq!(cubic.w_max, 100 * UNIT);
        // Below the last maximum: 80 x (1 + 0.7) / 2 = 68.
        assert_eq!(cubic.ssthresh(Instant::ZERO, &window(80), 80), 56);
        assert_eq!(cubic.w_max, 68 * UNIT);
    }

    #[test]
    fn rfc_9438_4_2_the_plateau_is_reached_after_k() {
        // K = cbrt(100 x 0.3 / 0.4) = 4.217 s.
        let mut cubic = Cubic::new(&TcpSettings::MODERN);
        cubic.ssthresh(Instant::ZERO, &window(100), 100);
        cubic.begin(Instant::ZERO, 70 * UNIT);
        assert!((4_215..=4_219).contains(&cubic.k_ms), "{}", cubic.k_ms);
        assert!(cubic.window_at(cubic.k_ms) == 100 * UNIT);
        // Two seconds later: 100 + 0.4 x 8 = 103.2.
        let later = cubic.window_at(cubic.k_ms + 2_000);
        assert_eq!(later, 100 * UNIT + (16 * UNIT).div_ceil(5));
    }

    #[test]
    fn rfc_9438_4_2_a_window_follows_the_curve() {
        let mut cubic = Cubic::new(&TcpSettings::MODERN);
        let mut w = window(100);
        w.ssthresh = cubic.ssthresh(Instant::ZERO, &w, 100);
        w.cwnd = w.ssthresh;
        // A round trip of 100 ms, so Reno would need 30 s x alpha for the 30 segments.
        for ms in 0..6_200_u64 {
            let acks = u64::from(w.cwnd) * (ms + 1) / 100 - u64::from(w.cwnd) * ms / 100;
            for _ in 0..acks {
                cubic.on_ack(
                    &mut w,
                    &Ack {
                        now: Instant::from_micros(ms * 1_000),
                        acked: 1,
                        losses: 0,
                        lost: 0,
                        prior_in_flight: 0,
                        in_flight: 0,

                        held_back: Duration::ZERO,
                        delivered: 0,
                        state: State::Open,
                        window_limited: true,
                        rtt: None,
                        srtt: Some(Duration::from_millis(100)),
                        rate: None,
                    },
                );
            }
            if ms == 4_200 {
                assert!((97..=101).contains(&w.cwnd), "{}", w.cwnd);
            }
        }
        assert!((101..=105).contains(&w.cwnd), "{}", w.cwnd);
    }
}
