//! Registration of observers, and confirmation of their interest (RFC 7641 4.1, 4.5).

use alloc::boxed::Box;
use alloc::sync::Arc;

use carob_cc::time::Instant;

use super::{
    CONFIRM_INTEREST, KeyBytes, Links, NONE, Observed, Observer, ObserverIndex, Observers,
    Registration,
};
use crate::codec::{BlockSize, MessageId};
use crate::observe::Subject;
use crate::observe::state::Current;

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
        // Only after the lookup: an observer that registers again needs no place.
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
            // The response to the registration carries this version; later ones are notified.
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
        // Notifications wait for the response, which must come first.
        observer.pending = true;
        observer.version = version;
        observer.confirmed = now;
        observer.unconfirmed = 0;
        if observer.key[..] != *key {
            let before = core::mem::replace(&mut observer.key, KeyBytes::new(key));
            // Added before the old key is subtracted, which may exceed the limit for a moment; a
            // refresh is never refused.
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
                // The subject may have been added for this observer only.
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

/// Confirmation of the observers' interest (RFC 7641 4.5).
impl Observers {
    /// Returns whether the next notification of an observer must be confirmable (RFC 7641 4.5, 7).
    pub(crate) fn must_confirm(&self, index: ObserverIndex, now: Instant) -> bool {
        let observer = &self.slots[index as usize];
        observer.unconfirmed >= self.unconfirmed_max
            || now.since(observer.confirmed) >= CONFIRM_INTEREST
    }

    /// Records that an observer's interest is being verified, by a message sent or by the next
    /// notification.
    pub(crate) fn ask(&mut self, index: ObserverIndex, now: Instant) {
        let observer = &mut self.slots[index as usize];
        observer.confirmed = now;
        // So that the next notification is a CON, whichever state it carries.
        observer.unconfirmed = self.unconfirmed_max;
        self.by_interest.touch(index);
    }

    /// Records that an observer has confirmed its interest.
    pub(crate) fn confirm(&mut self, index: ObserverIndex, now: Instant) {
        let observer = &mut self.slots[index as usize];
        observer.confirmed = now;
        observer.unconfirmed = 0;
        self.by_interest.touch(index);
    }

    /// The observer whose last confirmation is oldest, and its time.
    pub(crate) fn least_interested(&self) -> Option<(ObserverIndex, Instant)> {
        let index = self.by_interest.oldest()?;
        debug_assert!(self.slots.contains(index as usize), "no observer {index}");
        Some((index, self.slots[index as usize].confirmed))
    }
}
