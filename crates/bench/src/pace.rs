//! When the next request starts: when there is room for it, or when its time has come.

use std::time::Duration;

use super::arrivals::Schedule;
use super::plan::{Pace, Plan};
use super::ports::Now;
use super::slots::share;
use super::window::Window;

/// A request that leaves this much after its time is counted as late.
const LATE: Duration = Duration::from_millis(1);

/// Requests scheduled by the open loop within the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Intentions {
    /// Requests that were meant to leave.
    pub(super) intended: u64,
    /// Those that never left: they waited for room as long as `--timeout`, or until the end.
    pub(super) not_sent: u64,
    /// Those that left more than a millisecond late.
    pub(super) late: u64,
    /// The longest delay, in nanoseconds.
    pub(super) longest_delay: u64,
}

impl Intentions {
    pub(super) fn add(&mut self, other: Self) {
        self.intended += other.intended;
        self.not_sent += other.not_sent;
        self.late += other.late;
        self.longest_delay = self.longest_delay.max(other.longest_delay);
    }
}

/// Decides when the next request starts.
///
/// An open loop that cannot keep up queues nothing: what waits is a point in its schedule. A
/// request waits for room no longer than `--timeout`; then it counts as not sent.
#[derive(Debug)]
pub(super) struct Pacer {
    schedule: Option<Schedule>,
    patience: u64,
    /// Requests still to be measured.
    left: u64,
    counts: Intentions,
}

impl Pacer {
    pub(super) fn new(plan: &Plan, thread: usize) -> Self {
        let schedule = match plan.pace {
            Pace::Closed => None,
            Pace::Open {
                rate,
                arrivals,
                seed,
            } => Some(Schedule::new(arrivals, rate, seed, thread, plan.threads)),
        };
        Self {
            schedule,
            patience: plan.timeout.as_nanos() as u64,
            left: plan
                .requests
                .map_or(u64::MAX, |all| share(all, thread, plan.threads)),
            counts: Intentions::default(),
        }
    }

    /// Returns true if requests are still to be started.
    pub(super) fn has_more(&self, now: Now, window: &Window) -> bool {
        self.left > 0 && !window.is_over(now)
    }

    /// When a request that may start now was meant to; none if none may.
    pub(super) fn due(&mut self, now: Now, window: &Window) -> Option<u64> {
        if !self.has_more(now, window) {
            return None;
        }
        let Some(schedule) = &self.schedule else {
            return Some(now.nanos);
        };
        let due = schedule.next();
        if now.nanos.saturating_sub(due) > self.patience {
            self.skip_until(now.nanos - self.patience, window);
            return self.due(now, window);
        }
        (due <= now.nanos).then_some(due)
    }

    /// Takes the request that was [due](Self::due).
    pub(super) fn begin(&mut self, now: Now, window: &Window) {
        let since = self.schedule.as_ref().map_or(now.nanos, Schedule::next);
        let measured = window.measures(since);
        self.left -= u64::from(measured);
        if let Some(schedule) = &mut self.schedule {
            schedule.advance();
            if measured {
                let delay = now.nanos.saturating_sub(since);
                self.counts.intended += 1;
                self.counts.late += u64::from(delay > LATE.as_nanos() as u64);
                self.counts.longest_delay = self.counts.longest_delay.max(delay);
            }
        }
    }

    /// Gives up requests that were scheduled before `until`, in nanoseconds.
    fn skip_until(&mut self, until: u64, window: &Window) {
        let Some(schedule) = &mut self.schedule else {
            return;
        };
        while self.left > 0 && schedule.next() < until {
            if window.measures(schedule.next()) {
                self.left -= 1;
                self.counts.intended += 1;
                self.counts.not_sent += 1;
            }
            schedule.advance();
        }
    }

    /// Stops: scheduled requests that have not started are not sent.
    pub(super) fn finish(&mut self, now: Now, window: &Window) {
        self.skip_until(window.last(now), window);
    }

    /// When to ask again, if there is room; nanoseconds.
    pub(super) fn next(&self) -> u64 {
        self.schedule.as_ref().map_or(u64::MAX, Schedule::next)
    }

    pub(super) fn intentions(&self) -> Option<Intentions> {
        self.schedule.as_ref().map(|_| self.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan;
    use crate::{Arrivals, Pace};
    use carob_cc::time::Instant;
    use std::time::Duration;

    const SECOND: u64 = 1_000_000_000;

    fn pacer(plan: &Plan) -> (Pacer, Window) {
        (Pacer::new(plan, 0), Window::new(plan, 0))
    }

    /// Ten requests a second after a warm-up, with a timeout; in seconds.
    fn open(warm_up: u64, duration: u64, timeout: u64) -> (Pacer, Window) {
        pacer(&Plan {
            pace: Pace::Open {
                rate: 10.0,
                arrivals: Arrivals::Constant,
                seed: 1,
            },
            outstanding: 1_024,
            warm_up: Duration::from_secs(warm_up),
            duration: Some(Duration::from_secs(duration)),
            timeout: Duration::from_secs(timeout),
            ..plan()
        })
    }

    fn at(nanos: u64) -> Now {
        let at = Instant::from_micros(nanos / 1_000);
        Now { nanos, at }
    }

    #[test]
    fn open_loop_returns_intended_times_when_polled_late() {
        let (mut pacer, window) = open(0, 1, 5);
        let now = at(SECOND / 4);
        let mut due = Vec::new();
        while let Some(since) = pacer.due(now, &window) {
            due.push(since);
            pacer.begin(now, &window);
        }
        assert_eq!(due, [0, SECOND / 10, SECOND / 5]);
        assert_eq!(pacer.next(), SECOND * 3 / 10);
        let counts = pacer.intentions().expect("an open loop");
        assert_eq!((counts.intended, counts.late, counts.not_sent), (3, 3, 0));
        assert_eq!(counts.longest_delay, SECOND / 4);
    }

    #[test]
    fn requests_delayed_beyond_the_timeout_are_not_sent() {
        let (mut pacer, window) = open(0, 9, 1);
        let now = at(3 * SECOND);
        assert_eq!(pacer.due(now, &window), Some(2 * SECOND));
        let counts = pacer.intentions().expect("an open loop");
        assert_eq!((counts.intended, counts.not_sent), (20, 20));
    }

    #[test]
    fn requests_at_the_end_of_the_measurement_are_counted() {
        let (mut pacer, window) = open(1, 1, 5);
        let now = at(7 * SECOND);
        assert_eq!(pacer.due(now, &window), None);
        pacer.finish(now, &window);
        let counts = pacer.intentions().expect("an open loop");
        assert_eq!(
            (counts.intended, counts.not_sent),
            (10, 10),
            "of the second second"
        );
    }

    #[test]
    fn a_closed_loop_starts_at_once_until_its_number_is_reached() {
        let (mut pacer, window) = pacer(&Plan {
            requests: Some(2),
            duration: None,
            warm_up: Duration::ZERO,
            ..plan()
        });
        for nanos in [5, 6] {
            assert_eq!(pacer.due(at(nanos), &window), Some(nanos));
            pacer.begin(at(nanos), &window);
        }
        assert_eq!(pacer.due(at(7), &window), None);
        assert_eq!(pacer.intentions(), None);
    }
}
