//! Evidence: the facts a controller hears, each with its time.
//!
//! Every struct states what happened and leaves the verdict to the controller: CoCoA calls a
//! sample strong or weak, FASOR unambiguous or not, from the same [`Answered`]. The structs are
//! `#[non_exhaustive]`: a new fact breaks no controller.

use crate::parameters::TransmissionParameters;
use crate::time::{Duration, Instant};

/// Eight opaque bytes a controller keeps with one exchange, from its first timer to its end.
///
/// FASOR keeps the dithered start of its series here; draft-03 CoCoA, its factor class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memo(pub u64);

/// Eight opaque bytes a controller keeps with one transmission and gets back with its fate.
///
/// A rate controller stores its delivered counter here; one that only sets timers, nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp(pub u64);

/// One copy that left: when, and what the controller stamped on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transmission {
    /// When it left.
    pub at: Instant,
    /// What [`on_sent`](crate::Controller::on_sent) returned for it.
    pub stamp: Stamp,
}

/// What a message is for, as congestion control cares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A request of ours.
    #[default]
    Request,
    /// A separate response of ours.
    Response,
    /// A notification to an observer of a resource of ours (RFC 7641). As NON it is never
    /// answered, so only its departure can be governed (RFC 7641 4.5.1).
    Notification,
}

/// An exchange is about to send its first copy and asks for the timer of that copy.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Start<'a> {
    /// When.
    pub now: Instant,
    /// The exchange's transmission parameters.
    pub parameters: &'a TransmissionParameters,
    /// Exchanges already outstanding with this peer, this one not counted.
    pub running: u16,
    /// What the message is for.
    pub kind: Kind,
}

impl<'a> Start<'a> {
    /// A request with nothing else outstanding.
    pub const fn new(now: Instant, parameters: &'a TransmissionParameters) -> Self {
        Self {
            now,
            parameters,
            running: 0,
            kind: Kind::Request,
        }
    }

    /// The same with `running` exchanges already outstanding.
    #[must_use]
    pub const fn with_running(mut self, running: u16) -> Self {
        self.running = running;
        self
    }

    /// The same for a message of another kind.
    #[must_use]
    pub const fn with_kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }
}

/// A timer ran out, another copy is about to leave, and asks for its timer.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Expired<'a> {
    /// When.
    pub now: Instant,
    /// The exchange's transmission parameters.
    pub parameters: &'a TransmissionParameters,
    /// What the controller kept with the exchange.
    pub memo: Memo,
    /// Retransmissions sent so far: 0 when the timer of the original ran out.
    pub retransmissions: u8,
    /// The timer that ran out, after capping.
    pub timeout: Duration,
    /// Nothing at all was heard from the peer while that timer ran.
    pub silent: bool,
}

impl<'a> Expired<'a> {
    /// The timer `timeout`, advised with `memo`, ran out after `retransmissions` copies more
    /// than the original.
    pub const fn new(
        now: Instant,
        parameters: &'a TransmissionParameters,
        memo: Memo,
        retransmissions: u8,
        timeout: Duration,
    ) -> Self {
        Self {
            now,
            parameters,
            memo,
            retransmissions,
            timeout,
            silent: true,
        }
    }

    /// The same, with whether nothing was heard meanwhile.
    #[must_use]
    pub const fn with_silent(mut self, silent: bool) -> Self {
        self.silent = silent;
        self
    }
}

/// A copy leaves.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Sent<'a> {
    /// When.
    pub now: Instant,
    /// The exchange's transmission parameters.
    pub parameters: &'a TransmissionParameters,
    /// Size of the datagram's payload (the CoAP message) in bytes.
    pub bytes: u32,
    /// Size expected of the answer in bytes; what fills the bottleneck when a client pulls
    /// blocks. 0 if unknown.
    pub answer_bytes: u32,
    /// 0 for the original, k for the k-th retransmission.
    pub retransmissions: u8,
    /// What the message is for.
    pub kind: Kind,
    /// Sent as CON.
    pub confirmable: bool,
    /// Nothing else waited for this peer when it left: the application, not the controller, set
    /// the pace.
    pub application_limited: bool,
}

impl<'a> Sent<'a> {
    /// The original copy of a confirmable request of `bytes` bytes.
    pub const fn new(now: Instant, parameters: &'a TransmissionParameters, bytes: u32) -> Self {
        Self {
            now,
            parameters,
            bytes,
            answer_bytes: 0,
            retransmissions: 0,
            kind: Kind::Request,
            confirmable: true,
            application_limited: true,
        }
    }

    /// The same as the `retransmissions`-th retransmission.
    #[must_use]
    pub const fn with_retransmissions(mut self, retransmissions: u8) -> Self {
        self.retransmissions = retransmissions;
        self
    }

    /// The same for a message of another kind.
    #[must_use]
    pub const fn with_kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// The same as CON or NON.
    #[must_use]
    pub const fn with_confirmable(mut self, confirmable: bool) -> Self {
        self.confirmable = confirmable;
        self
    }

    /// The same with an expected size of the answer.
    #[must_use]
    pub const fn with_answer_bytes(mut self, answer_bytes: u32) -> Self {
        self.answer_bytes = answer_bytes;
        self
    }

    /// The same with whether the application set the pace.
    #[must_use]
    pub const fn with_application_limited(mut self, application_limited: bool) -> Self {
        self.application_limited = application_limited;
        self
    }
}

/// How an answer arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// The response came inside the ACK.
    Piggybacked,
    /// An empty ACK; a response, if any, is still to come.
    Empty,
    /// A response as a message of its own, to a request whose ACK was never seen or never due.
    Separate,
}

/// Which copy an answer answers, and how sure that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Matched {
    /// This copy (0 = the original), without doubt: only one was sent, or the wire said so.
    Exact(u8),
    /// One of these copies, both ends included; the wire does not say which.
    Ambiguous {
        /// The earliest copy it can be.
        earliest: u8,
        /// The latest copy it can be.
        latest: u8,
    },
}

/// An exchange was answered.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Answered<'a> {
    /// When.
    pub now: Instant,
    /// The exchange's transmission parameters.
    pub parameters: &'a TransmissionParameters,
    /// What the controller kept with the exchange.
    pub memo: Memo,
    /// Every copy sent, the original first; never empty.
    pub transmissions: &'a [Transmission],
    /// Which of them was answered.
    pub matched: Matched,
    /// The form of the answer.
    pub answer: Answer,
    /// The timer that was running.
    pub timeout: Duration,
    /// Size of the answer in bytes (the CoAP message).
    pub bytes: u32,
    /// The copies were CON; an answer to a NON request says less about timers.
    pub confirmable: bool,
}

impl<'a> Answered<'a> {
    /// A piggybacked answer at `now` to the copies in `transmissions`.
    ///
    /// One copy makes the match exact, several make it ambiguous.
    pub fn new(
        now: Instant,
        parameters: &'a TransmissionParameters,
        memo: Memo,
        transmissions: &'a [Transmission],
        timeout: Duration,
    ) -> Self {
        let latest = u8::try_from(transmissions.len().saturating_sub(1)).unwrap_or(u8::MAX);
        let matched = match latest {
            0 => Matched::Exact(0),
            latest => Matched::Ambiguous {
                earliest: 0,
                latest,
            },
        };
        Self {
            now,
            parameters,
            memo,
            transmissions,
            matched,
            answer: Answer::Piggybacked,
            timeout,
            bytes: 0,
            confirmable: true,
        }
    }

    /// The same with what the wire says about the match.
    #[must_use]
    pub const fn with_matched(mut self, matched: Matched) -> Self {
        self.matched = matched;
        self
    }

    /// The same with the form and size of the answer.
    #[must_use]
    pub const fn with_answer(mut self, answer: Answer, bytes: u32) -> Self {
        self.answer = answer;
        self.bytes = bytes;
        self
    }

    /// The same for copies sent as CON or NON.
    #[must_use]
    pub const fn with_confirmable(mut self, confirmable: bool) -> Self {
        self.confirmable = confirmable;
        self
    }

    /// Retransmissions sent (`n` of `docs/algorithms.md#notation`).
    pub fn retransmissions(&self) -> u8 {
        u8::try_from(self.transmissions.len().saturating_sub(1)).unwrap_or(u8::MAX)
    }

    /// Time since the ORIGINAL copy, which is how CoCoA and FASOR time an ambiguous answer.
    pub fn since_original(&self) -> Duration {
        self.transmissions
            .first()
            .map_or(Duration::ZERO, |t| self.now.since(t.at))
    }

    /// Time since the copy that was answered, where that is known.
    pub fn round_trip(&self) -> Option<Duration> {
        match self.matched {
            Matched::Exact(index) => self
                .transmissions
                .get(usize::from(index))
                .map(|t| self.now.since(t.at)),
            Matched::Ambiguous { .. } => None,
        }
    }
}

/// Why a copy is taken for lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// Its timer ran out.
    Timer,
}

/// A copy is taken for lost.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Lost {
    /// When that was found.
    pub now: Instant,
    /// The copy.
    pub transmission: Transmission,
    /// Its size in bytes (the CoAP message).
    pub bytes: u32,
    /// Why.
    pub reason: LossReason,
    /// Nothing at all was heard from the peer since it left.
    pub silent: bool,
}

impl Lost {
    /// A copy of `bytes` bytes whose timer ran out at `now`.
    pub const fn new(now: Instant, transmission: Transmission, bytes: u32, silent: bool) -> Self {
        Self {
            now,
            transmission,
            bytes,
            reason: LossReason::Timer,
            silent,
        }
    }
}

/// Another answer to an exchange that had ended: a proof that a copy was spurious.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LateAnswer {
    /// When.
    pub now: Instant,
    /// Copies that had been sent in all.
    pub sent: u8,
    /// Answers seen so far, this one included.
    pub answers: u8,
    /// Time since the original copy.
    pub since_original: Duration,
    /// The exchange had been given up; this answer came too late for it.
    pub abandoned: bool,
}

impl LateAnswer {
    /// The `answers`-th answer to an exchange of `sent` copies, `since_original` after its first.
    pub const fn new(now: Instant, sent: u8, answers: u8, since_original: Duration) -> Self {
        Self {
            now,
            sent,
            answers,
            since_original,
            abandoned: false,
        }
    }

    /// The same with whether the exchange had been given up.
    #[must_use]
    pub const fn with_abandoned(mut self, abandoned: bool) -> Self {
        self.abandoned = abandoned;
        self
    }
}

/// Why an exchange ended without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The last timer ran out.
    TimedOut,
    /// The peer sent RST.
    Reset,
    /// The application lost interest.
    Cancelled,
    /// The network said the peer cannot be reached.
    Unreachable,
}

/// An exchange ended without an answer.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Abandoned<'a> {
    /// When.
    pub now: Instant,
    /// The exchange's transmission parameters.
    pub parameters: &'a TransmissionParameters,
    /// What the controller kept with the exchange.
    pub memo: Memo,
    /// Why.
    pub reason: Reason,
    /// Copies sent beyond the original.
    pub retransmissions: u8,
    /// The timer that was running or had just run out.
    pub timeout: Duration,
}

impl<'a> Abandoned<'a> {
    /// An exchange ended for `reason` after `retransmissions` retransmissions.
    pub const fn new(
        now: Instant,
        parameters: &'a TransmissionParameters,
        memo: Memo,
        reason: Reason,
        retransmissions: u8,
        timeout: Duration,
    ) -> Self {
        Self {
            now,
            parameters,
            memo,
            reason,
            retransmissions,
            timeout,
        }
    }
}

/// Something a peer or the network said that is not an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Signal {
    /// 4.29 or 5.03: ask again no earlier than this (RFC 8516, RFC 7252 5.9.3.4).
    SlowDown(Duration),
    /// The network reports the peer unreachable (ICMP).
    Unreachable,
}

/// A message asks when it may leave.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Departure<'a> {
    /// When it asks.
    pub now: Instant,
    /// The peer's transmission parameters.
    pub parameters: &'a TransmissionParameters,
    /// Size in bytes (the CoAP message).
    pub bytes: u32,
    /// What the message is for.
    pub kind: Kind,
    /// Would leave as CON.
    pub confirmable: bool,
}

impl<'a> Departure<'a> {
    /// A confirmable request of `bytes` bytes asks at `now`.
    pub const fn new(now: Instant, parameters: &'a TransmissionParameters, bytes: u32) -> Self {
        Self {
            now,
            parameters,
            bytes,
            kind: Kind::Request,
            confirmable: true,
        }
    }

    /// The same for a message of another kind.
    #[must_use]
    pub const fn with_kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// The same as CON or NON.
    #[must_use]
    pub const fn with_confirmable(mut self, confirmable: bool) -> Self {
        self.confirmable = confirmable;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_copy_matches_exactly_and_several_do_not() {
        let p = TransmissionParameters::DEFAULT;
        let at = |s| Transmission {
            at: Instant::ZERO + Duration::from_secs(s),
            ..Default::default()
        };
        let copies = [at(0), at(2), at(6)];
        let now = Instant::ZERO + Duration::from_secs(7);
        let answered = |n| Answered::new(now, &p, Memo::default(), &copies[..n], Duration::ZERO);
        assert_eq!(answered(1).round_trip(), Some(Duration::from_secs(7)));
        assert_eq!(answered(3).round_trip(), None);
        assert_eq!(answered(3).since_original(), Duration::from_secs(7));
        let told = answered(3).with_matched(Matched::Exact(2));
        assert_eq!(told.round_trip(), Some(Duration::from_secs(1)));
    }
}
