//! Completion times relative to a baseline algorithm: a point and an interval for each algorithm of
//! each cell, paired by seed.

use super::page::FigureBlock;
use super::paired_rows::{PairedGroup, PairedRow, PairedRows};
use super::picture::Picture;
use super::scale::{Mapping, number};
use crate::paired::Paired;
use crate::reading::{self, Series};
use crate::run::{Outcome, Row};
use crate::summary::label;
use crate::timed::Timed;

/// The most lines of one figure; box plots show more.
const LINES_MAX: usize = 90;
/// The algorithm that others are compared with, where a cell has it; else the cell's first.
const BASELINE: &str = "default";

/// An algorithm in a cell: logarithms of the ratio, none for the baseline.
struct Line {
    algorithm: String,
    ratio: Option<Paired>,
}

impl Line {
    /// The ratio and its interval.
    fn values(&self) -> (f64, f64, f64) {
        let (mean, half) = self.ratio.map_or((0.0, 0.0), |p| (p.mean, p.half));
        (mean.exp(), (mean - half).exp(), (mean + half).exp())
    }

    /// The values in a few words.
    fn text(&self) -> String {
        let (mean, low, high) = self.values();
        match self.ratio {
            None => "1, baseline".to_owned(),
            Some(_) => format!("{} ({} to {})", brief(mean), brief(low), brief(high)),
        }
    }

    /// The row of the figure.
    fn row(&self) -> PairedRow {
        let (value, low, high) = self.values();
        let seeds = self.ratio.map_or_else(String::new, |paired| {
            format!(", {} paired seeds", paired.seeds)
        });
        PairedRow {
            name: self.algorithm.clone(),
            look: self.algorithm.clone(),
            value,
            interval: (low, high),
            text: self.text(),
            tip: format!("{}: {}{seeds}", self.algorithm, self.text()),
        }
    }
}

/// A cell with the algorithms that have enough seeds, the fastest first.
struct Group {
    heading: String,
    baseline: String,
    lines: Vec<Line>,
}

/// The figure with title and caption; `None` with fewer than ten seeds, one algorithm, or too many
/// lines.
pub(super) fn figure(outcome: &Outcome<'_>, rows: &[Row]) -> Option<FigureBlock> {
    let groups = groups(outcome, rows);
    let lines: usize = groups.iter().map(|group| group.lines.len()).sum();
    if groups.is_empty() || lines > LINES_MAX {
        return None;
    }
    let mut baselines: Vec<&str> = groups.iter().map(|g| g.baseline.as_str()).collect();
    baselines.dedup();
    let baseline = match baselines[..] {
        [one] => one,
        _ => "the first algorithm",
    };
    let caption = format!(
        "Geometric means of the ratio in runs with the same seed, with intervals that hold for all {} \
         comparisons together at 95 % (Student's t, Bonferroni). A ratio of 0.5 is half of the time.",
        lines - groups.len()
    );
    let timed = Timed::of(rows);
    let title = format!("{} relative to {baseline}.", timed.heading());
    Some(FigureBlock::new(
        draw(&groups, timed, baseline),
        title,
        &caption,
    ))
}

fn groups(outcome: &Outcome<'_>, rows: &[Row]) -> Vec<Group> {
    let timed = Timed::of(rows);
    let series = reading::series(outcome, |record| Some(timed.of_run(record)?.ln()));
    let cells: Vec<&[Series]> = series
        .chunk_by(|a, b| a.scenario() == b.scenario())
        .filter(|cell| cell.len() > 1)
        .collect();
    let comparisons = cells.iter().map(|cell| cell.len() - 1).sum();
    let mut groups = Vec::new();
    for cell in cells {
        let named = cell.iter().find(|series| series.algorithm() == BASELINE);
        let baseline = named.unwrap_or(&cell[0]);
        let mut lines: Vec<Line> = cell
            .iter()
            .filter_map(|series| {
                let ratio = if std::ptr::eq(series, baseline) {
                    None
                } else {
                    Some(Paired::of(baseline.values(), series.values(), comparisons)?)
                };
                Some(Line {
                    algorithm: series.algorithm().to_owned(),
                    ratio,
                })
            })
            .collect();
        if lines.len() < 2 {
            continue;
        }
        lines.sort_by(|a, b| a.values().0.total_cmp(&b.values().0));
        let row = rows.iter().find(|row| row.scenario == baseline.scenario());
        groups.push(Group {
            heading: row.map_or_else(String::new, |row| label(rows, row)),
            baseline: baseline.algorithm().to_owned(),
            lines,
        });
    }
    groups
}

fn draw(groups: &[Group], timed: Timed, baseline: &str) -> Picture {
    let group = |group: &Group| PairedGroup {
        heading: group.heading.clone(),
        rows: group.lines.iter().map(Line::row).collect(),
    };
    let rows = PairedRows {
        label: format!("{} relative to {baseline}", timed.noun()),
        mapping: Mapping::Logarithmic,
        baseline: 1.0,
        groups: groups.iter().map(group).collect(),
    };
    rows.picture()
}

/// Three significant digits at most.
fn brief(ratio: f64) -> String {
    let decimals = match ratio {
        100.0.. => 0,
        10.0.. => 1,
        0.1.. => 2,
        _ => 3,
    };
    number(ratio, decimals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::simulated;

    fn with(cells: &[&str], seeds: u64) -> Option<FigureBlock> {
        let outcome = simulated("thesis/long", cells, seeds);
        figure(&outcome, &outcome.rows())
    }

    const ONE: [&str; 5] = [
        "clients=1",
        "error=medium",
        "link.buffer=2500 B",
        "response=5120 B",
        "run.algorithms=cocoa-001,default,tcp-newreno",
    ];

    #[test]
    fn algorithms_are_sorted_by_their_ratio_to_the_baseline() {
        let block = with(&ONE, 10).expect("a figure");
        assert!(block.title.contains("default"), "{}", block.title);
        assert!(block.caption.contains("all 2 comparisons"));
        // A baseline has no interval; the others have one, and a value.
        assert_eq!(block.picture.0.matches("10 paired seeds").count(), 2);
        assert_eq!(block.picture.0.matches(">1, baseline<").count(), 1);
        let at = |name: &str| block.picture.0.find(&format!(">{name}<"));
        assert!(at("tcp-newreno") < at("default"), "TCP has a window");
        assert!(!block.picture.0.contains("NaN"));
    }

    #[test]
    fn ranking_needs_ten_seeds_and_two_algorithms() {
        assert!(with(&ONE, 9).is_none());
        let mut alone = ONE;
        alone[4] = "run.algorithms=default";
        assert!(with(&alone, 10).is_none());
    }

    #[test]
    fn every_cell_has_a_heading_where_there_are_several() {
        let every_error = [ONE[0], ONE[2], ONE[3], ONE[4]];
        let svg = with(&every_error, 10).expect("a figure").picture.0;
        for error in ["none", "low", "medium", "high"] {
            assert!(svg.contains(&format!(">error {error}<")), "{error}");
        }
    }
}
