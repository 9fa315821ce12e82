//! Message counters by node and over time.

use carob_cc::time::{Duration, Instant};
use carob_proto::codec::Type;
use carob_proto::trace::TraceEvent;

use super::Node;
use super::message::{AppMessage, ReceivedNumbers, TrafficClass};
use super::record::{MeshBin, MeshRecord, Moment, MomentKind, NodeRecord, Traced};
use super::spec::{DelayBins, MeshSpec};
use crate::spec::Recording;

/// Messages within this time of a burst's beginning count as near it.
const NEAR: Duration = Duration::from_secs(10);

/// The counters of a run, from the beginning of the traffic.
#[derive(Debug)]
pub(crate) struct Counts {
    begin: Instant,
    bin: Duration,
    delay_bins: DelayBins,
    /// The first common burst, and the time between two.
    bursts: Option<(Instant, Option<Duration>)>,
    pub(crate) record: MeshRecord,
    got: Vec<ReceivedNumbers>,
    /// Start of each node's current time without a parent.
    orphan_since: Vec<Option<Instant>>,
    /// Retransmissions of the traced node in this bin.
    traced_copies: u32,
    /// Recorded moments, and their maximum.
    pub(super) moments: Vec<Moment>,
    moments_max: usize,
}

impl Counts {
    pub(crate) fn new(mesh: &MeshSpec, nodes: usize, recording: &Recording) -> Self {
        let begin = Instant::ZERO + mesh.warm_up;
        let bins = mesh.duration.as_micros().div_ceil(mesh.bin.as_micros());
        let together = mesh.traffic.bursts.filter(|b| b.first.low == b.first.high);
        Self {
            begin,
            bin: mesh.bin,
            delay_bins: mesh.traffic.delay_bins,
            bursts: together.map(|bursts| (begin + bursts.first.low, bursts.every)),
            record: MeshRecord {
                nodes: vec![NodeRecord::default(); nodes],
                duration: mesh.duration,
                burst_at: together.map(|bursts| bursts.first.low),
                counted_bytes: mesh.traffic.counted_bytes,
                bin_width: mesh.bin,
                bins: vec![MeshBin::default(); bins as usize],
                ..MeshRecord::default()
            },
            got: vec![ReceivedNumbers::default(); nodes],
            orphan_since: vec![None; nodes],
            traced_copies: 0,
            moments: Vec::new(),
            moments_max: recording.moments.min(Recording::MOMENTS_MAX) as usize,
        }
    }

    /// Returns true if moments are recorded and there is room.
    pub(crate) fn has_room(&self) -> bool {
        self.moments.len() < self.moments_max
    }

    /// Records a moment if there is room.
    pub(crate) fn moment(&mut self, at: Instant, node: Node, what: MomentKind) {
        if self.has_room() {
            self.moments.push(Moment { at, node, what });
        }
    }

    pub(crate) fn has_begun(&self, now: Instant) -> bool {
        now >= self.begin
    }

    pub(crate) fn node(&mut self, node: Node) -> &mut NodeRecord {
        &mut self.record.nodes[usize::from(node)]
    }

    fn bin_at(&mut self, at: Instant) -> Option<&mut MeshBin> {
        if at < self.begin {
            return None;
        }
        let index = at.since(self.begin).as_micros() / self.bin.as_micros();
        self.record.bins.get_mut(index as usize)
    }

    /// Counts a message that an application generated.
    pub(crate) fn generated(&mut self, now: Instant, node: Node) {
        self.node(node).generated += 1;
        if let Some(bin) = self.bin_at(now) {
            bin.generated += 1;
        }
    }

    /// Counts a message that arrived at a sink's application, for the first time or again.
    pub(crate) fn received(&mut self, now: Instant, made: AppMessage) {
        let Some(got) = self.got.get_mut(usize::from(made.by)) else {
            return;
        };
        if !got.is_new(made.number) {
            return;
        }
        let delay = now.since(made.at);
        self.node(made.by).received += 1;
        let histogram = match made.about {
            TrafficClass::Constant => &mut self.record.delay,
            TrafficClass::Burst => &mut self.record.burst_delay,
        };
        histogram.add(delay);
        if self.is_near_burst(made.at) {
            self.record.near_burst_delay.add(delay);
        }
        let counted_at = match self.delay_bins {
            DelayBins::Generation => made.at,
            DelayBins::Reception => now,
        };
        if let Some(bin) = self.bin_at(counted_at) {
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
    pub(crate) fn on_trace(&mut self, now: Instant, node: Node, what: &TraceEvent) {
        let is_traced = self.record.traced == node;
        match what {
            TraceEvent::Sent {
                retransmissions,
                timeout,
                kind,
                ..
            } => {
                self.moment(now, node, MomentKind::Sent(*retransmissions));
                let record = self.node(node);
                record.transmissions += 1;
                if *retransmissions == 0 {
                    record.sent += 1;
                    record.confirmable += u64::from(*kind == Type::Confirmable);
                    if let Some(timeout) = timeout {
                        self.record.rto_init.add(*timeout);
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
                let record = self.node(node);
                if *retransmissions == 0 {
                    record.round_trips += 1;
                    record.round_trip_sum += *since_original;
                }
                let Some(rto) = rto else {
                    return;
                };
                record.rtos += 1;
                record.rto_sum += *rto;
                self.record.rto.add(*rto);
                self.moment(now, node, MomentKind::Rto(*rto));
                if let Some(bin) = self.bin_at(now) {
                    bin.rtos += 1;
                    bin.rto_sum += *rto;
                }
            }
            TraceEvent::NotificationDropped => self.node(node).app_drops += 1,
            TraceEvent::Abandoned { .. } => self.node(node).failed += 1,
            _ => {}
        }
    }

    /// Counts a change or loss of a node's preferred parent.
    pub(crate) fn parent_changed(
        &mut self,
        now: Instant,
        node: Node,
        from: Option<Node>,
        to: Option<Node>,
    ) {
        self.moment(now, node, MomentKind::Parent(to));
        let counts = self.has_begun(now);
        if counts && from.is_some() {
            self.node(node).parent_resets += 1;
            if let Some(bin) = self.bin_at(now) {
                bin.parent_resets += 1;
            }
        }
        match to {
            None => {
                let since = &mut self.orphan_since[usize::from(node)];
                *since = since.or(Some(now));
            }
            Some(_) => self.has_parent(now, node),
        }
    }

    fn has_parent(&mut self, now: Instant, node: Node) {
        let Some(since) = self.orphan_since[usize::from(node)].take() else {
            return;
        };
        let time = now.since(since.max(self.begin).min(now));
        let record = self.node(node);
        record.orphan += time;
        record.orphan_longest = record.orphan_longest.max(time);
    }

    /// Samples the traced node at the end of the bin before `now`.
    pub(crate) fn trace(&mut self, mut traced: Traced) {
        traced.retransmissions = std::mem::take(&mut self.traced_copies);
        self.record.trace.push(traced);
    }

    /// Ends the run.
    pub(crate) fn into_record(mut self, now: Instant) -> MeshRecord {
        for node in 0..self.record.nodes.len() {
            self.has_parent(now, node as Node);
        }
        self.record
    }
}
