//! `carob analyze`, and `carob lab compare` on captures.

mod commands;
mod relay;
mod shaped;
