//! The list of observers, with the version last sent to each (RFC 7641 4.1).
//!
//! An observer is a peer and a token. It is in two lists: that of its subject, walked when the
//! subject's state changes, and that of its peer, walked when the peer sends a message. The list of
//! a peer has a limit of its own, which keeps the walk short.
//!
//! A subject's state is stored once, with a version; each observer has only the version last sent
//! to it. Intermediate states are skipped (RFC 7641 4.5.2), so nothing queues up for a slow
//! observer.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;

use carob_cc::time::{Duration, Instant};
use foldhash::fast::FixedState;
use hashbrown::{HashMap, HashTable};
use slab::Slab;

use crate::address::PeerIndex;
use crate::codec::{BlockSize, MessageId, TokenKey};
use crate::message::Response;
use crate::observe::Subject;
use crate::observe::state::{Current, State};
use crate::tables::lru::LruList;

/// Index of an observer in its table.
pub(crate) type ObserverIndex = u32;

/// The index of no observer and no exchange.
pub(crate) const NONE: u32 = u32::MAX;

/// The interval in which a client must confirm its interest: by acknowledging a notification sent
/// as CON, or by a new registration (RFC 7641 4.5).
pub(crate) const CONFIRM_INTEREST: Duration = Duration::from_secs(24 * 3_600);

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
    /// The neighbours in the list of the subject and in that of the peer.
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
struct Telling {
    subject: u32,
    next: u32,
}

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

/// All observers.
#[derive(Debug)]
pub(crate) struct Observers {
    state: FixedState,
    subjects: HashTable<u32>,
    observed: Slab<Observed>,
    slots: Slab<Observer>,
    by_interest: LruList,
    /// Subjects with a fan-out in progress, and the next observer of each.
    telling: VecDeque<Telling>,
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
            state: FixedState::with_seed(seed),
            subjects: HashTable::new(),
            observed: Slab::new(),
            slots: Slab::new(),
            by_interest: LruList::default(),
            telling: VecDeque::new(),
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

    /// The observer with this token, among those of a peer.
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

    pub(crate) fn count_of_peer(&self, first: u32) -> usize {
        self.of_peer(first).count()
    }

    pub(crate) fn first_of_peer(&self, first: u32) -> Option<ObserverIndex> {
        self.of_peer(first).next()
    }

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
        self.by_interest.touch(index);
    }

    /// The key of a new observer of a subject, shared with another one where they are alike, as
    /// requests for one representation mostly are. None if there is no room for it beside so many bytes
    /// of its token.
    fn shared_key(&mut self, at: u32, key: &[u8], token: usize) -> Option<Arc<KeyBytes>> {
        let head = self.observed[at as usize].first;
        match self.slots.get(head as usize) {
            Some(other) if other.key[..] == *key => Some(Arc::clone(&other.key)),
            _ if self.key_bytes + key.len() + token > self.key_limit => {
                self.forget_if_deserted(at);
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

    /// Removes an observer. `first` is the head of the peer's list. Returns the observer, and its
    /// subject if that has no observers left.
    pub(crate) fn remove(
        &mut self,
        index: ObserverIndex,
        first: &mut u32,
    ) -> (Observer, Option<Subject>) {
        let observer = self.slots.remove(index as usize);
        self.forget_key(&observer.key);
        if observer.token.is_long()
            && let Some(token) = self.long_tokens.remove(&index)
        {
            self.key_bytes -= token.len();
        }
        self.by_interest.remove(index);
        let following = observer.of_subject.next;
        for telling in &mut self.telling {
            if telling.next == index {
                telling.next = following;
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
        self.observed[at].observers -= 1;
        let forgotten = self.forget_if_deserted(at as u32);
        (observer, forgotten)
    }

    /// Removes a subject without observers; returns which it was.
    fn forget_if_deserted(&mut self, at: u32) -> Option<Subject> {
        let at = at as usize;
        (self.observed[at].observers == 0).then(|| {
            let Observed { subject, .. } = self.observed.remove(at);
            self.telling
                .retain(|telling| telling.subject as usize != at);
            let hash = self.hash(subject);
            if let Ok(found) = self.subjects.find_entry(hash, |&i| i as usize == at) {
                found.remove();
            }
            subject
        })
    }

    /// Drops an observer's key, unless others share it.
    fn forget_key(&mut self, key: &Arc<KeyBytes>) {
        if Arc::strong_count(key) == 1 {
            self.key_bytes -= key.len();
        }
    }

    /// Sets a new state of a subject. [`next_to_tell`](Self::next_to_tell) returns its observers.
    pub(crate) fn change(&mut self, subject: Subject, state: State) {
        let Some(at) = self.find_subject(subject) else {
            return;
        };
        let observed = &mut self.observed[at as usize];
        observed.version = observed.version.wrapping_add(1);
        observed.current.set(state);
        let next = observed.first;
        // Observers already sent a superseded state are notified again.
        match self.telling.iter_mut().find(|t| t.subject == at) {
            Some(telling) => telling.next = next,
            None => self.telling.push_back(Telling { subject: at, next }),
        }
    }

    /// Returns whether some observers of a subject have not been notified of its change yet.
    pub(crate) fn is_telling(&self, subject: Subject) -> bool {
        let at = self.find_subject(subject);
        at.is_some_and(|at| self.telling.iter().any(|telling| telling.subject == at))
    }

    /// The next observer to notify of a new state, subject by subject.
    #[inline]
    pub(crate) fn next_to_tell(&mut self) -> Option<ObserverIndex> {
        loop {
            let telling = self.telling.front_mut()?;
            match self.slots.get(telling.next as usize) {
                Some(observer) => {
                    let index = telling.next;
                    telling.next = observer.of_subject.next;
                    return Some(index);
                }
                None => self.telling.pop_front(),
            };
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
            observed.current.begin_anew();
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
        observer.version != self.observed[observer.subject as usize].version
    }

    /// Records that an observer is sent the current state.
    pub(crate) fn mark_current(&mut self, index: ObserverIndex) {
        let observer = &mut self.slots[index as usize];
        observer.version = self.observed[observer.subject as usize].version;
    }

    /// Records that an observer's registration has its response. Changes since the registration
    /// remain to be sent.
    pub(crate) fn mark_registered(&mut self, index: ObserverIndex) {
        self.slots[index as usize].pending = false;
    }

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
        Some((index, self.slots[index as usize].confirmed))
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
mod tests {
    use super::*;
    use crate::codec::Token;
    use alloc::vec::Vec;

    fn observers() -> Observers {
        Observers::new(1, (100, 100), 1_000, 32)
    }

    fn register(observers: &mut Observers, peer: u32, subject: u64, head: &mut u32) -> u32 {
        let token = TokenKey::short(Token::new(&(*head).to_be_bytes()).unwrap());
        let registration = Registration {
            peer,
            token,
            long_token: &[],
            size: BlockSize::MAX,
            key: b"key",
        };
        observers
            .register(Instant::ZERO, Subject(subject), registration, head)
            .unwrap()
    }

    fn of_subject(observers: &Observers, subject: u64) -> Vec<u32> {
        let at = observers.find_subject(Subject(subject));
        let first = at.and_then(|at| observers.first(at));
        let next = |&i: &u32| {
            observers
                .get(observers[i].of_subject.next)
                .map(|_| observers[i].of_subject.next)
        };
        core::iter::successors(first, next).collect()
    }

    #[test]
    fn an_observer_costs_72_bytes_beside_its_peer() {
        let links = 8;
        let entry = size_of::<Observer>() + links;
        assert!(entry <= 72, "{entry} bytes");
    }

    #[test]
    fn lists_hold_together_when_observers_leave_from_any_place() {
        for leaving in 0..4 {
            let mut observers = observers();
            let mut heads = [NONE; 2];
            let mut all: Vec<_> = (0..4)
                .map(|n| register(&mut observers, n % 2, 7, &mut heads[n as usize % 2]))
                .collect();
            let gone = all.remove(leaving);
            let peer = observers[gone].peer as usize;
            let (_, forgotten) = observers.remove(gone, &mut heads[peer]);
            assert_eq!(forgotten, None);
            all.reverse(); // the newest comes first
            assert_eq!(of_subject(&observers, 7), all);
            let of_peers = heads.map(|head| observers.of_peer(head).count());
            assert_eq!(of_peers.iter().sum::<usize>(), 3);
            assert_eq!(of_peers[peer], 1);
            assert_eq!(observers.count(Subject(7)), 3);
        }
    }

    #[test]
    fn a_subject_is_forgotten_with_its_last_observer() {
        let mut observers = observers();
        let mut head = NONE;
        let first = register(&mut observers, 0, 7, &mut head);
        let second = register(&mut observers, 0, 8, &mut head);
        assert_eq!(observers.remove(first, &mut head).1, Some(Subject(7)));
        assert_eq!(observers.find_subject(Subject(7)), None);
        assert_eq!(observers.remove(second, &mut head).1, Some(Subject(8)));
        assert_eq!((observers.len(), head), (0, NONE));
        assert_eq!(observers.least_interested(), None);
    }

    #[test]
    fn everyone_is_told_once_whoever_leaves_meanwhile() {
        let state = || State {
            response: Response::new(crate::codec::Code::CONTENT),
            confirmable: false,
        };
        let mut observers = observers();
        let mut head = NONE;
        let all: Vec<_> = (0..4)
            .map(|_| register(&mut observers, 0, 7, &mut head))
            .collect();
        let other = register(&mut observers, 0, 8, &mut head);
        observers.change(Subject(7), state());
        observers.change(Subject(8), state());
        assert_eq!(observers.next_to_tell(), Some(all[3]));
        observers.remove(all[2], &mut head); // the next
        observers.remove(all[3], &mut head); // the one before
        assert_eq!(observers.next_to_tell(), Some(all[1]));
        // A newer state begins from the beginning.
        observers.change(Subject(7), state());
        assert_eq!(observers.next_to_tell(), Some(all[1]));
        assert_eq!(observers.next_to_tell(), Some(all[0]));
        assert_eq!(observers.next_to_tell(), Some(other));
        assert_eq!(observers.next_to_tell(), None);
        // The last observer leaves during the fan-out of its subject.
        observers.change(Subject(8), state());
        observers.remove(other, &mut head);
        assert_eq!(observers.next_to_tell(), None);
    }

    #[test]
    fn observers_of_one_subject_share_their_key() {
        let mut observers = observers();
        let mut head = NONE;
        let first = register(&mut observers, 0, 7, &mut head);
        let second = register(&mut observers, 0, 7, &mut head);
        assert!(Arc::ptr_eq(&observers[first].key, &observers[second].key));
    }
}
