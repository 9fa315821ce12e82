//! Keys of an endpoint, derived from one draw: of hash tables by number, of tokens by label.

use core::hash::{Hash as _, Hasher as _};

use carob_cc::random::Random;
use siphasher::sip::SipHasher13;

use crate::tables::keyed_hash::split_mix;

/// The odd number nearest to 2^64 over the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash tables of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub(crate) enum Table {
    Block1Queues,
    Connections,
    Deduplication,
    Exchanges,
    ObservationTokens,
    ObserverQuotas,
    Observers,
    Peers,
    RateLimits,
    Reassembly,
    RequestsReceived,
    RetryAfter,
    ValidatedAddresses,
}

/// The root from which the seed of each table is derived.
pub(crate) struct Seeds {
    root: u64,
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
            root.rotate_left(13).wrapping_mul(GOLDEN) ^ word
        });
        Self {
            root,
            message_id: words[0] as u16,
            entity_tags: words[4],
        }
    }

    /// The seed of a table: an output of SplitMix64 from the root. An endpoint has many
    /// tables, so their seeds must cost little.
    pub(crate) const fn table(&self, table: Table) -> u64 {
        let number = table as u64 + 1;
        split_mix(self.root.wrapping_add(number.wrapping_mul(GOLDEN)))
    }

    /// The two keys of tokens.
    pub(crate) fn tokens(&self) -> (u64, u64) {
        // SplitMix64 can be inverted: from what tokens reveal on the wire, nobody must compute
        // the seeds of tables.
        let other = SipHasher13::new_with_keys(self.root, !self.root).finish();
        let key = |label: &str| {
            let mut hasher = SipHasher13::new_with_keys(self.root, other);
            label.hash(&mut hasher);
            hasher.finish()
        };
        (key("tokens"), key("tokens, again"))
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
    fn tables_and_roots_make_different_seeds() {
        let (one, other) = (Seeds::draw(&mut Fixed(1)), Seeds::draw(&mut Fixed(2)));
        let peers = |seeds: &Seeds| seeds.table(Table::Peers);
        assert_eq!(peers(&one), peers(&Seeds::draw(&mut Fixed(1))));
        assert_ne!(peers(&one), one.table(Table::Exchanges));
        assert_ne!(peers(&one), peers(&other));
        assert_ne!(one.tokens(), other.tokens());
    }
}
