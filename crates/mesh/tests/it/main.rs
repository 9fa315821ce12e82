//! The integration tests of `carob-mesh`, one module a subject.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod lowpan_wire;
mod rpl;
mod saturation;
