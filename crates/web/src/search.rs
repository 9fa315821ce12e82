//! The recommendation of `carob lab compare`, by the same code: one instance searches, others make its runs.

use std::cell::RefCell;
use std::fmt::Write as _;

use carob_lab::compare::{Answer, ResumableSearch, RunMaker, RunRequest, Step};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::CallError;
use crate::source::LinkForm;

thread_local! {
    /// The search of this instance.
    static SEARCH: RefCell<Option<ResumableSearch>> = const { RefCell::new(None) };
    /// The last link and its maker of runs.
    static MAKER: RefCell<Option<(String, RunMaker)>> = const { RefCell::new(None) };
}

/// Results of consecutive runs.
#[derive(Debug, Deserialize)]
pub(crate) struct Results {
    /// Place of the first of them among the runs of the last step.
    place: usize,
    /// Bytes of each, as hexadecimal digits.
    results: Vec<String>,
}

/// Begins the search for the answer about a link and its traffic, and takes its first step.
pub(crate) fn begin(form: &LinkForm) -> Result<Value, CallError> {
    SEARCH.replace(Some(form.question()?.search()));
    step()
}

/// The runs that the search needs next, or its answer.
pub(crate) fn step() -> Result<Value, CallError> {
    SEARCH.with_borrow_mut(|search| {
        let step = search.as_mut().map(ResumableSearch::step);
        match step.ok_or_else(none)? {
            Step::Runs(requests) => Ok(json!({ "requests": requests })),
            Step::Answer(answer) => {
                *search = None;
                Ok(json!({ "answer": json_of(&answer) }))
            }
        }
    })
}

/// The answer by the runs made so far, null before the first stage; the search goes on with the next step.
pub(crate) fn so_far() -> Result<Value, CallError> {
    SEARCH.with_borrow(|search| {
        let answer = search.as_ref().ok_or_else(none)?.so_far();
        Ok(answer.as_ref().map_or(Value::Null, json_of))
    })
}

/// Gives the search results.
pub(crate) fn add(results: &Results) -> Result<Value, CallError> {
    SEARCH.with_borrow_mut(|search| {
        let search = search.as_mut().ok_or_else(none)?;
        for (place, digits) in (results.place..).zip(&results.results) {
            search.add(place, &bytes(digits))?;
        }
        Ok(Value::Null)
    })
}

/// Makes runs of a search for the answer about the same link. Results are hexadecimal digits.
pub(crate) fn make(form: &LinkForm, request: &RunRequest) -> Result<Value, CallError> {
    let key = serde_json::to_string(form).unwrap_or_default();
    MAKER.with_borrow_mut(|last| {
        if last.as_ref().is_none_or(|(of, _)| *of != key) {
            *last = Some((key, form.question()?.run_maker()));
        }
        let maker = last.as_ref().map(|(_, maker)| maker.make(request));
        let results = maker.transpose()?.unwrap_or_default();
        Ok(results.iter().map(|bytes| digits(bytes)).collect())
    })
}

fn none() -> CallError {
    CallError::new("no search has begun", "begin it again")
}

fn digits(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // A String takes every write.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Bytes of hexadecimal digits, up to the first that is none.
fn bytes(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    let bytes =
        pairs.map_while(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    bytes.collect()
}

fn json_of(answer: &Answer) -> Value {
    let is_blockwise = answer.traffic.is_blockwise();
    let ranked = answer.ranked.iter().map(|one| {
        json!({
            "controller": one.configuration.controller,
            "settings": one.configuration.settings(is_blockwise),
            "needs": one.configuration.transfer.needs(),
            "measured": one.measured, "cost": one.cost,
            "options": one.configuration.options(is_blockwise),
        })
    });
    json!({
        "words": answer.words(),
        "link": answer.link.about(), "traffic": answer.traffic.about(),
        "ranked": ranked.collect::<Vec<_>>(),
        "recommended": answer.recommended, "with_peer": answer.with_peer,
        "seeds": answer.seeds, "runs": answer.runs, "settled": answer.is_settled,
    })
}
