//! Rows and samples of runs, rankings of them, and the recommendation of `carob lab compare`, by the same code: one instance
//! searches, others make its runs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use carob_lab::compare::{Answer, ResumableSearch, RunMaker, RunRequest, Step};
use carob_lab::metrics::{self, Samples};
use carob_lab::paired::Paired;
use carob_lab::statistics::Statistics;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::CallError;
use crate::source::{LinkForm, Source};

/// The most samples of a metric that one run contributes to a distribution; of more, as many order
/// statistics, evenly spaced.
const SAMPLES_MAX: usize = 2_000;

/// The rows of all runs of a source, a line of JSON each.
pub(crate) fn rows(source: &Source, seeds: Option<u64>) -> Result<Value, CallError> {
    let read = source.read()?;
    let plan = source.plan(&read, None, seeds)?;
    let outcome = plan.execute(carob_sim::run, |_, _| {})?;
    let mut text = String::new();
    for row in outcome.each() {
        text += &serde_json::to_string(&row).map_err(|error| CallError::new(error, "reload"))?;
        text.push('\n');
    }
    Ok(json!({ "text": text }))
}

/// The mean of each metric of each run of consecutive seeds, and samples of the metrics in `sampled`.
pub(crate) fn runs(
    source: &Source,
    first: u64,
    count: u64,
    sampled: &[String],
) -> Result<Value, CallError> {
    let read = source.read()?;
    let mut all = Vec::new();
    for seed in first..first.saturating_add(count) {
        let plan = source.plan(&read, Some(seed), None)?;
        for job in plan.jobs() {
            let record = carob_sim::run(&plan.spec(job))?;
            let mut samples = Samples::new();
            metrics::collect(&record, &mut samples);
            let means: BTreeMap<&str, f64> = metrics::summarise(&samples)
                .into_iter()
                .map(|(name, statistics)| (name, statistics.mean))
                .collect();
            let of = |name: &String| {
                let values = samples.get(name.as_str())?;
                Some((name.clone(), spaced(values)))
            };
            let samples: BTreeMap<String, Vec<f64>> = sampled.iter().filter_map(of).collect();
            all.push(json!({
                "cell": job.cell.name, "algorithm": job.algorithm.name, "seed": seed,
                "hash": format!("{:016x}", record.trace_hash),
                "means": means, "samples": samples,
            }));
        }
    }
    Ok(Value::Array(all))
}

/// Values, or evenly spaced order statistics of many.
fn spaced(values: &[f64]) -> Vec<f64> {
    let n = values.len();
    if n <= SAMPLES_MAX {
        return values.to_vec();
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = |k| (2 * k + 1) * n / (2 * SAMPLES_MAX);
    (0..SAMPLES_MAX).map(|k| sorted[place(k)]).collect()
}

/// Values of a metric by algorithm, one for each seed; none where a run has no value.
#[derive(Debug, Deserialize)]
pub(crate) struct RankingRequest {
    /// The algorithm that others are compared with.
    reference: String,
    values: BTreeMap<String, Vec<Option<f64>>>,
    /// Single samples of the runs by algorithm, for percentiles: of flows or responses.
    #[serde(default)]
    samples: BTreeMap<String, Vec<f64>>,
}

/// Statistics of each algorithm, and its paired difference to the reference with a joint interval of 95 %
/// (Bonferroni).
pub(crate) fn ranking(values: &RankingRequest) -> Value {
    let comparisons = values.values.len().saturating_sub(1);
    let reference = values.values.get(&values.reference);
    let rows = values.values.iter().map(|(name, own)| {
        let present: Vec<f64> = own.iter().flatten().copied().collect();
        let paired = reference
            .filter(|_| *name != values.reference)
            .and_then(|reference| Paired::of(reference, own, comparisons));
        json!({
            "algorithm": name,
            "statistics": Statistics::of(&present),
            "samples": values.samples.get(name).and_then(|samples| Statistics::of(samples)),
            "missing": own.len() - present.len(),
            "difference": paired.map(|p| json!({ "mean": p.mean, "half": p.half, "seeds": p.seeds })),
        })
    });
    Value::Array(rows.collect())
}

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
