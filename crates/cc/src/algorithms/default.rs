//! Default CoAP: a random timer around a fixed one, doubled at each retransmission.
//!
//! RFC 7252 4.2. Nothing is measured and no state outlives the exchange, so this is also the
//! smallest complete controller. `docs/algorithms.md#default`.

use crate::controller::{Controller, Timer};
use crate::evidence::{Expired, Start};
use crate::random::{Random, uniform};
use crate::registry::{Family, Profile, Suggested};

constants! {
    /// Default CoAP has no constants besides the transmission parameters.
    pub struct DefaultConstants {}
}

/// Default CoAP's congestion control for one peer. Stateless.
#[derive(Debug)]
pub struct DefaultCoap;

impl Family for DefaultCoap {
    type Constants = DefaultConstants;
    const PROFILES: &'static [Profile<DefaultConstants>] = &[Profile {
        name: "default",
        about: "default CoAP: first timer U[2 s, 3 s], doubled at each retransmission",
        source: "RFC 7252 4.2, 4.7, 4.8; docs/algorithms.md#default",
        project_choice: None,
        constants: DefaultConstants {},
        suggested: Suggested::NONE,
    }];

    fn new(_: &'static DefaultConstants) -> Self {
        Self
    }
}

impl Controller for DefaultCoap {
    fn first_timeout(&mut self, start: &Start<'_>, random: &mut dyn Random) -> Timer {
        let shortest = start.parameters.ack_timeout;
        uniform(
            random,
            shortest,
            shortest.scale(start.parameters.ack_random_factor),
        )
        .into()
    }

    fn next_timeout(&mut self, expired: &Expired<'_>, _: &mut dyn Random) -> Timer {
        // RFC 7252 4.2: the timeout is doubled; ACK_RANDOM_FACTOR applies to the initial one only.
        expired.timeout.times(2).into()
    }
}
