//! What a host's clock says, and when it will say something.

use carob_cc::time::{Duration, Instant};

/// A clock that began at zero with its host's process, and is a little too fast or too slow.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostClock {
    /// The fleet's time, and the clock's own, when it was last set.
    since: Instant,
    own: Instant,
    /// By how much it is too fast, in millionths.
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

    /// What it says.
    pub(super) fn at(&self, now: Instant) -> Instant {
        let passed = i128::from(now.since(self.since).as_micros());
        let passed = passed + passed * i128::from(self.ppm) / MILLION;
        self.own + Duration::from_micros(passed as u64)
    }

    /// When it says so first.
    pub(super) fn when(&self, own: Instant) -> Instant {
        let wanted = i128::from(own.since(self.own).as_micros());
        let passed = wanted * MILLION / (MILLION + i128::from(self.ppm));
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        let mut at = self.since + Duration::from_micros(passed.saturating_sub(1));
        while self.at(at) < own {
            at += Duration::from_micros(1);
        }
        at
    }

    /// It stood still from then on, until now.
    pub(super) fn stood_still(&mut self, from: Instant, now: Instant) {
        let own = self.at(from);
        (self.since, self.own) = (now, own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_comes_when_the_clock_says_so_and_not_a_microsecond_earlier() {
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
    fn a_clock_that_stood_still_goes_on_from_there() {
        let mut clock = HostClock::start(Instant::ZERO, 0);
        let [one, nine, ten] = [1, 9, 10].map(Instant::from_micros);
        clock.stood_still(one, nine);
        assert_eq!(
            (clock.at(nine), clock.at(ten)),
            (one, Instant::from_micros(2))
        );
    }
}
