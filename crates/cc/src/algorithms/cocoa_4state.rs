//! CoCoA with four states in the place of the weak estimator: the state picks the backoff factor.
//!
//! The abstract of Bhalerao, Subramanian and Pasquale (CCNC 2016) gives the number of states and
//! that they select the backoff factor; states and transitions were not found. Here they record
//! the outcome of the last exchanges: an exchange without loss moves one state towards 0, one with
//! a loss one state away from it, one with more losses two states, and a failed one to the last
//! state. It reproduces no published result. `docs/algorithms.md#cocoa-4state`.

use super::cocoa::{CocoaConstants, DRAFT_CAP, Estimator, Overall, STRONG_ONLY};
use crate::controller::{Controller, Gauge, Timer};
use crate::evidence::{
    Abandoned, Answer, Answered, ExchangeState, Expired, PacketState, Reason, SendCandidate, Sent,
    Start,
};
use crate::random::Random;
use crate::ratio::Ratio;
use crate::registry::{Family, Profile};
use crate::time::Instant;

constants! {
    /// Constants of the four states, and of CoCoA.
    pub struct Cocoa4StateConstants {
        /// backoff factor in state 0: the last exchanges lost nothing
        backoff_0: Ratio,
        /// backoff factor in state 1
        backoff_1: Ratio,
        /// backoff factor in state 2, in which a peer begins
        backoff_2: Ratio,
        /// backoff factor in state 3: an exchange failed, or several lost much
        backoff_3: Ratio,
        ..cocoa: CocoaConstants
    }
}

/// The state for one peer.
#[derive(Debug)]
pub struct Cocoa4State {
    constants: &'static Cocoa4StateConstants,
    overall: Overall,
    estimator: Estimator,
    state: u8,
}

/// The last of the states.
const WORST: u8 = 3;

impl Cocoa4State {
    fn factor(&self, state: u64) -> Ratio {
        match state {
            0 => self.constants.backoff_0,
            1 => self.constants.backoff_1,
            2 => self.constants.backoff_2,
            _ => self.constants.backoff_3,
        }
    }
}

impl Family for Cocoa4State {
    type Constants = Cocoa4StateConstants;
    const PROFILES: &'static [Profile<Cocoa4StateConstants>] = &[Profile {
        name: "cocoa-4state",
        about: "cocoa-s with a backoff factor by the outcomes of the last exchanges, in four states",
        source: "Bhalerao et al. (CCNC 2016), abstract, and Vallati et al. 2020, section 2; \
                 docs/algorithms.md#cocoa-4state",
        project_choice: Some(
            "states, transitions and factors were not found: the states count losses, because \
             the abstract distinguishes losses, and the factors are those of CoCoA's \
             versions (1.3, 1.5, 2, 3), the smallest where losses are rare and so more likely \
             errors of the link; a peer begins in state 2, as cautious as default CoAP",
        ),
        constants: Cocoa4StateConstants {
            backoff_0: Ratio::new(13, 10),
            backoff_1: Ratio::new(3, 2),
            backoff_2: Ratio::new(2, 1),
            backoff_3: Ratio::new(3, 1),
            cocoa: STRONG_ONLY,
        },
        suggested: DRAFT_CAP,
    }];

    fn new(constants: &'static Cocoa4StateConstants) -> Self {
        Self {
            constants,
            overall: Overall::new(),
            estimator: Estimator::default(),
            state: 2,
        }
    }
}

impl Controller for Cocoa4State {
    fn first_timeout(&mut self, start: &Start<'_>, random: &mut dyn Random) -> Timer {
        let cocoa = &self.constants.cocoa;
        let rto = self.overall.first_rto(start, cocoa);
        Timer {
            timeout: Overall::dithered(rto, random, cocoa),
            // Kept with the exchange: responses to parallel ones do not change its back-off factor.
            state: ExchangeState(u64::from(self.state)),
        }
    }

    fn next_timeout(&mut self, expired: &Expired<'_>, _: &mut dyn Random) -> Timer {
        let factor = self.factor(expired.state.0);
        Timer {
            timeout: self.constants.cocoa.backed_off(expired.timeout, factor),
            state: expired.state,
        }
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
        match answered.retransmissions() {
            0 => {
                self.state = self.state.saturating_sub(1);
                let sample = cocoa.ticks(answered.since_original());
                let estimate = self.estimator.take(sample, cocoa);
                let mixed = (estimate, cocoa.weight_strong);
                self.overall
                    .mix(answered.now, mixed, answered.parameters, cocoa);
            }
            1 => self.state = (self.state + 1).min(WORST),
            _ => self.state = (self.state + 2).min(WORST),
        }
    }

    fn on_abandoned(&mut self, abandoned: &Abandoned<'_>) {
        if abandoned.reason == Reason::TimedOut {
            self.state = WORST;
        }
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
        visit("loss_state", Gauge::Count(u64::from(self.state)));
    }
}
