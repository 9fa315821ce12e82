//! A body of known size whose blocks arrive in any order (RFC 9177 4.3, 4.4).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::codec::MAX_BLOCK_NUMBER;
use crate::codec::{BlockSize, BlockValue};

/// Bits of a word of the bitmap.
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
        // The bitmap begins at the boundary of a word, so that `advance` drops whole words and
        // shifts no bits.
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
        // No underflow: a lower number is contained. Without the limit, one forged block with
        // the highest number (2^20 - 1) would allocate a bitmap of 128 KiB.
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

/// Memory of a stored block beside its bytes, at most: its entry in a B-tree whose nodes are half
/// full, and the allocator's part of two allocations.
pub(crate) const BLOCK_OVERHEAD: usize = 96;

const _: () = assert!(BLOCK_OVERHEAD >= 2 * (size_of::<Bytes>() + size_of::<u32>()) + 16);

/// A block that contradicts the size of its body, or the size of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contradiction;

/// A body in transfer.
#[derive(Debug)]
pub(crate) struct AnyOrderBody {
    block_size: BlockSize,
    /// Bytes of the whole body.
    size: u32,
    received: BlockSet,
    /// The bytes below the first missing block.
    bytes: Vec<u8>,
    /// Blocks above it.
    ahead: BTreeMap<u32, Bytes>,
    ahead_bytes: usize,
}

impl AnyOrderBody {
    /// An empty body of `size` bytes in blocks of this size. Blocks more than `ahead_limit` beyond
    /// the first missing one are not stored.
    pub(crate) fn new(block_size: BlockSize, size: u32, ahead_limit: usize) -> Self {
        let ahead_limit = u32::try_from(ahead_limit).unwrap_or(MAX_BLOCK_NUMBER);
        Self {
            block_size,
            size,
            received: BlockSet::new(ahead_limit.min(MAX_BLOCK_NUMBER)),
            bytes: Vec::new(),
            ahead: BTreeMap::new(),
            ahead_bytes: 0,
        }
    }

    /// The number of blocks; a body without bytes has one.
    pub(crate) const fn blocks(&self) -> u32 {
        let blocks = self.size.div_ceil(self.block_size.bytes() as u32);
        if blocks == 0 { 1 } else { blocks }
    }

    /// The size of the whole body in bytes.
    pub(crate) const fn size(&self) -> u32 {
        self.size
    }

    pub(crate) const fn block_size(&self) -> BlockSize {
        self.block_size
    }

    /// The blocks received.
    pub(crate) const fn received(&self) -> &BlockSet {
        &self.received
    }

    /// Bytes of memory held: those received, and [`BLOCK_OVERHEAD`] for each block stored ahead of a
    /// missing one.
    pub(crate) fn held(&self) -> usize {
        // The overhead counts, because blocks of 16 bytes would otherwise hold seven times the
        // memory that they are charged for.
        self.bytes.len() + self.ahead_bytes + self.ahead.len() * BLOCK_OVERHEAD
    }

    /// Returns whether this block would be stored ahead of a missing one.
    pub(crate) const fn is_ahead(&self, block: BlockValue) -> bool {
        block.number > self.received.first_missing()
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.received.first_missing() >= self.blocks()
    }

    /// Returns whether the last block was received.
    pub(crate) fn has_last(&self) -> bool {
        self.received.end() >= self.blocks()
    }

    /// Checks a block against the size of the body.
    pub(crate) fn check(&self, block: BlockValue, length: usize) -> Result<(), Contradiction> {
        let unit = self.block_size.bytes();
        let blocks = self.blocks();
        // NUM has 20 bits (RFC 7959 2.2), so this cannot overflow.
        let last = block.number + 1 == blocks;
        let expected = if last {
            self.size as usize - (blocks as usize - 1) * unit
        } else {
            unit
        };
        let consistent = block.szx == self.block_size
            && block.number < blocks
            && block.more != last
            && length == expected;
        if consistent {
            Ok(())
        } else {
            Err(Contradiction)
        }
    }

    /// Adds a block.
    pub(crate) fn add(
        &mut self,
        block: BlockValue,
        payload: &[u8],
    ) -> Result<Added, Contradiction> {
        self.check(block, payload.len())?;
        let added = self.received.insert(block.number);
        if added != Added::New {
            return Ok(added);
        }
        let unit = self.block_size.bytes();
        if block.number as usize * unit != self.bytes.len() {
            self.ahead_bytes += payload.len();
            let bytes = Bytes::copy_from_slice(payload);
            let before = self.ahead.insert(block.number, bytes);
            debug_assert!(before.is_none(), "block {} is new", block.number);
            self.check_bytes();
            return Ok(added);
        }
        self.bytes.extend_from_slice(payload);
        // `received` has advanced past every block that is contiguous now, so these follow in
        // order.
        while let Some(next) = self.ahead.first_entry()
            && *next.key() < self.received.first_missing()
        {
            let bytes = next.remove();
            self.ahead_bytes -= bytes.len();
            self.bytes.extend_from_slice(&bytes);
        }
        self.check_bytes();
        Ok(added)
    }

    /// Checks the counts of bytes and blocks.
    #[inline]
    fn check_bytes(&self) {
        debug_assert!(self.bytes.len() <= self.size as usize);
        debug_assert!(self.ahead.is_empty() == (self.ahead_bytes == 0));
        debug_assert!(self.received.end() <= self.blocks());
        let first = self.ahead.first_key_value();
        debug_assert!(first.is_none_or(|(first, _)| *first > self.received.first_missing()));
    }

    /// The bytes of the complete body.
    pub(crate) fn take(&mut self) -> Bytes {
        debug_assert!(self.is_complete(), "blocks are missing");
        debug_assert!(
            self.bytes.len() == self.size as usize,
            "{} bytes",
            self.bytes.len()
        );
        Bytes::from(core::mem::take(&mut self.bytes))
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

    fn cut(whole: &[u8], number: u32) -> (BlockValue, &[u8]) {
        let start = number as usize * 16;
        let end = whole.len().min(start + 16);
        let block = BlockValue {
            number,
            more: end < whole.len(),
            szx: BlockSize::MIN,
        };
        (block, &whole[start..end])
    }

    #[test]
    fn a_block_that_contradicts_the_size_is_refused() {
        let whole = [7; 40];
        let mut body = AnyOrderBody::new(BlockSize::MIN, 40, 100);
        let (block, bytes) = cut(&whole, 0);
        let refused = |body: &mut AnyOrderBody, block, bytes: &[u8]| {
            assert_eq!(body.add(block, bytes), Err(Contradiction));
        };
        refused(&mut body, block, &bytes[1..]);
        refused(
            &mut body,
            BlockValue {
                more: false,
                ..block
            },
            bytes,
        );
        refused(&mut body, BlockValue { number: 3, ..block }, bytes);
        let szx = BlockSize::from_szx(1).unwrap();
        refused(&mut body, BlockValue { szx, ..block }, bytes);
        let (last, bytes) = cut(&whole, 2);
        refused(&mut body, BlockValue { more: true, ..last }, bytes);
        assert_eq!(body.add(last, bytes), Ok(Added::New));
        assert_eq!(body.held(), 8 + BLOCK_OVERHEAD);
        assert!(body.has_last() && !body.is_complete());
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

        #[test]
        fn blocks_in_any_order_yield_the_body(
            len in 0_usize..400,
            picks in prop::collection::vec(0_u32..26, 0..60),
        ) {
            let whole: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let mut body = AnyOrderBody::new(BlockSize::MIN, len as u32, 1_000);
            let mut sum = 0;
            for number in picks.into_iter().chain(0..26).filter(|n| *n < body.blocks()).collect::<Vec<_>>() {
                let (block, bytes) = cut(&whole, number);
                if body.add(block, bytes) == Ok(Added::New) {
                    sum += bytes.len();
                }
                let ahead = body.ahead.len() * BLOCK_OVERHEAD;
                prop_assert_eq!(body.held(), sum + ahead);
            }
            prop_assert!(body.is_complete());
            prop_assert_eq!(body.held(), len);
            prop_assert_eq!(&body.take()[..], &whole[..]);
        }
    }
}
