//! Deterministic network simulator that runs Carob's own protocol code.
//!
//! This crate reads no clock, starts no thread, opens no socket and draws only from the streams it
//! is given. A run is a pure function of its [`spec::RunSpec`], proven by its [`trace`] hash. Times
//! are whole microseconds, probabilities 32-bit thresholds. The one floating-point function in the
//! path of a packet is the logarithm of exponential draws ([`random::Stream::exponential`]), from
//! the `libm` crate, so that it rounds alike on every machine.
//!
//! Reading order: [`random`] (independent streams), [`link`] (a packet on a constrained link),
//! [`mesh`] (wireless networks), [`tcp`] (TCP model for CoAP over TCP), [`queue`] (event queue),
//! [`trace`] (events of a run), [`spec`] (specification and record of a run), `engine` (the event
//! loop, hosts, faults, and the traits of networks and applications), `net` (link and mesh as
//! networks), `app` (applications: requests, [`notifications`], [`mesh_traffic`]), [`run()`], [`capture`]
//! (packet capture), [`pcapng`] (files of packets), and with the feature `testing` the module `testing`.
//! Each imports only modules before it.
//!
//! ```
//! use carob_cc::time::Instant;
//! use carob_sim::link::{Direction, DirectionSpec, Verdict};
//!
//! let mut downlink = Direction::new(&DirectionSpec::new(30_000, 2_500), 1, "link/down");
//! let Verdict::Deliver { at, .. } = downlink.offer(Instant::ZERO, 296) else { unreachable!() };
//! assert_eq!(at.as_micros(), 78_933); // 296 x 8 / 30000 s, rounded down
//! ```

mod address;
mod app;
pub mod capture;
pub mod distribution;
mod engine;
pub mod link;
mod net;
pub mod packet;
pub mod pcapng;
pub mod registry;
mod run;
pub mod server_queue;
pub mod spec;
pub mod tcp;
#[cfg(feature = "testing")]
pub mod testing;
pub mod trace;

pub use carob_mesh as mesh;
pub use carob_sim_core::{hash, histogram, queue, random};
pub use run::run;
pub use spec::{mesh_traffic, notifications};
pub use trace::NO_ITEM;

/// The program of the documentation's page on simulated networks.
#[cfg(doctest)]
#[doc = include_str!("../pages/simulated-network.md")]
struct SimulatedNetwork;
