//! Common part of the CoCoA family: the overall RTO of a peer, initial timers, ageing, and the pace
//! of notifications in NON messages.

use super::ageing::aged;
use super::{Blind, CocoaConstants, NonPace, at_most};
use crate::evidence::{Kind, SendCandidate, Sent, Start};
use crate::parameters::TransmissionParameters;
use crate::random::{Random, uniform};
use crate::ratio::Ratio;
use crate::time::{Duration, Instant};

/// The longest blind RTO of `Blind::Doubled`.
const BLIND_MAX: Duration = Duration::from_secs(32);

/// The overall RTO of one peer and its pace.
#[derive(Debug)]
pub(in crate::algorithms) struct Overall {
    /// Time of the last update of the RTO.
    pub(in crate::algorithms) last_update: Instant,
    /// The next notification in a NON message leaves no earlier.
    non_until: Instant,
    /// In ticks; 0 before the first measurement.
    ticks: u32,
    /// NON notifications since the last CON.
    non_successive: u8,
}

impl Overall {
    pub(in crate::algorithms) const fn new() -> Self {
        Self {
            last_update: Instant::ZERO,
            non_until: Instant::ZERO,
            ticks: 0,
            non_successive: 0,
        }
    }

    /// Returns whether the RTO is based on measurements.
    pub(in crate::algorithms) fn measured(&self) -> bool {
        self.ticks > 0
    }

    fn initial(parameters: &TransmissionParameters, constants: &CocoaConstants) -> Duration {
        if constants.initial_rto.is_zero() {
            parameters.ack_timeout
        } else {
            constants.initial_rto
        }
    }

    /// The stored RTO, or the blind one.
    pub(in crate::algorithms) fn rto(
        &self,
        parameters: &TransmissionParameters,
        constants: &CocoaConstants,
    ) -> Duration {
        if self.measured() {
            constants.span(self.ticks)
        } else {
            Self::initial(parameters, constants)
        }
    }

    /// The RTO at `now`, aged; `None` before the first measurement.
    pub(in crate::algorithms) fn aged(
        &self,
        now: Instant,
        constants: &CocoaConstants,
    ) -> Option<Duration> {
        let rto = constants.span(self.ticks);
        self.measured()
            .then(|| aged(constants, rto, self.last_update, now).0)
    }

    /// Sets the RTO at `now`.
    pub(in crate::algorithms) fn set(
        &mut self,
        now: Instant,
        rto: Duration,
        constants: &CocoaConstants,
    ) {
        let rto = at_most(rto, constants.overall_max);
        // At least one tick, because 0 means that nothing was measured.
        self.ticks = constants.ticks(rto).max(1);
        self.last_update = now;
    }

    /// Mixes an estimate, in ticks, into the RTO.
    pub(in crate::algorithms) fn mix(
        &mut self,
        now: Instant,
        (estimate, weight): (u32, Ratio),
        parameters: &TransmissionParameters,
        constants: &CocoaConstants,
    ) {
        let overall = constants.ticks(self.rto(parameters, constants));
        let rto = weight.blend(overall, estimate);
        self.set(now, constants.span(rto), constants);
    }

    /// The initial RTO of an exchange before dithering; it ages if no other exchange is
    /// outstanding.
    pub(in crate::algorithms) fn first_rto(
        &mut self,
        start: &Start<'_>,
        constants: &CocoaConstants,
    ) -> Duration {
        let mut rto = self.rto(start.parameters, constants);
        // An idle RTO ages, not one whose exchange is being retransmitted (C. Bormann, IETF 101).
        if self.measured() && (start.running == 0 || constants.ageing_busy) {
            let (aged, since) = aged(constants, rto, self.last_update, start.now);
            (self.ticks, self.last_update) = (constants.ticks(aged).max(1), since);
            // Californium computes the first timer before it ages the RTO, so ageing shows one message late.
            if !constants.ageing_late {
                rto = aged;
            }
        }
        let running = u64::from(start.running);
        match constants.blind {
            // Californium's multiplier never ends, so it comes before the check for measurements.
            Blind::Registered => at_most(rto.times(running.max(1)), constants.overall_max),
            // "Blind RTO Estimate" of draft-03 ends with the first sample.
            _ if self.measured() => rto,
            Blind::Single => rto,
            Blind::Parallel => rto.times(running + 1),
            Blind::Doubled => {
                // 2^5 x 2 s exceeds BLIND_MAX; the limit of 32 only keeps the shift within 64 bits.
                let doubled = rto.times(1 << running.min(32));
                doubled.min(BLIND_MAX.max(rto))
            }
        }
    }

    /// A retained timer, in ticks, for the next exchange: it ages like a large RTO, from the RTO's
    /// last update.
    pub(super) fn aged_carry(
        &self,
        carry: u32,
        start: &Start<'_>,
        constants: &CocoaConstants,
    ) -> u32 {
        let carried = constants.span(carry);
        if start.running > 0 || carried <= constants.ageing_large_above {
            return carry;
        }
        let (aged, _) = aged(constants, carried, self.last_update, start.now);
        constants.ticks(aged).max(1)
    }

    /// The first timer: an RTO, dithered, and at least the minimum.
    pub(in crate::algorithms) fn dithered(
        rto: Duration,
        random: &mut dyn Random,
        constants: &CocoaConstants,
    ) -> Duration {
        let timeout = uniform(random, rto, rto.scale(constants.dither));
        constants.whole(timeout).max(constants.rto_min)
    }

    /// Records a message sent: a notification delays the next
    /// (`docs/algorithms.md#cocoa-non-messages`).
    pub(in crate::algorithms) fn on_sent(
        &mut self,
        sent: &Sent<'_>,
        random: &mut dyn Random,
        constants: &CocoaConstants,
    ) {
        if sent.confirmable {
            self.non_successive = 0;
        } else if sent.kind == Kind::Notification {
            self.non_successive = self.non_successive.saturating_add(1);
        }
        if sent.kind != Kind::Notification || constants.non_pace == NonPace::Off {
            return;
        }
        let unaged = || self.rto(sent.parameters, constants);
        // Californium takes the RTO as it was before ageing here, too.
        let rto = if constants.ageing_late {
            unaged()
        } else {
            self.aged(sent.now, constants).unwrap_or_else(unaged)
        };
        let wait = match constants.non_pace {
            NonPace::Dithered => Self::dithered(rto, random, constants),
            NonPace::Rto | NonPace::Off => rto,
        };
        // As slow as PROBING_RATE is always allowed (draft-ietf-core-cocoa-03, Non-Confirmables).
        // At least 1 B/s, RFC 7252's default, so that the division is defined for a rate of 0.
        let rate = u64::from(sent.parameters.probing_rate.max(1));
        let slowest = Duration::from_micros(u64::from(sent.bytes) * 1_000_000 / rate);
        self.non_until = sent.now + wait.min(slowest);
    }

    /// The earliest departure time of a message.
    pub(in crate::algorithms) fn earliest_departure_time(
        &self,
        candidate: &SendCandidate<'_>,
    ) -> Instant {
        if candidate.kind == Kind::Notification && !candidate.confirmable {
            self.non_until.max(candidate.now)
        } else {
            candidate.now
        }
    }

    /// Returns whether a NON must be sent as CON: 2 of any 16 consecutive messages (draft-03),
    /// which one after 7 NONs ensures.
    pub(in crate::algorithms) fn must_confirm(
        &self,
        candidate: &SendCandidate<'_>,
        constants: &CocoaConstants,
    ) -> bool {
        candidate.kind == Kind::Notification
            && constants.non_successive > 0
            && self.non_successive >= constants.non_successive
    }
}
