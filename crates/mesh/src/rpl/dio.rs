//! DIS and DIO: joining, probing, new versions of the DODAG.

use carob_cc::random::Random as _;
use carob_cc::time::{Duration, Instant};

use super::message::Lollipop;
use super::message::{INFINITE_RANK, Message};
use super::neighbours::Link;
use super::neighbours::Reason;
use super::{Destination, Node, Rpl, RplEvent};
use crate::spec::Release;

/// A candidate to be probed urgently is probed within this time.
const URGENT_MAX: Duration = Duration::from_secs(10);
/// Links without a sample for this time are probed first (3.0).
const STALE: Duration = Duration::from_secs(10 * 60);

impl Rpl {
    /// The DIO that the node would send now.
    pub(super) fn dio(&mut self, multicast: bool) -> Message {
        let dio = Message::Dio {
            rank: self.rank,
            version: self.version,
            dtsn: self.dtsn,
        };
        let asks = match self.spec.release {
            Release::V27 => true,
            Release::V30 => multicast,
            Release::V3x => multicast && self.is_root,
        };
        if asks {
            self.dtsn = self.dtsn.next();
        }
        dio
    }

    /// Sends a unicast DIO.
    pub(super) fn send_dio_to(&mut self, node: Node) {
        let dio = self.dio(false);
        self.send(Destination::Neighbour(node), dio);
    }

    pub(super) fn handle_dis(&mut self, now: Instant, from: Node, multicast: bool) {
        if !self.joined {
            return;
        }
        // RFC 6550 8.3: a multicast DIS resets Trickle, a unicast DIS gets a unicast DIO without a reset.
        if multicast {
            self.trickle.reset(now, &mut self.stream);
        } else if self.admit(from, Reason::Dis) {
            self.send_dio_to(from);
        }
    }

    pub(super) fn handle_dio(
        &mut self,
        now: Instant,
        from: Node,
        rank: u16,
        version: Lollipop,
        dtsn: Lollipop,
    ) {
        if self.joined && self.is_other_version(now, from, rank, version, dtsn) {
            return;
        }
        if !self.joined {
            self.join(now, from, rank, version, dtsn);
            return;
        }
        // No node is closer than the root; such a rank is invalid.
        if rank < self.root_rank() {
            return;
        }
        let poison = rank == INFINITE_RANK;
        if poison && self.spec.release < Release::V3x {
            self.trickle.reset(now, &mut self.stream);
        }
        if !self.admit(from, Reason::Dio(rank)) {
            return;
        }
        if self.is_root {
            if !poison {
                self.trickle.on_consistent();
            }
            return;
        }
        let known = self.neighbours.candidate(from);
        if known.is_some_and(|candidate| candidate.rank == rank) {
            self.trickle.on_consistent();
        }
        self.take_candidate(from, rank, dtsn);
        // The parent poisons its sub-DODAG (RFC 6550 8.2.2.5); this node's own rank changes with it.
        if poison && self.preferred == Some(from) {
            self.trickle.reset(now, &mut self.stream);
        }
        if self.spec.release >= Release::V30 {
            self.mark(from);
        }
        if !self.consider(now, from) {
            return;
        }
        let Some(candidate) = self.neighbours.candidate_mut(from) else {
            return;
        };
        // A parent requests DAOs by a higher DTSN (RFC 6550 9.6).
        let asks = dtsn.is_after(candidate.dtsn);
        candidate.dtsn = dtsn;
        if asks && self.preferred == Some(from) {
            self.dtsn = self.dtsn.next();
            self.schedule_dao(now);
        }
    }

    /// Updates a known candidate from its DIO. Its DTSN counts from its first DIO on.
    fn take_candidate(&mut self, node: Node, rank: u16, dtsn: Lollipop) {
        let fresh_link = Link::new(&self.etx_rule);
        let forgets_link = self.spec.release < Release::V30;
        let Some(neighbour) = self.neighbours.get_mut(node) else {
            return;
        };
        neighbour.rank = rank;
        if !neighbour.candidate {
            neighbour.candidate = true;
            neighbour.dtsn = dtsn;
            if forgets_link {
                neighbour.link = fresh_link;
            }
        }
    }

    /// Joins the DODAG of the first received DIO (`rpl_join_instance`).
    fn join(&mut self, now: Instant, from: Node, rank: u16, version: Lollipop, dtsn: Lollipop) {
        if self.is_root || !self.admit(from, Reason::Dio(rank)) {
            return;
        }
        self.take_candidate(from, rank, dtsn);
        self.joined = true;
        self.version = version;
        self.preferred = Some(from);
        self.rank = self.rank_by(Some(from));
        self.lowest_rank = self.rank;
        self.dis_at = None;
        self.trickle.start(now, &mut self.stream);
        self.schedule_dao(now);
        self.schedule_probe(now);
        self.event(RplEvent::Joined);
    }

    /// Handles a DIO of another version of the DODAG. Returns false if it is of this one.
    fn is_other_version(
        &mut self,
        now: Instant,
        from: Node,
        rank: u16,
        version: Lollipop,
        dtsn: Lollipop,
    ) -> bool {
        if version.is_after(self.version) {
            self.version = version;
            // Only the root sets versions, so a newer one is left from before. The root's next version has
            // to exceed it, or nodes would ignore the root.
            if self.is_root {
                self.version = version.next();
                self.trickle.reset(now, &mut self.stream);
            } else {
                self.move_to_version(now, from, rank, dtsn);
            }
            return true;
        }
        let is_older = self.version.is_after(version);
        // The sender has missed a version; a DIO soon informs it.
        if is_older {
            self.trickle.reset(now, &mut self.stream);
        }
        is_older
    }

    /// Joins a new version (`global_repair`).
    fn move_to_version(&mut self, now: Instant, from: Node, rank: u16, dtsn: Lollipop) {
        for index in 0..self.neighbours.len() {
            if let Some(neighbour) = self.neighbours.at(index).filter(|one| one.candidate) {
                let node = neighbour.node;
                self.nullify(node);
            }
            if let Some(neighbour) = self.neighbours.at_mut(index) {
                neighbour.candidate = false;
                neighbour.marked = false;
            }
        }
        self.lowest_rank = INFINITE_RANK;
        self.rank = INFINITE_RANK;
        self.dtsn = self.dtsn.next();
        self.event(RplEvent::GlobalRepair);
        if self.admit(from, Reason::Dio(rank)) {
            self.take_candidate(from, rank, dtsn);
            self.lowest_rank = self.rank_by(Some(from));
            self.consider(now, from);
        }
    }

    /// Starts a new version of the DODAG at the root (`rpl_repair_root`).
    pub(super) fn repair_globally(&mut self, now: Instant) {
        self.version = self.version.next();
        self.dtsn = self.dtsn.next();
        self.trickle.reset(now, &mut self.stream);
        self.event(RplEvent::GlobalRepair);
    }

    /// Schedules an urgent probe, because the best candidate's estimate is stale.
    pub(super) fn probe_urgently(&mut self, now: Instant, node: Node) {
        self.urgent = Some(node);
        self.schedule_probe(now);
    }

    fn schedule_probe(&mut self, now: Instant) {
        let Some(between) = self.spec.probing else {
            return;
        };
        let delay = if self.urgent.is_some() {
            self.stream.uniform(Duration::ZERO, URGENT_MAX)
        } else {
            self.stream.uniform(between.low, between.high)
        };
        self.probe_at = Some(now + delay);
    }

    /// Probes a neighbour and schedules the next probe.
    pub(super) fn probe(&mut self, now: Instant) {
        if let Some(target) = self.probing_target(now) {
            self.send_dio_to(target);
            self.urgent = None;
        }
        self.schedule_probe(now);
    }

    /// Selects the neighbour to probe: the urgent one; the parent if its estimate is stale; else,
    /// by a toss, the best candidate with a stale estimate, or the one with the oldest sample
    /// (`get_probing_target`).
    fn probing_target(&mut self, now: Instant) -> Option<Node> {
        let by_freshness = self.spec.release >= Release::V3x;
        if !by_freshness && self.preferred.is_none() {
            return None;
        }
        if let Some(urgent) = self.urgent {
            return Some(urgent);
        }
        let is_stale = |link: &Link| {
            if by_freshness {
                !link.is_fresh(now)
            } else {
                link.last.is_none_or(|last| now.since(last) > STALE)
            }
        };
        let parent = self.preferred.and_then(|node| self.neighbours.get(node));
        if let Some(parent) = parent.filter(|parent| is_stale(&parent.link)) {
            return Some(parent.node);
        }
        let toss = self.stream.next_u32() < 1 << 31;
        let candidates = || self.neighbours.iter().filter(|one| one.candidate);
        let best = candidates()
            .filter(|one| toss && is_stale(&one.link))
            .min_by_key(|one| self.objective.rank_by(one.as_candidate(None)));
        best.or_else(|| candidates().min_by_key(|one| one.link.last))
            .map(|one| one.node)
    }
}
