//! Indices in the order they were last used, each move in constant time.

use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    older: u32,
    newer: u32,
}

/// A doubly linked list over small indices.
#[derive(Debug)]
pub struct Recency {
    links: Vec<Link>,
    oldest: u32,
    newest: u32,
}

impl Default for Recency {
    fn default() -> Self {
        Self {
            links: Vec::new(),
            oldest: NONE,
            newest: NONE,
        }
    }
}

impl Recency {
    /// The index used longest ago.
    pub fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// The index used next after `index`.
    pub fn newer(&self, index: u32) -> Option<u32> {
        let newer = self.links[index as usize].newer;
        (newer != NONE).then_some(newer)
    }

    /// Adds an index that is not in the list, as the newest.
    pub fn add(&mut self, index: u32) {
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
        let before = self.newest;
        self.links[place] = Link {
            older: before,
            newer: NONE,
        };
        self.newest = index;
        match self.links.get_mut(before as usize) {
            Some(link) => link.newer = index,
            None => self.oldest = index,
        }
    }

    /// Takes an index out.
    pub fn remove(&mut self, index: u32) {
        let Link { older, newer } = self.links[index as usize];
        match self.links.get_mut(older as usize) {
            Some(link) => link.newer = newer,
            None => self.oldest = newer,
        }
        match self.links.get_mut(newer as usize) {
            Some(link) => link.older = older,
            None => self.newest = older,
        }
    }

    /// Makes an index the newest.
    pub fn touch(&mut self, index: u32) {
        if self.newest != index {
            self.remove(index);
            self.add(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_that_of_last_use() {
        let mut recency = Recency::default();
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
}
