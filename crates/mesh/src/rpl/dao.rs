//! Downward routes: sending DAOs, and maintaining routes from received ones.

use carob_cc::time::{Duration, Instant};

use super::message::{INFINITE_RANK, Message};
use super::neighbours::Reason;
use super::{Destination, Node, Rpl};
use crate::spec::Release;

impl Rpl {
    /// Schedules a DAO, unless one is already due.
    pub(super) fn schedule_dao(&mut self, now: Instant) {
        if self.dao_at.is_some() {
            return;
        }
        // DelayDAO (RFC 6550 9.5): changes of a short time share one DAO.
        let delay = self.spec.dao_delay;
        self.dao_at = Some(now + self.stream.uniform(delay.low, delay.high));
        self.schedule_refresh(now);
    }

    /// Schedules the DAO that refreshes routes, between 1/2 and 3/4 of their lifetime.
    fn schedule_refresh(&mut self, now: Instant) {
        let Some(lifetime) = self.spec.route_lifetime else {
            return;
        };
        // A quarter is drawn in two parts, as a draw spans at most 71.6 min.
        let part = lifetime.half().half().half();
        let wait = lifetime.half()
            + self.stream.uniform(Duration::ZERO, part)
            + self.stream.uniform(Duration::ZERO, part);
        self.refresh_at = Some(now + wait.max(super::PERIOD));
    }

    /// Sends a DAO for the node itself.
    pub(super) fn advertise(&mut self, now: Instant) {
        self.dao_at = None;
        if self.preferred.is_some() {
            self.send_dao(self.preferred, self.node, false);
        }
        if self.refresh_at.is_none_or(|at| at <= now) {
            self.schedule_refresh(now);
        }
    }

    /// Sends a No-Path DAO to the former parent. Non-storing mode does not need it: the next DAO
    /// replaces the root's entry.
    pub(super) fn send_no_path(&mut self, to: Option<Node>) {
        if self.is_storing() {
            self.send_dao(to, self.node, true);
        }
    }

    /// Sends a DAO: in storing mode to this neighbour, else to the root.
    pub(super) fn send_dao(&mut self, parent: Option<Node>, target: Node, no_path: bool) {
        let Some(parent) = parent else {
            return;
        };
        self.sequence = self.sequence.next();
        let storing = self.is_storing();
        let message = Message::Dao {
            target,
            parent: (!storing).then_some(parent),
            no_path,
            sequence: self.sequence,
        };
        let to = if storing {
            Destination::Neighbour(parent)
        } else {
            Destination::Root
        };
        self.send(to, message);
    }

    /// A DAO in storing mode (`dao_input_storing`).
    pub(super) fn handle_dao(&mut self, now: Instant, from: Node, target: Node, no_path: bool) {
        if !self.joined || target == self.node {
            return;
        }
        // Contiki 2.7 handles a No-Path DAO before its check for loops, later releases after it.
        let ends_first = self.spec.release < Release::V30;
        if no_path && ends_first {
            self.end_route(now, from, target);
            return;
        }
        if self.comes_from_above(from) {
            return;
        }
        if no_path {
            self.end_route(now, from, target);
            return;
        }
        if !self.admit(from, Reason::Dao) || !self.keep_route(now, from, target) {
            return;
        }
        self.send_dao(self.preferred, target, false);
    }

    /// Checks for a loop: a DAO from a node that is closer to the root. Such a node is no candidate
    /// until its next DIO.
    fn comes_from_above(&mut self, from: Node) -> bool {
        let Some(&candidate) = self.neighbours.candidate(from) else {
            return false;
        };
        let [theirs, ours] = [candidate.rank, self.rank].map(|rank| self.dag_rank(u32::from(rank)));
        let above = theirs < ours || self.preferred == Some(from);
        // A child cannot be closer to the root: accepting its route would close a loop.
        if above {
            if let Some(candidate) = self.neighbours.candidate_mut(from) {
                candidate.rank = INFINITE_RANK;
            }
            self.mark(from);
        }
        above
    }

    /// Handles a No-Path DAO: the route ends soon if its sender is the next hop.
    fn end_route(&mut self, now: Instant, from: Node, target: Node) {
        let end = now + self.spec.no_path_delay;
        let Some(route) = self.routes.get_mut(target) else {
            return;
        };
        if route.no_path || route.next_hop != from {
            return;
        }
        route.no_path = true;
        route.expires = end;
        self.next_end = self.next_end.min(end);
        if self.spec.release >= Release::V30 {
            self.send_dao(self.preferred, target, true);
        }
    }

    /// Adds or refreshes a route. Returns false if the table is full.
    fn keep_route(&mut self, now: Instant, next_hop: Node, target: Node) -> bool {
        let end = self.spec.route_lifetime.map(|lifetime| now + lifetime);
        let end = end.unwrap_or(Instant::FAR_FUTURE);
        self.next_end = self.next_end.min(end);
        if let Some(route) = self.routes.get_mut(target) {
            route.expires = end;
            route.no_path = false;
            if route.next_hop == next_hop || !self.spec.dao_moves_routes {
                return true;
            }
            self.drop_route(target);
        }
        // Contiki 3.0 drops the least recently used route for a new one.
        if self.routes.is_full()
            && self.spec.release == Release::V30
            && let Some(oldest) = self.routes.least_recent()
        {
            self.drop_route(oldest);
        }
        let added = self.routes.add(target, next_hop, end);
        if added && let Some(child) = self.neighbours.get_mut(next_hop) {
            child.routes = child.routes.saturating_add(1);
        }
        added
    }

    /// Deletes a route. Returns whether it existed.
    pub(super) fn drop_route(&mut self, target: Node) -> bool {
        let Some(route) = self.routes.remove(target) else {
            return false;
        };
        if let Some(child) = self.neighbours.get_mut(route.next_hop) {
            child.routes = child.routes.saturating_sub(1);
        }
        true
    }

    /// The periodic check for expired routes: the root deletes them all, other nodes one at a time,
    /// with a No-Path DAO to their parent (`rpl_purge_routes`).
    pub(super) fn purge_routes(&mut self, now: Instant) {
        if self.next_end > now {
            return;
        }
        if !self.is_storing() {
            self.source_routes.purge(now);
            self.next_end = self.source_routes.next_end().unwrap_or(Instant::FAR_FUTURE);
            return;
        }
        while let Some(target) = self.routes.ended(now) {
            self.drop_route(target);
            if !self.is_root {
                self.send_dao(self.preferred, target, true);
                break;
            }
        }
        self.next_end = self.routes.next_end().unwrap_or(Instant::FAR_FUTURE);
    }

    /// A DAO in non-storing mode (`dao_input_nonstoring`).
    pub(super) fn handle_dao_as_root(
        &mut self,
        now: Instant,
        target: Node,
        parent: Option<Node>,
        no_path: bool,
    ) {
        if !self.is_root || !self.joined {
            return;
        }
        if no_path {
            let end = now + self.spec.no_path_delay;
            self.source_routes.end(target, parent, end);
            self.next_end = self.next_end.min(end);
        } else if let Some(parent) = parent {
            let end = self.spec.route_lifetime.map(|lifetime| now + lifetime);
            let end = end.unwrap_or(Instant::FAR_FUTURE);
            if self.source_routes.update(target, parent, end) {
                self.next_end = self.next_end.min(end);
            }
        }
    }
}
