//! Counters of the messages: by node and over time, in the record of the mesh.

use carob_cc::time::{Duration, Instant};
use carob_proto::codec::Type;
use carob_proto::trace::TraceEvent;

use super::message::{AppMessage, ReceivedNumbers, TrafficClass};
use crate::mesh::record::{MomentKind, Traced};
use crate::mesh::{Counts, Node};
use crate::spec::mesh_traffic::{DelayBins, MeshTraffic};

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
