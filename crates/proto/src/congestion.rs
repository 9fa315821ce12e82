//! Which controller a peer gets, and the box it lives in.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::net::SocketAddr;

use carob_cc::registry::{Entry, Settings};
use carob_cc::{AnyController, Controller};

/// A choice of controller, from which each peer's own is built.
#[derive(Clone)]
#[non_exhaustive]
pub enum Choice {
    /// A profile of the registry.
    Registered(Entry),
    /// A registered family with other constants.
    Tuned(&'static Settings),
    /// One from outside the registry.
    Custom(Arc<Build>),
}

/// Builds a controller of one's own for a peer.
pub type Build = dyn Fn(SocketAddr) -> Box<dyn Controller + Send> + Send + Sync;

impl Choice {
    /// The registered controller of that name.
    pub fn named(name: &str) -> Result<Self, carob_cc::registry::UnknownController<'_>> {
        carob_cc::registry::find(name).map(Self::Registered)
    }

    /// Its name in the registry, that of its family if it has other constants, or `custom`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Registered(entry) => entry.name,
            Self::Tuned(settings) => settings.family(),
            Self::Custom(_) => "custom",
        }
    }

    /// A controller for `peer`.
    pub(crate) fn build(&self, peer: SocketAddr) -> Congestion {
        match self {
            Self::Registered(entry) => Congestion::Registered(entry.build()),
            Self::Tuned(settings) => Congestion::Registered(settings.build()),
            Self::Custom(build) => Congestion::Custom(build(peer)),
        }
    }
}

impl fmt::Debug for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registered(entry) => f.write_str(entry.name),
            Self::Tuned(settings) => write!(f, "{settings:?}"),
            Self::Custom(_) => f.write_str("custom"),
        }
    }
}

impl Default for Choice {
    /// `default`, RFC 7252's own.
    fn default() -> Self {
        Self::named("default").expect("the registry has RFC 7252's controller")
    }
}

/// One peer's controller.
#[derive(Debug)]
pub(crate) enum Congestion {
    Registered(AnyController),
    Custom(Box<dyn Controller + Send>),
}

impl Congestion {
    pub(crate) fn controller(&mut self) -> &mut dyn Controller {
        match self {
            Self::Registered(controller) => controller,
            Self::Custom(controller) => controller.as_mut(),
        }
    }

    pub(crate) fn as_ref(&self) -> &dyn Controller {
        match self {
            Self::Registered(controller) => controller,
            Self::Custom(controller) => controller.as_ref(),
        }
    }
}
