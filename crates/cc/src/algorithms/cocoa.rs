//! CoCoA: round-trip estimators per peer, variable backoff, ageing.
//!
//! Two estimators in RFC 6298 form are fed by answers without retransmission (strong) and after
//! a few (weak, timed from the ORIGINAL copy); each mixes its estimate into one overall RTO. The
//! first timer of an exchange is the overall RTO, dithered; later ones grow by a factor that
//! depends on how large the RTO is; an RTO that is far from 2 s and long unused drifts back.
//!
//! The profiles are the columns of `spec/algorithms.md` 3.1; 3.2 to 3.4 have the rules, the
//! defects of the draft's pseudocode and how they are read here. Sources:
//! draft-ietf-core-cocoa-03; Betzler et al. 2015 (CoCoA+); Pesola 2020.

use crate::controller::{Controller, Gauge, Timer};
use crate::evidence::{Answer, Answered, Expired, Memo, Start};
use crate::random::{Random, uniform};
use crate::ratio::Ratio;
use crate::registry::{Family, Profile, Suggested};
use crate::time::{Duration, Instant};

readings! {
    /// Which value the backoff factor is chosen by (`spec/algorithms.md` 3.4, reading 4).
    pub enum FactorOn {
        /// The timer that is being backed off, anew at each retransmission.
        Current = "current",
        /// The first timer after dithering, for the whole exchange.
        InitDithered = "init-dithered",
        /// The first timer before dithering, for the whole exchange.
        InitUndithered = "init-undithered",
    }
}

readings! {
    /// Which of mean and deviation is updated first.
    pub enum Order {
        /// The deviation, from the old mean (RFC 6298 2.3).
        VarianceFirst = "variance-first",
        /// The mean; the deviation is then taken from the new one.
        MeanFirst = "mean-first",
    }
}

readings! {
    /// What an unused RTO below 1 s becomes.
    pub enum SmallAgeing {
        /// It stays.
        Off = "off",
        /// Twice itself, as often as its time runs out.
        Double = "double",
        /// 1 s.
        ToOneSecond = "to-1s",
    }
}

readings! {
    /// What an unused large RTO becomes.
    pub enum LargeAgeing {
        /// It stays.
        Off = "off",
        /// 1 s + RTO/2 at the next message, once.
        Once = "once",
        /// 1 s + RTO/2, as often as its time runs out.
        Repeated = "repeated",
    }
}

constants! {
    /// What the versions of CoCoA differ in (`spec/algorithms.md` 3.1).
    pub struct CocoaConstants {
        /// gain of the smoothed round-trip time
        alpha: Ratio,
        /// gain of its deviation
        beta: Ratio,
        /// which of the two is updated first
        order: Order,
        /// deviations added to the strong estimate
        k_strong: u8,
        /// deviations added to the weak estimate
        k_weak: u8,
        /// weight of a strong estimate in the overall RTO
        weight_strong: Ratio,
        /// weight of a weak estimate in the overall RTO
        weight_weak: Ratio,
        /// retransmissions up to which an answer still counts as a weak sample
        weak_limit: u8,
        /// smallest value of the deviation term
        granularity: Duration,
        /// backoff factor below 1 s
        backoff_small: Ratio,
        /// backoff factor from 1 s to 3 s
        backoff_middle: Ratio,
        /// backoff factor above 3 s
        backoff_large: Ratio,
        /// which value the backoff factor is chosen by
        vbf_on: FactorOn,
        /// what an RTO below 1 s becomes when unused
        ageing_small: SmallAgeing,
        /// unused for this many times itself, a small RTO ages
        ageing_small_idle: u8,
        /// what a large RTO becomes when unused
        ageing_large: LargeAgeing,
        /// RTO above which it is large
        ageing_large_above: Duration,
        /// unused for this many times itself, a large RTO ages (0: for ageing_large_after)
        ageing_large_idle: u8,
        /// unused for this long, a large RTO ages (if ageing_large_idle is 0)
        ageing_large_after: Duration,
        /// longest first timer as a multiple of the RTO
        dither: Ratio,
        /// whether the blind RTO is multiplied by the number of parallel exchanges
        blind_parallel: bool,
    }
}

/// draft-ietf-core-cocoa-03, where it is clear; `spec/algorithms.md` 3.4 where it is not.
const DRAFT_03: CocoaConstants = CocoaConstants {
    alpha: Ratio::new(1, 8),
    beta: Ratio::new(1, 4),
    order: Order::VarianceFirst,
    k_strong: 4,
    k_weak: 1,
    weight_strong: Ratio::new(1, 2),
    weight_weak: Ratio::new(1, 4),
    weak_limit: 2,
    granularity: Duration::ZERO,
    backoff_small: Ratio::new(3, 1),
    backoff_middle: Ratio::new(2, 1),
    backoff_large: Ratio::new(3, 2),
    vbf_on: FactorOn::Current,
    ageing_small: SmallAgeing::Double,
    ageing_small_idle: 16,
    ageing_large: LargeAgeing::Repeated,
    ageing_large_above: Duration::from_secs(3),
    ageing_large_idle: 4,
    ageing_large_after: Duration::from_secs(30),
    dither: Ratio::new(3, 2),
    blind_parallel: true,
};

/// Betzler et al. 2015, section 3.
const PLUS: CocoaConstants = CocoaConstants {
    alpha: Ratio::new(1, 4),
    beta: Ratio::new(1, 8),
    weak_limit: 1,
    backoff_large: Ratio::new(13, 10),
    vbf_on: FactorOn::InitDithered,
    ageing_small: SmallAgeing::ToOneSecond,
    ageing_large: LargeAgeing::Once,
    ageing_large_above: Duration::from_secs(2),
    ageing_large_idle: 0,
    blind_parallel: false,
    ..DRAFT_03
};

/// CoCoA's draft bounds backed-off timers at 32 s.
const DRAFT_CAP: Option<Duration> = Some(Duration::from_secs(32));

/// A smoothed round-trip time and its deviation, in microseconds (RFC 6298 2.2, 2.3).
#[derive(Clone, Copy, Debug, Default)]
struct Estimator {
    srtt: u32,
    rttvar: u32,
}

impl Estimator {
    /// Takes a sample and returns the estimate `SRTT + max(G, K x RTTVAR)`.
    fn update(&mut self, sample: u32, first: bool, k: u8, constants: &CocoaConstants) -> u32 {
        if first {
            (self.srtt, self.rttvar) = (sample, sample / 2);
        } else {
            let mean = constants.alpha.blend(self.srtt, sample);
            let around = match constants.order {
                Order::VarianceFirst => self.srtt,
                Order::MeanFirst => mean,
            };
            self.rttvar = constants.beta.blend(self.rttvar, around.abs_diff(sample));
            self.srtt = mean;
        }
        let margin = self.rttvar.saturating_mul(u32::from(k));
        self.srtt
            .saturating_add(margin.max(constants.granularity.as_micros_u32()))
    }
}

/// CoCoA's state for one peer.
#[derive(Debug)]
pub struct Cocoa {
    constants: &'static CocoaConstants,
    last_update: Instant,
    strong: Estimator,
    weak: Estimator,
    /// Overall RTO in microseconds; 0 until something was measured.
    rto: u32,
    seen_strong: bool,
    seen_weak: bool,
}

/// Size class of an RTO: below 1 s, from 1 s to 3 s, above 3 s, as kept in a [`Memo`].
const SMALL: u64 = 1;
const MIDDLE: u64 = 2;
const LARGE: u64 = 3;

fn class(rto: Duration) -> u64 {
    if rto < Duration::from_secs(1) {
        SMALL
    } else if rto > Duration::from_secs(3) {
        LARGE
    } else {
        MIDDLE
    }
}

impl Cocoa {
    fn measured(&self) -> bool {
        self.rto > 0
    }

    fn overall(&self) -> Duration {
        Duration::from_micros(u64::from(self.rto))
    }

    /// What the overall RTO is at `now` after ageing, and since when it is that.
    ///
    /// Steps are taken at the moments their idle times ran out, so that ageing at the next use
    /// gives what a running timer would have given (draft-03 allows it). Each step at least
    /// doubles a small RTO or nearly halves a large one, so the loop is short.
    fn aged(&self, now: Instant) -> (Duration, Instant) {
        let constants = self.constants;
        let (mut rto, mut since) = (self.overall(), self.last_update);
        loop {
            let idle = now.since(since);
            if rto < Duration::from_secs(1) {
                let after = rto.times(u64::from(constants.ageing_small_idle));
                if constants.ageing_small == SmallAgeing::Off || idle <= after {
                    return (rto, since);
                }
                if constants.ageing_small == SmallAgeing::ToOneSecond {
                    return (Duration::from_secs(1), now);
                }
                (rto, since) = (rto.times(2), since + after);
            } else if rto > constants.ageing_large_above {
                let after = match constants.ageing_large_idle {
                    0 => constants.ageing_large_after,
                    times => rto.times(u64::from(times)),
                };
                if constants.ageing_large == LargeAgeing::Off || idle <= after {
                    return (rto, since);
                }
                let shrunk = Duration::from_secs(1) + rto.half();
                if constants.ageing_large == LargeAgeing::Once || shrunk >= rto {
                    return (shrunk.min(rto), now);
                }
                (rto, since) = (shrunk, since + after);
            } else {
                return (rto, since);
            }
        }
    }
}

impl Family for Cocoa {
    type Constants = CocoaConstants;
    const PROFILES: &'static [Profile<CocoaConstants>] = &[
        Profile {
            name: "cocoa-plus",
            about: "CoCoA+: weak samples count less, backoff 3/2/1.3 by the first timer, ageing \
                    after 30 s",
            source: "Betzler et al. 2015, section 3; spec/algorithms.md 3.3",
            project_choice: None,
            constants: PLUS,
            suggested: Suggested::NONE,
        },
        Profile {
            name: "cocoa-03",
            about: "CoCoA as in the last draft: RFC 6298 gains, backoff 3/2/1.5, repeated ageing",
            source: "draft-ietf-core-cocoa-03; spec/algorithms.md 3.4",
            project_choice: None,
            constants: DRAFT_03,
            suggested: Suggested {
                max_retransmit: None,
                rto_max: DRAFT_CAP,
            },
        },
        Profile {
            name: "cocoa-001",
            about: "cocoa-03 as the thesis ran it: MAX_RETRANSMIT 20",
            source: "Pesola 2020, sections 3.3 and 4.2; spec/algorithms.md 3.1",
            project_choice: None,
            constants: DRAFT_03,
            suggested: Suggested {
                max_retransmit: Some(20),
                rto_max: DRAFT_CAP,
            },
        },
    ];

    fn new(constants: &'static CocoaConstants) -> Self {
        Self {
            constants,
            last_update: Instant::ZERO,
            strong: Estimator::default(),
            weak: Estimator::default(),
            rto: 0,
            seen_strong: false,
            seen_weak: false,
        }
    }
}

impl Controller for Cocoa {
    fn first_timeout(&mut self, start: &Start<'_>, random: &mut dyn Random) -> Timer {
        let rto = if !self.measured() {
            // Blind: each further parallel exchange starts that much more cautiously.
            let parallel = if self.constants.blind_parallel {
                u64::from(start.running) + 1
            } else {
                1
            };
            start.parameters.ack_timeout.times(parallel)
        } else if start.running > 0 {
            self.overall() // not idle
        } else {
            let (rto, since) = self.aged(start.now);
            (self.rto, self.last_update) = (rto.as_micros_u32(), since);
            rto
        };
        let timeout = uniform(random, rto, rto.scale(self.constants.dither));
        let memo = Memo(match self.constants.vbf_on {
            FactorOn::Current => 0,
            FactorOn::InitDithered => class(timeout),
            FactorOn::InitUndithered => class(rto),
        });
        Timer { timeout, memo }
    }

    fn next_timeout(&mut self, expired: &Expired<'_>, _: &mut dyn Random) -> Timer {
        let class = match self.constants.vbf_on {
            FactorOn::Current => class(expired.timeout),
            _ => expired.memo.0,
        };
        let factor = match class {
            SMALL => self.constants.backoff_small,
            LARGE => self.constants.backoff_large,
            _ => self.constants.backoff_middle,
        };
        Timer {
            timeout: expired.timeout.scale(factor),
            memo: expired.memo,
        }
    }

    fn on_answered(&mut self, answered: &Answered<'_>) {
        // A separate response without an ACK times the application, and only CONs are sampled.
        if !answered.confirmable || answered.answer == Answer::Separate {
            return;
        }
        let constants = self.constants;
        let sample = answered.since_original().as_micros_u32();
        let (estimate, weight) = match answered.retransmissions() {
            0 => {
                let first = !core::mem::replace(&mut self.seen_strong, true);
                let k = constants.k_strong;
                (
                    self.strong.update(sample, first, k, constants),
                    constants.weight_strong,
                )
            }
            n if n <= constants.weak_limit => {
                let first = !core::mem::replace(&mut self.seen_weak, true);
                let k = constants.k_weak;
                (
                    self.weak.update(sample, first, k, constants),
                    constants.weight_weak,
                )
            }
            _ => return,
        };
        let overall = match self.rto {
            0 => answered.parameters.ack_timeout.as_micros_u32(),
            rto => rto,
        };
        self.rto = weight.blend(overall, estimate).max(1);
        self.last_update = answered.now;
    }

    fn gauges(&self, now: Instant, visit: &mut dyn FnMut(&'static str, Gauge)) {
        let micros = |n| Gauge::Time(Duration::from_micros(u64::from(n)));
        if !self.measured() {
            return visit("state", Gauge::State("blind"));
        }
        visit("rto", Gauge::Time(self.aged(now).0));
        if self.seen_strong {
            visit("srtt_strong", micros(self.strong.srtt));
            visit("rttvar_strong", micros(self.strong.rttvar));
        }
        if self.seen_weak {
            visit("srtt_weak", micros(self.weak.srtt));
            visit("rttvar_weak", micros(self.weak.rttvar));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_fits_a_class_1_device() {
        assert!(size_of::<Cocoa>() <= 64, "{} bytes", size_of::<Cocoa>());
    }

    #[test]
    fn a_zero_round_trip_does_not_stop_ageing() {
        let constants = &Cocoa::PROFILES[1].constants;
        let mut cocoa = Cocoa::new(constants);
        cocoa.rto = 1;
        let (rto, _) = cocoa.aged(Instant::ZERO + Duration::from_secs(3600));
        assert!(rto >= Duration::from_secs(1));
    }
}
