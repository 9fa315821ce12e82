//! Duplicates of messages received, and the answers they get (RFC 7252 4.2, 4.5).
//!
//! Two tables with one index. Messages that may safely be processed again (idempotent requests,
//! responses we acknowledged) sit in a ring that forgets the oldest when it is full: RFC 7252 4.5
//! allows that. Requests that must not run twice live their whole EXCHANGE_LIFETIME; when their
//! table is full, new ones are refused and the endpoint answers 5.03.
//!
//! [`mod@self`] the index and those that live their time, `recent` the ring.
//!
//! Keys are address, port and Message ID, so forgetting a peer forgets no duplicate.

mod recent;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::net::SocketAddr;

use carob_cc::time::{Duration, Instant};
use hashbrown::HashTable;

use crate::address;
use crate::codec::header::HEADER_LENGTH;
use crate::codec::view::token_end;
use crate::codec::{BASE_TOKEN_LENGTH, MessageId};
use crate::keyed_hash::KeyedState;
use crate::shares::{Shares, Source};

use recent::Ring;

/// Answers longer than this are not kept for idempotent requests; a duplicate is processed anew. What a
/// token has beyond 8 bytes does not count: the request that it is of chose it.
pub const KEPT_ANSWER_BYTES: usize = 256;

/// Whether a message may be processed twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeatable {
    /// Yes: GET, FETCH, PUT, DELETE, iPATCH, and responses.
    Yes,
    /// No: POST, PATCH, and methods we do not know.
    No,
}

/// Where a message is remembered, until it is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    repeatable: bool,
    sequence: u64,
}

/// What is known of a message.
#[derive(Debug, PartialEq, Eq)]
pub enum Known<'a> {
    /// Nothing: process it.
    New,
    /// It is being processed.
    InProgress {
        /// An empty ACK went out.
        acknowledged: bool,
    },
    /// It was answered with this message.
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

/// Half of a hash, which is enough to find what is remembered again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hash(u32);

impl Hash {
    /// The table looks at the lowest and the highest bits.
    fn wide(self) -> u64 {
        u64::from(self.0) << 32 | u64::from(self.0)
    }
}

/// Where a message is: a place of the ring, or the number of a lasting one with the highest bit set.
/// Half as large as a pointer, because the index is read and written at random for every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place(u32);

const LASTING: u32 = 1 << 31;

#[derive(Debug)]
struct Lasting {
    entry: Entry,
    answer: Box<[u8]>,
}

/// The messages received lately.
#[derive(Debug)]
pub struct Dedup {
    state: KeyedState,
    index: HashTable<Place>,
    recent: Ring,
    lasting: VecDeque<Lasting>,
    lasting_limit: usize,
    /// Number of the oldest lasting message.
    lasting_base: u64,
    prefix: u8,
    /// Lasting messages of each source.
    shares: Shares,
}

impl Dedup {
    /// Remembers up to `recent_limit` repeatable and `lasting_limit` unrepeatable messages, but no
    /// more than 2^30 of either. Of IPv6 addresses, `prefix` bits make a [source](Source).
    pub fn new(seed: u64, recent_limit: usize, lasting_limit: usize, prefix: u8) -> Self {
        Self {
            state: KeyedState::with_seed(seed),
            index: HashTable::new(),
            recent: Ring::new(recent_limit),
            lasting: VecDeque::new(),
            lasting_limit: lasting_limit.min(1 << 30),
            lasting_base: 0,
            prefix,
            shares: Shares::new(seed.rotate_left(8)),
        }
    }

    /// Messages remembered now.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    fn hash(&self, from: SocketAddr, id: MessageId) -> Hash {
        Hash(address::hash(&self.state, from, u64::from(id.0)) as u32)
    }

    /// Where in its queue a lasting message is that the index names, or that was given out.
    fn position(base: u64, number: u32) -> usize {
        (number.wrapping_sub(base as u32) & (LASTING - 1)) as usize
    }

    fn entry_at<'a>(
        recent: &'a Ring,
        lasting: &'a VecDeque<Lasting>,
        base: u64,
        at: Place,
    ) -> &'a Entry {
        if at.0 & LASTING == 0 {
            recent.entry(at.0)
        } else {
            &lasting[Self::position(base, at.0)].entry
        }
    }

    fn find(&self, hash: Hash, from: SocketAddr, id: MessageId) -> Option<Place> {
        let is = |at: &Place| {
            let entry = Self::entry_at(&self.recent, &self.lasting, self.lasting_base, *at);
            entry.id == id && entry.from == from
        };
        self.index.find(hash.wide(), is).copied()
    }

    fn forget(&mut self, hash: Hash, at: Place) {
        if let Ok(found) = self.index.find_entry(hash.wide(), |other| *other == at) {
            found.remove();
        }
    }

    /// What is known of message `id` from `from`.
    pub fn look_up(&self, now: Instant, from: SocketAddr, id: MessageId) -> Known<'_> {
        let Some(at) = self.find(self.hash(from, id), from, id) else {
            return Known::New;
        };
        let entry = Self::entry_at(&self.recent, &self.lasting, self.lasting_base, at);
        if entry.expires <= now {
            return Known::New;
        }
        if !entry.answered {
            return Known::InProgress {
                acknowledged: entry.acknowledged,
            };
        }
        Known::Answered(if at.0 & LASTING == 0 {
            self.recent.answer(at.0)
        } else {
            &self.lasting[Self::position(self.lasting_base, at.0)].answer
        })
    }

    /// Remembers a message that [`look_up`](Self::look_up) called new, as being processed.
    ///
    /// Nothing if it must not run twice and the table of those is full: refuse it.
    pub fn remember(
        &mut self,
        now: Instant,
        lifetime: Duration,
        from: SocketAddr,
        id: MessageId,
        repeatable: Repeatable,
    ) -> Option<Remembered> {
        let hash = self.hash(from, id);
        // An expired entry of the same key is still indexed until its place is needed.
        if let Some(stale) = self.find(hash, from, id) {
            self.forget(hash, stale);
        }
        let entry = Entry {
            expires: now + lifetime,
            from,
            hash,
            id,
            acknowledged: false,
            answered: false,
        };
        let (place, sequence) = match repeatable {
            Repeatable::Yes => {
                if let Some((oldest, place)) = self.recent.oldest() {
                    self.forget(oldest.hash, Place(place));
                }
                self.recent.put(entry)
            }
            Repeatable::No => {
                let sequence = self.remember_lasting(now, entry)?;
                (sequence as u32 | LASTING, sequence)
            }
        };
        let Self {
            index,
            recent,
            lasting,
            lasting_base,
            ..
        } = self;
        index.insert_unique(hash.wide(), Place(place), |at| {
            let entry = Self::entry_at(recent, lasting, *lasting_base, *at);
            entry.hash.wide()
        });
        Some(Remembered {
            repeatable: repeatable == Repeatable::Yes,
            sequence,
        })
    }

    /// Unrepeatable messages remembered; those that have [expired](Self::expire) may be among them.
    pub fn lasting(&self) -> usize {
        self.lasting.len()
    }

    /// Those of one source.
    pub fn lasting_of(&self, source: Source) -> usize {
        self.shares.of(source)
    }

    /// Forgets unrepeatable messages whose time is over.
    pub fn expire(&mut self, now: Instant) {
        while let Some(oldest) = self.lasting.front().filter(|l| l.entry.expires <= now) {
            let at = Place(self.lasting_base as u32 | LASTING);
            let (hash, from) = (oldest.entry.hash, oldest.entry.from);
            self.forget(hash, at);
            self.shares.subtract(Source::of(from, self.prefix), 1);
            self.lasting.pop_front();
            self.lasting_base += 1;
        }
    }

    /// The number it gets; nothing if the table is full.
    fn remember_lasting(&mut self, now: Instant, entry: Entry) -> Option<u64> {
        self.expire(now);
        if self.lasting.len() >= self.lasting_limit {
            return None;
        }
        let sequence = self.lasting_base + self.lasting.len() as u64;
        self.shares.add(Source::of(entry.from, self.prefix), 1);
        self.lasting.push_back(Lasting {
            entry,
            answer: Box::default(),
        });
        Some(sequence)
    }

    /// Where a message is that was remembered, unless it has been forgotten.
    fn place(&self, at: Remembered) -> Option<Place> {
        if at.repeatable {
            return self.recent.place_of(at.sequence).map(Place);
        }
        let position = at.sequence.checked_sub(self.lasting_base)?;
        (position < self.lasting.len() as u64).then_some(Place(at.sequence as u32 | LASTING))
    }

    fn entry_mut(&mut self, at: Place) -> &mut Entry {
        if at.0 & LASTING == 0 {
            self.recent.entry_mut(at.0)
        } else {
            &mut self.lasting[Self::position(self.lasting_base, at.0)].entry
        }
    }

    /// Forgets what came from `from`: its next message of any Message ID is new. It looks at all
    /// that is remembered.
    pub fn forget_peer(&mut self, from: SocketAddr) {
        let Self {
            index,
            recent,
            lasting,
            lasting_base,
            ..
        } = self;
        // What is not in the index is not found; its place is used again in its turn.
        index.retain(|at| Self::entry_at(recent, lasting, *lasting_base, *at).from != from);
    }

    /// Notes that an empty ACK went out for a message being processed.
    pub fn acknowledge(&mut self, at: Remembered) {
        if let Some(place) = self.place(at) {
            self.entry_mut(place).acknowledged = true;
        }
    }

    /// Keeps the answer to a message, for its duplicates.
    ///
    /// An answer of more than [`KEPT_ANSWER_BYTES`], beside a long token, to a repeatable message is not
    /// kept; its duplicates count as new.
    pub fn answer(&mut self, at: Remembered, answer: &[u8]) {
        let Some(place) = self.place(at) else {
            return;
        };
        let entry = self.entry_mut(place);
        entry.answered = true;
        let hash = entry.hash;
        if !at.repeatable {
            let position = Self::position(self.lasting_base, place.0);
            self.lasting[position].answer = answer.into();
        } else if answer.len() > KEPT_ANSWER_BYTES
            && answer.len() > KEPT_ANSWER_BYTES + token_excess(answer)
        {
            self.forget(hash, place);
        } else {
            self.recent.keep(place.0, answer);
        }
    }
}

/// Bytes by which a message is longer for its token having more than 8.
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

    fn remember(d: &mut Dedup, s: u64, id: u16, repeatable: Repeatable) -> Option<Remembered> {
        d.remember(at(s), LIFETIME, peer(1), MessageId(id), repeatable)
    }

    #[test]
    fn a_duplicate_gets_the_same_answer_for_a_lifetime() {
        for repeatable in [Repeatable::Yes, Repeatable::No] {
            let mut d = Dedup::new(1, 8, 8, 64);
            assert_eq!(d.look_up(at(0), peer(1), MessageId(7)), Known::New);
            let place = remember(&mut d, 0, 7, repeatable).expect("there is room");
            let known = d.look_up(at(1), peer(1), MessageId(7));
            assert_eq!(
                known,
                Known::InProgress {
                    acknowledged: false
                }
            );
            d.acknowledge(place);
            let known = d.look_up(at(1), peer(1), MessageId(7));
            assert_eq!(known, Known::InProgress { acknowledged: true });
            d.answer(place, b"answer");
            assert_eq!(
                d.look_up(at(246), peer(1), MessageId(7)),
                Known::Answered(b"answer")
            );
            assert_eq!(d.look_up(at(247), peer(1), MessageId(7)), Known::New);
            assert_eq!(d.look_up(at(1), peer(2), MessageId(7)), Known::New);
        }
    }

    #[test]
    fn the_oldest_repeatable_message_is_forgotten_first() {
        let mut d = Dedup::new(1, 4, 4, 64);
        for id in 0..5 {
            let place = remember(&mut d, 0, id, Repeatable::Yes).expect("repeatable always fits");
            d.answer(place, &[id as u8]);
        }
        assert_eq!(d.look_up(at(0), peer(1), MessageId(0)), Known::New);
        for id in 1..5 {
            assert_eq!(
                d.look_up(at(0), peer(1), MessageId(id)),
                Known::Answered(&[id as u8])
            );
        }
        assert_eq!(d.len(), 4);
    }

    #[test]
    fn an_unrepeatable_message_is_never_forgotten_early() {
        let mut d = Dedup::new(1, 4, 4, 64);
        for id in 0..4 {
            let place = remember(&mut d, 0, id, Repeatable::No).expect("there is room");
            d.answer(place, &[id as u8]);
        }
        assert_eq!(
            remember(&mut d, 246, 9, Repeatable::No),
            None,
            "a full table refuses"
        );
        for id in 0..100 {
            remember(&mut d, 246, 100 + id, Repeatable::Yes);
        }
        assert_eq!(
            d.look_up(at(246), peer(1), MessageId(0)),
            Known::Answered(&[0])
        );
        assert!(
            remember(&mut d, 247, 9, Repeatable::No).is_some(),
            "room after a lifetime"
        );
        assert_eq!(d.lasting_of(Source::of(peer(2), 64)), d.lasting());
        assert!(d.len() <= 8);
    }

    #[test]
    fn an_answer_that_comes_after_its_place_was_taken_is_dropped() {
        let mut d = Dedup::new(1, 2, 2, 64);
        let first = remember(&mut d, 0, 1, Repeatable::Yes).expect("fits");
        remember(&mut d, 0, 2, Repeatable::Yes);
        remember(&mut d, 0, 3, Repeatable::Yes);
        d.answer(first, b"late");
        let known = d.look_up(at(0), peer(1), MessageId(3));
        assert_eq!(
            known,
            Known::InProgress {
                acknowledged: false
            }
        );
    }

    #[test]
    fn a_long_answer_to_a_repeatable_message_is_not_kept() {
        let mut d = Dedup::new(1, 8, 8, 64);
        for (id, repeatable) in [(1, Repeatable::Yes), (2, Repeatable::No)] {
            let place = remember(&mut d, 0, id, repeatable).expect("fits");
            d.answer(place, &[0; KEPT_ANSWER_BYTES + 1]);
        }
        assert_eq!(d.look_up(at(0), peer(1), MessageId(1)), Known::New);
        assert!(matches!(
            d.look_up(at(0), peer(1), MessageId(2)),
            Known::Answered(_)
        ));
    }

    #[test]
    fn answers_of_every_length_that_is_kept_come_back() {
        let mut d = Dedup::new(1, 4, 4, 64);
        for length in (0..=KEPT_ANSWER_BYTES).chain((0..=KEPT_ANSWER_BYTES).rev()) {
            let answer: Vec<u8> = (0..length).map(|n| n as u8).collect();
            let place = remember(&mut d, 0, length as u16, Repeatable::Yes).expect("fits");
            d.answer(place, &answer);
            let known = d.look_up(at(0), peer(1), MessageId(length as u16));
            assert_eq!(known, Known::Answered(&answer));
        }
        assert_eq!(d.len(), 4);
    }

    #[test]
    fn unrepeatable_messages_are_found_when_their_numbers_come_round() {
        let mut d = Dedup::new(1, 4, 4, 64);
        d.lasting_base = (1 << 31) - 2;
        for round in 0..3_u16 {
            let seconds = 300 * u64::from(round);
            for id in 0..4 {
                let place = remember(&mut d, seconds, id, Repeatable::No).expect("there is room");
                d.answer(place, &[id as u8, round as u8]);
            }
            for id in 0..4 {
                assert_eq!(
                    d.look_up(at(seconds), peer(1), MessageId(id)),
                    Known::Answered(&[id as u8, round as u8])
                );
            }
            assert_eq!((d.lasting(), d.len()), (4, 4));
        }
    }
}
