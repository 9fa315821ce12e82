//! Counters of an endpoint, for monitoring.
//!
//! Counters only grow, and the engine does not read them. A driver samples them and publishes the
//! differences. Each costs one addition. No counter is per peer, path or option, so their number
//! does not depend on the input.

use alloc::boxed::Box;

use carob_cc::evidence::{Kind, Reason};
use carob_cc::time::Duration;

use crate::codec::Code;

/// Counts since the endpoint was made.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Messages received, including malformed ones and duplicates.
    pub received: Traffic,
    /// Messages sent: transmissions and replies.
    pub sent: Traffic,
    /// Received requests, by method and response code.
    pub requests: Requests,
    /// Responses to requests of this endpoint, by code; each block of a body counts.
    pub responses: Answers,
    /// Exchanges of this endpoint, by purpose.
    pub exchanges: [Exchanges; 3],
    /// Unambiguous round-trip times (RFC 6298 3): of exchanges without retransmissions, or whose
    /// reply identifies its transmission.
    pub round_trips: Times,
    /// Initial retransmission timeouts of confirmable messages: the controller's RTO, dithered.
    pub timeouts: Times,
    /// Duplicates received, answered from memory or ignored.
    pub duplicates: u64,
    /// Refusals, by reason.
    pub refusals: Refusals,
    /// Bodies by Q-Block1 and Q-Block2 (RFC 9177).
    pub q_block: QBlocks,
}

impl Counters {
    /// Returns the exchanges with one purpose.
    pub fn of(&self, kind: Kind) -> &Exchanges {
        &self.exchanges[kind as usize]
    }

    pub(crate) fn of_mut(&mut self, kind: Kind) -> &mut Exchanges {
        &mut self.exchanges[kind as usize]
    }

    pub(crate) fn refused(&mut self, why: Refusal) {
        self.refusals.0[why as usize] += 1;
    }
}

/// Counts of Q-Block1 and Q-Block2 (RFC 9177).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QBlocks {
    /// Blocks sent, including repetitions.
    pub blocks_sent: u64,
    /// Blocks that a peer reported missing.
    pub blocks_missing: u64,
    /// Reports received: of complete sets and of missing blocks.
    pub reports_received: u64,
    /// Reports sent.
    pub reports_sent: u64,
    /// Blocks received more than once.
    pub duplicates: u64,
    /// Bodies sent by Block1 because the peer lacks Q-Block.
    pub fallbacks: u64,
}

/// Messages and their bytes, without the layers below CoAP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of messages.
    pub messages: u64,
    /// Number of bytes.
    pub bytes: u64,
}

impl Traffic {
    pub(crate) fn add(&mut self, bytes: usize) {
        self.messages += 1;
        self.bytes += bytes as u64;
    }
}

/// Outcomes of exchanges of this endpoint: requests, separate responses, notifications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exchanges {
    /// Transmissions, including retransmissions.
    pub transmissions: u64,
    /// Retransmissions.
    pub retransmissions: u64,
    /// Exchanges that were answered.
    pub answered: u64,
    /// Retransmission timeouts. The last one of an exchange ends it.
    pub expired: u64,
    /// Further replies to answered exchanges: as many retransmissions were spurious, or duplicated
    /// by the network.
    pub answered_again: u64,
    /// Replies received after their exchange was given up.
    pub answered_late: u64,
    /// Exchanges given up, by reason, as [`given_up`](Self::given_up) reads them.
    ended: [u64; 5],
}

impl Exchanges {
    /// Returns the number of exchanges that ended without a reply for this reason.
    pub fn given_up(&self, why: Reason) -> u64 {
        self.ended[place(why)]
    }

    pub(crate) fn give_up(&mut self, why: Reason) {
        self.ended[place(why)] += 1;
    }
}

const fn place(why: Reason) -> usize {
    match why {
        Reason::TimedOut => 0,
        Reason::Reset => 1,
        Reason::Cancelled => 2,
        Reason::Unreachable => 3,
        // Unreachable for the existing reasons.
        _ => 4,
    }
}

/// Reasons a message was rejected, shortened or dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// A request exceeded the limit of pending responses or of stored duplicates.
    Overload,
    /// A source exceeded its rate limit: 4.29, or no reply.
    Rate,
    /// A source was challenged to validate its address: 4.01 with an Echo value.
    Challenge,
    /// A response or its retransmission was truncated or withheld by the anti-amplification limit.
    Amplification,
    /// An unexpected message was rejected with a Reset.
    Reset,
    /// An unexpected message was ignored, because of the limit on Resets.
    ResetWithheld,
    /// A datagram was not a CoAP message.
    Malformed,
    /// A datagram was longer than the driver receives: 4.13 to a request, nothing to others.
    Oversized,
}

impl Refusal {
    /// All reasons.
    pub const ALL: [Self; 8] = [
        Self::Overload,
        Self::Rate,
        Self::Challenge,
        Self::Amplification,
        Self::Reset,
        Self::ResetWithheld,
        Self::Malformed,
        Self::Oversized,
    ];

    /// Returns the name used in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Overload => "overload",
            Self::Rate => "rate",
            Self::Challenge => "challenge",
            Self::Amplification => "amplification",
            Self::Reset => "reset",
            Self::ResetWithheld => "reset-withheld",
            Self::Malformed => "malformed",
            Self::Oversized => "oversized",
        }
    }
}

/// Counts of each [`Refusal`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals([u64; Refusal::ALL.len()]);

impl Refusals {
    /// Returns the count of this reason.
    pub fn of(&self, why: Refusal) -> u64 {
        self.0[why as usize]
    }
}

/// Codes 2.xx, 4.xx and 5.xx, each with an index, then all others, then no response.
const PLACES: usize = 3 * DETAILS + 2;
const DETAILS: usize = 32;
const OTHER: usize = 3 * DETAILS;
const SILENCE: usize = OTHER + 1;

/// Responses by code.
#[derive(Clone, Debug, Default)]
pub struct Answers(Option<Box<[u64; PLACES]>>);

impl Answers {
    pub(crate) fn add(&mut self, code: Option<Code>) {
        let place = match code {
            None => SILENCE,
            Some(code) => match code.class() {
                // A detail has five bits: every index of a class is below the next one.
                2 => usize::from(code.detail()),
                class @ 4..=5 => usize::from(class - 3) * DETAILS + usize::from(code.detail()),
                _ => OTHER,
            },
        };
        self.0.get_or_insert_with(|| Box::new([0; PLACES]))[place] += 1;
    }

    /// Returns the codes that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Answer, u64)> + '_ {
        let counts = self.0.iter().flat_map(|counts| counts.iter().enumerate());
        counts
            .filter(|(_, count)| **count > 0)
            .map(|(place, &count)| {
                let answer = match place {
                    SILENCE => Answer::None,
                    OTHER => Answer::Other,
                    _ => {
                        let class = [2_u8, 4, 5][place / DETAILS];
                        Answer::Code(Code(class << 5 | (place % DETAILS) as u8))
                    }
                };
                (answer, count)
            })
    }
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// A response with this code.
    Code(Code),
    /// A response with a code outside the success and error classes.
    Other,
    /// No response: suppressed, or dropped at a limit where none is required.
    None,
}

/// Received requests, by method and outcome.
#[derive(Clone, Debug, Default)]
pub struct Requests([Answers; METHODS.len() + 1]);

/// Methods that are counted apart.
const METHODS: [Code; 7] = [
    Code::GET,
    Code::POST,
    Code::PUT,
    Code::DELETE,
    Code::FETCH,
    Code::PATCH,
    Code::IPATCH,
];

impl Requests {
    pub(crate) fn add(&mut self, method: Code, answer: Option<Code>) {
        // Methods are 0.01 to 0.07; all others share the last index.
        let place = usize::from(method.0.wrapping_sub(1)).min(METHODS.len());
        self.0[place].add(answer);
    }

    /// Returns the counts of each method; `None` means all unassigned methods.
    pub fn iter(&self) -> impl Iterator<Item = (Option<Code>, &Answers)> {
        let methods = METHODS.into_iter().map(Some).chain([None]);
        methods.zip(&self.0)
    }
}

/// A histogram of times, with bounds at powers of two from 256 us to 67 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times([Bucket; Self::BUCKETS]);

/// One bucket of the histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Number of times.
    pub count: u64,
    /// Sum of the times in microseconds.
    pub sum: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self([Bucket::default(); Self::BUCKETS])
    }
}

impl Times {
    /// The upper bounds of the buckets, in microseconds; the last bucket has none.
    pub const BOUNDS: [u64; Self::BUCKETS - 1] = {
        let (mut bounds, mut bucket) = ([Self::SHORTEST; Self::BUCKETS - 1], 0);
        while bucket < bounds.len() {
            bounds[bucket] <<= bucket;
            bucket += 1;
        }
        bounds
    };
    const BUCKETS: usize = 20;
    const SHORTEST: u64 = 256;

    pub(crate) fn add(&mut self, time: Duration) {
        let micros = time.as_micros();
        // Far below 2^63, so that the next power of two exists.
        let place = (micros.div_ceil(Self::SHORTEST).max(1)).next_power_of_two();
        let place = (place.trailing_zeros() as usize).min(Self::BUCKETS - 1);
        let bucket = &mut self.0[place];
        bucket.count += 1;
        bucket.sum = bucket.sum.saturating_add(micros);
    }

    /// Returns the buckets, the shortest times first.
    pub fn buckets(&self) -> &[Bucket] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_the_bucket_whose_bound_is_not_below_them() {
        let [first, .., longest] = Times::BOUNDS;
        assert_eq!((first, longest), (256, 256 << 18));
        for micros in [
            0,
            1,
            256,
            257,
            512,
            513,
            1_000,
            2_000_000,
            longest,
            longest + 1,
            u64::MAX / 2,
        ] {
            let mut times = Times::default();
            times.add(Duration::from_micros(micros));
            let place = times.buckets().iter().position(|bucket| bucket.count == 1);
            let expected = Times::BOUNDS.iter().position(|&bound| micros <= bound);
            let expected = expected.unwrap_or(Times::BOUNDS.len());
            assert_eq!(place, Some(expected), "{micros} us");
            assert_eq!(times.buckets()[place.expect("counted")].sum, micros);
        }
    }

    #[test]
    fn every_method_and_code_has_a_counter() {
        let mut requests = Requests::default();
        for code in [Code::CONTENT, Code::NOT_FOUND, Code::SERVICE_UNAVAILABLE] {
            requests.add(Code::GET, Some(code));
            requests.add(Code::IPATCH, Some(code));
        }
        requests.add(Code::GET, None);
        requests.add(Code::GET, Some(Code(3 << 5 | 1)));
        requests.add(Code(31), Some(Code::METHOD_NOT_ALLOWED));
        let mut all = requests.iter().flat_map(|(_, answers)| answers.iter());
        assert!(all.by_ref().take(9).all(|(_, count)| count == 1));
        assert_eq!(all.next(), None);
        let answers = |method| {
            let (_, answers) = requests
                .iter()
                .find(|(of, _)| *of == method)
                .expect("a row");
            answers
                .iter()
                .map(|(answer, _)| answer)
                .collect::<alloc::vec::Vec<_>>()
        };
        let expected =
            [Code::CONTENT, Code::NOT_FOUND, Code::SERVICE_UNAVAILABLE].map(Answer::Code);
        assert_eq!(
            answers(Some(Code::GET)),
            [&expected[..], &[Answer::Other, Answer::None]].concat()
        );
        assert_eq!(answers(Some(Code::IPATCH)), expected);
        assert_eq!(answers(Some(Code::PUT)), []);
        assert_eq!(answers(None), [Answer::Code(Code::METHOD_NOT_ALLOWED)]);
    }
}
