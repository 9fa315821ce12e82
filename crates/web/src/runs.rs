//! Rows and samples of runs, and rankings of them.

use carob_lab::metrics::{self, Samples};
use carob_lab::paired::Paired;
use carob_lab::statistics::Statistics;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

use crate::error::CallError;
use crate::source::Source;

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
