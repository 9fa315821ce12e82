//! Tables of comparisons for people.

use std::collections::BTreeMap;

use carob_lab::statistics::Statistic;
use carob_lab::text::{TextTable, distinct, listed, seconds};

use crate::comparison::{Comparison, Verdict};

/// Medians of rows that were run: published, measured, ratio, tolerance, verdict.
pub fn medians(comparisons: &[Comparison]) -> TextTable {
    let mut table = TextTable::new([
        ">table",
        "cell",
        "algorithm",
        ">published s",
        ">measured s",
        ">ratio",
        ">within",
        "verdict",
    ]);
    for c in comparisons.iter().filter(|c| c.statistic == Statistic::P50) {
        let (Some(measured), Some(ratio)) = (c.measured, c.ratio()) else {
            continue;
        };
        table.add(vec![
            c.expected.table.to_string(),
            c.expected.cell.clone(),
            c.label(),
            seconds(c.paper),
            seconds(measured),
            format!("{ratio:.3}"),
            c.tolerance.to_string(),
            c.verdict().name().to_owned(),
        ]);
    }
    table.optional(&["table", "within"]);
    table.emphasise_verdicts();
    table
}

/// Measured over published for every statistic of rows that were run; a cross marks ratios outside their
/// tolerance.
pub fn all_statistics(comparisons: &[Comparison]) -> TextTable {
    let statistics = distinct(comparisons.iter().map(|c| c.statistic));
    let mut header = [">table", "cell", "algorithm"].map(str::to_owned).to_vec();
    header.extend(statistics.iter().map(|one| format!(">{}", one.name())));
    let mut table = TextTable::new(header);
    for line in lines(comparisons) {
        let first = line[0];
        let mut cells = vec![
            first.expected.table.to_string(),
            first.expected.cell.clone(),
            first.label(),
        ];
        for statistic in &statistics {
            let found = line.iter().find(|c| c.statistic == *statistic);
            cells.push(found.and_then(|c| c.ratio().zip(Some(c))).map_or_else(
                || "–".to_owned(),
                |(ratio, c)| match c.verdict() {
                    Verdict::Holds => format!("{ratio:.3}"),
                    _ => format!("✗ {ratio:.3}"),
                },
            ));
        }
        table.add(cells);
    }
    table.optional(&["table", "mean", "min", "max", "p5", "p95", "p25", "p75"]);
    table.emphasise_verdicts();
    table
}

/// Deviation of the second verdict: within 10 % of the published value.
pub(super) const TENTH: f64 = 0.1;

/// Published values of each table: those within the tolerance of their rule, those within 10 %, and the
/// tolerance at which half of them would hold. Interpretations besides the profile are not counted.
pub fn by_table(comparisons: &[Comparison]) -> TextTable {
    let mut table = TextTable::new([
        ">table",
        ">values",
        ">by the rule",
        ">within 10 %",
        ">half within",
    ]);
    let run: Vec<&Comparison> = comparisons
        .iter()
        .filter(|c| c.measured.is_some() && c.set.is_empty())
        .collect();
    let mut of: BTreeMap<u32, Vec<&Comparison>> = BTreeMap::new();
    for c in &run {
        of.entry(c.expected.table).or_default().push(c);
    }
    let several = of.len() > 1;
    let tables = of
        .into_iter()
        .map(|(number, own)| (number.to_string(), own));
    for (name, own) in tables.chain(several.then(|| ("all".to_owned(), run))) {
        let mut deviations: Vec<f64> = own.iter().map(|c| off(c)).collect();
        deviations.sort_by(f64::total_cmp);
        let holds = own.iter().filter(|c| c.verdict() == Verdict::Holds);
        let near = deviations.iter().filter(|off| **off <= TENTH);
        let half = deviations[(deviations.len() - 1) / 2];
        table.add(vec![
            name,
            own.len().to_string(),
            holds.count().to_string(),
            near.count().to_string(),
            format!("{:.1} %", half * 100.0),
        ]);
    }
    table
}

/// Comparisons that were run, grouped by row and interpretation.
fn lines(comparisons: &[Comparison]) -> Vec<Vec<&Comparison>> {
    let mut lines: Vec<Vec<&Comparison>> = Vec::new();
    for c in comparisons.iter().filter(|c| c.measured.is_some()) {
        match lines.last_mut() {
            Some(line) if line[0].expected == c.expected && line[0].set == c.set => line.push(c),
            _ => lines.push(vec![c]),
        }
    }
    lines
}

/// Medians of rows with several interpretations, in each group the unchanged profile first.
fn groups(comparisons: &[Comparison]) -> Vec<Vec<&Comparison>> {
    let mut groups: Vec<Vec<&Comparison>> = Vec::new();
    let medians = comparisons.iter().filter(|c| c.statistic == Statistic::P50);
    for c in medians.filter(|c| c.measured.is_some()) {
        match groups.last_mut() {
            Some(group) if group[0].expected == c.expected => group.push(c),
            _ => groups.push(vec![c]),
        }
    }
    groups.retain(|group| group.len() > 1);
    groups
}

fn reading_name(comparison: &Comparison) -> String {
    if comparison.set.is_empty() {
        "as is".to_owned()
    } else {
        comparison.set.join(", ")
    }
}

/// Distance of a median from the published one.
fn off(comparison: &Comparison) -> f64 {
    comparison
        .ratio()
        .map_or(f64::INFINITY, |r| (r - 1.0).abs())
}

/// Readings of one algorithm side by side.
pub fn readings(comparisons: &[Comparison]) -> TextTable {
    let groups = groups(comparisons);
    let columns = ["cell", "algorithm", ">published s", ">within"];
    let mut header = columns.map(str::to_owned).to_vec();
    let most = groups.iter().max_by_key(|group| group.len());
    for c in most.into_iter().flatten() {
        let name = format!(">{} s", reading_name(c));
        header.extend([name, ">ratio".to_owned(), String::new()]);
    }
    header.push("nearer".to_owned());
    let mut table = TextTable::new(header);
    for group in &groups {
        let first = group[0];
        let mut cells = vec![
            first.expected.cell.clone(),
            first.expected.algorithm.clone(),
            seconds(first.paper),
            first.tolerance.to_string(),
        ];
        for c in group {
            cells.push(c.measured.map_or_else(String::new, seconds));
            cells.push(c.ratio().map_or_else(String::new, |r| format!("{r:.3}")));
            let mark = if c.verdict() == Verdict::Holds {
                "✓"
            } else {
                "✗"
            };
            cells.push(mark.to_owned());
        }
        cells.push(nearest(group).map_or_else(|| "both the same".to_owned(), reading_name));
        table.add(cells);
    }
    table.emphasise_verdicts();
    table
}

/// The reading nearest to print, unless all are equally near.
fn nearest<'a>(group: &[&'a Comparison]) -> Option<&'a Comparison> {
    let best = group.iter().min_by(|a, b| off(a).total_cmp(&off(b)))?;
    let differs = |c: &&Comparison| (off(c) - off(best)).abs() > 5e-4;
    group.iter().any(differs).then_some(best)
}

/// Which reading is nearer to print, and whether each is within tolerance, in a sentence per
/// algorithm.
pub fn nearer(comparisons: &[Comparison]) -> Vec<String> {
    let groups = groups(comparisons);
    let names = groups
        .iter()
        .map(|group| group[0].expected.algorithm.as_str());
    distinct(names)
        .into_iter()
        .map(|algorithm| {
            let own: Vec<&Vec<&Comparison>> = groups
                .iter()
                .filter(|group| group[0].expected.algorithm == algorithm)
                .collect();
            // Interpretation: cells in which it is nearest, cells in which it holds.
            let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
            for group in &own {
                for c in *group {
                    let count = counts.entry(reading_name(c)).or_default();
                    count.0 += usize::from(nearest(group).is_some_and(|best| best == *c));
                    count.1 += usize::from(c.verdict() == Verdict::Holds);
                }
            }
            let cells = own.len();
            let equal = own.iter().filter(|group| nearest(group).is_none()).count();
            let parts: Vec<String> = counts
                .iter()
                .map(|(reading, (nearest, holds))| {
                    format!(
                        "\"{reading}\" is nearest to print in {nearest} and within tolerance in {holds}"
                    )
                })
                .collect();
            let equal = if equal > 0 {
                format!(" They are equally near in {equal}.")
            } else {
                String::new()
            };
            format!("{algorithm}: of {cells} cells {}.{equal}", parts.join("; "))
        })
        .collect()
}

/// Remarks on rows, each with its cells.
pub fn remarks(comparisons: &[Comparison]) -> Vec<String> {
    let mut all: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for c in comparisons.iter().filter(|c| c.measured.is_some()) {
        let Some(remark) = c.remark.as_deref() else {
            continue;
        };
        let (algorithm, cell) = (c.expected.algorithm.as_str(), c.expected.cell.as_str());
        match all
            .iter_mut()
            .find(|(r, a, _)| *r == remark && *a == algorithm)
        {
            Some((.., cells)) if cells.contains(&cell) => {}
            Some((.., cells)) => cells.push(cell),
            None => all.push((remark, algorithm, vec![cell])),
        }
    }
    all.into_iter()
        .map(|(remark, algorithm, cells)| format!("{algorithm} in {}: {remark}.", listed(&cells)))
        .collect()
}

/// Rows that were not run, counted by reason and table.
pub fn not_run(comparisons: &[Comparison]) -> Vec<String> {
    /// Rows by table, as (cell, algorithm).
    type Rows<'a> = BTreeMap<u32, Vec<(&'a str, &'a str)>>;
    let mut reasons: BTreeMap<String, (usize, Rows<'_>)> = BTreeMap::new();
    for c in comparisons {
        if let Some(note) = c.not_run() {
            let (values, tables) = reasons.entry(note).or_default();
            *values += 1;
            let rows = tables.entry(c.expected.table).or_default();
            let row = (c.expected.cell.as_str(), c.expected.algorithm.as_str());
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
    }
    reasons
        .into_iter()
        .map(|(reason, (values, tables))| {
            let rows: usize = tables.values().map(Vec::len).sum();
            let tables: Vec<String> = tables
                .iter()
                .map(|(table, rows)| format!("{} of Table {table}", rows.len()))
                .collect();
            format!(
                "{reason}: {rows} rows ({values} values): {}",
                tables.join(", ")
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::{MeasuredRow, compare};
    use carob_lab::statistics::Statistics;

    fn comparisons() -> Vec<Comparison> {
        let row = |algorithm: &str, set: &[&str], fct: f64| MeasuredRow {
            cell: "long-1c-high-2500".to_owned(),
            algorithm: algorithm.to_owned(),
            set: set.iter().map(|s| (*s).to_owned()).collect(),
            first_trace_hash: String::new(),
            fct_s: Statistics::of(&[fct]).expect("a value"),
        };
        // Print: 1269.15 s and 1028.14 s.
        let measured = [
            row("default", &[], 1269.0),
            row("cocoa-001", &[], 600.0),
            row("cocoa-001", &["cc.vbf_on=init-dithered"], 1000.0),
        ];
        compare(&measured)
    }

    #[test]
    fn medians_have_tolerance_and_verdict() {
        let text = medians(&comparisons()).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(
            lines[2].contains("default") && lines[2].contains("15 %  holds"),
            "{text}"
        );
        assert!(
            lines[3].contains("0.584") && lines[3].ends_with("fails"),
            "{text}"
        );
    }

    #[test]
    fn interpretations_are_listed_with_the_nearest() {
        let all = comparisons();
        let text = readings(&all).to_string();
        let line = text.lines().nth(2).expect("one row");
        assert!(
            line.contains("0.584  ✗") && line.contains("0.973  ✓"),
            "{text}"
        );
        assert!(line.ends_with("cc.vbf_on=init-dithered"), "{text}");
        let sentence = nearer(&all).join(" ");
        assert_eq!(
            sentence,
            "cocoa-001: of 1 cells \"as is\" is nearest to print in 0 and within tolerance in 0; \
             \"cc.vbf_on=init-dithered\" is nearest to print in 1 and within tolerance in 1."
        );
    }

    #[test]
    fn rows_not_run_are_counted_by_reason() {
        let all = comparisons();
        let text = not_run(&all).join("\n");
        assert!(
            text.starts_with("not run: 50 rows (400 values): 10 of Table 6, 6 of Table 7"),
            "{text}"
        );
    }

    #[test]
    fn tables_have_two_verdicts_and_the_tolerance_of_half() {
        // Of Table 10 three medians were run, one of them as another interpretation: 1269.0 and 600 s.
        let medians: Vec<Comparison> = comparisons()
            .into_iter()
            .filter(|c| c.statistic == Statistic::P50)
            .collect();
        let text = by_table(&medians).to_string();
        let words: Vec<&str> = text
            .lines()
            .nth(2)
            .expect("a row")
            .split_whitespace()
            .collect();
        assert_eq!(words, ["10", "2", "1", "1", "0.0", "%"], "{text}");
    }

    #[test]
    fn statistics_outside_their_tolerance_are_crossed() {
        let text = all_statistics(&comparisons()).to_string();
        assert!(text.contains("✗ 0.584"), "{text}");
    }
}
