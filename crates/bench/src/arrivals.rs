//! When the open loop's requests are meant to leave.
//!
//! Nothing is queued: the times are computed one by one, so that however far the load falls
//! behind, what waits is only the next one's time.

use super::entropy::Entropy;
use super::plan::Arrivals;

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
    use super::*;

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
