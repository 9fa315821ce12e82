//! A bitmap of blocks received in any order.

use alloc::vec::Vec;

const WORD: u32 = u64::BITS;

/// The result of adding a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    New,
    Duplicate,
    /// Too far ahead of the first missing block; not added.
    TooFar,
}

/// Blocks received: all below [`first_missing`](Self::first_missing), and a bitmap of those above,
/// which are within a limited distance of it.
#[derive(Clone, Debug)]
pub(crate) struct BlockSet {
    first_missing: u32,
    /// The bitmap from the word of `first_missing` on.
    words: Vec<u64>,
    /// One more than the highest block.
    end: u32,
    ahead_limit: u32,
}

impl BlockSet {
    /// An empty set that holds blocks up to `ahead_limit` beyond the first missing one.
    pub(crate) const fn new(ahead_limit: u32) -> Self {
        Self {
            first_missing: 0,
            words: Vec::new(),
            end: 0,
            ahead_limit,
        }
    }

    /// The lowest block that was not received.
    pub(crate) const fn first_missing(&self) -> u32 {
        self.first_missing
    }

    /// One more than the highest received block; 0 for an empty set.
    pub(crate) const fn end(&self) -> u32 {
        self.end
    }

    fn place(&self, number: u32) -> (usize, u64) {
        debug_assert!(number >= self.first_missing, "received before the bitmap");
        let offset = number - self.first_missing / WORD * WORD;
        ((offset / WORD) as usize, 1 << (offset % WORD))
    }

    pub(crate) fn contains(&self, number: u32) -> bool {
        if number < self.first_missing {
            return true;
        }
        let (word, bit) = self.place(number);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Adds a block.
    pub(crate) fn insert(&mut self, number: u32) -> Added {
        if self.contains(number) {
            return Added::Duplicate;
        }
        if number - self.first_missing > self.ahead_limit {
            return Added::TooFar;
        }
        let (word, bit) = self.place(number);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= bit;
        self.end = self.end.max(number + 1);
        if number == self.first_missing {
            self.advance();
        }
        debug_assert!(self.contains(number), "block {number} was added");
        self.check_invariants();
        Added::New
    }

    /// Moves the first missing block past those received.
    fn advance(&mut self) {
        let mut full = 0;
        let mut offset = self.first_missing % WORD;
        loop {
            let word = self.words.get(full).copied().unwrap_or(0);
            offset += (!(word >> offset)).trailing_zeros().min(WORD - offset);
            if offset < WORD {
                break;
            }
            (full, offset) = (full + 1, 0);
        }
        self.first_missing = self.first_missing / WORD * WORD + full as u32 * WORD + offset;
        self.words.drain(..full.min(self.words.len()));
        debug_assert!(!self.contains(self.first_missing), "it is not missing");
    }

    /// Checks the bitmap against its ends.
    #[inline]
    fn check_invariants(&self) {
        debug_assert!(self.first_missing <= self.end);
        debug_assert!(self.end - self.first_missing <= self.ahead_limit.saturating_add(1));
        let bits = self.words.len() as u64 * u64::from(WORD);
        let above = self.end - (self.first_missing / WORD * WORD).min(self.end);
        debug_assert!(
            bits < u64::from(above) + u64::from(WORD),
            "{bits} bits for {above}"
        );
    }

    /// The missing blocks below `end`, in ascending order.
    pub(crate) fn missing_below(&self, end: u32) -> impl Iterator<Item = u32> + '_ {
        (self.first_missing..end).filter(|number| !self.contains(*number))
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn missing_blocks_are_those_between_received_ones() {
        let mut set = BlockSet::new(100);
        for number in [0, 1, 3, 64, 65] {
            assert_eq!(set.insert(number), Added::New);
        }
        assert_eq!((set.first_missing(), set.end()), (2, 66));
        assert_eq!(set.missing_below(6).collect::<Vec<_>>(), [2, 4, 5]);
        assert_eq!(set.insert(3), Added::Duplicate);
        assert_eq!(set.insert(103), Added::TooFar);
        assert_eq!(set.insert(102), Added::New);
    }

    proptest! {
        #[test]
        fn a_block_set_agrees_with_a_tree(numbers in prop::collection::vec(0_u32..300, 0..600)) {
            let (mut set, mut tree) = (BlockSet::new(1_000), BTreeSet::new());
            for number in numbers {
                let new = if tree.insert(number) { Added::New } else { Added::Duplicate };
                prop_assert_eq!(set.insert(number), new);
                let first = (0..=300).find(|n| !tree.contains(n)).unwrap();
                prop_assert_eq!(set.first_missing(), first);
                prop_assert_eq!(set.end(), tree.last().unwrap() + 1);
            }
            let missing: Vec<u32> = (0..310).filter(|n| !tree.contains(n)).collect();
            prop_assert_eq!(set.missing_below(310).collect::<Vec<_>>(), missing);
        }
    }
}
