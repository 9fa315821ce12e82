//! Errors of calls.

use std::fmt::Display;

use carob_lab::compare::CompareError;
use carob_lab::run::{PlanError, RunSetupError};
use carob_lab::scenario::ScenarioErrors;
use carob_sim::spec::RunError;

/// A failed call.
#[derive(Debug)]
pub(crate) struct CallError {
    /// The mistake and its place.
    pub(crate) what: String,
    /// The remedy.
    pub(crate) remedy: String,
}

impl CallError {
    pub(crate) fn new(what: impl Display, remedy: &str) -> Self {
        Self {
            what: what.to_string(),
            remedy: remedy.to_owned(),
        }
    }
}

impl From<CompareError> for CallError {
    fn from(error: CompareError) -> Self {
        Self {
            what: error.what,
            remedy: error.remedy,
        }
    }
}

impl From<ScenarioErrors> for CallError {
    fn from(errors: ScenarioErrors) -> Self {
        Self::new(
            errors,
            "correct the settings; units are written, as in \"400 ms\"",
        )
    }
}

impl From<PlanError> for CallError {
    fn from(error: PlanError) -> Self {
        Self::new(error, "choose a cell of the list")
    }
}

impl From<RunSetupError> for CallError {
    fn from(error: RunSetupError) -> Self {
        Self::new(
            error,
            "change the link or the traffic so that runs are possible",
        )
    }
}

impl From<RunError> for CallError {
    fn from(error: RunError) -> Self {
        Self::new(
            error,
            "change the link or the traffic so that runs are possible",
        )
    }
}
