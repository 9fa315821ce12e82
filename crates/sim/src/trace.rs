//! Simulator events: they always feed a hash, and on request are recorded for figures.

use carob_cc::time::{Duration, Instant};

use crate::hash::Words;

/// The item of a packet that belongs to no exchange of the client: an empty ACK or RST.
pub const NO_ITEM: u32 = u32::MAX;

/// The maximum number of recorded events (40 MB).
pub const EVENTS_RECORDED_MAX: u32 = 1 << 20;

/// An event at a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time.
    pub at: Instant,
    /// The host's number in its world; clients come first.
    pub host: u32,
    /// The event.
    pub what: SimEvent,
}

impl Event {
    /// Returns whether it concerns a client: at its host, or about a segment whose other end it is.
    fn is_about(&self, client: u32) -> bool {
        let peer = match self.what {
            SimEvent::Segment { segment, .. }
            | SimEvent::SegmentDropFull { segment }
            | SimEvent::SegmentLost { segment }
            | SimEvent::SegmentArrived { segment } => Some(segment.peer),
            _ => None,
        };
        self.host == client || peer == Some(client)
    }
}

/// A simulator event. `item` is a block, exchange or segment number, counted from 0 per flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SimEvent {
    /// A transmission of an item left this host; attempt 0 is the initial one.
    Sent {
        /// The item.
        item: u32,
        /// The number of earlier transmissions.
        attempt: u8,
        /// Size in bytes, headers included.
        bytes: u32,
    },
    /// A transmission was dropped at a full buffer.
    DropFull {
        /// The item.
        item: u32,
        /// The transmission.
        attempt: u8,
    },
    /// A transmission was lost after the bottleneck.
    Lost {
        /// The item.
        item: u32,
        /// The transmission.
        attempt: u8,
    },
    /// A transmission arrived at this host.
    Arrived {
        /// The item.
        item: u32,
        /// The transmission, if the receiver can identify it; else 0.
        attempt: u8,
    },
    /// An exchange got its response.
    Answered {
        /// The item.
        item: u32,
        /// Transmissions so far.
        attempts: u8,
    },
    /// A timer expired.
    TimedOut {
        /// The item.
        item: u32,
        /// The transmission whose timer it was.
        attempt: u8,
    },
    /// An exchange was given up.
    Abandoned {
        /// The item.
        item: u32,
    },
    /// The controller's retransmission timeout before dithering changed.
    Rto {
        /// Its value.
        rto: Duration,
    },
    /// A timer was armed.
    Armed {
        /// The item.
        item: u32,
        /// The transmission it guards.
        attempt: u8,
        /// Its duration.
        timeout: Duration,
    },
    /// A round-trip time was measured, from the initial transmission.
    Rtt {
        /// Its value.
        rtt: Duration,
        /// Transmissions until the response: 1 is a strong sample of the CoCoA family.
        attempts: u8,
    },
    /// A TCP segment left this host.
    Segment {
        /// The segment.
        segment: SegmentTag,
        /// True for a retransmission of its data, or of a SYN.
        again: bool,
    },
    /// A TCP segment was dropped at a full buffer, or earlier by the queue's discipline.
    SegmentDropFull {
        /// The segment.
        segment: SegmentTag,
    },
    /// A TCP segment was lost after the bottleneck.
    SegmentLost {
        /// The segment.
        segment: SegmentTag,
    },
    /// A TCP segment arrived at this host.
    SegmentArrived {
        /// The segment.
        segment: SegmentTag,
    },
    /// A server's receive queue was full when a transmission arrived.
    ServerFull {
        /// The item.
        item: u32,
        /// The transmission.
        attempt: u8,
    },
    /// A server has served a transmission.
    Served {
        /// The item.
        item: u32,
        /// The transmission.
        attempt: u8,
    },
    /// The host's flow began: its first request was passed to its endpoint.
    Began,
    /// The host's flow ended, complete or not.
    Ended {
        /// True if it was complete.
        complete: bool,
    },
    /// The host restarted and lost its state.
    Restarted,
    /// The client has another port in the eyes of servers.
    Rebound,
}

/// The identity of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentTag {
    /// The host at the other end of its connection.
    pub peer: u32,
    /// Sequence number, counted from the connection's SYN: the first byte has 1.
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

impl SimEvent {
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
            Self::Restarted => (19, 0, 0),
            Self::Rebound => (20, 0, 0),
        }
    }
}

/// The trace of a run.
///
/// Runs with equal hashes had the same events at the same times; a test compares the hash of a run
/// across machines and numbers of threads.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    hash: Words,
    events: Vec<Event>,
    limit: u32,
    /// Restricts the recording to events about this client.
    of: Option<u32>,
    unrecorded: u64,
}

impl Trace {
    /// A trace with a hash only.
    pub fn hashing() -> Self {
        Self::default()
    }

    /// A trace that also records the first `limit` events, at most [`EVENTS_RECORDED_MAX`].
    ///
    /// Later events still reach the hash and are counted by [`unrecorded`](Self::unrecorded).
    pub fn recording(limit: u32) -> Self {
        Self {
            limit: limit.min(EVENTS_RECORDED_MAX),
            ..Self::default()
        }
    }

    /// Restricts the recording to events about one client.
    #[must_use]
    pub fn about(mut self, client: Option<u32>) -> Self {
        self.of = client;
        self
    }

    /// Adds an event: four words to the hash, and the event to the list if there is room.
    #[inline]
    pub fn add(&mut self, at: Instant, host: u32, what: SimEvent) {
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

    /// Returns the recorded events.
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

    fn hash_of(at: Instant, host: u32, what: SimEvent) -> u64 {
        let mut trace = Trace::hashing();
        trace.add(at, host, what);
        trace.hash()
    }

    #[test]
    fn time_host_kind_and_detail_change_the_hash() {
        let sent = SimEvent::Sent {
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
                SimEvent::Sent {
                    item: 1,
                    attempt: 1,
                    bytes: 42,
                },
            ),
            hash_of(
                AT,
                0,
                SimEvent::Sent {
                    item: 1,
                    attempt: 0,
                    bytes: 43,
                },
            ),
            hash_of(
                AT,
                0,
                SimEvent::Lost {
                    item: 1,
                    attempt: 0,
                },
            ),
            hash_of(
                AT,
                0,
                SimEvent::DropFull {
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
                    (0, SimEvent::Began),
                    (1, SimEvent::Began),
                    (
                        2,
                        SimEvent::SegmentArrived {
                            segment: segment(0),
                        },
                    ),
                    (
                        2,
                        SimEvent::SegmentArrived {
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
            plain.add(AT, 0, SimEvent::Abandoned { item });
            recorded.add(AT, 0, SimEvent::Abandoned { item });
        }
        assert_eq!(plain.hash(), recorded.hash());
        assert_eq!((recorded.events().len(), recorded.unrecorded()), (3, 7));
        assert_eq!((plain.events().len(), plain.unrecorded()), (0, 10));
    }
}
