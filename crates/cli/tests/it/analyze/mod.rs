//! `carob analyze`, and `carob lab compare` on captures.

mod commands;
