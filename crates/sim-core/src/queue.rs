//! Event queue, ordered by time, and by insertion where times are equal.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use carob_cc::time::Instant;

/// The maximum number of pending events. More would be a bug in the model: even a thousand hosts
/// have a few timers and packets each.
pub const EVENTS_MAX: usize = 1 << 24;

/// Lanes for events that are mostly pushed in order ([`EventQueue::push_in_order`]).
pub const LANES: usize = 2;

/// A queue of events keyed by (time, insertion number).
///
/// Events of equal times are popped in their order of insertion, so a run does not depend on the
/// heap's shape.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Entry<E>>,
    /// Events pushed in order, by lane: the next event is the first of a lane, or the top of the
    /// heap.
    lanes: [VecDeque<Entry<E>>; LANES],
    next_number: u64,
    now: Instant,
}

#[derive(Clone, Debug)]
struct Entry<E> {
    /// Time in the upper half, insertion number in the lower: one comparison decides.
    key: u128,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    /// Reversed: the standard heap keeps its greatest entry on top.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}

fn time_of(key: u128) -> Instant {
    Instant::from_micros((key >> 64) as u64)
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> EventQueue<E> {
    /// Creates an empty queue at time zero.
    pub const fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            lanes: [const { VecDeque::new() }; LANES],
            next_number: 0,
            now: Instant::ZERO,
        }
    }

    /// Schedules an event. One in the past is due at once, after those already due.
    ///
    /// # Panics
    ///
    /// If [`EVENTS_MAX`] events are pending.
    pub fn push(&mut self, at: Instant, event: E) {
        let entry = self.entry(at, event);
        self.heap.push(entry);
    }

    /// The same, for events that mostly come after the previous one of this lane, as arrivals from
    /// a link do: in-order events need no sorting. The result does not depend on the lane.
    ///
    /// # Panics
    ///
    /// Likewise, and if there is no such lane ([`LANES`]).
    pub fn push_in_order(&mut self, lane: usize, at: Instant, event: E) {
        let entry = self.entry(at, event);
        let lane = &mut self.lanes[lane];
        if lane.back().is_none_or(|last| last.key < entry.key) {
            lane.push_back(entry);
        } else {
            self.heap.push(entry);
        }
    }

    fn entry(&mut self, at: Instant, event: E) -> Entry<E> {
        assert!(
            self.len() < EVENTS_MAX,
            "more than EVENTS_MAX events are pending"
        );
        let key = (u128::from(at.max(self.now).as_micros()) << 64) | u128::from(self.next_number);
        self.next_number += 1;
        Entry { key, event }
    }

    /// The key of the next event and the lane it is in; none if it is in the heap.
    fn next(&self) -> Option<(u128, Option<usize>)> {
        let mut next = self.heap.peek().map(|entry| (entry.key, None));
        for (place, lane) in self.lanes.iter().enumerate() {
            if let Some(first) = lane.front()
                && next.is_none_or(|(key, _)| first.key < key)
            {
                next = Some((first.key, Some(place)));
            }
        }
        next
    }

    /// Pops the next event and advances the clock to it.
    pub fn pop(&mut self) -> Option<(Instant, E)> {
        let Entry { key, event } = match self.next()?.1 {
            Some(lane) => self.lanes[lane].pop_front()?,
            None => self.heap.pop()?,
        };
        self.now = time_of(key);
        Some((self.now, event))
    }

    /// Pops the next event if it is due no later than `until`.
    #[inline]
    pub fn pop_until(&mut self, until: Instant) -> Option<(Instant, E)> {
        if self.next_at()? > until {
            return None;
        }
        self.pop()
    }

    /// The time of the next event.
    pub fn next_at(&self) -> Option<Instant> {
        self.next().map(|(key, _)| time_of(key))
    }

    /// The time of the last popped event.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The number of pending events.
    pub fn len(&self) -> usize {
        self.heap.len() + self.lanes.iter().map(VecDeque::len).sum::<usize>()
    }

    /// Returns whether no event is pending.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The earliest wake-up of an object in the event queue.
///
/// A wake-up cannot be removed from the queue. An obsolete one is recognised by its time, which
/// differs from the one recorded here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alarm(Option<Instant>);

impl Alarm {
    /// Sets the next wake-up. Returns whether an event at that time must be scheduled.
    pub fn set(&mut self, at: Instant) -> bool {
        let is_missing = self.0.is_none_or(|earlier| earlier > at);
        if is_missing {
            self.0 = Some(at);
        }
        is_missing
    }

    /// Handles a wake-up event. Returns whether it is the one that was set last.
    pub fn rings(&mut self, now: Instant) -> bool {
        let is_it = self.0 == Some(now);
        if is_it {
            self.0 = None;
        }
        is_it
    }
}

#[cfg(test)]
mod tests {
    use carob_cc::time::Duration;

    use super::*;
    use crate::random::Stream;

    #[test]
    fn equal_times_are_fifo() {
        let mut queue = EventQueue::new();
        let at = Instant::from_micros(5);
        (0..100).for_each(|k| queue.push(at, k));
        queue.push(Instant::ZERO, -1);
        let order: Vec<i32> = std::iter::from_fn(|| queue.pop().map(|(_, e)| e)).collect();
        assert_eq!(order, (-1..100).collect::<Vec<_>>());
    }

    #[test]
    fn events_are_sorted_by_time_then_insertion() {
        let mut stream = Stream::new(1, "queue");
        let mut queue = EventQueue::new();
        let mut expected = Vec::new();
        for k in 0..5_000_u32 {
            let at = Instant::ZERO + stream.uniform(Duration::ZERO, Duration::from_micros(500));
            queue.push(at, k);
            expected.push((at, k));
        }
        expected.sort();
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, expected);
    }

    #[test]
    fn lanes_do_not_change_the_order() {
        let mut stream = Stream::new(2, "queue");
        let (mut plain, mut laned) = (EventQueue::new(), EventQueue::new());
        let mut offered = [Instant::ZERO; LANES];
        for k in 0..20_000_u32 {
            let lane = (stream.next_u64() % 4) as usize;
            let wait = stream.uniform(Duration::ZERO, Duration::from_micros(500));
            // One in eight comes out of order.
            let at = match offered.get_mut(lane) {
                Some(last) if k % 8 != 0 => {
                    *last = plain.now().max(*last) + Duration::from_micros(wait.as_micros() / 100);
                    *last
                }
                _ => plain.now() + wait,
            };
            plain.push(at, k);
            if lane < LANES {
                laned.push_in_order(lane, at, k);
            } else {
                laned.push(at, k);
            }
            assert_eq!(
                (plain.len(), plain.next_at()),
                (laned.len(), laned.next_at())
            );
            if k % 3 == 0 {
                assert_eq!(plain.pop(), laned.pop());
            }
        }
        assert!(laned.lanes.iter().all(|lane| !lane.is_empty()));
        while let Some(next) = plain.pop() {
            assert_eq!(laned.pop(), Some(next));
        }
        assert!(laned.is_empty() && laned.pop().is_none());
    }

    #[test]
    fn an_event_in_the_past_happens_now() {
        let mut queue = EventQueue::new();
        queue.push(Instant::from_micros(10), "a");
        queue.pop();
        queue.push(Instant::from_micros(10), "b");
        queue.push(Instant::from_micros(3), "c");
        assert_eq!(queue.pop(), Some((Instant::from_micros(10), "b")));
        assert_eq!(queue.pop(), Some((Instant::from_micros(10), "c")));
    }

    #[test]
    fn pop_until_leaves_later_events() {
        let mut queue = EventQueue::new();
        queue.push(Instant::from_micros(10), ());
        assert_eq!(queue.pop_until(Instant::from_micros(9)), None);
        assert!(queue.pop_until(Instant::from_micros(10)).is_some());
        assert!(queue.is_empty());
    }

    #[test]
    fn only_the_earliest_rings() {
        let [one, two] = [1, 2].map(Instant::from_micros);
        let mut alarm = Alarm::default();
        assert!(alarm.set(two));
        assert!(!alarm.set(two), "an event of then is there");
        assert!(alarm.set(one));
        assert!(!alarm.set(two), "it rings earlier");
        assert!(alarm.rings(one));
        assert!(!alarm.rings(two));
        assert!(!alarm.rings(one), "it rings once");
    }
}
