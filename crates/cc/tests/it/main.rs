//! The integration tests of `carob-cc`, one module a subject.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod contract;
mod exchange;
mod vectors;
mod windows;
