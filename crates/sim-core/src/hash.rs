//! Hashes that are the same on every machine and in every version: for labels and traces.

/// FNV-1a, 64 bits, over bytes.
///
/// For labels and file contents, where speed does not matter.
///
/// ```
/// assert_eq!(carob_sim_core::hash::fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
/// ```
pub const fn fnv1a(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0100_0000_01b3);
        i += 1;
    }
    hash
}

/// The finaliser of SplitMix64: a bijection whose every output bit depends on every input bit.
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The increment of SplitMix64: 2^64 divided by the golden ratio, odd.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A running hash over 64-bit words, a few cycles a word; not for use against adversaries.
///
/// A word is xored into the state plus [`GOLDEN`], multiplied by an odd constant to 128 bits, and
/// the two halves, xored, are added to the state. [`Words::finish`] applies [`mix`] to the state
/// and the number of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    state: u64,
    count: u64,
}

impl Default for Words {
    fn default() -> Self {
        Self {
            state: GOLDEN,
            count: 0,
        }
    }
}

impl Words {
    /// Adds a word.
    #[inline]
    pub fn add(&mut self, word: u64) {
        const MULTIPLIER: u128 = 0xd6e8_feb8_6659_fd93;
        self.count = self.count.wrapping_add(1);
        let product = u128::from(self.state.wrapping_add(GOLDEN) ^ word) * MULTIPLIER;
        // The old state is added back: a word that makes the product zero must not erase it.
        self.state = (product as u64 ^ (product >> 64) as u64).wrapping_add(self.state);
    }

    /// The hash of all words so far.
    pub fn finish(&self) -> u64 {
        mix(self.state ^ mix(self.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[u64]) -> u64 {
        let mut hash = Words::default();
        for &word in words {
            hash.add(word);
        }
        hash.finish()
    }

    #[test]
    fn fnv_matches_its_published_vectors() {
        // From the FNV authors' test suite.
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn mix_matches_splitmix64() {
        // The first output of SplitMix64 from state 0 is mix(0 + increment).
        assert_eq!(mix(GOLDEN), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn order_number_and_value_of_words_change_the_hash() {
        let all = [
            of(&[]),
            of(&[0]),
            of(&[0, 0]),
            of(&[1, 2]),
            of(&[2, 1]),
            of(&[1]),
            of(&[GOLDEN]),
        ];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b));
        }
    }

    #[test]
    fn every_bit_of_a_word_flips_about_half_of_the_hash() {
        let base = of(&[7, 0, 13]);
        for bit in 0..64 {
            let flipped = (of(&[7, 1 << bit, 13]) ^ base).count_ones();
            assert!((12..=52).contains(&flipped), "bit {bit}: {flipped}");
        }
    }
}
