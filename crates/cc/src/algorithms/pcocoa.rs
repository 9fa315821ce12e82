//! pCoCoA as far as its abstract goes: a retransmission count in place of the weak estimator, and a
//! deviation like Linux's.
//!
//! Bolettieri et al. aim at fewer spurious retransmissions than CoCoA and drop the weak estimator.
//! Second-hand, with low confidence: a transmission counter in the message, and Linux's mean
//! deviation in place of RTTVAR. This file takes a sample whenever the answered transmission is
//! known, with Linux's estimator and CoCoA's backoff and ageing. It reproduces no published result.
//! `docs/algorithms.md#pcocoa`.

use super::cocoa::{CocoaConstants, DRAFT_CAP, Order, Overall, STRONG_ONLY};
use super::linux_rto::LinuxEstimator;
use crate::controller::{Controller, CopyTagging, Gauge, Timer};
use crate::evidence::{Answer, Answered, Expired, PacketState, SendCandidate, Sent, Start};
use crate::random::Random;
use crate::ratio::Ratio;
use crate::registry::{Family, Profile};
use crate::time::{Duration, Instant};

constants! {
    /// Constants of the estimator, and of CoCoA.
    pub struct PcocoaConstants {
        /// smallest deviation, of which four are added to the mean
        deviation_min: Duration,
        ..cocoa: CocoaConstants
    }
}

/// The state for one peer.
#[derive(Debug)]
pub struct Pcocoa {
    constants: &'static PcocoaConstants,
    overall: Overall,
    estimator: LinuxEstimator,
}

impl Family for Pcocoa {
    type Constants = PcocoaConstants;
    const PROFILES: &'static [Profile<PcocoaConstants>] = &[Profile {
        name: "pcocoa",
        about: "cocoa-03 with retransmission counts, and Linux's estimator instead of its two",
        source: "Bolettieri et al., abstract; docs/algorithms.md#pcocoa",
        project_choice: Some(
            "only the aims are in the abstract: transmissions carry FASOR's retransmission-count \
             option, the estimator is linux-rto's and its estimate the RTO, all else is cocoa-03",
        ),
        constants: PcocoaConstants {
            deviation_min: Duration::from_millis(50),
            cocoa: CocoaConstants {
                order: Order::MeanFirst,
                weight_strong: Ratio::ONE,
                counting: CopyTagging::EveryCopy,
                ..STRONG_ONLY
            },
        },
        suggested: DRAFT_CAP,
    }];

    fn new(constants: &'static PcocoaConstants) -> Self {
        Self {
            constants,
            overall: Overall::new(),
            estimator: LinuxEstimator::default(),
        }
    }
}

impl Controller for Pcocoa {
    fn first_timeout(&mut self, start: &Start<'_>, random: &mut dyn Random) -> Timer {
        let cocoa = &self.constants.cocoa;
        let rto = self.overall.first_rto(start, cocoa);
        Overall::dithered(rto, random, cocoa).into()
    }

    fn next_timeout(&mut self, expired: &Expired<'_>, _: &mut dyn Random) -> Timer {
        let cocoa = &self.constants.cocoa;
        let factor = cocoa.factor(expired.timeout);
        cocoa.backed_off(expired.timeout, factor).into()
    }

    fn on_sent(&mut self, sent: &Sent<'_>, random: &mut dyn Random) -> PacketState {
        self.overall.on_sent(sent, random, &self.constants.cocoa);
        PacketState::default()
    }

    fn on_answered(&mut self, answered: &Answered<'_>) {
        // A separate response after a lost ACK measures the application's delay.
        if !answered.confirmable || answered.answer == Answer::Separate {
            return;
        }
        let cocoa = &self.constants.cocoa;
        // With the count a retransmitted exchange is unambiguous, too, so there is no weak sample.
        if let Some(round_trip) = answered.round_trip() {
            // A mean of 0 means that there was no sample.
            let sample = cocoa.ticks(round_trip).max(1);
            let floor = cocoa.ticks(self.constants.deviation_min);
            let estimate = self.estimator.update(sample, cocoa.order, floor);
            let mixed = (estimate, cocoa.weight_strong);
            self.overall
                .mix(answered.now, mixed, answered.parameters, cocoa);
        }
    }

    fn earliest_departure_time(&self, candidate: &SendCandidate<'_>) -> Instant {
        self.overall.earliest_departure_time(candidate)
    }

    fn must_confirm(&self, candidate: &SendCandidate<'_>) -> bool {
        self.overall.must_confirm(candidate, &self.constants.cocoa)
    }

    fn copy_tagging(&self) -> CopyTagging {
        self.constants.cocoa.counting
    }

    fn gauges(&self, now: Instant, visit: &mut dyn FnMut(&'static str, Gauge)) {
        let cocoa = &self.constants.cocoa;
        if let Some(rto) = self.overall.aged(now, cocoa) {
            visit("rto", Gauge::Time(rto));
            visit("srtt", Gauge::Time(cocoa.span(self.estimator.srtt)));
            visit("rttvar", Gauge::Time(cocoa.span(self.estimator.rttvar)));
        }
    }
}
