//! Deadlines of many owners in one heap, each movable and removable.
//!
//! A binary heap with back references: setting, moving and cancelling cost O(log n) in the number
//! of *running* timers, and nothing stale is left behind. Equal deadlines fire in the order they
//! were set, so that runs repeat.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use carob_cc::time::Instant;

/// A handle of an owner's timer, stable while the heap moves the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerId(NonZeroU32);

impl TimerId {
    /// Not 0, so that `Option<TimerId>` takes no additional space.
    fn new(index: u32) -> Self {
        Self(NonZeroU32::MIN.saturating_add(index))
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

#[derive(Debug)]
struct Slot<O> {
    owner: O,
    /// Index in the heap, or `UNSET`.
    position: u32,
}

const UNSET: u32 = u32::MAX;

/// The position of a removed timer, in builds with assertions: it must not be used any more.
const REMOVED: u32 = u32::MAX - 1;

/// Deadlines keyed by owner.
#[derive(Debug)]
pub(crate) struct Timers<O> {
    slots: Vec<Slot<O>>,
    free: Vec<u32>,
    heap: Vec<(Instant, u64, u32)>,
    sequence: u64,
}

impl<O> Default for Timers<O> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            heap: Vec::new(),
            sequence: 0,
        }
    }
}

impl<O: Copy> Timers<O> {
    /// A timer for `owner`, not running yet.
    pub(crate) fn add(&mut self, owner: O) -> TimerId {
        if let Some(index) = self.free.pop() {
            let free = self.slots[index as usize].position;
            debug_assert!(free >= REMOVED, "timer {index} runs and is free");
            self.slots[index as usize] = Slot {
                owner,
                position: UNSET,
            };
            return TimerId::new(index);
        }
        let index = u32::try_from(self.slots.len()).expect("owners are limited to fewer");
        self.slots.push(Slot {
            owner,
            position: UNSET,
        });
        TimerId::new(index)
    }

    /// Transfers a timer to another owner.
    pub(crate) fn give(&mut self, id: TimerId, owner: O) {
        debug_assert!(self.slots[id.index()].position != REMOVED, "removed timer");
        self.slots[id.index()].owner = owner;
    }

    /// Removes a timer.
    pub(crate) fn remove(&mut self, id: TimerId) {
        self.cancel(id);
        debug_assert!(self.slots[id.index()].position == UNSET, "it is stopped");
        if cfg!(debug_assertions) {
            self.slots[id.index()].position = REMOVED;
        }
        self.free.push(id.index() as u32);
        self.check_invariants();
    }

    /// Starts or moves a timer.
    pub(crate) fn set(&mut self, id: TimerId, at: Instant) {
        self.cancel(id);
        // 64 bits do not wrap; they order equal deadlines.
        self.sequence += 1;
        let position = self.heap.len();
        self.heap.push((at, self.sequence, id.index() as u32));
        // Not more entries than timers, of which `add` has checked the number.
        self.slots[id.index()].position = position as u32;
        self.sift_up(position);
        debug_assert!(self.deadline(id) == Some(at), "the timer runs until {at:?}");
        self.check_invariants();
    }

    /// Stops a timer, running or not.
    pub(crate) fn cancel(&mut self, id: TimerId) {
        let position = self.slots[id.index()].position;
        debug_assert!(position != REMOVED, "removed timer");
        if position == UNSET {
            return;
        }
        debug_assert!(self.heap[position as usize].2 as usize == id.index());
        self.slots[id.index()].position = UNSET;
        self.detach(position as usize);
    }

    /// The deadline of a timer, if it runs.
    pub(crate) fn deadline(&self, id: TimerId) -> Option<Instant> {
        let position = self.slots[id.index()].position;
        (position != UNSET).then(|| self.heap[position as usize].0)
    }

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.first().map(|&(at, ..)| at)
    }

    /// Takes one timer that is due at `now`, earliest first.
    pub(crate) fn expire(&mut self, now: Instant) -> Option<O> {
        let &(at, _, index) = self.heap.first()?;
        if at > now {
            return None;
        }
        self.cancel(TimerId::new(index));
        debug_assert!(self.next().is_none_or(|next| next >= at), "out of order");
        Some(self.slots[index as usize].owner)
    }

    /// Checks the numbers of slots.
    #[inline]
    fn check_invariants(&self) {
        debug_assert!(self.heap.len() + self.free.len() <= self.slots.len());
    }

    fn detach(&mut self, position: usize) {
        let last = self.heap.len() - 1;
        debug_assert!(position <= last, "position {position} of {last}");
        self.heap.swap_remove(position);
        if position < last {
            self.slots[self.heap[position].2 as usize].position = position as u32;
            // The entry from the end comes from another branch, so that it may belong above or
            // below.
            self.sift_down(position);
            self.sift_up(position);
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.slots[self.heap[a].2 as usize].position = a as u32;
        self.slots[self.heap[b].2 as usize].position = b as u32;
    }

    fn before(&self, a: usize, b: usize) -> bool {
        (self.heap[a].0, self.heap[a].1) < (self.heap[b].0, self.heap[b].1)
    }

    fn sift_up(&mut self, mut position: usize) {
        while position > 0 {
            let parent = (position - 1) / 2;
            if !self.before(position, parent) {
                return;
            }
            self.swap(position, parent);
            position = parent;
        }
    }

    fn sift_down(&mut self, mut position: usize) {
        loop {
            let left = 2 * position + 1;
            if left >= self.heap.len() {
                return;
            }
            let right = left + 1;
            let child = if right < self.heap.len() && self.before(right, left) {
                right
            } else {
                left
            };
            if !self.before(child, position) {
                return;
            }
            self.swap(child, position);
            position = child;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    fn at(micros: u64) -> Instant {
        Instant::from_micros(micros)
    }

    #[test]
    fn equal_deadlines_fire_in_the_order_they_were_set() {
        let mut timers = Timers::default();
        let ids: Vec<_> = (0..10).map(|owner| timers.add(owner)).collect();
        for id in &ids {
            timers.set(*id, at(5));
        }
        timers.set(ids[0], at(5));
        let fired: Vec<_> = core::iter::from_fn(|| timers.expire(at(5))).collect();
        assert_eq!(fired, [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]);
    }

    #[test]
    fn a_timer_does_not_fire_early() {
        let mut timers = Timers::default();
        let id = timers.add(());
        timers.set(id, at(5));
        assert_eq!(timers.expire(at(4)), None);
        assert_eq!(timers.expire(at(5)), Some(()));
        assert_eq!(timers.expire(at(6)), None);
    }

    proptest! {
        /// Against a sorted map: any sequence of set, cancel and expire gives the same firings.
        #[test]
        fn agrees_with_a_sorted_map(steps in prop::collection::vec((0_usize..8, 0_u64..50, 0_u8..4), 1..200)) {
            let mut timers = Timers::default();
            let ids: Vec<_> = (0..8_usize).map(|owner| timers.add(owner)).collect();
            let mut model: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
            for (sequence, (owner, time, what)) in steps.into_iter().enumerate() {
                match what {
                    0 | 1 => {
                        timers.set(ids[owner], at(time));
                        model.insert(owner, (time, sequence as u64));
                    }
                    2 => {
                        timers.cancel(ids[owner]);
                        model.remove(&owner);
                    }
                    _ => {
                        let expected = model
                            .iter()
                            .filter(|(_, (due, _))| *due <= time)
                            .min_by_key(|(_, key)| **key)
                            .map(|(owner, _)| *owner);
                        prop_assert_eq!(timers.expire(at(time)), expected);
                        if let Some(owner) = expected {
                            model.remove(&owner);
                        }
                    }
                }
                let next = model.values().map(|(due, _)| at(*due)).min();
                prop_assert_eq!(timers.next(), next);
            }
        }
    }
}
