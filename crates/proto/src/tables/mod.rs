//! Bounded tables and their parts: keyed maps, LRU lists, quotas and rate limits.
//!
//! The crate `carob` has tables of its own, made of the same parts; nothing else may rely on this
//! module.

pub(crate) mod bounded_map;
pub mod keyed_hash;
pub mod lru;
pub mod quota;
pub mod rate_limit;
