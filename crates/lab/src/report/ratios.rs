//! Completion times relative to a baseline algorithm: a point and an interval for each algorithm of
//! each cell, paired by seed.

use super::frame::{Frame, WIDTH};
use super::look::Look;
use super::page::FigureBlock;
use super::scale::{Mapping, Scale, number};
use super::svg::{Svg, text_width};
use crate::paired::Paired;
use crate::reading::{self, Series};
use crate::run::{Outcome, Row};
use crate::summary::label;

/// Height of a line.
const LINE: f64 = 22.0;
/// Height of the heading of a cell, and the gap before it.
const HEADING: f64 = 30.0;
const TOP: f64 = 8.0;
/// Radius of a marker.
const MARKER: f64 = 5.0;
/// Width of the values at the right.
const VALUES: f64 = 150.0;
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
    Some(FigureBlock {
        svg: draw(&groups, baseline),
        title: format!("Completion times relative to {baseline}."),
        caption: format!(
            "Geometric means of the ratio in runs with the same seed, with intervals that hold for all {} \
             comparisons together at 95 % (Student's t, Bonferroni). A ratio of 0.5 is half of the time.",
            lines - groups.len()
        ),
    })
}

fn groups(outcome: &Outcome<'_>, rows: &[Row]) -> Vec<Group> {
    let series = reading::series(outcome, |record| Some(reading::completion(record)?.ln()));
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

fn draw(groups: &[Group], baseline: &str) -> String {
    let lines = || groups.iter().flat_map(|group| &group.lines);
    let widest = lines().map(|line| text_width(&line.algorithm));
    let left = widest.fold(0.0, f64::max) + 24.0;
    // A single cell is named by the title.
    let heading = if groups.len() > 1 { HEADING } else { 0.0 };
    let of_group = |group: &Group| heading + LINE * group.lines.len() as f64;
    let bottom = TOP + groups.iter().map(of_group).sum::<f64>() + 6.0;
    let frame = Frame {
        left,
        right: WIDTH - VALUES,
        top: TOP,
        bottom,
    };
    let low = lines().map(|l| l.values().1).fold(1.0, f64::min);
    let high = lines().map(|l| l.values().2).fold(1.0, f64::max);
    let pixels = (frame.left, frame.right);
    let scale = Scale::new(Mapping::Logarithmic, (low, high), 6, pixels);
    let mut svg = Svg::default();
    for &tick in &scale.ticks {
        let x = scale.at(tick);
        svg.line("grid", (x, frame.top), (x, frame.bottom));
    }
    svg.line(
        "printed-thin",
        (scale.at(1.0), frame.top),
        (scale.at(1.0), frame.bottom),
    );
    let mut y = TOP;
    for group in groups {
        if groups.len() > 1 {
            svg.text("strong", (4.0, y + HEADING - 8.0), &group.heading);
            y += HEADING;
        }
        for line in &group.lines {
            draw_line(&mut svg, &scale, &frame, line, y + LINE / 2.0);
            y += LINE;
        }
    }
    let axis = format!("Completion time relative to {baseline}");
    frame.x_axis(&mut svg, &scale, &axis);
    svg.finish(WIDTH, bottom + 52.0, &axis)
}

fn draw_line(svg: &mut Svg, scale: &Scale, frame: &Frame, line: &Line, y: f64) {
    let (mean, low, high) = line.values();
    let look = Look::of(&line.algorithm);
    let class = look.class();
    let text = match line.ratio {
        None => "1, baseline".to_owned(),
        Some(_) => format!("{} ({} to {})", brief(mean), brief(low), brief(high)),
    };
    let seeds = line.ratio.map_or_else(String::new, |paired| {
        format!(", {} paired seeds", paired.seeds)
    });
    svg.with_title(&format!("{}: {text}{seeds}", line.algorithm), |svg| {
        svg.rect("hover", 0.0, y - LINE / 2.0, WIDTH, LINE);
        let name = (frame.left - 12.0, y + 4.0);
        svg.text("label end", name, &line.algorithm);
        let bar = (scale.at(1.0).min(scale.at(mean)), y - 5.0);
        let wide = (scale.at(mean) - scale.at(1.0)).abs();
        svg.rect_faint(&format!("ratio-bar {class}"), bar, (wide, 10.0), 0.25);
        let ends = ((scale.at(low), y), (scale.at(high), y));
        svg.line(&format!("median {class}"), ends.0, ends.1);
        look.mark(svg, (scale.at(mean), y), MARKER);
        svg.text("note", (frame.right + 14.0, y + 4.0), &text);
    });
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
    use carob_sim::engine;

    use super::*;
    use crate::run::{Plan, Selection};
    use crate::scenario::{Scenario, builtin};

    fn with(cells: &[&str], seeds: u64) -> Option<FigureBlock> {
        let (file, _) = builtin::find("thesis/long").expect("a scenario");
        let set: Vec<String> = cells.iter().map(|s| (*s).to_owned()).collect();
        let scenario = Scenario::read(file.name, file.text, &set).expect("a valid one");
        let selection = Selection {
            seeds: Some(seeds),
            ..Selection::default()
        };
        let plan = Plan::new(&scenario, &selection).expect("a plan");
        let outcome = plan.execute(engine::run, |_, _| {}).expect("possible");
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
        assert_eq!(block.svg.matches("10 paired seeds").count(), 2);
        assert_eq!(block.svg.matches(">1, baseline<").count(), 1);
        let at = |name: &str| block.svg.find(&format!(">{name}<"));
        assert!(at("tcp-newreno") < at("default"), "TCP has a window");
        assert!(!block.svg.contains("NaN"));
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
        let svg = with(&every_error, 10).expect("a figure").svg;
        for error in ["none", "low", "medium", "high"] {
            assert!(svg.contains(&format!(">error {error}<")), "{error}");
        }
    }
}
