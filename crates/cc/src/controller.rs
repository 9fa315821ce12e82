//! The interface between the protocol engine and a congestion controller.

use core::fmt;

use crate::evidence::{
    Abandoned, Answered, ExchangeState, Expired, LateAnswer, Lost, PacketState, SendCandidate,
    Sent, Signal, Start,
};
use crate::parameters::TransmissionParameters;
use crate::random::Random;
use crate::time::{Duration, Instant};

/// Retransmission timer, with the controller's state for its exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timer {
    /// Retransmission timeout, dithering included.
    pub timeout: Duration,
    /// Passed back with every later event of the exchange.
    pub state: ExchangeState,
}

impl From<Duration> for Timer {
    fn from(timeout: Duration) -> Self {
        Self {
            timeout,
            state: ExchangeState::default(),
        }
    }
}

/// Limits of outstanding messages with a peer. One exchange is always allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Interactions (NSTART, or its adaptive form); at least 1.
    pub exchanges: u16,
    /// Bytes sent and expected in response; a single exchange may exceed it.
    pub bytes: u32,
}

impl Window {
    /// NSTART exchanges of any size (RFC 7252 4.7).
    pub const fn nstart(parameters: &TransmissionParameters) -> Self {
        Self {
            exchanges: parameters.nstart,
            bytes: u32::MAX,
        }
    }
}

variants! {
    /// Means by which an answer names the transmission that it answers
    /// (`docs/algorithms.md#fasor-option`). Best effort: a peer may ignore it. Answers to several
    /// transmissions are then [`Matched::Ambiguous`](crate::evidence::Matched::Ambiguous), as
    /// without it.
    pub enum CopyTagging {
        /// Not at all.
        Off = "off",
        /// An option with the number of retransmissions in every transmission (FASOR).
        EveryCopy = "every-copy",
        /// The same option in retransmissions only (Lee et al. 2016).
        RepeatedCopies = "repeated-copies",
        /// A token that differs in its last byte between transmissions (FASOR's alternative).
        Token = "token",
    }
}

/// Detection of losses by later answers (RFC 9002 6.1.2): a message is lost if its time threshold has
/// passed and a message that departed later has been answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapDetection {
    /// Time from the departure of a message.
    pub time_threshold: Duration,
    /// Departure of the latest message that was certainly answered.
    pub answered_departure: Instant,
    /// The path's timeout now, its back-off included: no timer of the window's messages is shorter.
    pub timeout: Duration,
    /// Retransmissions for a gap until the message's timer expires, at most.
    pub repairs: u8,
}

/// A gauge of a controller's state, for display and traces.
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

/// Congestion controller of one peer: it receives events and returns decisions.
///
/// Only the two timers are required. The other methods default to RFC 7252's rules for a sender
/// without state: NSTART exchanges, no pacing, CON only if the application requests it.
///
/// A controller whose timer is twice the last unambiguous round-trip time:
///
/// ```
/// use carob_cc::Controller;
/// use carob_cc::contract::{Lcg, Trial};
/// use carob_cc::controller::Timer;
/// use carob_cc::evidence::{Answered, Expired, Start};
/// use carob_cc::random::Random;
/// use carob_cc::time::Duration;
///
/// #[derive(Debug, Default)]
/// struct TwiceTheLast {
///     round_trip: Option<Duration>,
/// }
///
/// impl Controller for TwiceTheLast {
///     fn first_timeout(&mut self, start: &Start<'_>, _: &mut dyn Random) -> Timer {
///         let timeout = match self.round_trip {
///             Some(round_trip) => round_trip.times(2),
///             None => start.parameters.ack_timeout,
///         };
///         timeout.clamp(Duration::from_millis(50), Duration::from_secs(60)).into()
///     }
///
///     fn next_timeout(&mut self, expired: &Expired<'_>, _: &mut dyn Random) -> Timer {
///         expired.timeout.times(2).into()
///     }
///
///     fn on_answered(&mut self, answered: &Answered<'_>) {
///         // Karn's rule: a retransmitted message gives no sample.
///         if answered.retransmissions() == 0 {
///             self.round_trip = Some(answered.since_original());
///         }
///     }
/// }
///
/// // The contract suite: random events, and the properties on which the engine relies.
/// let mut trial = Trial::new(TwiceTheLast::default(), TwiceTheLast::default(), false);
/// let mut random = Lcg(1);
/// for _ in 0..10_000 {
///     trial.step(&mut random)?;
/// }
/// # Ok::<(), carob_cc::contract::Breach>(())
/// ```
///
/// An application uses it as `CongestionControl::Custom` of the crate `carob`.
///
/// Guarantees of the engine:
///
/// - Time never decreases.
/// - Every confirmable exchange begins with `first_timeout` and ends with exactly one `on_answered`
///   or `on_abandoned`.
/// - A NON whose receipt the peer reports (a block of RFC 9177) begins with `first_timeout`, too. It
///   ends with `on_answered`, its own or another message's, whose answer reports it
///   ([`Answered::also`]), with `on_lost`, or with `on_abandoned`. Its repetition is another message.
/// - `next_timeout` is called once per retransmission, before its `on_sent`.
/// - An event is reported before the decisions that depend on it are requested.
/// - `rto_max` limits backed-off timers, but never below the previous one.
/// - A window of 0 counts as 1; a departure in the past means now.
///
/// Obligations of a controller: see [`contract`](crate::contract), which tests them.
pub trait Controller: fmt::Debug {
    /// Returns the timer of an exchange's first transmission, dithering included.
    fn first_timeout(&mut self, start: &Start<'_>, random: &mut dyn Random) -> Timer;

    /// Returns the timer of the next transmission, after one expired.
    fn next_timeout(&mut self, expired: &Expired<'_>, random: &mut dyn Random) -> Timer;

    /// Handles a transmission; the returned state comes back in [`Answered::transmissions`].
    fn on_sent(&mut self, _sent: &Sent<'_>, _random: &mut dyn Random) -> PacketState {
        PacketState::default()
    }

    /// Handles the answer to an exchange.
    fn on_answered(&mut self, _answered: &Answered<'_>) {}

    /// Handles a transmission presumed lost. Called before the timer of the next one is requested.
    fn on_lost(&mut self, _lost: &Lost) {}

    /// Handles the separate response that an empty ACK had promised.
    /// [`on_answered`](Self::on_answered) has already reported the ACK.
    fn on_response(&mut self, _response: &Answered<'_>) {}

    /// Handles a further answer to a completed exchange.
    fn on_late_answer(&mut self, _late: &LateAnswer) {}

    /// Handles the end of an exchange without an answer.
    fn on_abandoned(&mut self, _abandoned: &Abandoned<'_>) {}

    /// Handles a signal of the peer or the network that is not an answer.
    fn on_signal(&mut self, _now: Instant, _signal: Signal) {}

    /// Returns the current limits of outstanding messages.
    fn window(&self, _now: Instant, parameters: &TransmissionParameters) -> Window {
        Window::nstart(parameters)
    }

    /// Returns the earliest time at which this message may be sent.
    fn earliest_departure_time(&self, candidate: &SendCandidate<'_>) -> Instant {
        candidate.now
    }

    /// Returns how later answers show that a message is lost; `None` if timers alone do.
    fn gap_detection(&self) -> Option<GapDetection> {
        None
    }

    /// Returns whether this NON, which may be sent now, must be sent as CON instead.
    fn must_confirm(&self, _departure: &SendCandidate<'_>) -> bool {
        false
    }

    /// Returns how transmissions of a request are distinguished.
    fn copy_tagging(&self) -> CopyTagging {
        CopyTagging::Off
    }

    /// Visits every gauge of the state: `rto` first where there is one.
    fn gauges(&self, _now: Instant, _visit: &mut dyn FnMut(&'static str, Gauge)) {}

    /// Returns the current overall RTO before dithering, if the controller keeps one.
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
