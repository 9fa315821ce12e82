//! Scenarios, runs, statistics and reports, for studies outside the repository.
//!
//! Reading order: [`scenario`] (what to run), [`run`] (running it on all cores with an outcome
//! that does not depend on their number), [`metrics`] and [`statistics`] (what came out),
//! [`summary`] and [`export`] (tables for people and programs), [`published`] (values of studies beside them),
//! [`quantity`] and [`sweep`] (expressions over runs, tables of them),
//! [`compare`] (which controller for one's own link), [`replay`] (controllers on given round trips, without a network), [`report`] (figures and pages).
//!
//! ```
//! use carob_lab::scenario::{Scenario, builtin};
//!
//! let (file, _) = builtin::find("thesis/long").unwrap();
//! let scenario = Scenario::read(file.name, file.text, &["rto_max=32 s".to_owned()])?;
//! assert_eq!(scenario.cells()[0].name, "long-1c-none-2500");
//! # Ok::<(), carob_lab::scenario::ScenarioErrors>(())
//! ```

pub mod compare;
pub mod csv;
pub mod export;
pub mod files;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod link_trace;
pub mod link_validation;
pub mod metrics;
pub mod paired;
pub mod pattern;
pub mod published;
pub mod quantity;
mod record_codec;
pub mod replay;
pub mod report;
pub mod run;
pub mod scenario;
pub mod statistics;
pub mod summary;
pub mod sweep;
#[cfg(test)]
mod testing;
pub mod text;
pub mod timer_log;

pub use carob_sim::hash::fnv1a as content_hash;
pub use carob_sim::registry;
