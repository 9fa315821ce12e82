//! Medians of many algorithms side by side.

use super::lines::{RANKED_FROM, SAME, algorithms, label};
use crate::run::{Row, Timed};
use crate::text::{Emphasis, TextTable, dash, seconds};

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
