//! The controller: samples from answers, timers and backoff, retained timers.

use super::estimator::Estimator;
use super::{CocoaConstants, FactorOn, Fb2Base, FirstSample, Overall, Retain};
use core::mem;

use crate::controller::{Controller, CopyTagging, Gauge, Timer};
use crate::evidence::{
    Abandoned, Answer, Answered, ExchangeState, Expired, Matched, PacketState, Reason,
    SendCandidate, Sent, Start,
};
use crate::parameters::TransmissionParameters;
use crate::random::Random;
use crate::ratio::Ratio;
use crate::registry::{Family, Profile};
use crate::time::{Duration, Instant};

/// CoCoA's state for one peer.
#[derive(Debug)]
pub struct Cocoa {
    constants: &'static CocoaConstants,
    overall: Overall,
    strong: Estimator,
    weak: Estimator,
    /// The initial timer of the next exchange, in ticks; 0 if none is retained (FB2).
    carry: u32,
    /// Retransmissions of answered exchanges since the strong estimator restarted (Contiki).
    accumulated: u8,
    seen_strong: bool,
    seen_weak: bool,
    /// True if the RTO is a retained timer (FB1).
    retained: bool,
}

/// A round-trip sample from an answer.
struct Sample {
    /// In ticks.
    round_trip: u32,
    strong: bool,
}

impl Cocoa {
    /// The sample that an answer gives, if any.
    fn sample(&self, answered: &Answered<'_>) -> Option<Sample> {
        let constants = self.constants;
        let retransmissions = answered.retransmissions();
        // Without tagging, a single transmission is "exact" as well; the arms below treat it as strong.
        let tagged = match answered.matched {
            Matched::Exact(_) if constants.counting != CopyTagging::Off => answered.round_trip(),
            _ => None,
        };
        let (time, strong) = match tagged {
            Some(round_trip) => (round_trip, true),
            None if retransmissions == 0 => (answered.since_original(), true),
            None => {
                // CoCoA-Strong takes a single loss for a link error, so it gives no weak sample. The weak
                // limit bounds the error of timing an exchange from its original transmission.
                let counts = retransmissions > constants.tolerated_losses
                    && retransmissions <= constants.weak_limit;
                (counts.then(|| answered.since_original())?, false)
            }
        };
        let round_trip = constants.ticks(time);
        // A coarse clock measures no round trip shorter than its tick.
        let shortest = u32::from(constants.tick > Duration::from_micros(1));
        Some(Sample {
            round_trip: round_trip.max(shortest),
            strong,
        })
    }

    /// Feeds an estimator. Returns its estimate and weight, except for the first sample.
    fn estimate(&mut self, sample: &Sample) -> Option<(u32, Ratio)> {
        let constants = self.constants;
        let round_trip = sample.round_trip;
        let of_all = !self.seen_strong && !self.seen_weak;
        // The program of Vallati 2020 (ECOAP): the first sample starts both estimators and leaves the RTO.
        if of_all && constants.first_sample == FirstSample::Both {
            self.strong = Estimator::starting_with(round_trip);
            self.weak = self.strong;
            (self.seen_strong, self.seen_weak) = (true, true);
            return None;
        }
        let (estimator, seen, k, weight) = if sample.strong {
            let strong = (&mut self.strong, &mut self.seen_strong);
            (
                strong.0,
                strong.1,
                constants.k_strong,
                constants.weight_strong,
            )
        } else {
            let weak = (&mut self.weak, &mut self.seen_weak);
            (weak.0, weak.1, constants.k_weak, constants.weight_weak)
        };
        if mem::replace(seen, true) {
            estimator.update(round_trip, constants);
        } else {
            *estimator = Estimator::starting_with(round_trip);
        }
        Some((estimator.estimate(round_trip, k, constants), weight))
    }

    /// Counts retransmissions, and resets the strong estimator after too many.
    fn accumulate(&mut self, retransmissions: u8) {
        // Contiki only; a comment in its source calls this rule an addition to the draft.
        let limit = self.constants.strong_reset_after;
        if limit == 0 {
            return;
        }
        self.accumulated = self.accumulated.saturating_add(retransmissions);
        if self.accumulated > limit {
            (self.accumulated, self.seen_strong) = (0, false);
        }
    }

    /// The timer that Full Backoff 2 retains: `timeout` ran when the answer came, `before` was the
    /// RTO then.
    fn longer(
        &self,
        timeout: Duration,
        before: Duration,
        backoffs: u8,
        parameters: &TransmissionParameters,
    ) -> Duration {
        let constants = self.constants;
        let rto = self.overall.rto(parameters, constants);
        match constants.fb2_base {
            _ if constants.retain_backoff == Retain::Fb1Apart => timeout,
            Fb2Base::Timer => timeout.max(rto),
            Fb2Base::Estimate => {
                let cap = parameters.rto_max.unwrap_or(Duration::MAX);
                (0..backoffs).fold(before.max(rto), |timer, _| {
                    constants
                        .backed_off(timer, constants.factor(timer))
                        .min(cap.max(timer))
                })
            }
        }
    }
}

impl Family for Cocoa {
    type Constants = CocoaConstants;
    const PROFILES: &'static [Profile<CocoaConstants>] = super::profiles::PROFILES;

    fn new(constants: &'static CocoaConstants) -> Self {
        Self {
            constants,
            overall: Overall::new(),
            strong: Estimator::default(),
            weak: Estimator::default(),
            carry: 0,
            accumulated: 0,
            seen_strong: false,
            seen_weak: false,
            retained: false,
        }
    }
}

impl Controller for Cocoa {
    fn first_timeout(&mut self, start: &Start<'_>, random: &mut dyn Random) -> Timer {
        let constants = self.constants;
        let carried = self.retained || self.carry > 0;
        if self.carry > 0 {
            self.carry = self.overall.aged_carry(self.carry, start, constants);
        }
        let estimated = self.overall.first_rto(start, constants);
        let rto = match self.carry {
            0 => estimated,
            carry => constants.span(carry),
        };
        // Pesola 2020, 5.1, does not mention dithering of a retained timer.
        let timeout = if carried && !constants.dither_retained {
            rto
        } else {
            Overall::dithered(rto, random, constants)
        };
        let timeout = match start.parameters.rto_max {
            // Draft-03 limits backed-off timers; Lee 2016 may limit first timers, too.
            Some(cap) if constants.cap_first => timeout.min(cap),
            _ => timeout,
        };
        let fixed = match constants.vbf_on {
            FactorOn::Current => None,
            FactorOn::InitDithered => Some(timeout),
            FactorOn::InitUndithered => Some(rto),
        };
        // The value that selects the factor, in microseconds; 0 for the current timer.
        let state = ExchangeState(fixed.map_or(0, Duration::as_micros));
        Timer { timeout, state }
    }

    fn next_timeout(&mut self, expired: &Expired<'_>, random: &mut dyn Random) -> Timer {
        let constants = self.constants;
        let state = expired.state;
        // CoCoA-Strong: no back-off for a loss that is taken for a link error.
        if expired.retransmissions < constants.tolerated_losses {
            let timeout = expired.timeout;
            return Timer { timeout, state };
        }
        let chosen_by = match state.0 {
            0 => expired.timeout,
            fixed => Duration::from_micros(fixed),
        };
        let factor = constants.factor(chosen_by);
        let mut timeout = constants.backed_off(expired.timeout, factor);
        if constants.dither_backoff {
            timeout = Overall::dithered(timeout, random, constants);
        }
        Timer { timeout, state }
    }

    fn on_sent(&mut self, sent: &Sent<'_>, random: &mut dyn Random) -> PacketState {
        self.overall.on_sent(sent, random, self.constants);
        PacketState::default()
    }

    fn on_answered(&mut self, answered: &Answered<'_>) {
        if !answered.confirmable {
            return; // only CONs feed the estimators
        }
        let constants = self.constants;
        let (now, parameters) = (answered.now, answered.parameters);
        let backed_off = answered.retransmissions() > 0;
        let before = self.overall.rto(parameters, constants);
        // Before the sample: a weak sample mixes into the retained timer (Pesola 2020, 5.1).
        if backed_off && constants.retain_backoff == Retain::Fb1 {
            self.overall.set(now, answered.timeout, constants);
        }
        // A separate response after a lost ACK measures the application's delay.
        if answered.answer != Answer::Separate
            && let Some(sample) = self.sample(answered)
        {
            match self.estimate(&sample) {
                Some(estimate) => self.overall.mix(now, estimate, parameters, constants),
                // The RTO stays, but its idle time restarts.
                None => self.overall.set(now, before, constants),
            }
        }
        self.accumulate(answered.retransmissions());
        match constants.retain_backoff {
            Retain::Off => {}
            Retain::Fb1 => self.retained = backed_off,
            Retain::Fb1Apart | Retain::Fb2 if backed_off => {
                let copies = answered.retransmissions();
                let carry = self.longer(answered.timeout, before, copies, parameters);
                self.carry = constants.ticks(carry).max(1);
                // Retention counts as an update: a retained timer ages from here, and would otherwise
                // stay with an unused peer for ever.
                self.overall.last_update = now;
            }
            Retain::Fb1Apart | Retain::Fb2 => self.carry = 0,
        }
    }

    fn on_abandoned(&mut self, abandoned: &Abandoned<'_>) {
        // A Reset, a cancellation or an ICMP error is no evidence of a loss.
        if abandoned.reason != Reason::TimedOut {
            return;
        }
        let constants = self.constants;
        let (now, copies) = (abandoned.now, abandoned.retransmissions);
        match constants.retain_backoff {
            Retain::Off => {}
            Retain::Fb1 => {
                self.overall.set(now, abandoned.timeout, constants);
                self.retained = true;
            }
            Retain::Fb1Apart | Retain::Fb2 => {
                let before = self.overall.rto(abandoned.parameters, constants);
                let carry = self.longer(abandoned.timeout, before, copies, abandoned.parameters);
                self.carry = constants.ticks(carry).max(1);
                self.overall.last_update = now;
            }
        }
    }

    fn earliest_departure_time(&self, candidate: &SendCandidate<'_>) -> Instant {
        self.overall.earliest_departure_time(candidate)
    }

    fn must_confirm(&self, candidate: &SendCandidate<'_>) -> bool {
        self.overall.must_confirm(candidate, self.constants)
    }

    fn copy_tagging(&self) -> CopyTagging {
        self.constants.counting
    }

    fn gauges(&self, now: Instant, visit: &mut dyn FnMut(&'static str, Gauge)) {
        let constants = self.constants;
        let time = |ticks| Gauge::Time(constants.span(ticks));
        let rto = self.overall.aged(now, constants);
        match (self.carry, rto) {
            (0, None) => return visit("state", Gauge::State("blind")),
            (0, Some(rto)) => visit("rto", Gauge::Time(rto)),
            (carry, rto) => {
                visit("rto", time(carry));
                if let Some(rto) = rto {
                    visit("rto_estimated", Gauge::Time(rto));
                }
            }
        }
        if self.seen_strong {
            visit("srtt_strong", time(self.strong.srtt));
            visit("rttvar_strong", time(self.strong.rttvar));
        }
        if self.seen_weak {
            visit("srtt_weak", time(self.weak.srtt));
            visit("rttvar_weak", time(self.weak.rttvar));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zero_round_trip_does_not_stop_ageing() {
        let constants = &super::super::profiles::DRAFT_03;
        let mut cocoa = Cocoa::new(constants);
        cocoa.overall.set(Instant::ZERO, Duration::ZERO, constants);
        let later = Instant::ZERO + Duration::from_secs(3600);
        let rto = cocoa.overall.aged(later, constants).expect("it was set");
        assert!(rto >= Duration::from_secs(1));
    }
}
