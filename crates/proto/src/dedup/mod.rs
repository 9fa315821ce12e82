//! Duplicates of received messages and their replies (RFC 7252 4.2, 4.5).
//!
//! Two tables share one index. Idempotent messages (idempotent requests, acknowledged responses)
//! are in a ring that overwrites the oldest when full, as RFC 7252 4.5 permits. Non-idempotent
//! requests are kept for EXCHANGE_LIFETIME; when their table is full, new ones are rejected with
//! 5.03.
//!
//! [`mod@self`] holds the index and the non-idempotent requests, `recent` the ring.
//!
//! Keys are address, port and Message ID, so that removing a peer keeps its duplicates known.

mod recent;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::net::SocketAddr;

use carob_cc::time::{Duration, Instant};
use hashbrown::HashTable;

use crate::address;
use crate::codec::HEADER_LENGTH;
use crate::codec::token_end;
use crate::codec::{BASE_TOKEN_LENGTH, MessageId};
use crate::tables::keyed_hash::KeyedState;
use crate::tables::quota::{QuotaTable, Source};

use recent::Ring;

/// The longest reply stored for an idempotent request, in bytes; a duplicate is otherwise processed
/// again. Token bytes beyond 8 do not count, because the request chose them.
pub(crate) const STORED_REPLY_BYTES: usize = 256;

/// Idempotency of a message (RFC 7252 4.5, 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idempotency {
    /// Idempotent: GET, FETCH, PUT, DELETE, iPATCH, and responses.
    Idempotent,
    /// Non-idempotent: POST, PATCH, and unassigned methods.
    NonIdempotent,
}

/// A handle to a stored message, valid until the message is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remembered {
    idempotency: bool,
    sequence: u64,
}

/// The result of a lookup.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Lookup<'a> {
    /// The message is new and is to be processed.
    New,
    /// The message is being processed.
    InProgress {
        /// An empty ACK was sent.
        acknowledged: bool,
    },
    /// The message was answered with this reply.
    Answered(&'a [u8]),
}

#[derive(Debug)]
struct Entry {
    expires: Instant,
    from: SocketAddr,
    hash: Hash,
    id: MessageId,
    acknowledged: bool,
    answered: bool,
}

/// Half of a hash, enough to find an entry again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hash(u32);

impl Hash {
    /// Widens the hash, as the table uses the lowest and the highest bits.
    fn wide(self) -> u64 {
        u64::from(self.0) << 32 | u64::from(self.0)
    }
}

/// The location of an entry: an index into the ring, or a non-idempotent entry's number with the
/// highest bit set. Half the size of a pointer, because every request accesses the index at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place(u32);

const NON_IDEMPOTENT_BIT: u32 = 1 << 31;

#[derive(Debug)]
struct NonIdempotentEntry {
    entry: Entry,
    answer: Box<[u8]>,
}

/// The messages received recently.
#[derive(Debug)]
pub(crate) struct Dedup {
    state: KeyedState,
    index: HashTable<Place>,
    recent: Ring,
    non_idempotent: VecDeque<NonIdempotentEntry>,
    non_idempotent_limit: usize,
    /// Number of the oldest non-idempotent message.
    non_idempotent_base: u64,
    prefix: u8,
    /// Non-idempotent messages of each source.
    shares: QuotaTable,
}

impl Dedup {
    /// Stores up to `idempotent_limit` idempotent and `non_idempotent_limit` non-idempotent
    /// messages, each at most 2^30. IPv6 addresses are aggregated to a [source](Source) by `prefix` bits.
    pub(crate) fn new(
        seed: u64,
        idempotent_limit: usize,
        non_idempotent_limit: usize,
        prefix: u8,
    ) -> Self {
        Self {
            state: KeyedState::with_seed(seed),
            index: HashTable::new(),
            recent: Ring::new(idempotent_limit),
            non_idempotent: VecDeque::new(),
            non_idempotent_limit: non_idempotent_limit.min(1 << 30),
            non_idempotent_base: 0,
            prefix,
            shares: QuotaTable::new(seed.rotate_left(8)),
        }
    }

    /// Messages stored.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    fn hash(&self, from: SocketAddr, id: MessageId) -> Hash {
        // Half of the hash suffices: the full key is compared anyway.
        Hash(address::hash(&self.state, from, u64::from(id.0)) as u32)
    }

    /// The queue position of a non-idempotent message, by its number.
    fn position(base: u64, number: u32) -> usize {
        debug_assert!(number & NON_IDEMPOTENT_BIT != 0, "a number of the ring");
        // Numbers wrap at 2^31. At most 2^30 entries are kept, so that the difference is exact.
        (number.wrapping_sub(base as u32) & (NON_IDEMPOTENT_BIT - 1)) as usize
    }

    fn entry_at<'a>(
        recent: &'a Ring,
        non_idempotent: &'a VecDeque<NonIdempotentEntry>,
        base: u64,
        at: Place,
    ) -> &'a Entry {
        if at.0 & NON_IDEMPOTENT_BIT == 0 {
            recent.entry(at.0)
        } else {
            &non_idempotent[Self::position(base, at.0)].entry
        }
    }

    fn find(&self, hash: Hash, from: SocketAddr, id: MessageId) -> Option<Place> {
        let is = |at: &Place| {
            let entry = Self::entry_at(
                &self.recent,
                &self.non_idempotent,
                self.non_idempotent_base,
                *at,
            );
            entry.id == id && entry.from == from
        };
        self.index.find(hash.wide(), is).copied()
    }

    fn forget(&mut self, hash: Hash, at: Place) {
        if let Ok(found) = self.index.find_entry(hash.wide(), |other| *other == at) {
            found.remove();
        }
        self.check_invariants();
    }

    /// Checks the sizes of the tables: the index may lack forgotten messages, and has no others.
    #[inline]
    fn check_invariants(&self) {
        debug_assert!(self.index.len() <= self.recent.len() + self.non_idempotent.len());
        debug_assert!(self.non_idempotent.len() <= self.non_idempotent_limit);
        debug_assert!(self.shares.is_empty() == self.non_idempotent.is_empty());
    }

    /// Looks up message `id` from `from`.
    pub(crate) fn look_up(&self, now: Instant, from: SocketAddr, id: MessageId) -> Lookup<'_> {
        let Some(at) = self.find(self.hash(from, id), from, id) else {
            return Lookup::New;
        };
        let entry = Self::entry_at(
            &self.recent,
            &self.non_idempotent,
            self.non_idempotent_base,
            at,
        );
        // Checked here, since nothing removes an entry of the ring when it expires.
        if entry.expires <= now {
            return Lookup::New;
        }
        if !entry.answered {
            return Lookup::InProgress {
                acknowledged: entry.acknowledged,
            };
        }
        Lookup::Answered(if at.0 & NON_IDEMPOTENT_BIT == 0 {
            self.recent.answer(at.0)
        } else {
            &self.non_idempotent[Self::position(self.non_idempotent_base, at.0)].answer
        })
    }

    /// Stores a message that [`look_up`](Self::look_up) called new, as being processed.
    ///
    /// Returns `None` if it is non-idempotent and the table is full: the request is to be rejected.
    pub(crate) fn remember(
        &mut self,
        now: Instant,
        lifetime: Duration,
        from: SocketAddr,
        id: MessageId,
        idempotency: Idempotency,
    ) -> Option<Remembered> {
        let hash = self.hash(from, id);
        // An expired entry of the same key stays indexed until its slot is reused.
        if let Some(stale) = self.find(hash, from, id) {
            self.forget(hash, stale);
        }
        debug_assert!(self.find(hash, from, id).is_none(), "one entry a message");
        let entry = Entry {
            expires: now + lifetime,
            from,
            hash,
            id,
            acknowledged: false,
            answered: false,
        };
        let (place, sequence) = match idempotency {
            Idempotency::Idempotent => {
                if let Some((oldest, place)) = self.recent.oldest() {
                    self.forget(oldest.hash, Place(place));
                }
                self.recent.put(entry)
            }
            Idempotency::NonIdempotent => {
                let sequence = self.remember_non_idempotent(now, entry)?;
                // The low 31 bits, from which `position` finds the entry.
                (sequence as u32 | NON_IDEMPOTENT_BIT, sequence)
            }
        };
        let Self {
            index,
            recent,
            non_idempotent,
            non_idempotent_base,
            ..
        } = self;
        index.insert_unique(hash.wide(), Place(place), |at| {
            let entry = Self::entry_at(recent, non_idempotent, *non_idempotent_base, *at);
            entry.hash.wide()
        });
        debug_assert!(self.find(hash, from, id) == Some(Place(place)));
        self.check_invariants();
        Some(Remembered {
            idempotency: idempotency == Idempotency::Idempotent,
            sequence,
        })
    }

    /// Non-idempotent messages stored, possibly including [expired](Self::expire) ones.
    pub(crate) fn non_idempotent(&self) -> usize {
        self.non_idempotent.len()
    }

    /// Non-idempotent messages of one source.
    pub(crate) fn non_idempotent_of(&self, source: Source) -> usize {
        self.shares.of(source)
    }

    /// Removes non-idempotent messages older than EXCHANGE_LIFETIME.
    pub(crate) fn expire(&mut self, now: Instant) {
        while let Some(oldest) = self
            .non_idempotent
            .front()
            .filter(|l| l.entry.expires <= now)
        {
            let at = Place(self.non_idempotent_base as u32 | NON_IDEMPOTENT_BIT);
            let (hash, from) = (oldest.entry.hash, oldest.entry.from);
            self.forget(hash, at);
            self.shares.subtract(Source::of(from, self.prefix), 1);
            self.non_idempotent.pop_front();
            self.non_idempotent_base += 1;
        }
        self.check_invariants();
    }

    /// Stores a non-idempotent message. Returns its number, or `None` if the table is full.
    fn remember_non_idempotent(&mut self, now: Instant, entry: Entry) -> Option<u64> {
        self.expire(now);
        // Evicting one would have its duplicate executed again, so the new request is rejected
        // instead.
        if self.non_idempotent.len() >= self.non_idempotent_limit {
            return None;
        }
        let sequence = self.non_idempotent_base + self.non_idempotent.len() as u64;
        self.shares.add(Source::of(entry.from, self.prefix), 1);
        self.non_idempotent.push_back(NonIdempotentEntry {
            entry,
            answer: Box::default(),
        });
        Some(sequence)
    }

    /// The location of a stored message, unless it has been forgotten.
    fn place(&self, at: Remembered) -> Option<Place> {
        if at.idempotency {
            return self.recent.place_of(at.sequence).map(Place);
        }
        let position = at.sequence.checked_sub(self.non_idempotent_base)?;
        (position < self.non_idempotent.len() as u64)
            .then_some(Place(at.sequence as u32 | NON_IDEMPOTENT_BIT))
    }

    fn entry_mut(&mut self, at: Place) -> &mut Entry {
        if at.0 & NON_IDEMPOTENT_BIT == 0 {
            self.recent.entry_mut(at.0)
        } else {
            &mut self.non_idempotent[Self::position(self.non_idempotent_base, at.0)].entry
        }
    }

    /// Forgets all messages from `from`: its next message of any Message ID is new. Takes time
    /// linear in the size of the table.
    pub(crate) fn forget_peer(&mut self, from: SocketAddr) {
        let Self {
            index,
            recent,
            non_idempotent,
            non_idempotent_base,
            ..
        } = self;
        // Entries outside the index are not found; their slots are reused later.
        index.retain(|at| {
            Self::entry_at(recent, non_idempotent, *non_idempotent_base, *at).from != from
        });
    }

    /// Records that an empty ACK was sent for a message being processed.
    pub(crate) fn acknowledge(&mut self, at: Remembered) {
        if let Some(place) = self.place(at) {
            self.entry_mut(place).acknowledged = true;
        }
    }

    /// Stores the reply to a message, for its duplicates.
    ///
    /// The reply to an idempotent message is not stored if it exceeds [`STORED_REPLY_BYTES`] without
    /// the excess of a long token. Duplicates then count as new.
    pub(crate) fn answer(&mut self, at: Remembered, answer: &[u8]) {
        let Some(place) = self.place(at) else {
            return;
        };
        debug_assert!(at.idempotency == (place.0 & NON_IDEMPOTENT_BIT == 0));
        let entry = self.entry_mut(place);
        entry.answered = true;
        let hash = entry.hash;
        if !at.idempotency {
            let position = Self::position(self.non_idempotent_base, place.0);
            self.non_idempotent[position].answer = answer.into();
        } else if answer.len() > STORED_REPLY_BYTES
            && answer.len() > STORED_REPLY_BYTES + token_excess(answer)
        {
            self.forget(hash, place);
        } else {
            self.recent.keep(place.0, answer);
        }
    }
}

/// Bytes of a message's token beyond 8.
fn token_excess(message: &[u8]) -> usize {
    let room = HEADER_LENGTH + BASE_TOKEN_LENGTH;
    token_end(message).map_or(0, |end| end.saturating_sub(room))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const LIFETIME: Duration = Duration::from_secs(247);

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn remember(d: &mut Dedup, s: u64, id: u16, idempotency: Idempotency) -> Option<Remembered> {
        d.remember(at(s), LIFETIME, peer(1), MessageId(id), idempotency)
    }

    #[test]
    fn duplicate_gets_the_same_response_for_a_lifetime() {
        for idempotency in [Idempotency::Idempotent, Idempotency::NonIdempotent] {
            let mut d = Dedup::new(1, 8, 8, 64);
            assert_eq!(d.look_up(at(0), peer(1), MessageId(7)), Lookup::New);
            let place = remember(&mut d, 0, 7, idempotency).expect("there is room");
            let known = d.look_up(at(1), peer(1), MessageId(7));
            assert_eq!(
                known,
                Lookup::InProgress {
                    acknowledged: false
                }
            );
            d.acknowledge(place);
            let known = d.look_up(at(1), peer(1), MessageId(7));
            assert_eq!(known, Lookup::InProgress { acknowledged: true });
            d.answer(place, b"answer");
            assert_eq!(
                d.look_up(at(246), peer(1), MessageId(7)),
                Lookup::Answered(b"answer")
            );
            assert_eq!(d.look_up(at(247), peer(1), MessageId(7)), Lookup::New);
            assert_eq!(d.look_up(at(1), peer(2), MessageId(7)), Lookup::New);
        }
    }

    #[test]
    fn the_oldest_repeatable_message_is_forgotten_first() {
        let mut d = Dedup::new(1, 4, 4, 64);
        for id in 0..5 {
            let place =
                remember(&mut d, 0, id, Idempotency::Idempotent).expect("repeatable always fits");
            d.answer(place, &[id as u8]);
        }
        assert_eq!(d.look_up(at(0), peer(1), MessageId(0)), Lookup::New);
        for id in 1..5 {
            assert_eq!(
                d.look_up(at(0), peer(1), MessageId(id)),
                Lookup::Answered(&[id as u8])
            );
        }
        assert_eq!(d.len(), 4);
    }

    #[test]
    fn an_unrepeatable_message_is_never_forgotten_early() {
        let mut d = Dedup::new(1, 4, 4, 64);
        for id in 0..4 {
            let place = remember(&mut d, 0, id, Idempotency::NonIdempotent).expect("there is room");
            d.answer(place, &[id as u8]);
        }
        assert_eq!(
            remember(&mut d, 246, 9, Idempotency::NonIdempotent),
            None,
            "a full table refuses"
        );
        for id in 0..100 {
            remember(&mut d, 246, 100 + id, Idempotency::Idempotent);
        }
        assert_eq!(
            d.look_up(at(246), peer(1), MessageId(0)),
            Lookup::Answered(&[0])
        );
        assert!(
            remember(&mut d, 247, 9, Idempotency::NonIdempotent).is_some(),
            "room after a lifetime"
        );
        assert_eq!(
            d.non_idempotent_of(Source::of(peer(2), 64)),
            d.non_idempotent()
        );
        assert!(d.len() <= 8);
    }

    #[test]
    fn response_after_eviction_is_dropped() {
        let mut d = Dedup::new(1, 2, 2, 64);
        let first = remember(&mut d, 0, 1, Idempotency::Idempotent).expect("fits");
        remember(&mut d, 0, 2, Idempotency::Idempotent);
        remember(&mut d, 0, 3, Idempotency::Idempotent);
        d.answer(first, b"late");
        let known = d.look_up(at(0), peer(1), MessageId(3));
        assert_eq!(
            known,
            Lookup::InProgress {
                acknowledged: false
            }
        );
    }

    #[test]
    fn long_response_to_idempotent_request_is_not_stored() {
        let mut d = Dedup::new(1, 8, 8, 64);
        for (id, idempotency) in [
            (1, Idempotency::Idempotent),
            (2, Idempotency::NonIdempotent),
        ] {
            let place = remember(&mut d, 0, id, idempotency).expect("fits");
            d.answer(place, &[0; STORED_REPLY_BYTES + 1]);
        }
        assert_eq!(d.look_up(at(0), peer(1), MessageId(1)), Lookup::New);
        assert!(matches!(
            d.look_up(at(0), peer(1), MessageId(2)),
            Lookup::Answered(_)
        ));
    }

    #[test]
    fn stored_responses_of_every_length_are_returned() {
        let mut d = Dedup::new(1, 4, 4, 64);
        for length in (0..=STORED_REPLY_BYTES).chain((0..=STORED_REPLY_BYTES).rev()) {
            let answer: Vec<u8> = (0..length).map(|n| n as u8).collect();
            let place = remember(&mut d, 0, length as u16, Idempotency::Idempotent).expect("fits");
            d.answer(place, &answer);
            let known = d.look_up(at(0), peer(1), MessageId(length as u16));
            assert_eq!(known, Lookup::Answered(&answer));
        }
        assert_eq!(d.len(), 4);
    }

    #[test]
    fn non_idempotent_messages_are_found_across_wraparound() {
        let mut d = Dedup::new(1, 4, 4, 64);
        d.non_idempotent_base = (1 << 31) - 2;
        for round in 0..3_u16 {
            let seconds = 300 * u64::from(round);
            for id in 0..4 {
                let place = remember(&mut d, seconds, id, Idempotency::NonIdempotent)
                    .expect("there is room");
                d.answer(place, &[id as u8, round as u8]);
            }
            for id in 0..4 {
                assert_eq!(
                    d.look_up(at(seconds), peer(1), MessageId(id)),
                    Lookup::Answered(&[id as u8, round as u8])
                );
            }
            assert_eq!((d.non_idempotent(), d.len()), (4, 4));
        }
    }
}
