//! Paired differences between algorithms, cell by cell.

use carob_sim::spec::RunRecord;

use crate::paired::{Paired, pairs};
use crate::run::{EachRow, Outcome};

/// The values of one algorithm in one cell, a seed each.
pub(crate) struct Series {
    /// Full name of the cell.
    pub(crate) scenario: String,
    pub(crate) algorithm: String,
    /// A value a seed, where the run has one.
    pub(crate) values: Vec<Option<f64>>,
}

/// The largest difference that is certain.
pub(crate) struct Widest<'a> {
    pub(crate) scenario: &'a str,
    /// The algorithm with the smaller value.
    pub(crate) less: &'a str,
    /// That with the larger one.
    pub(crate) more: &'a str,
    /// The relative difference.
    pub(crate) by: Paired,
    /// Differences that there are.
    pub(crate) comparisons: usize,
}

/// A value of each run, where it has one.
pub(crate) fn series(outcome: &Outcome<'_>, of: impl Fn(&RunRecord) -> Option<f64>) -> Vec<Series> {
    let study = outcome.plan().scenario().study();
    let mut all: Vec<Series> = Vec::new();
    let mut before: Option<(&str, &str)> = None;
    for (job, record) in outcome.runs() {
        let this = (job.cell.name.as_str(), job.algorithm.name.as_str());
        if before != Some(this) {
            before = Some(this);
            all.push(Series {
                scenario: format!("{study}/{}", job.cell.name),
                algorithm: job.algorithm.name.clone(),
                values: Vec::new(),
            });
        }
        if let Some(last) = all.last_mut() {
            last.values.push(of(&record));
        }
    }
    all
}

/// The same of a metric: its mean in each run.
pub(crate) fn series_of_metric(each: &[EachRow], metric: &str) -> Vec<Series> {
    let same =
        |a: &EachRow, b: &EachRow| (&a.scenario, &a.algorithm) == (&b.scenario, &b.algorithm);
    let one = |rows: &[EachRow]| Series {
        scenario: rows[0].scenario.clone(),
        algorithm: rows[0].algorithm.clone(),
        values: rows
            .iter()
            .map(|row| row.metrics.get(metric).map(|s| s.mean))
            .collect(),
    };
    each.chunk_by(same).map(one).collect()
}

/// The difference of which the least is largest, over every two algorithms of every cell.
pub(crate) fn widest(series: &[Series]) -> Option<Widest<'_>> {
    let cells: Vec<&[Series]> = series.chunk_by(|a, b| a.scenario == b.scenario).collect();
    let comparisons = cells.iter().map(|cell| pairs(cell.len())).sum();
    let mut widest: Option<Widest<'_>> = None;
    for cell in cells {
        for (k, a) in cell.iter().enumerate() {
            for b in &cell[k + 1..] {
                let Some(by) = Paired::of(&a.values, &b.values, comparisons) else {
                    continue;
                };
                if widest.as_ref().is_some_and(|w| w.by.least() >= by.least()) {
                    continue;
                }
                let (less, more) = if by.mean < 0.0 { (b, a) } else { (a, b) };
                widest = Some(Widest {
                    scenario: &a.scenario,
                    less: &less.algorithm,
                    more: &more.algorithm,
                    by,
                    comparisons,
                });
            }
        }
    }
    widest
}

/// Note that a difference is the largest of several, with the correction for it.
pub(crate) fn chosen(comparisons: usize) -> Option<String> {
    (comparisons > 1).then(|| {
        format!(
            "It is the largest of {comparisons} differences; the interval holds for all of them \
             together (Bonferroni)."
        )
    })
}
