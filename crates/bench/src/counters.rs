//! Counters of a load. Every thread has its own; they are merged at the end. Their size does not
//! depend on the number of requests.

use std::time::Duration;

use carob::Code;
use carob_proto::endpoint::Failure;
use carob_proto::trace::{Trace, TraceEvent};
use hdrhistogram::Histogram;

/// Digits of a latency that are exact.
const DIGITS: u8 = 3;
/// The longest latency recorded; longer ones count as this.
const LONGEST: Duration = Duration::from_secs(3_600);

/// Why a request did not succeed, besides error codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorKind {
    /// No answer, or no response after an acknowledgement, within `--timeout`.
    Timeout,
    /// The server rejected the message.
    Reset,
    /// The network reported the server unreachable, or there was no session to send it in.
    Unreachable,
    /// The response's body or its block options are wrong.
    Body,
    /// The body differs from the first one, but the ETag does not.
    Differs,
    /// The response has options that cannot be understood.
    Options,
    /// The engine did not take the request.
    NotTaken,
    /// The DTLS session ended in which it was sent.
    SessionEnded,
}

impl ErrorKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Timeout,
        Self::Reset,
        Self::Unreachable,
        Self::Body,
        Self::Differs,
        Self::Options,
        Self::NotTaken,
        Self::SessionEnded,
    ];

    /// As the machine interface has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Reset => "reset",
            Self::Unreachable => "unreachable",
            Self::Body => "bad_body",
            Self::Differs => "body_differs",
            Self::Options => "bad_options",
            Self::NotTaken => "not_taken",
            Self::SessionEnded => "session_ended",
        }
    }

    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Timeout => "no answer in time",
            Self::Reset => "rejected (RST)",
            Self::Unreachable => "unreachable (ICMP, or no session)",
            Self::Body => "body not put together",
            Self::Differs => "body unlike the first, with its ETag",
            Self::Options => "options not understood",
            Self::NotTaken => "not taken by the engine",
            Self::SessionEnded => "the DTLS session ended",
        }
    }
}

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Success: latency in nanoseconds and body length.
    Answered {
        code: Code,
        after: u64,
        bytes: u64,
    },
    /// With an error response.
    Refused(Code),
    Failed(ErrorKind),
}

impl Ending {
    /// The ending that a failure of the engine counts as.
    pub(super) fn of(failure: Failure) -> Self {
        match failure {
            Failure::NotNow(code) | Failure::Interrupted(code) if !code.is_success() => {
                Self::Refused(code)
            }
            Failure::TimedOut { .. } | Failure::NoResponse | Failure::DeadlinePassed => {
                Self::Failed(ErrorKind::Timeout)
            }
            Failure::Reset => Self::Failed(ErrorKind::Reset),
            Failure::SessionEnded(_) => Self::Failed(ErrorKind::SessionEnded),
            Failure::Unreachable => Self::Failed(ErrorKind::Unreachable),
            Failure::UnknownOption(_) | Failure::Options(_) => Self::Failed(ErrorKind::Options),
            Failure::Body(_) | Failure::BadBlock | Failure::Interrupted(_) => {
                Self::Failed(ErrorKind::Body)
            }
            _ => Self::Failed(ErrorKind::NotTaken),
        }
    }
}

/// Requests by how they ended.
#[derive(Clone, Debug)]
pub(super) struct Counters {
    /// With a 2.xx response.
    pub(super) answered: u64,
    /// Responses by code.
    codes: Box<[u64; 256]>,
    failures: [u64; ErrorKind::ALL.len()],
    /// Bytes of the bodies of 2.xx responses; in an upload, of those sent.
    pub(super) bytes: u64,
    /// Nanoseconds until 2.xx responses.
    pub(super) latency: Histogram<u64>,
}

/// A histogram of nanoseconds.
pub(super) fn histogram() -> Histogram<u64> {
    // The lowest value sets the resolution of the finest bucket.
    Histogram::new_with_bounds(1, LONGEST.as_nanos() as u64, DIGITS)
        .expect("the bounds are far enough apart for three digits")
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            answered: 0,
            codes: Box::new([0; 256]),
            failures: [0; ErrorKind::ALL.len()],
            bytes: 0,
            latency: histogram(),
        }
    }
}

impl Counters {
    pub(super) fn count(&mut self, ending: Ending) {
        match ending {
            Ending::Answered { code, after, bytes } => {
                self.answered += 1;
                self.codes[usize::from(code.0)] += 1;
                self.bytes += bytes;
                self.latency.saturating_record(after);
            }
            Ending::Refused(code) => self.codes[usize::from(code.0)] += 1,
            Ending::Failed(kind) => self.failures[kind as usize] += 1,
        }
    }

    /// Requests that ended.
    pub(super) fn requests(&self) -> u64 {
        self.answered + self.errors()
    }

    /// Those that did not succeed.
    pub(super) fn errors(&self) -> u64 {
        let refused: u64 = self.refusals().map(|(_, count)| count).sum();
        refused + self.failures.iter().sum::<u64>()
    }

    /// Responses of every code that occurred.
    pub(super) fn codes(&self) -> impl Iterator<Item = (Code, u64)> {
        let all = self.codes.iter().enumerate();
        all.filter(|(_, count)| **count > 0)
            .map(|(code, count)| (Code(code as u8), *count))
    }

    /// Error responses by code.
    pub(super) fn refusals(&self) -> impl Iterator<Item = (Code, u64)> {
        self.codes().filter(|(code, _)| !code.is_success())
    }

    pub(super) fn failures_of(&self, kind: ErrorKind) -> u64 {
        self.failures[kind as usize]
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.answered += other.answered;
        self.bytes += other.bytes;
        for (sum, more) in self.codes.iter_mut().zip(&*other.codes) {
            *sum += more;
        }
        for (sum, more) in self.failures.iter_mut().zip(&other.failures) {
            *sum += more;
        }
        self.latency
            .add(&other.latency)
            .expect("all histograms have the same bounds");
    }
}

/// Counts of messages, duplicates and wrong responses.
#[derive(Clone, Debug, Default)]
pub(super) struct Traffic {
    /// Messages sent, repetitions included.
    pub(super) messages: u64,
    pub(super) retransmissions: u64,
    /// Answers to a message that had been sent more than once and was answered before: a copy was
    /// sent for nothing.
    pub(super) answered_again: u64,
    /// Requests that the server had us repeat, to show where we are (RFC 9175 2.3).
    pub(super) challenged: u64,
    /// Messages of the server's that it sent again.
    pub(super) duplicates: u64,
    /// Answers whose request had been given up, or had its answer.
    pub(super) late: u64,
    pub(super) wrong_message_id: u64,
    pub(super) wrong_token: u64,
    pub(super) wrong_kind: u64,
    pub(super) malformed: u64,
    pub(super) oversized: u64,
    /// DTLS sessions that were made, and those that were not.
    pub(super) handshakes: u64,
    pub(super) handshakes_failed: u64,
    /// The first error from the network about the server.
    pub(super) unreachable: Option<String>,
}

/// Effect of a trace event on a port.
pub(super) struct TraceEffect {
    /// The engine had a use for its last input.
    pub(super) used: bool,
    /// A message left for the first time.
    pub(super) first_copy: bool,
}

impl Traffic {
    pub(super) fn on_trace(&mut self, trace: &Trace) -> TraceEffect {
        let mut effect = TraceEffect {
            used: true,
            first_copy: false,
        };
        match trace.event {
            TraceEvent::Sent {
                retransmissions, ..
            } => {
                self.messages += 1;
                self.retransmissions += u64::from(retransmissions > 0);
                effect.first_copy = retransmissions == 0;
                effect.used = false;
            }
            TraceEvent::AnsweredAgain { .. } => self.answered_again += 1,
            TraceEvent::Challenged => {
                self.challenged += 1;
                effect.used = false;
            }
            TraceEvent::Duplicate { .. } => self.duplicates += 1,
            TraceEvent::Malformed => self.malformed += 1,
            TraceEvent::Answered { .. } => {}
            _ => effect.used = false,
        }
        effect
    }

    /// Answers that were wrong, or no answers.
    pub(super) fn wrong(&self) -> u64 {
        self.wrong_message_id + self.wrong_token + self.wrong_kind + self.malformed + self.oversized
    }

    pub(super) fn add(&mut self, other: Self) {
        self.messages += other.messages;
        self.retransmissions += other.retransmissions;
        self.answered_again += other.answered_again;
        self.challenged += other.challenged;
        self.duplicates += other.duplicates;
        self.late += other.late;
        self.wrong_message_id += other.wrong_message_id;
        self.wrong_token += other.wrong_token;
        self.wrong_kind += other.wrong_kind;
        self.malformed += other.malformed;
        self.oversized += other.oversized;
        self.handshakes += other.handshakes;
        self.handshakes_failed += other.handshakes_failed;
        self.unreachable = self.unreachable.take().or(other.unreachable);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use carob_proto::endpoint::SessionEnd;

    #[test]
    fn totals_are_summed_over_threads() {
        let mut one = Counters::default();
        one.count(Ending::Answered {
            code: Code::CONTENT,
            after: 1_000,
            bytes: 32,
        });
        one.count(Ending::Refused(Code::NOT_FOUND));
        let mut other = Counters::default();
        other.count(Ending::Refused(Code::NOT_FOUND));
        other.count(Ending::Failed(ErrorKind::Reset));
        one.add(&other);
        assert_eq!((one.requests(), one.answered, one.errors()), (4, 1, 3));
        assert_eq!(
            one.codes().collect::<Vec<_>>(),
            [(Code::CONTENT, 1), (Code::NOT_FOUND, 2)]
        );
        assert_eq!(one.failures_of(ErrorKind::Reset), 1);
        assert_eq!((one.latency.len(), one.bytes), (1, 32));
    }

    #[test]
    fn every_error_kind_has_its_counter() {
        for (place, kind) in ErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place, "{kind:?}");
        }
    }

    #[test]
    fn latency_is_clamped_to_the_histogram_range() {
        let mut counters = Counters::default();
        counters.count(Ending::Answered {
            code: Code::CONTENT,
            after: u64::MAX,
            bytes: 0,
        });
        assert_eq!(counters.latency.len(), 1);
        assert!(counters.latency.max() >= LONGEST.as_nanos() as u64);
    }

    #[test]
    fn engine_failures_are_mapped_to_error_kinds() {
        assert_eq!(
            Ending::of(Failure::TimedOut { copies: 5 }),
            Ending::Failed(ErrorKind::Timeout)
        );
        assert_eq!(
            Ending::of(Failure::Interrupted(Code::NOT_FOUND)),
            Ending::Refused(Code::NOT_FOUND)
        );
        assert_eq!(
            Ending::of(Failure::BadBlock),
            Ending::Failed(ErrorKind::Body)
        );
        assert_eq!(
            Ending::of(Failure::SessionEnded(SessionEnd::Closed)),
            Ending::Failed(ErrorKind::SessionEnded)
        );
        assert_eq!(
            Ending::of(Failure::QueueFull),
            Ending::Failed(ErrorKind::NotTaken)
        );
    }
}
