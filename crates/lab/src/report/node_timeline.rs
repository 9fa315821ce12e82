//! Interaction of routing and congestion control at one node over time. Panels: rank, ETX of the
//! link, RTO and copies; every change of the parent is marked.

use std::fmt::Write as _;

use carob_cc::time::Instant;
use carob_sim::mesh::record::{MeshRecord, Traced};

use super::frame::{DrawKey, Frame, Key, WIDTH, left_margin, legend};
use super::scale::{Mapping, Scale};
use super::svg::{Svg, short};
use crate::run::{Outcome, Row};

/// Algorithms that have a column, at most.
const COLUMNS_MAX: usize = 3;
/// Between two columns.
const GAP: f64 = 28.0;
const TITLE: f64 = 24.0;
const AREA: f64 = 104.0;
/// Between two of a column's panels.
const BETWEEN: f64 = 14.0;
/// Copies are summed over so many minutes: 10 s.
const SPAN: f64 = 1.0 / 6.0;
/// A rank without a parent.
const INFINITE_RANK: u16 = u16::MAX;

/// The value of a sample that a panel shows, if the sample has one.
type Value = fn(&Traced) -> Option<f64>;

/// One of a column's panels.
struct Shown {
    label: &'static str,
    mapping: Mapping,
    /// Copies, which are bars, have none.
    of: Option<Value>,
}

/// Ranks without a way back and timers span decades.
const PANELS: [Shown; 4] = [
    Shown {
        label: "Rank",
        mapping: Mapping::Logarithmic,
        of: Some(rank),
    },
    Shown {
        label: "ETX",
        mapping: Mapping::Linear,
        of: Some(etx),
    },
    Shown {
        label: "RTO (s)",
        mapping: Mapping::Logarithmic,
        of: Some(rto),
    },
    Shown {
        label: "Copies in 10 s",
        mapping: Mapping::Linear,
        of: None,
    },
];

fn rank(sample: &Traced) -> Option<f64> {
    (sample.parent.is_some() && sample.rank != INFINITE_RANK).then(|| f64::from(sample.rank))
}

fn etx(sample: &Traced) -> Option<f64> {
    (sample.parent.is_some() && sample.etx > 0).then(|| f64::from(sample.etx) / 100.0)
}

fn rto(sample: &Traced) -> Option<f64> {
    (!sample.rto.is_zero()).then(|| sample.rto.as_micros() as f64 / 1e6)
}

/// The traced node of one run.
struct Column {
    title: String,
    samples: Vec<Traced>,
    from: Instant,
}

impl Column {
    /// When, in minutes.
    fn at(&self, sample: &Traced) -> f64 {
        sample.at.since(self.from).as_micros() as f64 / 6e7
    }

    fn values(&self, of: Value) -> impl Iterator<Item = f64> {
        self.samples.iter().filter_map(of)
    }

    /// When the preferred parent was another than before.
    fn changes(&self) -> impl Iterator<Item = f64> {
        let pairs = self.samples.windows(2);
        let changed = pairs.filter(|two| two[0].parent != two[1].parent);
        changed.map(|two| self.at(&two[1]))
    }

    /// From when to when there was no parent.
    fn orphaned(&self) -> Vec<(f64, f64)> {
        let runs = self
            .samples
            .chunk_by(|a, b| a.parent.is_some() == b.parent.is_some());
        let mut spans = Vec::new();
        for run in runs.filter(|run| run[0].parent.is_none()) {
            spans.push((self.at(&run[0]), self.at(&run[run.len() - 1])));
        }
        spans
    }

    /// Copies by spans of [`SPAN`].
    fn copies(&self) -> Vec<f64> {
        let mut sums = Vec::new();
        for sample in &self.samples {
            let index = (self.at(sample) / SPAN) as usize;
            if sums.len() <= index {
                sums.resize(index + 1, 0.0);
            }
            sums[index] += f64::from(sample.retransmissions);
        }
        sums
    }

    fn end(&self) -> f64 {
        self.samples.last().map_or(0.0, |last| self.at(last))
    }
}

/// The traced node under each of the first algorithms, in the cell in which parents change most;
/// nothing without RPL.
pub(super) fn draw(outcome: &Outcome<'_>, rows: &[Row]) -> Option<(String, String)> {
    let resets = |row: &Row| row.metrics.get("parent_resets").map_or(0.0, |s| s.mean);
    let most = rows.iter().max_by(|a, b| resets(a).total_cmp(&resets(b)))?;
    if resets(most) == 0.0 {
        return None;
    }
    let cell = most.cell_name();
    let of_cell = rows.iter().filter(|row| row.cell_name() == cell);
    let columns: Vec<Column> = of_cell
        .filter_map(|row| {
            let (job, record) = outcome.of(cell, &row.algorithm).next()?;
            column(
                record.mesh.as_ref()?,
                &format!("{}, seed {}", row.algorithm, job.seed),
            )
        })
        .take(COLUMNS_MAX)
        .collect();
    let node = outcome
        .of(cell, &most.algorithm)
        .find_map(|(_, record)| Some(record.mesh.as_ref()?.traced))?;
    if columns.is_empty() {
        return None;
    }
    let label = format!("Node {node} of {cell}: rank, ETX, RTO and copies over time");
    Some((figure(&columns, &label), label))
}

fn column(record: &MeshRecord, title: &str) -> Option<Column> {
    let first = record.trace.first()?;
    Some(Column {
        title: title.to_owned(),
        samples: record.trace.clone(),
        from: first.at,
    })
}

fn figure(columns: &[Column], label: &str) -> String {
    let mut svg = Svg::default();
    let line: &DrawKey = &|svg, (x, y)| svg.line("rto", (x - 9.0, y), (x + 9.0, y));
    let change: &DrawKey = &|svg, (x, y)| svg.line("circle-change", (x, y - 8.0), (x, y + 8.0));
    let none: &DrawKey = &|svg, (x, y)| svg.rect("pause", x - 9.0, y - 7.0, 18.0, 14.0);
    let keys = [
        ("value, each second", line),
        ("another parent", change),
        ("no parent", none),
    ]
    .map(|(label, draw)| Key { label, draw });
    let top = 14.0 + legend(&mut svg, 64.0, 14.0, WIDTH - 16.0, &keys) + TITLE;
    let scale = |panel: &Shown, pixels: (f64, f64)| {
        let all: Vec<f64> = match panel.of {
            Some(of) => columns.iter().flat_map(|c| c.values(of)).collect(),
            None => columns.iter().flat_map(Column::copies).collect(),
        };
        let high = all.iter().copied().fold(0.0, f64::max);
        let low = match panel.mapping {
            Mapping::Linear => 0.0,
            Mapping::Logarithmic => all.into_iter().fold(high.max(1e-3), f64::min),
        };
        Scale::new(panel.mapping, (low, high), 4, pixels)
    };
    let margin = PANELS
        .iter()
        .map(|panel| left_margin(&scale(panel, (1.0, 0.0))))
        .fold(0.0, f64::max);
    let right = WIDTH - 16.0;
    let count = columns.len() as f64;
    let width = (right - margin - GAP * (count - 1.0)) / count;
    let end = columns.iter().map(Column::end).fold(0.0, f64::max);
    let mut bottom = top;
    for (n, column) in columns.iter().enumerate() {
        let left = margin + (width + GAP) * n as f64;
        svg.text("axis strong", (left, top - 9.0), &column.title);
        for (row, panel) in PANELS.iter().enumerate() {
            let area_top = top + (AREA + BETWEEN) * row as f64;
            let frame = Frame {
                left,
                right: left + width,
                top: area_top,
                bottom: area_top + AREA,
            };
            bottom = frame.bottom;
            let y = scale(panel, (frame.bottom, frame.top));
            let ticks = if columns.len() > 1 { 4 } else { 8 };
            let x = Scale::new(Mapping::Linear, (0.0, end), ticks, (left, left + width));
            if n == 0 {
                frame.y_axis(&mut svg, &y, panel.label);
            } else {
                frame.y_grid(&mut svg, &y);
            }
            for (from, to) in column.orphaned() {
                svg.rect(
                    "pause",
                    x.at(from),
                    frame.top,
                    (x.at(to) - x.at(from)).max(0.5),
                    AREA,
                );
            }
            for at in column.changes() {
                svg.line(
                    "circle-change",
                    (x.at(at), frame.top),
                    (x.at(at), frame.bottom),
                );
            }
            if row + 1 == PANELS.len() {
                frame.x_axis(&mut svg, &x, "");
            } else {
                svg.line("rule", (left, frame.bottom), (left + width, frame.bottom));
            }
            match panel.of {
                Some(of) => values(&mut svg, column, of, &x, &y),
                None => bars(&mut svg, column, &x, &y),
            }
            if panel
                .of
                .is_some_and(|of| column.values(of).next().is_none())
            {
                let at = (left + width / 2.0, area_top + AREA / 2.0);
                svg.text("note middle halo", at, "keeps none: 2 to 3 s, doubled");
            }
        }
    }
    let middle = f64::midpoint(margin, right);
    svg.text(
        "axis middle",
        (middle, bottom + 38.0),
        "Time since traffic began (min)",
    );
    svg.finish(WIDTH, bottom + 50.0, label)
}

/// A line that changes where its value does, with gaps where there is none.
fn values(svg: &mut Svg, column: &Column, of: Value, x: &Scale, y: &Scale) {
    let mut data = String::new();
    let mut last: Option<String> = None;
    let mut end = 0.0;
    // Writing to a String cannot fail.
    for sample in &column.samples {
        let (px, value) = (x.at(column.at(sample)), of(sample));
        let py = value.map(|value| short(y.at(value)));
        match (&last, &py) {
            (Some(before), Some(now)) if before == now => {}
            (Some(_), Some(now)) => {
                let _ = write!(data, "H{}V{now}", short(px));
            }
            (None, Some(now)) => {
                let _ = write!(data, "M{} {now}", short(px));
            }
            (Some(_), None) => {
                let _ = write!(data, "H{}", short(end));
            }
            (None, None) => {}
        }
        last = py;
        end = px;
    }
    if last.is_some() {
        let _ = write!(data, "H{}", short(end));
    }
    if !data.is_empty() {
        svg.path("circle-line", &data);
    }
}

fn bars(svg: &mut Svg, column: &Column, x: &Scale, y: &Scale) {
    let mut data = String::new();
    let base = short(y.at(0.0));
    for (n, sum) in column.copies().into_iter().enumerate() {
        if sum > 0.0 {
            let (from, to) = (
                x.at(n as f64 * SPAN),
                x.at(((n + 1) as f64 * SPAN).min(column.end())),
            );
            let _ = write!(
                data,
                "M{} {base}V{}H{}V{base}Z",
                short(from),
                short(y.at(sum)),
                short(to)
            );
        }
    }
    if !data.is_empty() {
        svg.path("circle-copies", &data);
    }
}

#[cfg(test)]
mod tests {
    use carob_sim::engine;

    use super::*;
    use crate::run::{Plan, Selection};
    use crate::scenario::{Scenario, builtin};

    fn drawn(name: &str, cell: &str) -> Option<(String, String)> {
        let (file, _) = builtin::find(name).expect("a scenario");
        let set = ["duration=2 min".to_owned(), "warm_up=60 s".to_owned()];
        let scenario = Scenario::read(file.name, file.text, &set).expect("a valid one");
        let selection = Selection {
            cell: Some(cell.to_owned()),
            seeds: Some(1),
            ..Selection::default()
        };
        let plan = Plan::new(&scenario, &selection).expect("a plan");
        let outcome = plan.execute(engine::run, |_, _| {}).expect("possible");
        draw(&outcome, &outcome.rows())
    }

    #[test]
    fn each_algorithm_has_a_column_of_four_panels() {
        let (svg, label) = drawn("rpl/pint-rpl", "pint-rpl-1s").expect("a figure");
        assert!(label.contains("pint-rpl-1s"), "{label}");
        for title in ["default, seed 1", "cocoa-004-text, seed 1"] {
            assert!(svg.contains(title), "{title}");
        }
        assert!(svg.matches("class=\"circle-line\"").count() >= 8, "{svg}");
        assert!(svg.contains("class=\"circle-change\"") && !svg.contains("NaN"));
        // Default CoAP has no RTO to show.
        assert_eq!(svg.matches("keeps none").count(), 1);
    }

    #[test]
    fn without_changes_of_parents_there_is_none() {
        assert!(drawn("rpl/pint-static", "pint-static-1s").is_none());
    }
}
