//! `carob analyze`, and `carob lab compare` on captures.

mod commands;
mod dtls;
mod namespaces;
mod relay;
mod shaped;
