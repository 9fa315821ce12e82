//! Exchanges by (peer, Message ID) and by (peer, token).
//!
//! Tokens are indexed without their last byte, which may count copies.

use core::hash::{BuildHasher, Hash};

use hashbrown::HashTable;
use slab::Slab;

use crate::address::PeerIndex;
use crate::codec::{MessageId, TokenKey};
use crate::message_layer::Exchange;
use crate::tables::keyed_hash::KeyedState;

/// Exchanges by (peer, Message ID) and by (peer, token).
#[derive(Debug)]
pub(crate) struct ExchangeIndex {
    state: KeyedState,
    by_id: HashTable<u32>,
    by_token: HashTable<u32>,
}

impl ExchangeIndex {
    pub(crate) fn new(seed: u64) -> Self {
        // Keyed: Message IDs and tokens are looked up as messages of anyone name them.
        let state = KeyedState::with_seed(seed);
        Self {
            state,
            by_id: HashTable::new(),
            by_token: HashTable::new(),
        }
    }

    fn hash(&self, key: impl Hash) -> u64 {
        self.state.hash_one(key)
    }

    pub(crate) fn find_id(
        &self,
        all: &Slab<Exchange>,
        peer: PeerIndex,
        id: MessageId,
    ) -> Option<u32> {
        if self.by_id.is_empty() {
            return None; // without a hash, like below
        }
        let matches = |&i: &u32| all[i as usize].id == Some(id) && all[i as usize].peer == peer;
        self.by_id.find(self.hash((peer, id.0)), matches).copied()
    }

    /// The exchange that a message of a peer with this token belongs to.
    pub(crate) fn find_token(
        &self,
        all: &Slab<Exchange>,
        peer: PeerIndex,
        token: &TokenKey,
    ) -> Option<u32> {
        self.find_by_token(all, peer, token, |exchange| exchange.accepts_token(token))
    }

    /// The exchange with a peer that satisfies the predicate, among those whose tokens differ at
    /// most in the last byte. Short tokens may have many.
    pub(crate) fn find_by_token(
        &self,
        all: &Slab<Exchange>,
        peer: PeerIndex,
        token: &TokenKey,
        is: impl Fn(&Exchange) -> bool,
    ) -> Option<u32> {
        if self.by_token.is_empty() {
            return None;
        }
        let matches = |&i: &u32| {
            let exchange = &all[i as usize];
            exchange.peer == peer && is(exchange)
        };
        self.by_token
            .find(self.hash((peer, token.stem())), matches)
            .copied()
    }

    pub(crate) fn add_id(&mut self, all: &Slab<Exchange>, index: u32) {
        let exchange = &all[index as usize];
        debug_assert!(exchange.id.is_some(), "it has a Message ID by now");
        let same = |id| self.find_id(all, exchange.peer, id);
        debug_assert!(
            exchange.id.and_then(same).is_none(),
            "{:?} is in flight",
            exchange.id
        );
        let Self { state, by_id, .. } = self;
        let key = |i: u32| {
            (
                all[i as usize].peer,
                all[i as usize].id.map(|id| id.0).unwrap_or_default(),
            )
        };
        by_id.insert_unique(state.hash_one(key(index)), index, |&i| {
            state.hash_one(key(i))
        });
        self.check_invariants(all);
    }

    /// Checks the sizes of both tables: no exchange is in one of them twice.
    #[inline]
    fn check_invariants(&self, all: &Slab<Exchange>) {
        debug_assert!(self.by_id.len() <= all.len());
        debug_assert!(self.by_token.len() <= all.len());
    }

    pub(crate) fn add_token(&mut self, all: &Slab<Exchange>, index: u32) {
        let exchange = &all[index as usize];
        let same = self.find_by_token(all, exchange.peer, &exchange.token, |other| {
            core::ptr::eq(other, exchange)
        });
        debug_assert!(same.is_none(), "exchange {index} is added twice");
        let Self {
            state, by_token, ..
        } = self;
        // Without uniqueness: tokens of one peer may share a stem, and differ in the byte that
        // counts.
        let hash = |i: u32| state.hash_one((all[i as usize].peer, all[i as usize].token.stem()));
        by_token.insert_unique(hash(index), index, |&i| hash(i));
        self.check_invariants(all);
    }

    pub(crate) fn remove_id(&mut self, exchange: &Exchange, index: u32) {
        if let Some(id) = exchange.id {
            let Self { state, by_id, .. } = self;
            remove_from(by_id, index, || state.hash_one((exchange.peer, id.0)));
        }
    }

    pub(crate) fn remove(&mut self, exchange: &Exchange, index: u32) {
        self.remove_id(exchange, index);
        self.remove_token(exchange, index);
    }

    /// Removes an exchange from the token index, before its token changes.
    pub(crate) fn remove_token(&mut self, exchange: &Exchange, index: u32) {
        let Self {
            state, by_token, ..
        } = self;
        remove_from(by_token, index, || {
            state.hash_one((exchange.peer, exchange.token.stem()))
        });
    }
}

/// Removes an exchange from a table. A lone one needs no hash.
fn remove_from(table: &mut HashTable<u32>, index: u32, hash: impl FnOnce() -> u64) {
    if table.len() == 1 && table.iter().next() == Some(&index) {
        table.clear();
    } else if let Ok(found) = table.find_entry(hash(), |&i| i == index) {
        found.remove();
    }
}
