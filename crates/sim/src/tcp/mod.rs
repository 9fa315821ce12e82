//! TCP for the simulator: a sans-IO model that carries real bytes.
//!
//! A [`Socket`] is one end of one connection. It obeys the law of the stack's endpoints (inputs
//! carry the time, [`Socket::poll`] is drained until it waits), so hosts drive both alike. What it
//! does about congestion is set by [`TcpSettings`], whose named profiles
//! say whose TCP it is; readings are in `docs/adr/0014-tcp-model.md`.
//!
//! [`transfer`] runs request and response over a link without the CoAP stack: for calibration,
//! tests and `cargo run --release -p carob-sim --example tcp_transfer`.

pub mod congestion;
pub mod counters;
mod estimator;
mod receiver;
pub mod segment;
mod sender;
pub mod settings;
mod socket;
pub mod transfer;
pub mod wire;

pub use receiver::OUT_OF_ORDER_MAX;
pub use segment::Segment;
pub use settings::TcpSettings;
pub use socket::{Event, Output, Socket, SocketError, State};
