//! CoCoA: round-trip estimators per peer, variable backoff, ageing.
//!
//! Two estimators in RFC 6298 form are fed by answers without retransmission (strong) and after
//! a few (weak, timed from the ORIGINAL copy); each mixes its estimate into one overall RTO. The
//! first timer of an exchange is the overall RTO, dithered; later ones grow by a factor that
//! depends on how large the RTO is; an RTO that is far from 2 s and long unused drifts back.
//! Notifications in NON messages leave no faster than one per RTO, and every eighth as CON.
//!
//! The profiles (`profiles.rs`) are the versions of CoCoA in papers, drafts and implementations,
//! the variants that change only constants or a rule, CoCoA with Full Backoff and the scheme of
//! Lee et al. 2016. `docs/algorithms.md#cocoa-family` has the rules, the defects of the draft's
//! pseudocode and of two implementations, and their interpretation. Sources:
//! draft-ietf-core-cocoa-03; Betzler et al. 2015 (CoCoA+) and 2016; Pesola 2020; Vallati et al.
//! 2020; Californium; Contiki's er-coap.

mod ageing;
mod controller;
mod estimator;
mod overall;
mod profiles;

pub use self::controller::Cocoa;
pub(super) use self::estimator::Estimator;
pub(super) use self::overall::Overall;
pub(super) use self::profiles::{DRAFT_CAP, STRONG_ONLY};

use crate::controller::Counting;
use crate::ratio::Ratio;
use crate::time::Duration;

readings! {
    /// Value that selects the backoff factor (`docs/algorithms.md#cocoa-interpretations`).
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
    /// How an estimator takes a sample.
    pub enum Arithmetic {
        /// Mean and mean deviation (RFC 6298 2.2, 2.3).
        Rfc6298 = "rfc6298",
        /// Eifel retransmission timer (Ludwig and Sklower 2000; `docs/algorithms.md#cocoa-e`).
        Eifel = "eifel",
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
    /// What the first sample of all does.
    pub enum FirstSample {
        /// Initialises its estimator and mixes its estimate into the RTO.
        Own = "own",
        /// Initialises both estimators and leaves the RTO.
        Both = "both",
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
        /// (2 s + RTO)/RTO seconds: a defect of ECOAP (`docs/algorithms.md#cocoa-004-as-run`).
        Quotient = "quotient",
    }
}

readings! {
    /// Since when an RTO that has just aged counts as unused.
    pub enum AgeingSince {
        /// Since the moment the step was due.
        Due = "due",
        /// Since the message that found it due.
        Send = "send",
        /// As before: each message takes one more step while the condition holds.
        Kept = "kept",
    }
}

readings! {
    /// The RTO while nothing is measured, if exchanges run in parallel.
    pub enum Blind {
        /// ACK_TIMEOUT.
        Single = "single",
        /// ACK_TIMEOUT times the exchanges, the new one included.
        Parallel = "parallel",
        /// ACK_TIMEOUT doubled for each exchange that runs, at most 32 s.
        Doubled = "doubled",
        /// Any RTO times the exchanges that run already, and so for ever: Californium's slip.
        Registered = "registered",
    }
}

readings! {
    /// Handling of a backed-off timer when its exchange ends (`docs/algorithms.md#full-backoff`).
    pub enum Retain {
        /// It is forgotten.
        Off = "off",
        /// It becomes the RTO (Full Backoff 1).
        Fb1 = "fb1",
        /// The next exchange begins with it, and the RTO knows nothing of it (the other reading).
        Fb1Apart = "fb1-apart",
        /// The next exchange begins with it or the new RTO, whichever is longer (Full Backoff 2).
        Fb2 = "fb2",
    }
}

readings! {
    /// Value that Full Backoff 2 compares with the new RTO (`docs/algorithms.md#full-backoff`).
    pub enum Fb2Base {
        /// The timer that ran when the answer came.
        Timer = "timer",
        /// The RTO before the answer; the longer of the two is backed off anew.
        Estimate = "estimate",
    }
}

readings! {
    /// How far apart notifications in NON messages leave.
    pub enum NonPace {
        /// Back to back.
        Off = "off",
        /// One RTO.
        Rto = "rto",
        /// A time drawn like a first timer.
        Dithered = "dithered",
    }
}

constants! {
    /// Differences between the versions and variants of CoCoA
    /// (`docs/algorithms.md#cocoa-family`).
    pub struct CocoaConstants {
        /// RTO before anything is measured (0: ACK_TIMEOUT)
        initial_rto: Duration,
        /// how an estimator takes a sample
        arithmetic: Arithmetic,
        /// gain of the smoothed round-trip time
        alpha: Ratio,
        /// gain of its deviation (eifel: while the deviation is not exceeded)
        beta: Ratio,
        /// which of the two is updated first
        order: Order,
        /// what the first sample of all does
        first_sample: FirstSample,
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
        /// losses of an exchange that change nothing: no backoff, no sample
        tolerated_losses: u8,
        /// accumulated retransmissions after which the strong estimator starts anew (0: never)
        strong_reset_after: u8,
        /// smallest value of the deviation term
        granularity: Duration,
        /// by how much an estimate exceeds the sample at least (eifel)
        sample_margin: Duration,
        /// longest estimate that is mixed in (0: no limit)
        estimate_max: Duration,
        /// longest overall RTO (0: no limit)
        overall_max: Duration,
        /// shortest first timer
        rto_min: Duration,
        /// backoff factor of a small timer
        backoff_small: Ratio,
        /// backoff factor of a timer that is neither small nor large
        backoff_middle: Ratio,
        /// backoff factor of a large timer
        backoff_large: Ratio,
        /// a timer below this is small
        small_below: Duration,
        /// a timer above this is large
        large_above: Duration,
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
        /// since when an aged RTO counts as unused
        ageing_since: AgeingSince,
        /// ageing is looked for at multiples of this time (0: at any)
        ageing_poll: Duration,
        /// ageing takes effect one message late
        ageing_late: bool,
        /// whether an RTO ages while other exchanges run
        ageing_busy: bool,
        /// longest first timer as a multiple of the RTO
        dither: Ratio,
        /// whether backed-off timers are dithered again
        dither_backoff: bool,
        /// whether the cap on backed-off timers holds for the first timer, too
        cap_first: bool,
        /// the RTO of parallel exchanges while nothing is measured
        blind: Blind,
        /// what becomes of a backed-off timer
        retain_backoff: Retain,
        /// what Full Backoff 2 compares with the new RTO
        fb2_base: Fb2Base,
        /// whether a retained timer is dithered
        dither_retained: bool,
        /// how copies are told apart; a sample is then any whose copy is known
        counting: Counting,
        /// how far apart notifications in NON messages leave
        non_pace: NonPace,
        /// NON notifications in a row after which one leaves as CON (0: no limit)
        non_successive: u8,
        /// times are worked out in whole multiples of this
        tick: Duration,
    }
}

impl CocoaConstants {
    /// `duration` in ticks, rounded down.
    pub(super) fn ticks(&self, duration: Duration) -> u32 {
        let tick = self.tick.as_micros_u32().max(1);
        duration.as_micros_u32() / tick
    }

    /// The length of `ticks`.
    pub(super) fn span(&self, ticks: u32) -> Duration {
        self.tick.times(u64::from(ticks))
    }

    /// `duration` rounded down to whole ticks.
    pub(super) fn whole(&self, duration: Duration) -> Duration {
        match self.tick.as_micros() {
            0 | 1 => duration,
            tick => Duration::from_micros(duration.as_micros() / tick * tick),
        }
    }

    /// The factor that backs off a timer chosen by `chosen_by`.
    pub(super) fn factor(&self, chosen_by: Duration) -> Ratio {
        if chosen_by < self.small_below {
            self.backoff_small
        } else if chosen_by > self.large_above {
            self.backoff_large
        } else {
            self.backoff_middle
        }
    }

    /// `timeout` backed off by `factor`.
    pub(super) fn backed_off(&self, timeout: Duration, factor: Ratio) -> Duration {
        self.whole(timeout.scale(factor))
    }
}

/// `duration`, or `limit` if that is shorter; a limit of 0 is none.
fn at_most(duration: Duration, limit: Duration) -> Duration {
    if limit.is_zero() {
        duration
    } else {
        duration.min(limit)
    }
}
