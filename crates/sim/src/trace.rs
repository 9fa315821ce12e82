//! What happened: events that always feed a hash, and on request a list for figures.

use carob_cc::time::{Duration, Instant};

use crate::hash::Words;

/// The most events a recorded list may hold, whatever a run asks for (40 MB).
pub const EVENTS_RECORDED_MAX: u32 = 1 << 20;

/// One thing that happened at a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Instant,
    /// Where: the host's number in its world; clients come first.
    pub host: u32,
    /// What.
    pub what: What,
}

impl Event {
    /// Whether it is about a client: at its host, or of a segment whose other end it is.
    fn is_about(&self, client: u32) -> bool {
        let peer = match self.what {
            What::Segment { segment, .. }
            | What::SegmentDropFull { segment }
            | What::SegmentLost { segment }
            | What::SegmentArrived { segment } => Some(segment.peer),
            _ => None,
        };
        self.host == client || peer == Some(client)
    }
}

/// What happened. `item` is a block, exchange or segment number, counted from 0 per flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// A copy of an item left this host; attempt 0 is the first.
    Sent {
        /// Which item.
        item: u32,
        /// How many copies went before it.
        attempt: u8,
        /// Size in bytes, headers included.
        bytes: u32,
    },
    /// A copy met a full buffer.
    DropFull {
        /// Which item.
        item: u32,
        /// Which copy.
        attempt: u8,
    },
    /// A copy was lost after the bottleneck.
    Lost {
        /// Which item.
        item: u32,
        /// Which copy.
        attempt: u8,
    },
    /// A copy arrived at this host.
    Arrived {
        /// Which item.
        item: u32,
        /// Which copy, if the receiver can tell; else 0.
        attempt: u8,
    },
    /// An exchange was answered after so many copies.
    Answered {
        /// Which item.
        item: u32,
        /// Copies sent until then.
        attempts: u8,
    },
    /// A timer ran out.
    TimedOut {
        /// Which item.
        item: u32,
        /// The copy whose timer it was.
        attempt: u8,
    },
    /// An exchange was given up.
    Abandoned {
        /// Which item.
        item: u32,
    },
    /// The controller's retransmission timeout before dithering, when it changed.
    Rto {
        /// Its value.
        rto: Duration,
    },
    /// A timer was armed.
    Armed {
        /// Which item.
        item: u32,
        /// The copy it guards.
        attempt: u8,
        /// How long it runs.
        timeout: Duration,
    },
    /// A round-trip time was measured, from the first copy.
    Rtt {
        /// Its value.
        rtt: Duration,
        /// Copies sent until the answer: 1 is a strong sample of the CoCoA family.
        attempts: u8,
    },
    /// A TCP segment left this host.
    Segment {
        /// Which.
        segment: SegmentTag,
        /// Its data were sent before, or it is a SYN that was.
        again: bool,
    },
    /// A TCP segment met a full buffer, or was dropped before it was full.
    SegmentDropFull {
        /// Which.
        segment: SegmentTag,
    },
    /// A TCP segment was lost after the bottleneck.
    SegmentLost {
        /// Which.
        segment: SegmentTag,
    },
    /// A TCP segment arrived at this host.
    SegmentArrived {
        /// Which.
        segment: SegmentTag,
    },
    /// A server's receive queue was full when a copy arrived.
    ServerFull {
        /// Which item.
        item: u32,
        /// Which copy.
        attempt: u8,
    },
    /// A server has done its work on a copy.
    Served {
        /// Which item.
        item: u32,
        /// Which copy.
        attempt: u8,
    },
    /// The host's flow began: its first request was handed over.
    Began,
    /// The host's flow ended, complete or not.
    Ended {
        /// Whether it was complete.
        complete: bool,
    },
}

/// What tells TCP segments apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentTag {
    /// The host at the other end of its connection.
    pub peer: u32,
    /// Sequence number, counted from that of the connection's SYN: the first byte has 1.
    pub seq: u32,
    /// Bytes of data.
    pub data: u16,
    /// Control bits as in the header.
    pub flags: u8,
    /// Acknowledgment number, counted from the peer's SYN; 0 if it has none.
    pub ack: u32,
}

impl SegmentTag {
    /// The words for the hash; hosts, 4,097 at most, are far from 32 bits.
    fn words(self, again: bool) -> (u64, u64) {
        (
            u64::from(self.seq) << 32 | u64::from(self.ack),
            u64::from(self.peer) << 32
                | u64::from(self.data) << 16
                | u64::from(self.flags) << 8
                | u64::from(again),
        )
    }
}

impl What {
    /// (code, first word, second word) for the hash. Codes are never reused.
    fn words(self) -> (u8, u64, u64) {
        let item_copy = |item: u32, attempt: u8| u64::from(item) << 8 | u64::from(attempt);
        let with = |code, (first, second)| (code, first, second);
        match self {
            Self::Sent {
                item,
                attempt,
                bytes,
            } => (1, item_copy(item, attempt), u64::from(bytes)),
            Self::DropFull { item, attempt } => (2, item_copy(item, attempt), 0),
            Self::Lost { item, attempt } => (3, item_copy(item, attempt), 0),
            Self::Arrived { item, attempt } => (4, item_copy(item, attempt), 0),
            Self::Answered { item, attempts } => (5, item_copy(item, attempts), 0),
            Self::TimedOut { item, attempt } => (6, item_copy(item, attempt), 0),
            Self::Abandoned { item } => (7, item_copy(item, 0), 0),
            Self::Rto { rto } => (8, rto.as_micros(), 0),
            Self::Armed {
                item,
                attempt,
                timeout,
            } => (9, item_copy(item, attempt), timeout.as_micros()),
            Self::Rtt { rtt, attempts } => (10, rtt.as_micros(), u64::from(attempts)),
            Self::Segment { segment, again } => with(13, segment.words(again)),
            Self::SegmentDropFull { segment } => with(14, segment.words(false)),
            Self::SegmentLost { segment } => with(15, segment.words(false)),
            Self::SegmentArrived { segment } => with(16, segment.words(false)),
            Self::ServerFull { item, attempt } => (17, item_copy(item, attempt), 0),
            Self::Served { item, attempt } => (18, item_copy(item, attempt), 0),
            Self::Began => (11, 0, 0),
            Self::Ended { complete } => (12, u64::from(complete), 0),
        }
    }
}

/// The trace of a run.
///
/// Two runs with equal hashes did the same things at the same times; a test compares the hash of
/// a run across machines and numbers of threads.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    hash: Words,
    events: Vec<Event>,
    limit: u32,
    /// Only events that are about this client.
    of: Option<u32>,
    unrecorded: u64,
}

impl Trace {
    /// A trace that keeps its hash only.
    pub fn hashing() -> Self {
        Self::default()
    }

    /// A trace that also keeps the first `limit` events, at most [`EVENTS_RECORDED_MAX`].
    ///
    /// Later events still reach the hash and are counted by [`unrecorded`](Self::unrecorded).
    pub fn recording(limit: u32) -> Self {
        Self {
            limit: limit.min(EVENTS_RECORDED_MAX),
            ..Self::default()
        }
    }

    /// The same, but only of events about one client.
    #[must_use]
    pub fn about(mut self, client: Option<u32>) -> Self {
        self.of = client;
        self
    }

    /// Adds an event: four words to the hash, and the event to the list if there is room.
    #[inline]
    pub fn add(&mut self, at: Instant, host: u32, what: What) {
        let (code, first, second) = what.words();
        self.hash.add(at.as_micros());
        self.hash.add(u64::from(host) << 8 | u64::from(code));
        self.hash.add(first);
        self.hash.add(second);
        let event = Event { at, host, what };
        if self.of.is_some_and(|client| !event.is_about(client)) {
            return;
        }
        if self.events.len() < self.limit as usize {
            self.events.push(event);
        } else {
            self.unrecorded += 1;
        }
    }

    /// The hash of every event so far ([`Words`]).
    pub fn hash(&self) -> u64 {
        self.hash.finish()
    }

    /// The recorded events, in order.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The recorded events, taken out.
    pub fn into_events(self) -> Vec<Event> {
        self.events
    }

    /// Events that reached the hash only.
    pub fn unrecorded(&self) -> u64 {
        self.unrecorded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Instant = Instant::from_micros(7);

    fn hash_of(at: Instant, host: u32, what: What) -> u64 {
        let mut trace = Trace::hashing();
        trace.add(at, host, what);
        trace.hash()
    }

    #[test]
    fn time_place_kind_and_detail_each_change_the_hash() {
        let sent = What::Sent {
            item: 1,
            attempt: 0,
            bytes: 42,
        };
        let hashes = [
            hash_of(AT, 0, sent),
            hash_of(Instant::from_micros(8), 0, sent),
            hash_of(AT, 1, sent),
            hash_of(
                AT,
                0,
                What::Sent {
                    item: 1,
                    attempt: 1,
                    bytes: 42,
                },
            ),
            hash_of(
                AT,
                0,
                What::Sent {
                    item: 1,
                    attempt: 0,
                    bytes: 43,
                },
            ),
            hash_of(
                AT,
                0,
                What::Lost {
                    item: 1,
                    attempt: 0,
                },
            ),
            hash_of(
                AT,
                0,
                What::DropFull {
                    item: 1,
                    attempt: 0,
                },
            ),
            Trace::hashing().hash(),
        ];
        for (i, a) in hashes.iter().enumerate() {
            assert!(hashes[i + 1..].iter().all(|b| a != b));
        }
    }

    #[test]
    fn a_trace_about_one_client_has_room_for_its_events_only() {
        let segment = |peer| SegmentTag {
            peer,
            seq: 1,
            data: 9,
            flags: 0,
            ack: 1,
        };
        let (mut all, mut of_one) = (Trace::recording(100), Trace::recording(3).about(Some(1)));
        for trace in [&mut all, &mut of_one] {
            for _ in 0..2 {
                for (host, what) in [
                    (0, What::Began),
                    (1, What::Began),
                    (
                        2,
                        What::SegmentArrived {
                            segment: segment(0),
                        },
                    ),
                    (
                        2,
                        What::SegmentArrived {
                            segment: segment(1),
                        },
                    ),
                ] {
                    trace.add(AT, host, what);
                }
            }
        }
        assert_eq!(all.hash(), of_one.hash());
        let hosts: Vec<u32> = of_one.events().iter().map(|event| event.host).collect();
        assert_eq!((hosts, of_one.unrecorded()), (vec![1, 2, 1], 1));
    }

    #[test]
    fn recording_does_not_change_the_hash() {
        let (mut plain, mut recorded) = (Trace::hashing(), Trace::recording(3));
        for item in 0..10 {
            plain.add(AT, 0, What::Abandoned { item });
            recorded.add(AT, 0, What::Abandoned { item });
        }
        assert_eq!(plain.hash(), recorded.hash());
        assert_eq!((recorded.events().len(), recorded.unrecorded()), (3, 7));
        assert_eq!((plain.events().len(), plain.unrecorded()), (0, 10));
    }
}
