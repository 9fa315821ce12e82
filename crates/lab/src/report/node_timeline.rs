//! Interaction of routing and congestion control at one node over time. Panels: rank, ETX of the
//! link, changes of the parent, RTO and transmissions.

use carob_cc::time::Instant;
use carob_sim::mesh::record::Traced;

use super::chart::{At, Axis, Chart, Layer, Panel, Part, Shared, steps};
use super::page::FigureBlock;
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

/// Panels of a column. Ranks without a way back and timers span decades.
const PANELS: [(&str, Mapping, Values); 5] = [
    ("Rank", Mapping::Logarithmic, Values::Line(rank)),
    ("ETX", Mapping::Linear, Values::Line(etx)),
    ("Parent changes", Mapping::Linear, Values::Bars(changed)),
    ("RTO (s)", Mapping::Logarithmic, Values::Line(rto)),
    (
        "Transmissions",
        Mapping::Linear,
        Values::Bars(|_, sample| sample.retransmissions),
    ),
];

fn changed(before: Option<&Traced>, sample: &Traced) -> u32 {
    u32::from(before.is_some_and(|before| before.parent != sample.parent))
}

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

/// The traced node of the cell in which parents change most, under each of the first algorithms; nothing without RPL.
pub(super) fn figure(outcome: &Outcome<'_>, rows: &[Row]) -> Option<FigureBlock> {
    let resets = |row: &Row| {
        let resets = row.metrics.get(metrics::PARENT_RESETS.name);
        resets.map_or(0.0, |s| s.mean)
    };
    let most = rows.iter().max_by(|a, b| resets(a).total_cmp(&resets(b)))?;
    if resets(most) == 0.0 {
        return None;
    }
    let cell = most.cell_name();
    let of_cell = rows.iter().filter(|row| row.cell_name() == cell);
    let traced = of_cell.filter_map(|row| {
        let (job, record) = outcome.of(cell, &row.algorithm).next()?;
        let samples = record.mesh.as_ref()?.trace.clone();
        Some(Column {
            title: format!("{}, seed {}", row.algorithm, job.seed),
            from: samples.first()?.at,
            samples,
        })
    });
    let mut columns: Vec<Column> = traced.collect();
    let of = match columns.len() {
        0 => return None,
        all if all > COLUMNS_MAX => format!(", of the first {COLUMNS_MAX} of {all} algorithms"),
        _ => String::new(),
    };
    columns.truncate(COLUMNS_MAX);
    let mut runs = outcome.of(cell, &most.algorithm);
    let node = runs.find_map(|(_, record)| Some(record.mesh.as_ref()?.traced))?;
    let label = format!(
        "Node {node} of {cell}: rank, ETX, changes of the parent, RTO and transmissions over time{of}"
    );
    let mut panels = Vec::new();
    for (row, shown) in PANELS.into_iter().enumerate() {
        let title = |column: &Column| {
            if row == 0 {
                column.title.clone()
            } else {
                String::new()
            }
        };
        panels.extend(
            columns
                .iter()
                .map(|column| column.panel(shown).titled(&title(column))),
        );
    }
    let chart = Chart {
        columns: columns.len(),
        height: AREA,
        shared: Shared::Rows,
        ..Chart::over_time(&label, panels).below("Time since traffic began (min)")
    };
    let caption = "The node that is traced, in the first run of each algorithm, in the cell in which parents \
                   change most.";
    Some(FigureBlock::new(
        chart.picture(),
        format!("{label}."),
        caption,
    ))
}

impl Column {
    fn panel(&self, (label, mapping, values): (&str, Mapping, Values)) -> Panel {
        let orphaned = self.orphaned().into_iter();
        let orphaned = orphaned.map(|(from, to)| ((from, f64::NEG_INFINITY), (to, f64::INFINITY)));
        let orphaned = Part::Rects("pause".to_owned(), orphaned.collect());
        let shown = match values {
            Values::Line(of) if self.samples.iter().find_map(of).is_none() => {
                let text = "keeps none: 2 to 3 s, doubled".to_owned();
                Layer::new("").part(Part::text("middle halo", (self.end() / 2.0, 2.5), text))
            }
            Values::Line(of) => {
                let lines = Part::Line("circle-line".to_owned(), self.lines(of));
                Layer::new("value, each second").part(lines)
            }
            Values::Bars(count) => Layer::new("sum over 10 s").part(self.bars(self.sums(count))),
        };
        let y = match mapping {
            Mapping::Linear => Axis::linear(label, 4).with(0.0),
            Mapping::Logarithmic => Axis::logarithmic(label, 4),
        };
        let x = Axis::linear("", 4).with(0.0).with(self.end());
        Panel::new(x, y, vec![Layer::new("no parent").part(orphaned), shown])
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
