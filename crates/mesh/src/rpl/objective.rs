//! Objective functions: MRHOF (RFC 6719) and OF0 (RFC 6552).

use super::etx::in_units;
use super::message::INFINITE_RANK;
use crate::spec::{self, RankRule, RplSpec};

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
