//! Flow completion times of the thesis, Tables 6 to 11.

use carob_lab::metrics;
use carob_lab::published::{Expected, Print};
use carob_lab::statistics::Statistic;

/// Columns of the tables. The thesis prints no mean.
const COLUMNS: [(&str, Statistic); 8] = [
    ("min_s", Statistic::Min),
    ("p10_s", Statistic::P10),
    ("p25_s", Statistic::P25),
    ("median_s", Statistic::P50),
    ("p75_s", Statistic::P75),
    ("p90_s", Statistic::P90),
    ("p95_s", Statistic::P95),
    ("max_s", Statistic::Max),
];

/// Every row of Tables 6 to 11, in printed order.
pub fn thesis_fct() -> Vec<Expected> {
    super::tables("thesis")
        .filter(|file| file.ends_with("_fct.csv"))
        .flat_map(|file| {
            let table = super::table("thesis", file).expect("a file of the list");
            (0..table.len())
                .map(|row| {
                    let text = |column| table.cell(row, column).unwrap_or_default().to_owned();
                    let buffer = match text("buffer_bytes").as_str() {
                        "1410000" => "inf".to_owned(),
                        bytes => bytes.to_owned(),
                    };
                    let (clients, error) = (text("clients"), text("error"));
                    Expected {
                        study: "thesis".to_owned(),
                        table: text("table").parse().unwrap_or_default(),
                        cell: format!("long-{clients}c-{error}-{buffer}"),
                        row: vec![
                            ("clients".to_owned(), clients),
                            ("error".to_owned(), error),
                            ("buffer".to_owned(), buffer),
                        ],
                        algorithm: text("algorithm"),
                        metric: metrics::FCT_S.name.to_owned(),
                        values: COLUMNS
                            .iter()
                            .filter_map(|&(column, s)| Some((s, table.number(row, column)?)))
                            .collect(),
                    }
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Every published row, for tables and reports of runs.
pub fn published() -> Print {
    Print::new(thesis_fct())
}

/// The published value of a cell, an algorithm and a statistic of flow completion time.
pub fn expected(cell: &str, algorithm: &str, statistic: Statistic) -> Option<f64> {
    thesis_fct()
        .iter()
        .find(|row| row.cell == cell && row.algorithm == algorithm)
        .and_then(|row| row.value(statistic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use carob_lab::scenario::{Scenario, builtin};

    #[test]
    fn printed_values_are_found_by_cell_algorithm_and_statistic() {
        let median = |cell, algorithm| expected(cell, algorithm, Statistic::P50);
        assert_eq!(median("long-1c-none-2500", "default"), Some(285.695));
        assert_eq!(median("long-1c-none-inf", "tcp-newreno"), Some(32.867));
        assert_eq!(median("long-1c-high-2500", "cocoa-001"), Some(1028.14));
        assert_eq!(
            expected("long-4c-low-2500", "default", Statistic::Max),
            Some(358.129)
        );
        assert_eq!(median("long-4c-high-2500", "default"), None);
        assert_eq!(
            expected("long-1c-none-2500", "default", Statistic::Mean),
            None
        );
    }

    #[test]
    fn sweep_of_tcp_settings_divides_by_the_printed_medians() {
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../lab/results/tcp-sensitivity.toml"
        );
        let text = std::fs::read_to_string(file).expect("the sweep");
        let sweep = carob_lab::sweep::Sweep::read(&text).expect("it reads");
        let mut ratios = 0;
        for table in &sweep.tables {
            for cell in table.cells(&table.rows[0]) {
                let of = &cell.quantities[1].references()[0];
                let (_, divisor) = cell.quantities[1]
                    .text()
                    .split_once(" / ")
                    .expect("a ratio");
                let median = expected(&of.cell, &of.algorithm, Statistic::P50);
                assert_eq!(divisor.parse().ok(), median, "{}", cell.column);
                ratios += 1;
            }
        }
        assert_eq!(ratios, 8 + 8 + 4 + 9);
    }

    #[test]
    fn every_row_belongs_to_a_cell_of_the_scenario_and_is_sorted() {
        let (built_in, _) = builtin::find("thesis/long").expect("a scenario");
        let scenario = Scenario::read(built_in.name, built_in.text, &[]).expect("a valid one");
        let rows = thesis_fct();
        assert_eq!(rows.len(), 52);
        for row in &rows {
            assert!(scenario.cell(&row.cell).is_some(), "{}", row.cell);
            assert_eq!(row.values.len(), COLUMNS.len());
            assert!((6..=11).contains(&row.table));
            assert!(row.values.is_sorted_by(|a, b| a.1 <= b.1), "{row:?}");
        }
    }
}
