//! Registry of controllers by name: [`carob_cc::registry`], and families of an application.
//!
//! A family outside this project implements [`Family`] and [`Controller`], as in `carob-cc`,
//! and is listed in a [`Registry`]. The registry is a value; nothing here keeps one.
//!
//! ```
//! use carob_cc::evidence::{Expired, Start};
//! use carob_cc::registry::{Family, Profile, Suggested};
//! use carob_cc::{Controller, controller::Timer, random::Random, ratio::Ratio};
//! use carob_sim::registry::{ExternalFamily, Registry};
//!
//! carob_cc::constants! {
//!     /// Constants of [`Stretched`].
//!     pub struct Constants {
//!         /// factor between a timer and the next
//!         factor: Ratio,
//!     }
//! }
//!
//! #[derive(Debug)]
//! struct Stretched(&'static Constants);
//!
//! impl Controller for Stretched {
//!     fn first_timeout(&mut self, start: &Start<'_>, _: &mut dyn Random) -> Timer {
//!         start.parameters.ack_timeout.into()
//!     }
//!
//!     fn next_timeout(&mut self, expired: &Expired<'_>, _: &mut dyn Random) -> Timer {
//!         expired.timeout.scale(self.0.factor).into()
//!     }
//! }
//!
//! impl Family for Stretched {
//!     type Constants = Constants;
//!     const PROFILES: &'static [Profile<Constants>] = &[Profile {
//!         name: "stretched",
//!         about: "Timers that grow by a constant factor.",
//!         source: "this example",
//!         project_choice: None,
//!         constants: Constants { factor: Ratio::new(3, 1) },
//!         suggested: Suggested::NONE,
//!     }];
//!
//!     fn new(constants: &'static Constants) -> Self {
//!         Self(constants)
//!     }
//! }
//!
//! static FAMILIES: [ExternalFamily; 1] = [ExternalFamily::of::<Stretched>()];
//!
//! let registry = Registry::with(&FAMILIES);
//! registry.check()?;
//! let entry = registry.find("stretched").unwrap();
//! let mut settings = entry.settings();
//! settings.set("factor", "5/2").unwrap();
//! assert_eq!(settings.to_string(), "factor = 2.5");
//! assert_eq!(entry.choice().name(), "custom");
//! assert!(Registry::BUILT_IN.find("stretched").is_err());
//! # Ok::<(), carob_sim::registry::RegistryError>(())
//! ```

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use carob_cc::Controller;
use carob_cc::constants::{Constant, Constants as _, SetError};
use carob_cc::registry::{self, ALIASES, Family, Suggested};
use carob_proto::congestion::CongestionControl;

/// Controllers by name. Default: the built-in ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registry {
    families: &'static [ExternalFamily],
}

impl Registry {
    /// The controllers of `carob-cc` alone.
    pub const BUILT_IN: Self = Self { families: &[] };

    /// Creates a registry with the families of an application after the built-in ones.
    pub const fn with(families: &'static [ExternalFamily]) -> Self {
        Self { families }
    }

    /// Returns every controller, family by family.
    pub fn entries(self) -> impl Iterator<Item = Entry> {
        registry::entries()
            .map(Entry::from)
            .chain(self.external_entries())
    }

    /// Returns the controllers of the application's families.
    pub fn external_entries(self) -> impl Iterator<Item = Entry> {
        let all = self.families.iter();
        all.flat_map(|family| (0..family.profiles).map(|index| (family.entry)(index)))
    }

    /// Returns every name.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        self.entries().map(|entry| entry.name)
    }

    /// Returns the controller with this name or alias.
    ///
    /// # Errors
    ///
    /// [`UnknownName`], whose text has the nearest names.
    pub fn find(self, name: &str) -> Result<Entry, UnknownName> {
        if let Ok(entry) = registry::find(name) {
            return Ok(entry.into());
        }
        let found = self.external_entries().find(|entry| entry.name == name);
        found.ok_or_else(|| UnknownName {
            name: name.to_owned(),
            near: registry::nearest(name, self.names()).collect(),
        })
    }

    /// Checks the names of the application's controllers: lower-case letters, digits and hyphens, each
    /// once, none of a built-in controller or alias.
    ///
    /// # Errors
    ///
    /// The first wrong name.
    pub fn check(self) -> Result<(), RegistryError> {
        let of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        for (place, entry) in self.external_entries().enumerate() {
            let name = entry.name;
            let starts_well = name.starts_with(|c: char| c.is_ascii_lowercase());
            if !starts_well || !name.chars().all(of_name) {
                return Err(RegistryError::BadName { name });
            }
            let is_alias = ALIASES.iter().any(|(alias, _)| *alias == name);
            let mut earlier = self.external_entries().take(place);
            // The lab's names of TCP algorithms, and the word for every controller.
            let is_reserved = name.starts_with("tcp-") || name == "all";
            if is_alias
                || is_reserved
                || registry::find(name).is_ok()
                || earlier.any(|other| other.name == name)
            {
                return Err(RegistryError::Taken { name });
            }
        }
        Ok(())
    }
}

/// Name that cannot be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegistryError {
    /// Characters other than lower-case letters, digits and hyphens, or no letter first.
    BadName {
        /// The name.
        name: &'static str,
    },
    /// A controller or an alias has this name, or it is reserved: `all`, `tcp-*`.
    Taken {
        /// The name.
        name: &'static str,
    },
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadName { name } => write!(
                f,
                "controller name \"{name}\": expected a letter, then lower-case letters, digits and hyphens"
            ),
            Self::Taken { name } => write!(f, "controller name \"{name}\" is taken"),
        }
    }
}

impl std::error::Error for RegistryError {}

/// No controller of a registry has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// The unknown name.
    pub name: String,
    /// The nearest names, the nearest first.
    pub near: Vec<&'static str>,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        registry::write_unknown(f, &self.name, self.near.iter().copied())
    }
}

impl std::error::Error for UnknownName {}

/// Family of controllers outside `carob-cc`, without its type.
#[derive(Clone, Copy)]
pub struct ExternalFamily {
    profiles: usize,
    entry: fn(usize) -> Entry,
}

impl fmt::Debug for ExternalFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = (0..self.profiles).map(|index| (self.entry)(index).name);
        f.debug_list().entries(names).finish()
    }
}

impl ExternalFamily {
    /// Describes a family with all its profiles.
    pub const fn of<F>() -> Self
    where
        F: Family + Controller + Send + 'static,
        F::Constants: Send + Sync,
    {
        Self {
            profiles: F::PROFILES.len(),
            entry: entry_of::<F>,
        }
    }
}

fn entry_of<F>(index: usize) -> Entry
where
    F: Family + Controller + Send + 'static,
    F::Constants: Send + Sync,
{
    let profile = &F::PROFILES[index];
    let path = std::any::type_name::<F>();
    let module = path.rsplit("::").nth(1).unwrap_or(path);
    Entry {
        name: profile.name,
        about: profile.about,
        source: profile.source,
        project_choice: profile.project_choice,
        shrinks: F::SHRINKS,
        suggested: profile.suggested,
        path,
        state_bytes: size_of::<F>(),
        family: module,
        origin: Origin::External {
            index,
            settings: |index| {
                let constants = F::PROFILES[index].constants;
                Box::new(Typed::<F>(constants, PhantomData))
            },
            build: |index| Box::new(F::new(&F::PROFILES[index].constants)),
        },
    }
}

/// A controller of a [`Registry`].
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The registry id.
    pub name: &'static str,
    /// Description in a sentence.
    pub about: &'static str,
    /// Source of its rules.
    pub source: &'static str,
    /// Choices of its authors without a source, and their reasons.
    pub project_choice: Option<&'static str>,
    /// True if a timer can be shorter than the previous one of its exchange.
    pub shrinks: bool,
    /// The transmission parameters it suggests.
    pub suggested: Suggested,
    /// Its type: below `carob_cc::algorithms` for one of `carob-cc`, else its full path.
    pub path: &'static str,
    /// State for one peer in bytes, on this machine.
    pub state_bytes: usize,
    /// The family: the module of its type, such as `observe_static`.
    pub family: &'static str,
    origin: Origin,
}

#[derive(Clone, Copy, Debug)]
enum Origin {
    BuiltIn(registry::Entry),
    External {
        index: usize,
        settings: fn(usize) -> Box<dyn ExternalSettings>,
        build: fn(usize) -> Box<dyn Controller + Send>,
    },
}

impl From<registry::Entry> for Entry {
    fn from(entry: registry::Entry) -> Self {
        Self {
            name: entry.name,
            about: entry.about,
            source: entry.source,
            project_choice: entry.project_choice,
            shrinks: entry.shrinks,
            suggested: entry.suggested,
            path: entry.path,
            state_bytes: entry.state_bytes,
            family: entry.family(),
            origin: Origin::BuiltIn(entry),
        }
    }
}

impl Entry {
    /// Returns the constants, to be changed.
    pub fn settings(&self) -> Settings {
        Settings(match self.origin {
            Origin::BuiltIn(entry) => Inner::BuiltIn(entry.settings()),
            Origin::External {
                index, settings, ..
            } => Inner::External(settings(index)),
        })
    }

    /// Returns the choice from which an endpoint builds each peer's controller.
    pub fn choice(&self) -> CongestionControl {
        match self.origin {
            Origin::BuiltIn(entry) => CongestionControl::Registered(entry),
            Origin::External { index, build, .. } => {
                CongestionControl::Custom(Arc::new(move |_| build(index)))
            }
        }
    }

    /// Builds a controller for one peer.
    pub fn build(&self) -> Box<dyn Controller + Send> {
        match self.origin {
            Origin::BuiltIn(entry) => Box::new(entry.build()),
            Origin::External { index, build, .. } => build(index),
        }
    }
}

/// Constants of a controller.
#[derive(Clone, Debug)]
pub struct Settings(Inner);

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one for each algorithm")]
enum Inner {
    BuiltIn(registry::Settings),
    External(Box<dyn ExternalSettings>),
}

impl Settings {
    /// Sets a constant by name from text, as `--set cc.<name>=<value>` does.
    ///
    /// # Errors
    ///
    /// [`SetError`]: no such constant, or a bad value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SetError> {
        match &mut self.0 {
            Inner::BuiltIn(settings) => settings.set(name, value),
            Inner::External(settings) => settings.set(name, value),
        }
    }

    /// Visits every constant with its value.
    pub fn describe(&self, visit: &mut dyn FnMut(Constant<'_>)) {
        match &self.0 {
            Inner::BuiltIn(settings) => settings.describe(visit),
            Inner::External(settings) => settings.describe(visit),
        }
    }

    /// Returns the choice from which an endpoint builds controllers with these constants.
    pub fn choice(&'static self) -> CongestionControl {
        match &self.0 {
            Inner::BuiltIn(settings) => CongestionControl::Tuned(settings),
            Inner::External(settings) => {
                CongestionControl::Custom(Arc::new(move |_| settings.build()))
            }
        }
    }

    /// Builds a controller for one peer with these constants.
    pub fn build(&'static self) -> Box<dyn Controller + Send> {
        match &self.0 {
            Inner::BuiltIn(settings) => Box::new(settings.build()),
            Inner::External(settings) => settings.build(),
        }
    }
}

impl fmt::Display for Settings {
    /// `alpha = 1/8, beta = 1/4, ...`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut texts = Vec::new();
        self.describe(&mut |c| texts.push(format!("{} = {}", c.name, c.value)));
        f.write_str(&texts.join(", "))
    }
}

/// Constants of a family whose type is unknown here.
trait ExternalSettings: fmt::Debug + Send + Sync {
    fn set(&mut self, name: &str, value: &str) -> Result<(), SetError>;
    fn describe(&self, visit: &mut dyn FnMut(Constant<'_>));
    fn duplicate(&self) -> Box<dyn ExternalSettings>;
    fn build(&'static self) -> Box<dyn Controller + Send>;
}

impl Clone for Box<dyn ExternalSettings> {
    fn clone(&self) -> Self {
        self.duplicate()
    }
}

/// Constants of the family `F`.
struct Typed<F: Family>(F::Constants, PhantomData<fn() -> F>);

impl<F: Family> fmt::Debug for Typed<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<F> ExternalSettings for Typed<F>
where
    F: Family + Controller + Send + 'static,
    F::Constants: Send + Sync,
{
    fn set(&mut self, name: &str, value: &str) -> Result<(), SetError> {
        self.0.set(name, value)
    }

    fn describe(&self, visit: &mut dyn FnMut(Constant<'_>)) {
        self.0.describe(visit);
    }

    fn duplicate(&self) -> Box<dyn ExternalSettings> {
        Box::new(Self(self.0, PhantomData))
    }

    fn build(&'static self) -> Box<dyn Controller + Send> {
        Box::new(F::new(&self.0))
    }
}
