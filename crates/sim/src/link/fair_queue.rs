//! FQ-CoDel (RFC 8290): a queue for each flow, served by deficit round robin with priority for new
//! flows, each managed by CoDel.
//!
//! Departures depend on later arrivals in other flows, so packets are dequeued one by one when the
//! line is free.

use std::collections::{BTreeMap, VecDeque};

use carob_cc::time::Instant;

use super::discipline::{CoDel, CoDelSpec, Fate};
use super::{Buffer, Counters, DirectionSpec, Discipline};

/// Queues, which flows share by their number (RFC 8290 4.1.2).
const QUEUES: u32 = 1_024;

/// A waiting packet.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// Its number.
    pub datagram: u32,
    /// Its size.
    pub bytes: u32,
    since: Instant,
}

/// The queue of a flow.
#[derive(Debug)]
struct FlowQueue {
    packets: VecDeque<Waiting>,
    bytes: u64,
    /// Bytes that the flow may send before others take their turn.
    credit: i64,
    codel: CoDel,
    is_active: bool,
}

/// The queues in front of a direction whose discipline is FQ-CoDel.
#[derive(Debug)]
pub struct FairQueue {
    spec: CoDelSpec,
    limit: Buffer,
    queues: BTreeMap<u32, FlowQueue>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    bytes: u64,
    packets: usize,
    /// Drops, and the peak of the buffer.
    counters: Counters,
}

impl FairQueue {
    /// The queues of a direction; none under another discipline. The [`Direction`](super::Direction)
    /// itself then is [behind them](DirectionSpec::behind_queues).
    pub fn of(spec: &DirectionSpec) -> Option<Self> {
        match &spec.buffer.discipline {
            Discipline::FqCoDel(codel) => Some(Self::new(codel, spec.buffer)),
            _ => None,
        }
    }

    fn new(spec: &CoDelSpec, limit: Buffer) -> Self {
        Self {
            spec: *spec,
            limit,
            queues: BTreeMap::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            bytes: 0,
            packets: 0,
            counters: Counters::default(),
        }
    }

    /// The counters of the direction behind the queues, with theirs.
    pub fn counters_with(&self, behind: Counters) -> Counters {
        let before = self.counters;
        Counters {
            offered: behind.offered + before.dropped_full + before.dropped_early,
            dropped_full: behind.dropped_full + before.dropped_full,
            dropped_early: behind.dropped_early + before.dropped_early,
            queue_bytes_peak: before.queue_bytes_peak,
            ..behind
        }
    }

    pub(crate) fn forget_counters(&mut self) {
        self.counters = Counters {
            queue_bytes_peak: self.bytes,
            ..Counters::default()
        };
    }

    /// Adds a packet of a flow. Returns packets that exceed the buffer, from the head of the longest
    /// queue (RFC 8290 4.1).
    pub fn enqueue(&mut self, now: Instant, flow: u32, datagram: u32, bytes: u32) -> Vec<Waiting> {
        // In place of a hash of addresses and ports (RFC 8290 4.1): numbers of hosts are consecutive, so flows
        // share a queue only beyond QUEUES hosts.
        let number = flow % QUEUES;
        let spec = &self.spec;
        let queue = self.queues.entry(number).or_insert_with(|| FlowQueue {
            packets: VecDeque::new(),
            bytes: 0,
            credit: 0,
            codel: CoDel::new(spec),
            is_active: false,
        });
        // RFC 8290 4.1: a flow without queued packets starts as new, with one quantum.
        if !queue.is_active {
            queue.is_active = true;
            queue.credit = i64::from(spec.mtu_bytes);
            self.new.push_back(number);
        }
        let since = now;
        queue.packets.push_back(Waiting {
            datagram,
            bytes,
            since,
        });
        queue.bytes += u64::from(bytes);
        self.bytes += u64::from(bytes);
        self.packets += 1;
        // From the longest queue: an unresponsive flow cannot push out packets of others (RFC 8290 4.1).
        let mut dropped = Vec::new();
        while self.bytes > self.limit.bytes || self.packets > self.limit.packets as usize {
            let longest = self.queues.iter().max_by_key(|(_, queue)| queue.bytes);
            let Some(number) = longest.map(|(number, _)| *number) else {
                break;
            };
            dropped.extend(self.take(number));
            self.counters.dropped_full += 1;
        }
        self.counters.queue_bytes_peak = self.counters.queue_bytes_peak.max(self.bytes);
        dropped
    }

    /// Takes the first packet of a queue.
    fn take(&mut self, number: u32) -> Option<Waiting> {
        let queue = self.queues.get_mut(&number)?;
        let packet = queue.packets.pop_front()?;
        queue.bytes -= u64::from(packet.bytes);
        self.bytes -= u64::from(packet.bytes);
        self.packets -= 1;
        Some(packet)
    }

    /// Takes the next packet for the line (RFC 8290 4.2). Packets that CoDel drops before it are added
    /// to `dropped`.
    pub fn dequeue(&mut self, now: Instant, dropped: &mut Vec<Waiting>) -> Option<Waiting> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let number = *list.front()?;
            let queue = self.queues.get_mut(&number)?;
            // The deficit of a packet larger than the credit is paid in the next turns.
            if queue.credit <= 0 {
                queue.credit += i64::from(self.spec.mtu_bytes);
                list.pop_front();
                self.old.push_back(number);
                continue;
            }
            if let Some(packet) = self.first_of(number, now, dropped) {
                return Some(packet);
            }
            // An empty queue: a new one becomes old, so that it cannot return as new at once.
            if is_new {
                self.new.pop_front();
                self.old.push_back(number);
            } else {
                self.old.pop_front();
                if let Some(queue) = self.queues.get_mut(&number) {
                    queue.is_active = false;
                }
            }
        }
    }

    /// Takes the first packet of a queue that CoDel passes.
    fn first_of(
        &mut self,
        number: u32,
        now: Instant,
        dropped: &mut Vec<Waiting>,
    ) -> Option<Waiting> {
        while let Some(packet) = self.take(number) {
            let queue = self.queues.get_mut(&number)?;
            let waited = now.since(packet.since);
            // Packets leave one by one here, so the bytes behind the head are known, as RFC 8289 5 uses them.
            let behind = queue.bytes;
            if queue.codel.at_head(now, waited, behind, false) != Fate::Drop {
                queue.credit -= i64::from(packet.bytes);
                return Some(packet);
            }
            self.counters.dropped_early += 1;
            dropped.push(packet);
        }
        if let Some(queue) = self.queues.get_mut(&number) {
            queue.codel.empty();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use carob_cc::time::Duration;

    use super::*;

    const SPEC: CoDelSpec = CoDelSpec {
        target: Duration::from_millis(100),
        interval: Duration::from_millis(1_000),
        mtu_bytes: 1_000,
        ecn: false,
    };

    fn ms(millis: u64) -> Instant {
        Instant::from_micros(millis * 1_000)
    }

    /// Datagrams in the order of a line that takes a millisecond for each byte, after all have arrived.
    fn order(queue: &mut FairQueue, count: usize) -> Vec<u32> {
        let (mut now, mut dropped) = (0, Vec::new());
        let mut next = || {
            let packet = queue.dequeue(ms(now), &mut dropped)?;
            now += u64::from(packet.bytes) / 1_000;
            Some(packet.datagram)
        };
        std::iter::from_fn(&mut next).take(count).collect()
    }

    #[test]
    fn flows_share_the_line_by_bytes() {
        let mut queue = FairQueue::new(&SPEC, Buffer::bytes(1 << 30));
        for k in 0..60 {
            queue.enqueue(ms(0), 1, 100 + k, 1_000);
            queue.enqueue(ms(0), 2, 200 + 2 * k, 500);
            queue.enqueue(ms(0), 2, 201 + 2 * k, 500);
        }
        let order = order(&mut queue, 90);
        let of_first = order.iter().filter(|datagram| **datagram < 200).count();
        // A packet of 1,000 bytes for two of 500.
        assert_eq!(of_first, 30, "{order:?}");
    }

    #[test]
    fn a_sparse_flow_passes_a_standing_queue() {
        let mut queue = FairQueue::new(&SPEC, Buffer::bytes(1 << 30));
        for k in 0..10 {
            queue.enqueue(ms(0), 1, k, 1_000);
        }
        let mut dropped = Vec::new();
        let first = queue
            .dequeue(ms(0), &mut dropped)
            .map(|packet| packet.datagram);
        queue.enqueue(ms(1), 2, 99, 100);
        let mut next = || Some(queue.dequeue(ms(2), &mut dropped)?.datagram);
        // The first flow has used its credit, so the new one is next.
        assert_eq!([first, next(), next()], [Some(0), Some(99), Some(1)]);
    }

    #[test]
    fn a_full_buffer_drops_the_head_of_the_longest_queue() {
        let mut queue = FairQueue::new(&SPEC, Buffer::bytes(5_000));
        for k in 0..5 {
            assert!(queue.enqueue(ms(0), 1, k, 1_000).is_empty());
        }
        let dropped = queue.enqueue(ms(0), 2, 9, 500);
        assert_eq!(dropped.iter().map(|p| p.datagram).collect::<Vec<_>>(), [0]);
        assert_eq!(queue.counters.dropped_full, 1);
        assert_eq!(order(&mut queue, 9), [1, 9, 2, 3, 4]);
    }

    #[test]
    fn a_standing_queue_is_cut_by_codel_and_a_sparse_one_is_not() {
        // Load 2 of one flow, and a packet of another every second.
        let mut queue = FairQueue::new(&SPEC, Buffer::bytes(1 << 30));
        let (mut dropped, mut waits) = (Vec::new(), Vec::new());
        for second in 0..100 {
            for k in 0..20 {
                queue.enqueue(ms(second * 1_000 + k * 50), 1, 1, 1_000);
            }
            queue.enqueue(ms(second * 1_000 + 950), 2, 2, 100);
            for k in 0..10 {
                let now = ms(second * 1_000 + k * 100 + 99);
                if let Some(packet) = queue.dequeue(now, &mut dropped)
                    && packet.datagram == 2
                {
                    waits.push(now.since(packet.since).as_millis());
                }
            }
        }
        assert!(dropped.len() > 100 && dropped.iter().all(|p| p.datagram == 1));
        assert!(
            waits.len() >= 99 && waits.iter().all(|wait| *wait < 200),
            "{waits:?}"
        );
    }
}
