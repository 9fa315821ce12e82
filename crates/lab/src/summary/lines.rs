//! Lines of result tables, a row each, and the names of their cells.

use crate::run::{EachRow, Row};
use crate::text::{TextTable, distinct};

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
