//! Timers of exchanges, and the back-off that carries over from one exchange to the next.

use crate::parameters::TransmissionParameters;
use crate::random::{Random, uniform};
use crate::time::Duration;

/// The greatest number of doublings kept after ambiguous answers.
const KEPT_MAX: u8 = 6;

/// The longest first timer that doublings lead to, and the longest gap between paced messages.
pub(super) const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// Doublings of the first timer of later exchanges: after exchanges whose answer gave no sample (Karn).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    doublings: u8,
    /// Whether an answer came later than an RTO after the copy that can have caused it: the round trip may
    /// be longer than known. Losses alone do not show that.
    is_slow: bool,
}

impl Backoff {
    /// The doublings of the next first timer.
    pub(super) fn exponent(self) -> u8 {
        self.doublings
    }

    /// Returns whether the first timer may be longer than RFC 7252's.
    pub(super) fn is_slow(self) -> bool {
        self.is_slow
    }

    /// Keeps the back-off of an exchange whose answer gives no sample.
    pub(super) fn keep(&mut self, retransmissions: u8) {
        self.doublings = self.doublings.saturating_add(retransmissions).min(KEPT_MAX);
    }

    /// Notes an answer that came later than an RTO after the copy that can have caused it.
    pub(super) fn slow(&mut self) {
        self.is_slow = true;
    }

    /// Forgets it after a sample.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Forgets a doubling for each idle RTO.
    pub(super) fn decay(&mut self, idle: Duration, rto: Option<Duration>) {
        let Some(rto) = rto else { return };
        let steps = idle.as_micros() / rto.as_micros().max(1);
        let steps = u8::try_from(steps).unwrap_or(u8::MAX);
        self.doublings = self.doublings.saturating_sub(steps);
    }
}

/// `timeout`, cut at the cap of the parameters.
pub(super) fn capped(timeout: Duration, parameters: &TransmissionParameters) -> Duration {
    parameters.rto_max.map_or(timeout, |cap| timeout.min(cap))
}

/// The first timer of RFC 7252.
pub(super) fn blind(parameters: &TransmissionParameters, random: &mut dyn Random) -> Duration {
    let low = parameters.ack_timeout;
    uniform(random, low, low.scale(parameters.ack_random_factor))
}

/// The timer of a first transmission: RFC 7252's before the first sample, else the RTO, dithered in the same
/// way; then doubled. While only losses lengthen it, it is no longer than RFC 7252's, unless the round trip is.
pub(super) fn first(
    parameters: &TransmissionParameters,
    rto: Option<Duration>,
    backoff: Backoff,
    random: &mut dyn Random,
) -> Duration {
    let low = rto.unwrap_or(parameters.ack_timeout);
    let drawn = uniform(random, low, low.scale(parameters.ack_random_factor));
    let timeout = capped(doubled(drawn, backoff.exponent()), parameters);
    if backoff.exponent() == 0 || backoff.is_slow() {
        return timeout;
    }
    timeout.min(blind(parameters, random).max(drawn))
}

/// The timer of a window's message: the RTO, doubled while nothing is received. Messages of a window
/// leave one after the other, so there is nothing to dither.
pub(super) fn in_window(
    rto: Duration,
    doublings: u8,
    parameters: &TransmissionParameters,
) -> Duration {
    capped(doubled(rto, doublings), parameters)
}

/// A timeout after these doublings, within limits.
pub(super) fn doubled(rto: Duration, doublings: u8) -> Duration {
    rto.times(1 << doublings.min(12)).min(rto.max(BACKOFF_MAX))
}
