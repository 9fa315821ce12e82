//! Ageing of an unused RTO (`docs/algorithms.md#cocoa-ageing`).

use super::{AgeingSince, CocoaConstants, LargeAgeing, SmallAgeing};
use crate::time::{Duration, Instant};

const ONE_SECOND: Duration = Duration::from_secs(1);

/// Ages the RTO `rto`, last updated at `since`, to `now`; returns it and its new update time.
///
/// Steps of `AgeingSince::Due` are taken at the moments their idle times expired, so that ageing
/// at the next use equals ageing by a running timer (draft-03 allows it). Each step at
/// least doubles a small RTO or nearly halves a large one, so the loop is short.
pub(super) fn aged(
    constants: &CocoaConstants,
    rto: Duration,
    since: Instant,
    now: Instant,
) -> (Duration, Instant) {
    // The program of Vallati 2020 (ECOAP) checks for ageing at whole seconds only.
    let polled = match constants.ageing_poll.as_micros() {
        0 => now,
        poll => Instant::from_micros(now.as_micros() / poll * poll),
    };
    let (mut aged, mut at) = (rto, since);
    while let Some(step) = next_step(constants, aged) {
        if polled.since(at) <= step.after {
            break;
        }
        aged = constants.whole(step.becomes);
        match constants.ageing_since {
            // Contiki leaves the update time, so every further message takes another step.
            AgeingSince::Kept => return (aged, since),
            _ if step.once => return (aged, polled),
            AgeingSince::Due | AgeingSince::Send => at += step.after,
        }
    }
    // Betzler 2015 and Californium count idle time from the use that aged the RTO.
    if aged != rto && constants.ageing_since == AgeingSince::Send {
        at = now;
    }
    (aged, at)
}

struct Step {
    /// The aged RTO.
    becomes: Duration,
    /// The idle time after which it ages.
    after: Duration,
    /// True if no second step follows at once, however long the idle time.
    once: bool,
}

/// The next ageing step of `rto`; `None` if it does not age.
fn next_step(constants: &CocoaConstants, rto: Duration) -> Option<Step> {
    if rto < ONE_SECOND {
        let (becomes, once) = match constants.ageing_small {
            SmallAgeing::Off => return None,
            SmallAgeing::Double => (rto.times(2), false),
            SmallAgeing::ToOneSecond => (ONE_SECOND, true),
        };
        // An RTO of zero doubles to zero: without this check the loop in `aged` would not end.
        return (becomes > rto).then_some(Step {
            becomes,
            after: rto.times(u64::from(constants.ageing_small_idle)),
            once,
        });
    }
    if rto <= constants.ageing_large_above {
        return None;
    }
    let (becomes, once) = match constants.ageing_large {
        LargeAgeing::Off => return None,
        LargeAgeing::Once => (ONE_SECOND + rto.half(), true),
        LargeAgeing::Repeated => (ONE_SECOND + rto.half(), false),
        LargeAgeing::Quotient => {
            // (2000 + RTO)/RTO of milliseconds, taken for seconds.
            let micros = rto.as_micros();
            let numerator = (2_000_000 + micros).saturating_mul(1_000_000);
            (
                Duration::from_micros((numerator + micros / 2) / micros),
                true,
            )
        }
    };
    // 1 s + RTO/2 lowers an RTO above 2 s only, and `ageing_large_above` may be set below that.
    (becomes < rto).then_some(Step {
        becomes,
        after: match constants.ageing_large_idle {
            0 => constants.ageing_large_after,
            times => rto.times(u64::from(times)),
        },
        once,
    })
}
