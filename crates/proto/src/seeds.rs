//! Seeds of hash tables, derived by label from one draw.

use core::hash::BuildHasher;

use carob_cc::random::Random;

use crate::tables::keyed_hash::KeyedState;

/// The root from which the seed of each table is derived.
pub(crate) struct Seeds {
    state: KeyedState,
    message_id: u16,
    entity_tags: u64,
}

impl Seeds {
    /// Draws the root: ten words, as many as every earlier version has drawn, so that a run with
    /// the same seed stays the same.
    pub(crate) fn draw(random: &mut impl Random) -> Self {
        let mut word = || u64::from(random.next_u32()) << 32 | u64::from(random.next_u32());
        let words: [u64; 5] = core::array::from_fn(|_| word());
        let root = words.iter().fold(0_u64, |root, word| {
            root.rotate_left(13).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ word
        });
        Self {
            state: KeyedState::with_seed(root),
            message_id: words[0] as u16,
            entity_tags: words[4],
        }
    }

    /// The seed of the table with this name.
    pub(crate) fn of(&self, label: &str) -> u64 {
        self.state.hash_one(label)
    }

    /// The key of entity tags, which go over the wire.
    pub(crate) fn entity_tags(&self) -> u64 {
        self.entity_tags
    }

    /// The first Message ID of multicast requests.
    pub(crate) fn message_id(&self) -> u16 {
        self.message_id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carob_cc::random::Fixed;

    #[test]
    fn labels_and_roots_make_different_seeds() {
        let (one, other) = (Seeds::draw(&mut Fixed(1)), Seeds::draw(&mut Fixed(2)));
        assert_eq!(one.of("peers"), Seeds::draw(&mut Fixed(1)).of("peers"));
        assert_ne!(one.of("peers"), one.of("exchanges"));
        assert_ne!(one.of("peers"), other.of("peers"));
    }
}
