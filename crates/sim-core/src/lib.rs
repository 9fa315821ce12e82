//! Primitives of discrete-event simulation, shared by `carob-sim` and `carob-mesh`.
//!
//! [`random`] has independent streams, [`queue`] the event queue, [`hash`] hashes of labels and
//! traces, [`histogram`] histograms of times, [`rc_slab`] reference-counted packets.
//!
//! ```
//! use carob_cc::time::{Duration, Instant};
//! use carob_sim_core::queue::EventQueue;
//! use carob_sim_core::random::Stream;
//!
//! let mut stream = Stream::new(1, "arrivals");
//! let mut queue = EventQueue::new();
//! queue.push(Instant::ZERO + stream.exponential(Duration::from_millis(100)), "packet");
//! assert_eq!(queue.pop().map(|(_, event)| event), Some("packet"));
//! ```

pub mod hash;
pub mod histogram;
pub mod queue;
pub mod random;
pub mod rc_slab;
