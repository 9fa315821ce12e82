//! Medians of many algorithms side by side; lines of result tables, a row each, and the names of their cells.

use crate::run::{EachRow, Row, Timed};
use crate::text::{Emphasis, TextTable, dash, distinct, seconds};

/// The fewest algorithms that are also set side by side.
const SIDE_BY_SIDE_FROM: usize = 4;
/// The most cells that are: more columns than that are too wide to be read.
const COLUMNS_MAX: usize = 12;

/// Medians of completion times: a line per algorithm, a column per cell, if there are several of
/// both, but not too many cells. The shortest of a column is marked.
pub fn table(rows: &[Row]) -> Option<TextTable> {
    let timed = Timed::of(rows);
    if rows.iter().all(|row| timed.times(row).is_none()) {
        return None;
    }
    let algorithms = algorithms(rows);
    let mut cells: Vec<&Row> = Vec::new();
    for row in rows {
        if cells.iter().all(|cell| cell.scenario != row.scenario) {
            cells.push(row);
        }
    }
    if !(2..=COLUMNS_MAX).contains(&cells.len()) || algorithms.len() < SIDE_BY_SIDE_FROM {
        return None;
    }
    let of = |cell: &Row, algorithm: &str| {
        let row = rows
            .iter()
            .find(|row| row.scenario == cell.scenario && row.algorithm == algorithm)?;
        let fct = timed.times(row).filter(|fct| fct.n > 0)?;
        let all_done = timed.done(row).is_none_or(|done| done >= 1.0);
        Some((fct.p50, all_done, timed.is_comparable(row, rows)))
    };
    let shortest: Vec<f64> = cells
        .iter()
        .map(|cell| {
            let of_cell = rows.iter().filter(|row| row.scenario == cell.scenario);
            let comparable = of_cell.filter(|row| timed.is_comparable(row, rows));
            let medians = comparable.filter_map(|row| Some(timed.times(row)?.p50));
            medians.fold(f64::INFINITY, f64::min)
        })
        .collect();
    let mut header = vec!["algorithm".to_owned()];
    header.extend(cells.iter().map(|cell| format!(">{}", label(rows, cell))));
    let mut table = TextTable::new(header);
    let (mut marked_shortest, mut marked_failing) = (false, false);
    for algorithm in algorithms {
        let mut line = vec![algorithm.to_owned()];
        let mut best_columns = Vec::new();
        for (cell, shortest) in cells.iter().zip(&shortest) {
            let Some((p50, all_done, is_comparable)) = of(cell, algorithm) else {
                line.push(dash());
                continue;
            };
            let best = is_comparable && p50 <= shortest * (1.0 + SAME);
            marked_shortest |= best;
            marked_failing |= !all_done;
            if best && cell.runs >= RANKED_FROM {
                best_columns.push(line.len());
            }
            let (best, failing) = (
                if best { "< " } else { "" },
                if all_done { "" } else { "!" },
            );
            line.push(format!("{best}{}{failing}", seconds(p50)));
        }
        table.add(line);
        for column in best_columns {
            table.emphasise(column, Emphasis::Best);
        }
    }
    table.add_note(&format!("Medians of {}, in seconds.", timed.of_what()));
    if marked_shortest {
        table.add_note("< the shortest of its column, or within 1 % of it, of those within a point of the largest share done.");
    }
    if marked_failing {
        table.add_note(timed.incomplete());
    }
    Some(table)
}

/// Medians this near to each other are called the same.
pub(crate) const SAME: f64 = 0.01;

/// The fewest runs from which a best value is emphasised: fewer state no ranking.
pub(crate) const RANKED_FROM: usize = 10;

/// A title, or a name where there is none.
pub(crate) fn title<'a>(title: &'a str, name: &'a str) -> &'a str {
    if title.is_empty() { name } else { title }
}

/// A line for each row: cell, algorithm, number of runs, the columns with their `cells`, and the hash of the traces.
pub(crate) fn lines<'a>(
    rows: &'a [Row],
    columns: &[&str],
    hashes: bool,
    cells: impl FnMut(&'a Row) -> Vec<String>,
) -> TextTable {
    let head = |row: &'a Row| Head {
        name: &row.scenario,
        title: &row.title,
        algorithm: &row.algorithm,
        count: row.runs.to_string(),
        hash: hashes.then_some(&row.trace_hash),
    };
    laid_out(rows, ">runs", head, columns, cells)
}

/// The same for runs, each with its seed and the hash of its trace.
pub(crate) fn each_lines<'a>(
    rows: &'a [EachRow],
    columns: &[&str],
    cells: impl FnMut(&'a EachRow) -> Vec<String>,
) -> TextTable {
    let head = |row: &'a EachRow| Head {
        name: &row.scenario,
        title: &row.title,
        algorithm: &row.algorithm,
        count: row.seed.to_string(),
        hash: Some(&row.trace_hash),
    };
    laid_out(rows, ">seed", head, columns, cells)
}

/// The cells that lines of all tables have.
struct Head<'a> {
    name: &'a str,
    title: &'a str,
    algorithm: &'a str,
    count: String,
    hash: Option<&'a String>,
}

/// The name of a cell is in its first line only.
fn laid_out<'a, R>(
    rows: &'a [R],
    count: &str,
    head: impl Fn(&'a R) -> Head<'a>,
    columns: &[&str],
    mut cells: impl FnMut(&'a R) -> Vec<String>,
) -> TextTable {
    let hashes = rows.first().is_some_and(|row| head(row).hash.is_some());
    let last = ["trace hash"].into_iter().filter(|_| hashes);
    let all = ["cell", "algorithm", count].into_iter();
    let mut table = TextTable::new(all.chain(columns.iter().copied()).chain(last));
    let mut before = "";
    for row in rows {
        let head = head(row);
        let is_same = std::mem::replace(&mut before, head.name) == head.name;
        let cell = if is_same {
            ""
        } else {
            title(head.title, head.name)
        };
        let mut line = vec![cell.to_owned(), head.algorithm.to_owned(), head.count];
        line.extend(cells(row));
        line.extend(head.hash.cloned());
        table.add(line);
    }
    table
}

/// The distinction of a cell from the others, such as `error high`, or its name.
pub(crate) fn label(rows: &[Row], of: &Row) -> String {
    let varies = |key: &str, value: &serde_json::Value| {
        rows.iter().any(|row| row.cell.get(key) != Some(value))
    };
    let with_unit = |key: &str, value: &serde_json::Value| {
        let mut texts = of.values.iter().filter(|(name, _)| name == key);
        let bare = || {
            let text = value.as_str().map(str::to_owned);
            text.unwrap_or_else(|| value.to_string())
        };
        texts.next().map_or_else(bare, |(_, text)| text.clone())
    };
    let parts: Vec<String> = of
        .cell
        .iter()
        .filter(|(key, value)| varies(key, value))
        .map(|(key, value)| format!("{key} {}", with_unit(key, value)))
        .collect();
    if parts.is_empty() {
        of.cell_name().to_owned()
    } else {
        parts.join(", ")
    }
}

/// Names of the algorithms of rows, in order.
pub(crate) fn algorithms(rows: &[Row]) -> Vec<&str> {
    distinct(rows.iter().map(|row| row.algorithm.as_str()))
}

#[cfg(test)]
mod tests {
    use carob_sim::spec::RunSpec;

    use super::*;
    use crate::run::Selection;
    use crate::testing;

    /// The rows of a pattern of cells under some algorithms; all flows of one take as long.
    fn rows(cell: &str, algorithms: &str, fct: impl Fn(&str) -> Option<u64> + Sync) -> Vec<Row> {
        let scenario = testing::scenario("thesis/long", &[&format!("run.algorithms={algorithms}")]);
        let selection = Selection {
            everywhere: true,
            ..testing::seeds(2, Some(cell))
        };
        let run = |spec: &RunSpec| testing::flow(fct(spec.measured.controller.entry().name));
        testing::outcome(scenario, &selection, run).rows()
    }

    #[test]
    fn pattern_results_are_listed_next_to_cells() {
        let rows = rows("long-1c-*-2500", "cocoa-0*,fasor", |name| {
            (name != "cocoa-002").then_some(if name == "fasor" { 300 } else { 400 })
        });
        let text = table(&rows).expect("several of both").to_string();
        let line = |name: &str| {
            let mut lines = text.lines();
            let found = lines
                .find(|line| line.starts_with(name))
                .unwrap_or_default();
            found
                .split_whitespace()
                .skip(1)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert!(text.starts_with("algorithm"), "{text}");
        for error in ["error none", "error low", "error medium", "error high"] {
            assert!(text.contains(error), "{text}");
        }
        assert_eq!(line("cocoa-03"), ["400.00"; 4].join(" "));
        assert_eq!(line("cocoa-002"), ["–"; 4].join(" "));
        assert_eq!(line("fasor"), ["< 300.00"; 4].join(" "));
    }

    #[test]
    fn second_table_needs_several_cells_and_algorithms() {
        let all = |cell, names| table(&rows(cell, names, |_| Some(1))).is_some();
        assert!(all("long-*-none-inf", "cocoa-*"));
        assert!(!all("long-1c-none-inf", "cocoa-*"));
        assert!(!all("long-*", "cocoa-0*"));
        assert!(!all("long-*-none-inf", "default,fasor"));
    }
}
