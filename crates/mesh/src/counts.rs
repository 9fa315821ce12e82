//! Counters by node and over time.

use carob_cc::time::{Duration, Instant};

use super::Node;
use super::record::{MeshBin, MeshRecord, Moment, MomentKind, NodeRecord};
use super::spec::MeshSpec;

/// The counters of a run, from the beginning of the traffic.
#[derive(Debug)]
pub struct Counts {
    begin: Instant,
    bin: Duration,
    /// The record so far, to which applications add their counters.
    pub record: MeshRecord,
    /// Start of each node's current time without a parent.
    orphan_since: Vec<Option<Instant>>,
    /// Recorded moments, and their maximum.
    moments: Vec<Moment>,
    moments_max: usize,
}

impl Counts {
    pub(super) fn new(mesh: &MeshSpec, nodes: usize, moments_max: u32) -> Self {
        let bins = mesh.duration.as_micros().div_ceil(mesh.bin.as_micros());
        Self {
            begin: Instant::ZERO + mesh.warm_up,
            bin: mesh.bin,
            record: MeshRecord {
                nodes: vec![NodeRecord::default(); nodes],
                duration: mesh.duration,
                bin_width: mesh.bin,
                bins: vec![MeshBin::default(); bins as usize],
                ..MeshRecord::default()
            },
            orphan_since: vec![None; nodes],
            moments: Vec::new(),
            moments_max: moments_max as usize,
        }
    }

    /// Returns true if moments are recorded and there is room.
    pub(super) fn has_room(&self) -> bool {
        self.moments.len() < self.moments_max
    }

    /// Records a moment if there is room.
    pub fn moment(&mut self, at: Instant, node: Node, what: MomentKind) {
        if self.has_room() {
            self.moments.push(Moment { at, node, what });
        }
    }

    /// Returns whether the warm-up is over.
    pub fn has_begun(&self, now: Instant) -> bool {
        now >= self.begin
    }

    /// The counters of a node.
    pub fn node(&mut self, node: Node) -> &mut NodeRecord {
        &mut self.record.nodes[usize::from(node)]
    }

    /// The bin of a time; none before the end of the warm-up and after the last.
    pub fn bin_at(&mut self, at: Instant) -> Option<&mut MeshBin> {
        if at < self.begin {
            return None;
        }
        let index = at.since(self.begin).as_micros() / self.bin.as_micros();
        self.record.bins.get_mut(index as usize)
    }

    /// Counts a change or loss of a node's preferred parent.
    pub(super) fn parent_changed(
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

    /// Ends the run. Returns the record and the recorded moments.
    pub(super) fn into_record(mut self, now: Instant) -> (MeshRecord, Vec<Moment>) {
        for node in 0..self.record.nodes.len() {
            self.has_parent(now, node as Node);
        }
        (self.record, self.moments)
    }
}
