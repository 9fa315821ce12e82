//! Published values of the studies and measured ones: ratio, tolerance, verdict.

mod measured;
pub mod networks;
mod tables;

use crate::comparison::{self, Comparison, Measured};
use crate::papers;

pub use measured::{MeasuredRow, MeasuredRuns, Reading, SEEDS, thesis_readings, thesis_tolerances};
pub use tables::{all_statistics, by_table, medians, nearer, not_run, readings, remarks};

/// Compares every published value of the thesis with measured rows; each interpretation is a separate comparison, the
/// unchanged profile first.
pub fn compare(rows: &[MeasuredRow]) -> Vec<Comparison> {
    let measured: Vec<Measured> = rows.iter().map(MeasuredRow::measured).collect();
    comparison::compare(&papers::thesis_fct(), &measured, &thesis_tolerances())
}

#[cfg(test)]
mod tests {
    use carob_lab::statistics::{Statistic, Statistics};
    use serde_json::json;

    use super::*;
    use crate::comparison::{Tally, Verdict, tally};

    fn row(cell: &str, algorithm: &str, fct: &[f64]) -> MeasuredRow {
        MeasuredRow {
            cell: cell.to_owned(),
            algorithm: algorithm.to_owned(),
            set: Vec::new(),
            first_trace_hash: String::new(),
            fct_s: Statistics::of(fct).expect("values"),
        }
    }

    #[test]
    fn a_median_holds_at_its_tolerance_and_fails_beyond() {
        let verdict = |measured: f64| {
            let rows = [row("long-1c-low-2500", "default", &[measured])];
            let all = compare(&rows);
            let found = |c: &&Comparison| c.statistic == Statistic::P50 && c.measured.is_some();
            all.iter().find(found).map(Comparison::verdict)
        };
        // Print: 336.859 s, and 5 % of it.
        assert_eq!(verdict(336.859 * 1.0499), Some(Verdict::Holds));
        assert_eq!(verdict(336.859 * 1.0501), Some(Verdict::Fails));
        assert_eq!(verdict(336.859 * 0.9499), Some(Verdict::Fails));
    }

    #[test]
    fn median_within_the_quartiles_holds() {
        let cell = "long-1c-medium-28200";
        let verdict = |measured: f64| {
            let rows = [row(cell, "tcp-newreno", &[measured])];
            let all = compare(&rows);
            let found = |c: &&Comparison| c.statistic == Statistic::P50 && c.measured.is_some();
            all.iter().find(found).map(Comparison::verdict)
        };
        // Print: 129.765, 143.559 and 158.650 s; a quarter of the median is more here.
        assert_eq!(verdict(143.559 * 1.249), Some(Verdict::Holds));
        assert_eq!(verdict(143.559 * 1.251), Some(Verdict::Fails));
        // 119.229, 124.035 and 174.882 s: the upper quartile is further than a quarter.
        let rows = [row("long-1c-medium-14100", "tcp-newreno", &[174.8])];
        let all = compare(&rows);
        let measured = all
            .iter()
            .find(|c| c.statistic == Statistic::P50 && c.measured.is_some());
        assert_eq!(measured.map(Comparison::verdict), Some(Verdict::Holds));
    }

    #[test]
    fn rows_in_which_linux_deviates_have_a_note() {
        let rows = [row("long-1c-high-14100", "tcp-newreno", &[656.0])];
        let all = compare(&rows);
        let measured = all
            .iter()
            .find(|c| c.statistic == Statistic::P50 && c.measured.is_some());
        let json = measured.expect("published").to_json();
        assert_eq!(json["verdict"], "fails");
        assert!(
            json["note"]
                .as_str()
                .is_some_and(|note| note.contains("kernel")),
            "{json}"
        );
    }

    #[test]
    fn rows_not_run_are_undecided_with_a_reason() {
        let all = compare(&[]);
        assert_eq!(
            tally(&all),
            Tally {
                holds: 0,
                run: 0,
                published: 52 * 8
            }
        );
        assert!(all.iter().all(|c| c.verdict() == Verdict::Undecided));
        assert_eq!(all[0].to_json()["measured"], serde_json::Value::Null);
        let tcp = all.iter().find(|c| c.expected.algorithm == "tcp-newreno");
        let tcp = tcp.expect("published").to_json();
        assert_eq!(tcp["note"], "not run");
    }

    #[test]
    fn json_has_the_shape_of_the_machine_interface() {
        let mut rows = vec![row("long-1c-none-2500", "default", &[285.0, 286.0])];
        let median = |rows: &[MeasuredRow]| {
            let all = compare(rows);
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
            "published": 285.695,
            "measured": 285.5,
            "ratio": 285.5 / 285.695,
            "verdict": "holds",
        });
        assert_eq!(median(&rows).to_json(), expected);
        rows[0].set = vec!["block=64 B".to_owned()];
        expected["row"]["set"] = json!(["block=64 B"]);
        assert_eq!(median(&rows).to_json(), expected);
    }

    #[test]
    fn interpretation_is_a_separate_comparison() {
        let mut rows = vec![row("long-1c-high-2500", "cocoa-001", &[900.0]); 2];
        rows[1].set = vec!["cc.vbf_on=init-dithered".to_owned()];
        let all = compare(&rows);
        assert_eq!(tally(&all).run, 2 * 8);
        assert_eq!(tally(&all).published, 53 * 8);
    }
}
