//! Keyed hashing of keys chosen by peers: addresses, options, tokens.
//!
//! Such tables use SipHash-1-3 under a secret key, so that collisions cannot be constructed. A hash
//! function that is merely seeded does not prevent them.

use core::hash::BuildHasher;

use siphasher::sip::SipHasher13;

/// Builds hashers of SipHash-1-3 under one secret key.
///
/// Equal seeds give equal hashes, on every machine of the same byte order.
#[derive(Clone, Copy, Debug)]
pub struct KeyedState {
    hasher: SipHasher13,
}

impl KeyedState {
    /// Returns the key from a seed that peers do not know.
    pub fn with_seed(seed: u64) -> Self {
        Self {
            hasher: SipHasher13::new_with_keys(seed, split_mix(!seed)),
        }
    }
}

/// The output of SplitMix64 (Steele et al. 2014) for a state: a bijection, every bit of which depends on
/// every bit of the state.
pub(crate) const fn split_mix(state: u64) -> u64 {
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

impl BuildHasher for KeyedState {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        self.hasher
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;
    use core::hash::Hash;

    use foldhash::fast::FixedState;

    use super::*;

    /// A word that makes foldhash forget its seed: its shared seed, which is a public constant.
    const WORD: u64 = 0xc0ac_29b7_c97c_50dd;

    /// Byte strings of 500 bytes with the word at every place that foldhash reads, and a number.
    fn strings() -> impl Iterator<Item = Vec<u8>> {
        (0..1_000_u32).map(|number| {
            let mut bytes = alloc::vec![0; 500];
            for (at, end) in [
                (48, 96),
                (144, 192),
                (240, 288),
                (320, 352),
                (384, 416),
                (436, 500),
            ] {
                for word in bytes[at..end].chunks_exact_mut(8) {
                    word.copy_from_slice(&WORD.to_le_bytes());
                }
            }
            bytes[420..424].copy_from_slice(&number.to_be_bytes());
            bytes
        })
    }

    /// Addresses whose interface identifier is that word, in as many networks.
    fn addresses() -> impl Iterator<Item = core::net::SocketAddr> {
        (0..1_000_u128).map(|network| {
            let bits = 0x2001_0db8_u128 << 96 | network << 64 | u128::from(WORD.swap_bytes());
            (core::net::Ipv6Addr::from(bits), 5_683).into()
        })
    }

    fn distinct<T: Hash>(state: &impl BuildHasher, all: impl Iterator<Item = T>) -> usize {
        all.map(|one| state.hash_one(one))
            .collect::<BTreeSet<u64>>()
            .len()
    }

    #[test]
    fn inputs_that_collide_without_a_key_do_not_collide() {
        for seed in [0, 1, 0x1234_5678_9abc_def0] {
            let seeded = FixedState::with_seed(seed);
            assert!(distinct(&seeded, strings()) < 10, "they collide");
            assert!(distinct(&seeded, addresses()) < 10, "they collide");
            let keyed = KeyedState::with_seed(seed);
            assert_eq!(distinct(&keyed, strings()), 1_000);
            assert_eq!(distinct(&keyed, addresses()), 1_000);
        }
    }

    #[test]
    fn the_seed_decides() {
        let hash = |seed| KeyedState::with_seed(seed).hash_one(1);
        assert_eq!(hash(1), hash(1));
        assert_ne!(hash(1), hash(2));
    }
}
