//! Where requests may start: the places outstanding, spread evenly over source ports.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use super::plan::Plan;
use super::ports::Now;

/// A source port's turn: when the port is replaced, its places go with it.
#[derive(Debug)]
struct PortSlots {
    /// The port's key.
    key: usize,
    /// Nothing starts before this; nanoseconds.
    paused_until: u64,
}

/// The places of one thread.
#[derive(Debug)]
pub(super) struct Slots {
    all: Vec<PortSlots>,
    /// A lane for each free place, the one free for longest first.
    free: VecDeque<usize>,
    /// Free places of lanes that pause.
    resting: Vec<usize>,
    outstanding: usize,
}

/// The `index`-th of `parts` almost equal shares of a whole.
pub(super) fn share(whole: u64, index: usize, parts: usize) -> u64 {
    let (index, parts) = (index as u64, parts as u64);
    whole / parts + u64::from(index < whole % parts)
}

impl Slots {
    /// The lanes of one of the plan's threads, each with a port that `open` opens.
    pub(super) fn new(
        plan: &Plan,
        thread: usize,
        mut open: impl FnMut() -> io::Result<usize>,
    ) -> io::Result<Self> {
        let of_all = |lane: usize| lane * plan.threads + thread;
        let count = share(plan.ports as u64, thread, plan.threads) as usize;
        let slots: io::Result<Vec<PortSlots>> = (0..count)
            .map(|_| {
                let (key, paused_until) = (open()?, 0);
                Ok(PortSlots { key, paused_until })
            })
            .collect();
        let places = |lane| share(plan.outstanding as u64, of_all(lane), plan.ports) as usize;
        // Port by port, then again, so that the first requests are spread evenly, too.
        let rounds = (0..count).map(places).max().unwrap_or_default();
        let free = (0..rounds)
            .flat_map(|round| (0..count).filter(move |&lane| round < places(lane)))
            .collect();
        Ok(Self {
            all: slots?,
            free,
            resting: Vec::new(),
            outstanding: 0,
        })
    }

    /// The ports' keys, lane by lane.
    pub(super) fn keys(&self) -> impl Iterator<Item = usize> {
        self.all.iter().map(|lane| lane.key)
    }

    pub(super) fn key(&self, lane: usize) -> usize {
        self.all[lane].key
    }

    /// Gives a lane another port.
    pub(super) fn move_to(&mut self, lane: usize, key: usize) {
        self.all[lane].key = key;
    }

    /// Places that are taken.
    pub(super) fn outstanding(&self) -> usize {
        self.outstanding
    }

    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Takes a place; its lane.
    pub(super) fn take(&mut self, now: Now) -> Option<usize> {
        if !self.resting.is_empty() {
            let Self {
                all, free, resting, ..
            } = self;
            resting.retain(|&lane| {
                let rested = all[lane].paused_until <= now.nanos;
                if rested {
                    free.push_back(lane);
                }
                !rested
            });
        }
        while let Some(lane) = self.free.pop_front() {
            if self.all[lane].paused_until <= now.nanos {
                self.outstanding += 1;
                return Some(lane);
            }
            self.resting.push(lane);
        }
        None
    }

    /// Gives a place back.
    pub(super) fn give_back(&mut self, lane: usize) {
        self.outstanding -= 1;
        self.free.push_back(lane);
    }

    /// Lets nothing start on a lane for a while.
    pub(super) fn pause(&mut self, lane: usize, now: Now, pause: Duration) {
        self.all[lane].paused_until = now.nanos + pause.as_nanos() as u64;
    }

    /// When the first pause ends, if nothing else may start before; nanoseconds.
    pub(super) fn next_resumption(&self) -> u64 {
        let until = |&lane: &usize| self.all[lane].paused_until;
        self.resting.iter().map(until).min().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan;
    use carob_cc::time::Instant;

    fn slots([outstanding, ports, threads]: [usize; 3], thread: usize) -> Slots {
        let mut keys = 10..;
        let open = || Ok(keys.next().expect("endless"));
        let plan = Plan {
            outstanding,
            ports,
            threads,
            ..plan()
        };
        Slots::new(&plan, thread, open).expect("opened")
    }

    fn at(nanos: u64) -> Now {
        let at = Instant::from_micros(nanos / 1_000);
        Now { nanos, at }
    }

    #[test]
    fn shares_differ_by_one_at_most_and_add_up() {
        let shares: Vec<u64> = (0..3).map(|index| share(11, index, 3)).collect();
        assert_eq!(shares, [4, 4, 3]);
    }

    #[test]
    fn slots_are_spread_over_ports_and_threads() {
        let take = |mut slots: Slots| core::iter::from_fn(|| slots.take(at(0))).collect::<Vec<_>>();
        assert_eq!(take(slots([7, 3, 1], 0)), [0, 1, 2, 0, 1, 2, 0]);
        let of = |thread| take(slots([7, 3, 2], thread));
        assert_eq!(of(0), [0, 1, 0, 1, 0], "ports 0 and 2");
        assert_eq!(of(1), [0, 0], "port 1");
    }

    #[test]
    fn paused_lane_is_skipped_until_its_time() {
        let mut slots = slots([2, 2, 1], 0);
        slots.pause(0, at(0), Duration::from_nanos(50));
        assert_eq!(slots.take(at(10)), Some(1));
        assert_eq!(slots.take(at(10)), None);
        assert_eq!(slots.next_resumption(), 50);
        assert_eq!(slots.take(at(50)), Some(0));
        assert_eq!(slots.next_resumption(), u64::MAX);
    }
}
