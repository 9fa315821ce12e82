//! Five published studies as data: their tables, claims, and the results of repeating them.
//!
//! Reading order: [`papers`] (the published values), [`reproduce`] (both side by side),
//! [`claims`] (rules, facts and verdicts), [`calibration`] (open settings). Machinery that any study can use is in [`carob_lab`].
//!
//! ```
//! use carob_lab::statistics::Statistic;
//! use carob_studies::papers;
//!
//! assert_eq!(papers::expected("long-1c-none-2500", "default", Statistic::P50), Some(285.695));
//! ```

pub mod calibration;
pub mod claims;
pub mod papers;
pub mod reproduce;
