//! The named sets of constants, each with its source.

use super::{
    AgeingSince, Arithmetic, Blind, CocoaConstants, FactorOn, Fb2Base, FirstSample, LargeAgeing,
    NonPace, Order, Retain, SmallAgeing,
};
use crate::controller::CopyTagging;
use crate::ratio::Ratio;
use crate::registry::{Profile, Suggested};
use crate::time::Duration;

/// As many retransmissions as possible: every answer is a sample.
const ANY: u8 = u8::MAX;

/// draft-ietf-core-cocoa-03; `docs/algorithms.md#cocoa-interpretations` where it is ambiguous.
pub(super) const DRAFT_03: CocoaConstants = CocoaConstants {
    initial_rto: Duration::ZERO,
    arithmetic: Arithmetic::Rfc6298,
    alpha: Ratio::new(1, 8),
    beta: Ratio::new(1, 4),
    order: Order::VarianceFirst,
    first_sample: FirstSample::Own,
    k_strong: 4,
    k_weak: 1,
    weight_strong: Ratio::new(1, 2),
    weight_weak: Ratio::new(1, 4),
    weak_limit: 2,
    tolerated_losses: 0,
    strong_reset_after: 0,
    granularity: Duration::ZERO,
    sample_margin: Duration::ZERO,
    estimate_max: Duration::ZERO,
    overall_max: Duration::ZERO,
    rto_min: Duration::ZERO,
    backoff_small: Ratio::new(3, 1),
    backoff_middle: Ratio::new(2, 1),
    backoff_large: Ratio::new(3, 2),
    small_below: Duration::from_secs(1),
    large_above: Duration::from_secs(3),
    vbf_on: FactorOn::Current,
    ageing_small: SmallAgeing::Double,
    ageing_small_idle: 16,
    ageing_large: LargeAgeing::Repeated,
    ageing_large_above: Duration::from_secs(3),
    ageing_large_idle: 4,
    ageing_large_after: Duration::from_secs(30),
    ageing_since: AgeingSince::Due,
    ageing_poll: Duration::ZERO,
    ageing_late: false,
    ageing_busy: false,
    dither: Ratio::new(3, 2),
    dither_backoff: false,
    cap_first: false,
    blind: Blind::Parallel,
    retain_backoff: Retain::Off,
    fb2_base: Fb2Base::Timer,
    dither_retained: false,
    counting: CopyTagging::Off,
    non_pace: NonPace::Rto,
    non_successive: 7,
    tick: Duration::from_micros(1),
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
    blind: Blind::Single,
    non_pace: NonPace::Off,
    non_successive: 0,
    ..DRAFT_03
};

/// Betzler et al. 2015, section 2.2: CoCoA before CoCoA+.
const V0: CocoaConstants = CocoaConstants {
    k_weak: 4,
    weight_weak: Ratio::new(1, 2),
    weak_limit: ANY,
    backoff_small: Ratio::new(2, 1),
    backoff_large: Ratio::new(2, 1),
    ageing_large: LargeAgeing::Off,
    ..PLUS
};

/// Betzler et al. 2016, section 2.3.
const NON_STUDY: CocoaConstants = CocoaConstants {
    alpha: Ratio::new(1, 4),
    beta: Ratio::new(1, 8),
    vbf_on: FactorOn::InitDithered,
    ageing_large_above: Duration::from_secs(2),
    blind: Blind::Single,
    non_pace: NonPace::Dithered,
    ..DRAFT_03
};

/// Vallati et al. 2020, section 3.1.2: CoCoA+ with the mean updated first.
const RPL_STUDY: CocoaConstants = CocoaConstants {
    order: Order::MeanFirst,
    ..PLUS
};

/// The code behind Vallati et al. 2020, slips included.
const RPL_STUDY_CODE: CocoaConstants = CocoaConstants {
    alpha: Ratio::new(1, 8),
    beta: Ratio::new(1, 4),
    order: Order::MeanFirst,
    first_sample: FirstSample::Both,
    weak_limit: ANY,
    estimate_max: Duration::from_secs(60),
    backoff_large: Ratio::new(13, 10),
    // A chained comparison leaves no range between small and large.
    large_above: Duration::from_secs(1),
    vbf_on: FactorOn::InitUndithered,
    ageing_small: SmallAgeing::ToOneSecond,
    ageing_large: LargeAgeing::Quotient,
    ageing_poll: Duration::from_secs(1),
    blind: Blind::Single,
    non_pace: NonPace::Off,
    non_successive: 0,
    ..DRAFT_03
};

/// Californium 3.14.0, in whole milliseconds as it computes.
const CALIFORNIUM: CocoaConstants = CocoaConstants {
    alpha: Ratio::new(1, 4),
    beta: Ratio::new(1, 8),
    granularity: Duration::from_millis(100),
    overall_max: Duration::from_secs(32),
    rto_min: Duration::from_millis(500),
    vbf_on: FactorOn::InitDithered,
    ageing_since: AgeingSince::Send,
    ageing_late: true,
    blind: Blind::Registered,
    non_successive: 0,
    tick: Duration::from_millis(1),
    ..DRAFT_03
};

/// Contiki's er-coap.
const CONTIKI: CocoaConstants = CocoaConstants {
    weight_weak: Ratio::new(3, 4),
    weak_limit: ANY,
    strong_reset_after: 3,
    overall_max: Duration::from_secs(60),
    backoff_small: Ratio::new(5, 2),
    vbf_on: FactorOn::InitUndithered,
    ageing_small: SmallAgeing::ToOneSecond,
    ageing_since: AgeingSince::Kept,
    blind: Blind::Doubled,
    non_pace: NonPace::Off,
    non_successive: 0,
    ..DRAFT_03
};

/// The draft with the strong estimator only.
pub(in crate::algorithms) const STRONG_ONLY: CocoaConstants = CocoaConstants {
    weak_limit: 0,
    ..DRAFT_03
};

/// CoCoA's draft bounds backed-off timers at 32 s.
pub(in crate::algorithms) const DRAFT_CAP: Suggested = capped(32);

const fn capped(seconds: u64) -> Suggested {
    Suggested {
        max_retransmit: None,
        rto_max: Some(Duration::from_secs(seconds)),
    }
}

/// A profile without choices of this project.
const fn profile(
    name: &'static str,
    about: &'static str,
    source: &'static str,
    constants: CocoaConstants,
    suggested: Suggested,
) -> Profile<CocoaConstants> {
    Profile {
        name,
        about,
        source,
        project_choice: None,
        constants,
        suggested,
    }
}

/// Every profile, the versions in order of age first.
pub(super) const PROFILES: &[Profile<CocoaConstants>] = &[
    profile(
        "cocoa-v0",
        "CoCoA before CoCoA+: both estimators weigh the same, timers double",
        "Betzler et al. 2015, section 2.2; docs/algorithms.md#cocoa-v0",
        V0,
        Suggested::NONE,
    ),
    profile(
        "cocoa-plus",
        "CoCoA+: weak samples count less, backoff 3/2/1.3 by the first timer, ageing after 30 s",
        "Betzler et al. 2015, section 3; docs/algorithms.md#cocoa-plus",
        PLUS,
        Suggested::NONE,
    ),
    profile(
        "cocoa-03",
        "CoCoA as in the last draft: RFC 6298 gains, backoff 3/2/1.5, repeated ageing",
        "draft-ietf-core-cocoa-03; docs/algorithms.md#cocoa-03",
        DRAFT_03,
        DRAFT_CAP,
    ),
    profile(
        "cocoa-001",
        "cocoa-03 as the thesis ran it: MAX_RETRANSMIT 20",
        "Pesola 2020, sections 3.3 and 4.2; docs/algorithms.md#cocoa-001",
        DRAFT_03,
        Suggested {
            max_retransmit: Some(20),
            ..DRAFT_CAP
        },
    ),
    profile(
        "cocoa-002",
        "CoCoA as in the study of NON and Observe: gains 1/4 and 1/8, NON spaced by a drawn time",
        "Betzler et al. 2016, section 2.3; docs/algorithms.md#cocoa-002",
        NON_STUDY,
        Suggested::NONE,
    ),
    profile(
        "cocoa-004-text",
        "CoCoA as described in the RPL study: CoCoA+ with the mean updated first",
        "Vallati et al. 2020, section 3.1.2; docs/algorithms.md#cocoa-004-text",
        RPL_STUDY,
        Suggested::NONE,
    ),
    profile(
        "cocoa-004-as-run",
        "CoCoA as coded in the RPL study, with its errors",
        "ECOAP, ecoap_local_control_cocoa_cc.py, commit 7e69636; docs/algorithms.md#cocoa-004-as-run",
        RPL_STUDY_CODE,
        Suggested {
            max_retransmit: Some(3),
            ..capped(60)
        },
    ),
    profile(
        "cocoa-californium",
        "CoCoA of Californium 3.14.0: whole milliseconds, first timers of at least 500 ms",
        "Californium 3.14.0, Cocoa.java, Rto.java, CongestionControlLayer.java; \
         docs/algorithms.md#cocoa-californium",
        CALIFORNIUM,
        capped(60),
    ),
    profile(
        "cocoa-contiki",
        "CoCoA of Contiki's er-coap: weak samples weigh 3/4, after any number of retransmissions",
        "Contiki er-coap by Betzler, 2015; docs/algorithms.md#cocoa-contiki",
        CONTIKI,
        capped(60),
    ),
    profile(
        "cocoa-s",
        "CoCoA-S: cocoa-03 with the strong estimator only",
        "Pesola 2020, section 3.4, after Betzler et al.; docs/algorithms.md#cocoa-s",
        STRONG_ONLY,
        DRAFT_CAP,
    ),
    Profile {
        name: "cocoa-strong",
        about: "CoCoA-Strong: cocoa-03 that does not react to the first loss of an exchange",
        source: "Bhalerao et al. 2016 after Pesola 2020, section 3.4; docs/algorithms.md#cocoa-strong",
        project_choice: Some(
            "the source does not define \"not reacting\": after one loss the timer is not backed off \
             and the sample is not used, because the source attributes that loss to an error of \
             the link, not to congestion",
        ),
        constants: CocoaConstants {
            tolerated_losses: 1,
            ..DRAFT_03
        },
        suggested: DRAFT_CAP,
    },
    Profile {
        name: "cocoa-fast",
        about: "CoCoA-Fast: cocoa-03 with smaller backoff factors, thresholds, initial and longest \
                RTO",
        source: "Bhalerao et al. 2016 after Pesola 2020, section 3.4; docs/algorithms.md#cocoa-fast",
        project_choice: Some(
            "the source names the smaller constants without values: initial RTO 1 s, the least that \
             RFC 7252 4.8 allows as ACK_TIMEOUT; lower threshold and cap half of the draft's \
             (0.5 s, 16 s); the upper threshold 2 s, to which ageing drifts, so that it is no large \
             RTO; factors 2, 1.5 and 1.25, which exceed 1 by half as much as the draft's",
        ),
        constants: CocoaConstants {
            initial_rto: Duration::from_secs(1),
            backoff_small: Ratio::new(2, 1),
            backoff_middle: Ratio::new(3, 2),
            backoff_large: Ratio::new(5, 4),
            small_below: Duration::from_millis(500),
            large_above: Duration::from_secs(2),
            ..DRAFT_03
        },
        suggested: capped(16),
    },
    Profile {
        name: "cocoa-e",
        about: "CoCoA-E: cocoa-03 with the Eifel retransmission timer in both estimators",
        source: "Ludwig and Sklower 2000, as remembered, and a variant of Contiki's er-coap; \
                 docs/algorithms.md#cocoa-e",
        project_choice: Some(
            "the combination of Eifel's arithmetic with CoCoA was not found: it replaces that of \
             both estimators, while deviations added, weights, backoff and ageing are \
             cocoa-03's, so that the arithmetic is the one difference; two ticks are 1/64 s, \
             Contiki's",
        ),
        constants: CocoaConstants {
            arithmetic: Arithmetic::Eifel,
            alpha: Ratio::new(1, 3),
            beta: Ratio::new(1, 9),
            sample_margin: Duration::from_micros(15_625),
            ..DRAFT_03
        },
        suggested: DRAFT_CAP,
    },
    Profile {
        name: "cocoa-fb1",
        about: "cocoa-03 with Full Backoff 1: a backed-off timer becomes the RTO",
        source: "Pesola 2020, section 5.1, after Jarvinen et al. 2018; docs/algorithms.md#cocoa-fb1",
        project_choice: Some(
            "an exchange that fails retains its last timer, and a retained timer is not dithered: \
             the source is silent, and keeping the backoff is what Full Backoff is for",
        ),
        constants: CocoaConstants {
            retain_backoff: Retain::Fb1,
            ..DRAFT_03
        },
        suggested: DRAFT_CAP,
    },
    Profile {
        name: "cocoa-fb2",
        about: "cocoa-03 with Full Backoff 2: the next exchange begins with the longer of \
                backed-off timer and RTO",
        source: "Pesola 2020, section 5.1, after Jarvinen et al. 2018; docs/algorithms.md#cocoa-fb2",
        project_choice: Some(
            "as in cocoa-fb1; besides, a retained timer ages as a large RTO does, because an \
             unused one would otherwise be kept for ever",
        ),
        constants: CocoaConstants {
            retain_backoff: Retain::Fb2,
            ..DRAFT_03
        },
        suggested: DRAFT_CAP,
    },
    Profile {
        name: "rtt-count",
        about: "one estimator, updated by every reply, whose count shows the transmission it answers",
        source: "Lee et al. 2016; docs/algorithms.md#rtt-count",
        project_choice: Some(
            "the accessible text lacks the formulas: gains and weight are those \
             of cocoa-v0's strong estimator, backoff, ageing, cap and pace of NON those of cocoa-03",
        ),
        constants: CocoaConstants {
            alpha: Ratio::new(1, 4),
            beta: Ratio::new(1, 8),
            counting: CopyTagging::RepeatedCopies,
            ..STRONG_ONLY
        },
        suggested: DRAFT_CAP,
    },
];
