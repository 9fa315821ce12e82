//! Congestion control for CoAP: evidence in, advice out.
//!
//! A [`Controller`] hears facts about one peer (sent, answered, timed out, abandoned, signalled)
//! and gives advice (first timer, next timer, how much may be outstanding, when the next message
//! may leave, whether it must be confirmable). It reads no clock, opens no socket and draws no
//! randomness of its own: time and chance are arguments. There is no heap, no float and no
//! dependency, so a controller measured in the simulator is the one that runs on a class-1 device.
//!
//! Reading order: [`time`], [`random`], [`evidence`], [`controller`], then
//! [`algorithms::default`] as the smallest complete example, and
//! [`registry`] for how a name becomes a controller.
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
#![no_std]
#![warn(clippy::float_arithmetic, clippy::as_conversions)]

#[macro_use]
pub mod constants;
pub mod aggregate;
pub mod algorithms;
pub mod contract;
pub mod controller;
pub mod evidence;
pub mod parameters;
pub mod profile;
pub mod random;
pub mod ratio;
pub mod registry;
pub mod time;

pub use controller::Controller;
pub use parameters::TransmissionParameters;
pub use profile::TransmissionProfile;
pub use registry::AnyController;
