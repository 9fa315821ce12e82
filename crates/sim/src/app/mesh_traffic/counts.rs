//! Counters of the messages, by node and over time, in the record of the mesh; payloads that carry what the sink counts:
//! origin, number and time.

use carob_cc::time::{Duration, Instant};
use carob_proto::codec::Type;
use carob_proto::trace::TraceEvent;

use crate::mesh::record::{MomentKind, Traced};
use crate::mesh::{Counts, Node};
use crate::spec::mesh_traffic::{DelayBins, HEADER_BYTES, MeshTraffic};

/// Messages within this time of a burst's beginning count as near it.
const NEAR: Duration = Duration::from_secs(10);

/// State of the counters of messages.
#[derive(Debug)]
pub(super) struct MessageCounts {
    delay_bins: DelayBins,
    /// The first common burst, and the time between two.
    bursts: Option<(Instant, Option<Duration>)>,
    received: Vec<ReceivedNumbers>,
    /// Retransmissions of the traced node in this bin.
    traced_copies: u32,
}

impl MessageCounts {
    /// Counters of traffic that starts at `begin`.
    pub(super) fn new(traffic: &MeshTraffic, begin: Instant, counts: &mut Counts) -> Self {
        let together = traffic.bursts.filter(|b| b.first.low == b.first.high);
        counts.record.burst_at = together.map(|bursts| bursts.first.low);
        counts.record.counted_bytes = traffic.counted_bytes;
        Self {
            delay_bins: traffic.delay_bins,
            bursts: together.map(|bursts| (begin + bursts.first.low, bursts.every)),
            received: vec![ReceivedNumbers::default(); counts.record.nodes.len()],
            traced_copies: 0,
        }
    }

    /// Counts a message that arrived at a sink's application, for the first time or again.
    pub(super) fn received(&mut self, counts: &mut Counts, now: Instant, made: AppMessage) {
        let Some(numbers) = self.received.get_mut(usize::from(made.by)) else {
            return;
        };
        if !numbers.is_new(made.number) {
            return;
        }
        let delay = now.since(made.at);
        counts.node(made.by).received += 1;
        let histogram = match made.about {
            TrafficClass::Constant => &mut counts.record.delay,
            TrafficClass::Burst => &mut counts.record.burst_delay,
        };
        histogram.add(delay);
        if self.is_near_burst(made.at) {
            counts.record.near_burst_delay.add(delay);
        }
        let counted_at = match self.delay_bins {
            DelayBins::Generation => made.at,
            DelayBins::Reception => now,
        };
        if let Some(bin) = counts.bin_at(counted_at) {
            bin.received += 1;
            bin.delay += delay;
        }
    }

    fn is_near_burst(&self, at: Instant) -> bool {
        let Some((first, every)) = self.bursts else {
            return false;
        };
        if at < first {
            return false;
        }
        let since = at.since(first).as_micros();
        let since = every.map_or(since, |every| since % every.as_micros());
        since <= NEAR.as_micros()
    }

    /// Counts a trace event of a node's endpoint.
    pub(super) fn on_trace(
        &mut self,
        counts: &mut Counts,
        now: Instant,
        node: Node,
        what: &TraceEvent,
    ) {
        let is_traced = counts.record.traced == node;
        match what {
            TraceEvent::Sent {
                retransmissions,
                timeout,
                kind,
                ..
            } => {
                counts.moment(now, node, MomentKind::Sent(*retransmissions));
                let record = counts.node(node);
                record.transmissions += 1;
                if *retransmissions == 0 {
                    record.sent += 1;
                    record.confirmable += u64::from(*kind == Type::Confirmable);
                    if let Some(timeout) = timeout {
                        counts.record.rto_init.add(*timeout);
                    }
                } else {
                    record.retransmissions += 1;
                    self.traced_copies += u32::from(is_traced);
                }
            }
            TraceEvent::Answered {
                retransmissions,
                since_original,
                rto,
                ..
            } => {
                let record = counts.node(node);
                // After a retransmission, the time since the original contains its timeout.
                if *retransmissions == 0 {
                    record.round_trips += 1;
                    record.round_trip_sum += *since_original;
                }
                let Some(rto) = rto else {
                    return;
                };
                record.rtos += 1;
                record.rto_sum += *rto;
                counts.record.rto.add(*rto);
                counts.moment(now, node, MomentKind::Rto(*rto));
                if let Some(bin) = counts.bin_at(now) {
                    bin.rtos += 1;
                    bin.rto_sum += *rto;
                }
            }
            TraceEvent::NotificationDropped => counts.node(node).app_drops += 1,
            TraceEvent::Abandoned { .. } => counts.node(node).failed += 1,
            _ => {}
        }
    }

    /// Samples the traced node at the end of the bin before `now`.
    pub(super) fn trace(&mut self, counts: &mut Counts, mut traced: Traced) {
        traced.retransmissions = std::mem::take(&mut self.traced_copies);
        counts.record.trace.push(traced);
    }
}

/// Counts a message that an application generated.
pub(super) fn generated(counts: &mut Counts, now: Instant, node: Node) {
    counts.node(node).generated += 1;
    if let Some(bin) = counts.bin_at(now) {
        bin.generated += 1;
    }
}

/// The traffic that a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TrafficClass {
    /// Constant traffic.
    Constant,
    /// A burst.
    Burst,
}

/// A message of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AppMessage {
    pub(super) by: Node,
    /// Its number among its node's messages that were not dropped at once.
    pub(super) number: u32,
    pub(super) at: Instant,
    pub(super) about: TrafficClass,
}

impl AppMessage {
    /// Writes the message to the front of a payload.
    pub(super) fn write(&self, payload: &mut [u8]) {
        let Some(header) = payload.first_chunk_mut::<{ HEADER_BYTES as usize }>() else {
            return;
        };
        header[..2].copy_from_slice(&self.by.to_be_bytes());
        header[2..6].copy_from_slice(&self.number.to_be_bytes());
        header[6..14].copy_from_slice(&self.at.as_micros().to_be_bytes());
        header[14] = match self.about {
            TrafficClass::Constant => 1,
            TrafficClass::Burst => 2,
        };
    }

    /// Reads the message from a payload; none if there is none.
    pub(super) fn read(payload: &[u8]) -> Option<Self> {
        let header = payload.first_chunk::<{ HEADER_BYTES as usize }>()?;
        let [a, b, n0, n1, n2, n3, at @ .., about] = *header;
        Some(Self {
            by: Node::from_be_bytes([a, b]),
            number: u32::from_be_bytes([n0, n1, n2, n3]),
            at: Instant::from_micros(u64::from_be_bytes(at)),
            about: match about {
                1 => TrafficClass::Constant,
                2 => TrafficClass::Burst,
                _ => return None,
            },
        })
    }
}

/// The received message numbers of a node: the highest, and a window below it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReceivedNumbers {
    next: u32,
    /// Bit `k`: number `next - 1 - k` was received.
    below: u128,
}

impl ReceivedNumbers {
    /// Records a number. Returns whether it is new; numbers below the window count as old.
    pub(super) fn is_new(&mut self, number: u32) -> bool {
        if number >= self.next {
            // A gap of 128 or more leaves no earlier number in the window.
            let gap = number - self.next + 1;
            self.below = self.below.checked_shl(gap).unwrap_or(0) | 1;
            self.next = number + 1;
            return true;
        }
        let back = self.next - 1 - number;
        let Some(bit) = 1_u128.checked_shl(back) else {
            return false;
        };
        let is_new = self.below & bit == 0;
        self.below |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_identifies_its_sender() {
        let made = AppMessage {
            by: 300,
            number: 70_000,
            at: Instant::from_micros(1 << 40),
            about: TrafficClass::Burst,
        };
        let mut payload = [0; 20];
        made.write(&mut payload);
        assert_eq!(AppMessage::read(&payload), Some(made));
        assert_eq!(AppMessage::read(&payload[..10]), None);
        assert_eq!(AppMessage::read(&[0; 20]), None);
    }

    #[test]
    fn message_numbers_are_new_once() {
        let mut got = ReceivedNumbers::default();
        assert!(got.is_new(0) && got.is_new(5) && got.is_new(3));
        assert!(!got.is_new(0) && !got.is_new(5) && !got.is_new(3));
        assert!(got.is_new(4) && got.is_new(1));
        assert!(got.is_new(1_000));
        assert!(!got.is_new(5), "beyond reach");
        assert!(got.is_new(999));
    }
}
