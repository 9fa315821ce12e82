//! Bounded tables: entries found by key in constant time, kept in the order of their last use.
//!
//! Each table hashes under its own secret key, so that peers cannot construct collisions. An
//! entry's index is stable until it is removed. What happens at the limit is the table's decision:
//! it rejects the new entry or evicts an old one.

use core::cell::Cell;
use core::ops::{Index, IndexMut};

use hashbrown::HashTable;
use slab::Slab;

use crate::tables::keyed_hash::KeyedState;
use crate::tables::lru::TieredLru;

/// A key of a [`BoundedMap`].
pub(crate) trait MapKey: PartialEq {
    fn keyed_hash(&self, state: &KeyedState) -> u64;
}

/// An entry of a [`BoundedMap`], which contains its key.
pub(crate) trait Keyed {
    type Key: MapKey;

    fn key(&self) -> &Self::Key;
}

/// Entries by key, with a limit and an LRU order of one tier or two. The caller tracks each entry's
/// tier, as in [`TieredLru`].
#[derive(Debug)]
pub(crate) struct BoundedMap<T> {
    state: KeyedState,
    index: HashTable<u32>,
    slots: Slab<T>,
    /// The last lookup: one message looks up its peer several times.
    last: Cell<u32>,
    by_use: TieredLru,
    limit: usize,
}

impl<T: Keyed> BoundedMap<T> {
    pub(crate) fn new(seed: u64, limit: usize) -> Self {
        Self {
            state: KeyedState::with_seed(seed),
            index: HashTable::new(),
            slots: Slab::new(),
            last: Cell::new(0),
            by_use: TieredLru::default(),
            // Indices are u32, and the highest means none in the LRU lists.
            limit: limit.min(u32::MAX as usize - 1),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn is_full(&self) -> bool {
        self.slots.len() >= self.limit
    }

    /// The index of an entry.
    #[inline]
    pub(crate) fn find(&self, key: &T::Key) -> Option<u32> {
        if self.slots.is_empty() {
            return None; // many tables of most endpoints, always
        }
        let is = |index: u32| {
            let entry = self.slots.get(index as usize);
            entry.is_some_and(|entry| entry.key() == key)
        };
        let last = self.last.get();
        // The key is compared, so that a reused slot cannot answer for another entry.
        if is(last) {
            return Some(last);
        }
        let hash = key.keyed_hash(&self.state);
        let found = self.index.find(hash, |&index| is(index)).copied()?;
        self.last.set(found);
        Some(found)
    }

    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.slots.get(index as usize)
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.slots.get_mut(index as usize)
    }

    /// All entries, in the order of their indices.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().map(|(_, entry)| entry)
    }

    /// The first entry that satisfies the predicate.
    pub(crate) fn position(&self, is: impl Fn(&T) -> bool) -> Option<u32> {
        let mut all = self.slots.iter();
        all.find(|(_, entry)| is(entry))
            .map(|(index, _)| index as u32)
    }

    /// Adds an entry with a new key, as the most recently used; the table must have room.
    pub(crate) fn insert(&mut self, entry: T, higher: bool) -> u32 {
        self.insert_with(|_| entry, higher)
    }

    /// Adds the entry that `build` makes of its index.
    pub(crate) fn insert_with(&mut self, build: impl FnOnce(u32) -> T, higher: bool) -> u32 {
        debug_assert!(self.slots.len() < self.limit, "the table is full");
        let vacant = self.slots.vacant_entry();
        let index = vacant.key() as u32;
        vacant.insert(build(index));
        let Self {
            state,
            index: table,
            slots,
            ..
        } = self;
        let hash = |&index: &u32| slots[index as usize].key().keyed_hash(state);
        let same = |&other: &u32| slots[other as usize].key() == slots[index as usize].key();
        debug_assert!(table.find(hash(&index), same).is_none(), "the key is known");
        table.insert_unique(hash(&index), index, hash);
        self.by_use.add(index, higher);
        self.check_invariants();
        index
    }

    /// Removes an entry from its tier.
    pub(crate) fn remove(&mut self, index: u32, higher: bool) -> T {
        let entry = self.slots.remove(index as usize);
        let hash = entry.key().keyed_hash(&self.state);
        let found = self.index.find_entry(hash, |&other| other == index);
        debug_assert!(found.is_ok(), "an entry is found under its key");
        if let Ok(found) = found {
            found.remove();
        }
        self.by_use.remove(index, higher);
        self.check_invariants();
        entry
    }

    /// The least recently used entry of a tier.
    pub(crate) fn oldest(&self, higher: bool) -> Option<u32> {
        self.by_use.oldest(higher)
    }

    /// The entry of the same tier used next after `index`.
    pub(crate) fn newer(&self, index: u32) -> Option<u32> {
        self.by_use.newer(index)
    }

    /// Checks the sizes of the index and of the LRU order against the table.
    #[inline]
    fn check_invariants(&self) {
        debug_assert!(self.index.len() == self.slots.len());
        debug_assert!(self.slots.len() <= self.limit);
        let oldest = [self.by_use.oldest(false), self.by_use.oldest(true)];
        debug_assert!(self.slots.is_empty() == (oldest == [None, None]));
    }

    /// Makes an entry the most recently used of its tier.
    pub(crate) fn touch(&mut self, index: u32, higher: bool) {
        self.by_use.touch(index, higher);
    }

    /// Moves an entry to the higher tier, as its most recently used.
    pub(crate) fn raise(&mut self, index: u32) {
        debug_assert!(self.slots.contains(index as usize), "no entry {index}");
        self.by_use.remove(index, false);
        self.by_use.add(index, true);
    }
}

impl<T> Index<u32> for BoundedMap<T> {
    type Output = T;

    fn index(&self, index: u32) -> &T {
        &self.slots[index as usize]
    }
}

impl<T> IndexMut<u32> for BoundedMap<T> {
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.slots[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use core::hash::BuildHasher;

    use super::*;

    #[derive(Debug)]
    struct Number(u32);

    impl MapKey for u32 {
        fn keyed_hash(&self, state: &KeyedState) -> u64 {
            state.hash_one(self)
        }
    }

    impl Keyed for Number {
        type Key = u32;

        fn key(&self) -> &u32 {
            &self.0
        }
    }

    fn filled() -> BoundedMap<Number> {
        let mut map = BoundedMap::new(1, 100);
        for number in 0..100 {
            assert!(!map.is_full());
            map.insert(Number(number), number % 2 == 1);
        }
        map
    }

    #[test]
    fn entries_are_found_by_key_until_they_are_removed() {
        let mut map = filled();
        assert!(map.is_full());
        for number in 0..100 {
            let index = map.find(&number).expect("added");
            assert_eq!(map[index].0, number);
        }
        let index = map.find(&40).expect("added");
        assert_eq!(map.remove(index, false).0, 40);
        assert_eq!(map.find(&40), None);
        assert_eq!(map.insert_with(Number, true), index, "the index is reused");
        assert_eq!((map.find(&index), map.len()), (Some(index), 100));
    }

    #[test]
    fn each_tier_is_in_the_order_of_last_use() {
        let mut map = filled();
        let order = |map: &BoundedMap<Number>, higher| -> Vec<u32> {
            let next = |&index: &u32| map.newer(index);
            let all = core::iter::successors(map.oldest(higher), next);
            all.map(|index| map[index].0).collect()
        };
        map.touch(0, false);
        map.raise(2);
        let (low, high) = (order(&map, false), order(&map, true));
        assert_eq!((low[0], low[48], low.len()), (4, 0, 49));
        assert_eq!((high[0], high[50], high.len()), (1, 2, 51));
    }
}
