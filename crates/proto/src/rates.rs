//! How often each source asks, or does what else is not for nothing: a token bucket for each, and what is remembered of it has a limit.
//!
//! A bucket is one number, the time at which it will be full again (the generic cell rate algorithm).
//! Each source has two: one of requests that are taken, and one of the refusals (4.29) that it is
//! worth. Beyond both it is not answered at all.
//!
//! The table forgets sources that have not shown where they are before it forgets others: a flood from
//! forged addresses makes room for itself. Who is forgotten begins with a full bucket, so that a full
//! table refuses nobody wrongly.

use carob_cc::time::{Duration, Instant};
use hashbrown::HashTable;
use slab::Slab;

use crate::keyed_hash::KeyedState;
use crate::recency::Ranked;
use crate::shares::Source;

const SECOND: u64 = 1_000_000;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// It is taken.
    Within,
    /// It is refused, and would be taken after this time.
    Beyond(Duration),
    /// It is not even refused.
    FarBeyond,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    full: Instant,
}

impl Bucket {
    /// Takes one of `burst`, of which one comes back every `interval`; or how long to wait for it.
    fn take(&mut self, now: Instant, interval: Duration, burst: u64) -> Result<(), Duration> {
        let full = self.full.max(now) + interval;
        let missing = full.since(now).as_micros();
        let most = interval.as_micros().saturating_mul(burst);
        if missing > most {
            return Err(Duration::from_micros(missing - most));
        }
        self.full = full;
        Ok(())
    }
}

#[derive(Debug)]
struct Paced {
    source: Source,
    requests: Bucket,
    refusals: Bucket,
    /// It has shown where it is.
    validated: bool,
}

/// The sources of requests, and how often they ask.
#[derive(Debug)]
pub struct Rates {
    state: KeyedState,
    index: HashTable<u32>,
    slots: Slab<Paced>,
    /// By when they last asked.
    by_use: Ranked,
    limit: usize,
    interval: Duration,
    burst: u64,
}

impl Rates {
    /// So many requests a second of each source in the long run, and `burst` of them at once; `sources`
    /// are remembered. None if the rate is 0, or more than one a microsecond: then there is no limit.
    pub fn new(seed: u64, rate: usize, burst: usize, sources: usize) -> Option<Self> {
        let rate = rate as u64;
        if rate == 0 || rate > SECOND {
            return None;
        }
        Some(Self {
            state: KeyedState::with_seed(seed),
            index: HashTable::new(),
            slots: Slab::new(),
            by_use: Ranked::default(),
            limit: sources.clamp(1, u32::MAX as usize - 1),
            interval: Duration::from_micros(SECOND / rate),
            burst: burst.max(1) as u64,
        })
    }

    /// Sources that are remembered.
    pub fn sources(&self) -> usize {
        self.slots.len()
    }

    fn hash(state: &KeyedState, source: Source) -> u64 {
        core::hash::BuildHasher::hash_one(state, source)
    }

    fn find(&self, source: Source) -> Option<u32> {
        let hash = Self::hash(&self.state, source);
        let is = |&index: &u32| self.slots[index as usize].source == source;
        self.index.find(hash, is).copied()
    }

    /// A source asks; `validated` if it is known to have shown where it is.
    pub fn ask(&mut self, now: Instant, source: Source, validated: bool) -> Pace {
        let index = match self.find(source) {
            Some(index) => {
                let validated = self.slots[index as usize].validated;
                self.by_use.touch(index, validated);
                index
            }
            None => self.add(now, source),
        };
        if validated {
            self.validate(source);
        }
        let (interval, burst) = (self.interval, self.burst);
        let Paced {
            requests, refusals, ..
        } = &mut self.slots[index as usize];
        match requests.take(now, interval, burst) {
            Ok(()) => Pace::Within,
            Err(wait) if refusals.take(now, interval, burst).is_ok() => Pace::Beyond(wait),
            Err(_) => Pace::FarBeyond,
        }
    }

    /// A source has shown where it is.
    pub fn validate(&mut self, source: Source) {
        if let Some(index) = self.find(source)
            && !self.slots[index as usize].validated
        {
            self.by_use.remove(index, false);
            self.by_use.add(index, true);
            self.slots[index as usize].validated = true;
        }
    }

    fn add(&mut self, now: Instant, source: Source) -> u32 {
        if self.slots.len() >= self.limit
            && let Some(oldest) = self.by_use.oldest(false).or(self.by_use.oldest(true))
        {
            self.forget(oldest);
        }
        let index = self.slots.insert(Paced {
            source,
            requests: Bucket { full: now },
            refusals: Bucket { full: now },
            validated: false,
        }) as u32;
        let Self {
            state,
            index: table,
            slots,
            ..
        } = self;
        let hash = |index: u32| Self::hash(state, slots[index as usize].source);
        table.insert_unique(hash(index), index, |&index| hash(index));
        self.by_use.add(index, false);
        index
    }

    fn forget(&mut self, index: u32) {
        let hash = Self::hash(&self.state, self.slots[index as usize].source);
        if let Ok(found) = self.index.find_entry(hash, |&other| other == index) {
            found.remove();
        }
        let Paced { validated, .. } = self.slots.remove(index as usize);
        self.by_use.remove(index, validated);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(n: u32) -> Source {
        Source::of((n.to_be_bytes(), 5683).into(), 64)
    }

    fn rates(rate: usize, burst: usize, sources: usize) -> Rates {
        Rates::new(1, rate, burst, sources).expect("there is a rate")
    }

    fn at(millis: u64) -> Instant {
        Instant::from_micros(millis * 1_000)
    }

    #[test]
    fn a_burst_then_the_rate_then_refusals_then_silence() {
        let mut rates = rates(10, 3, 8);
        let mut ask = |millis| rates.ask(at(millis), source(1), false);
        assert_eq!([ask(0), ask(0), ask(0)], [Pace::Within; 3]);
        let wait = Pace::Beyond(Duration::from_millis(100));
        assert_eq!([ask(0), ask(0), ask(0)], [wait; 3]);
        assert_eq!([ask(0), ask(50)], [Pace::FarBeyond; 2]);
        assert_eq!(ask(100), Pace::Within);
        assert_eq!(ask(100), wait, "a refusal has come back, too");
        assert_eq!(ask(100), Pace::FarBeyond);
        assert_eq!([ask(10_000), ask(10_000), ask(10_000)], [Pace::Within; 3]);
        assert_eq!(rates.ask(at(100), source(2), false), Pace::Within);
    }

    #[test]
    fn a_full_table_forgets_who_has_not_shown_where_it_is_first() {
        let mut rates = rates(1, 1, 100);
        assert_eq!(rates.ask(at(0), source(0), true), Pace::Within);
        for n in 1..10_000 {
            assert_eq!(rates.ask(at(0), source(n), false), Pace::Within);
        }
        assert_eq!(rates.sources(), 100);
        assert!(matches!(
            rates.ask(at(0), source(0), false),
            Pace::Beyond(_)
        ));
        assert_eq!(
            rates.ask(at(0), source(1), false),
            Pace::Within,
            "forgotten"
        );
        // Of those who have, the one heard of longest ago.
        for n in 20_000..20_100 {
            rates.ask(at(0), source(n), true);
        }
        assert_eq!(rates.ask(at(0), source(0), false), Pace::Within);
        assert_eq!(rates.sources(), 100);
    }

    #[test]
    fn a_source_costs_less_than_80_bytes() {
        // With its links and its share of the index.
        assert!(
            size_of::<Paced>() + 8 + 8 + 5 <= 80,
            "{}",
            size_of::<Paced>()
        );
    }
}
