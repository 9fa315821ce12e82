//! The receiving half: reassembly, receive window, and delayed acknowledgments.

use std::collections::VecDeque;

use bytes::Bytes;
use carob_cc::time::{Duration, Instant};

use super::settings::{DelayedAck, TcpSettings};

/// The maximum number of out-of-order segments; further ones are dropped.
pub const OUT_OF_ORDER_MAX: usize = 1 << 16;
/// Linux: the maximum of the adaptive ACK delay.
const ADAPTIVE_DELAY_MAX: Duration = Duration::from_millis(500);

/// The acknowledgment due after a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// None: it carried no data.
    Nothing,
    /// An ACK at once.
    Now,
    /// An ACK at the timer's expiry, or with data.
    Later,
}

#[derive(Clone, Debug)]
pub(super) struct Receiver {
    /// The next expected position.
    pub(super) next: u64,
    /// Position behind the peer's FIN, once received.
    pub(super) fin: Option<u64>,
    ready: VecDeque<Bytes>,
    ready_bytes: u64,
    /// Pieces beyond `next`, disjoint and sorted.
    early: VecDeque<(u64, Bytes)>,
    /// Contiguous ranges of `early`, sorted, each with the time of its last growth.
    ranges: Vec<Range>,
    touches: u32,
    capacity: u64,
    mss: u64,
    /// The highest position ever offered.
    edge: u64,
    ack: AckPolicy,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    end: u64,
    touched: u32,
}

/// The policy of delayed acknowledgments.
#[derive(Clone, Debug)]
struct AckPolicy {
    kind: DelayedAck,
    delay: Duration,
    every: u64,
    quick_most: u32,
    /// Remaining segments to be acknowledged at once.
    quick: u32,
    /// Linux: the adaptive delay, which follows the arrivals; zero before the first.
    adaptive: Duration,
    last_arrival: Instant,
    /// `next` when the last ACK was sent.
    acknowledged: u64,
    deadline: Option<Instant>,
}

impl Receiver {
    pub(super) fn new(settings: &TcpSettings) -> Self {
        let linux = settings.delayed_ack == DelayedAck::Linux;
        Self {
            next: 0,
            fin: None,
            ready: VecDeque::new(),
            ready_bytes: 0,
            early: VecDeque::new(),
            ranges: Vec::new(),
            touches: 0,
            capacity: u64::from(settings.receive_window),
            mss: u64::from(settings.mss),
            edge: 0,
            ack: AckPolicy {
                kind: settings.delayed_ack,
                delay: settings.ack_delay,
                every: u64::from(settings.ack_every),
                quick_most: settings.quick_acks,
                quick: if linux { 0 } else { settings.quick_acks },
                adaptive: Duration::ZERO,
                last_arrival: Instant::ZERO,
                acknowledged: 0,
                deadline: None,
            },
        }
    }

    /// Handles the peer's SYN; its data comes in segments of at most `mss` bytes.
    pub(super) fn synchronise(&mut self, mss: u32) {
        self.next = 1;
        self.mss = u64::from(mss);
        self.ack.acknowledged = 1;
    }

    /// The window to offer: the free space, never shrinking the offered window.
    pub(super) fn window(&mut self) -> u64 {
        let free = self.capacity.saturating_sub(self.ready_bytes);
        // Small increases are withheld (RFC 9293 3.8.6.2.2).
        if self.next + free >= self.edge + self.mss.min(self.capacity / 2) {
            self.edge = self.next + free;
        }
        self.edge.saturating_sub(self.next)
    }

    /// Returns whether reading has increased the window enough for an update to the peer.
    pub(super) fn window_opened(&self) -> bool {
        let free = self.capacity.saturating_sub(self.ready_bytes);
        let offered = self.edge.saturating_sub(self.next);
        // Only with two segments more, or half of the buffer free: smaller updates would have the peer send small
        // segments (silly window syndrome, RFC 9293 3.8.6.2.2).
        offered < 2 * self.mss && free >= (self.capacity / 2).min(offered + 2 * self.mss)
    }

    /// The next bytes in order.
    pub(super) fn read(&mut self) -> Option<Bytes> {
        let bytes = self.ready.pop_front()?;
        self.ready_bytes -= bytes.len() as u64;
        Some(bytes)
    }

    /// Bytes to be read.
    pub(super) fn readable(&self) -> u64 {
        self.ready_bytes
    }

    /// Returns whether all of the peer's data was received, its FIN included.
    pub(super) fn finished(&self) -> bool {
        self.fin.is_some_and(|end| self.next >= end)
    }

    /// Returns whether a segment at `[start, end)` overlaps the window (RFC 9293 3.10.7.4).
    pub(super) fn accepts(&self, start: u64, end: u64) -> bool {
        let edge = self.edge.max(self.next);
        if start == end {
            return start == self.next || (start > self.next && start < edge);
        }
        end > self.next && start < edge
    }

    /// Accepts data at `start`, and a FIN behind it.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        start: u64,
        mut data: Bytes,
        fin: bool,
        srtt: Option<Duration>,
        rto: Duration,
    ) -> Due {
        let full = start + data.len() as u64;
        // A FIN outside the offered window is not accepted, like data (RFC 9293 3.10.7.4).
        if fin && (self.next..=self.edge).contains(&full) {
            self.fin.get_or_insert(full + 1);
        }
        if data.is_empty() && !fin {
            return Due::Nothing;
        }
        let mut start = start;
        if start < self.next {
            let old = ((self.next - start) as usize).min(data.len());
            data = data.slice(old..);
            start = self.next;
            if data.is_empty() && !(fin && self.fin == Some(self.next + 1)) {
                // Received before: the peer needs an ACK (RFC 9293 3.10.7.4), as for the segments
                // that follow.
                self.saw_duplicate();
                return Due::Now;
            }
        }
        let most = (self.edge.saturating_sub(start) as usize).min(data.len());
        let cut = most < data.len();
        data.truncate(most);
        if start > self.next {
            self.keep(start, data);
            return Due::Now; // RFC 5681 4.2
        }
        self.ack.arrived(now, rto);
        if !data.is_empty() {
            self.next += data.len() as u64;
            self.ready_bytes += data.len() as u64;
            self.ready.push_back(data);
        }
        let holes = !self.early.is_empty();
        if holes {
            self.join();
        }
        if self.fin == Some(self.next + 1) {
            self.next += 1;
        }
        if cut || holes || self.finished() {
            return Due::Now; // filling a hole, whole or in part: RFC 5681 4.2
        }
        self.ack.in_order(now, self.next, self.mss, srtt)
    }

    /// Handles a duplicate segment.
    pub(super) fn saw_duplicate(&mut self) {
        self.ack.quick = self.ack.quick_most;
    }

    /// Stores data beyond the next position.
    fn keep(&mut self, mut start: u64, mut data: Bytes) {
        // Known parts are removed.
        let at = self.early.partition_point(|(other, _)| *other <= start);
        if let Some((other, bytes)) = at.checked_sub(1).and_then(|k| self.early.get(k)) {
            let end = other + bytes.len() as u64;
            if end > start {
                let old = ((end - start) as usize).min(data.len());
                data = data.slice(old..);
                start += old as u64;
            }
        }
        let (from, mut at) = (start, at);
        // A piece may cover several others: the parts between them are stored.
        while !data.is_empty() && self.early.len() < OUT_OF_ORDER_MAX {
            let (most, skip) = match self.early.get(at) {
                Some((other, bytes)) if *other < start + data.len() as u64 => {
                    ((other - start) as usize, bytes.len())
                }
                _ => (data.len(), 0),
            };
            let gap = data.split_to(most);
            let after = start + most as u64 + skip.min(data.len()) as u64;
            if !gap.is_empty() {
                let end = start + gap.len() as u64;
                self.early.insert(at, (start, gap));
                self.cover(start, end);
                at += 1;
            }
            let _ = data.split_to(skip.min(data.len()));
            start = after;
            at += usize::from(skip > 0);
        }
        self.touch(from);
    }

    /// Adds `[start, end)` to the ranges.
    fn cover(&mut self, mut start: u64, mut end: u64) {
        let low = self.ranges.partition_point(|range| range.end < start);
        let high = self.ranges.partition_point(|range| range.start <= end);
        for range in &self.ranges[low..high] {
            start = start.min(range.start);
            end = end.max(range.end);
        }
        self.touches += 1;
        let touched = self.touches;
        let merged = Range {
            start,
            end,
            touched,
        };
        self.ranges.splice(low..high, [merged]);
    }

    /// Marks the range with this position as the most recent for SACK (RFC 2018 4).
    fn touch(&mut self, position: u64) {
        let at = self.ranges.partition_point(|range| range.end < position);
        if let Some(range) = self.ranges.get_mut(at) {
            self.touches += 1;
            range.touched = self.touches;
        }
    }

    /// Moves contiguous data to the in-order data.
    fn join(&mut self) {
        while let Some((start, _)) = self.early.front() {
            if *start > self.next {
                break;
            }
            let Some((start, bytes)) = self.early.pop_front() else {
                break;
            };
            let old = ((self.next - start) as usize).min(bytes.len());
            let bytes = bytes.slice(old..);
            if !bytes.is_empty() {
                self.next += bytes.len() as u64;
                self.ready_bytes += bytes.len() as u64;
                self.ready.push_back(bytes);
            }
        }
        let done = self.ranges.partition_point(|range| range.end <= self.next);
        self.ranges.drain(..done);
    }

    /// Up to `most` ranges beyond the next position, the most recent first (RFC 2018 4).
    pub(super) fn sack_blocks(&self, most: usize, mut each: impl FnMut(u64, u64)) {
        let mut below = u32::MAX;
        for _ in 0..most {
            let latest = self.ranges.iter().filter(|range| range.touched < below);
            let Some(range) = latest.max_by_key(|range| range.touched) else {
                return;
            };
            each(range.start, range.end);
            below = range.touched;
        }
    }

    /// Records that an ACK was sent, alone or with data.
    pub(super) fn acknowledged(&mut self) {
        self.ack.acknowledged = self.next;
        self.ack.deadline = None;
        self.ack.quick = self.ack.quick.saturating_sub(1);
    }

    /// The time of the delayed ACK.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.ack.deadline
    }

    /// Handles the timer's expiry. Returns whether an ACK is due.
    pub(super) fn handle_timeout(&mut self, now: Instant, rto: Duration) -> bool {
        if self.ack.deadline.is_none_or(|deadline| deadline > now) {
            return false;
        }
        self.ack.deadline = None;
        if self.ack.kind == DelayedAck::Linux {
            // The delay was too short to see the next segment.
            self.ack.adaptive = self.ack.adaptive.times(2).min(rto);
        }
        true
    }
}

impl AckPolicy {
    /// Linux: adapts the delay to the time between arrivals (`tcp_event_data_recv`).
    fn arrived(&mut self, now: Instant, rto: Duration) {
        let gap = now.since(self.last_arrival);
        self.last_arrival = now;
        if self.kind != DelayedAck::Linux {
            return;
        }
        if self.adaptive.is_zero() {
            self.quick = self.quick_most;
            self.adaptive = self.delay;
        } else if gap <= self.delay.half() {
            self.adaptive = self.adaptive.half() + self.delay.half();
        } else if gap < self.adaptive {
            self.adaptive = (self.adaptive.half() + gap).min(rto);
        } else if gap > rto {
            // The sender has probably restarted.
            self.quick = self.quick_most;
        }
    }

    fn in_order(&mut self, now: Instant, next: u64, mss: u64, srtt: Option<Duration>) -> Due {
        // RFC 5681 4.2 acknowledges the second full segment; Linux (`__tcp_ack_snd_check`) whatever exceeds
        // one, such as a full segment and a short one.
        let full = next.saturating_sub(self.acknowledged) >= self.every * mss;
        let more_than_one = next.saturating_sub(self.acknowledged) > (self.every - 1) * mss;
        match self.kind {
            DelayedAck::None => return Due::Now,
            DelayedAck::Constant if full => return Due::Now,
            DelayedAck::Linux if more_than_one => return Due::Now,
            _ if self.quick > 0 => return Due::Now,
            _ => {}
        }
        let delay = match self.kind {
            DelayedAck::Linux if self.adaptive > self.delay => {
                let most = srtt.map_or(ADAPTIVE_DELAY_MAX, |srtt| srtt.max(self.delay));
                self.adaptive.min(most).min(ADAPTIVE_DELAY_MAX)
            }
            _ => self.delay,
        };
        let at = now + delay;
        self.deadline = Some(self.deadline.map_or(at, |deadline| deadline.min(at)));
        Due::Later
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Stream;

    const RTO: Duration = Duration::from_secs(1);

    fn receiver(changes: &[(&str, &str)]) -> Receiver {
        let mut settings = TcpSettings::THESIS;
        for (name, value) in changes {
            settings.set(name, value).expect("a setting");
        }
        let mut receiver = Receiver::new(&settings);
        receiver.synchronise(settings.mss);
        receiver.window();
        receiver
    }

    fn give(receiver: &mut Receiver, start: u64, end: u64) -> Due {
        let bytes: Vec<u8> = (start..end).map(|at| at as u8).collect();
        receiver.receive(Instant::ZERO, start, bytes.into(), false, None, RTO)
    }

    fn all(receiver: &mut Receiver) -> Vec<u8> {
        let mut bytes = Vec::new();
        while let Some(piece) = receiver.read() {
            bytes.extend_from_slice(&piece);
        }
        bytes
    }

    fn blocks(receiver: &Receiver) -> Vec<(u64, u64)> {
        let mut blocks = Vec::new();
        receiver.sack_blocks(4, |start, end| blocks.push((start, end)));
        blocks
    }

    #[test]
    fn overlapping_segments_are_delivered_once_in_order() {
        let mut stream = Stream::new(1, "pieces");
        for _ in 0..300 {
            let mut r = receiver(&[]);
            let expected: Vec<u8> = (1..=400_u64).map(|at| at as u8).collect();
            let mut seen = Vec::new();
            while r.next < 401 {
                let start = 1 + stream.next_u64() % 400;
                let end = (start + 1 + stream.next_u64() % 60).min(401);
                give(&mut r, start, end);
                seen.append(&mut all(&mut r));
                // Ranges are disjoint, apart, and beyond the next expected position.
                let mut stretches = r.ranges.clone();
                stretches.sort_by_key(|range| range.start);
                assert!(stretches.iter().all(|range| range.start > r.next));
                assert!(stretches.windows(2).all(|pair| pair[0].end < pair[1].start));
                let kept: u64 = r.early.iter().map(|(_, bytes)| bytes.len() as u64).sum();
                assert_eq!(
                    kept,
                    stretches.iter().map(|range| range.end - range.start).sum()
                );
            }
            assert_eq!(seen, expected);
        }
    }

    #[test]
    fn rfc_2018_4_blocks_are_whole_stretches_the_latest_first() {
        let mut r = receiver(&[]);
        give(&mut r, 100, 110);
        give(&mut r, 200, 210);
        give(&mut r, 110, 120);
        assert_eq!(blocks(&r), [(100, 120), (200, 210)]);
        give(&mut r, 205, 210); // nothing new, but the latest to arrive
        assert_eq!(blocks(&r), [(200, 210), (100, 120)]);
        give(&mut r, 1, 100);
        assert_eq!((r.next, blocks(&r)), (120, vec![(200, 210)]));
    }

    #[test]
    fn data_beyond_the_window_is_truncated() {
        let mut r = receiver(&[("receive_window", "300")]);
        assert_eq!(give(&mut r, 1, 400), Due::Now);
        assert_eq!((r.next, r.readable(), r.window()), (301, 300, 0));
        assert!(!r.accepts(301, 302));
        assert_eq!(all(&mut r).len(), 300);
        assert!(r.window_opened());
        assert_eq!(r.window(), 300);
    }

    #[test]
    fn a_fin_counts_only_inside_the_window() {
        let mut r = receiver(&[("receive_window", "300")]);
        for start in [5_000, 400] {
            r.receive(Instant::ZERO, start, Bytes::new(), true, None, RTO);
            assert_eq!(r.fin, None);
        }
        r.receive(Instant::ZERO, 11, Bytes::new(), true, None, RTO);
        assert!(!r.finished());
        give(&mut r, 1, 11);
        assert!(r.finished());
        assert_eq!(r.next, 12);
    }

    #[test]
    fn linux_settles_at_an_ack_for_two_segments_79_ms_apart() {
        // `docs/emulation.md`. Worked by hand from `tcp_event_data_recv`: 40 ms are too short
        // for the next segment and double to 80; 79 < 80 gives 40 + 79 = 119, and so on.
        let changes = [
            ("delayed_ack", "linux"),
            ("ack_delay", "40 ms"),
            ("quick_acks", "16"),
        ];
        let mut r = receiver(&changes);
        let mut acks = Vec::new();
        for k in 0..30_u64 {
            let now = Instant::from_micros(k * 79_000);
            if let Some(deadline) = r.deadline().filter(|&deadline| deadline <= now) {
                assert!(r.handle_timeout(deadline, RTO));
                r.acknowledged();
                acks.push(k);
            }
            let bytes = Bytes::from(vec![0; 256]);
            if r.receive(now, 1 + 256 * k, bytes, false, None, RTO) == Due::Now {
                r.acknowledged();
                acks.push(k);
            }
        }
        let expected: Vec<u64> = (0..16).chain([17]).chain((18..30).step_by(2)).collect();
        assert_eq!(acks[..17], expected[..17]);
        let later: Vec<u64> = acks[17..]
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .collect();
        assert!(later.iter().all(|&gap| gap == 2), "{acks:?}");
    }
}
