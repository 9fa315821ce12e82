//! Downward routes: the routing table of storing mode, and in non-storing mode the parents of all nodes, recorded by the
//! root.

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

/// The entry of a node.
#[derive(Clone, Copy, Debug)]
struct Entry {
    node: Node,
    /// None for a node known only as a parent.
    parent: Option<Node>,
    /// Expiry; far in the future if never.
    expires: Instant,
}

/// Nodes and their parents, up to the limit, the root excluded.
#[derive(Clone, Debug)]
pub(super) struct SourceRoutes {
    root: Node,
    limit: usize,
    all: Vec<Entry>,
}

impl SourceRoutes {
    pub(super) fn new(root: Node, limit: u16) -> Self {
        Self {
            root,
            limit: usize::from(limit),
            all: Vec::new(),
        }
    }

    /// Nodes with their parents.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Node, Node)> {
        let entry = self.all.iter();
        entry.filter_map(|entry| Some((entry.node, entry.parent?)))
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Records the parent from a DAO. If a reachable node would become unreachable, which is a
    /// loop, the old parent stays. Returns false if the table is full.
    pub(super) fn update(&mut self, node: Node, parent: Node, expires: Instant) -> bool {
        if node == self.root {
            return false;
        }
        if parent != self.root && !self.make_room_for(parent) {
            return false;
        }
        if !self.make_room_for(node) {
            return false;
        }
        let was_reachable = self.is_reachable(node);
        let Some(entry) = self.get_mut(node) else {
            return false;
        };
        entry.expires = expires;
        let old = entry.parent.replace(parent);
        if was_reachable
            && !self.is_reachable(node)
            && let Some(entry) = self.get_mut(node)
        {
            entry.parent = old;
        }
        true
    }

    /// Ends a parent's entry, by a No-Path DAO.
    pub(super) fn end(&mut self, node: Node, parent: Option<Node>, at: Instant) {
        if let Some(entry) = self.get_mut(node)
            && entry.parent == parent
        {
            entry.expires = at;
        }
    }

    /// The earliest expiry.
    pub(super) fn next_end(&self) -> Option<Instant> {
        let next = self.all.iter().map(|entry| entry.expires).min()?;
        (next < Instant::FAR_FUTURE).then_some(next)
    }

    /// Removes expired entries; a node that is still a parent stays, without a parent.
    pub(super) fn purge(&mut self, now: Instant) {
        for entry in self.all.iter_mut().filter(|entry| entry.expires <= now) {
            entry.expires = Instant::FAR_FUTURE;
            entry.parent = None;
        }
        while let Some(index) = self.all.iter().position(|entry| {
            entry.parent.is_none()
                && !self
                    .all
                    .iter()
                    .any(|child| child.parent == Some(entry.node))
        }) {
            self.all.remove(index);
        }
    }

    /// Writes the source route from the root to this node, which is its last hop. Returns false and
    /// writes nothing if there is none.
    pub(super) fn way(&self, node: Node, hops: &mut Vec<Node>) -> bool {
        hops.clear();
        let mut at = node;
        // DAOs of different age may form a loop: a path with more hops than entries is one.
        while at != self.root && hops.len() <= self.all.len() {
            hops.push(at);
            let Some(parent) = self.get(at).and_then(|entry| entry.parent) else {
                hops.clear();
                return false;
            };
            at = parent;
        }
        if at != self.root || hops.is_empty() {
            hops.clear();
            return false;
        }
        hops.reverse();
        true
    }

    /// The first hop of that route.
    pub(super) fn first_hop(&self, node: Node) -> Option<Node> {
        let mut at = node;
        for _ in 0..=self.all.len() {
            let parent = self.get(at)?.parent?;
            if parent == self.root {
                return Some(at);
            }
            at = parent;
        }
        None
    }

    fn is_reachable(&self, node: Node) -> bool {
        self.first_hop(node).is_some()
    }

    fn find(&self, node: Node) -> Result<usize, usize> {
        self.all.binary_search_by_key(&node, |entry| entry.node)
    }

    fn get(&self, node: Node) -> Option<&Entry> {
        self.find(node).ok().map(|index| &self.all[index])
    }

    fn get_mut(&mut self, node: Node) -> Option<&mut Entry> {
        let index = self.find(node).ok()?;
        self.all.get_mut(index)
    }

    fn make_room_for(&mut self, node: Node) -> bool {
        let Err(index) = self.find(node) else {
            return true;
        };
        if self.all.len() >= self.limit {
            return false;
        }
        let entry = Entry {
            node,
            parent: None,
            expires: Instant::FAR_FUTURE,
        };
        self.all.insert(index, entry);
        true
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

    const NEVER: Instant = Instant::FAR_FUTURE;

    fn way(routes: &SourceRoutes, node: Node) -> Option<Vec<Node>> {
        let mut hops = Vec::new();
        routes.way(node, &mut hops).then_some(hops)
    }

    #[test]
    fn source_route_needs_all_parents() {
        let mut routes = SourceRoutes::new(0, 10);
        assert!(routes.update(3, 2, NEVER) && routes.update(2, 1, NEVER));
        assert_eq!(way(&routes, 3), None);
        assert!(routes.update(1, 0, NEVER));
        assert_eq!(way(&routes, 3), Some(vec![1, 2, 3]));
        assert_eq!(routes.first_hop(3), Some(1));
        assert_eq!((way(&routes, 0), way(&routes, 7)), (None, None));
    }

    #[test]
    fn parent_that_would_form_a_loop_is_refused() {
        let mut routes = SourceRoutes::new(0, 10);
        for (node, parent) in [(1, 0), (2, 1), (3, 2)] {
            assert!(routes.update(node, parent, NEVER));
        }
        assert!(routes.update(1, 3, NEVER));
        assert_eq!(way(&routes, 3), Some(vec![1, 2, 3]));
        // Two that were never reachable may point at each other, and have no way.
        assert!(routes.update(5, 6, NEVER) && routes.update(6, 5, NEVER));
        assert_eq!((way(&routes, 5), routes.first_hop(5)), (None, None));
    }

    #[test]
    fn the_table_has_a_limit_and_forgets() {
        let mut routes = SourceRoutes::new(0, 3);
        let end = Instant::from_micros(5);
        assert!(routes.update(1, 0, end) && routes.update(2, 1, end) && routes.update(3, 1, NEVER));
        assert!(!routes.update(4, 0, NEVER) && routes.len() == 3);
        assert_eq!(routes.next_end(), Some(end));
        routes.purge(end);
        assert_eq!(
            routes.iter().collect::<Vec<_>>(),
            [(3, 1)],
            "1 is kept as a parent"
        );
        assert_eq!((routes.next_end(), way(&routes, 3)), (None, None));
        routes.end(3, Some(1), end);
        routes.purge(end);
        assert_eq!(routes.len(), 0);
    }
}
