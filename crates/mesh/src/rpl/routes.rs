//! Downward routing table of storing mode.

use carob_cc::time::Instant;

use crate::Node;

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) target: Node,
    pub(super) next_hop: Node,
    /// Expiry; far in the future if never.
    pub(super) expires: Instant,
    /// True after its No-Path DAO.
    pub(super) no_path: bool,
    /// Time of the last use, as a number of uses.
    pub(super) used: u64,
}

/// Routes by target, up to the limit.
#[derive(Clone, Debug)]
pub(super) struct Routes {
    limit: usize,
    all: Vec<Route>,
    uses: u64,
}

impl Routes {
    pub(super) fn new(limit: u16) -> Self {
        Self {
            limit: usize::from(limit),
            all: Vec::new(),
            uses: 0,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Route> {
        self.all.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.all.len() >= self.limit
    }

    pub(super) fn get_mut(&mut self, target: Node) -> Option<&mut Route> {
        let index = self.find(target).ok()?;
        self.all.get_mut(index)
    }

    /// The next hop towards a node. Counts as a use of the route.
    pub(super) fn look_up(&mut self, target: Node) -> Option<Node> {
        self.uses += 1;
        let uses = self.uses;
        let route = self.get_mut(target)?;
        route.used = uses;
        Some(route.next_hop)
    }

    /// Adds a route. Returns false if the table is full or has one.
    pub(super) fn add(&mut self, target: Node, next_hop: Node, expires: Instant) -> bool {
        let Err(index) = self.find(target) else {
            return false;
        };
        if self.is_full() {
            return false;
        }
        self.uses += 1;
        let route = Route {
            target,
            next_hop,
            expires,
            no_path: false,
            used: self.uses,
        };
        // Sorted by target: `find` is a binary search.
        self.all.insert(index, route);
        true
    }

    /// Removes and returns a route.
    pub(super) fn remove(&mut self, target: Node) -> Option<Route> {
        let index = self.find(target).ok()?;
        Some(self.all.remove(index))
    }

    /// The target of the least recently used route.
    pub(super) fn least_recent(&self) -> Option<Node> {
        let least = self.all.iter().min_by_key(|route| route.used)?;
        Some(least.target)
    }

    /// Removes all routes through a neighbour.
    pub(super) fn remove_by(&mut self, next_hop: Node) {
        self.all.retain(|route| route.next_hop != next_hop);
    }

    /// Expires all routes through a neighbour now.
    pub(super) fn expire_by(&mut self, now: Instant, next_hop: Node) {
        for route in &mut self.all {
            if route.next_hop == next_hop {
                route.expires = now;
            }
        }
    }

    /// The earliest expiry.
    pub(super) fn next_end(&self) -> Option<Instant> {
        let next = self.all.iter().map(|route| route.expires).min()?;
        (next < Instant::FAR_FUTURE).then_some(next)
    }

    /// A target whose route has expired.
    pub(super) fn ended(&self, now: Instant) -> Option<Node> {
        let ended = self.all.iter().find(|route| route.expires <= now)?;
        Some(ended.target)
    }

    fn find(&self, target: Node) -> Result<usize, usize> {
        self.all.binary_search_by_key(&target, |route| route.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_table_rejects_routes_and_reports_the_lru_one() {
        let mut routes = Routes::new(3);
        for target in [5, 3, 4] {
            assert!(routes.add(target, 9, Instant::FAR_FUTURE));
        }
        assert!(!routes.add(6, 9, Instant::FAR_FUTURE));
        assert!(!routes.add(5, 8, Instant::FAR_FUTURE), "it is there");
        assert_eq!(routes.look_up(5), Some(9));
        assert_eq!(routes.least_recent(), Some(3));
        assert_eq!(
            routes.iter().map(|route| route.target).collect::<Vec<_>>(),
            [3, 4, 5]
        );
    }

    #[test]
    fn routes_end() {
        let mut routes = Routes::new(3);
        let end = Instant::from_micros(7);
        assert!(routes.add(1, 9, Instant::FAR_FUTURE) && routes.add(2, 8, end));
        assert_eq!(routes.next_end(), Some(end));
        assert_eq!(
            (routes.ended(Instant::ZERO), routes.ended(end)),
            (None, Some(2))
        );
        routes.expire_by(Instant::ZERO, 9);
        assert_eq!(routes.ended(Instant::ZERO), Some(1));
        routes.remove_by(8);
        assert_eq!((routes.len(), routes.remove(2)), (1, None));
    }
}
