//! LRU lists of indices, with one tier or two; each operation takes constant time.

use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    older: u32,
    newer: u32,
}

/// A doubly linked list over small indices.
#[derive(Debug, Default)]
pub struct LruList(TieredLru);

impl LruList {
    /// Returns the least recently used index.
    pub fn oldest(&self) -> Option<u32> {
        self.0.oldest(false)
    }

    /// Returns the index used next after `index`.
    pub fn newer(&self, index: u32) -> Option<u32> {
        self.0.newer(index)
    }

    /// Adds an index that is not in the list, as the newest.
    pub fn add(&mut self, index: u32) {
        self.0.add(index, false);
    }

    /// Removes an index.
    pub fn remove(&mut self, index: u32) {
        self.0.remove(index, false);
    }

    /// Makes an index the most recently used.
    pub fn touch(&mut self, index: u32) {
        self.0.touch(index, false);
    }
}

#[derive(Clone, Copy, Debug)]
struct Ends {
    oldest: u32,
    newest: u32,
}

/// A two-tier LRU list; the low tier is evicted first. The caller tracks each index's tier.
#[derive(Debug)]
pub(crate) struct TieredLru {
    links: Vec<Link>,
    ends: [Ends; 2],
}

impl Default for TieredLru {
    fn default() -> Self {
        let none = Ends {
            oldest: NONE,
            newest: NONE,
        };
        Self {
            links: Vec::new(),
            ends: [none; 2],
        }
    }
}

impl TieredLru {
    /// Returns the least recently used index of a tier.
    pub(crate) fn oldest(&self, higher: bool) -> Option<u32> {
        let oldest = self.ends[usize::from(higher)].oldest;
        (oldest != NONE).then_some(oldest)
    }

    /// Returns the index of the same tier used next after `index`.
    pub(crate) fn newer(&self, index: u32) -> Option<u32> {
        let newer = self.links[index as usize].newer;
        (newer != NONE).then_some(newer)
    }

    /// Adds an index that is in neither tier, as the newest of one.
    pub(crate) fn add(&mut self, index: u32, higher: bool) {
        let place = index as usize;
        if self.links.len() <= place {
            self.links.resize(
                place + 1,
                Link {
                    older: NONE,
                    newer: NONE,
                },
            );
        }
        let ends = &mut self.ends[usize::from(higher)];
        let before = ends.newest;
        debug_assert!(before != index, "{index} is the newest already");
        debug_assert!(
            (before == NONE) == (ends.oldest == NONE),
            "both ends or none"
        );
        self.links[place] = Link {
            older: before,
            newer: NONE,
        };
        ends.newest = index;
        // `NONE` is beyond every index, so that `get_mut` finds nothing there.
        match self.links.get_mut(before as usize) {
            Some(link) => link.newer = index,
            None => ends.oldest = index,
        }
    }

    /// Removes an index from its tier.
    pub(crate) fn remove(&mut self, index: u32, higher: bool) {
        let Link { older, newer } = self.links[index as usize];
        let ends = &mut self.ends[usize::from(higher)];
        let before = self.links.get(older as usize);
        debug_assert!(
            before.map_or(ends.oldest, |link| link.newer) == index,
            "in another tier"
        );
        let after = self.links.get(newer as usize);
        debug_assert!(
            after.map_or(ends.newest, |link| link.older) == index,
            "in another tier"
        );
        match self.links.get_mut(older as usize) {
            Some(link) => link.newer = newer,
            None => ends.oldest = newer,
        }
        match self.links.get_mut(newer as usize) {
            Some(link) => link.older = older,
            None => ends.newest = older,
        }
    }

    /// Makes an index the most recently used of its tier.
    pub(crate) fn touch(&mut self, index: u32, higher: bool) {
        // Several messages of one peer in a row cost no change of the list.
        if self.ends[usize::from(higher)].newest != index {
            self.remove(index, higher);
            self.add(index, higher);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_that_of_last_use() {
        let mut recency = LruList::default();
        for index in 0..4 {
            recency.add(index);
        }
        recency.touch(1);
        recency.touch(1);
        recency.remove(2);
        let mut order = Vec::new();
        let mut next = recency.oldest();
        while let Some(index) = next {
            order.push(index);
            next = recency.newer(index);
        }
        assert_eq!(order, [0, 3, 1]);
        for index in [0, 1, 3] {
            recency.remove(index);
        }
        assert_eq!(recency.oldest(), None);
    }

    #[test]
    fn each_rank_has_a_separate_lru_order() {
        let mut ranked = TieredLru::default();
        for index in 0..6 {
            ranked.add(index, index % 2 == 1);
        }
        ranked.touch(0, false);
        ranked.remove(2, false);
        ranked.add(2, true);
        let order = |ranked: &TieredLru, higher| {
            let mut order = Vec::new();
            let mut next = ranked.oldest(higher);
            while let Some(index) = next {
                order.push(index);
                next = ranked.newer(index);
            }
            order
        };
        assert_eq!(
            (order(&ranked, false), order(&ranked, true)),
            (alloc::vec![4, 0], alloc::vec![1, 3, 5, 2])
        );
    }
}
