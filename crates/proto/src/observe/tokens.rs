//! Tokens of observations, which outlive the exchange that registered them (RFC 7641 3.1).

use core::hash::BuildHasher;

use hashbrown::HashTable;

use crate::address::PeerIndex;
use crate::codec::TokenKey;
use crate::tables::keyed_hash::KeyedState;

/// An observation of this endpoint, as its messages name it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObservationToken {
    peer: PeerIndex,
    token: TokenKey,
    /// The request of the observation.
    pub(crate) operation: u32,
    /// The first notification has arrived: later ones are not responses to the registration.
    pub(crate) established: bool,
}

impl ObservationToken {
    /// Returns whether an entry is this token of an operation, which may have several: a body by Q-Block2
    /// has one a request.
    fn is_of(peer: PeerIndex, token: &TokenKey, operation: u32) -> impl Fn(&Self) -> bool {
        move |own| own.operation == operation && own.peer == peer && own.token == *token
    }
}

/// Observations of this endpoint by (peer, token), the latter without its last byte, which may
/// count copies.
#[derive(Debug)]
pub(crate) struct ObservationTokens {
    state: KeyedState,
    table: HashTable<ObservationToken>,
}

impl ObservationTokens {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            state: KeyedState::with_seed(seed),
            table: HashTable::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    fn hash(state: &KeyedState, peer: PeerIndex, token: &TokenKey) -> u64 {
        // By the stem: a token that counts must not be mistaken for an observation's.
        state.hash_one((peer, token.stem()))
    }

    /// The observation with this token.
    pub(crate) fn find(&self, peer: PeerIndex, token: &TokenKey) -> Option<ObservationToken> {
        self.find_by(peer, token, |own| own == token)
    }

    /// Returns whether a token, `counting` copies or not, could be mistaken for an observation's.
    pub(crate) fn claims(&self, peer: PeerIndex, token: &TokenKey, counting: bool) -> bool {
        let is = |own: &TokenKey| own == token || (counting && own.is_sibling(token));
        self.find_by(peer, token, is).is_some()
    }

    fn find_by(
        &self,
        peer: PeerIndex,
        token: &TokenKey,
        is: impl Fn(&TokenKey) -> bool,
    ) -> Option<ObservationToken> {
        // Every response comes by here; an endpoint that observes nothing needs no hash.
        if self.table.is_empty() {
            return None;
        }
        let hash = Self::hash(&self.state, peer, token);
        let found = self
            .table
            .find(hash, |entry| entry.peer == peer && is(&entry.token));
        found.copied()
    }

    /// Adds the token of a request that registers.
    pub(crate) fn add(&mut self, peer: PeerIndex, token: TokenKey, operation: u32) {
        let entry = ObservationToken {
            peer,
            token,
            operation,
            established: false,
        };
        self.insert(entry);
    }

    fn insert(&mut self, entry: ObservationToken) {
        let Self { state, table } = self;
        let hash = |entry: &ObservationToken| Self::hash(state, entry.peer, &entry.token);
        let same =
            |other: &ObservationToken| other.peer == entry.peer && other.token == entry.token;
        debug_assert!(
            table.find(hash(&entry), same).is_none(),
            "the token is in use"
        );
        table.insert_unique(hash(&entry), entry, hash);
    }

    /// Records the first notification.
    pub(crate) fn establish(&mut self, peer: PeerIndex, token: &TokenKey, operation: u32) {
        let hash = Self::hash(&self.state, peer, token);
        let own = ObservationToken::is_of(peer, token, operation);
        if let Some(entry) = self.table.find_mut(hash, own) {
            entry.established = true;
        }
    }

    /// Removes the token of an ended observation.
    pub(crate) fn remove(
        &mut self,
        peer: PeerIndex,
        token: &TokenKey,
        operation: u32,
    ) -> Option<ObservationToken> {
        let hash = Self::hash(&self.state, peer, token);
        let own = ObservationToken::is_of(peer, token, operation);
        let found = self.table.find_entry(hash, own);
        found.ok().map(|found| found.remove().0)
    }

    /// Replaces this token of an observation; returns whether it had it.
    pub(crate) fn replace(
        &mut self,
        peer: PeerIndex,
        before: &TokenKey,
        operation: u32,
        token: TokenKey,
    ) -> bool {
        let own = self.find(peer, before);
        if own.is_none_or(|own| own.operation != operation) {
            return false;
        }
        // Removed and inserted again: its place depends on the token.
        if let Some(entry) = self.remove(peer, before, operation) {
            self.insert(ObservationToken { token, ..entry });
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Token;
    use alloc::vec::Vec;

    fn key(bytes: &[u8]) -> TokenKey {
        TokenKey::short(Token::new(bytes).expect("a short token"))
    }

    #[test]
    fn an_observation_is_found_by_peer_and_token_until_it_ends() {
        let mut tokens = ObservationTokens::new(1);
        tokens.add(1, key(&[1, 2]), 7);
        assert!(tokens.find(2, &key(&[1, 2])).is_none());
        assert!(tokens.find(1, &key(&[1, 3])).is_none());
        assert!(
            tokens.claims(1, &key(&[1, 3]), true),
            "they differ in the count"
        );
        assert!(!tokens.find(1, &key(&[1, 2])).expect("known").established);
        tokens.establish(1, &key(&[1, 2]), 7);
        assert!(tokens.find(1, &key(&[1, 2])).expect("known").established);
        assert!(tokens.remove(1, &key(&[1, 2]), 7).is_some());
        assert_eq!(tokens.len(), 0);
    }

    #[test]
    fn tokens_of_an_operation_are_unique() {
        for seed in 0..1000 {
            let mut tokens = ObservationTokens::new(seed);
            let all: Vec<TokenKey> = (0..16).map(|n| key(&[n, 0])).collect();
            for token in &all {
                tokens.add(1, *token, 7);
            }
            tokens.establish(1, &all[1], 7);
            assert!(tokens.remove(1, &all[0], 7).is_some());
            for token in &all[1..] {
                let own = tokens.find(1, token).expect("another was removed");
                assert_eq!(own.established, own.token == all[1], "seed {seed}");
            }
        }
    }

    #[test]
    fn a_token_is_replaced_only_if_it_is_the_observations() {
        let mut tokens = ObservationTokens::new(1);
        tokens.add(1, key(&[1, 2]), 7);
        tokens.establish(1, &key(&[1, 2]), 7);
        assert!(!tokens.replace(1, &key(&[9, 9]), 7, key(&[5, 6])));
        assert!(!tokens.replace(1, &key(&[1, 2]), 8, key(&[5, 6])));
        assert!(tokens.replace(1, &key(&[1, 2]), 7, key(&[5, 6])));
        assert!(tokens.find(1, &key(&[1, 2])).is_none());
        assert!(tokens.find(1, &key(&[5, 6])).expect("known").established);
    }
}
