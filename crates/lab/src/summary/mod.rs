//! Summary of a run: tables, and their interpretation in words.

pub(crate) mod delivery;
mod differences;
mod medians;
mod reading;
mod shares;
mod transmission;

use std::collections::BTreeMap;

use carob_sim::spec::{RunSpec, Transport};

use medians::{RANKED_FROM, SAME, each_lines, lines};

use crate::metrics;
use crate::published::{self, Print};
use crate::run::{EachRow, Row, Timed};
use crate::statistics::{Statistic, Statistics};
use crate::text::{Emphasis, TextTable, dash, listed, percent_done, seconds};

pub(crate) use differences::{Series, series};
pub use medians::table as medians;
pub(crate) use medians::{algorithms, label};
pub use reading::reading;
pub(crate) use shares::is_shared;

/// One line per cell and algorithm: completion times, published values, retransmissions and failures.
pub fn table(rows: &[Row], print: &Print, hashes: bool) -> TextTable {
    if rows.iter().any(|row| delivery::is_of(&row.metrics)) {
        return delivery::table(rows, hashes);
    }
    let printed = |row: &Row| {
        print
            .find(&row.compare_with, &row.algorithm)?
            .value(Statistic::P50)
    };
    let any_published = rows.iter().any(|row| printed(row).is_some());
    let timed = Timed::of(rows);
    let unfinished = |row: &Row| timed.done(row).is_some_and(|done| done < 1.0);
    if is_shared(rows) {
        return shares::table(rows, hashes);
    }
    let serves = serves(rows);
    // Where requests are counted, flows with a hole need no column.
    let any_unfinished = !serves && rows.iter().any(unfinished);
    let any_energy = rows
        .iter()
        .any(|row| row.metrics.contains_key(metrics::ENERGY_J.name));
    let mut columns: Vec<&str> = timed.percentiles().map(percentile_head).to_vec();
    for (is_shown, some) in [
        (any_published, &[">published s", ">ratio"][..]),
        (true, &[">retransmissions", ">spurious"]),
        (any_energy, &[">energy J"]),
        (any_unfinished, &[">done"]),
        (serves, &[">answers/s", ">answered", ">at once"]),
    ] {
        columns.extend(some.iter().filter(|_| is_shown));
    }
    let best = best_medians(rows);
    let median = timed
        .percentiles()
        .iter()
        .position(|one| *one == Statistic::P50);
    let median_column = TIMES_FROM + median.unwrap_or_default();
    let mut table = lines(rows, &columns, hashes, |row| {
        let fct = timed.times(row);
        let time = |s: Statistic| fct.map_or_else(dash, |f| seconds(f.get(s)));
        let mean = |metric: &str| {
            let found = row.metrics.get(metric);
            found.map_or_else(dash, |m| format!("{:.1}", m.mean))
        };
        let mut cells = timed.percentiles().map(time).to_vec();
        if any_published {
            let paper = printed(row);
            let ratio = fct.zip(paper).map(|(ours, paper)| ours.p50 / paper);
            cells.push(paper.map_or_else(dash, seconds));
            cells.push(ratio.map_or_else(dash, |r| format!("{r:.3}")));
        }
        cells.extend([
            mean(metrics::RETRANSMISSIONS.name),
            mean(metrics::SPURIOUS.name),
        ]);
        if any_energy {
            cells.push(mean(metrics::ENERGY_J.name));
        }
        if any_unfinished {
            let done = timed.done(row);
            cells.push(done.map_or_else(dash, percent_done));
        }
        if serves {
            cells.push(mean(metrics::THROUGHPUT_RPS.name));
            for share in ["answered_ratio", "first_attempt_ratio"] {
                let found = row.metrics.get(share);
                cells.push(found.map_or_else(dash, |s| percent_done(s.mean)));
            }
        }
        cells
    });
    table.optional(OPTIONAL);
    for (number, row) in rows.iter().enumerate() {
        let fct = timed.times(row);
        let fct = fct.filter(|_| timed.is_comparable(row, rows));
        let best = best.get(row.scenario.as_str());
        if fct.zip(best).is_some_and(|(fct, best)| fct.p50 <= *best) {
            table.emphasise_in(number, median_column, Emphasis::Best);
        }
    }
    notes(&mut table, rows, print);
    table
}

/// Head of a column of a percentile.
fn percentile_head(one: Statistic) -> &'static str {
    match one {
        Statistic::P10 => ">p10 s",
        Statistic::P90 => ">p90 s",
        Statistic::P95 => ">p95 s",
        Statistic::P99 => ">p99 s",
        _ => ">median s",
    }
}

/// Columns that a narrow terminal leaves out.
const OPTIONAL: &[&str] = &[
    "p10 s",
    "p90 s",
    "p99 s",
    "spurious",
    "published s",
    "at once",
    "retransmissions",
];
/// The place of the first percentile among the columns.
const TIMES_FROM: usize = 3;
/// The largest median of each cell that counts as the shortest, of cells with several algorithms,
/// enough runs and a difference.
fn best_medians(rows: &[Row]) -> BTreeMap<&str, f64> {
    let mut best = BTreeMap::new();
    let timed = Timed::of(rows);
    for mut ranked in by_cell(rows) {
        ranked.retain(|(row, _)| timed.is_comparable(row, rows));
        let [(row, fct), ..] = &ranked[..] else {
            continue;
        };
        let enough = ranked.iter().all(|(row, _)| row.runs >= RANKED_FROM);
        if enough && spread(&ranked) > 1.0 + SAME {
            best.insert(row.scenario.as_str(), fct.p50 * (1.0 + SAME));
        }
    }
    best
}

/// The source of published values, or why there are none; and transmission parameters that
/// differ between algorithms.
pub(crate) fn notes(table: &mut TextTable, rows: &[Row], print: &Print) {
    let of_study =
        |row: &Row, with: &str| published::study(&print.find(with, &row.algorithm)?.study);
    if let Some(study) = rows.iter().find_map(|row| of_study(row, &row.compare_with)) {
        let (authors, year) = (study.authors.join(", "), study.year);
        table.add_note(&format!(
            "published s: published medians of {authors}: “{}”, {year}; ratio: measured over published.",
            study.title
        ));
    }
    let left_out = rows.iter().find_map(|row| {
        let (with, keys) = row.not_compared.as_ref()?;
        Some((of_study(row, with)?, keys))
    });
    if let Some((study, keys)) = left_out {
        table.add_note(&format!(
            "Published values of {} are left out: --set changes {}.",
            study.citation(),
            listed(&keys.iter().map(String::as_str).collect::<Vec<_>>()),
        ));
    }
    if let Some(note) = transmission::note(rows) {
        table.add_note(&note);
    }
}

/// One line per run, with its seed and trace hash.
pub fn each_table(rows: &[EachRow]) -> TextTable {
    if rows.iter().any(|row| delivery::is_of(&row.metrics)) {
        return delivery::each_table(rows);
    }
    let columns = [">median s", ">max s", ">retransmissions", ">spurious"];
    let timed = Timed::of_each(rows);
    let mut table = each_lines(rows, &columns, |row| {
        let fct = timed.times_of(row);
        let sum = |metric: &str| {
            let found = row.metrics.get(metric);
            found.map_or_else(dash, |m| format!("{:.0}", m.mean * m.n as f64))
        };
        vec![
            fct.map_or_else(dash, |f| seconds(f.p50)),
            fct.map_or_else(dash, |f| seconds(f.max)),
            sum(metrics::RETRANSMISSIONS.name),
            sum(metrics::SPURIOUS.name),
        ]
    });
    table.optional(&["spurious", "max s", "retransmissions"]);
    table
}

/// Legend of the columns of the [`table`] of these rows.
pub fn columns(rows: &[Row]) -> String {
    if is_shared(rows) {
        return shares::COLUMNS.to_owned();
    }
    if let Some(row) = rows.iter().find(|row| delivery::is_of(&row.metrics)) {
        return delivery::legend(&row.metrics).to_owned();
    }
    let timed = Timed::of(rows);
    let fallback = match timed {
        Timed::RunMeans => ", since a run has more than 65,536 responses",
        Timed::Flows | Timed::Responses => "",
    };
    let percentiles = timed.percentiles().map(|one| {
        percentile_head(one)
            .trim_start_matches('>')
            .trim_end_matches(" s")
    });
    format!(
        "{} are of {}{fallback}. Retransmissions and spurious retransmissions are counted per flow; a \
         retransmission is spurious if an earlier transmission and its response were not lost.",
        listed(&percentiles),
        timed.of_what()
    )
}

/// Legend of the columns that [`table`] adds where requests take the server time.
pub const SERVED_COLUMNS: &str = "answers/s are requests answered per second of a run; answered and \
at once are the shares of requests that were answered, and before anything was sent again.";

/// Returns true if requests take the server time.
pub fn serves(rows: &[Row]) -> bool {
    let serves = |row: &Row| row.metrics.contains_key(metrics::SERVER_HANDLED.name);
    rows.iter().any(serves)
}

/// The rows of one cell, fastest first.
type Ranked<'a> = Vec<(&'a Row, &'a Statistics)>;

/// The slowest median over the fastest.
fn spread(ranked: &Ranked<'_>) -> f64 {
    match (ranked.first(), ranked.last()) {
        (Some(first), Some(last)) if first.1.p50 > 0.0 => last.1.p50 / first.1.p50,
        _ => 1.0,
    }
}

/// The cell in which algorithms differ most, by name within its study.
pub fn widest_cell(rows: &[Row]) -> Option<&str> {
    by_cell(rows)
        .iter()
        // The last of equals: sweeps go from mild to hard.
        .max_by(|a, b| spread(a).total_cmp(&spread(b)))
        .and_then(|ranked| Some(ranked.first()?.0.cell_name()))
}

/// The rows of each cell that completed flows, fastest first.
fn by_cell(rows: &[Row]) -> Vec<Ranked<'_>> {
    let mut cells: Vec<Ranked<'_>> = Vec::new();
    let timed = Timed::of(rows);
    for row in rows {
        let Some(fct) = timed.times(row) else {
            continue;
        };
        match cells.last_mut() {
            Some(cell) if cell[0].0.scenario == row.scenario => cell.push((row, fct)),
            _ => cells.push(vec![(row, fct)]),
        }
    }
    for cell in &mut cells {
        cell.sort_by(|a, b| a.1.p50.total_cmp(&b.1.p50));
    }
    cells
}

/// Returns whether a body of a run crosses in several blocks (RFC 7959).
pub fn in_blocks(spec: &RunSpec) -> bool {
    let group = &spec.measured;
    group.transport == Transport::Datagrams && group.workload.requests().has_blocks()
}

/// Title of the report of one run.
pub fn item_by_item(spec: &RunSpec) -> &'static str {
    let group = &spec.measured;
    match (&group.transport, group.workload.requests().has_blocks()) {
        (Transport::Datagrams, true) => "one transfer, block by block",
        (Transport::Datagrams, false) => "one run, exchange by exchange",
        (Transport::Connections(_), true) => "one transfer, segment by segment",
        (Transport::Connections(_), false) => "one run, segment by segment",
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::published::Expected;
    use crate::run::Outcome;
    use crate::testing;

    /// The thesis with its published completion times.
    pub(crate) fn thesis() -> Print {
        let files = [
            include_str!("../../papers/thesis/table06_fct.csv"),
            include_str!("../../papers/thesis/table10_fct.csv"),
        ];
        let rows = files.iter().flat_map(|text| {
            let table = crate::csv::Table::read(text).expect("a table");
            let row = |row: usize| {
                let text = |column| table.cell(row, column).unwrap_or_default().to_owned();
                let (clients, error, buffer) =
                    (text("clients"), text("error"), text("buffer_bytes"));
                let median = table.number(row, "median_s").expect("a median");
                Expected {
                    study: "thesis".to_owned(),
                    cell: format!("long-{clients}c-{error}-{buffer}"),
                    algorithm: text("algorithm"),
                    metric: metrics::FCT_S.name.to_owned(),
                    values: vec![(Statistic::P50, median)],
                    ..Expected::default()
                }
            };
            (0..table.len()).map(row).collect::<Vec<_>>()
        });
        Print::new(rows.collect())
    }

    /// An outcome with completion times in seconds by algorithm, share of errors and seed.
    pub(crate) fn timed(
        seeds: u64,
        fct: impl Fn(&str, f64, u64) -> Option<u64> + Sync,
    ) -> Outcome<'static> {
        let set = ["clients=1", "run.algorithms=default,cocoa-001"];
        let scenario = testing::scenario("thesis/long", &set);
        testing::outcome(scenario, &testing::seeds(seeds, None), |spec| {
            let error = testing::link(spec.clone()).link.down.loss.mean_ratio();
            testing::flow(fct(spec.measured.controller.entry().name, error, spec.seed))
        })
    }

    #[test]
    fn runs_of_small_exchanges_are_not_called_block_by_block() {
        for (name, algorithm, words) in [
            ("thesis/long", "default", "one transfer, block by block"),
            (
                "thesis/long",
                "tcp-newreno",
                "one transfer, segment by segment",
            ),
            ("thesis/short", "default", "one run, exchange by exchange"),
            ("thesis/short", "tcp-newreno", "one run, segment by segment"),
        ] {
            let scenario = testing::scenario(name, &[&format!("run.algorithms={algorithm}")]);
            let spec = scenario.spec(&scenario.cells()[0], &scenario.algorithms()[0], 1);
            assert_eq!(item_by_item(&spec), words, "{name} {algorithm}");
        }
    }

    #[test]
    fn a_changed_link_is_not_compared_with_published_values() {
        let of = |set: &[&str]| {
            let scenario = testing::scenario("carob/default", set);
            let run = |_: &RunSpec| testing::flow(Some(300));
            let outcome = testing::outcome(scenario, &testing::seeds(1, None), run);
            table(&outcome.rows(), &thesis(), false).to_string()
        };
        let usual = of(&[]);
        assert!(
            usual.contains("published s") && usual.contains("Pesola: “"),
            "{usual}"
        );
        let one_of_its_own = of(&["error=high"]);
        assert!(one_of_its_own.contains("published s"), "{one_of_its_own}");
        let same = of(&["down.rate=30 kbit/s"]);
        assert!(same.contains("published s"), "{same}");
        let changed = of(&["down.rate=60 kbit/s", "block=64 B", "cc.k_weak=4"]);
        assert!(
            !changed.contains("published s") && !changed.contains("ratio"),
            "{changed}"
        );
        let note = "Published values of Pesola 2020 are left out: --set changes link.down.rate and \
                    workload.block.";
        assert!(changed.contains(note), "{changed}");
        let named = of(&["loss=5%", "error=none"]);
        assert!(named.contains("carob/default-none, loss 5 %"), "{named}");
        assert!(
            named.contains(
                "Transmission parameters differ: rto_max 60 s (default, cocoa-plus), 32 s"
            )
        );
    }

    #[test]
    fn the_table_shows_print_and_ratio() {
        let fct = |_: &str, _: f64, _: u64| Some(300);
        let table = table(&timed(4, fct).rows(), &thesis(), true).to_string();
        let line = table.lines().nth(2).expect("a first row");
        assert!(line.starts_with("thesis/long-1c-none-2500 "), "{table}");
        assert!(line.contains("  285.69  1.050  "), "{table}");
        assert!(
            table.contains("trace hash") && !table.contains("done"),
            "{table}"
        );
    }
}
