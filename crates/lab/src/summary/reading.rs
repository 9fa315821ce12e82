//! Results in sentences: where the choice of algorithm matters, and where it does not.
//!
//! Algorithms are compared by paired differences, and ranked from `SEEDS_MIN` seeds on.

use super::delivery;
use super::differences::{Series, Widest, chosen, series, series_of_metric, widest};
use super::medians::{SAME, algorithms, label};
use super::shares::is_shared;
use crate::metrics;
use crate::paired::{Paired, SEEDS_MIN, pairs};
use crate::run::{Outcome, Row, Timed};
use crate::scenario::builtin;
use crate::text::{listed, percent_done, seconds};

/// Spurious retransmissions of a flow that are not called a difference.
const SPURIOUS_SAME: f64 = 0.05;
/// The most items that a sentence lists.
const LISTED_MAX: usize = 4;

/// The outcome in a few sentences.
pub fn reading(outcome: &Outcome<'_>) -> Vec<String> {
    let rows = outcome.rows();
    let mut sentences = Vec::new();
    if !has_several(&rows) {
        sentences.extend(unfinished(&rows));
        return sentences;
    }
    match too_few(&rows) {
        Some(few) => sentences.push(few),
        None if rows.iter().any(|row| delivery::is_of(&row.metrics)) => {
            sentences.extend(delivery::reading(outcome, &rows));
        }
        None if is_shared(&rows) => sentences.extend(shares(outcome, &rows)),
        None => sentences.extend(times(outcome, &rows)),
    }
    sentences.extend(unfinished(&rows));
    sentences.extend(left_out(outcome, &rows));
    sentences
}

/// Returns whether algorithms can be compared in a cell.
fn has_several(rows: &[Row]) -> bool {
    is_shared(rows)
        || rows
            .windows(2)
            .any(|two| two[0].scenario == two[1].scenario)
}

fn too_few(rows: &[Row]) -> Option<String> {
    let seeds = rows.iter().map(|row| row.runs).max().unwrap_or_default();
    let seeds = match seeds {
        0 => return None,
        1 => "One seed".to_owned(),
        n if n < SEEDS_MIN => format!("{n} seeds"),
        _ => return None,
    };
    Some(format!(
        "{seeds}: not enough to rank the algorithms. {SEEDS_MIN} are the least (--seeds {SEEDS_MIN})."
    ))
}

/// Sentences on differences between completion times.
fn times(outcome: &Outcome<'_>, rows: &[Row]) -> Vec<String> {
    let timed = Timed::of(rows);
    let series = series(outcome, |record| Some(timed.of_run(record)?.ln()));
    let mut sentences = Vec::new();
    match widest(&series).filter(|w| w.by.least() > 0.0) {
        Some(widest) => {
            let row = rows.iter().find(|row| row.scenario == widest.scenario);
            let cell = row.map_or_else(String::new, |row| label(rows, row));
            sentences.push(format!(
                "With {cell}, {} takes {} {}{} (95 % interval {}, {} paired seeds).",
                widest.more,
                longer(&widest.by),
                widest.less,
                timed.on_average(),
                interval(&widest.by),
                widest.by.seeds,
            ));
            sentences.extend(chosen(widest.comparisons));
            sentences.extend(tail(rows, &widest));
        }
        None => sentences.push(format!(
            "No difference between {} is certain at 95 % with these seeds.",
            timed.plural()
        )),
    }
    sentences.extend(equals(&series, rows));
    sentences
}

/// The ratio from which a difference is given in times and not in per cent.
const TIMES: f64 = 2.0;

/// The mean difference of logarithms, up to the name that it compares with.
fn longer(by: &Paired) -> String {
    let ratio = by.mean.abs().exp();
    if ratio < TIMES {
        format!("{} % longer than", two_digits((ratio - 1.0) * 100.0))
    } else {
        format!("{} times as long as", two_digits(ratio))
    }
}

/// The interval of the same difference, in the same unit.
fn interval(by: &Paired) -> String {
    let ratios = [by.least(), by.most()].map(f64::exp);
    if by.mean.abs().exp() < TIMES {
        let [low, high] = ratios.map(|ratio| two_digits((ratio - 1.0) * 100.0));
        format!("{low} to {high} %")
    } else {
        let [low, high] = ratios.map(two_digits);
        format!("{low} to {high} times")
    }
}

/// A number with two digits, or whole from 10 on.
fn two_digits(value: f64) -> String {
    let decimals = usize::from(value.abs() < 10.0);
    format!("{value:.decimals$}")
}

/// The algorithm with the longest tail, where it is not the slower one of a pair.
fn tail(rows: &[Row], widest: &Widest<'_>) -> Option<String> {
    let cell = rows.iter().filter(|row| row.scenario == widest.scenario);
    let timed = Timed::of(rows);
    let p95 = |row: &Row| timed.times(row).map_or(0.0, |s| s.p95);
    let longest = cell.clone().max_by(|a, b| p95(a).total_cmp(&p95(b)))?;
    let slower = cell.clone().find(|row| row.algorithm == widest.more)?;
    let differs =
        longest.algorithm != slower.algorithm && p95(longest) > p95(slower) * (1.0 + SAME);
    differs.then(|| {
        format!(
            "There, {} has the longest 95th percentile of {}: {} s ({}: {} s).",
            longest.algorithm,
            timed.of_what(),
            seconds(p95(longest)),
            slower.algorithm,
            seconds(p95(slower)),
        )
    })
}

/// Cells in which nothing differs, and those in which medians alone do not.
fn equals(series: &[Series], rows: &[Row]) -> Vec<String> {
    let timed = Timed::of(rows);
    let (mut same, mut hidden) = (Vec::new(), Vec::new());
    for cell in rows.chunk_by(|a, b| a.scenario == b.scenario) {
        let theirs: Vec<&Series> = (series.iter())
            .filter(|series| series.scenario == cell[0].scenario)
            .collect();
        let range = |of: &dyn Fn(&Row) -> Option<f64>| {
            let values = cell.iter().map(of).collect::<Option<Vec<f64>>>()?;
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(0.0, f64::max);
            Some((low, high))
        };
        let is_near = |(low, high): &(f64, f64)| *high <= low * (1.0 + SAME);
        let median = range(&|row| timed.times(row).map(|s| s.p50));
        if cell.len() < 2 || !median.is_some_and(|m| is_near(&m)) {
            continue;
        }
        let p95 = range(&|row| timed.times(row).map(|s| s.p95));
        let spurious = range(&|row| row.metrics.get(metrics::SPURIOUS.name).map(|s| s.mean));
        let name = label(rows, &cell[0]);
        match (
            p95.filter(is_near),
            spurious.filter(|(l, h)| h - l <= SPURIOUS_SAME),
        ) {
            (Some(_), Some(_)) if are_near(&theirs) => same.push(name),
            (Some(_), Some(_)) => {}
            _ => hidden.push(format!(
                "{name} (p95 of {} {} to {} s, spurious {:.2} to {:.2} a flow)",
                timed.of_what(),
                seconds(p95.map_or(0.0, |p| p.0)),
                seconds(p95.map_or(0.0, |p| p.1)),
                spurious.map_or(0.0, |s| s.0),
                spurious.map_or(0.0, |s| s.1),
            )),
        }
    }
    let mut sentences = Vec::new();
    if !same.is_empty() {
        sentences.push(format!(
            "With {}, algorithms do not differ: paired times and their 95th percentile are within 1 %, spurious \
             retransmissions within {SPURIOUS_SAME} a flow.",
            some(&same)
        ));
    }
    if !hidden.is_empty() {
        sentences.push(format!(
            "Medians alone are within 1 % with {}.",
            some(&hidden)
        ));
    }
    sentences
}

/// Returns whether all paired differences are certainly within 1 %.
fn are_near(series: &[&Series]) -> bool {
    let comparisons = pairs(series.len());
    series.iter().enumerate().all(|(k, a)| {
        series[k + 1..].iter().all(|b| {
            let by = Paired::of(&a.values, &b.values, comparisons);
            by.is_some_and(|by| by.most() <= (1.0 + SAME).ln())
        })
    })
}

/// `a, b and c`, or the first of many and how many more there are.
fn some(names: &[String]) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if names.len() <= LISTED_MAX {
        return listed(&names);
    }
    let (first, others) = names.split_at(LISTED_MAX);
    format!("{} and {} more", first.join(", "), others.len())
}

/// Sentences on the rate that a client receives beside clients of another algorithm.
fn shares(outcome: &Outcome<'_>, rows: &[Row]) -> Vec<String> {
    let series = series_of_metric(&outcome.each(), metrics::RECEIVED_BPS.name);
    let second = |row: &Row| {
        row.cell
            .get("second")
            .and_then(|s| Some(s.as_str()?.to_owned()))
    };
    let of = |first: &str, other: &str| {
        let row = rows
            .iter()
            .find(|row| row.algorithm == first && second(row).as_deref() == Some(other))?;
        let found = series.iter().find(|s| s.scenario == row.scenario)?;
        let logs = found
            .values
            .iter()
            .map(|v| v.filter(|v| *v > 0.0).map(f64::ln));
        Some(logs.collect::<Vec<_>>())
    };
    let names = algorithms(rows);
    let comparisons = names.len() * names.len().saturating_sub(1);
    let mut least: Option<(Paired, &str, &str)> = None;
    for first in &names {
        for other in names.iter().filter(|other| *other != first) {
            let both = of(first, first).zip(of(first, other));
            let by = both.and_then(|(alone, beside)| Paired::of(&alone, &beside, comparisons));
            if let Some(by) = by.filter(|by| by.mean < 0.0 && by.least() > 0.0)
                && least.is_none_or(|(before, ..)| by.least() > before.least())
            {
                least = Some((by, first, other));
            }
        }
    }
    let Some((by, first, other)) = least else {
        return vec!["No algorithm certainly receives less beside another at 95 %.".to_owned()];
    };
    let share = |log: f64| format!("{:.0}", (-log).exp() * 100.0);
    let mut sentences = vec![format!(
        "A client of {first} beside clients of {other} receives {} % of what it receives among its \
         own kind (95 % interval {} to {} %, {} paired seeds).",
        share(-by.mean),
        share(by.most()),
        share(by.least()),
        by.seeds,
    )];
    sentences.extend(chosen(comparisons));
    sentences
}

/// Flows that did not complete, where they were to.
fn unfinished(rows: &[Row]) -> Option<String> {
    if is_shared(rows) {
        return None;
    }
    let timed = Timed::of(rows);
    let done = |row: &Row| timed.done(row).unwrap_or(1.0);
    let mut rows_with: Vec<&Row> = rows.iter().filter(|row| done(row) < 1.0).collect();
    rows_with.sort_by(|a, b| done(a).total_cmp(&done(b)));
    let names: Vec<String> = rows_with
        .iter()
        .map(|row| {
            let (name, cell) = (&row.algorithm, label(rows, row));
            format!("{name} with {cell} ({} done)", percent_done(done(row)))
        })
        .collect();
    (!names.is_empty()).then(|| {
        let names = some(&names);
        match timed {
            Timed::Flows => {
                format!("Not every transfer completed: {names}. Times are of those that did.")
            }
            Timed::Responses | Timed::RunMeans => {
                format!("Not every request was answered: {names}. Times are of those that were.")
            }
        }
    })
}

/// That the default comparison has few of all controllers, and recommends none.
fn left_out(outcome: &Outcome<'_>, rows: &[Row]) -> Option<String> {
    let all = carob_cc::registry::entries().count();
    let compared = carob_cc::registry::entries()
        .filter(|entry| rows.iter().any(|row| row.algorithm == entry.name))
        .count();
    let is_default = outcome.plan().scenario().name() == builtin::DEFAULT;
    (is_default && compared < all).then(|| {
        format!(
            "{compared} of {all} built-in controllers are compared, so none is recommended; \
             `carob lab run {} -a all` compares all.",
            builtin::DEFAULT
        )
    })
}

#[cfg(test)]
mod tests {
    use carob_sim::spec::RunSpec;

    use super::*;
    use crate::summary::tests::{thesis, timed};
    use crate::summary::{table, widest_cell};
    use crate::testing;

    #[test]
    fn summary_states_where_the_choice_matters() {
        let fct = |name: &str, error: f64, _: u64| {
            let cocoa = name != "default";
            Some(if error > 0.15 && cocoa { 500 } else { 600 })
        };
        let outcome = timed(10, fct);
        let text = reading(&outcome).join(" ");
        assert!(
            text.starts_with(
                "With error high, default takes 20 % longer than cocoa-001 (95 % interval 20 to \
                 20 %, 10 paired seeds). It is the largest of 4 differences;"
            ),
            "{text}"
        );
        assert!(
            text.contains(
                "With error none, error low and error medium, algorithms do not differ: paired times and \
                 their 95th percentile are within 1 %, spurious retransmissions within 0.05 a flow."
            ),
            "{text}"
        );
        assert_eq!(widest_cell(&outcome.rows()), Some("long-1c-high-2500"));
    }

    #[test]
    fn large_differences_are_stated_as_multiples() {
        let fct = |name: &str, error: f64, _: u64| {
            let slow = error > 0.15 && name == "default";
            Some(if slow { 1_500 } else { 600 })
        };
        let outcome = timed(10, fct);
        let text = reading(&outcome).join(" ");
        assert!(
            text.starts_with(
                "With error high, default takes 2.5 times as long as cocoa-001 (95 % interval 2.5 to \
                 2.5 times, 10 paired seeds)."
            ),
            "{text}"
        );
    }

    #[test]
    fn few_seeds_give_no_ranking() {
        let fct = |name: &str, _: f64, _: u64| Some(if name == "default" { 600 } else { 300 });
        for (seeds, expected) in [(1, "One seed: not enough"), (9, "9 seeds: not enough")] {
            let outcome = timed(seeds, fct);
            let text = reading(&outcome).join(" ");
            assert!(
                text.starts_with(expected) && !text.contains("longer"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_difference_that_chance_explains_is_not_stated() {
        // The second algorithm takes longer with every other seed, in the order of no thread.
        let fct = |name: &str, _: f64, seed: u64| {
            let odd = seed % 2 == 1;
            Some(if name != "default" && odd { 900 } else { 600 })
        };
        let outcome = timed(12, fct);
        let text = reading(&outcome).join(" ");
        assert!(!text.contains("algorithms do not differ"), "{text}");
    }

    #[test]
    fn equal_medians_with_unequal_tails_are_no_equality() {
        let set = [
            "clients=1",
            "error=none",
            "run.algorithms=default,cocoa-001",
        ];
        let scenario = testing::scenario("thesis/long", &set);
        let run = |spec: &RunSpec| {
            let late = spec.measured.controller.entry().name != "default" && spec.seed > 17;
            testing::flow(Some(if late { 900 } else { 300 }))
        };
        let cell = Some("long-1c-none-2500");
        let outcome = testing::outcome(scenario, &testing::seeds(20, cell), run);
        let text = reading(&outcome).join(" ");
        assert!(
            text.contains("Medians alone are within 1 % with long-1c-none-2500 (p95 of flow completion times 300"),
            "{text}"
        );
        assert!(!text.contains("do not differ"), "{text}");
    }

    #[test]
    fn transfers_that_did_not_complete_are_named() {
        let fct =
            |name: &str, error: f64, _: u64| (name != "default" || error < 0.15).then_some(300);
        let outcome = timed(10, fct);
        let text = reading(&outcome).join(" ");
        assert!(
            text.contains("Not every transfer completed: default with error high (0.0 % done)"),
            "{text}"
        );
        let table = table(&outcome.rows(), &thesis(), false).to_string();
        assert!(table.contains("done"), "{table}");
    }
}
