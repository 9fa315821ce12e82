//! Counting what becomes of messages, by node and over time.

use carob_cc::time::{Duration, Instant};
use carob_proto::codec::Type;
use carob_proto::trace::What;

use super::Node;
use super::message::{About, Got, Made};
use super::record::{MeshBin, MeshRecord, NodeRecord, Traced};
use super::spec::MeshSpec;

/// How long after its beginning a burst counts as near.
const NEAR: Duration = Duration::from_secs(10);

/// The counts of a run, which begin with the traffic.
#[derive(Debug)]
pub(super) struct Counts {
    begin: Instant,
    bin: Duration,
    /// The first burst of all nodes at once, and the time between two.
    bursts: Option<(Instant, Option<Duration>)>,
    pub(super) record: MeshRecord,
    got: Vec<Got>,
    /// Since when nodes have had no parent.
    orphan_since: Vec<Option<Instant>>,
    /// Copies that the traced node has sent in this span.
    traced_copies: u32,
}

impl Counts {
    pub(super) fn new(mesh: &MeshSpec, nodes: usize) -> Self {
        let begin = Instant::ZERO + mesh.warm_up;
        let bins = mesh.duration.as_micros().div_ceil(mesh.bin.as_micros());
        let together = mesh.traffic.bursts.filter(|b| b.first.low == b.first.high);
        Self {
            begin,
            bin: mesh.bin,
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
            got: vec![Got::default(); nodes],
            orphan_since: vec![None; nodes],
            traced_copies: 0,
        }
    }

    pub(super) fn has_begun(&self, now: Instant) -> bool {
        now >= self.begin
    }

    pub(super) fn node(&mut self, node: Node) -> &mut NodeRecord {
        &mut self.record.nodes[usize::from(node)]
    }

    fn bin_at(&mut self, at: Instant) -> Option<&mut MeshBin> {
        if at < self.begin {
            return None;
        }
        let index = at.since(self.begin).as_micros() / self.bin.as_micros();
        self.record.bins.get_mut(index as usize)
    }

    /// An application has made a message.
    pub(super) fn generated(&mut self, now: Instant, node: Node) {
        self.node(node).generated += 1;
        if let Some(bin) = self.bin_at(now) {
            bin.generated += 1;
        }
    }

    /// A sink's application has got a message, for the first time or again.
    pub(super) fn received(&mut self, now: Instant, made: Made) {
        let Some(got) = self.got.get_mut(usize::from(made.by)) else {
            return;
        };
        if !got.is_new(made.number) {
            return;
        }
        let delay = now.since(made.at);
        self.node(made.by).received += 1;
        let histogram = match made.about {
            About::Constant => &mut self.record.delay,
            About::Burst => &mut self.record.burst_delay,
        };
        histogram.add(delay);
        if self.is_near_burst(made.at) {
            self.record.near_burst_delay.add(delay);
        }
        if let Some(bin) = self.bin_at(made.at) {
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

    /// A node's endpoint says what it does.
    pub(super) fn says(&mut self, now: Instant, node: Node, what: &What) {
        let is_traced = self.record.traced == node;
        match what {
            What::Sent {
                retransmissions,
                timeout,
                kind,
                ..
            } => {
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
            What::Answered { rto: Some(rto), .. } => {
                self.record.rto.add(*rto);
                let record = self.node(node);
                record.rtos += 1;
                record.rto_sum += *rto;
                if let Some(bin) = self.bin_at(now) {
                    bin.rtos += 1;
                    bin.rto_sum += *rto;
                }
            }
            What::NotificationDropped => self.node(node).app_drops += 1,
            What::Abandoned { .. } => self.node(node).failed += 1,
            _ => {}
        }
    }

    /// A node's preferred parent is another now, or it has none.
    pub(super) fn parent_changed(
        &mut self,
        now: Instant,
        node: Node,
        from: Option<Node>,
        to: Option<Node>,
    ) {
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

    /// The traced node at the end of the span before `now`.
    pub(super) fn trace(&mut self, mut traced: Traced) {
        traced.retransmissions = std::mem::take(&mut self.traced_copies);
        self.record.trace.push(traced);
    }

    /// The run is over.
    pub(super) fn into_record(mut self, now: Instant) -> MeshRecord {
        for node in 0..self.record.nodes.len() {
            self.has_parent(now, node as Node);
        }
        self.record
    }
}
