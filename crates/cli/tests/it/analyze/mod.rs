//! `carob analyze`, and `carob lab compare` and `carob try` on the same captures and paths.

mod commands;
mod dtls;
pub(crate) mod namespaces;
mod predictions;
mod relay;
mod shaped;
