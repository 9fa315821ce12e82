//! Test machinery, with the feature `testing` only: no scenario or result needs it.
//!
//! [`fleet`] keeps thousands of endpoints under faults for weeks and checks invariants. [`script`]
//! plays one exchange after the other, for comparison with real sockets. [`tcp_transfer`] is a
//! control of the TCP model without the CoAP stack.

pub mod fleet;
pub mod script;
pub mod tcp_transfer;
