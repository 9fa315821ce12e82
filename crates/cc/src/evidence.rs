//! Events of a peer that a controller receives, each with its time.
//!
//! Every struct states facts and leaves their interpretation to the controller: CoCoA calls a
//! sample strong or weak, FASOR unambiguous or not, from the same [`Answered`]. The structs are
//! `#[non_exhaustive]`: a new fact breaks no controller.

use crate::parameters::TransmissionParameters;
use crate::time::{Duration, Instant};

/// Declares setters of a builder: `with_field(field: Type)` sets `field`.
macro_rules! setters {
    ($(#[doc = $about:literal] $setter:ident($field:ident: $type:ty);)*) => {$(
        #[doc = $about]
        #[must_use]
        pub const fn $setter(mut self, $field: $type) -> Self {
            self.$field = $field;
            self
        }
    )*};
}

/// Eight opaque bytes a controller keeps with one exchange, from its first timer to its end.
///
/// FASOR keeps the dithered start of its series here; draft-03 CoCoA, its factor class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExchangeState(pub u64);

/// Eight opaque bytes a controller keeps with one transmission and gets back with its outcome.
///
/// A rate controller stores its delivered counter here; one that only sets timers, nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketState(pub u64);

/// One transmission of a message: its time, and the controller's state for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transmission {
    /// Time of the transmission.
    pub at: Instant,
    /// The state that [`on_sent`](crate::Controller::on_sent) returned for it.
    pub state: PacketState,
}

/// The purpose of a message, as far as congestion control distinguishes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A request to the peer.
    #[default]
    Request,
    /// A separate response to the peer.
    Response,
    /// A notification to an observer (RFC 7641). A NON notification is never acknowledged, so only
    /// its departure can be controlled (RFC 7641 4.5.1).
    Notification,
}

/// The start of an exchange: its first transmission needs a timer.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Start<'a> {
    /// Current time.
    pub now: Instant,
    /// The exchange's transmission parameters.
    pub parameters: &'a TransmissionParameters,
    /// Exchanges already outstanding with this peer, this one excluded.
    pub running: u16,
    /// The message's purpose.
    pub kind: Kind,
}

impl<'a> Start<'a> {
    /// Creates the start of a request with no other exchange outstanding.
    pub const fn new(now: Instant, parameters: &'a TransmissionParameters) -> Self {
        Self {
            now,
            parameters,
            running: 0,
            kind: Kind::Request,
        }
    }

    setters! {
        /// Sets the exchanges already outstanding.
        with_running(running: u16);
        /// Sets the message's purpose.
        with_kind(kind: Kind);
    }
}

/// The expiry of a timer: the next transmission needs one.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Expired<'a> {
    /// Current time.
    pub now: Instant,
    /// The exchange's transmission parameters.
    pub parameters: &'a TransmissionParameters,
    /// The controller's state of the exchange.
    pub state: ExchangeState,
    /// Retransmissions sent so far: 0 at the expiry of the first timer.
    pub retransmissions: u8,
    /// The expired timer, after capping.
    pub timeout: Duration,
    /// True if nothing was received from the peer while that timer ran.
    pub silent: bool,
    /// Why the transmission is presumed lost: by a gap, its timer has not expired.
    pub reason: LossReason,
}

impl<'a> Expired<'a> {
    /// Creates the expiry of the timer `timeout` with the exchange state `state`, after
    /// `retransmissions` retransmissions.
    pub const fn new(
        now: Instant,
        parameters: &'a TransmissionParameters,
        state: ExchangeState,
        retransmissions: u8,
        timeout: Duration,
    ) -> Self {
        Self {
            now,
            parameters,
            state,
            retransmissions,
            timeout,
            silent: true,
            reason: LossReason::Timer,
        }
    }

    setters! {
        /// Sets whether nothing was received from the peer meanwhile.
        with_silent(silent: bool);
        /// Sets why the transmission is presumed lost.
        with_reason(reason: LossReason);
    }
}

/// A transmission.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Sent<'a> {
    /// Time of the transmission.
    pub now: Instant,
    /// The exchange's transmission parameters.
    pub parameters: &'a TransmissionParameters,
    /// Size of the datagram's payload (the CoAP message) in bytes.
    pub bytes: u32,
    /// Expected size of the response in bytes, which fills the bottleneck in downloads; 0 if
    /// unknown.
    pub answer_bytes: u32,
    /// 0 for the first transmission, k for the k-th retransmission.
    pub retransmissions: u8,
    /// The message's purpose.
    pub kind: Kind,
    /// True for CON and for NON whose receipt the peer reports; false for other NON.
    pub confirmable: bool,
    /// Application-limited: no other message for this peer was queued when it was sent.
    pub application_limited: bool,
}

impl<'a> Sent<'a> {
    /// Creates the first transmission of a confirmable request of `bytes` bytes.
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

    setters! {
        /// Makes it the `retransmissions`-th retransmission.
        with_retransmissions(retransmissions: u8);
        /// Sets the message's purpose.
        with_kind(kind: Kind);
        /// Sets the type: CON or NON.
        with_confirmable(confirmable: bool);
        /// Sets the expected size of the answer in bytes.
        with_answer_bytes(answer_bytes: u32);
        /// Sets whether the application limits the rate.
        with_application_limited(application_limited: bool);
    }
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// A response piggybacked in the ACK.
    Piggybacked,
    /// An empty ACK, or a report of received blocks (RFC 9177); a response, if any, is still to come.
    Empty,
    /// A separate response to a request whose ACK was never received or never due.
    Separate,
}

/// The transmissions that an answer can belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Matched {
    /// This transmission (0 = the first) for certain: the only one, or named on the wire.
    Exact(u8),
    /// One of these transmissions, both ends included; the wire does not name it.
    Ambiguous {
        /// The earliest possible transmission.
        earliest: u8,
        /// The latest possible transmission.
        latest: u8,
    },
}

/// The answer to an exchange.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Answered<'a> {
    /// Time of its arrival.
    pub now: Instant,
    /// The exchange's transmission parameters.
    pub parameters: &'a TransmissionParameters,
    /// The controller's state of the exchange.
    pub state: ExchangeState,
    /// All transmissions, the first one first; never empty.
    pub transmissions: &'a [Transmission],
    /// The transmissions that the answer can belong to.
    pub matched: Matched,
    /// The form of the answer.
    pub answer: Answer,
    /// The running timer.
    pub timeout: Duration,
    /// Size of the answer in bytes (the CoAP message).
    pub bytes: u32,
    /// True for CON transmissions, and for NON ones whose receipt the peer reports; an answer to
    /// another NON request carries less information about timers.
    pub confirmable: bool,
    /// Bytes of other messages whose receipt the same answer reports (RFC 9177). The controller gets no
    /// event for each of those.
    pub also: u32,
    /// The part of them sent after the transmission that the previous such answer matched, which was
    /// therefore delivered since that answer.
    pub recent: u32,
}

impl<'a> Answered<'a> {
    /// Creates a piggybacked answer at `now` to the exchange with these `transmissions`.
    ///
    /// One transmission makes the match exact, several make it ambiguous.
    pub fn new(
        now: Instant,
        parameters: &'a TransmissionParameters,
        state: ExchangeState,
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
            state,
            transmissions,
            matched,
            answer: Answer::Piggybacked,
            timeout,
            bytes: 0,
            confirmable: true,
            also: 0,
            recent: 0,
        }
    }

    setters! {
        /// Sets the transmissions that the answer can belong to.
        with_matched(matched: Matched);
        /// Sets the type: CON or NON.
        with_confirmable(confirmable: bool);
    }

    /// Sets the form of the answer and its size in bytes.
    #[must_use]
    pub const fn with_answer(mut self, answer: Answer, bytes: u32) -> Self {
        self.answer = answer;
        self.bytes = bytes;
        self
    }

    /// Sets the bytes of other messages that it reports received (`also`), and how many were sent after the
    /// transmission that the previous such answer matched (`recent`).
    #[must_use]
    pub const fn with_also(mut self, also: u32, recent: u32) -> Self {
        self.also = also;
        self.recent = recent;
        self
    }

    /// Returns the number of retransmissions (`n` of `docs/algorithms.md#notation`).
    pub fn retransmissions(&self) -> u8 {
        u8::try_from(self.transmissions.len().saturating_sub(1)).unwrap_or(u8::MAX)
    }

    /// Returns the time since the first transmission, which CoCoA and FASOR use for ambiguous
    /// answers.
    pub fn since_original(&self) -> Duration {
        self.transmissions
            .first()
            .map_or(Duration::ZERO, |t| self.now.since(t.at))
    }

    /// Returns the time since the answered transmission, if that is known.
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

/// The reason for presuming a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// The retransmission timer expired.
    Timer,
    /// A message that departed later was answered (RFC 9002 6.1).
    Gap,
}

/// A transmission presumed lost.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Lost {
    /// Time of the detection.
    pub now: Instant,
    /// The transmission.
    pub transmission: Transmission,
    /// Its size in bytes (the CoAP message).
    pub bytes: u32,
    /// The reason.
    pub reason: LossReason,
    /// True if nothing was received from the peer since the transmission.
    pub silent: bool,
}

impl Lost {
    /// Creates the loss of a transmission of `bytes` bytes whose timer expired at `now`.
    pub const fn new(now: Instant, transmission: Transmission, bytes: u32, silent: bool) -> Self {
        Self {
            now,
            transmission,
            bytes,
            reason: LossReason::Timer,
            silent,
        }
    }

    setters! {
        /// Sets the reason.
        with_reason(reason: LossReason);
    }
}

/// A further answer to a completed exchange, which proves a spurious retransmission.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LateAnswer {
    /// Time of its arrival.
    pub now: Instant,
    /// Total transmissions.
    pub sent: u8,
    /// Answers so far, this one included.
    pub answers: u8,
    /// Time since the first transmission.
    pub since_original: Duration,
    /// True if the exchange had been given up before.
    pub abandoned: bool,
}

impl LateAnswer {
    /// Creates the `answers`-th answer to an exchange of `sent` transmissions, `since_original`
    /// after the first.
    pub const fn new(now: Instant, sent: u8, answers: u8, since_original: Duration) -> Self {
        Self {
            now,
            sent,
            answers,
            since_original,
            abandoned: false,
        }
    }

    setters! {
        /// Sets whether the exchange had been given up.
        with_abandoned(abandoned: bool);
    }
}

/// The reason for the end of an exchange without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The last timer expired.
    TimedOut,
    /// The peer sent RST.
    Reset,
    /// The application cancelled the exchange, or its report is no longer awaited (RFC 9177).
    Cancelled,
    /// The network reported the peer unreachable.
    Unreachable,
}

/// The end of an exchange without an answer.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Abandoned<'a> {
    /// Current time.
    pub now: Instant,
    /// The exchange's transmission parameters.
    pub parameters: &'a TransmissionParameters,
    /// The controller's state of the exchange.
    pub state: ExchangeState,
    /// The reason.
    pub reason: Reason,
    /// Retransmissions sent.
    pub retransmissions: u8,
    /// The timer that was running or had just expired.
    pub timeout: Duration,
}

impl<'a> Abandoned<'a> {
    /// Creates the end of an exchange for `reason` after `retransmissions` retransmissions.
    pub const fn new(
        now: Instant,
        parameters: &'a TransmissionParameters,
        state: ExchangeState,
        reason: Reason,
        retransmissions: u8,
        timeout: Duration,
    ) -> Self {
        Self {
            now,
            parameters,
            state,
            reason,
            retransmissions,
            timeout,
        }
    }
}

/// A signal of the peer or the network that is not an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Signal {
    /// 4.29 or 5.03: no request before this time (RFC 8516, RFC 7252 5.9.3.4).
    SlowDown(Duration),
    /// The network reports the peer unreachable (ICMP).
    Unreachable,
}

/// A message that may be sent, for the departure decision.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SendCandidate<'a> {
    /// Current time.
    pub now: Instant,
    /// The peer's transmission parameters.
    pub parameters: &'a TransmissionParameters,
    /// Size in bytes (the CoAP message).
    pub bytes: u32,
    /// The message's purpose.
    pub kind: Kind,
    /// True for CON, false for NON.
    pub confirmable: bool,
}

impl<'a> SendCandidate<'a> {
    /// A confirmable request of `bytes` bytes, ready at `now`.
    pub const fn new(now: Instant, parameters: &'a TransmissionParameters, bytes: u32) -> Self {
        Self {
            now,
            parameters,
            bytes,
            kind: Kind::Request,
            confirmable: true,
        }
    }

    setters! {
        /// Sets the message's purpose.
        with_kind(kind: Kind);
        /// Sets the type: CON or NON.
        with_confirmable(confirmable: bool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_transmission_matches_exactly() {
        let p = TransmissionParameters::DEFAULT;
        let at = |s| Transmission {
            at: Instant::ZERO + Duration::from_secs(s),
            ..Default::default()
        };
        let copies = [at(0), at(2), at(6)];
        let now = Instant::ZERO + Duration::from_secs(7);
        let answered = |n| {
            Answered::new(
                now,
                &p,
                ExchangeState::default(),
                &copies[..n],
                Duration::ZERO,
            )
        };
        assert_eq!(answered(1).round_trip(), Some(Duration::from_secs(7)));
        assert_eq!(answered(3).round_trip(), None);
        assert_eq!(answered(3).since_original(), Duration::from_secs(7));
        let told = answered(3).with_matched(Matched::Exact(2));
        assert_eq!(told.round_trip(), Some(Duration::from_secs(1)));
    }
}
