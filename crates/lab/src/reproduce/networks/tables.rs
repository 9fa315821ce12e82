//! Tables of comparisons of networks for people.

use super::order::{BASE, Order, Pair, SUBJECT, ranking};
use super::{Entry, NetworkComparison};
use crate::marks::mark;
use crate::text::{Align, TextTable};

/// A printed table: its number, and what it is of.
pub fn printed_tables(comparisons: &[NetworkComparison]) -> Vec<(u32, &'static str)> {
    let mut tables: Vec<(u32, &'static str)> = Vec::new();
    for comparison in comparisons {
        let printed = comparison.printed();
        let about = match printed.metric {
            "settling_s" => "settling times in seconds",
            _ => "PDR in per cent",
        };
        if !tables.contains(&(printed.table, about)) {
            tables.push((printed.table, about));
        }
    }
    tables
}

fn columns(names: &[(&str, Align)]) -> TextTable {
    let header = names
        .iter()
        .map(|(name, align)| ((*name).to_owned(), *align));
    TextTable::new(header.collect())
}

/// What a table shows of a metric: PDR in per cent, times in seconds.
fn shown(metric: &str, mean: f64, half: f64) -> String {
    let unit = if metric == "pdr" { 100.0 } else { 1.0 };
    format!("{:.1} ± {:.1}", mean * unit, half * unit)
}

fn per_cent(gap: f64) -> String {
    format!("{:+.1} %", gap * 100.0)
}

/// Means of one printed table beside ours, and gaps to default CoAP.
pub fn means(comparisons: &[NetworkComparison], table: u32) -> TextTable {
    use Align::{Left, Right};
    let mut text = columns(&[
        ("topology", Left),
        ("links", Left),
        ("algorithm", Left),
        ("paper", Right),
        ("ours", Right),
        ("ratio", Right),
        ("paper's gap", Right),
        ("our gap", Right),
    ]);
    for comparison in comparisons.iter().filter(|c| c.printed().table == table) {
        for entry in &comparison.entries {
            let Entry { printed, ours } = entry;
            let pair = comparison.pair(&printed.algorithm, BASE);
            let ours = ours.map(|s| shown(printed.metric, s.mean, s.ci95));
            let gap = pair.and_then(Pair::gap).map(|(gap, half)| {
                let half = half * 100.0;
                format!("{} ± {half:.1}", per_cent(gap).trim_end_matches(" %"))
            });
            text.add(vec![
                printed.topology.clone(),
                printed.link.clone(),
                printed.algorithm.clone(),
                shown(printed.metric, printed.mean, printed.ci95),
                ours.unwrap_or_else(|| "not run".to_owned()),
                entry
                    .ratio()
                    .map_or_else(String::new, |r| format!("{r:.2}")),
                pair.map_or_else(String::new, |pair| per_cent(pair.printed_gap())),
                gap.map_or_else(String::new, |gap| format!("{gap} %")),
            ]);
        }
    }
    mark(&mut text, "algorithm");
    text
}

/// Who is before whom in each row of one printed table, and whether ours is as in print.
pub fn verdicts(comparisons: &[NetworkComparison], table: u32) -> TextTable {
    use Align::Left;
    let mut text = columns(&[
        ("topology", Left),
        ("links", Left),
        ("paper, largest first", Left),
        ("ours, largest first", Left),
        ("verdict", Left),
    ]);
    for comparison in comparisons.iter().filter(|c| c.printed().table == table) {
        let printed = comparison.printed();
        let of = |order: fn(&Pair) -> Option<Order>| {
            move |a: &str, b: &str| {
                let pair = comparison.pair(a, b).or_else(|| comparison.pair(b, a));
                pair.and_then(order).unwrap_or(Order::Alike)
            }
        };
        let entries = &comparison.entries;
        let in_print: Vec<(&str, f64)> = entries
            .iter()
            .map(|e| (e.printed.algorithm.as_str(), e.printed.mean))
            .collect();
        let ours: Vec<(&str, f64)> = entries
            .iter()
            .filter_map(|e| Some((e.printed.algorithm.as_str(), e.ours?.mean)))
            .collect();
        text.add(vec![
            printed.topology.clone(),
            printed.link.clone(),
            ranking(&in_print, of(|pair| Some(pair.printed_order()))),
            ranking(&ours, of(Pair::order)),
            comparison.verdict().name().to_owned(),
        ]);
    }
    text
}

/// In how many rows of one printed table the study's algorithm is better than default CoAP: in print,
/// and in ours.
pub fn summary(comparisons: &[NetworkComparison], table: u32) -> String {
    let rows: Vec<&NetworkComparison> = comparisons
        .iter()
        .filter(|c| c.printed().table == table)
        .collect();
    let (better, worse, metric) = match rows.first().map(|row| row.printed().metric) {
        Some("settling_s") => (
            Order::Below,
            Order::Above,
            "settles sooner than default CoAP",
        ),
        _ => (
            Order::Above,
            Order::Below,
            "has a higher PDR than default CoAP",
        ),
    };
    let count = |of: fn(&Pair) -> Option<Order>, wanted: Order| {
        let pair = |row: &&&NetworkComparison| row.pair(SUBJECT, BASE).and_then(of) == Some(wanted);
        rows.iter().filter(pair).count()
    };
    let printed = |pair: &Pair| Some(pair.printed_order());
    let verdict = |name: &str| {
        let is_it = |row: &&&NetworkComparison| row.verdict().name() == name;
        rows.iter().filter(is_it).count()
    };
    format!(
        "CoCoA+ {metric} in {} of {} rows of print and in {} of ours; it is worse in {} and {}, and cannot be \
         told apart in {} of ours. Rows whose order holds: {}, partly: {}, fails: {}, undecided: {}.",
        count(printed, better),
        rows.len(),
        count(Pair::order, better),
        count(printed, worse),
        count(Pair::order, worse),
        count(Pair::order, Order::Alike),
        verdict("holds"),
        verdict("holds-partly"),
        verdict("fails"),
        verdict("undecided"),
    )
}
