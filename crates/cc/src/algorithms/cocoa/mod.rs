//! CoCoA: round-trip estimators per peer, variable backoff, ageing.
//!
//! Two estimators in RFC 6298 form are fed by answers without retransmission (strong) and after a
//! few (weak, timed from the FIRST transmission); each mixes its estimate into one overall RTO. The
//! first timer of an exchange is the overall RTO, dithered; later ones grow by a factor that
//! depends on the RTO. An RTO that is far from 2 s and long unused drifts back. Notifications in
//! NON messages leave no faster than one per RTO, and every eighth as CON.
//!
//! The profiles (`profiles.rs`) are the versions of CoCoA in papers, drafts and implementations,
//! the variants that change only constants or a rule, CoCoA with Full Backoff and the scheme of Lee
//! et al.
//! 2016. `docs/algorithms.md#cocoa-family` has the rules, the defects of the draft's pseudocode and
//! of two implementations, and their interpretation. Sources: draft-ietf-core-cocoa-03; Betzler et
//! al. 2015 (CoCoA+) and 2016; Pesola 2020; Vallati et al. 2020; Californium; Contiki's er-coap.

mod ageing;
mod controller;
mod estimator;
mod overall;
mod profiles;

pub use self::controller::Cocoa;
pub(super) use self::estimator::Estimator;
pub(super) use self::overall::Overall;
pub(super) use self::profiles::{DRAFT_CAP, STRONG_ONLY};

use crate::controller::CopyTagging;
use crate::ratio::Ratio;
use crate::time::Duration;

variants! {
    /// Value that selects the backoff factor (`docs/algorithms.md#cocoa-interpretations`).
    pub enum FactorOn {
        /// The timer that is being backed off, set again at each retransmission.
        Current = "current",
        /// The first timer after dithering, for the whole exchange.
        InitDithered = "init-dithered",
        /// The first timer before dithering, for the whole exchange.
        InitUndithered = "init-undithered",
    }
}

variants! {
    /// Update rule of an estimator.
    pub enum Arithmetic {
        /// Mean and mean deviation (RFC 6298 2.2, 2.3).
        Rfc6298 = "rfc6298",
        /// Eifel retransmission timer (Ludwig and Sklower 2000; `docs/algorithms.md#cocoa-e`).
        Eifel = "eifel",
    }
}

variants! {
    /// Update order of mean and deviation.
    pub enum Order {
        /// The deviation, from the old mean (RFC 6298 2.3).
        VarianceFirst = "variance-first",
        /// The mean; the deviation is then taken from the new one.
        MeanFirst = "mean-first",
    }
}

variants! {
    /// Effect of the first sample of all.
    pub enum FirstSample {
        /// Initialises its estimator and mixes its estimate into the RTO.
        Own = "own",
        /// Initialises both estimators and leaves the RTO.
        Both = "both",
    }
}

variants! {
    /// Ageing of an unused RTO below 1 s.
    pub enum SmallAgeing {
        /// None.
        Off = "off",
        /// Doubling, repeated at each expiry of its idle time.
        Double = "double",
        /// 1 s.
        ToOneSecond = "to-1s",
    }
}

variants! {
    /// Ageing of an unused large RTO.
    pub enum LargeAgeing {
        /// None.
        Off = "off",
        /// 1 s + RTO/2 at the next message, once.
        Once = "once",
        /// 1 s + RTO/2, repeated at each expiry of its idle time.
        Repeated = "repeated",
        /// (2 s + RTO)/RTO seconds: a defect of ECOAP (`docs/algorithms.md#cocoa-004-as-run`).
        Quotient = "quotient",
    }
}

variants! {
    /// Beginning of the idle time of an RTO that has just aged.
    pub enum AgeingSince {
        /// The moment the step was due.
        Due = "due",
        /// The message that found it due.
        Send = "send",
        /// Unchanged: each message takes one more step while the condition holds.
        Kept = "kept",
    }
}

variants! {
    /// The RTO of parallel exchanges before the first measurement.
    pub enum Blind {
        /// ACK_TIMEOUT.
        Single = "single",
        /// ACK_TIMEOUT times the exchanges, the new one included.
        Parallel = "parallel",
        /// ACK_TIMEOUT doubled for each outstanding exchange, at most 32 s.
        Doubled = "doubled",
        /// Any RTO times the exchanges already outstanding, permanently: Californium's slip.
        Registered = "registered",
    }
}

variants! {
    /// Handling of a backed-off timer when its exchange ends (`docs/algorithms.md#full-backoff`).
    pub enum Retain {
        /// Discarded.
        Off = "off",
        /// Becomes the RTO (Full Backoff 1).
        Fb1 = "fb1",
        /// The next exchange begins with it; the RTO is independent (the other interpretation).
        Fb1Apart = "fb1-apart",
        /// The next exchange begins with it or the new RTO, whichever is longer (Full Backoff 2).
        Fb2 = "fb2",
    }
}

variants! {
    /// Value that Full Backoff 2 compares with the new RTO (`docs/algorithms.md#full-backoff`).
    pub enum Fb2Base {
        /// The running timer at the answer.
        Timer = "timer",
        /// The RTO before the answer; the longer of the two is backed off again.
        Estimate = "estimate",
    }
}

variants! {
    /// Spacing of notifications in NON messages.
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
        /// update rule of an estimator
        arithmetic: Arithmetic,
        /// gain of the smoothed round-trip time
        alpha: Ratio,
        /// gain of its deviation (eifel: while the deviation is not exceeded)
        beta: Ratio,
        /// which of mean and deviation is updated first
        order: Order,
        /// effect of the first sample of all
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
        /// accumulated retransmissions after which the strong estimator restarts (0: never)
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
        /// value that selects the backoff factor
        vbf_on: FactorOn,
        /// ageing of an RTO below 1 s
        ageing_small: SmallAgeing,
        /// unused for this many times itself, a small RTO ages
        ageing_small_idle: u8,
        /// ageing of a large RTO
        ageing_large: LargeAgeing,
        /// RTO above which it is large
        ageing_large_above: Duration,
        /// unused for this many times itself, a large RTO ages (0: for ageing_large_after)
        ageing_large_idle: u8,
        /// unused for this long, a large RTO ages (if ageing_large_idle is 0)
        ageing_large_after: Duration,
        /// beginning of the idle time of an aged RTO
        ageing_since: AgeingSince,
        /// ageing is looked for at multiples of this time (0: at any)
        ageing_poll: Duration,
        /// ageing takes effect one message late
        ageing_late: bool,
        /// ageing of an RTO while other exchanges are outstanding
        ageing_busy: bool,
        /// longest first timer as a multiple of the RTO
        dither: Ratio,
        /// whether backed-off timers are dithered again
        dither_backoff: bool,
        /// whether the cap on backed-off timers holds for the first timer, too
        cap_first: bool,
        /// the RTO of parallel exchanges before the first measurement
        blind: Blind,
        /// handling of a backed-off timer when its exchange ends
        retain_backoff: Retain,
        /// value that Full Backoff 2 compares with the new RTO
        fb2_base: Fb2Base,
        /// whether a retained timer is dithered
        dither_retained: bool,
        /// how transmissions are distinguished; a sample is then any with a known transmission
        counting: CopyTagging,
        /// spacing of notifications in NON messages
        non_pace: NonPace,
        /// NON notifications in a row after which one leaves as CON (0: no limit)
        non_successive: u8,
        /// resolution of times: whole multiples of this
        tick: Duration,
    }
}

impl CocoaConstants {
    /// `duration` in ticks, rounded down.
    pub(super) fn ticks(&self, duration: Duration) -> u32 {
        // `--set cc.tick` accepts 0, which would divide by zero.
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

    /// The backoff factor of a timer, selected by `chosen_by`.
    pub(super) fn factor(&self, chosen_by: Duration) -> Ratio {
        // Strict comparisons: 1 s and 3 s themselves belong to the middle class (draft-03).
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
