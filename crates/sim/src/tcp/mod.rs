//! TCP for the simulator: a sans-I/O model that carries real bytes.
//!
//! A [`Socket`] is one end of one connection. It obeys the contract of the stack's endpoints
//! (inputs carry the time, [`Socket::poll`] is drained until it waits), so hosts drive both alike.
//! [`TcpSettings`] selects congestion control and variants; its named profiles describe particular
//! stacks. Interpretations of the sources are in `archive/adr/0014-tcp-model.md`.

pub mod congestion;
pub mod counters;
mod estimator;
mod receiver;
pub mod segment;
mod sender;
pub mod settings;
mod socket;

pub use receiver::OUT_OF_ORDER_MAX;
pub use segment::Ranges;
pub use segment::Segment;
pub use settings::TcpSettings;
pub use socket::{Event, Output, Socket, SocketError, State};
