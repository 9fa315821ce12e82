//! Neighbour table: candidate parents, children, and link estimates by ETX, the moving average of transmissions per
//! acknowledged frame.

use carob_cc::time::{Duration, Instant};

use super::message::{INFINITE_RANK, Lollipop};
use super::objective::{Candidate, Objective};
use crate::Node;
use crate::spec::{Release, RplSpec};

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

// Freshness as in `link-stats.c` of Contiki 3.x.

/// Transmissions that make an estimate fresh.
const FRESH: u8 = 4;

/// Maximum of the transmission count.
const COUNTED_MAX: u8 = 16;

/// The count is halved at this interval, for all neighbours at once, from the node's start on.
const HALF_LIFE: Duration = Duration::from_secs(20 * 60);

/// An estimate is stale after this time without a sample.
const FRESH_MAX: Duration = Duration::from_secs(10 * 60);

/// ETX estimation, in units of `1 / divisor`.
#[derive(Clone, Copy, Debug)]
pub(super) struct EtxRule {
    divisor: u16,
    initial: u16,
    alpha: u32,
    alpha_fresh: u32,
    no_ack: u32,
    first_replaces: bool,
}

impl EtxRule {
    pub(super) fn new(spec: &RplSpec) -> Self {
        let divisor = spec.etx_divisor.max(1);
        Self {
            divisor,
            initial: in_units(spec.initial_etx, divisor),
            alpha: u32::from(spec.etx_alpha.min(100)),
            alpha_fresh: u32::from(spec.etx_alpha_fresh.min(100)),
            no_ack: u32::from(in_units(spec.etx_no_ack, divisor)),
            first_replaces: spec.release == Release::V30,
        }
    }

    /// Converts units to hundredths.
    pub(super) fn hundredths(&self, units: u16) -> u32 {
        let divisor = u32::from(self.divisor);
        (u32::from(units) * 100 + divisor / 2) / divisor
    }
}

/// Converts hundredths to units of `1 / divisor`, rounded down, at most `0xffff`.
pub(super) fn in_units(hundredths: u16, divisor: u16) -> u16 {
    let units = u32::from(hundredths) * u32::from(divisor) / 100;
    u16::try_from(units).unwrap_or(u16::MAX)
}

/// The estimate of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// In units.
    pub(super) etx: u16,
    /// Transmissions counted, decayed up to the half-life number `halved`.
    counted: u8,
    halved: u64,
    /// Time of the last sample.
    pub(super) last: Option<Instant>,
}

impl Link {
    pub(super) fn new(rule: &EtxRule) -> Self {
        Self {
            etx: rule.initial,
            counted: 0,
            halved: 0,
            last: None,
        }
    }

    /// Adds a sample: a frame was acknowledged after this many transmissions, or given up.
    pub(super) fn sample(
        &mut self,
        rule: &EtxRule,
        now: Instant,
        transmissions: u8,
        acknowledged: bool,
    ) {
        let transmissions = transmissions.max(1);
        let counted = self.counted(now).saturating_add(transmissions);
        self.counted = counted.min(COUNTED_MAX);
        self.halved = half_lives(now);
        // Below 2^24, so that the products with percentages below stay within 32 bits.
        let sample = if acknowledged {
            u32::from(transmissions) * u32::from(rule.divisor)
        } else {
            rule.no_ack
        };
        let alpha = if self.counted >= FRESH {
            rule.alpha
        } else {
            rule.alpha_fresh
        };
        let first = rule.first_replaces && self.last.is_none();
        let etx = if first {
            sample
        } else {
            (u32::from(self.etx) * (100 - alpha) + sample * alpha) / 100
        };
        self.etx = u16::try_from(etx).unwrap_or(u16::MAX);
        self.last = Some(now);
    }

    /// Returns whether the estimate is fresh: enough transmissions, and a recent sample.
    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        self.last.is_some_and(|last| now.since(last) < FRESH_MAX) && self.counted(now) >= FRESH
    }

    fn counted(&self, now: Instant) -> u8 {
        let halvings = half_lives(now).saturating_sub(self.halved);
        u32::try_from(halvings)
            .ok()
            .and_then(|halvings| self.counted.checked_shr(halvings))
            .unwrap_or(0)
    }
}

fn half_lives(now: Instant) -> u64 {
    now.as_micros() / HALF_LIFE.as_micros()
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

    fn after(spec: &RplSpec, start: u16, samples: &[(u8, bool)]) -> Vec<u16> {
        let rule = EtxRule::new(spec);
        let mut link = Link::new(&rule);
        link.etx = start;
        let sample = |&(transmissions, acknowledged)| {
            link.sample(&rule, Instant::ZERO, transmissions, acknowledged);
            link.etx
        };
        samples.iter().map(sample).collect()
    }

    #[test]
    fn contiki_27_goes_from_5_to_4_6_with_one_good_frame() {
        let spec = RplSpec::default();
        let rule = EtxRule::new(&spec);
        assert_eq!(Link::new(&rule).etx, 640);
        // 0.9 x 640 + 0.1 x 128 = 588.8, rounded down: 4.59.
        assert_eq!(after(&spec, 640, &[(1, true)]), [588]);
        assert_eq!(rule.hundredths(588), 459);
    }

    #[test]
    fn contiki_3x_rejects_etx_1_link_after_three_lost_frames() {
        let spec = RplSpec::contiki3x();
        let samples = [(8, false); 3];
        // 2.35, 3.50 and 4.47, rounded down to 1/128 each time.
        assert_eq!(after(&spec, 128, &samples), [300, 447, 571]);
        let rule = EtxRule::new(&spec);
        assert_eq!(
            [300, 447, 571].map(|etx| rule.hundredths(etx)),
            [234, 349, 446]
        );
    }

    #[test]
    fn contiki_3x_weighs_early_samples_twice() {
        let spec = RplSpec::contiki3x();
        // A frame given up after one transmission: 0.7 x 2 + 0.3 x 10 = 4.4.
        assert_eq!(after(&spec, 256, &[(1, false)]), [563]);
        // One given up after eight makes the estimate fresh by itself: 0.85 x 2 + 0.15 x 10 = 3.2.
        assert_eq!(after(&spec, 256, &[(8, false)]), [409]);
        assert_eq!(after(&spec, 256, &[(4, false)]), [409], "four do");
        assert_eq!(after(&spec, 256, &[(3, false)]), [563]);
    }

    #[test]
    fn contiki_30_begins_with_its_first_sample() {
        let spec = RplSpec::contiki30();
        let rule = EtxRule::new(&spec);
        assert_eq!(
            after(&spec, rule.initial, &[(3, true), (1, true)]),
            [768, 716]
        );
    }

    #[test]
    fn estimates_go_stale() {
        let rule = EtxRule::new(&RplSpec::contiki3x());
        let mut link = Link::new(&rule);
        let minutes = |minutes: u64| Instant::ZERO + Duration::from_secs(60 * minutes);
        assert!(!link.is_fresh(minutes(0)));
        link.sample(&rule, minutes(1), 3, true);
        assert!(!link.is_fresh(minutes(1)));
        link.sample(&rule, minutes(1), 1, true);
        assert!(link.is_fresh(minutes(1)));
        assert!(!link.is_fresh(minutes(11)));
        // The count of four is halved at 20 min, so that one more does not suffice.
        link.sample(&rule, minutes(21), 1, true);
        assert!(!link.is_fresh(minutes(21)));
    }
}
