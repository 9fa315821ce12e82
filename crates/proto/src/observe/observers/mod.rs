//! The list of observers, with the version last sent to each (RFC 7641 4.1).
//!
//! An observer is a peer and a token. It is in two lists: its subject's, walked when the
//! subject's state changes, and its peer's, walked when the peer sends a message. The list of
//! a peer has a separate limit, which keeps the walk short.
//!
//! A subject's state is stored once, with a version; each observer has only the version last sent
//! to it. Intermediate states are skipped (RFC 7641 4.5.2), so nothing queues up for a slow
//! observer.

mod registration;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;

use carob_cc::time::{Duration, Instant};
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashTable};
use slab::Slab;

use crate::address::PeerIndex;
use crate::codec::{BlockSize, MessageId, TokenKey};
use crate::config::Config;
use crate::message::Response;
use crate::observe::Subject;
use crate::observe::state::{Current, State};
use crate::seeds::{Seeds, Table};
use crate::tables::lru::LruList;
use crate::tables::quota::QuotaTable;

/// Index of an observer in its table.
pub(crate) type ObserverIndex = u32;

/// The index of no observer and no exchange.
pub(crate) const NONE: u32 = u32::MAX;

/// The interval in which a client must confirm its interest: by acknowledging a notification sent
/// as CON, or by a new registration (RFC 7641 4.5).
pub(crate) const CONFIRM_INTEREST: Duration = Duration::from_secs(24 * 3_600);

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

/// One observation of one peer.
#[derive(Debug)]
pub(crate) struct Observer {
    /// The peer, valid while the observer is listed, because the observer counts as a reference.
    pub(crate) peer: PeerIndex,
    /// The token's key; the bytes of a longer token are beside the table.
    pub(crate) token: TokenKey,
    /// The largest block the observer accepts.
    pub(crate) size: BlockSize,
    /// The registration has no response yet; notifications wait for it.
    pub(crate) pending: bool,
    /// The Message ID of the last NON notification, matched against an RST, and whether there was
    /// one.
    last_id: MessageId,
    has_last: bool,
    subject: u32,
    /// The version of the subject's state last sent.
    version: u32,
    /// The notification waiting to be sent or acknowledged; [`NONE`] without one.
    pub(crate) exchange: u32,
    /// The neighbours in the subject's list and in the peer's.
    of_subject: Links,
    of_peer: Links,
    /// The time at which interest was last confirmed.
    pub(crate) confirmed: Instant,
    /// NON notifications since then.
    pub(crate) unconfirmed: u16,
    /// The key of the request's block-wise transfer. Most observers of a subject share it, so it
    /// carries its own length.
    pub(crate) key: Arc<KeyBytes>,
}

/// The bytes of a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KeyBytes(Box<[u8]>);

impl KeyBytes {
    fn new(bytes: &[u8]) -> Arc<Self> {
        Arc::new(Self(bytes.into()))
    }
}

impl core::ops::Deref for KeyBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Observer {
    /// Records that this notification was sent as NON.
    pub(crate) fn sent_as(&mut self, id: MessageId) {
        (self.last_id, self.has_last) = (id, true);
    }
}

#[derive(Clone, Copy, Debug)]
struct Links {
    previous: u32,
    next: u32,
}

/// A subject and its current state.
#[derive(Debug)]
pub(crate) struct Observed {
    subject: Subject,
    first: u32,
    observers: u32,
    version: u32,
    pub(super) current: Current,
}

/// The progress of a fan-out to a subject's observers.
#[derive(Clone, Copy, Debug)]
struct FanOut {
    subject: u32,
    next: u32,
}

/// All observers.
#[derive(Debug)]
pub(crate) struct Observers {
    state: FixedState,
    subjects: HashTable<u32>,
    observed: Slab<Observed>,
    slots: Slab<Observer>,
    by_interest: LruList,
    /// Subjects with a fan-out in progress, and the next observer of each.
    fan_out: VecDeque<FanOut>,
    limit: usize,
    limit_of_peer: usize,
    /// The bytes of tokens longer than their keys.
    long_tokens: HashMap<ObserverIndex, Box<[u8]>, FixedState>,
    /// Bytes of all keys, shared ones counted once, and of long tokens.
    key_bytes: usize,
    key_limit: usize,
    /// NON notifications between confirmations of interest; the next one is sent as CON.
    unconfirmed_max: u16,
}

impl Observers {
    pub(crate) fn new(
        seed: u64,
        (limit, limit_of_peer): (usize, usize),
        key_limit: usize,
        unconfirmed_max: u16,
    ) -> Self {
        Self {
            unconfirmed_max,
            // Numbers of the application: remote hosts cannot make them collide.
            state: FixedState::with_seed(seed),
            subjects: HashTable::new(),
            observed: Slab::new(),
            slots: Slab::new(),
            by_interest: LruList::default(),
            fan_out: VecDeque::new(),
            // Indices stay below `NONE`.
            limit: limit.min(NONE as usize - 1),
            limit_of_peer,
            long_tokens: HashMap::with_hasher(FixedState::with_seed(seed.rotate_left(8))),
            key_bytes: 0,
            key_limit,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    fn hash(&self, subject: Subject) -> u64 {
        core::hash::BuildHasher::hash_one(&self.state, subject.0)
    }

    /// The index of a subject, if it is observed.
    pub(crate) fn find_subject(&self, subject: Subject) -> Option<u32> {
        self.subjects
            .find(self.hash(subject), |&i| {
                self.observed[i as usize].subject == subject
            })
            .copied()
    }

    /// Observers of a subject.
    pub(crate) fn count(&self, subject: Subject) -> usize {
        self.find_subject(subject)
            .map_or(0, |at| self.observed[at as usize].observers as usize)
    }

    /// The observers of a peer, starting at `first`, the head of the peer's list.
    fn of_peer(&self, first: u32) -> impl Iterator<Item = ObserverIndex> {
        let mut next = first;
        core::iter::from_fn(move || {
            let index = next;
            let observer = self.slots.get(index as usize)?;
            next = observer.of_peer.next;
            Some(index)
        })
    }

    /// The observer with this token, among a peer's.
    pub(crate) fn find(&self, first: u32, token: &TokenKey) -> Option<ObserverIndex> {
        self.of_peer(first)
            .find(|&i| self.slots[i as usize].token == *token)
    }

    /// The bytes of an observer's token if it is long; otherwise empty.
    #[cold]
    pub(crate) fn long_token(&self, index: ObserverIndex) -> &[u8] {
        self.long_tokens.get(&index).map_or(&[], |token| token)
    }

    /// The observer whose last NON notification had this Message ID.
    pub(crate) fn find_notified(&self, first: u32, id: MessageId) -> Option<ObserverIndex> {
        self.of_peer(first).find(|&i| {
            let observer = &self.slots[i as usize];
            observer.has_last && observer.last_id == id
        })
    }

    /// The observer of a peer whose unacknowledged notification satisfies the predicate, and that
    /// notification.
    pub(crate) fn find_notifying(
        &self,
        first: u32,
        mut is: impl FnMut(u32) -> bool,
    ) -> Option<(ObserverIndex, u32)> {
        self.of_peer(first).find_map(|index| {
            let exchange = self.slots[index as usize].exchange;
            (exchange != NONE && is(exchange)).then_some((index, exchange))
        })
    }

    pub(crate) fn count_of_peer(&self, first: u32) -> usize {
        self.of_peer(first).count()
    }

    pub(crate) fn first_of_peer(&self, first: u32) -> Option<ObserverIndex> {
        self.of_peer(first).next()
    }

    /// Removes an observer. `first` is the head of the peer's list. Returns the observer, and its
    /// subject if that has no observers left.
    pub(crate) fn remove(
        &mut self,
        index: ObserverIndex,
        first: &mut u32,
    ) -> (Observer, Option<Subject>) {
        debug_assert!(
            self.of_peer(*first).any(|own| own == index),
            "not of this peer"
        );
        let observer = self.slots.remove(index as usize);
        self.forget_key(&observer.key);
        if observer.token.is_long()
            && let Some(token) = self.long_tokens.remove(&index)
        {
            debug_assert!(self.key_bytes >= token.len(), "its bytes were counted");
            self.key_bytes -= token.len();
        }
        self.by_interest.remove(index);
        let following = observer.of_subject.next;
        // A fan-out that is to continue here continues behind it.
        for fan_out in &mut self.fan_out {
            if fan_out.next == index {
                fan_out.next = following;
            }
        }
        let Links { previous, next } = observer.of_peer;
        match self.slots.get_mut(previous as usize) {
            Some(other) => other.of_peer.next = next,
            None => *first = next,
        }
        if let Some(other) = self.slots.get_mut(next as usize) {
            other.of_peer.previous = previous;
        }
        let at = observer.subject as usize;
        let Links { previous, next } = observer.of_subject;
        match self.slots.get_mut(previous as usize) {
            Some(other) => other.of_subject.next = next,
            None => self.observed[at].first = next,
        }
        if let Some(other) = self.slots.get_mut(next as usize) {
            other.of_subject.previous = previous;
        }
        debug_assert!(self.observed[at].observers > 0, "an observer was counted");
        self.observed[at].observers -= 1;
        // Reported, so that the application forgets what it keeps for the subject.
        let forgotten = self.remove_if_unobserved(at as u32);
        self.check_invariants();
        (observer, forgotten)
    }

    /// Removes a subject without observers; returns which it was.
    fn remove_if_unobserved(&mut self, at: u32) -> Option<Subject> {
        let at = at as usize;
        (self.observed[at].observers == 0).then(|| {
            let Observed { subject, first, .. } = self.observed.remove(at);
            debug_assert!(first == NONE, "a list without observers is empty");
            self.fan_out
                .retain(|fan_out| fan_out.subject as usize != at);
            let hash = self.hash(subject);
            if let Ok(found) = self.subjects.find_entry(hash, |&i| i as usize == at) {
                found.remove();
            }
            subject
        })
    }

    /// Checks the sizes of the tables beside each other.
    #[inline]
    pub(super) fn check_invariants(&self) {
        debug_assert!(self.slots.len() <= self.limit);
        debug_assert!(self.observed.len() <= self.slots.len());
        debug_assert!(self.subjects.len() == self.observed.len());
        debug_assert!(self.long_tokens.len() <= self.slots.len());
        debug_assert!(self.fan_out.len() <= self.observed.len());
        debug_assert!(!self.slots.is_empty() || self.key_bytes == 0);
    }

    /// Drops an observer's key, unless others share it.
    fn forget_key(&mut self, key: &Arc<KeyBytes>) {
        // The caller holds the last one: the bytes leave memory with it.
        if Arc::strong_count(key) == 1 {
            debug_assert!(self.key_bytes >= key.len(), "its bytes were counted");
            self.key_bytes -= key.len();
        }
    }

    /// Stores the response to a registration as the state, unless a newer state is being sent
    /// already.
    pub(crate) fn remember_state(&mut self, index: ObserverIndex, response: &Response) {
        if !self.is_behind(index) {
            let at = self.slots[index as usize].subject;
            self.observed[at as usize].current.remember(response);
        }
    }

    /// Returns whether a state has the format of the subject's first notification (RFC 7641 4.2).
    pub(crate) fn suits(&self, subject: Subject, response: &Response) -> bool {
        let at = self.find_subject(subject);
        at.is_none_or(|at| self.observed[at as usize].current.suits(response))
    }

    /// Returns whether this response fits an observer's registration. It must have the format that
    /// other observers received first; without others, its own format applies from now on.
    pub(crate) fn may_begin_with(&mut self, index: ObserverIndex, response: &Response) -> bool {
        let at = self.slots[index as usize].subject;
        let observed = &mut self.observed[at as usize];
        if observed.observers == 1 {
            observed.current.restart();
        }
        observed.current.suits(response)
    }

    /// The state to send to an observer.
    pub(crate) fn state(&self, index: ObserverIndex) -> Option<&State> {
        let observer = self.slots.get(index as usize)?;
        self.observed[observer.subject as usize]
            .current
            .state
            .as_ref()
    }

    pub(crate) fn subject(&self, index: ObserverIndex) -> Subject {
        self.observed[self.slots[index as usize].subject as usize].subject
    }

    /// Ends the notification `exchange` of an observer, which may be removed already.
    pub(crate) fn leave(&mut self, index: ObserverIndex, exchange: u32) {
        if let Some(observer) = self.slots.get_mut(index as usize)
            && observer.exchange == exchange
        {
            observer.exchange = NONE;
        }
    }

    /// Returns whether an observer's last version is older than the current one.
    pub(crate) fn is_behind(&self, index: ObserverIndex) -> bool {
        let observer = &self.slots[index as usize];
        // Unequal, not less: versions wrap.
        observer.version != self.observed[observer.subject as usize].version
    }

    /// Records that an observer is sent the current state.
    pub(crate) fn mark_current(&mut self, index: ObserverIndex) {
        let observer = &mut self.slots[index as usize];
        observer.version = self.observed[observer.subject as usize].version;
    }

    /// Records that an observer is to be sent the current state again.
    pub(crate) fn mark_behind(&mut self, index: ObserverIndex) {
        let observer = &mut self.slots[index as usize];
        observer.version = self.observed[observer.subject as usize]
            .version
            .wrapping_sub(1);
    }

    /// Records that an observer's registration has its response. Changes since the registration
    /// remain to be sent.
    pub(crate) fn mark_registered(&mut self, index: ObserverIndex) {
        self.slots[index as usize].pending = false;
    }

    /// The first observer of a subject.
    pub(crate) fn first(&self, at: u32) -> Option<ObserverIndex> {
        let first = self.observed.get(at as usize)?.first;
        (first != NONE).then_some(first)
    }

    pub(crate) fn get(&self, index: ObserverIndex) -> Option<&Observer> {
        self.slots.get(index as usize)
    }
}

/// Fan-out of a new state to the observers of its subject (RFC 7641 4.5).
impl Observers {
    /// Sets a new state of a subject. [`next_to_notify`](Self::next_to_notify) returns its observers.
    pub(crate) fn change(&mut self, subject: Subject, state: State) {
        let Some(at) = self.find_subject(subject) else {
            return;
        };
        let observed = &mut self.observed[at as usize];
        // Only equality is asked, so that a wrap matters after 2^32 changes that one observer
        // missed.
        observed.version = observed.version.wrapping_add(1);
        observed.current.set(state);
        let next = observed.first;
        debug_assert!(next != NONE, "an observed subject has an observer");
        // Observers already sent a superseded state are notified again.
        match self.fan_out.iter_mut().find(|t| t.subject == at) {
            Some(fan_out) => fan_out.next = next,
            None => self.fan_out.push_back(FanOut { subject: at, next }),
        }
    }

    /// Returns whether some observers of a subject have not been notified of its change yet.
    pub(crate) fn is_fan_out_in_progress(&self, subject: Subject) -> bool {
        let at = self.find_subject(subject);
        at.is_some_and(|at| self.fan_out.iter().any(|fan_out| fan_out.subject == at))
    }

    /// The next observer to notify of a new state, subject by subject.
    #[inline]
    pub(crate) fn next_to_notify(&mut self) -> Option<ObserverIndex> {
        loop {
            let fan_out = self.fan_out.front_mut()?;
            match self.slots.get(fan_out.next as usize) {
                Some(observer) => {
                    let index = fan_out.next;
                    debug_assert!(observer.subject == fan_out.subject, "another list");
                    fan_out.next = observer.of_subject.next;
                    return Some(index);
                }
                None => self.fan_out.pop_front(),
            };
        }
    }
}

/// The observers of all resources, and their notifications.
#[derive(Debug)]
pub(crate) struct Notifications {
    pub(crate) observers: Observers,
    /// Observations by source.
    pub(crate) shares: QuotaTable,
    /// Notifications waiting to be sent.
    pub(crate) waiting: usize,
    /// Notifications dropped.
    pub(crate) dropped: u64,
}

impl Notifications {
    pub(crate) fn new(config: &Config, seeds: &Seeds) -> Self {
        let limits = &config.limits;
        Self {
            observers: Observers::new(
                seeds.table(Table::Observers),
                (limits.observers, limits.observers_of_peer),
                limits.observer_bytes,
                config.unconfirmed_max,
            ),
            shares: QuotaTable::new(seeds.table(Table::ObserverQuotas)),
            waiting: 0,
            dropped: 0,
        }
    }
}

impl core::ops::Index<ObserverIndex> for Observers {
    type Output = Observer;
    fn index(&self, index: ObserverIndex) -> &Observer {
        &self.slots[index as usize]
    }
}

impl core::ops::IndexMut<ObserverIndex> for Observers {
    fn index_mut(&mut self, index: ObserverIndex) -> &mut Observer {
        &mut self.slots[index as usize]
    }
}

#[cfg(test)]
mod tests;
