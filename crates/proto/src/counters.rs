//! What an endpoint has done so far, in plain numbers, for whoever watches it.
//!
//! They only grow, and nothing in the engine reads them. A driver looks at them now and then and
//! publishes by how much they have grown. Each costs an addition where it is counted, and nothing
//! is kept of single peers, paths or options: their number does not depend on what comes in.

use alloc::boxed::Box;

use carob_cc::evidence::{Kind, Reason};
use carob_cc::time::Duration;

use crate::codec::Code;

/// Counts since the endpoint was made.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Messages that came in, malformed ones and duplicates included.
    pub received: Traffic,
    /// Messages that went out: copies of our own, and answers.
    pub sent: Traffic,
    /// Requests received, by method and the code they were answered with.
    pub requests: Requests,
    /// Responses to requests of ours, by code; each block of a body has its own.
    pub responses: Answers,
    /// Messages of our own, by what they are.
    pub exchanges: [Exchanges; 3],
    /// Round-trip times that are certain (RFC 6298 3: of exchanges without retransmissions, or whose
    /// answer names its copy).
    pub round_trips: Times,
    /// The timers that first copies of confirmable messages left with: the controller's RTO, dithered.
    pub timeouts: Times,
    /// Messages that came again and were answered from memory or ignored.
    pub duplicates: u64,
    /// What was refused, by reason.
    pub refusals: Refusals,
}

impl Counters {
    /// Of messages of one kind.
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

/// Messages and their bytes, without those of the layers below CoAP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Traffic {
    pub(crate) fn add(&mut self, bytes: usize) {
        self.messages += 1;
        self.bytes += bytes as u64;
    }
}

/// What became of messages that we originate: requests, separate responses, notifications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exchanges {
    /// Copies that left.
    pub transmissions: u64,
    /// Those after the first of their exchange.
    pub retransmissions: u64,
    /// Exchanges that were answered.
    pub answered: u64,
    /// Retransmission timers that ran out. The last one of an exchange ends it.
    pub expired: u64,
    /// Further answers to exchanges that had an answer: as many copies were spurious, or were
    /// duplicated on the way.
    pub answered_again: u64,
    /// Answers that came when their exchange had been given up.
    pub answered_late: u64,
    /// Exchanges given up, by reason, as [`given_up`](Self::given_up) reads them.
    ended: [u64; 5],
}

impl Exchanges {
    /// Exchanges that ended without an answer for this reason.
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
        // None of those that there are.
        _ => 4,
    }
}

/// Why something that came in, or was to go out, was not treated as its sender would have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// A request got no place: as many wait for their responses, or are remembered, as may.
    Overload,
    /// A source asks more often than it may: 4.29, or nothing.
    Rate,
    /// A source was asked to show where it is: 4.01 with an Echo value.
    Challenge,
    /// A response, or a copy of one, was shortened or withheld because its source has not shown where
    /// it is.
    Amplification,
    /// A message that means nothing here was rejected with a Reset.
    Reset,
    /// The same without a Reset, because there were too many.
    ResetWithheld,
    /// What came was no CoAP message.
    Malformed,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Overload,
        Self::Rate,
        Self::Challenge,
        Self::Amplification,
        Self::Reset,
        Self::ResetWithheld,
        Self::Malformed,
    ];

    /// Its name, as metrics have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Overload => "overload",
            Self::Rate => "rate",
            Self::Challenge => "challenge",
            Self::Amplification => "amplification",
            Self::Reset => "reset",
            Self::ResetWithheld => "reset-withheld",
            Self::Malformed => "malformed",
        }
    }
}

/// How often each [`Refusal`] happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals([u64; Refusal::ALL.len()]);

impl Refusals {
    /// How often this happened.
    pub fn of(&self, why: Refusal) -> u64 {
        self.0[why as usize]
    }
}

/// Codes 2.xx, 4.xx and 5.xx, each with a place, then all others, then no response at all.
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
                2 => usize::from(code.detail()),
                class @ 4..=5 => usize::from(class - 3) * DETAILS + usize::from(code.detail()),
                _ => OTHER,
            },
        };
        self.0.get_or_insert_with(|| Box::new([0; PLACES]))[place] += 1;
    }

    /// How many there were with each code, where there were any.
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

    /// How many there were with this code; those of no assigned class are not told apart.
    pub fn of(&self, code: Code) -> u64 {
        let found = self.iter().find(|(of, _)| *of == Answer::Code(code));
        found.map_or(0, |(_, count)| count)
    }
}

/// What a request was answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// A response with this code.
    Code(Code),
    /// A response with a code that is none of success or error.
    Other,
    /// No response: none was wanted, or there was no room for a request that need not have one.
    None,
}

/// Requests received, by method and by what they were answered with.
#[derive(Clone, Debug, Default)]
pub struct Requests([Answers; METHODS.len() + 1]);

/// Methods that are told apart.
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
        // Methods are 0.01 to 0.07; all others share the last place.
        let place = usize::from(method.0.wrapping_sub(1)).min(METHODS.len());
        self.0[place].add(answer);
    }

    /// Those with each method; nothing for all that are not assigned.
    pub fn iter(&self) -> impl Iterator<Item = (Option<Code>, &Answers)> {
        let methods = METHODS.into_iter().map(Some).chain([None]);
        methods.zip(&self.0)
    }

    /// How many there were of this method that were answered with this code.
    pub fn of(&self, method: Code, answer: Code) -> u64 {
        let found = self.iter().find(|(of, _)| *of == Some(method));
        found.map_or(0, |(_, answers)| answers.of(answer))
    }

    /// How many there were.
    pub fn total(&self) -> u64 {
        let answers = self.0.iter().flat_map(Answers::iter);
        answers.map(|(_, count)| count).sum()
    }
}

/// Times by size: in powers of two from 256 us to 67 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times([Bucket; Self::BUCKETS]);

/// The times of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// How many there were.
    pub count: u64,
    /// All of them together, in microseconds.
    pub sum: u64,
}

impl Default for Times {
    fn default() -> Self {
        Self([Bucket::default(); Self::BUCKETS])
    }
}

impl Times {
    /// Buckets; the last has what is above all bounds.
    pub const BUCKETS: usize = 20;
    const SHORTEST: u64 = 256;

    pub(crate) fn add(&mut self, time: Duration) {
        let micros = time.as_micros();
        let place = (micros.div_ceil(Self::SHORTEST).max(1)).next_power_of_two();
        let place = (place.trailing_zeros() as usize).min(Self::BUCKETS - 1);
        let bucket = &mut self.0[place];
        bucket.count += 1;
        bucket.sum = bucket.sum.saturating_add(micros);
    }

    /// The times of each size, the shortest first.
    pub fn buckets(&self) -> &[Bucket; Self::BUCKETS] {
        &self.0
    }

    /// The longest time that belongs to a bucket, in microseconds; nothing for the last.
    pub const fn bound(bucket: usize) -> Option<u64> {
        if bucket + 1 < Self::BUCKETS {
            Some(Self::SHORTEST << bucket)
        } else {
            None
        }
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|bucket| bucket.count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_the_bucket_whose_bound_is_not_below_them() {
        let longest = Times::bound(Times::BUCKETS - 2).expect("a bound");
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
            let expected = (0..Times::BUCKETS)
                .find(|&bucket| Times::bound(bucket).is_none_or(|bound| micros <= bound));
            assert_eq!(place, expected, "{micros} us");
            assert_eq!(times.buckets()[place.expect("counted")].sum, micros);
        }
    }

    #[test]
    fn every_method_and_code_has_its_place() {
        let mut requests = Requests::default();
        for code in [Code::CONTENT, Code::NOT_FOUND, Code::SERVICE_UNAVAILABLE] {
            requests.add(Code::GET, Some(code));
            requests.add(Code::IPATCH, Some(code));
        }
        requests.add(Code::GET, None);
        requests.add(Code::GET, Some(Code(3 << 5 | 1)));
        requests.add(Code(31), Some(Code::METHOD_NOT_ALLOWED));
        assert_eq!(requests.total(), 9);
        assert_eq!(requests.of(Code::IPATCH, Code::NOT_FOUND), 1);
        assert_eq!(requests.of(Code::PUT, Code::NOT_FOUND), 0);
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
        assert_eq!(answers(None), [Answer::Code(Code::METHOD_NOT_ALLOWED)]);
    }
}
