//! What happens next: events ordered by time, and by insertion where times are equal.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use carob_cc::time::Instant;

/// The most events that may be pending. More means a bug in the model, not a large network: even
/// a thousand hosts keep a few timers and packets each.
pub const EVENTS_MAX: usize = 1 << 24;

/// A queue of events keyed by (time, insertion number).
///
/// Equal times come out in the order they went in, so a run does not depend on the heap's shape.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Entry<E>>,
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
    /// An empty queue at time zero.
    pub const fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            next_number: 0,
            now: Instant::ZERO,
        }
    }

    /// Schedules an event. One in the past happens at once, after those already due.
    ///
    /// # Panics
    ///
    /// If [`EVENTS_MAX`] events are pending.
    pub fn push(&mut self, at: Instant, event: E) {
        assert!(
            self.heap.len() < EVENTS_MAX,
            "more than EVENTS_MAX events are pending"
        );
        let key = (u128::from(at.max(self.now).as_micros()) << 64) | u128::from(self.next_number);
        self.next_number += 1;
        self.heap.push(Entry { key, event });
    }

    /// Takes the next event and moves the clock to it.
    pub fn pop(&mut self) -> Option<(Instant, E)> {
        let Entry { key, event } = self.heap.pop()?;
        self.now = time_of(key);
        Some((self.now, event))
    }

    /// Takes the next event if it happens no later than `until`.
    pub fn pop_until(&mut self, until: Instant) -> Option<(Instant, E)> {
        if self.next_at()? > until {
            return None;
        }
        self.pop()
    }

    /// When the next event happens.
    pub fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|entry| time_of(entry.key))
    }

    /// The time of the last event taken.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Events pending.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use carob_cc::time::Duration;

    use super::*;
    use crate::random::Stream;

    #[test]
    fn equal_times_come_out_in_the_order_they_went_in() {
        let mut queue = EventQueue::new();
        let at = Instant::from_micros(5);
        (0..100).for_each(|k| queue.push(at, k));
        queue.push(Instant::ZERO, -1);
        let order: Vec<i32> = std::iter::from_fn(|| queue.pop().map(|(_, e)| e)).collect();
        assert_eq!(order, (-1..100).collect::<Vec<_>>());
    }

    #[test]
    fn events_come_out_sorted_by_time_then_insertion() {
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
}
