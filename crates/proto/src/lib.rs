//! CoAP without sockets, clocks or threads.
//!
//! [`Endpoint`] is both client and server. A driver feeds it datagrams, requests and the passing
//! of time, and after each of these drains [`Endpoint::poll`] until it says
//! [`Output::Wait`](endpoint::Output::Wait). The same code runs under tokio, in the simulator and
//! in the emulator.
//!
//! Reading order: [`codec`] (the wire), [`message`] (owned requests and responses),
//! [`endpoint`] (the engine), then its parts: [`congestion`] (who decides who may send when),
//! [`message_id`], [`dedup`], [`echo`], [`prefix`], [`timers`], [`blockwise`], [`observe`]. Apart
//! from these, [`link_format`] is what a server says about its resources, and [`proxy`] what is done
//! to messages that are passed on.
//!
//! What it refuses to do: read a clock, open a socket, draw randomness of its own, or keep
//! anything without a named limit.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod address;
pub mod blockwise;
pub mod codec;
pub mod congestion;
pub mod counters;
pub mod dedup;
pub mod echo;
pub mod endpoint;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod keyed_hash;
pub mod link_format;
pub mod message;
pub mod message_id;
pub mod observe;
mod peer;
pub mod prefix;
pub mod proxy;
pub mod rates;
pub mod recency;
pub mod shares;
pub mod timers;
pub mod trace;

pub use endpoint::Endpoint;
pub use message::{Request, Response};
