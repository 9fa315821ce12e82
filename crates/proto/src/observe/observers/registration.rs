//! Registration of observers (RFC 7641 4.1).

use alloc::boxed::Box;
use alloc::sync::Arc;

use carob_cc::time::Instant;

use super::{KeyBytes, Links, NONE, Observed, Observer, ObserverIndex, Observers};
use crate::address::PeerIndex;
use crate::codec::{BlockSize, MessageId, TokenKey};
use crate::observe::Subject;
use crate::observe::state::Current;

/// A registration request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registration<'a> {
    pub(crate) peer: PeerIndex,
    pub(crate) token: TokenKey,
    /// The bytes of a token longer than its key; otherwise empty.
    pub(crate) long_token: &'a [u8],
    pub(crate) size: BlockSize,
    pub(crate) key: &'a [u8],
}

impl Observers {
    /// Registers an observer, or refreshes the one with the same peer and token (RFC 7641 4.1).
    /// `first` is the head of the peer's list. Returns `None` at a limit.
    ///
    /// The caller first removes an observer of the same token from another subject.
    pub(crate) fn register(
        &mut self,
        now: Instant,
        subject: Subject,
        registration: Registration<'_>,
        first: &mut u32,
    ) -> Option<ObserverIndex> {
        let Registration {
            peer,
            token,
            long_token,
            size,
            key,
        } = registration;
        if let Some(index) = self.find(*first, &token) {
            self.refresh(now, index, size, key);
            return Some(index);
        }
        let full =
            self.slots.len() >= self.limit || self.of_peer(*first).count() >= self.limit_of_peer;
        if full || self.key_bytes + long_token.len() > self.key_limit {
            return None;
        }
        let at = self
            .find_subject(subject)
            .unwrap_or_else(|| self.add_subject(subject));
        let head = self.observed[at as usize].first;
        let key = self.shared_key(at, key, long_token.len())?;
        let index = self.slots.insert(Observer {
            peer,
            token,
            size,
            pending: true,
            last_id: MessageId(0),
            has_last: false,
            subject: at,
            version: self.observed[at as usize].version,
            exchange: NONE,
            of_subject: Links {
                previous: NONE,
                next: head,
            },
            of_peer: Links {
                previous: NONE,
                next: *first,
            },
            confirmed: now,
            unconfirmed: 0,
            key,
        }) as u32;
        if token.is_long() {
            self.key_bytes += long_token.len();
            self.long_tokens.insert(index, Box::from(long_token));
        }
        if let Some(other) = self.slots.get_mut(head as usize) {
            other.of_subject.previous = index;
        }
        if let Some(other) = self.slots.get_mut(*first as usize) {
            other.of_peer.previous = index;
        }
        *first = index;
        let observed = &mut self.observed[at as usize];
        observed.first = index;
        observed.observers += 1;
        self.by_interest.add(index);
        debug_assert!(
            self.find(*first, &token) == Some(index),
            "the newest of its peer"
        );
        self.check_invariants();
        Some(index)
    }

    /// Refreshes an observer that registers again (RFC 7641 4.1).
    fn refresh(&mut self, now: Instant, index: ObserverIndex, size: BlockSize, key: &[u8]) {
        let at = self.slots[index as usize].subject;
        let version = self.observed[at as usize].version;
        let observer = &mut self.slots[index as usize];
        observer.size = size;
        observer.pending = true;
        observer.version = version;
        observer.confirmed = now;
        observer.unconfirmed = 0;
        if observer.key[..] != *key {
            let before = core::mem::replace(&mut observer.key, KeyBytes::new(key));
            self.key_bytes += key.len();
            self.forget_key(&before);
        }
        debug_assert!(!self.is_behind(index), "its response has the current state");
        self.by_interest.touch(index);
    }

    /// The key of a new observer of a subject, shared with another one where they are alike, as
    /// requests for one representation mostly are. None if there is no room for it beside these bytes
    /// of its token.
    fn shared_key(&mut self, at: u32, key: &[u8], token: usize) -> Option<Arc<KeyBytes>> {
        let head = self.observed[at as usize].first;
        match self.slots.get(head as usize) {
            Some(other) if other.key[..] == *key => Some(Arc::clone(&other.key)),
            _ if self.key_bytes + key.len() + token > self.key_limit => {
                self.remove_if_unobserved(at);
                None
            }
            _ => {
                self.key_bytes += key.len();
                Some(KeyBytes::new(key))
            }
        }
    }

    fn add_subject(&mut self, subject: Subject) -> u32 {
        let at = self.observed.insert(Observed {
            subject,
            first: NONE,
            observers: 0,
            version: 0,
            current: Current::default(),
        }) as u32;
        let hash = self.hash(subject);
        let Self {
            state,
            subjects,
            observed,
            ..
        } = self;
        subjects.insert_unique(hash, at, |&i| {
            core::hash::BuildHasher::hash_one(state, observed[i as usize].subject.0)
        });
        at
    }
}
