//! Default CoAP with Full Backoff: a backed-off timer outlives its exchange.
//!
//! An exchange with retransmissions leaves its last timer to the next exchange, which begins with
//! it, undithered. Full Backoff 1 discards it after an exchange without retransmission. Full
//! Backoff 2 halves it after each until it is down to the initial RTO. Pesola 2020, section 5.1,
//! after Jarvinen et al. 2018; `docs/algorithms.md#full-backoff`. CoCoA with Full Backoff is a
//! profile of [`cocoa`](super::cocoa).

use super::default::DefaultCoap;
use crate::controller::{Controller, Gauge, Timer};
use crate::evidence::{Abandoned, Answered, Expired, Reason, Start};
use crate::random::{Random, uniform};
use crate::registry::{Family, Profile, Suggested};
use crate::time::{Duration, Instant};

variants! {
    /// Effect of an exchange without retransmission on a retained timer.
    pub enum Recovery {
        /// Discarded (Full Backoff 1).
        Forget = "forget",
        /// Halved, and discarded once it is down to the initial RTO (Full Backoff 2).
        Halve = "halve",
    }
}

variants! {
    /// Exchanges that count as successful for [`Recovery::Halve`]
    /// (`docs/algorithms.md#full-backoff`).
    pub enum HalvedBy {
        /// Those without retransmission.
        Clean = "clean",
        /// All that are answered: half of the timer that ran is retained.
        Answered = "answered",
    }
}

constants! {
    /// Constants of Full Backoff.
    pub struct FullBackoffConstants {
        /// effect of an exchange without retransmission on a retained timer
        recovery: Recovery,
        /// exchanges that halve a retained timer
        halved_by: HalvedBy,
        /// whether a retained timer is dithered
        dither_retained: bool,
    }
}

/// The state of default CoAP with Full Backoff for one peer.
#[derive(Debug)]
pub struct FullBackoff {
    constants: &'static FullBackoffConstants,
    /// In microseconds; 0 if none is retained.
    carry: u32,
}

impl FullBackoff {
    fn carried(&self) -> Duration {
        Duration::from_micros(u64::from(self.carry))
    }
}

const CHOICE: Option<&str> = Some(
    "an exchange that fails retains its last timer, a retained timer is not dithered and does not \
     age, and only exchanges without retransmission halve it: the source is silent, and keeping \
     the backoff is what Full Backoff is for",
);

const fn profile(
    name: &'static str,
    about: &'static str,
    source: &'static str,
    recovery: Recovery,
) -> Profile<FullBackoffConstants> {
    Profile {
        name,
        about,
        source,
        project_choice: CHOICE,
        constants: FullBackoffConstants {
            recovery,
            halved_by: HalvedBy::Clean,
            dither_retained: false,
        },
        suggested: Suggested {
            max_retransmit: None,
            rto_max: Some(Duration::from_secs(60)),
        },
    }
}

impl Family for FullBackoff {
    type Constants = FullBackoffConstants;
    const PROFILES: &'static [Profile<FullBackoffConstants>] = &[
        profile(
            "default-fb1",
            "default CoAP with Full Backoff 1: a backed-off timer is retained until an exchange without loss",
            "Pesola 2020, section 5.1, after Jarvinen et al. 2018; \
             docs/algorithms.md#default-fb1",
            Recovery::Forget,
        ),
        profile(
            "default-fb2",
            "default CoAP with Full Backoff 2: a backed-off timer is halved after each exchange without loss",
            "Pesola 2020, section 5.1, after Jarvinen et al. 2018; \
             docs/algorithms.md#default-fb2",
            Recovery::Halve,
        ),
    ];

    fn new(constants: &'static FullBackoffConstants) -> Self {
        Self {
            constants,
            carry: 0,
        }
    }
}

impl Controller for FullBackoff {
    fn first_timeout(&mut self, start: &Start<'_>, random: &mut dyn Random) -> Timer {
        match self.carry {
            0 => DefaultCoap.first_timeout(start, random),
            _ if self.constants.dither_retained => {
                let longest = self.carried().scale(start.parameters.ack_random_factor);
                uniform(random, self.carried(), longest).into()
            }
            _ => self.carried().into(),
        }
    }

    fn next_timeout(&mut self, expired: &Expired<'_>, random: &mut dyn Random) -> Timer {
        DefaultCoap.next_timeout(expired, random)
    }

    fn on_answered(&mut self, answered: &Answered<'_>) {
        if !answered.confirmable {
            return;
        }
        if answered.retransmissions() > 0 {
            // Pesola 2020, 5.1, calls an exchange successful if it had no retransmission, so this one
            // retains its timer and does not halve it.
            self.carry = answered.timeout.as_micros_u32();
            let halves = self.constants.recovery == Recovery::Halve;
            if !halves || self.constants.halved_by == HalvedBy::Clean {
                return;
            }
        }
        let left = match self.constants.recovery {
            Recovery::Forget => Duration::ZERO,
            Recovery::Halve => self.carried().half(),
        };
        // At ACK_TIMEOUT the timer of default CoAP is as long, and it is dithered.
        self.carry = if left > answered.parameters.ack_timeout {
            left.as_micros_u32()
        } else {
            0
        };
    }

    fn on_abandoned(&mut self, abandoned: &Abandoned<'_>) {
        // The source is silent about failed exchanges; without this they would lose the back-off.
        if abandoned.reason == Reason::TimedOut {
            self.carry = abandoned.timeout.as_micros_u32();
        }
    }

    fn gauges(&self, _: Instant, visit: &mut dyn FnMut(&'static str, Gauge)) {
        if self.carry > 0 {
            visit("rto", Gauge::Time(self.carried()));
        }
    }
}
