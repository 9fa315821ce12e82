//! Neighbour table: candidate parents, children, and link estimates.

use carob_cc::time::Instant;

use super::etx::{EtxRule, Link};
use super::lollipop::Lollipop;
use super::message::INFINITE_RANK;
use super::objective::{Candidate, Objective};
use crate::Node;
use crate::spec::Release;

/// A neighbour.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neighbour {
    pub(super) node: Node,
    /// True for a candidate parent, which has sent a DIO. Otherwise rank, DTSN and mark are
    /// meaningless.
    pub(super) candidate: bool,
    pub(super) rank: u16,
    pub(super) dtsn: Lollipop,
    /// True if it has changed since the last parent selection.
    pub(super) marked: bool,
    /// Routes downwards with this neighbour as next hop.
    pub(super) routes: u16,
    pub(super) link: Link,
}

/// The reason for adding a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// A DIO with this rank.
    Dio(u16),
    /// A DAO.
    Dao,
    /// A DIS.
    Dis,
}

/// The state of the node itself that decides about evictions.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeState {
    pub(super) preferred: Option<Node>,
    pub(super) is_root: bool,
    pub(super) joined: bool,
    pub(super) min_hop_rank_increase: u16,
}

/// Neighbours in the order of their addition, up to the limit.
#[derive(Clone, Debug)]
pub(super) struct Neighbours {
    limit: usize,
    all: Vec<Neighbour>,
}

impl Neighbours {
    pub(super) fn new(limit: u16) -> Self {
        Self {
            limit: usize::from(limit).max(1),
            all: Vec::new(),
        }
    }

    pub(super) fn get(&self, node: Node) -> Option<&Neighbour> {
        self.all.iter().find(|neighbour| neighbour.node == node)
    }

    pub(super) fn get_mut(&mut self, node: Node) -> Option<&mut Neighbour> {
        self.all.iter_mut().find(|neighbour| neighbour.node == node)
    }

    /// The neighbour, if it is a candidate.
    pub(super) fn candidate(&self, node: Node) -> Option<&Neighbour> {
        self.get(node).filter(|neighbour| neighbour.candidate)
    }

    /// The same.
    pub(super) fn candidate_mut(&mut self, node: Node) -> Option<&mut Neighbour> {
        self.get_mut(node).filter(|neighbour| neighbour.candidate)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Neighbour> {
        self.all.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn at(&self, index: usize) -> Option<&Neighbour> {
        self.all.get(index)
    }

    pub(super) fn at_mut(&mut self, index: usize) -> Option<&mut Neighbour> {
        self.all.get_mut(index)
    }

    pub(super) fn is_full(&self) -> bool {
        self.all.len() >= self.limit
    }

    /// Adds a neighbour, unless the table is full or has it.
    pub(super) fn add(&mut self, node: Node, rule: &EtxRule) {
        if self.is_full() || self.get(node).is_some() {
            return;
        }
        self.all.push(Neighbour {
            node,
            candidate: false,
            rank: INFINITE_RANK,
            dtsn: Lollipop::START,
            marked: false,
            routes: 0,
            link: Link::new(rule),
        });
    }

    /// Removes a neighbour. The caller removes its routes.
    pub(super) fn remove(&mut self, node: Node) {
        self.all.retain(|neighbour| neighbour.node != node);
    }

    /// The neighbour to evict from a full table for a new one; none to reject the new one.
    pub(super) fn to_remove(
        &self,
        release: Release,
        reason: Reason,
        node_state: NodeState,
        objective: &Objective,
    ) -> Option<Node> {
        if release < Release::V3x {
            return self.least_used(node_state.preferred);
        }
        let (worst, worst_rank) = self.worst(node_state.preferred, objective);
        let children = self.all.iter().filter(|one| one.routes > 0).count();
        let welcome = match reason {
            Reason::Dio(rank) => {
                // Wider than 16 bits, because ranks reach INFINITE_RANK. Half a hop of margin keeps neighbours
                // of about the same rank from displacing each other.
                let hop = i64::from(node_state.min_hop_rank_increase);
                let worst_rank = i64::from(worst_rank);
                node_state.joined && i64::from(rank) + hop < worst_rank - hop / 2
            }
            Reason::Dao if node_state.is_root => children < self.limit,
            // Children never fill the table: a node needs places for candidate parents. The root needs none.
            Reason::Dao | Reason::Dis => children + 2 < self.limit,
        };
        worst.filter(|_| welcome)
    }

    /// The neighbour used by the fewest tables (of candidates, of routes), the oldest of those;
    /// never the parent (`nbr_table_allocate` of Contiki 2.7).
    fn least_used(&self, preferred: Option<Node>) -> Option<Node> {
        let free = self.all.iter().filter(|one| Some(one.node) != preferred);
        let uses = |one: &&Neighbour| u8::from(one.candidate) + u8::from(one.routes > 0);
        free.min_by_key(uses).map(|one| one.node)
    }

    /// The last neighbour that is neither candidate nor child, else the candidate that leads to the
    /// greatest rank (`rpl-nbr-policy.c` of Contiki 3.x).
    fn worst(&self, preferred: Option<Node>, objective: &Objective) -> (Option<Node>, u16) {
        let mut worst = (None, 0);
        for one in &self.all {
            if !one.candidate && one.routes == 0 {
                worst = (Some(one.node), INFINITE_RANK);
            } else if one.candidate
                && one.routes == 0
                && Some(one.node) != preferred
                && worst.1 < INFINITE_RANK
            {
                let rank = objective.rank_by(one.as_candidate(preferred));
                if rank > worst.1 {
                    worst = (Some(one.node), rank);
                }
            }
        }
        worst
    }
}

impl Neighbour {
    pub(super) fn as_candidate(&self, preferred: Option<Node>) -> Candidate {
        Candidate {
            rank: self.rank,
            etx: self.link.etx,
            preferred: preferred == Some(self.node),
        }
    }

    /// Returns whether the link is usable by its estimate, or has no fresh estimate.
    pub(super) fn is_reachable(&self, objective: &Objective, now: Instant) -> bool {
        !self.link.is_fresh(now) || objective.has_usable_link(self.link.etx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::RplSpec;

    /// Candidates with these ranks, numbered from 0.
    fn table(limit: u16, ranks: &[u16]) -> Neighbours {
        let rule = EtxRule::new(&RplSpec::contiki3x());
        let mut table = Neighbours::new(limit);
        for (node, rank) in (0..).zip(ranks) {
            table.add(node, &rule);
            let Some(neighbour) = table.get_mut(node) else {
                continue;
            };
            neighbour.candidate = true;
            neighbour.rank = *rank;
        }
        table
    }

    fn to_remove(table: &Neighbours, release: Release, reason: Reason) -> Option<Node> {
        let node_state = NodeState {
            preferred: Some(0),
            is_root: false,
            joined: true,
            min_hop_rank_increase: 128,
        };
        let objective = Objective::new(&RplSpec::contiki3x());
        table.to_remove(release, reason, node_state, &objective)
    }

    #[test]
    fn a_table_never_exceeds_its_limit() {
        assert_eq!(table(3, &[1, 2, 3, 4, 5]).len(), 3);
    }

    #[test]
    fn contiki_27_removes_the_oldest_of_the_least_used() {
        let mut table = table(4, &[128, 256, 900, 300]);
        assert_eq!(to_remove(&table, Release::V27, Reason::Dio(128)), Some(1));
        table.at_mut(1).expect("it is there").routes = 1;
        assert_eq!(to_remove(&table, Release::V27, Reason::Dio(128)), Some(2));
        table.at_mut(3).expect("it is there").candidate = false;
        assert_eq!(to_remove(&table, Release::V27, Reason::Dio(128)), Some(3));
    }

    #[test]
    fn contiki_3x_removes_the_worst_candidate_for_a_better_one_only() {
        let mut table = table(4, &[128, 256, 900, 300]);
        // ETX is 2: the worst gives rank 1156, and 1156 - 64 must exceed the new rank and a hop.
        assert_eq!(to_remove(&table, Release::V3x, Reason::Dio(963)), Some(2));
        assert_eq!(to_remove(&table, Release::V3x, Reason::Dio(964)), None);
        table.at_mut(2).expect("it is there").routes = 1;
        assert_eq!(to_remove(&table, Release::V3x, Reason::Dio(128)), Some(3));
        assert_eq!(to_remove(&table, Release::V3x, Reason::Dao), Some(3));
        table.at_mut(1).expect("it is there").routes = 1;
        assert_eq!(
            to_remove(&table, Release::V3x, Reason::Dao),
            None,
            "two are for parents"
        );
        table.at_mut(3).expect("it is there").candidate = false;
        assert_eq!(
            to_remove(&table, Release::V3x, Reason::Dio(60_000)),
            Some(3)
        );
    }
}
