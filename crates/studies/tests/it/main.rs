//! The integration tests of `carob-studies`, one module a subject.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod cocoaplus;
mod emulated;
mod nonobserve;
mod rpl;
mod thesis_long;
mod wireless;
