//! Interaction of routing and congestion control at one node over time. Panels: rank, ETX of the
//! link, changes of the parent, RTO and transmissions.

use carob_cc::time::Instant;
use carob_sim::mesh::record::{MeshRecord, Traced};

use super::chart::{At, Axis, Chart, Layer, Panel, Part, Shared, steps};
use super::page::FigureBlock;
use super::picture::Picture;
use super::scale::Mapping;
use crate::metrics;
use crate::run::{Outcome, Row};

/// Algorithms that have a column, at most.
const COLUMNS_MAX: usize = 3;
/// Height of a panel.
const AREA: f64 = 104.0;
/// Changes and transmissions are summed over this many minutes: 10 s.
const SPAN: f64 = 1.0 / 6.0;
/// A rank without a parent.
const INFINITE_RANK: u16 = u16::MAX;

/// The value of a sample that a panel shows, if the sample has one.
type Value = fn(&Traced) -> Option<f64>;

/// Values of a panel.
#[derive(Clone, Copy)]
enum Values {
    /// A line through the values of the samples.
    Line(Value),
    /// Bars: sums over [`SPAN`] of a count of a sample, which may depend on the sample before.
    Bars(fn(Option<&Traced>, &Traced) -> u32),
}

/// One of a column's panels.
struct Shown {
    label: &'static str,
    mapping: Mapping,
    values: Values,
}

/// Ranks without a way back and timers span decades.
const PANELS: [Shown; 5] = [
    Shown {
        label: "Rank",
        mapping: Mapping::Logarithmic,
        values: Values::Line(rank),
    },
    Shown {
        label: "ETX",
        mapping: Mapping::Linear,
        values: Values::Line(etx),
    },
    Shown {
        label: "Parent changes",
        mapping: Mapping::Linear,
        values: Values::Bars(|before, sample| {
            u32::from(before.is_some_and(|before| before.parent != sample.parent))
        }),
    },
    Shown {
        label: "RTO (s)",
        mapping: Mapping::Logarithmic,
        values: Values::Line(rto),
    },
    Shown {
        label: "Transmissions",
        mapping: Mapping::Linear,
        values: Values::Bars(|_, sample| sample.retransmissions),
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

    /// From when to when there was no parent.
    fn orphaned(&self) -> Vec<(f64, f64)> {
        let mut spans: Vec<(f64, f64)> = Vec::new();
        for two in self.samples.windows(2) {
            if two[0].parent.is_some() {
                continue;
            }
            let (from, to) = (self.at(&two[0]), self.at(&two[1]));
            match spans.last_mut() {
                Some(last) if last.1.to_bits() == from.to_bits() => last.1 = to,
                _ => spans.push((from, to)),
            }
        }
        spans
    }

    /// Sums of a count over spans of [`SPAN`].
    fn sums(&self, count: fn(Option<&Traced>, &Traced) -> u32) -> Vec<f64> {
        let mut sums = Vec::new();
        let mut before = None;
        for sample in &self.samples {
            let index = (self.at(sample) / SPAN) as usize;
            if sums.len() <= index {
                sums.resize(index + 1, 0.0);
            }
            sums[index] += f64::from(count(before, sample));
            before = Some(sample);
        }
        sums
    }

    fn end(&self) -> f64 {
        self.samples.last().map_or(0.0, |last| self.at(last))
    }
}

/// The traced node of the cell in which parents change most; nothing without RPL.
pub(super) fn figure(outcome: &Outcome<'_>, rows: &[Row]) -> Option<FigureBlock> {
    let (picture, title) = draw(outcome, rows)?;
    let caption = "The node that is traced, in the first run of each algorithm, in the cell in which parents \
                   change most.";
    Some(FigureBlock::new(picture, format!("{title}."), caption))
}

/// The traced node under each of the first algorithms, and the title.
fn draw(outcome: &Outcome<'_>, rows: &[Row]) -> Option<(Picture, String)> {
    let resets = |row: &Row| {
        row.metrics
            .get(metrics::PARENT_RESETS.name)
            .map_or(0.0, |s| s.mean)
    };
    let most = rows.iter().max_by(|a, b| resets(a).total_cmp(&resets(b)))?;
    if resets(most) == 0.0 {
        return None;
    }
    let cell = most.cell_name();
    let of_cell = rows.iter().filter(|row| row.cell_name() == cell);
    let traced = of_cell.filter_map(|row| {
        let (job, record) = outcome.of(cell, &row.algorithm).next()?;
        let title = format!("{}, seed {}", row.algorithm, job.seed);
        column(record.mesh.as_ref()?, &title)
    });
    let mut columns: Vec<Column> = traced.collect();
    let of = match columns.len() {
        all if all > COLUMNS_MAX => format!(", of the first {COLUMNS_MAX} of {all} algorithms"),
        _ => String::new(),
    };
    columns.truncate(COLUMNS_MAX);
    let node = outcome
        .of(cell, &most.algorithm)
        .find_map(|(_, record)| Some(record.mesh.as_ref()?.traced))?;
    if columns.is_empty() {
        return None;
    }
    let label = format!(
        "Node {node} of {cell}: rank, ETX, changes of the parent, RTO and transmissions over time{of}"
    );
    Some((panels(&columns, &label), label))
}

fn column(record: &MeshRecord, title: &str) -> Option<Column> {
    let first = record.trace.first()?;
    Some(Column {
        title: title.to_owned(),
        samples: record.trace.clone(),
        from: first.at,
    })
}

fn panels(columns: &[Column], label: &str) -> Picture {
    let panels = PANELS.iter().enumerate().flat_map(|(row, shown)| {
        let title = move |column: &Column| match row {
            0 => column.title.clone(),
            _ => String::new(),
        };
        columns.iter().map(move |column| Panel {
            title: title(column),
            ..column.panel(shown)
        })
    });
    let chart = Chart {
        columns: columns.len(),
        height: AREA,
        shared: Shared::Rows,
        x_label: "Time since traffic began (min)".to_owned(),
        ..Chart::over_time(label, panels.collect())
    };
    chart.picture()
}

impl Column {
    fn panel(&self, shown: &Shown) -> Panel {
        let all: Vec<f64> = match shown.values {
            Values::Line(of) => self.values(of).collect(),
            Values::Bars(count) => self.sums(count),
        };
        let high = all.iter().copied().fold(0.0, f64::max);
        let range = match shown.mapping {
            _ if all.is_empty() => (f64::INFINITY, f64::NEG_INFINITY),
            Mapping::Linear => (0.0, high),
            Mapping::Logarithmic => (all.iter().copied().fold(high.max(1e-3), f64::min), high),
        };
        let (below, above) = (f64::NEG_INFINITY, f64::INFINITY);
        let orphaned = self.orphaned().into_iter();
        let orphaned = orphaned.map(|(from, to)| ((from, below), (to, above)));
        let orphaned = Part::Rects("pause".to_owned(), orphaned.collect());
        let mut layers = vec![Layer::new("no parent").part(orphaned)];
        match shown.values {
            Values::Line(_) if all.is_empty() => {
                let text = "keeps none: 2 to 3 s, doubled".to_owned();
                let class = "middle halo".to_owned();
                let middle = (self.end() / 2.0, 2.5);
                layers.push(Layer::new("").part(Part::Text(class, middle, text, false)));
            }
            Values::Line(of) => {
                let lines = Part::Line("circle-line".to_owned(), self.lines(of));
                layers.push(Layer::new("value, each second").part(lines));
            }
            Values::Bars(_) => layers.push(Layer::new("sum over 10 s").part(self.bars(all))),
        }
        Panel {
            x: Axis::new("", Mapping::Linear, (0.0, self.end()), 4),
            y: Axis::new(shown.label, shown.mapping, range, 4),
            layers,
            ..Panel::default()
        }
    }

    /// Lines that change where the value does, with gaps where there is none.
    fn lines(&self, of: Value) -> Vec<Vec<At>> {
        let runs = self
            .samples
            .chunk_by(|a, b| of(a).is_some() == of(b).is_some());
        let line = |run: &[Traced]| {
            let end = run.last().map_or(0.0, |last| self.at(last));
            let values = run.iter().filter_map(|s| Some((self.at(s), of(s)?)));
            steps(values, end)
        };
        runs.map(line).filter(|line| !line.is_empty()).collect()
    }

    fn bars(&self, sums: Vec<f64>) -> Part {
        let bar = |(n, sum): (f64, f64)| {
            let (from, to) = (n * SPAN, ((n + 1.0) * SPAN).min(self.end()));
            ((from, 0.0), (to, sum))
        };
        let sums = (0..).map(f64::from).zip(sums);
        let bars = sums.filter(|(_, sum)| *sum > 0.0).map(bar);
        Part::Rects("circle-bars".to_owned(), bars.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::simulated;

    fn drawn(cell: &str, algorithms: &str) -> Option<(Picture, String)> {
        let outcome = simulated(cell, &["duration=2 min", "warm_up=60 s", algorithms], 1);
        draw(&outcome, &outcome.rows())
    }

    #[test]
    fn each_algorithm_has_a_column_of_five_panels() {
        let three = "run.algorithms=default,cocoa-004-text,cocoa-004-as-run";
        let (picture, label) = drawn("rpl/pint-rpl-1s", three).expect("a figure");
        let svg = picture.0;
        assert!(label.contains("pint-rpl-1s"), "{label}");
        assert!(label.ends_with("over time"), "{label}");
        for title in ["default, seed 1", "cocoa-004-text, seed 1"] {
            assert!(svg.contains(title), "{title}");
        }
        assert!(svg.matches("class=\"circle-line\"").count() >= 8, "{svg}");
        assert!(svg.contains(">Parent changes<") && !svg.contains("NaN"));
        // Default CoAP has no RTO to show.
        assert_eq!(svg.matches("keeps none").count(), 1);
    }

    #[test]
    fn without_changes_of_parents_there_is_none() {
        assert!(drawn("rpl/pint-static-1s", "run.algorithms=default").is_none());
    }

    #[test]
    fn algorithms_without_a_column_are_counted() {
        let four = "run.algorithms=default,fasor,cocoa-03,carob";
        let (picture, label) = drawn("rpl/pint-rpl-1s", four).expect("a figure");
        assert!(label.ends_with("of the first 3 of 4 algorithms"), "{label}");
        assert!(!picture.0.contains("carob, seed"));
    }
}
