//! Basic RTO: one and a half times the last round trip.
//!
//! Californium's simplest timer: every answer after at most two retransmissions is a sample, timed
//! from the original transmission. Version 2.0.0 had no margin (`factor` 1), so that every equal
//! round trip caused a retransmission. `docs/algorithms.md#basic-rto`.

use super::retained::{Retained, TimerConstants};
use crate::controller::{Controller, Gauge, Timer};
use crate::evidence::{Answer, Answered, Expired, Start};
use crate::random::Random;
use crate::ratio::Ratio;
use crate::registry::{Family, Profile, Suggested};
use crate::time::{Duration, Instant};

constants! {
    /// Constants of Basic RTO.
    pub struct BasicRtoConstants {
        /// RTO as a multiple of the last sample
        factor: Ratio,
        /// retransmissions up to which an answer is a sample
        weak_limit: u8,
        ..timer: TimerConstants
    }
}

/// Basic RTO's state for one peer.
#[derive(Debug)]
pub struct BasicRto {
    constants: &'static BasicRtoConstants,
    retained: Retained,
}

impl Family for BasicRto {
    type Constants = BasicRtoConstants;
    const PROFILES: &'static [Profile<BasicRtoConstants>] = &[Profile {
        name: "basic-rto",
        about: "RTO of 1.5 times the last RTT, backoff retained",
        source: "Californium 3.14.0, BasicRto.java (retention: 2.0.0); \
                 docs/algorithms.md#basic-rto",
        project_choice: None,
        constants: BasicRtoConstants {
            factor: Ratio::new(3, 2),
            weak_limit: 2,
            timer: TimerConstants::CALIFORNIUM,
        },
        suggested: Suggested {
            max_retransmit: None,
            rto_max: Some(Duration::from_secs(60)),
        },
    }];

    fn new(constants: &'static BasicRtoConstants) -> Self {
        Self {
            constants,
            retained: Retained::default(),
        }
    }
}

impl Controller for BasicRto {
    fn first_timeout(&mut self, start: &Start<'_>, random: &mut dyn Random) -> Timer {
        self.retained
            .first_timeout(start, random, &self.constants.timer)
    }

    fn next_timeout(&mut self, expired: &Expired<'_>, _: &mut dyn Random) -> Timer {
        self.retained.next_timeout(expired, &self.constants.timer)
    }

    fn on_answered(&mut self, answered: &Answered<'_>) {
        let constants = self.constants;
        let counts = answered.confirmable
            && answered.answer != Answer::Separate
            && answered.retransmissions() <= constants.weak_limit;
        // Timed from the original transmission even after retransmissions: no Karn's algorithm.
        if counts {
            let sample = constants.timer.ticks(answered.since_original()).max(1);
            let rto = constants.factor.down(sample);
            self.retained.sampled(rto, &constants.timer);
        }
    }

    fn gauges(&self, _: Instant, visit: &mut dyn FnMut(&'static str, Gauge)) {
        self.retained.gauges(&self.constants.timer, visit);
    }
}
