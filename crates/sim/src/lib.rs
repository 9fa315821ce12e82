//! Deterministic network simulator that runs Carob's own protocol code.
//!
//! Nothing in here reads a clock, starts a thread, opens a socket or draws randomness that was
//! not handed to it: a run is a pure function of its [`spec::RunSpec`], and its
//! [`trace`] hash says so. Times are whole microseconds, probabilities 32-bit thresholds; the one
//! floating-point function in the path of a packet is the logarithm behind exponential draws
//! ([`random::Stream::exponential`]), taken from the `libm` crate so that it rounds alike everywhere.
//!
//! Reading order: [`random`] (streams that do not disturb each other), [`link`] (what happens to
//! a packet on a constrained link), [`queue`] (what happens next), [`trace`] (what happened),
//! [`spec`] (what a run is told and what it tells), [`world`] (a run), [`notifications`] (a run in which
//! clients observe), [`mesh`] (wireless networks), [`script`] (what is said),
//! [`tcp`] (what CoAP over TCP runs on), [`capture`] (packets as a sniffer sees them).
//!
//! ```
//! use carob_cc::time::Instant;
//! use carob_sim::link::{Direction, DirectionSpec, Verdict};
//!
//! let mut downlink = Direction::new(&DirectionSpec::new(30_000, 2_500), 1, "link/down");
//! let Verdict::Deliver { at, .. } = downlink.offer(Instant::ZERO, 296) else { unreachable!() };
//! assert_eq!(at.as_micros(), 78_933); // 296 x 8 / 30000 s, rounded down
//! ```

mod alarm;
pub mod capture;
pub mod fleet;
mod fragments;
mod groups;
pub mod hash;
mod host;
pub mod link;
pub mod mesh;
pub mod notifications;
pub mod queue;
pub mod random;
pub mod script;
pub mod spec;
mod store;
pub mod tcp;
pub mod trace;
pub mod world;

pub use host::NO_ITEM;
