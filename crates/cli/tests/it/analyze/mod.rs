//! `carob analyze`, and `carob lab compare` on captures; `carob try` over the same paths.

mod commands;
mod dtls;
mod namespaces;
mod predictions;
mod relay;
mod shaped;
mod trial;
