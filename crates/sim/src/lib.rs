//! Deterministic network simulator that runs Carob's own protocol code.
//!
//! This crate reads no clock, starts no thread, opens no socket and draws only from the streams it
//! is given. A run is a pure function of its [`spec::RunSpec`], proven by its [`trace`] hash. Times
//! are whole microseconds, probabilities 32-bit thresholds. The one floating-point function in the
//! path of a packet is the logarithm of exponential draws ([`random::Stream::exponential`]), from
//! the `libm` crate, so that it rounds alike on every machine.
//!
//! Reading order: [`random`] (independent streams), [`link`] (a packet on a constrained link),
//! [`queue`] (event queue), [`trace`] (events of a run), [`spec`] (specification and record of a
//! run), [`engine`] (the event loop of a run), `net` (networks: [`link`] and [`mesh`]), `app`
//! (applications: requests, [`notifications`], [`mesh_traffic`]), [`fault`] (restarts, rebinding, outages), [`tcp`] (TCP model for CoAP over
//! TCP), [`capture`] (packet capture), [`pcapng`] (files of packets), and with the feature `testing` the module `testing`.
//!
//! ```
//! use carob_cc::time::Instant;
//! use carob_sim::link::{Direction, DirectionSpec, Verdict};
//!
//! let mut downlink = Direction::new(&DirectionSpec::new(30_000, 2_500), 1, "link/down");
//! let Verdict::Deliver { at, .. } = downlink.offer(Instant::ZERO, 296) else { unreachable!() };
//! assert_eq!(at.as_micros(), 78_933); // 296 x 8 / 30000 s, rounded down
//! ```

mod app;
pub mod capture;
mod client_groups;
pub mod distribution;
pub mod engine;
pub mod fault;
mod net;
pub mod pcapng;
pub mod registry;
pub mod spec;
pub mod tcp;
#[cfg(feature = "testing")]
pub mod testing;
pub mod trace;

pub use app::{mesh_traffic, notifications};
pub use carob_mesh as mesh;
pub use carob_sim_core::{hash, histogram, queue, random};
pub use engine::NO_ITEM;
pub use net::link;

/// The program of the documentation's page on simulated networks.
#[cfg(doctest)]
#[doc = include_str!("../pages/simulated-network.md")]
struct SimulatedNetwork;
