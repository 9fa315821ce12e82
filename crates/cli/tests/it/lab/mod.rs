//! Commands of `carob lab`: stdout, stderr and exit codes.

mod captures;
mod compare;
mod emulated;
mod new;
mod next;
mod notifications;
mod run;
mod show;
mod sweep;
mod tcp;
mod wireless;

use serde_json::Value;

/// Member names of an object.
pub(crate) fn keys(value: &Value) -> Vec<&str> {
    let object = value.as_object().expect("an object");
    object.keys().map(String::as_str).collect()
}

pub(crate) const NONE: &str = "thesis/long-1c-none-2500";
pub(crate) const HIGH: &str = "thesis/long-1c-high-2500";
pub(crate) const STREAM: &str = "thesis/long-1c-none-28200";
