//! Controllers on a given sequence of round trips, losses and pauses, without a network.
//!
//! A [`Script`] describes the path, not the timers: which transmissions of an exchange are
//! lost, how long the next one takes to be answered, how long nothing happens. [`replay`] runs it
//! under one controller, whose own timers decide when transmissions leave; so the same script lasts
//! longer under one than under another, and a round trip that is longer than a timer brings
//! spurious retransmissions.

mod engine;
pub mod export;
mod script;
mod subject;
pub mod tables;

use carob_cc::TransmissionParameters;
use carob_cc::random::{Fixed, Random};
use carob_cc::time::{Duration, Instant};
use carob_sim::random::Stream;
use carob_sim::spec::ControllerSpec;

pub use engine::{Outcome, Step, replay};
pub use script::{
    EVENTS_MAX, Event, LOST_MAX, Script, ScriptError, Scripted, TIME_MAX, VOCABULARY,
};
pub use subject::{Subject, SubjectError};

/// A story in which the controllers differ: steady round trips, a drift, losses, late answers, a
/// jump, a failure, a long pause.
pub const DEMO: &str = include_str!("demo.txt");

/// Values of draws from a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dither {
    /// The low end, always.
    Low,
    /// The middle, always: it compares controllers, not luck.
    #[default]
    Middle,
    /// The high end, always.
    High,
    /// Values from the stream of this seed, the same for every controller.
    Seed(u64),
}

impl Dither {
    /// The stream a controller draws from.
    pub fn random(self) -> Box<dyn Random> {
        match self {
            Self::Low => Box::new(Fixed::low()),
            Self::Middle => Box::new(Fixed(1 << 31)),
            Self::High => Box::new(Fixed::high()),
            Self::Seed(seed) => Box::new(Stream::new(seed, "replay")),
        }
    }
}

/// A controller's run of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its name in the registry.
    pub algorithm: String,
    /// One step for each event.
    pub steps: Vec<Step>,
}

/// Totals of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// From the beginning to the end of the last event.
    pub elapsed: Duration,
    /// Sum of the script's pauses, contained in `elapsed`.
    pub idle: Duration,
    /// Transmissions, including unacknowledged notifications.
    pub transmissions: u32,
    /// Transmissions after the first of their exchange.
    pub retransmissions: u32,
    /// Retransmissions sent although an earlier transmission and its response were not lost.
    pub spurious: u32,
    /// Exchanges that were given up.
    pub given_up: u32,
    /// The longest timer that was set.
    pub longest_timer: Duration,
}

impl Run {
    /// Runs a script under a controller of the registry.
    pub fn of(
        script: &Script,
        controller: &ControllerSpec,
        parameters: &TransmissionParameters,
        dither: Dither,
    ) -> Self {
        let mut random = dither.random();
        let events = script.events.iter().map(|scripted| scripted.event);
        Self {
            algorithm: controller.entry().name.to_owned(),
            steps: replay(events, &mut *controller.build(), parameters, &mut *random),
        }
    }

    /// The totals.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for step in &self.steps {
            let transmissions = step.timers.len() as u32;
            totals.elapsed = step.ended.since(Instant::ZERO);
            match step.outcome {
                Outcome::Idle => totals.idle += step.took(),
                Outcome::Unconfirmed => totals.transmissions += 1,
                Outcome::Answered | Outcome::GivenUp => totals.transmissions += transmissions,
            }
            totals.retransmissions += transmissions.saturating_sub(1);
            totals.spurious += u32::from(step.spurious);
            totals.given_up += u32::from(step.outcome == Outcome::GivenUp);
            let longest = step.timers.iter().copied().max().unwrap_or_default();
            totals.longest_timer = totals.longest_timer.max(longest);
        }
        totals
    }
}
