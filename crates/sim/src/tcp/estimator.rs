//! Retransmission timeout from round-trip times (RFC 6298, Linux).
//!
//! The timeout follows RFC 6298: `SRTT + max(G, 4 x RTTVAR)`, doubled with every expiry and kept
//! until a sample from a segment sent once (Karn), or until new data is acknowledged. Linux's
//! version differs in the deviation: it reacts to falling samples with an eighth of its gain, is
//! never below the floor, follows the largest deviation of a window at once, and decays by a
//! quarter a window.

use carob_cc::time::{Duration, Instant};

use super::settings::{BackoffEnd, Estimator as Reading, TcpSettings};

/// Estimator and backoff of one connection. Times in microseconds.
#[derive(Clone, Debug)]
pub(super) struct Estimator {
    reading: Reading,
    floor: Duration,
    variance_floor: u64,
    max: Duration,
    tick: u64,
    wheel: u64,
    backoff_end: BackoffEnd,
    /// Eight times the smoothed round-trip time; 0 before the first sample.
    srtt8: u64,
    /// Four times the mean deviation.
    mdev4: u64,
    /// Linux: the largest of `mdev4` in this window.
    mdev4_max: u64,
    /// The margin of the timeout over the smoothed round-trip time.
    variance: u64,
    /// Linux: the window ends when this position is acknowledged.
    window_end: u64,
    base: Duration,
    backoff: u32,
    /// 4.4BSD: the next timeout restarts the doubling.
    anew: bool,
    /// The largest timeout so far, backoff included.
    pub(super) peak: Duration,
}

impl Estimator {
    pub(super) fn new(settings: &TcpSettings) -> Self {
        let initial = settings.rto_initial;
        Self {
            reading: settings.estimator,
            floor: settings.rto_min,
            variance_floor: settings.rto_variance_min.as_micros(),
            max: settings.rto_max,
            tick: settings.clock_tick.as_micros(),
            wheel: u64::from(settings.timer_wheel),
            backoff_end: settings.backoff_end,
            srtt8: 0,
            mdev4: 0,
            mdev4_max: 0,
            variance: 0,
            window_end: 0,
            base: initial,
            backoff: 0,
            anew: false,
            peak: initial,
        }
    }

    /// The smoothed round-trip time; none before the first sample.
    pub(super) fn srtt(&self) -> Option<Duration> {
        (self.srtt8 > 0).then(|| Duration::from_micros(self.srtt8 / 8))
    }

    /// The current timeout, backoff included.
    pub(super) fn rto(&self) -> Duration {
        let factor = 1_u64.checked_shl(self.backoff).unwrap_or(u64::MAX);
        self.ticks(self.base.times(factor).min(self.max))
    }

    /// The current number of doublings.
    pub(super) fn backoff(&self) -> u32 {
        self.backoff
    }

    /// The expiry of a timer started at `now`.
    pub(super) fn deadline(&self, now: Instant) -> Instant {
        self.on_wheel(now, now + self.rto())
    }

    /// The next slot of the wheel at or after `due`. Linux's wheel (since 4.8): 63 slots of a tick,
    /// then levels of 64 slots, each eight times as coarse as the one before.
    fn on_wheel(&self, now: Instant, due: Instant) -> Instant {
        if self.wheel == 0 {
            return due;
        }
        let tick = (1_000_000 / self.wheel).max(1);
        let ticks = due.since(now).as_micros().div_ceil(tick);
        let (mut step, mut reach) = (1, 63);
        while ticks > reach {
            (step, reach) = (step * 8, reach * 8);
        }
        let slot = tick * step;
        // A timer of a level never expires before its slot's end.
        let end = due.as_micros().div_ceil(slot).saturating_mul(slot);
        Instant::from_micros(end)
    }

    /// Doubles the timeout after an expiry (RFC 6298 5.5).
    pub(super) fn back_off(&mut self) {
        if core::mem::take(&mut self.anew) {
            self.backoff = 0;
        }
        // 2^40 times the smallest timeout exceeds every cap.
        self.backoff = (self.backoff + 1).min(40);
        self.peak = self.peak.max(self.rto());
    }

    /// Sets the timeout to `initial` if there are no samples (RFC 6298 5.7).
    pub(super) fn restart(&mut self, initial: Duration) {
        self.backoff = 0;
        if self.srtt8 == 0 {
            self.base = initial;
            self.peak = self.peak.max(initial);
        }
    }

    /// Handles an acknowledgment of new data.
    pub(super) fn progressed(&mut self) {
        match self.backoff_end {
            BackoffEnd::Sample => {}
            BackoffEnd::NewAck => self.backoff = 0,
            BackoffEnd::Bsd => self.anew = true,
        }
    }

    /// Adds a round-trip sample, with `una` the first outstanding position and `nxt` the next to
    /// send.
    pub(super) fn sample(&mut self, rtt: Duration, una: u64, nxt: u64) {
        // At least 1, because an `srtt8` of 0 means that there is no sample; at most 2^40 us (12 days), so
        // that eight times the sample stays far below 64 bits.
        let rtt = rtt.as_micros().clamp(1, 1 << 40);
        match self.reading {
            Reading::Rfc6298 => self.sample_rfc(rtt),
            Reading::Linux => self.sample_linux(rtt, una, nxt),
        }
        self.backoff = 0;
        let rto = Duration::from_micros(self.srtt8 / 8 + self.variance);
        self.base = rto.max(self.floor).min(self.max);
        self.peak = self.peak.max(self.rto());
    }

    /// RFC 6298 2.2 and 2.3, with alpha 1/8 and beta 1/4.
    fn sample_rfc(&mut self, rtt: u64) {
        if self.srtt8 == 0 {
            self.srtt8 = rtt * 8;
            self.mdev4 = rtt * 2;
        } else {
            let deviation = (self.srtt8 / 8).abs_diff(rtt);
            self.mdev4 = self.mdev4 - self.mdev4 / 4 + deviation;
            self.srtt8 = self.srtt8 - self.srtt8 / 8 + rtt;
        }
        self.variance = self.mdev4.max(self.variance_floor);
    }

    fn sample_linux(&mut self, rtt: u64, una: u64, nxt: u64) {
        if self.srtt8 == 0 {
            self.srtt8 = rtt * 8;
            self.mdev4 = rtt * 2;
            self.variance = self.mdev4.max(self.variance_floor);
            self.mdev4_max = self.variance;
            self.window_end = nxt;
            return;
        }
        let error = rtt as i64 - (self.srtt8 / 8) as i64;
        self.srtt8 = self.srtt8.saturating_add_signed(error).max(1);
        let mut step = error.abs() - (self.mdev4 / 4) as i64;
        // A sample far below the mean would raise the deviation, and with it the timeout, although the path
        // became faster. Linux takes an eighth of that step.
        if error < 0 && step > 0 {
            step /= 8;
        }
        self.mdev4 = self.mdev4.saturating_add_signed(step);
        if self.mdev4 > self.mdev4_max {
            self.mdev4_max = self.mdev4;
            self.variance = self.variance.max(self.mdev4_max);
        }
        // Once per window: with many samples per round trip the deviation would decay too fast.
        if una > self.window_end {
            if self.mdev4_max < self.variance {
                self.variance -= (self.variance - self.mdev4_max) / 4;
            }
            self.window_end = nxt;
            self.mdev4_max = self.variance_floor;
        }
    }

    fn ticks(&self, time: Duration) -> Duration {
        match self.tick {
            0 => time,
            tick => Duration::from_micros(time.as_micros().div_ceil(tick).saturating_mul(tick)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn rfc() -> Estimator {
        Estimator::new(&TcpSettings::RFC)
    }

    fn linux() -> Estimator {
        Estimator::new(&TcpSettings::THESIS)
    }

    #[test]
    fn rfc_6298_2_worked_by_hand() {
        let mut e = rfc();
        assert_eq!(e.rto(), ms(1_000)); // 2.1
        e.sample(ms(600), 1, 2); // SRTT 600, RTTVAR 300
        assert_eq!((e.srtt(), e.rto()), (Some(ms(600)), ms(1_800)));
        e.sample(ms(680), 2, 3); // RTTVAR 0.75 x 300 + 0.25 x 80 = 245, SRTT 610
        assert_eq!((e.srtt(), e.rto()), (Some(ms(610)), ms(1_590)));
    }

    #[test]
    fn rfc_6298_2_4_no_timeout_below_a_second() {
        let mut e = rfc();
        for _ in 0..50 {
            e.sample(ms(10), 1, 2);
        }
        assert_eq!(e.rto(), ms(1_000));
    }

    #[test]
    fn rfc_6298_5_5_rto_doubles_to_maximum_until_a_sample() {
        let mut e = linux();
        let seen: Vec<u64> = (0..8)
            .map(|_| {
                let rto = e.rto().as_secs();
                e.back_off();
                rto
            })
            .collect();
        assert_eq!(seen, [2, 4, 8, 16, 32, 64, 120, 120]);
        e.progressed(); // Karn: an ACK without a sample changes nothing
        assert_eq!(e.rto(), ms(120_000));
        e.sample(ms(700), 1, 2);
        assert_eq!(e.rto(), ms(2_100));
        assert_eq!(e.peak, ms(120_000));
    }

    #[test]
    fn backoff_can_end_with_new_data() {
        let mut settings = TcpSettings::THESIS;
        settings.backoff_end = BackoffEnd::NewAck;
        let mut e = Estimator::new(&settings);
        e.back_off();
        e.progressed();
        assert_eq!(e.rto(), ms(2_000));
    }

    #[test]
    fn bsd_restarts_backoff_after_new_data() {
        let mut settings = TcpSettings::THESIS;
        settings.backoff_end = BackoffEnd::Bsd;
        let mut e = Estimator::new(&settings);
        e.back_off();
        e.back_off();
        e.progressed();
        // The rest of the backoff holds for the running timer, the next one restarts.
        assert_eq!(e.rto(), ms(8_000));
        e.back_off();
        assert_eq!(e.rto(), ms(4_000));
        e.back_off();
        assert_eq!(e.rto(), ms(8_000));
    }

    #[test]
    fn a_timer_wheel_is_late_by_up_to_a_slot() {
        let mut settings = TcpSettings::KERNEL;
        assert_eq!(settings.timer_wheel, 250);
        settings.clock_tick = Duration::ZERO;
        let wheel = Estimator::new(&settings);
        // Ticks of 4 ms: up to 63 of them exactly, then slots of 32 ms, 256 ms, and 2048 ms.
        let slot = |due: u64| wheel.on_wheel(Instant::ZERO, Instant::ZERO + ms(due));
        for (due, runs_out) in [
            (10, 12),
            (252, 252),
            (253, 256),
            (1_999, 2_016),
            (2_017, 2_048),
            (8_200, 8_448),
            (16_129, 16_384),
            (16_385, 18_432),
            (120_000, 120_832),
        ] {
            assert_eq!(slot(due), Instant::ZERO + ms(runs_out), "{due} ms");
        }
        settings.timer_wheel = 0;
        let exact = Estimator::new(&settings);
        let due = Instant::ZERO + ms(16_385);
        assert_eq!(exact.on_wheel(Instant::ZERO, due), due);
    }

    #[test]
    fn linux_holds_the_largest_deviation_of_a_window() {
        let mut e = linux();
        e.sample(ms(600), 1, 10);
        assert_eq!(e.rto(), ms(1_800));
        // Steady samples: within the window nothing changes; after it a quarter of the distance
        // to the largest deviation of the window goes.
        for una in 2..=10 {
            e.sample(ms(600), una, 10 + una);
            assert_eq!(e.rto(), ms(1_800));
        }
        // The first window's maximum is the first variance itself, so its end lets nothing go.
        e.sample(ms(600), 11, 30);
        assert_eq!(e.rto(), ms(1_800));
        // The next ends at 30 with the floor as its maximum: 1200 - (1200 - 200) / 4 = 950.
        e.sample(ms(600), 31, 50);
        assert_eq!(e.rto(), ms(1_550));
    }

    #[test]
    fn linux_variance_never_falls_below_200_ms() {
        let mut e = linux();
        for una in 1..2_000 {
            e.sample(ms(50), una, una + 1);
        }
        assert!(e.rto() >= ms(250) && e.rto() < ms(252), "{}", e.rto());
    }

    #[test]
    fn linux_reacts_slowly_to_falling_samples() {
        let (mut up, mut down) = (linux(), linux());
        for e in [&mut up, &mut down] {
            for una in 1..400 {
                e.sample(ms(1_000), una, una + 1);
            }
        }
        up.sample(ms(2_000), 400, 401);
        down.sample(ms(100), 400, 401);
        assert!(up.rto() > ms(2_000) && down.rto() < ms(1_150));
    }

    #[test]
    fn timers_can_be_rounded_up_to_ticks() {
        let mut e = Estimator::new(&TcpSettings::KERNEL);
        e.sample(Duration::from_micros(599_999), 1, 2);
        assert_eq!(e.rto().as_micros() % 4_000, 0);
        assert_eq!(e.rto(), ms(1_800));
    }
}
