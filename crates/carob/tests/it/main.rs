//! The integration tests of `carob`, one module a subject.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests measure real time, and stop at the first surprise"
)]

mod admission;
mod allocations;
mod bodies;
mod caching;
mod common;
mod conditions;
mod connections;
mod discovery;
mod errors;
mod examples;
mod flood;
mod groups;
mod handshake_limits;
mod handshakes;
mod lost_sessions;
mod mapped_addresses;
mod methods;
mod metrics;
mod negotiation;
mod observing;
mod parameters;
mod peers;
mod proxy;
mod routing;
mod secure;
mod secure_attacks;
mod secured;
mod serving;
mod sockets;
mod suspension;
mod tracing;
mod zeroized;
