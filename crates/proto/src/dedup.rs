//! Duplicates of messages received, and the answers they get (RFC 7252 4.2, 4.5).
//!
//! Two tables with one index. Messages that may safely be processed again (idempotent requests,
//! responses we acknowledged) sit in a ring that forgets the oldest when it is full: RFC 7252 4.5
//! allows that. Requests that must not run twice live their whole EXCHANGE_LIFETIME; when their
//! table is full, new ones are refused and the endpoint answers 5.03.
//!
//! Keys are address, port and Message ID, so forgetting a peer forgets no duplicate.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;

use carob_cc::time::{Duration, Instant};
use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::address;
use crate::codec::MessageId;
use crate::shares::{Shares, Source};

/// Answers longer than this are not kept for idempotent requests; a duplicate is processed anew.
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
    from: SocketAddr,
    id: MessageId,
    hash: u64,
    expires: Instant,
    acknowledged: bool,
    answered: bool,
}

/// An idempotent message; its answer's buffer is reused by later ones in the same place.
#[derive(Debug)]
struct Recent {
    entry: Entry,
    answer: Vec<u8>,
}

#[derive(Debug)]
struct Lasting {
    entry: Entry,
    answer: Box<[u8]>,
}

/// The messages received lately.
#[derive(Debug)]
pub struct Dedup {
    state: FixedState,
    index: HashTable<Remembered>,
    recent: Vec<Recent>,
    recent_limit: usize,
    /// Sequence number the next recent message gets; it lives at that number modulo the limit.
    recent_next: u64,
    lasting: VecDeque<Lasting>,
    lasting_limit: usize,
    /// Sequence number of the oldest lasting message.
    lasting_base: u64,
    prefix: u8,
    /// Lasting messages of each source.
    shares: Shares,
}

impl Dedup {
    /// Remembers up to `recent_limit` repeatable and `lasting_limit` unrepeatable messages.
    /// Of IPv6 addresses, `prefix` bits make a [source](Source).
    pub fn new(seed: u64, recent_limit: usize, lasting_limit: usize, prefix: u8) -> Self {
        Self {
            state: FixedState::with_seed(seed),
            index: HashTable::new(),
            recent: Vec::new(),
            recent_limit: recent_limit.max(1),
            recent_next: 0,
            lasting: VecDeque::new(),
            lasting_limit,
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

    fn hash(&self, from: SocketAddr, id: MessageId) -> u64 {
        address::hash(&self.state, from, u64::from(id.0))
    }

    fn entry(&self, at: Remembered) -> Option<&Entry> {
        if at.repeatable {
            let recent = self
                .recent
                .get((at.sequence % self.recent_limit as u64) as usize)?;
            (self.recent_next - at.sequence <= self.recent_limit as u64).then_some(&recent.entry)
        } else {
            let place = at.sequence.checked_sub(self.lasting_base)?;
            self.lasting
                .get(usize::try_from(place).ok()?)
                .map(|l| &l.entry)
        }
    }

    fn find(&self, hash: u64, from: SocketAddr, id: MessageId) -> Option<Remembered> {
        self.index
            .find(hash, |at| {
                self.entry(*at)
                    .is_some_and(|e| e.id == id && e.from == from)
            })
            .copied()
    }

    fn forget(&mut self, hash: u64, at: Remembered) {
        if let Ok(found) = self.index.find_entry(hash, |other| *other == at) {
            found.remove();
        }
    }

    /// What is known of message `id` from `from`.
    pub fn look_up(&self, now: Instant, from: SocketAddr, id: MessageId) -> Known<'_> {
        let Some(at) = self.find(self.hash(from, id), from, id) else {
            return Known::New;
        };
        let Some(entry) = self.entry(at).filter(|entry| entry.expires > now) else {
            return Known::New;
        };
        if !entry.answered {
            return Known::InProgress {
                acknowledged: entry.acknowledged,
            };
        }
        Known::Answered(if at.repeatable {
            &self.recent[(at.sequence % self.recent_limit as u64) as usize].answer
        } else {
            &self.lasting[(at.sequence - self.lasting_base) as usize].answer
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
        let expires = now + lifetime;
        let entry = Entry {
            from,
            id,
            hash,
            expires,
            acknowledged: false,
            answered: false,
        };
        let at = match repeatable {
            Repeatable::Yes => self.remember_recent(entry),
            Repeatable::No => self.remember_lasting(now, entry)?,
        };
        let Self {
            index,
            recent,
            lasting,
            recent_limit,
            lasting_base,
            ..
        } = self;
        index.insert_unique(hash, at, |at| {
            if at.repeatable {
                recent[(at.sequence % *recent_limit as u64) as usize]
                    .entry
                    .hash
            } else {
                lasting[(at.sequence - *lasting_base) as usize].entry.hash
            }
        });
        Some(at)
    }

    fn remember_recent(&mut self, entry: Entry) -> Remembered {
        let sequence = self.recent_next;
        if self.recent.len() < self.recent_limit {
            self.recent.push(Recent {
                entry,
                answer: Vec::new(),
            });
        } else {
            let place = (sequence % self.recent_limit as u64) as usize;
            let oldest = sequence - self.recent_limit as u64;
            let hash = self.recent[place].entry.hash;
            self.forget(
                hash,
                Remembered {
                    repeatable: true,
                    sequence: oldest,
                },
            );
            self.recent[place].entry = entry;
            self.recent[place].answer.clear();
        }
        self.recent_next += 1;
        Remembered {
            repeatable: true,
            sequence,
        }
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
            let at = Remembered {
                repeatable: false,
                sequence: self.lasting_base,
            };
            let (hash, from) = (oldest.entry.hash, oldest.entry.from);
            self.forget(hash, at);
            self.shares.subtract(Source::of(from, self.prefix), 1);
            self.lasting.pop_front();
            self.lasting_base += 1;
        }
    }

    fn remember_lasting(&mut self, now: Instant, entry: Entry) -> Option<Remembered> {
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
        Some(Remembered {
            repeatable: false,
            sequence,
        })
    }

    fn entry_mut(&mut self, at: Remembered) -> Option<&mut Entry> {
        self.entry(at)?;
        Some(if at.repeatable {
            &mut self.recent[(at.sequence % self.recent_limit as u64) as usize].entry
        } else {
            &mut self.lasting[(at.sequence - self.lasting_base) as usize].entry
        })
    }

    /// Forgets what came from `from`: its next message of any Message ID is new. It looks at all
    /// that is remembered.
    pub fn forget_peer(&mut self, from: SocketAddr) {
        let Self {
            index,
            recent,
            lasting,
            recent_limit,
            lasting_base,
            ..
        } = self;
        // What is not in the index is not found; its place is used again in its turn.
        index.retain(|at| {
            let entry = if at.repeatable {
                &recent[(at.sequence % *recent_limit as u64) as usize].entry
            } else {
                &lasting[(at.sequence - *lasting_base) as usize].entry
            };
            entry.from != from
        });
    }

    /// Notes that an empty ACK went out for a message being processed.
    pub fn acknowledge(&mut self, at: Remembered) {
        if let Some(entry) = self.entry_mut(at) {
            entry.acknowledged = true;
        }
    }

    /// Keeps the answer to a message, for its duplicates.
    ///
    /// An answer of more than [`KEPT_ANSWER_BYTES`] to a repeatable message is not kept; its
    /// duplicates count as new.
    pub fn answer(&mut self, at: Remembered, answer: &[u8]) {
        let Some(entry) = self.entry_mut(at) else {
            return;
        };
        entry.answered = true;
        let hash = entry.hash;
        if !at.repeatable {
            self.lasting[(at.sequence - self.lasting_base) as usize].answer = answer.into();
        } else if answer.len() > KEPT_ANSWER_BYTES {
            self.forget(hash, at);
        } else {
            let place = (at.sequence % self.recent_limit as u64) as usize;
            let kept = &mut self.recent[place].answer;
            kept.clear();
            kept.extend_from_slice(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
