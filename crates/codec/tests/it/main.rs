//! The integration tests of `carob-codec`, one module a subject.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod corpus;
mod link_format;
mod numbers;
mod properties;
#[path = "../../../../vectors/corpus/reader.rs"]
mod reader;
mod vectors;
