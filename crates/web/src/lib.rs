//! The lab for a web page: calls in JSON, answered by the engine that the command uses.
//!
//! [`call`] takes one object of JSON and returns one: `{"ok": ...}`, or `{"error": ..., "remedy": ...}`. On
//! wasm32, `abi` exports it to JavaScript. Reading order: `source` (the scenario that a request names), `runs`
//! (rows, samples and rankings), `answer` (recommendation), `transcript` (one run to watch), `about` (lists).

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;

#[cfg(target_arch = "wasm32")]
pub mod abi;
mod about;
mod answer;
mod error;
mod mesh_transcript;
mod runs;
mod source;
mod transcript;

use serde::Deserialize;
use serde_json::{Value, json};

use error::CallError;
use source::{LinkForm, Source};

/// A call of the page.
#[derive(Debug, Deserialize)]
#[serde(tag = "call", rename_all = "kebab-case")]
enum Call {
    /// Links, traffic, controllers, scenarios and metrics.
    About,
    /// Cells and algorithms of a source, and its text for other programs.
    Check { source: Source, seeds: u64 },
    /// Rows of runs as `carob lab run --each --json` prints them, in `text`.
    Rows { source: Source, seeds: Option<u64> },
    /// Samples of the runs of one cell with consecutive seeds.
    Runs {
        source: Source,
        first: u64,
        count: u64,
        samples: Vec<String>,
    },
    /// Statistics and paired differences of values by seed.
    Ranking(runs::Values),
    /// The recommendation of `carob lab compare`.
    Answer { link: LinkForm },
    /// One run, packet by packet.
    Watch {
        source: Source,
        algorithm: String,
        seed: u64,
    },
}

/// Handles a call. `progress` is called with (done, planned) runs while a recommendation is made.
pub fn call(request: &str, progress: &(dyn Fn(u32, u32) + Sync)) -> String {
    let result = match serde_json::from_str(request) {
        Ok(call) => handle(call, progress),
        Err(error) => Err(CallError::new(error, "reload the page")),
    };
    match result {
        Ok(value) => json!({ "ok": value }).to_string(),
        Err(error) => json!({ "error": error.what, "remedy": error.remedy }).to_string(),
    }
}

fn handle(call: Call, progress: &(dyn Fn(u32, u32) + Sync)) -> Result<Value, CallError> {
    match call {
        Call::About => Ok(about::about()),
        Call::Check { source, seeds } => source.check(seeds),
        Call::Rows { source, seeds } => runs::rows(&source, seeds),
        Call::Runs {
            source,
            first,
            count,
            samples,
        } => runs::runs(&source, first, count, &samples),
        Call::Ranking(values) => Ok(runs::ranking(&values)),
        Call::Answer { link } => answer::answer(&link, progress),
        Call::Watch {
            source,
            algorithm,
            seed,
        } => transcript::watch(&source, &algorithm, seed),
    }
}

#[cfg(test)]
mod tests;
