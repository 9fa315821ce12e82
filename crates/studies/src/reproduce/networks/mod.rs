//! Published values of wireless networks beside measured ones: means, and the order of algorithms.
//!
//! Absolute values depend on settings that a study leaves open; it claims the order of algorithms and the gaps
//! between them. So a verdict is about an order, and a measured order is known only
//! where the 95 % interval of the differences of runs with the same seed excludes 0.

mod measured;
mod order;
mod tables;

use carob_lab::statistics::Statistics;
use serde_json::json;

use crate::claims::Verdict;
use crate::papers::PublishedMean;

pub use measured::{MeasureError, NetworkRow, NetworkRuns, SEEDS as NETWORK_SEEDS};
pub use order::{BASE, Order, Pair, SUBJECT, ranking};
pub use tables::{means, printed_tables, summary, verdicts};

/// One algorithm in one row of a printed table.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The published mean.
    pub published: PublishedMean,
    /// Measured in all runs that have the metric; `None` if it was not run.
    pub measured: Option<Statistics>,
}

impl Entry {
    /// Measured over published mean.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.measured?.mean / self.published.mean)
    }
}

/// A row of a printed table, all algorithms side by side.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkComparison {
    /// The algorithms, in printed order.
    pub entries: Vec<Entry>,
    /// Orders of pairs; the first compares the study's subject with its baseline.
    pub pairs: Vec<Pair>,
}

impl NetworkComparison {
    /// The published mean of one entry; all entries have the same cell and metric.
    pub fn published(&self) -> &PublishedMean {
        &self.entries[0].published
    }

    /// Agreement of the measured order with the published one. `holds` where all pairs agree,
    /// `holds-partly` where the first does, `undecided` where an order is unknown.
    pub fn verdict(&self) -> Verdict {
        let agreement = |pair: &Pair| pair.agrees();
        match self.pairs.first().and_then(agreement) {
            None => Verdict::Undecided,
            Some(false) => Verdict::Fails,
            Some(true) if self.pairs.iter().all(|pair| pair.agrees() == Some(true)) => {
                Verdict::Holds
            }
            Some(true) => Verdict::HoldsPartly,
        }
    }

    /// The pair of `first` and `second`.
    pub fn pair(&self, first: &str, second: &str) -> Option<&Pair> {
        let is_it = |pair: &&Pair| pair.first == first && pair.second == second;
        self.pairs.iter().find(is_it)
    }

    /// As in the machine interface, an object per algorithm. Besides: both 95 % intervals, and the
    /// relative gap to default CoAP, published and measured, with the interval of the latter.
    pub fn to_json(&self) -> Vec<serde_json::Value> {
        let one = |entry: &Entry| {
            let published = &entry.published;
            let gap = self.pair(&published.algorithm, BASE).and_then(Pair::gap);
            json!({
                "study": published.study,
                "table": published.table,
                "row": {
                    "topology": published.topology,
                    "link": published.link,
                    "metric": published.metric,
                    "statistic": "mean",
                },
                "algorithm": published.algorithm,
                "published": published.mean,
                "published_ci95": published.ci95,
                "measured": entry.measured.map(|s| s.mean),
                "measured_ci95": entry.measured.map(|s| s.ci95),
                "ratio": entry.ratio(),
                "published_gap": self.pair(&published.algorithm, BASE).map(Pair::published_gap),
                "measured_gap": gap.map(|(value, _)| value),
                "measured_gap_ci95": gap.map(|(_, half)| half),
                "verdict": self.verdict().name(),
            })
        };
        self.entries.iter().map(one).collect()
    }
}

/// Compares every row of print with our runs.
pub fn compare(published: &[PublishedMean], measured: &NetworkRuns) -> Vec<NetworkComparison> {
    let same = |a: &PublishedMean, b: &PublishedMean| a.table == b.table && a.cell == b.cell;
    let row = |means: &[PublishedMean]| {
        let values = |algorithm: &str| {
            let row = measured.row(&means[0].cell, algorithm);
            row.map_or(&[][..], |row| &row.values)
        };
        let entry = |mean: &PublishedMean| {
            let present: Vec<f64> = values(&mean.algorithm).iter().flatten().copied().collect();
            Entry {
                published: mean.clone(),
                measured: Statistics::of(&present),
            }
        };
        NetworkComparison {
            entries: means.iter().map(entry).collect(),
            pairs: order::pairs(means, values),
        }
    };
    published.chunk_by(same).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(means: [f64; 3]) -> Vec<PublishedMean> {
        let one = |(algorithm, mean): (&str, f64)| PublishedMean {
            study: "cocoaplus",
            table: 3,
            scenario: "cocoaplus/mixed",
            cell: "mixed-chain-ideal-1n".to_owned(),
            topology: "chain".to_owned(),
            link: "ideal".to_owned(),
            algorithm: algorithm.to_owned(),
            metric: "pdr",
            mean,
            ci95: 0.01,
        };
        ["default", "cocoa-v0", "cocoa-plus"]
            .into_iter()
            .zip(means)
            .map(one)
            .collect()
    }

    fn runs(values: [&[f64]; 3]) -> NetworkRuns {
        let row = |(algorithm, values): (&str, &[f64])| NetworkRow {
            cell: "mixed-chain-ideal-1n".to_owned(),
            algorithm: algorithm.to_owned(),
            metric: "pdr".to_owned(),
            first_trace_hash: String::new(),
            values: values.iter().copied().map(Some).collect(),
        };
        NetworkRuns {
            rows: ["default", "cocoa-v0", "cocoa-plus"]
                .into_iter()
                .zip(values)
                .map(row)
                .collect(),
            ..NetworkRuns::default()
        }
    }

    fn verdict(means: [f64; 3], values: [&[f64]; 3]) -> &'static str {
        compare(&published(means), &runs(values))[0]
            .verdict()
            .name()
    }

    #[test]
    fn verdicts_are_about_the_order_of_runs_with_the_same_seed() {
        let base = &[0.80, 0.60, 0.70, 0.50][..];
        let (below, above) = (&[0.77, 0.58, 0.68, 0.47][..], &[0.83, 0.62, 0.73, 0.52][..]);
        // The spread of runs is ten times their differences, which are all the same way.
        assert_eq!(verdict([0.85, 0.82, 0.86], [base, below, above]), "holds");
        let mixed = &[0.83, 0.58, 0.73, 0.48][..];
        assert_eq!(
            verdict([0.85, 0.82, 0.86], [base, mixed, above]),
            "holds-partly"
        );
        assert_eq!(
            verdict([0.85, 0.82, 0.86], [base, above, mixed]),
            "undecided"
        );
        assert_eq!(verdict([0.85, 0.82, 0.86], [base, below, below]), "fails");
        // Equal published values and indistinguishable measured ones are the same order.
        assert_eq!(verdict([0.85, 0.82, 0.85], [base, below, base]), "holds");
        assert_eq!(verdict([0.85, 0.82, 0.85], [base, below, above]), "fails");
        assert_eq!(verdict([0.85, 0.82, 0.86], [&[], &[], &[]]), "undecided");
    }

    #[test]
    fn json_has_the_shape_of_the_machine_interface() {
        let values = [&[0.8, 0.6][..], &[0.7, 0.5], &[0.9, 0.7]];
        let all = compare(&published([0.85, 0.82, 0.86]), &runs(values));
        let lines = all[0].to_json();
        assert_eq!(lines.len(), 3);
        let plus = &lines[2];
        assert_eq!(plus["row"]["topology"], "chain");
        assert_eq!(plus["row"]["statistic"], "mean");
        assert_eq!(plus["algorithm"], "cocoa-plus");
        assert_eq!(plus["verdict"], "holds");
        let near = |name: &str, expected: f64| {
            let value = plus[name].as_f64().expect("a number");
            assert!((value - expected).abs() < 1e-9, "{name}: {value}");
        };
        near("published", 0.86);
        near("measured", 0.8);
        near("ratio", 0.8 / 0.86);
        near("published_gap", 0.86 / 0.85 - 1.0);
        near("measured_gap", 0.1 / 0.7);
        near("measured_gap_ci95", 0.0);
        assert!(lines[0]["measured_gap"].is_null());
    }
}
