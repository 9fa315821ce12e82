//! The integration tests of `carob-emu`, one module a subject.
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests measure real time, and stop at the first surprise"
)]

mod link;
mod runs;
