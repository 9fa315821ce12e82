//! Congestion control for CoAP: one [`Controller`] per peer receives events and returns decisions.
//!
//! Events are transmissions, answers, timeouts, losses, abandoned exchanges and signals. Decisions
//! are the first timer, the next timer, the window of outstanding messages, departure times
//! (pacing), and CON in place of NON. A controller reads no clock and draws no random numbers of
//! its own: both are arguments. There is no heap, no floating point and no dependency, so the code
//! that the simulator measures runs on class-1 devices (RFC 7228).
//!
//! | task | start with |
//! |---|---|
//! | choose a controller by name | [`registry::find`], [`registry::entries`], [`algorithms`] |
//! | change its constants | [`registry::Entry::settings`], [`constants`](mod@constants) |
//! | write a controller | [`Controller`] (with an example), [`evidence`] |
//! | test a controller | [`contract`] |
//! | set RFC 7252's transmission parameters | [`TransmissionParameters`] |
//! | share a budget between peers behind one bottleneck | [`bottleneck_group`] |
//!
//! ```
//! use carob_cc::{evidence::Start, random::Fixed, registry, time::Instant, Controller};
//!
//! let entry = registry::find("cocoa-03").unwrap();
//! let mut controller = entry.build();
//! let parameters = entry.suggested.apply(Default::default());
//! let start = Start::new(Instant::ZERO, &parameters);
//! let timer = controller.first_timeout(&start, &mut Fixed::low());
//! assert_eq!(timer.timeout, parameters.ack_timeout);
//! ```
//!
//! The smallest controller of the registry is [`algorithms::default`].
#![no_std]
#![warn(clippy::float_arithmetic, clippy::as_conversions)]

#[macro_use]
pub mod constants;
pub mod algorithms;
pub mod bottleneck_group;
pub mod contract;
pub mod controller;
pub mod evidence;
pub mod parameters;
pub mod random;
pub mod ratio;
pub mod registry;
pub mod time;

pub use controller::Controller;
pub use parameters::TransmissionParameters;
pub use registry::AnyController;
