//! Timers of exchanges, and the back-off that carries over from one exchange to the next.

use super::CarobConstants;
use crate::parameters::TransmissionParameters;
use crate::random::{Random, uniform};
use crate::time::Duration;

/// The greatest number of doublings kept after ambiguous answers.
const KEPT_MAX: u8 = 6;

/// The longest first timer, and the longest interval of notifications, that doublings lead to.
pub(super) const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// Doublings of the first timer of later exchanges.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    /// Copies lost beyond those that random loss explains; one is dropped with each exchange
    /// without loss.
    carry: u8,
    /// Doublings of the last exchange, if its answer was ambiguous (Karn).
    kept: u8,
}

impl Backoff {
    /// The doublings of the next first timer.
    pub(super) fn exponent(self) -> u8 {
        self.carry.max(self.kept)
    }

    /// Keeps the back-off of an exchange whose answer gives no sample.
    pub(super) fn keep(&mut self, retransmissions: u8) {
        self.kept = self.kept.saturating_add(retransmissions).min(KEPT_MAX);
    }

    /// Settles an exchange with a sample, of which `lost` copies were lost.
    pub(super) fn settle(&mut self, lost: u8, queued: bool, constants: &CarobConstants) {
        self.kept = 0;
        let random = if queued { 1 } else { 3 };
        if lost > random {
            self.carry = (self.carry.saturating_add(lost - random)).min(constants.carry_max);
        } else if lost == 0 {
            self.carry = if queued { self.carry.saturating_sub(1) } else { 0 };
        }
    }
}

/// `timeout`, cut at the cap of the parameters.
pub(super) fn capped(timeout: Duration, parameters: &TransmissionParameters) -> Duration {
    parameters.rto_max.map_or(timeout, |cap| timeout.min(cap))
}

/// The timer of a first transmission: RFC 7252's before the first sample, else the RTO, dithered;
/// then doubled.
pub(super) fn first(
    constants: &CarobConstants,
    parameters: &TransmissionParameters,
    rto: Option<Duration>,
    doublings: u8,
    random: &mut dyn Random,
) -> Duration {
    let (low, high) = match rto {
        None => {
            let low = parameters.ack_timeout;
            (low, low.scale(parameters.ack_random_factor))
        }
        Some(rto) => (rto, rto + rto.scale(constants.dither)),
    };
    let drawn = uniform(random, low, high);
    let doubled = drawn.times(1 << doublings.min(12)).min(drawn.max(BACKOFF_MAX));
    capped(doubled, parameters)
}

/// The timer of a single exchange after one that expired. Losses in a row often come from a burst of
/// noise or a change of routes, which a short timer does not outlast.
pub(super) fn backed_off(timeout: Duration, constants: &CarobConstants) -> Duration {
    let short = timeout.scale(constants.short_backoff).min(constants.short_timer);
    timeout.scale(constants.backoff).max(short)
}

/// The timer after a retransmission. After the last one a peer that only pauses has time to answer.
pub(super) fn until_given_up(
    timeout: Duration,
    is_last: bool,
    parameters: &TransmissionParameters,
) -> Duration {
    if is_last {
        timeout.max(parameters.ack_timeout)
    } else {
        timeout
    }
}

/// The timer of a window's message: the RTO, doubled while nothing is received. Messages of a window
/// leave one after the other, so there is nothing to dither.
pub(super) fn in_window(
    rto: Duration,
    doublings: u8,
    parameters: &TransmissionParameters,
) -> Duration {
    let doubled = rto.times(1 << doublings.min(12)).min(rto.max(BACKOFF_MAX));
    capped(doubled, parameters)
}
