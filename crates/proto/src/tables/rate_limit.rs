//! Per-source token buckets (GCRA) in a bounded table.
//!
//! A bucket is one number: the time at which it will be full again. Each source has two, one for
//! accepted requests and one for replies of 4.29. Beyond both, requests are dropped.
//!
//! The table evicts unvalidated sources first, so that a flood from forged addresses evicts its own
//! entries. An evicted source starts with a full bucket, so that a full table rejects no request
//! wrongly.

use carob_cc::time::{Duration, Instant};

use crate::tables::bounded_map::{BoundedMap, Keyed};
use crate::tables::quota::Source;

const SECOND: u64 = 1_000_000;

/// The decision on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Accepted.
    Allow,
    /// Rejected with 4.29; the request would be accepted after this time.
    Reject(Duration),
    /// Dropped silently: the source has also exhausted its budget of 4.29 replies.
    Drop,
}

#[derive(Clone, Copy, Debug)]
struct TokenBucket {
    full: Instant,
}

impl TokenBucket {
    /// Takes one token of `burst`, one of which returns every `interval`. Fails with the time to
    /// wait.
    fn take(&mut self, now: Instant, interval: Duration, burst: u64) -> Result<(), Duration> {
        // A bucket that filled up in the past is full, and no fuller.
        let full = self.full.max(now) + interval;
        let missing = full.since(now).as_micros();
        let most = interval.as_micros().saturating_mul(burst);
        if missing > most {
            // Nothing is taken: a client that keeps asking is not locked out for longer.
            return Err(Duration::from_micros(missing - most));
        }
        debug_assert!(full > now, "a token is missing");
        self.full = full;
        Ok(())
    }
}

#[derive(Debug)]
struct Bucket {
    source: Source,
    requests: TokenBucket,
    refusals: TokenBucket,
    /// The address is validated.
    validated: bool,
}

impl Keyed for Bucket {
    type Key = Source;

    fn key(&self) -> &Source {
        &self.source
    }
}

/// Rate limit state of all sources.
#[derive(Debug)]
pub struct RateLimiter {
    /// Buckets by time of their last request; buckets of validated addresses are the higher tier.
    buckets: BoundedMap<Bucket>,
    interval: Duration,
    burst: u64,
}

impl RateLimiter {
    /// Creates a limit of `rate` requests per second for each source in the long run, and `burst`
    /// at once; at most `sources` have state. `None`, without a limit, if the rate is 0 or above
    /// one per microsecond.
    pub fn new(seed: u64, rate: usize, burst: usize, sources: usize) -> Option<Self> {
        let rate = rate as u64;
        if rate == 0 || rate > SECOND {
            return None;
        }
        Some(Self {
            buckets: BoundedMap::new(seed, sources.max(1)),
            interval: Duration::from_micros(SECOND / rate),
            burst: burst.max(1) as u64,
        })
    }

    /// Sources with state.
    pub fn sources(&self) -> usize {
        self.buckets.len()
    }

    /// Decides on a request; `validated` is the state of its address.
    pub fn ask(&mut self, now: Instant, source: Source, validated: bool) -> Admission {
        let index = match self.buckets.find(&source) {
            Some(index) => {
                let validated = self.buckets[index].validated;
                self.buckets.touch(index, validated);
                index
            }
            None => self.add(now, source),
        };
        if validated {
            self.validate(source);
        }
        debug_assert!(self.buckets[index].source == source);
        let (interval, burst) = (self.interval, self.burst);
        let Bucket {
            requests, refusals, ..
        } = &mut self.buckets[index];
        match requests.take(now, interval, burst) {
            Ok(()) => Admission::Allow,
            Err(wait) if refusals.take(now, interval, burst).is_ok() => Admission::Reject(wait),
            Err(_) => Admission::Drop,
        }
    }

    /// Marks the address of a source as validated.
    pub fn validate(&mut self, source: Source) {
        if let Some(index) = self.buckets.find(&source)
            && !self.buckets[index].validated
        {
            self.buckets.raise(index);
            self.buckets[index].validated = true;
        }
    }

    fn add(&mut self, now: Instant, source: Source) -> u32 {
        let buckets = &mut self.buckets;
        if buckets.is_full()
            && let Some(oldest) = buckets.oldest(false).or(buckets.oldest(true))
        {
            let validated = buckets[oldest].validated;
            buckets.remove(oldest, validated);
        }
        let bucket = Bucket {
            source,
            requests: TokenBucket { full: now },
            refusals: TokenBucket { full: now },
            validated: false,
        };
        buckets.insert(bucket, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(n: u32) -> Source {
        Source::of((n.to_be_bytes(), 5683).into(), 64)
    }

    fn rates(rate: usize, burst: usize, sources: usize) -> RateLimiter {
        RateLimiter::new(1, rate, burst, sources).expect("there is a rate")
    }

    fn at(millis: u64) -> Instant {
        Instant::from_micros(millis * 1_000)
    }

    #[test]
    fn a_burst_then_the_rate_then_refusals_then_silence() {
        let mut rates = rates(10, 3, 8);
        let mut ask = |millis| rates.ask(at(millis), source(1), false);
        assert_eq!([ask(0), ask(0), ask(0)], [Admission::Allow; 3]);
        let wait = Admission::Reject(Duration::from_millis(100));
        assert_eq!([ask(0), ask(0), ask(0)], [wait; 3]);
        assert_eq!([ask(0), ask(50)], [Admission::Drop; 2]);
        assert_eq!(ask(100), Admission::Allow);
        assert_eq!(ask(100), wait, "a refusal has come back, too");
        assert_eq!(ask(100), Admission::Drop);
        assert_eq!(
            [ask(10_000), ask(10_000), ask(10_000)],
            [Admission::Allow; 3]
        );
        assert_eq!(rates.ask(at(100), source(2), false), Admission::Allow);
    }

    #[test]
    fn full_table_evicts_unvalidated_sources_first() {
        let mut rates = rates(1, 1, 100);
        assert_eq!(rates.ask(at(0), source(0), true), Admission::Allow);
        for n in 1..10_000 {
            assert_eq!(rates.ask(at(0), source(n), false), Admission::Allow);
        }
        assert_eq!(rates.sources(), 100);
        assert!(matches!(
            rates.ask(at(0), source(0), false),
            Admission::Reject(_)
        ));
        assert_eq!(
            rates.ask(at(0), source(1), false),
            Admission::Allow,
            "forgotten"
        );
        // Of the validated ones, the least recently used.
        for n in 20_000..20_100 {
            rates.ask(at(0), source(n), true);
        }
        assert_eq!(rates.ask(at(0), source(0), false), Admission::Allow);
        assert_eq!(rates.sources(), 100);
    }

    #[test]
    fn a_source_costs_less_than_80_bytes() {
        // With its links and its share of the index.
        assert!(
            size_of::<Bucket>() + 8 + 8 + 5 <= 80,
            "{}",
            size_of::<Bucket>()
        );
    }
}
