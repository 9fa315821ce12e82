//! Bounded tables and their parts: keyed maps, LRU lists, quotas and rate limits.
//!
//! The crate `carob` makes its own tables of the same parts.

pub(crate) mod bounded_map;
pub mod keyed_hash;
pub mod lru;
pub mod quota;
pub mod rate_limit;
