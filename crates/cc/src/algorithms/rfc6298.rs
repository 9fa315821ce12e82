//! TCP's retransmission timer (RFC 6298), adapted to CoAP.
//!
//! Initial RTO ACK_TIMEOUT instead of 1 s, no minimum of 1 s unless it is set, samples only from
//! exchanges without retransmission (Karn's algorithm). A backed-off timer stays in force until
//! the next sample. `docs/algorithms.md#rfc6298`.

use super::retained::{Retained, TimerConstants};
use crate::controller::{Controller, Gauge, Timer};
use crate::evidence::{Answered, Expired, Start};
use crate::random::Random;
use crate::ratio::Ratio;
use crate::registry::{Family, Profile, Suggested};
use crate::time::{Duration, Instant};

constants! {
    /// Constants of RFC 6298.
    pub struct Rfc6298Constants {
        /// gain of the smoothed round-trip time
        alpha: Ratio,
        /// gain of its deviation
        beta: Ratio,
        /// deviations added to the estimate
        k: u8,
        /// smallest value of the deviation term
        granularity: Duration,
        ..timer: TimerConstants
    }
}

/// The state of RFC 6298 for one peer.
#[derive(Debug)]
pub struct Rfc6298 {
    constants: &'static Rfc6298Constants,
    retained: Retained,
    /// In ticks.
    srtt: u32,
    rttvar: u32,
}

impl Family for Rfc6298 {
    type Constants = Rfc6298Constants;
    const PROFILES: &'static [Profile<Rfc6298Constants>] = &[Profile {
        name: "rfc6298",
        about: "RFC 6298 timer, initially 2 s, without its minimum of 1 s, backoff retained",
        source: "RFC 6298 2, 3, 5; docs/algorithms.md#rfc6298",
        project_choice: None,
        constants: Rfc6298Constants {
            alpha: Ratio::new(1, 8),
            beta: Ratio::new(1, 4),
            k: 4,
            granularity: Duration::ZERO,
            timer: TimerConstants::UNBOUNDED,
        },
        suggested: Suggested {
            max_retransmit: None,
            rto_max: Some(Duration::from_secs(60)),
        },
    }];

    fn new(constants: &'static Rfc6298Constants) -> Self {
        Self {
            constants,
            retained: Retained::default(),
            srtt: 0,
            rttvar: 0,
        }
    }
}

impl Controller for Rfc6298 {
    fn first_timeout(&mut self, start: &Start<'_>, random: &mut dyn Random) -> Timer {
        self.retained
            .first_timeout(start, random, &self.constants.timer)
    }

    fn next_timeout(&mut self, expired: &Expired<'_>, _: &mut dyn Random) -> Timer {
        self.retained.next_timeout(expired, &self.constants.timer)
    }

    fn on_answered(&mut self, answered: &Answered<'_>) {
        let constants = self.constants;
        let Some(sample) = constants.timer.certain_sample(answered) else {
            return;
        };
        if self.srtt == 0 {
            (self.srtt, self.rttvar) = (sample, sample / 2); // RFC 6298 2.2
        } else {
            // RTTVAR before SRTT: RFC 6298 2.3 computes it with the SRTT before the sample.
            self.rttvar = constants
                .beta
                .blend(self.rttvar, self.srtt.abs_diff(sample));
            self.srtt = constants.alpha.blend(self.srtt, sample);
        }
        let margin = self.rttvar.saturating_mul(u32::from(constants.k));
        let smallest = constants.timer.ticks(constants.granularity);
        let rto = self.srtt.saturating_add(margin.max(smallest));
        self.retained.sampled(rto, &constants.timer);
    }

    fn gauges(&self, _: Instant, visit: &mut dyn FnMut(&'static str, Gauge)) {
        let timer = &self.constants.timer;
        self.retained.gauges(timer, visit);
        if self.srtt > 0 {
            visit("srtt", Gauge::Time(timer.span(self.srtt)));
            visit("rttvar", Gauge::Time(timer.span(self.rttvar)));
        }
    }
}
