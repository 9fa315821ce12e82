//! The congestion controller of a group.

use std::fmt;

use carob_cc::Controller;
use carob_cc::constants::SetError;
use carob_proto::congestion::CongestionControl;

use crate::registry::{Entry, Registry, Settings};

/// A congestion controller, with its profile's constants or changed ones.
#[derive(Clone, Copy, Debug)]
pub struct ControllerSpec {
    entry: Entry,
    changed: Option<&'static Settings>,
}

impl Default for ControllerSpec {
    /// The stack's default controller.
    fn default() -> Self {
        let entry = match CongestionControl::default() {
            CongestionControl::Registered(entry) => entry.into(),
            _ => (Registry::BUILT_IN.entries().next()).expect("there are controllers"),
        };
        Self {
            entry,
            changed: None,
        }
    }
}

impl ControllerSpec {
    /// The built-in controller `name` with `constants` set in order, each a (name, value in text).
    ///
    /// Changed constants are leaked, since controllers refer to them for the life of the program.
    /// Create one specification per algorithm of a scenario and copy it, not one per run.
    pub fn new<'a>(
        name: &str,
        constants: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ControllerError> {
        Self::registered(Registry::BUILT_IN, name, constants)
    }

    /// The controller `name` of a registry, with constants as for [`new`](Self::new).
    pub fn registered<'a>(
        registry: Registry,
        name: &str,
        constants: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ControllerError> {
        let entry = registry
            .find(name)
            .map_err(|_| ControllerError::UnknownController {
                name: name.to_owned(),
            })?;
        let (mut settings, mut changed) = (entry.settings(), false);
        for (constant, value) in constants {
            settings
                .set(constant, value)
                .map_err(|why| ControllerError::BadConstant {
                    controller: name.to_owned(),
                    constant: constant.to_owned(),
                    value: value.to_owned(),
                    why,
                })?;
            changed = true;
        }
        Ok(Self {
            entry,
            changed: changed.then(|| &*Box::leak(Box::new(settings))),
        })
    }

    /// The specification from which an endpoint builds each peer's controller.
    pub fn choice(&self) -> CongestionControl {
        self.changed
            .map_or_else(|| self.entry.choice(), Settings::choice)
    }

    /// Builds a controller for one peer.
    pub fn build(&self) -> Box<dyn Controller + Send> {
        self.changed
            .map_or_else(|| self.entry.build(), Settings::build)
    }

    /// Its entry in the registry.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// The constants in force.
    pub fn settings(&self) -> Settings {
        self.changed
            .map_or_else(|| self.entry.settings(), Settings::clone)
    }
}

/// An invalid controller specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControllerError {
    /// The registry has no controller of that name.
    UnknownController {
        /// The requested name.
        name: String,
    },
    /// A constant is unknown to the controller, or its value has the wrong kind.
    BadConstant {
        /// The controller.
        controller: String,
        /// The constant.
        constant: String,
        /// The value in text.
        value: String,
        /// The error.
        why: SetError,
    },
}

impl fmt::Display for ControllerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownController { name } => write!(f, "unknown controller \"{name}\""),
            Self::BadConstant {
                controller,
                constant,
                why: SetError::UnknownName,
                ..
            } => {
                write!(f, "{controller} has no constant \"{constant}\"")
            }
            Self::BadConstant {
                constant,
                value,
                why,
                ..
            } => {
                write!(f, "cc.{constant} = \"{value}\": {why}")
            }
        }
    }
}

impl std::error::Error for ControllerError {}
