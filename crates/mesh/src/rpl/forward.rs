//! Packet forwarding and the RPL option (RFC 6550, 11.2; RFC 6553).

use carob_cc::time::Instant;

use super::message::RplOption;
use super::{Node, Rpl};
use crate::spec::LoopRule;

/// The next hop of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// This node is the destination.
    Here,
    /// This neighbour. At the root in non-storing mode, the first hop of a source route.
    To(Node),
    /// None: no parent, no route down, or a forwarding error that ends here.
    NoRoute,
    /// None: a second rank error.
    Loop,
}

impl Rpl {
    /// Selects the next hop of a packet. Verifies the option received from neighbour `from`, and
    /// updates it for the next hop; a node's own packet (`from` is none) gets a new option. Packets
    /// can circle, mostly under [`LoopRule::Forward`]: hop limits are the caller's task.
    ///
    /// Packets with a source route carry no option; relays forward them without this function.
    pub fn route(
        &mut self,
        now: Instant,
        destination: Node,
        option: &mut RplOption,
        from: Option<Node>,
    ) -> Hop {
        let hop = self.route_unsettled(now, destination, option, from);
        self.settle(now);
        hop
    }

    fn route_unsettled(
        &mut self,
        now: Instant,
        destination: Node,
        option: &mut RplOption,
        from: Option<Node>,
    ) -> Hop {
        if let Some(from) = from
            && let Some(refused) = self.verify(now, destination, option, from)
        {
            return refused;
        }
        if destination == self.node {
            return Hop::Here;
        }
        let anew = from.is_none() || (self.is_root && self.spec.loops == LoopRule::Repair);
        if anew {
            *option = RplOption::default();
        }
        option.sender_rank = self.rank;
        if let Some(child) = self.look_up(destination) {
            option.down = true;
            return Hop::To(child);
        }
        // A packet on its way down must not turn up again: its sender has a stale route (RFC 6550
        // 11.2.2.3).
        if option.down {
            option.forwarding_error = true;
            if self.spec.loops >= LoopRule::Drop {
                let sender = from.filter(|from| self.neighbours.candidate(*from).is_some());
                if sender.is_some() && self.is_storing() {
                    self.send_dao(sender, destination, true);
                }
                return Hop::NoRoute;
            }
        }
        self.preferred.map_or(Hop::NoRoute, Hop::To)
    }

    /// Selects the next hop of a packet without RPL option.
    pub fn next_hop(&mut self, destination: Node) -> Option<Node> {
        self.look_up(destination).or(self.preferred)
    }

    /// Writes the source route to a node, the destination last, at the root in non-storing mode.
    /// Returns false and writes nothing if there is none.
    pub fn source_route(&self, destination: Node, hops: &mut Vec<Node>) -> bool {
        self.source_routes.way(destination, hops)
    }

    fn look_up(&mut self, destination: Node) -> Option<Node> {
        if self.is_storing() {
            self.routes.look_up(destination)
        } else if self.is_root {
            self.source_routes.first_hop(destination)
        } else {
            None
        }
    }

    /// Verifies the option of a packet from a neighbour. Returns the outcome if the packet ends
    /// here (`rpl_verify_hbh_header`).
    fn verify(
        &mut self,
        now: Instant,
        destination: Node,
        option: &mut RplOption,
        from: Node,
    ) -> Option<Hop> {
        if option.forwarding_error {
            let deleted = self.drop_route(destination);
            if self.spec.loops >= LoopRule::Drop {
                self.trickle.reset(now, &mut self.stream);
                return Some(Hop::NoRoute);
            }
            if deleted && self.is_root {
                self.repair_globally(now);
            }
            option.forwarding_error = false;
            return None;
        }
        if !self.joined {
            return Some(Hop::NoRoute);
        }
        let repairs = self.spec.loops == LoopRule::Repair;
        let known = self.neighbours.candidate(from).is_some();
        if repairs && option.rank_error && known {
            self.take_rank(now, from, option.sender_rank);
        }
        // RFC 6550 11.2.2.2: ranks must fall on the way up and rise on the way down. The first violation is
        // only marked, because ranks may just be changing; the second one is a loop.
        let sender_closer = option.sender_rank < self.rank;
        if option.down == sender_closer {
            return None;
        }
        if repairs && known {
            self.send_dio_to(from);
        }
        if std::mem::replace(&mut option.rank_error, true) {
            self.trickle.reset(now, &mut self.stream);
            return (self.spec.loops >= LoopRule::Drop).then_some(Hop::Loop);
        }
        None
    }

    /// Takes the sender's rank from a packet with a rank error. Non-storing mode selects parents
    /// again at once, storing mode at the next input about a candidate.
    fn take_rank(&mut self, now: Instant, from: Node, rank: u16) {
        if let Some(candidate) = self.neighbours.candidate_mut(from) {
            candidate.rank = rank;
        }
        if !self.is_storing() {
            self.choose(now);
        }
    }
}
