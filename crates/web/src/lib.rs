//! The lab for a web page: calls in JSON, answered by the engine that the command uses.
//!
//! [`call`] takes one object of JSON and returns one: `{"ok": ...}`, or `{"error": ..., "remedy": ...}`. On
//! wasm32, `abi` exports it to JavaScript. Reading order: `source` (the scenario that a request names), `runs`
//! (rows, samples, rankings, recommendation), `transcript` (one run to watch), `presets` (lists).

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;

#[cfg(target_arch = "wasm32")]
pub mod abi;
mod error;
mod mesh_transcript;
mod presets;
mod runs;
mod source;
mod transcript;

use carob_lab::compare::RunRequest;
use carob_lab::report::looks;
use serde::Deserialize;
use serde_json::{Value, json};

use error::CallError;
use source::{LinkForm, Source};

/// A call of the page.
#[derive(Debug, Deserialize)]
#[serde(tag = "call", rename_all = "kebab-case")]
enum Call {
    /// Presets, links, traffic, controllers, scenarios and metrics.
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
    /// Attaches a trace under the name of its file, and returns its means over equal steps.
    Trace {
        name: String,
        text: String,
        steps: usize,
    },
    /// Statistics and paired differences of values by seed.
    Ranking(runs::RankingRequest),
    /// Begins the search of `carob lab compare`, whose runs other instances make.
    Search { link: LinkForm },
    /// Results for the search.
    SearchResults(runs::Results),
    /// Places of colour and marker of each name of a figure.
    Looks { names: Vec<String> },
    /// The answer by the runs that the search has.
    SearchSoFar,
    /// The next step of the search: runs that it needs, or its answer.
    SearchStep,
    /// Runs of a search that another instance makes.
    SearchRuns { link: LinkForm, request: RunRequest },
    /// One run, packet by packet.
    Watch {
        source: Source,
        algorithm: String,
        seed: u64,
    },
}

/// Handles a call.
pub fn call(request: &str) -> String {
    let result = match serde_json::from_str(request) {
        Ok(call) => handle(call),
        Err(error) => Err(CallError::new(error, "reload the page")),
    };
    match result {
        Ok(value) => json!({ "ok": value }).to_string(),
        Err(error) => json!({ "error": error.what, "remedy": error.remedy }).to_string(),
    }
}

fn handle(call: Call) -> Result<Value, CallError> {
    match call {
        Call::About => Ok(presets::about()),
        Call::Check { source, seeds } => source.check(seeds),
        Call::Rows { source, seeds } => runs::rows(&source, seeds),
        Call::Runs {
            source,
            first,
            count,
            samples,
        } => runs::runs(&source, first, count, &samples),
        Call::Trace { name, text, steps } => source::attach(&name, &text, steps),
        Call::Looks { names } => Ok(json!(looks(names.iter().map(String::as_str)))),
        Call::Ranking(values) => Ok(runs::ranking(&values)),
        Call::Search { link } => runs::begin(&link),
        Call::SearchResults(results) => runs::add(&results),
        Call::SearchSoFar => runs::so_far(),
        Call::SearchStep => runs::step(),
        Call::SearchRuns { link, request } => runs::make(&link, &request),
        Call::Watch {
            source,
            algorithm,
            seed,
        } => transcript::watch(&source, &algorithm, seed),
    }
}

#[cfg(test)]
mod tests;
