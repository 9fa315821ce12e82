//! Scenarios, statistics, the studies' tables and reports.
//!
//! Reading order: [`scenario`] (what to run), [`run`] (running it on all cores with an outcome
//! that does not depend on their number), [`metrics`] and [`statistics`] (what came out),
//! [`summary`] and [`export`] (tables for people and programs), [`papers`] (what the studies
//! printed), [`reproduce`] (both side by side), [`explained`] (the runs that a text explains),
//! [`replay`] (controllers on given round trips, without a network), [`report`] (figures and pages).
//!
//! ```
//! use carob_lab::papers;
//! use carob_lab::scenario::{Scenario, builtin};
//! use carob_lab::statistics::Statistic;
//!
//! let (file, _) = builtin::find("thesis/long").unwrap();
//! let scenario = Scenario::read(file.name, file.text, &["rto_max=32 s".to_owned()])?;
//! assert_eq!(scenario.cells()[0].name, "long-1c-none-2500");
//! assert_eq!(papers::expected("long-1c-none-2500", "default", Statistic::P50), Some(285.695));
//! # Ok::<(), carob_lab::scenario::ScenarioErrors>(())
//! ```

pub mod claims;
pub mod delivery;
pub mod emulate;
pub mod explained;
pub mod export;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod journal;
pub mod marks;
pub mod medians;
pub mod metrics;
mod packed;
mod paired;
pub mod papers;
pub mod pattern;
pub mod reading;
pub mod replay;
pub mod report;
pub mod reproduce;
pub mod run;
pub mod scenario;
mod shares;
pub mod statistics;
pub mod summary;
pub mod text;
pub mod timer_log;
mod transmission;

pub use carob_sim::world;
