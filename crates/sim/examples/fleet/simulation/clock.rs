//! Host clocks with drift and suspensions.

use carob_cc::time::{Duration, Instant};

/// A clock that started at zero with its host's process, with a constant drift.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostClock {
    /// The fleet's time and the clock's own time at the last setting.
    since: Instant,
    own: Instant,
    /// Drift in millionths; positive if too fast.
    ppm: i32,
}

const MILLION: i128 = 1_000_000;

impl HostClock {
    pub(super) fn start(now: Instant, ppm: i32) -> Self {
        Self {
            since: now,
            own: Instant::ZERO,
            ppm,
        }
    }

    /// The clock's reading at a time.
    pub(super) fn at(&self, now: Instant) -> Instant {
        let elapsed = i128::from(now.since(self.since).as_micros());
        let elapsed = elapsed + elapsed * i128::from(self.ppm) / MILLION;
        self.own + Duration::from_micros(elapsed as u64)
    }

    /// The earliest time at which the clock shows `own`.
    pub(super) fn when(&self, own: Instant) -> Instant {
        let wanted = i128::from(own.since(self.own).as_micros());
        let elapsed = wanted * MILLION / (MILLION + i128::from(self.ppm));
        let elapsed = u64::try_from(elapsed).unwrap_or(u64::MAX);
        let mut at = self.since + Duration::from_micros(elapsed.saturating_sub(1));
        while self.at(at) < own {
            at += Duration::from_micros(1);
        }
        at
    }

    /// Stops the clock from a time until now.
    pub(super) fn stood_still(&mut self, from: Instant, now: Instant) {
        let own = self.at(from);
        (self.since, self.own) = (now, own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadline_is_due_exactly_at_its_time() {
        let start = Instant::from_micros(5_000_000);
        for ppm in [-200, -7, 0, 3, 200] {
            let clock = HostClock::start(start, ppm);
            for own in [0, 1, 4_999, 5_000, 1_000_003, 86_400_000_000] {
                let own = Instant::from_micros(own);
                let at = clock.when(own);
                assert!(clock.at(at) >= own, "{ppm} {own:?}");
                let before = Instant::from_micros(at.as_micros() - 1);
                assert!(before < start || clock.at(before) < own, "{ppm} {own:?}");
            }
        }
    }

    #[test]
    fn stopped_clock_resumes() {
        let mut clock = HostClock::start(Instant::ZERO, 0);
        let [one, nine, ten] = [1, 9, 10].map(Instant::from_micros);
        clock.stood_still(one, nine);
        assert_eq!(
            (clock.at(nine), clock.at(ten)),
            (one, Instant::from_micros(2))
        );
    }
}
