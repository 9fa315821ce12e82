//! Published studies: tables, claims, calibration, and the results of repeating five of them.
//!
//! Reading order: [`papers`] (the published values), [`comparison`] (published values beside measured ones),
//! [`reproduce`] (those of the five studies), [`claims`] (rules, facts and verdicts), [`calibration`] (open settings),
//! [`folder`] (a study outside the repository). Runs, metrics and quantities are in [`carob_lab`]; [`main`] is the
//! program `carob-studies`, which another crate can run with its own controllers.
//!
//! ```
//! use carob_lab::statistics::Statistic;
//! use carob_studies::papers;
//!
//! assert_eq!(papers::expected("long-1c-none-2500", "default", Statistic::P50), Some(285.695));
//! ```

pub mod calibration;
pub mod claims;
mod command;
pub mod comparison;
mod error;
pub mod folder;
pub mod papers;
pub mod reproduce;

pub use command::{main, run};
pub use error::StudyError;
