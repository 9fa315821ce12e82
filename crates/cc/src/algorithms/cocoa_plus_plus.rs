//! CoCoA++ as far as its abstract goes: random backoff with a probability from delay gradients.
//!
//! The abstract replaces CoCoA's round trips by CAIA delay gradients and its variable backoff by a
//! probabilistic factor; second-hand, with low confidence, that is 1.42 when backing off and 0.7
//! otherwise. The probability `1 - exp(-gradient / G)`, G = 3 ms, is from Linux's
//! `tcp_cdg.c`. CoAP with NSTART 1 gives one sample per exchange, so a window of the gradient is
//! one exchange, and the moving sum over 8 windows is an exponential mean with gain 1/8, which
//! needs no history. Timers may shrink within an exchange, but never below the smoothed round
//! trip: a shorter timer only adds retransmissions. It reproduces no published result.
//! `docs/algorithms.md#cocoa-plus-plus`.

use super::cocoa::{CocoaConstants, DRAFT_CAP, Estimator, Overall, STRONG_ONLY};
use crate::controller::{Controller, Gauge, Timer};
use crate::evidence::{Answer, Answered, Expired, PacketState, SendCandidate, Sent, Start};
use crate::random::Random;
use crate::ratio::Ratio;
use crate::registry::{Family, Profile};
use crate::time::{Duration, Instant};

constants! {
    /// Constants of the delay gradient, and of CoCoA.
    pub struct CocoaPlusPlusConstants {
        /// factor of a timer that is backed off
        backoff_up: Ratio,
        /// factor of a timer that is not
        backoff_down: Ratio,
        /// gradient at which backing off has the probability 1 - 1/e
        gradient_scale: Duration,
        /// gain of the smoothed gradient, as 1/n
        gradient_window: u8,
        ..cocoa: CocoaConstants
    }
}

/// The state for one peer.
#[derive(Debug)]
pub struct CocoaPlusPlus {
    constants: &'static CocoaPlusPlusConstants,
    overall: Overall,
    estimator: Estimator,
    /// The last sample, in ticks; 0 before the first.
    last: u32,
    /// The smoothed gradient in 1/256 of a tick; `UNKNOWN` before the second sample.
    gradient: i32,
}

/// The gradient before the second sample.
const UNKNOWN: i32 = i32::MIN;

/// Parts of a tick in which the gradient is kept.
const FRACTION: i32 = 256;

/// `exp(-x)` as a multiple of 2^-32, for `x` as a multiple of 2^-16; off by less than 2^-13.
///
/// `exp(-x) = 2^-n x 2^-f` with `x / ln 2 = n + f`; `2^-f` by a cubic through both ends.
fn exp_of_minus(x: u32) -> u32 {
    const PER_LN_2: u64 = 94_548; // 2^16 / ln 2
    let y = (u64::from(x) * PER_LN_2) >> 16;
    let (n, f) = (y >> 16, y & 0xffff);
    if n >= 32 {
        return 0;
    }
    // 2^-f = 1 - 0.69160 f + 0.23116 f^2 - 0.03956 f^3 within 0.00009, in 2^-16.
    let f2 = (f * f) >> 16;
    let f3 = (f2 * f) >> 16;
    let power = 65_536 + ((15_149 * f2) >> 16) - ((45_325 * f) >> 16) - ((2_593 * f3) >> 16);
    u32::try_from((power << 16) >> n).unwrap_or(u32::MAX)
}

impl CocoaPlusPlus {
    /// The probability that a timer is backed off, as a multiple of 2^-32.
    fn probability(&self) -> u32 {
        // One sample has no gradient; until the second one every timer is backed off.
        if self.gradient == UNKNOWN {
            return u32::MAX;
        }
        // A falling round trip is no sign of congestion (`tcp_cdg.c`).
        let Ok(gradient) = u64::try_from(self.gradient) else {
            return 0;
        };
        let tick = self.constants.cocoa.tick.as_micros();
        let scale = self.constants.gradient_scale.as_micros().max(1);
        // In 2^-16 of the scale; FRACTION is 2^8.
        let x = ((gradient * tick) << 8) / scale;
        u32::MAX - exp_of_minus(u32::try_from(x).unwrap_or(u32::MAX))
    }

    fn follow(&mut self, sample: u32) {
        if self.last > 0 {
            let (now, before) = (i64::from(sample), i64::from(self.last));
            let smoothed = match self.gradient {
                UNKNOWN => 0,
                gradient => i64::from(gradient),
            };
            let step = (now - before) * i64::from(FRACTION) - smoothed;
            let next = smoothed + step / i64::from(self.constants.gradient_window.max(1));
            // -i32::MAX, not i32::MIN, which is UNKNOWN.
            let limit = i64::from(i32::MAX);
            self.gradient = i32::try_from(next.clamp(-limit, limit)).unwrap_or_default();
        }
        self.last = sample;
    }
}

impl Family for CocoaPlusPlus {
    type Constants = CocoaPlusPlusConstants;
    const PROFILES: &'static [Profile<CocoaPlusPlusConstants>] = &[Profile {
        name: "cocoa-plus-plus",
        about: "cocoa-s that backs off with a probability by the gradient of the RTT",
        source: "the abstract of CoCoA++, and Linux, tcp_cdg.c; \
                 docs/algorithms.md#cocoa-plus-plus",
        project_choice: Some(
            "only the idea is in the abstract: the RTO is cocoa-s's, a window of the gradient is \
             an exchange, its smoothing an exponential mean over 8, the factors 1.42 and 0.7 are \
             remembered, and no timer is shorter than the smoothed RTT, because a shorter one \
             could only add retransmissions",
        ),
        constants: CocoaPlusPlusConstants {
            backoff_up: Ratio::new(142, 100),
            backoff_down: Ratio::new(7, 10),
            gradient_scale: Duration::from_millis(3),
            gradient_window: 8,
            cocoa: STRONG_ONLY,
        },
        suggested: DRAFT_CAP,
    }];
    const SHRINKS: bool = true;

    fn new(constants: &'static CocoaPlusPlusConstants) -> Self {
        Self {
            constants,
            overall: Overall::new(),
            estimator: Estimator::default(),
            last: 0,
            gradient: UNKNOWN,
        }
    }
}

impl Controller for CocoaPlusPlus {
    fn first_timeout(&mut self, start: &Start<'_>, random: &mut dyn Random) -> Timer {
        let cocoa = &self.constants.cocoa;
        let rto = self.overall.first_rto(start, cocoa);
        Overall::dithered(rto, random, cocoa).into()
    }

    fn next_timeout(&mut self, expired: &Expired<'_>, random: &mut dyn Random) -> Timer {
        let constants = self.constants;
        let cocoa = &constants.cocoa;
        if random.next_u32() < self.probability() {
            return cocoa
                .backed_off(expired.timeout, constants.backoff_up)
                .into();
        }
        // A timer below the SRTT would expire before the response to the retransmission arrives.
        let round_trip = cocoa.span(self.estimator.srtt);
        cocoa
            .backed_off(expired.timeout, constants.backoff_down)
            .max(round_trip)
            .into()
    }

    fn on_sent(&mut self, sent: &Sent<'_>, random: &mut dyn Random) -> PacketState {
        self.overall.on_sent(sent, random, &self.constants.cocoa);
        PacketState::default()
    }

    fn on_answered(&mut self, answered: &Answered<'_>) {
        let cocoa = &self.constants.cocoa;
        if !answered.confirmable
            || answered.answer == Answer::Separate
            || answered.retransmissions() > 0
        {
            return;
        }
        let sample = cocoa.ticks(answered.since_original()).max(1);
        self.follow(sample);
        let estimate = self.estimator.take(sample, cocoa);
        let mixed = (estimate, cocoa.weight_strong);
        self.overall
            .mix(answered.now, mixed, answered.parameters, cocoa);
    }

    fn earliest_departure_time(&self, candidate: &SendCandidate<'_>) -> Instant {
        self.overall.earliest_departure_time(candidate)
    }

    fn must_confirm(&self, candidate: &SendCandidate<'_>) -> bool {
        self.overall.must_confirm(candidate, &self.constants.cocoa)
    }

    fn gauges(&self, now: Instant, visit: &mut dyn FnMut(&'static str, Gauge)) {
        let cocoa = &self.constants.cocoa;
        if let Some(rto) = self.overall.aged(now, cocoa) {
            visit("rto", Gauge::Time(rto));
            visit("srtt", Gauge::Time(cocoa.span(self.estimator.srtt)));
            visit("rttvar", Gauge::Time(cocoa.span(self.estimator.rttvar)));
        }
        let percent = (u64::from(self.probability()) * 100) >> 32;
        visit("backoff_percent", Gauge::Count(percent));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_close() {
        // exp(-x) for x = 0, 1/2, 1, 2, 5, 20, in 2^-32.
        let exact = [
            (0, 4_294_967_295_u32),
            (32_768, 2_605_029_347),
            (65_536, 1_580_030_169),
            (131_072, 581_260_615),
            (327_680, 28_939_263),
            (1_310_720, 9),
        ];
        for (x, expected) in exact {
            let got = exp_of_minus(x);
            assert!(got.abs_diff(expected) < 1 << 19, "exp(-{x}/65536): {got}");
        }
    }
}
