//! Tables of comparisons of networks for people.

use super::order::{BASE, Order, Pair, SUBJECT, ranking};
use super::{Entry, NetworkComparison};
use crate::reproduce::tables::TENTH;
use carob_lab::metrics::{PDR, SETTLING_S};
use carob_lab::text::{TextTable, distinct};

/// A published table: its number, and its subject.
pub fn printed_tables(comparisons: &[NetworkComparison]) -> Vec<(u32, &'static str)> {
    distinct(comparisons.iter().map(|comparison| {
        let published = comparison.published();
        let about = if published.metric == SETTLING_S.name {
            "settling times in seconds"
        } else {
            "PDR in per cent"
        };
        (published.table, about)
    }))
}

/// Text of a metric's value: PDR in per cent, times in seconds.
fn shown(metric: &str, mean: f64, half: f64) -> String {
    let unit = if metric == PDR.name { 100.0 } else { 1.0 };
    format!("{:.1} ± {:.1}", mean * unit, half * unit)
}

fn per_cent(gap: f64) -> String {
    format!("{:+.1} %", gap * 100.0)
}

/// Means of one published table with the measured ones, and gaps to default CoAP.
pub fn means(comparisons: &[NetworkComparison], table: u32) -> TextTable {
    let mut text = TextTable::new([
        "topology",
        "links",
        "algorithm",
        ">published",
        ">measured",
        ">ratio",
        ">published gap",
        ">measured gap",
    ]);
    for comparison in comparisons.iter().filter(|c| c.published().table == table) {
        for entry in &comparison.entries {
            let Entry {
                published,
                measured,
            } = entry;
            let pair = comparison.pair(&published.algorithm, BASE);
            let measured = measured.map(|s| shown(published.metric, s.mean, s.ci95));
            let gap = pair.and_then(Pair::gap).map(|(gap, half)| {
                let half = half * 100.0;
                format!("{} ± {half:.1}", per_cent(gap).trim_end_matches(" %"))
            });
            text.add(vec![
                published.topology.clone(),
                published.link.clone(),
                published.algorithm.clone(),
                shown(published.metric, published.mean, published.ci95),
                measured.unwrap_or_else(|| "not run".to_owned()),
                entry
                    .ratio()
                    .map_or_else(String::new, |r| format!("{r:.2}")),
                pair.map_or_else(String::new, |pair| per_cent(pair.published_gap())),
                gap.map_or_else(String::new, |gap| format!("{gap} %")),
            ]);
        }
    }
    text.optional(&["ratio", "published gap"]);
    text
}

/// Table of the order of algorithms in each row of one published table, and of the agreement.
pub fn verdicts(comparisons: &[NetworkComparison], table: u32) -> TextTable {
    let mut text = TextTable::new([
        "topology",
        "links",
        "published, largest first",
        "measured, largest first",
        "verdict",
    ]);
    for comparison in comparisons.iter().filter(|c| c.published().table == table) {
        let published = comparison.published();
        let of = |order: fn(&Pair) -> Option<Order>| {
            move |a: &str, b: &str| {
                let pair = comparison.pair(a, b).or_else(|| comparison.pair(b, a));
                pair.and_then(order).unwrap_or(Order::Alike)
            }
        };
        let entries = &comparison.entries;
        let in_print: Vec<(&str, f64)> = entries
            .iter()
            .map(|e| (e.published.algorithm.as_str(), e.published.mean))
            .collect();
        let measured: Vec<(&str, f64)> = entries
            .iter()
            .filter_map(|e| Some((e.published.algorithm.as_str(), e.measured?.mean)))
            .collect();
        text.add(vec![
            published.topology.clone(),
            published.link.clone(),
            ranking(&in_print, of(|pair| Some(pair.published_order()))),
            ranking(&measured, of(Pair::order)),
            comparison.verdict().name().to_owned(),
        ]);
    }
    text.emphasise_verdicts();
    text
}

/// Means that were run, those within 10 % of the published ones, and the tolerance in per cent at which half are.
fn tenth(ratios: impl Iterator<Item = f64>) -> (usize, usize, f64) {
    let mut deviations: Vec<f64> = ratios.map(|ratio| (ratio - 1.0).abs()).collect();
    deviations.sort_by(f64::total_cmp);
    let near = deviations.iter().filter(|off| **off <= TENTH).count();
    let middle = deviations.get(deviations.len().saturating_sub(1) / 2);
    (
        deviations.len(),
        near,
        middle.copied().unwrap_or(0.0) * 100.0,
    )
}

/// Number of rows of one published table in which the study's algorithm is better than default CoAP:
/// published and measured.
pub fn summary(comparisons: &[NetworkComparison], table: u32) -> String {
    let rows: Vec<&NetworkComparison> = comparisons
        .iter()
        .filter(|c| c.published().table == table)
        .collect();
    let metric = rows.first().map(|row| row.published().metric);
    let (better, worse, metric) = if metric == Some(SETTLING_S.name) {
        let words = "settles sooner than default CoAP";
        (Order::Below, Order::Above, words)
    } else {
        let words = "has a higher PDR than default CoAP";
        (Order::Above, Order::Below, words)
    };
    let count = |of: fn(&Pair) -> Option<Order>, wanted: Order| {
        let pair = |row: &&&NetworkComparison| row.pair(SUBJECT, BASE).and_then(of) == Some(wanted);
        rows.iter().filter(pair).count()
    };
    let published = |pair: &Pair| Some(pair.published_order());
    let verdict = |name: &str| {
        let is_it = |row: &&&NetworkComparison| row.verdict().name() == name;
        rows.iter().filter(is_it).count()
    };
    let ratios = rows.iter().flat_map(|row| &row.entries);
    let (run, near, half) = tenth(ratios.filter_map(Entry::ratio));
    format!(
        "Of {run} means {near} are within 10 % of the published value, half within {half:.0} %. CoCoA+ {metric} in {} of {} published rows and in {} measured ones; it is worse in {} and {}, and cannot be \
         distinguished in {} measured ones. Rows whose order holds: {}, partly: {}, fails: {}, undecided: {}.",
        count(published, better),
        rows.len(),
        count(Pair::order, better),
        count(published, worse),
        count(Pair::order, worse),
        count(Pair::order, Order::Alike),
        verdict("holds"),
        verdict("holds-partly"),
        verdict("fails"),
        verdict("undecided"),
    )
}
