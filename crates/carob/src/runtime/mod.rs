//! The runtime: one task for each endpoint, which owns a transport and its engine.
//!
//! [`task`] is the loop of a task, [`core`](self::core) executes the engine's outputs and
//! the commands of applications. Applications reach a task by its [`Handle`] ([`messages`]); requests wait
//! in [`pending`]. A server is a [`Service`]. A client's endpoints are a [`TransportSet`], each
//! started at first use.

mod alarm;
mod core;
mod messages;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(not(feature = "metrics"))]
#[path = "metrics_disabled.rs"]
mod metrics;
mod pending;
mod service;
mod shared_observation;
mod spans;
mod start;
mod task;
mod transport_set;
mod updates;

pub use messages::ShutdownOutcome;
pub(crate) use messages::{
    Command, FailureCause, Handle, NewMulticast, NewRequest, Observing, Ping, Received, ReplyTo,
    RepresentationSink, RequestControl, RequestFailure, shutdown_all,
};
pub(crate) use metrics::Stopwatch;
pub(crate) use service::{Disposition, MakeService, Service, SessionFacts};
#[cfg(test)]
pub(crate) use start::start_failing;
#[cfg(feature = "dtls")]
pub(crate) use start::start_secured;
pub(crate) use start::{start, start_on, start_streams, start_together};
pub(crate) use transport_set::TransportSet;
pub(crate) use updates::{ObservationUpdate, Updates};
