//! From a name to a controller.
//!
//! [`entries`] lists every controller there is; command line, scenario files, documentation
//! and the contract suite read it, so a new one needs no mention elsewhere.

use core::fmt;

pub use crate::algorithms::{AnyController, Settings, entries};
use crate::constants::Constants;
use crate::parameters::TransmissionParameters;
use crate::time::Duration;

/// Transmission parameters a profile suggests; scenario and command line override them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Suggested {
    /// MAX_RETRANSMIT, where the source sets its own.
    pub max_retransmit: Option<u8>,
    /// Cap on backed-off timers, where the source has one.
    pub rto_max: Option<Duration>,
}

impl Suggested {
    /// Nothing but the RFC's defaults.
    pub const NONE: Self = Self {
        max_retransmit: None,
        rto_max: None,
    };

    /// `parameters` with what is suggested in place.
    #[must_use]
    pub fn apply(&self, mut parameters: TransmissionParameters) -> TransmissionParameters {
        if let Some(max_retransmit) = self.max_retransmit {
            parameters.max_retransmit = max_retransmit;
        }
        if self.rto_max.is_some() {
            parameters.rto_max = self.rto_max;
        }
        parameters
    }
}

/// One named profile of a family: an algorithm with its constants as one source has them.
#[derive(Clone, Copy, Debug)]
pub struct Profile<C: 'static> {
    /// The registry id.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub about: &'static str,
    /// Where its rules come from.
    pub source: &'static str,
    /// What has no source and is this project's choice, and why it is what it is.
    pub project_choice: Option<&'static str>,
    /// Its constants.
    pub constants: C,
    /// The transmission parameters it suggests.
    pub suggested: Suggested,
}

/// A family of controllers: one mechanism, any number of profiles.
pub trait Family: Sized {
    /// What its profiles differ in.
    type Constants: Constants;
    /// The profiles.
    const PROFILES: &'static [Profile<Self::Constants>];
    /// A timer can be shorter than the one before it in the same exchange.
    const SHRINKS: bool = false;
    /// A controller for one peer. Constants are shared by all peers, never copied into them.
    fn new(constants: &'static Self::Constants) -> Self;
}

/// A controller of the registry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The registry id.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub about: &'static str,
    /// Where its rules come from.
    pub source: &'static str,
    /// What has no source and is this project's choice, and why it is what it is.
    pub project_choice: Option<&'static str>,
    /// A timer of it can be shorter than the one before it in the same exchange.
    pub shrinks: bool,
    /// The transmission parameters it suggests.
    pub suggested: Suggested,
    /// Its type below [`algorithms`](crate::algorithms), such as `cocoa::Cocoa`.
    pub path: &'static str,
    /// Bytes of state for one peer, here.
    pub state_bytes: usize,
    pub(crate) settings: fn(usize) -> Settings,
    pub(crate) build: fn(usize) -> AnyController,
    pub(crate) index: usize,
}

impl Entry {
    /// A controller for one peer, with the profile's own constants.
    pub fn build(&self) -> AnyController {
        (self.build)(self.index)
    }

    /// Its constants, to be changed and built from with [`Settings::build`].
    pub fn settings(&self) -> Settings {
        (self.settings)(self.index)
    }

    /// The family it is a profile of, by the name of its module, such as `observe_static`.
    pub fn family(&self) -> &'static str {
        self.settings().family()
    }
}

/// The controller of that name.
pub fn find(name: &str) -> Result<Entry, UnknownController<'_>> {
    entries()
        .find(|entry| entry.name == name)
        .ok_or(UnknownController { name })
}

/// No controller has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownController<'a> {
    /// The name that was asked for.
    pub name: &'a str,
}

impl fmt::Display for UnknownController<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown controller \"{}\"; there are", self.name)?;
        for (i, entry) in entries().enumerate() {
            write!(f, "{}{}", if i == 0 { " " } else { ", " }, entry.name)?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownController<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::collections::BTreeSet;
    use std::string::ToString;

    #[test]
    fn names_are_unique_and_found() {
        let names: BTreeSet<_> = entries().map(|e| e.name).collect();
        assert_eq!(names.len(), entries().count());
        for entry in entries() {
            assert_eq!(find(entry.name).map(|e| e.name), Ok(entry.name));
        }
    }

    #[test]
    fn state_fits_a_class_1_device() {
        for entry in entries() {
            let most = if entry.name.contains("cocoa") { 64 } else { 96 };
            let bytes = entry.state_bytes;
            assert!(bytes <= most, "{}: {bytes} bytes", entry.name);
        }
    }

    #[test]
    fn profiles_of_a_family_stand_together() {
        let families: std::vec::Vec<_> = entries().map(|e| e.family()).collect();
        let together = families.chunk_by(|a, b| a == b).count();
        let different: BTreeSet<_> = families.iter().collect();
        assert_eq!(together, different.len());
        assert_eq!(find("cocoa-03").map(|e| e.family()), Ok("cocoa"));
    }

    #[test]
    fn every_source_ends_with_the_section_of_its_controller() {
        for entry in entries() {
            let section = std::format!("docs/algorithms.md#{}", entry.name);
            assert!(entry.source.ends_with(&section), "{}", entry.source);
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let text = find("cocoa-99").map(|e| e.name).unwrap_err().to_string();
        assert!(
            text.contains("cocoa-99") && text.contains("cocoa-03"),
            "{text}"
        );
    }
}
