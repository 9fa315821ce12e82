//! `carob analyze`, and `carob lab compare` on captures.

mod commands;
mod dtls;
mod namespaces;
mod predictions;
mod relay;
mod shaped;
