//! Objective functions MRHOF (RFC 6719) and OF0 (RFC 6552), parent selection with them, and repair without a parent
//! (RFC 6550, 8.2.2).

use carob_cc::time::Instant;

use super::message::INFINITE_RANK;
use super::neighbours::in_units;
use super::{Node, Rpl, RplEvent};
use crate::spec::{self, RankRule, Release, RplSpec};

/// Maximum path cost, if links have a limit at all (3.x).
const PATH_COST_MAX: u16 = 32_768;
/// Steps of rank that OF0 accepts (RFC 6552, 6.3).
const STEPS: std::ops::RangeInclusive<i32> = 1..=9;

/// A neighbour as a parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// Its rank.
    pub(super) rank: u16,
    /// ETX of the link to it, in units.
    pub(super) etx: u16,
    /// True if it is the preferred parent now.
    pub(super) preferred: bool,
}

/// An objective function with its settings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Objective {
    kind: spec::Objective,
    rank_rule: RankRule,
    divisor: u16,
    min_hop_rank_increase: u16,
    max_link: Option<u16>,
    hysteresis: u16,
}

impl Objective {
    pub(super) fn new(spec: &RplSpec) -> Self {
        let divisor = spec.etx_divisor.max(1);
        Self {
            kind: spec.objective,
            rank_rule: spec.rank_rule,
            divisor,
            min_hop_rank_increase: spec.min_hop_rank_increase,
            max_link: spec.max_link_metric.map(|limit| in_units(limit, divisor)),
            hysteresis: in_units(spec.hysteresis, divisor),
        }
    }

    /// The path cost to the root through this neighbour.
    fn path_cost(candidate: Candidate) -> u16 {
        candidate.rank.saturating_add(candidate.etx)
    }

    /// OF0's steps: 1 for a perfect link (Contiki 3.x).
    fn steps(&self, etx: u16) -> i32 {
        3 * i32::from(etx) / i32::from(self.divisor) - 2
    }

    /// The rank of a node with this parent.
    pub(super) fn rank_by(&self, candidate: Candidate) -> u16 {
        let hop = self.min_hop_rank_increase;
        match (self.kind, self.rank_rule) {
            (spec::Objective::Mrhof, RankRule::Sum) => Self::path_cost(candidate),
            (spec::Objective::Mrhof, RankRule::AtLeastOneHop) => {
                Self::path_cost(candidate).max(candidate.rank.saturating_add(hop))
            }
            (spec::Objective::Of0, _) => {
                let rank = i64::from(candidate.rank)
                    + i64::from(self.steps(candidate.etx)) * i64::from(hop);
                // Ranks increase from the root downwards (RFC 6550 3.5), also over a link without steps.
                let least = i64::from(candidate.rank.saturating_add(1));
                u16::try_from(rank.max(least)).unwrap_or(INFINITE_RANK)
            }
        }
    }

    /// Returns whether the link's ETX permits a parent.
    pub(super) fn has_usable_link(&self, etx: u16) -> bool {
        match self.kind {
            spec::Objective::Mrhof => self.max_link.is_none_or(|limit| etx <= limit),
            spec::Objective::Of0 => STEPS.contains(&self.steps(etx)),
        }
    }

    /// Returns whether the candidate may be a parent.
    fn is_acceptable(&self, candidate: Candidate) -> bool {
        let cost_counts = self.kind == spec::Objective::Mrhof && self.max_link.is_some();
        self.has_usable_link(candidate.etx)
            && (!cost_counts || Self::path_cost(candidate) <= PATH_COST_MAX)
    }

    /// The best candidate, compared in order: hysteresis makes the order significant.
    pub(super) fn best<T: Copy>(
        &self,
        candidates: impl Iterator<Item = (T, Candidate)>,
    ) -> Option<T> {
        let acceptable = candidates.filter(|(_, candidate)| self.is_acceptable(*candidate));
        let best = acceptable.reduce(|first, second| {
            if self.is_better(second.1, first.1) {
                second
            } else {
                first
            }
        });
        best.map(|(it, _)| it)
    }

    /// Returns whether `new` replaces `old`, which precedes it in the table.
    fn is_better(&self, new: Candidate, old: Candidate) -> bool {
        let (new_cost, old_cost) = (Self::path_cost(new), Self::path_cost(old));
        let (near, far) = match self.kind {
            // PARENT_SWITCH_THRESHOLD (RFC 6719 3.2.2): estimates vary, and each change of parent costs
            // DAOs and a Trickle reset.
            spec::Objective::Mrhof => (new_cost.abs_diff(old_cost) < self.hysteresis, false),
            spec::Objective::Of0 => (new_cost == old_cost, true),
        };
        if near && (new.preferred || old.preferred) {
            return new.preferred;
        }
        if near && far {
            return new.etx <= old.etx;
        }
        new_cost <= old_cost
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(rank: u16, etx: u16, preferred: bool) -> Candidate {
        Candidate {
            rank,
            etx,
            preferred,
        }
    }

    fn best(spec: &RplSpec, candidates: &[Candidate]) -> Option<usize> {
        let candidates = candidates.iter().copied().enumerate();
        Objective::new(spec).best(candidates)
    }

    #[test]
    fn gain_below_the_hysteresis_keeps_the_parent() {
        let spec = RplSpec::default();
        let preferred = candidate(256, 640, true);
        // The hysteresis is 0.5 ETX, 64 units.
        for (gain, chosen) in [(1, 0), (63, 0), (64, 1), (200, 1)] {
            let other = candidate(256, 640 - gain, false);
            assert_eq!(best(&spec, &[preferred, other]), Some(chosen), "{gain}");
            assert_eq!(best(&spec, &[other, preferred]), Some(1 - chosen), "{gain}");
        }
        let strangers = [candidate(256, 640, false), candidate(256, 639, false)];
        assert_eq!(best(&spec, &strangers), Some(1));
    }

    #[test]
    fn links_beyond_the_limit_lead_to_no_parent() {
        let spec = RplSpec {
            max_link_metric: Some(400),
            ..RplSpec::contiki3x()
        };
        assert_eq!(best(&spec, &[candidate(128, 512, true)]), Some(0));
        assert_eq!(best(&spec, &[candidate(128, 513, true)]), None);
        assert_eq!(best(&spec, &[candidate(32_500, 300, true)]), None);
        assert_eq!(
            best(&RplSpec::default(), &[candidate(32_500, 60_000, true)]),
            Some(0)
        );
    }

    #[test]
    fn ranks_by_sum_or_at_least_a_hop() {
        let sum = Objective::new(&RplSpec::default());
        assert_eq!(sum.rank_by(candidate(256, 128, false)), 384);
        let hop = RplSpec {
            min_hop_rank_increase: 256,
            ..RplSpec::contiki3x()
        };
        let hop = Objective::new(&hop);
        assert_eq!(hop.rank_by(candidate(256, 128, false)), 512);
        assert_eq!(hop.rank_by(candidate(256, 300, false)), 556);
        assert_eq!(hop.rank_by(candidate(65_400, 300, false)), INFINITE_RANK);
    }

    #[test]
    fn of0_steps_by_etx_and_keeps_its_parent_in_a_tie_only() {
        let spec = RplSpec {
            objective: spec::Objective::Of0,
            min_hop_rank_increase: 256,
            ..RplSpec::contiki3x()
        };
        let of0 = Objective::new(&spec);
        assert_eq!(of0.rank_by(candidate(256, 128, false)), 512);
        assert_eq!(of0.rank_by(candidate(256, 256, false)), 256 + 4 * 256);
        let [old, same] = [candidate(512, 128, true), candidate(512, 128, false)];
        assert_eq!(best(&spec, &[old, same]), Some(0));
        assert_eq!(best(&spec, &[same, old]), Some(1));
        assert_eq!(best(&spec, &[old, candidate(511, 128, false)]), Some(1));
        // 3 x 4 - 2 is more than nine steps.
        assert_eq!(best(&spec, &[candidate(512, 512, true)]), None);
    }
}
