//! Many trials of a family, and the explanation of a breach.

use core::fmt;
use core::marker::PhantomData;
use core::ops::Range;

use super::{Breach, Lcg, Trial};
use crate::controller::Controller;
use crate::evidence::Kind;
use crate::parameters::TransmissionParameters;
use crate::registry::{Family, Profile};
use crate::time::{Duration, Instant};

/// Calls of the controller that a violation shows.
pub(super) const HISTORY: usize = 5;

/// A call of the controller in a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// The decision or event, as in [`Breach::Differs`].
    pub(super) advice: &'static str,
    /// The time of the call.
    pub(super) at: Instant,
    /// Message and retransmissions so far of its exchange, if it has one.
    pub(super) exchange: Option<(Kind, u8)>,
    /// The timer it returned, if it did.
    pub(super) timer: Option<Duration>,
}

impl Call {
    /// No call.
    pub(super) const NONE: Self = Self {
        advice: "",
        at: Instant::ZERO,
        exchange: None,
        timer: None,
    };

    /// The function of [`Controller`] that was called.
    fn function(&self) -> &'static str {
        match self.advice {
            "first timer" => "first_timeout",
            "next timer" => "next_timeout",
            "stamp" => "on_sent",
            "loss" => "on_lost",
            "answer" => "on_answered",
            "end" => "on_abandoned",
            "departure" => "earliest_departure_time",
            "late answer" => "on_late_answer",
            "signal" => "on_signal",
            other => other,
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.since(Instant::ZERO);
        write!(f, "{} at {at}", self.function())?;
        if let Some((kind, retransmissions)) = self.exchange {
            let kind = match kind {
                Kind::Request => "request",
                Kind::Response => "response",
                Kind::Notification => "notification",
            };
            write!(f, ", {kind} with {retransmissions} retransmissions")?;
        }
        match self.timer {
            Some(timer) => write!(f, " -> {timer}"),
            None => Ok(()),
        }
    }
}

/// Check of a family: trials of every profile, each with a seed.
///
/// ```
/// use carob_cc::algorithms::cocoa::Cocoa;
/// use carob_cc::contract::Check;
///
/// if let Err(violation) = Check::<Cocoa>::new().seeds(0..4).run() {
///     panic!("{violation}");
/// }
/// ```
#[derive(Clone, Debug)]
pub struct Check<F> {
    seeds: Range<u64>,
    steps: u32,
    family: PhantomData<fn() -> F>,
}

impl<F: Family + Controller> Default for Check<F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<F: Family + Controller> Check<F> {
    /// Creates a check of 64 seeds with 4,096 events each.
    pub fn new() -> Self {
        Self {
            seeds: 0..64,
            steps: 4_096,
            family: PhantomData,
        }
    }

    /// Sets the seeds.
    #[must_use]
    pub fn seeds(mut self, seeds: Range<u64>) -> Self {
        self.seeds = seeds;
        self
    }

    /// Sets the events of a trial.
    #[must_use]
    pub fn steps(mut self, steps: u32) -> Self {
        self.steps = steps;
        self
    }

    /// Runs the trials.
    ///
    /// # Errors
    ///
    /// The violation with the fewest events before it, of the first profile that has one.
    #[expect(
        clippy::result_large_err,
        reason = "a check returns once, and there is no heap"
    )]
    pub fn run(&self) -> Result<(), Violation> {
        for profile in F::PROFILES {
            let (mut steps, mut earliest) = (self.steps, None);
            for seed in self.seeds.clone() {
                // Later trials end before the step found, so that the shortest script remains.
                if let Err(violation) = trial::<F>(profile, seed, steps) {
                    steps = violation.step - 1;
                    earliest = Some(violation);
                }
            }
            if let Some(violation) = earliest {
                return Err(violation);
            }
        }
        Ok(())
    }
}

/// A trial: odd seeds with the longest exchanges and without a cap on timers.
#[expect(
    clippy::result_large_err,
    reason = "a trial returns once, and there is no heap"
)]
fn trial<F: Family + Controller>(
    profile: &'static Profile<F::Constants>,
    seed: u64,
    steps: u32,
) -> Result<(), Violation> {
    let new = || F::new(&profile.constants);
    let mut parameters = profile.suggested.apply(TransmissionParameters::DEFAULT);
    if seed % 2 == 1 {
        parameters.max_retransmit = TransmissionParameters::MAX_RETRANSMIT_LIMIT;
        parameters.rto_max = None;
    }
    let mut trial = Trial::new(new(), new(), F::SHRINKS).with_parameters(parameters);
    let mut random = Lcg(seed);
    for step in 1..=steps {
        trial.step(&mut random).map_err(|breach| {
            let mut calls = [Call::NONE; HISTORY];
            for (place, call) in calls.iter_mut().zip(trial.calls()) {
                *place = *call;
            }
            Violation {
                controller: profile.name,
                seed,
                step,
                breach,
                calls,
            }
        })?;
    }
    Ok(())
}

/// A breach of the contract, with the events before it. Its text has at most ten lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The profile.
    pub controller: &'static str,
    /// The seed of the trial.
    pub seed: u64,
    /// The event of the trial at which it was found; 1 is the first.
    pub step: u32,
    /// The breach.
    pub breach: Breach,
    /// The latest calls of the controller, the latest first.
    calls: [Call; HISTORY],
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            controller,
            seed,
            step,
            breach,
            calls,
        } = self;
        let end = seed.saturating_add(1);
        writeln!(f, "{controller} violates the contract of controllers:")?;
        writeln!(f, "  event     {}", calls[0])?;
        writeln!(f, "  returned  {breach}")?;
        writeln!(f, "  rule      {}", breach.rule())?;
        let earlier = calls[1..].iter().filter(|call| **call != Call::NONE);
        for (place, call) in earlier.enumerate() {
            let label = if place == 0 { "before" } else { "" };
            writeln!(f, "  {label:<8}  {call}")?;
        }
        write!(
            f,
            "  repeat    .seeds({seed}..{end}).steps({step}) on this Check"
        )
    }
}

impl core::error::Error for Violation {}
