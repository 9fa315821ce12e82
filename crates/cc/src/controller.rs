//! The contract between the protocol engine and a congestion controller.

use core::fmt;

use crate::evidence::{
    Abandoned, Answered, Departure, Expired, LateAnswer, Lost, Memo, Sent, Signal, Stamp, Start,
};
use crate::parameters::TransmissionParameters;
use crate::random::Random;
use crate::time::{Duration, Instant};

/// A timer, and what to keep with its exchange until the next question about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timer {
    /// How long to wait for an answer, dithering included.
    pub timeout: Duration,
    /// Handed back with every later question and fact about the exchange.
    pub memo: Memo,
}

impl From<Duration> for Timer {
    fn from(timeout: Duration) -> Self {
        Self {
            timeout,
            memo: Memo::default(),
        }
    }
}

/// How much may be outstanding with a peer at once. One exchange is always allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Interactions (NSTART, or its adaptive form); at least 1.
    pub exchanges: u16,
    /// Bytes sent and expected in answer; a single exchange may exceed it.
    pub bytes: u32,
}

impl Window {
    /// NSTART exchanges, whatever their size (RFC 7252 4.7).
    pub const fn nstart(parameters: &TransmissionParameters) -> Self {
        Self {
            exchanges: parameters.nstart,
            bytes: u32::MAX,
        }
    }
}

readings! {
    /// Means by which an answer names the transmission that it answers
    /// (`docs/algorithms.md#fasor-option`). A peer can ignore it. Answers to several transmissions
    /// are then [`Matched::Ambiguous`](crate::evidence::Matched::Ambiguous), as without it.
    pub enum Counting {
        /// Not at all.
        Off = "off",
        /// An option with the number of retransmissions in every copy (FASOR).
        EveryCopy = "every-copy",
        /// The same option in retransmitted copies only (Lee et al. 2016).
        RepeatedCopies = "repeated-copies",
        /// A token that differs in its last byte from copy to copy (FASOR's alternative).
        Token = "token",
    }
}

/// A named reading of a controller's state, for people and traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gauge {
    /// A length of time.
    Time(Duration),
    /// A count.
    Count(u64),
    /// The name of a state or mode.
    State(&'static str),
}

/// A congestion controller: one per peer, hearing facts and giving advice.
///
/// Only the two timers must be written. Everything else defaults to what RFC 7252 asks of a
/// sender that keeps no state: NSTART outstanding, no pacing, CON only where the application
/// chose it.
///
/// What the engine promises: time never runs backwards; every confirmable exchange begins with
/// `first_timeout` and ends with exactly one `on_answered` or `on_abandoned`; `next_timeout` is
/// asked once per retransmission, before its `on_sent`; a fact is told before the advice that
/// depends on it is asked. What it does with the advice: `rto_max` cuts backed-off timers but
/// never below the one before; a window of 0 counts as 1; a departure in the past means now.
pub trait Controller: fmt::Debug {
    /// The timer of an exchange's first copy, dithering included.
    fn first_timeout(&mut self, start: &Start<'_>, random: &mut dyn Random) -> Timer;

    /// The timer of the next copy, after one ran out.
    fn next_timeout(&mut self, expired: &Expired<'_>, random: &mut dyn Random) -> Timer;

    /// A copy leaves; what is returned comes back in [`Answered::transmissions`].
    fn on_sent(&mut self, _sent: &Sent<'_>, _random: &mut dyn Random) -> Stamp {
        Stamp::default()
    }

    /// An exchange was answered.
    fn on_answered(&mut self, _answered: &Answered<'_>) {}

    /// A copy is taken for lost. Told before the timer of the next copy is asked for.
    fn on_lost(&mut self, _lost: &Lost) {}

    /// The response that an empty ACK had promised arrived. [`on_answered`](Self::on_answered)
    /// has been told of the ACK.
    fn on_response(&mut self, _response: &Answered<'_>) {}

    /// An exchange that had ended was answered again.
    fn on_late_answer(&mut self, _late: &LateAnswer) {}

    /// An exchange ended without an answer.
    fn on_abandoned(&mut self, _abandoned: &Abandoned<'_>) {}

    /// A peer or the network said something that is not an answer.
    fn on_signal(&mut self, _now: Instant, _signal: Signal) {}

    /// How much may be outstanding now.
    fn window(&self, _now: Instant, parameters: &TransmissionParameters) -> Window {
        Window::nstart(parameters)
    }

    /// The earliest time this message may leave.
    fn departure(&self, departure: &Departure<'_>) -> Instant {
        departure.now
    }

    /// Whether this NON, which may leave now, must leave as CON instead.
    fn must_confirm(&self, _departure: &Departure<'_>) -> bool {
        false
    }

    /// How copies of a request are to be told apart.
    fn counting(&self) -> Counting {
        Counting::Off
    }

    /// Names every reading of the state: `rto` first where there is one.
    fn gauges(&self, _now: Instant, _visit: &mut dyn FnMut(&'static str, Gauge)) {}

    /// The current overall RTO before dithering, if the controller keeps one.
    fn rto(&self, now: Instant) -> Option<Duration> {
        let mut found = None;
        self.gauges(now, &mut |name, gauge| {
            if let ("rto", Gauge::Time(rto)) = (name, gauge) {
                found = Some(rto);
            }
        });
        found
    }
}
