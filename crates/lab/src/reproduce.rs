//! The studies' printed values beside ours: ratio, tolerance, verdict.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;

use crate::papers::Expected;
use crate::run::Row;
use crate::statistics::Statistic;
use crate::text::{Align, TextTable};

/// How far ours may be from print.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Medians and means, as a fraction of the printed value.
    pub centre: f64,
    /// Quartiles.
    pub quartiles: f64,
    /// Minimum, maximum and percentiles beyond the quartiles.
    pub tails: f64,
}

impl Tolerance {
    /// 10 % for medians, 15 % for quartiles, 25 % for tails.
    ///
    /// This project's choice. Both sides are samples of about 20 runs. At high error the quartiles
    /// of default CoAP are 17 % of its median apart (Table 10), so the standard error of such a
    /// median is about 3.5 % on either side; tails are less certain still.
    pub const DEFAULT: Self = Self {
        centre: 0.10,
        quartiles: 0.15,
        tails: 0.25,
    };

    /// The one for a statistic.
    pub const fn of(&self, statistic: Statistic) -> f64 {
        match statistic {
            Statistic::Mean | Statistic::P50 => self.centre,
            Statistic::P25 | Statistic::P75 => self.quartiles,
            _ => self.tails,
        }
    }
}

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
    /// In print.
    pub paper: f64,
    /// Ours, if it was run.
    pub ours: Option<f64>,
    /// The tolerance applied.
    pub tolerance: f64,
}

impl Comparison {
    /// Ours over print.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.ours? / self.paper)
    }

    /// Whether they agree.
    pub fn verdict(&self) -> Verdict {
        match self.ratio() {
            None => Verdict::Undecided,
            Some(ratio) if (ratio - 1.0).abs() <= self.tolerance => Verdict::Holds,
            Some(_) => Verdict::Fails,
        }
    }

    /// As in the machine interface; `row` holds the cell's keys, the metric and the statistic.
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
        json!({
            "study": self.expected.study,
            "table": self.expected.table,
            "row": row,
            "algorithm": self.expected.algorithm,
            "paper": self.paper,
            "ours": self.ours,
            "ratio": self.ratio(),
            "verdict": self.verdict().name(),
        })
    }
}

/// Compares every printed value of `expected` with the rows of our runs.
pub fn compare(expected: &[Expected], rows: &[Row], tolerance: &Tolerance) -> Vec<Comparison> {
    let ours: BTreeMap<(&str, &str), &Row> = rows
        .iter()
        .map(|row| ((row.scenario.as_str(), row.algorithm.as_str()), row))
        .collect();
    expected
        .iter()
        .flat_map(|printed| {
            let scenario = format!("{}/{}", printed.study, printed.cell);
            let row = ours
                .get(&(scenario.as_str(), printed.algorithm.as_str()))
                .copied();
            let metric = row.and_then(|row| row.metrics.get(printed.metric));
            printed
                .values
                .iter()
                .map(move |&(statistic, paper)| Comparison {
                    expected: printed.clone(),
                    statistic,
                    paper,
                    ours: metric.map(|m| m.get(statistic)),
                    tolerance: tolerance.of(statistic),
                })
        })
        .collect()
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

/// A table for people: one line per cell and algorithm, for each statistic print, ours, ratio.
///
/// Rows that were not run are left out.
pub fn table(comparisons: &[Comparison], statistics: &[Statistic]) -> TextTable {
    let mut header = vec![
        ("table".to_owned(), Align::Right),
        ("cell".to_owned(), Align::Left),
        ("algorithm".to_owned(), Align::Left),
    ];
    for statistic in statistics {
        header.push((format!("{} paper", statistic.name()), Align::Right));
        header.push(("ours".to_owned(), Align::Right));
        header.push(("ratio".to_owned(), Align::Right));
        header.push((String::new(), Align::Left));
    }
    let mut table = TextTable::new(header);
    let mut lines: Vec<Vec<&Comparison>> = Vec::new();
    for comparison in comparisons.iter().filter(|c| c.ours.is_some()) {
        match lines.last_mut() {
            Some(line) if line[0].expected == comparison.expected => line.push(comparison),
            _ => lines.push(vec![comparison]),
        }
    }
    for line in lines {
        let printed = &line[0].expected;
        let mut cells = vec![
            printed.table.to_string(),
            printed.cell.clone(),
            printed.algorithm.clone(),
        ];
        for statistic in statistics {
            let found = line.iter().find(|c| c.statistic == *statistic);
            match found.and_then(|c| Some((c, c.ours?, c.ratio()?))) {
                Some((c, ours, ratio)) => cells.extend([
                    seconds(c.paper),
                    seconds(ours),
                    format!("{ratio:.3}"),
                    if c.verdict() == Verdict::Holds {
                        "✓"
                    } else {
                        "✗"
                    }
                    .to_owned(),
                ]),
                None => cells.extend(std::iter::repeat_n("–".to_owned(), 4)),
            }
        }
        table.add(cells);
    }
    table
}

/// Four significant digits or more: 285.70, 1028.1, 32.87.
fn seconds(value: f64) -> String {
    if value < 1_000.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.1}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers;
    use crate::statistics::Statistics;

    fn row(cell: &str, algorithm: &str, fct: &[f64]) -> Row {
        Row {
            scenario: format!("thesis/{cell}"),
            scenario_hash: String::new(),
            cell: serde_json::Map::new(),
            algorithm: algorithm.to_owned(),
            runs: fct.len(),
            metrics: BTreeMap::from([("fct_s", Statistics::of(fct).expect("values"))]),
        }
    }

    #[test]
    fn a_median_holds_at_its_tolerance_and_fails_beyond() {
        let printed: Vec<Expected> = papers::thesis_fct()
            .into_iter()
            .filter(|e| e.cell == "long-1c-none-2500" && e.algorithm == "default")
            .collect();
        let verdict = |ours: f64| {
            let rows = [row("long-1c-none-2500", "default", &[ours])];
            let all = compare(&printed, &rows, &Tolerance::DEFAULT);
            all.iter()
                .find(|c| c.statistic == Statistic::P50)
                .map(Comparison::verdict)
        };
        // Print: 285.695 s.
        assert_eq!(verdict(285.695 * 1.0999), Some(Verdict::Holds));
        assert_eq!(verdict(285.695 * 1.1001), Some(Verdict::Fails));
        assert_eq!(verdict(285.695 * 0.8999), Some(Verdict::Fails));
    }

    #[test]
    fn rows_not_run_are_undecided() {
        let all = compare(&papers::thesis_fct(), &[], &Tolerance::DEFAULT);
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
    }

    #[test]
    fn json_has_the_shape_of_the_machine_interface() {
        let rows = [row("long-1c-none-2500", "default", &[285.0, 286.0])];
        let all = compare(&papers::thesis_fct(), &rows, &Tolerance::DEFAULT);
        let median = all
            .iter()
            .find(|c| c.statistic == Statistic::P50)
            .expect("the first row");
        assert_eq!(
            median.to_json(),
            json!({
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
            })
        );
    }

    #[test]
    fn the_table_shows_what_was_run() {
        let rows = [
            row("long-1c-none-2500", "default", &[285.0, 286.0]),
            row("long-1c-high-2500", "cocoa-001", &[500.0, 600.0]),
        ];
        let all = compare(&papers::thesis_fct(), &rows, &Tolerance::DEFAULT);
        let text = table(&all, &[Statistic::P50, Statistic::Max]).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(
            lines[2].contains("285.69") && lines[2].contains("0.999  ✓"),
            "{text}"
        );
        assert!(
            lines[3].contains("1028.1") && lines[3].contains("0.535  ✗"),
            "{text}"
        );
    }
}
