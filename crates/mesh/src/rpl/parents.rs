//! Parent selection, and repair without a parent (RFC 6550, 8.2.2).

use carob_cc::time::Instant;

use super::message::INFINITE_RANK;
use super::{Node, Rpl, RplEvent};
use crate::spec::Release;

impl Rpl {
    /// Re-evaluates a changed candidate and selects the parent again. Returns whether the candidate
    /// may still be a parent (`rpl_process_parent_event`).
    pub(super) fn consider(&mut self, now: Instant, node: Node) -> bool {
        let Some(&candidate) = self.neighbours.candidate(node) else {
            return false;
        };
        if self.is_root {
            return true;
        }
        let before = self.preferred;
        let lost_child = candidate.routes > 0 && !candidate.is_reachable(&self.objective, now);
        if self.is_storing() && self.spec.release >= Release::V3x && lost_child {
            self.routes.expire_by(now, node);
            self.next_end = self.next_end.min(now);
        }
        if !self.is_acceptable(candidate.rank) {
            self.nullify(node);
            return false;
        }
        if !self.choose(now) {
            if before.is_some() || self.spec.release < Release::V3x {
                self.repair_locally(now);
            }
            return false;
        }
        true
    }

    /// The periodic re-evaluation of marked candidates.
    pub(super) fn reconsider_marked(&mut self, now: Instant) {
        if !std::mem::take(&mut self.marked) {
            return;
        }
        for index in 0..self.neighbours.len() {
            let Some(neighbour) = self.neighbours.at_mut(index) else {
                return;
            };
            if std::mem::take(&mut neighbour.marked) {
                let node = neighbour.node;
                self.consider(now, node);
            }
        }
    }

    /// Marks a candidate for the periodic re-evaluation.
    pub(super) fn mark(&mut self, node: Node) {
        if let Some(neighbour) = self.neighbours.candidate_mut(node) {
            neighbour.marked = true;
            self.marked = true;
        }
    }

    /// Returns whether a rank is within `MaxRankIncrease` of the lowest one (RFC 6550, 8.2.2.4),
    /// compared as `DAGRank`.
    pub(super) fn is_acceptable(&self, rank: u16) -> bool {
        let increase = u32::from(self.spec.max_rank_increase);
        let limit = u32::from(self.lowest_rank) + increase;
        rank != INFINITE_RANK
            && (increase == 0 || self.dag_rank(u32::from(rank)) <= self.dag_rank(limit))
    }

    /// The node's rank with this parent.
    pub(super) fn rank_by(&self, node: Option<Node>) -> u16 {
        node.and_then(|node| self.neighbours.candidate(node))
            .map_or(INFINITE_RANK, |one| {
                self.objective.rank_by(one.as_candidate(self.preferred))
            })
    }

    /// Selects the best parent and adopts its rank. Returns false without a candidate
    /// (`rpl_select_dag`).
    pub(super) fn choose(&mut self, now: Instant) -> bool {
        let before = self.preferred;
        if !self.select(now) {
            return false;
        }
        self.rank = self.rank_by(self.preferred);
        let forgets = before.is_none() && self.spec.forgets_lowest_rank;
        // L of RFC 6550 8.2.2.4: a rank may grow by DAGMaxRankIncrease from here, which bounds
        // count-to-infinity.
        if forgets || self.rank < self.lowest_rank {
            self.lowest_rank = self.rank;
        }
        if !self.is_acceptable(self.rank) {
            self.preferred = None;
            self.rank = INFINITE_RANK;
            self.send_no_path(before);
            return false;
        }
        if self.preferred != before {
            if self.is_storing() {
                self.send_no_path(before);
                // Routes of the sub-DODAG moved with this node: a higher DTSN requests its DAOs (RFC 6550 9.6).
                self.dtsn = self.dtsn.next();
            }
            self.schedule_dao(now);
            self.trickle.reset(now, &mut self.stream);
        }
        true
    }

    /// Finds the best candidate. Returns false without one (`rpl_select_parent`).
    fn select(&mut self, now: Instant) -> bool {
        let best = self.best(now, false);
        let by_freshness = self.spec.release >= Release::V3x;
        let Some(node) = best else {
            if by_freshness {
                self.preferred = None;
                self.rank = INFINITE_RANK;
            }
            return false;
        };
        let is_fresh = self
            .neighbours
            .get(node)
            .is_some_and(|one| one.link.is_fresh(now));
        if is_fresh || !by_freshness || self.spec.probing.is_none() {
            self.preferred = best;
        } else {
            self.preferred = self.best(now, true).or(best);
            self.probe_urgently(now, node);
        }
        true
    }

    fn best(&self, now: Instant, fresh_only: bool) -> Option<Node> {
        let candidates = self.neighbours.iter().filter(|one| {
            let fresh = !fresh_only || one.link.is_fresh(now);
            one.candidate && one.rank != INFINITE_RANK && fresh
        });
        let candidates = candidates.map(|one| (one.node, one.as_candidate(self.preferred)));
        self.objective.best(candidates)
    }

    /// Disqualifies a candidate (`rpl_nullify_parent`).
    pub(super) fn nullify(&mut self, node: Node) {
        if self.is_root {
            return;
        }
        let was_preferred = self.preferred == Some(node);
        if !was_preferred && self.preferred.is_some() {
            return;
        }
        self.preferred = None;
        self.rank = INFINITE_RANK;
        if was_preferred || self.spec.release < Release::V30 {
            self.send_no_path(Some(node));
        }
    }

    /// Removes all parents and poisons the node's rank (`rpl_local_repair`).
    fn repair_locally(&mut self, now: Instant) {
        // INFINITE_RANK in the next DIO poisons the sub-DODAG (RFC 6550 8.2.2.5): children must not choose
        // this node, nor this node one of them.
        self.rank = INFINITE_RANK;
        for index in 0..self.neighbours.len() {
            if let Some(neighbour) = self.neighbours.at(index).filter(|one| one.candidate) {
                let node = neighbour.node;
                self.nullify(node);
            }
        }
        self.trickle.reset(now, &mut self.stream);
        if self.spec.release >= Release::V3x && self.is_storing() {
            self.dtsn = self.dtsn.next();
        }
        self.event(RplEvent::LocalRepair);
    }
}
