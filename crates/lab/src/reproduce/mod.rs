//! The studies' printed values beside ours: ratio, tolerance, verdict.

pub mod networks;
mod ours;
mod tables;
mod tolerance;

use serde::Serialize;
use serde_json::json;

use crate::papers::Expected;
use crate::scenario;
use crate::statistics::Statistic;

pub use ours::{OurRow, Ours, Reading, SEEDS, label, thesis_readings};
pub use tables::{all_statistics, medians, nearer, not_run, readings, remarks};
pub use tolerance::{Tolerance, Tolerances};

/// Whether ours agrees with print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Within the tolerance.
    Holds,
    /// Outside of it.
    Fails,
    /// Not run.
    Undecided,
}

impl Verdict {
    /// Its name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
            Self::Undecided => "undecided",
        }
    }
}

/// One printed value and ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The printed row.
    pub expected: Expected,
    /// Which of its values.
    pub statistic: Statistic,
    /// What was set besides the profile, if this is another reading of it.
    pub set: Vec<String>,
    /// In print.
    pub paper: f64,
    /// Ours, if it was run.
    pub ours: Option<f64>,
    /// The tolerance applied.
    pub tolerance: Tolerance,
    /// What is known about the row besides.
    pub remark: Option<String>,
}

impl Comparison {
    /// Ours over print.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.ours? / self.paper)
    }

    /// Whether they agree.
    pub fn verdict(&self) -> Verdict {
        let (Some(ours), Some(ratio)) = (self.ours, self.ratio()) else {
            return Verdict::Undecided;
        };
        let near = (ratio - 1.0).abs() <= self.tolerance.share;
        let printed = |statistic| self.expected.value(statistic);
        let between = printed(Statistic::P25)
            .zip(printed(Statistic::P75))
            .is_some_and(|(p25, p75)| (p25..=p75).contains(&ours));
        if near || (self.tolerance.or_quartiles && between) {
            Verdict::Holds
        } else {
            Verdict::Fails
        }
    }

    /// The algorithm, with what was set besides.
    pub fn label(&self) -> String {
        label(&self.expected.algorithm, &self.set)
    }

    /// Why it was not run, if it was not.
    pub fn not_run(&self) -> Option<String> {
        if self.ours.is_some() {
            return None;
        }
        let name = &self.expected.algorithm;
        Some(if scenario::is_known(name) {
            "not run".to_owned()
        } else {
            format!("needs {name}")
        })
    }

    /// As in the machine interface; `row` holds the cell's keys, the metric and the statistic, and
    /// what was set for another reading. What was not run also has a `note` that says why, and so
    /// has a row about which something is known besides.
    pub fn to_json(&self) -> serde_json::Value {
        let number = |text: &String| {
            text.parse::<u64>()
                .map_or_else(|_| json!(text), |n| json!(n))
        };
        let mut row: serde_json::Map<String, serde_json::Value> = self
            .expected
            .row
            .iter()
            .map(|(k, v)| ((*k).to_owned(), number(v)))
            .collect();
        row.insert("metric".to_owned(), json!(self.expected.metric));
        row.insert("statistic".to_owned(), json!(self.statistic.name()));
        if !self.set.is_empty() {
            row.insert("set".to_owned(), json!(self.set));
        }
        let mut value = json!({
            "study": self.expected.study,
            "table": self.expected.table,
            "row": row,
            "algorithm": self.expected.algorithm,
            "paper": self.paper,
            "ours": self.ours,
            "ratio": self.ratio(),
            "verdict": self.verdict().name(),
        });
        if let Some(note) = self.not_run().or_else(|| self.remark.clone()) {
            value["note"] = json!(note);
        }
        value
    }
}

/// Compares every printed value of `expected` with our rows; each reading is a comparison of its
/// own, the profile as it is first.
pub fn compare(expected: &[Expected], ours: &[OurRow], tolerances: &Tolerances) -> Vec<Comparison> {
    let mut all = Vec::new();
    for printed in expected {
        let own: Vec<&OurRow> = ours
            .iter()
            .filter(|row| row.cell == printed.cell && row.algorithm == printed.algorithm)
            .collect();
        let mut add = |row: Option<&OurRow>| {
            all.extend(printed.values.iter().map(|&(statistic, paper)| {
                Comparison {
                    expected: printed.clone(),
                    statistic,
                    set: row.map_or_else(Vec::new, |row| row.set.clone()),
                    paper,
                    ours: row.map(|row| row.fct_s.get(statistic)),
                    tolerance: tolerances.of(&printed.cell, &printed.algorithm, statistic),
                    remark: tolerances
                        .note(&printed.cell, &printed.algorithm)
                        .map(str::to_owned),
                }
            }));
        };
        if own.is_empty() {
            add(None);
        }
        for row in own {
            add(Some(row));
        }
    }
    all
}

/// How many printed values agree, how many were run, how many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Within tolerance.
    pub holds: usize,
    /// Run.
    pub run: usize,
    /// Printed.
    pub printed: usize,
}

/// Counts verdicts.
pub fn tally<'a>(comparisons: impl IntoIterator<Item = &'a Comparison>) -> Tally {
    comparisons
        .into_iter()
        .fold(Tally::default(), |tally, comparison| {
            let verdict = comparison.verdict();
            Tally {
                holds: tally.holds + usize::from(verdict == Verdict::Holds),
                run: tally.run + usize::from(verdict != Verdict::Undecided),
                printed: tally.printed + 1,
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers;
    use crate::statistics::Statistics;

    fn row(cell: &str, algorithm: &str, fct: &[f64]) -> OurRow {
        OurRow {
            cell: cell.to_owned(),
            algorithm: algorithm.to_owned(),
            set: Vec::new(),
            first_trace_hash: String::new(),
            fct_s: Statistics::of(fct).expect("values"),
        }
    }

    #[test]
    fn a_median_holds_at_its_tolerance_and_fails_beyond() {
        let printed: Vec<Expected> = papers::thesis_fct()
            .into_iter()
            .filter(|e| e.cell == "long-1c-low-2500" && e.algorithm == "default")
            .collect();
        let verdict = |ours: f64| {
            let rows = [row("long-1c-low-2500", "default", &[ours])];
            let all = compare(&printed, &rows, &Tolerances::thesis());
            all.iter()
                .find(|c| c.statistic == Statistic::P50)
                .map(Comparison::verdict)
        };
        // Print: 336.859 s, and 5 % of it.
        assert_eq!(verdict(336.859 * 1.0499), Some(Verdict::Holds));
        assert_eq!(verdict(336.859 * 1.0501), Some(Verdict::Fails));
        assert_eq!(verdict(336.859 * 0.9499), Some(Verdict::Fails));
    }

    #[test]
    fn a_median_between_the_quartiles_holds_where_that_is_enough() {
        let cell = "long-1c-medium-28200";
        let verdict = |ours: f64| {
            let rows = [row(cell, "tcp-newreno", &[ours])];
            let all = compare(&papers::thesis_fct(), &rows, &Tolerances::thesis());
            let found = |c: &&Comparison| c.statistic == Statistic::P50 && c.ours.is_some();
            all.iter().find(found).map(Comparison::verdict)
        };
        // Print: 129.765, 143.559 and 158.650 s; a quarter of the median is more here.
        assert_eq!(verdict(143.559 * 1.249), Some(Verdict::Holds));
        assert_eq!(verdict(143.559 * 1.251), Some(Verdict::Fails));
        // 119.229, 124.035 and 174.882 s: the upper quartile is further than a quarter.
        let rows = [row("long-1c-medium-14100", "tcp-newreno", &[174.8])];
        let all = compare(&papers::thesis_fct(), &rows, &Tolerances::thesis());
        let ours = all
            .iter()
            .find(|c| c.statistic == Statistic::P50 && c.ours.is_some());
        assert_eq!(ours.map(Comparison::verdict), Some(Verdict::Holds));
    }

    #[test]
    fn rows_a_kernel_leaves_have_a_verdict_and_a_note() {
        let rows = [row("long-1c-high-14100", "tcp-newreno", &[656.0])];
        let all = compare(&papers::thesis_fct(), &rows, &Tolerances::thesis());
        let ours = all
            .iter()
            .find(|c| c.statistic == Statistic::P50 && c.ours.is_some());
        let json = ours.expect("in print").to_json();
        assert_eq!(json["verdict"], "fails");
        assert!(
            json["note"]
                .as_str()
                .is_some_and(|note| note.contains("kernel")),
            "{json}"
        );
    }

    #[test]
    fn rows_not_run_are_undecided_and_say_why() {
        let all = compare(&papers::thesis_fct(), &[], &Tolerances::thesis());
        assert_eq!(
            tally(&all),
            Tally {
                holds: 0,
                run: 0,
                printed: 52 * 8
            }
        );
        assert!(all.iter().all(|c| c.verdict() == Verdict::Undecided));
        assert_eq!(all[0].to_json()["ours"], serde_json::Value::Null);
        let tcp = all.iter().find(|c| c.expected.algorithm == "tcp-newreno");
        let tcp = tcp.expect("in print").to_json();
        assert_eq!(tcp["note"], "not run");
    }

    #[test]
    fn json_has_the_shape_of_the_machine_interface() {
        let mut rows = vec![row("long-1c-none-2500", "default", &[285.0, 286.0])];
        let median = |rows: &[OurRow]| {
            let all = compare(&papers::thesis_fct(), rows, &Tolerances::thesis());
            all.into_iter()
                .find(|c| c.statistic == Statistic::P50)
                .expect("the first row")
        };
        let mut expected = json!({
            "study": "thesis",
            "table": 6,
            "row": {
                "clients": 1, "error": "none", "buffer": 2500,
                "metric": "fct_s", "statistic": "p50",
            },
            "algorithm": "default",
            "paper": 285.695,
            "ours": 285.5,
            "ratio": 285.5 / 285.695,
            "verdict": "holds",
        });
        assert_eq!(median(&rows).to_json(), expected);
        rows[0].set = vec!["block=64 B".to_owned()];
        expected["row"]["set"] = json!(["block=64 B"]);
        assert_eq!(median(&rows).to_json(), expected);
    }

    #[test]
    fn a_reading_is_a_comparison_of_its_own() {
        let mut rows = vec![row("long-1c-high-2500", "cocoa-001", &[900.0]); 2];
        rows[1].set = vec!["cc.vbf_on=init-dithered".to_owned()];
        let all = compare(&papers::thesis_fct(), &rows, &Tolerances::thesis());
        assert_eq!(tally(&all).run, 2 * 8);
        assert_eq!(tally(&all).printed, 53 * 8);
    }
}
