//! Test machinery, with the feature `testing` only: no scenario or result needs it.
//!
//! [`script`] plays one exchange after the other, for comparison with real sockets.

pub mod script;
