//! When the next request starts: when there is room for it, or when its time has come.
//!
//! Nothing is queued: the open loop's times are computed one by one, so that however far the load falls
//! behind, what waits is only the next one's time.

use std::time::Duration;

use super::entropy::Entropy;
use super::plan::{Arrivals, Pace, Plan};
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

/// Times in nanoseconds since the start, for ever.
#[derive(Debug)]
pub(super) struct Schedule {
    kind: Arrivals,
    /// Mean distance of two arrivals, in nanoseconds.
    gap: f64,
    first: f64,
    count: u64,
    random: Entropy,
    next: f64,
}

impl Schedule {
    /// The share of one thread of `threads` in arrivals at `rate` a second, all together.
    ///
    /// Constant arrivals of the threads interleave; Poisson ones are independent, which gives
    /// Poisson arrivals again.
    pub(super) fn new(kind: Arrivals, rate: f64, seed: u64, thread: usize, threads: usize) -> Self {
        const NANOS: f64 = 1e9;
        let distance = NANOS / rate;
        let mut schedule = Self {
            kind,
            gap: distance * threads as f64,
            first: distance * thread as f64,
            count: 0,
            random: Entropy::seeded(seed ^ (thread as u64).rotate_right(8)),
            next: 0.0,
        };
        schedule.next = match kind {
            Arrivals::Constant => schedule.first,
            Arrivals::Poisson => schedule.draw(),
        };
        schedule
    }

    /// When the next request is meant to leave.
    pub(super) fn next(&self) -> u64 {
        self.next as u64
    }

    /// Goes on to the one after it.
    pub(super) fn advance(&mut self) {
        self.count += 1;
        self.next = match self.kind {
            // By multiplication, so that nothing adds up to a drift.
            Arrivals::Constant => self.first + self.gap * self.count as f64,
            Arrivals::Poisson => self.next + self.draw(),
        };
    }

    /// An exponentially distributed distance.
    fn draw(&mut self) -> f64 {
        -self.gap * self.random.fraction().ln()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use carob_cc::time::Instant;

    use super::*;
    use crate::plan::tests::plan;
    use crate::{Arrivals, Pace};

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

    fn times(mut schedule: Schedule, count: usize) -> Vec<u64> {
        let mut next = || {
            let at = schedule.next();
            schedule.advance();
            at
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn constant_arrivals_of_threads_interleave_without_drift() {
        let of = |thread| {
            times(
                Schedule::new(Arrivals::Constant, 3_000.0, 1, thread, 2),
                300_001,
            )
        };
        let (one, two) = (of(0), of(1));
        assert_eq!((one[0], one[1]), (0, 666_666));
        assert_eq!((two[0], two[1]), (333_333, 1_000_000));
        assert_eq!(one[300_000], 200_000_000_000, "after 200 s");
    }

    #[test]
    fn poisson_arrivals_have_rate_and_variance() {
        let times = times(Schedule::new(Arrivals::Poisson, 1e4, 7, 0, 1), 100_000);
        let gaps: Vec<f64> = times.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1e5 - 1.0).abs() < 0.02, "{mean} ns");
        // Of an exponential distribution the deviation equals the mean.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.03);
    }

    #[test]
    fn the_same_seed_gives_the_same_times_and_another_thread_others() {
        let of = |seed, thread| times(Schedule::new(Arrivals::Poisson, 1e3, seed, thread, 2), 50);
        assert_eq!(of(1, 0), of(1, 0));
        assert_ne!(of(1, 0), of(2, 0));
        assert_ne!(of(1, 0), of(1, 1));
    }
}
