//! The choice of a peer's congestion controller.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::net::SocketAddr;

use carob_cc::registry::SmallController;
use carob_cc::registry::{Entry, Settings};
use carob_cc::{AnyController, Controller};

/// Choice of a congestion controller, from which each peer's own instance is built. Default:
/// `default`, from RFC 7252.
///
/// ```
/// use std::sync::Arc;
/// use carob_cc::evidence::{Expired, Start};
/// use carob_cc::{Controller, controller::Timer, random::Random};
/// use carob_proto::congestion::CongestionControl;
///
/// // By name in the registry, with the constants of its profile.
/// let registered = CongestionControl::named("cocoa-plus")?;
///
/// // A controller of the application. See `Controller` for a complete one.
/// #[derive(Debug)]
/// struct Fixed;
///
/// impl Controller for Fixed {
///     fn first_timeout(&mut self, start: &Start<'_>, _: &mut dyn Random) -> Timer {
///         start.parameters.ack_timeout.into()
///     }
///
///     fn next_timeout(&mut self, expired: &Expired<'_>, _: &mut dyn Random) -> Timer {
///         expired.timeout.times(2).into()
///     }
/// }
///
/// let custom = CongestionControl::Custom(Arc::new(|_peer| Box::new(Fixed)));
/// assert_eq!((registered.name(), custom.name()), ("cocoa-plus", "custom"));
/// # Ok::<(), carob_cc::registry::UnknownController<'_>>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum CongestionControl {
    /// Profile of the registry, with its own constants.
    Registered(Entry),
    /// Family of the registry with other constants ([`Entry::settings`]).
    Tuned(&'static Settings),
    /// Controller from outside the registry.
    Custom(Arc<Build>),
}

/// Function that builds a custom controller for the peer with this address.
pub(crate) type Build = dyn Fn(SocketAddr) -> Box<dyn Controller + Send> + Send + Sync;

impl CongestionControl {
    /// Returns the registered controller with this name or alias.
    ///
    /// # Errors
    ///
    /// [`UnknownController`](carob_cc::registry::UnknownController), whose text has the nearest
    /// names.
    pub fn named(name: &str) -> Result<Self, carob_cc::registry::UnknownController<'_>> {
        carob_cc::registry::find(name).map(Self::Registered)
    }

    /// Returns the name in the registry, the family's for [`Tuned`](Self::Tuned), or
    /// `custom`.
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
            Self::Registered(entry) => entry.build().into(),
            Self::Tuned(settings) => settings.build().into(),
            Self::Custom(build) => Congestion::Boxed(build(peer)),
        }
    }
}

impl fmt::Debug for CongestionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Registered(entry) => f.write_str(entry.name),
            Self::Tuned(settings) => write!(f, "{settings:?}"),
            Self::Custom(_) => f.write_str("custom"),
        }
    }
}

impl Default for CongestionControl {
    /// `default`, RFC 7252's own.
    fn default() -> Self {
        Self::named("default").expect("the registry has RFC 7252's controller")
    }
}

/// One peer's controller.
#[derive(Debug)]
pub(crate) enum Congestion {
    Small(SmallController),
    /// A custom controller, or a large one of the registry: peers without one have no room for it.
    Boxed(Box<dyn Controller + Send>),
}

impl From<AnyController> for Congestion {
    fn from(controller: AnyController) -> Self {
        match controller {
            AnyController::Small(controller) => Self::Small(controller),
            large @ AnyController::Carob(_) => Self::Boxed(Box::new(large)),
        }
    }
}

impl Congestion {
    pub(crate) fn controller(&mut self) -> &mut dyn Controller {
        match self {
            Self::Small(controller) => controller,
            Self::Boxed(controller) => controller.as_mut(),
        }
    }

    pub(crate) fn as_ref(&self) -> &dyn Controller {
        match self {
            Self::Small(controller) => controller,
            Self::Boxed(controller) => controller.as_ref(),
        }
    }
}
