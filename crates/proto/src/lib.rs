//! A CoAP engine without sockets, clocks or threads.
//!
//! [`Endpoint`] is client and server at once: message layer (RFC 7252), block-wise transfer (RFC
//! 7959), observations (RFC 7641), framing over TCP and WebSocket (RFC 8323), Echo and Request-Tag
//! (RFC 9175). A driver feeds it datagrams, requests and the time; after each input it drains
//! [`Endpoint::poll`] until that returns [`Output::Wait`](endpoint::Output::Wait). The same code
//! runs under tokio, in the simulator and in the emulator.
//!
//! | task | start with |
//! |---|---|
//! | run an endpoint | [`endpoint`] (with an example), [`endpoint::Config`] |
//! | read its events | [`endpoint::Event`], [`trace`], [`counters`] |
//! | set limits | [`endpoint::Limits`] |
//! | choose a congestion controller | [`congestion`] |
//! | parse and write messages | [`codec`], [`codec::MessageView`], [`message`] |
//! | parse and write URIs, options, blocks | [`codec::Uri`], [`codec::Options`], [`codec::BlockValue`] |
//! | list resources (RFC 6690) | [`link_format`] |
//!
//! The hidden modules (`cache_key`, `proxy`, `tables`) are shared with the crate `carob` and may change
//! in any version.
//!
//! The crate never reads a clock, opens a socket or draws random numbers by itself, and has no
//! state without a named limit. Applications on tokio use the crate `carob`.
#![no_std]
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod address;
mod admission;
mod block;
#[doc(hidden)]
pub mod cache_key;
mod capacity;
mod carrier;
mod client;
pub use carob_codec as codec;
mod config;
pub mod congestion;
mod context;
pub mod counters;
mod dedup;
mod echo;
pub mod endpoint;
mod escape;
mod event;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod limits;
pub use carob_codec::link_format;
pub mod message;
mod message_id;
mod message_layer;
mod observe;
mod option_rules;
pub mod prefix;
#[doc(hidden)]
pub mod proxy;
mod retransmission_count;
mod seeds;
mod server;
mod stream_layer;
#[doc(hidden)]
pub mod tables;
mod timers;
pub mod trace;
mod writing;

/// Block-wise transfer (RFC 7959, RFC 9177).
pub mod blockwise {
    pub use crate::block::{DownloadError, RequestedBlock};
}

pub use endpoint::Endpoint;
pub use escape::{Escaped, is_unprintable};
pub use message::{Request, Response};
