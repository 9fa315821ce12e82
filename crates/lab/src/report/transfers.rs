//! Recorded transfers in reports: time-sequence graphs and timers.

use carob_cc::time::Duration;
use carob_sim::spec::{FlowRecord, Recording, RunRecord, Transport};

use super::page::{FigureBlock, Section};
use super::sequence::{SequenceGraph, sequences};
use super::timers::{TimerTrace, timers as timer_traces};
use crate::run::{Job, Outcome, Row, RunSetupError};
use crate::summary;
use crate::text::seconds;

/// The most transfers shown side by side.
const PANELS_MAX: usize = 8;
/// Recording of a transfer for its figures.
const RECORDING: Recording = Recording {
    events: 60_000,
    events_of: Some(0),
    samples: 20_000,
    log: 0,
    packets: 0,
    bin: Duration::ZERO,
    moments: 0,
};

/// A recorded run.
#[derive(Debug)]
struct Transfer {
    title: String,
    /// Trace hash, and a note on events that were not recorded.
    remark: String,
    clients: u32,
    /// The host that is their server.
    server: u32,
    over_tcp: bool,
    /// Its bodies are larger than a block.
    in_blocks: bool,
    record: RunRecord,
}

/// Recorded runs nearest to the medians, in the cell in which the algorithms differ most.
#[derive(Debug, Default)]
pub(super) struct Typical {
    cell: String,
    runs: Vec<Transfer>,
}

impl Typical {
    /// Runs them once more to record them.
    pub(super) fn of(outcome: &Outcome<'_>, rows: &[Row]) -> Result<Self, RunSetupError> {
        // The first cell where all are alike.
        let Some(cell) = summary::widest_cell(rows).or(rows.first().map(Row::cell_name)) else {
            return Ok(Self::default());
        };
        let of_cell = rows.iter().filter(|row| row.cell_name() == cell);
        let jobs = of_cell.filter_map(|row| outcome.typical(cell, &row.algorithm));
        let jobs = jobs.take(PANELS_MAX);
        let runs: Result<_, _> = jobs.map(|job| record(outcome, &job)).collect();
        Ok(Self {
            cell: cell.to_owned(),
            runs: runs?,
        })
    }

    /// The section of a report with these figures.
    pub(super) fn section(
        &self,
        outcome: &Outcome<'_>,
        rows: &[Row],
        figures: Vec<FigureBlock>,
    ) -> Option<Section> {
        let single = rows.iter().all(|row| row.runs == 1);
        let mut text = Vec::new();
        if rows.iter().any(|row| row.cell_name() != self.cell) {
            text.push(format!(
                "In {study}/{cell}, the cell in which medians differ most. `{command}` reports any \
                 other cell.",
                study = outcome.plan().scenario().study(),
                cell = self.cell,
                command = outcome.plan().scenario().command_of_cells(),
            ));
        }
        if !single {
            text.push("For each algorithm the run nearest to its median.".to_owned());
        }
        if self.runs.iter().any(|t| t.clients > 1) {
            text.push("The first client of each run is shown.".to_owned());
        }
        if self.runs.len() == PANELS_MAX {
            text.push(format!("At most {PANELS_MAX} algorithms are shown."));
        }
        let heading = if single {
            "The transfer"
        } else {
            "Typical transfers"
        };
        (!self.runs.is_empty()).then(|| Section {
            heading: heading.to_owned(),
            text,
            figures,
            ..Section::default()
        })
    }

    /// Runs over UDP, and those over TCP: sequence graphs and timers.
    pub(super) fn over_time(&self) -> Vec<FigureBlock> {
        let mut figures = Vec::new();
        for over_tcp in [false, true] {
            let some = self.runs.iter().filter(|run| run.over_tcp == over_tcp);
            let some: Vec<&Transfer> = some.collect();
            let Some(first) = some.first() else { continue };
            let [title, reading, timers] = first.words();
            let graphs = some.iter().map(|run| (run.title.clone(), run.graph()));
            let picture = sequences(&graphs.collect::<Vec<_>>(), title);
            let remarks = some.iter().map(|run| &*run.remark);
            let caption = std::iter::once(reading).chain(remarks).collect::<String>();
            figures.push(FigureBlock::new(picture, format!("{title}."), &caption));
            let traces = some.iter().filter_map(|run| {
                let trace = TimerTrace::of(run.record.flows.first()?);
                Some((run.title.clone(), trace))
            });
            let picture = timer_traces(&traces.collect::<Vec<_>>(), "Timers over time");
            figures.push(FigureBlock::new(picture, "Timers.".to_owned(), timers));
        }
        figures
    }
}

fn record(outcome: &Outcome<'_>, job: &Job<'_>) -> Result<Transfer, RunSetupError> {
    let mut spec = outcome.plan().spec(job);
    spec.record = RECORDING;
    let over_tcp = spec.measured.transport != Transport::Datagrams;
    let in_blocks = spec.measured.workload.requests().has_blocks();
    let record = carob_sim::run(&spec).map_err(|why| RunSetupError::Run {
        cell: job.cell.name.clone(),
        why,
    })?;
    let completion = record.flows.first().and_then(FlowRecord::completion);
    let took = completion.map_or_else(
        || "not completed".to_owned(),
        |c| format!("{} s", seconds(c.as_micros() as f64 / 1e6)),
    );
    let unrecorded = match record.events_unrecorded {
        0 => String::new(),
        n => format!(" without its last {n} events"),
    };
    let (name, hash) = (&job.algorithm.name, record.trace_hash);
    Ok(Transfer {
        title: format!("{name}, seed {}: {took}", job.seed),
        remark: format!(" {name}: trace hash {hash:016x}{unrecorded}."),
        clients: spec.measured.clients,
        server: spec.all_clients(),
        over_tcp,
        in_blocks,
        record,
    })
}

/// Title of a graph, and explanations of it and of its timers.
type Words = [&'static str; 3];

const UDP_TIMERS: &str = "The retransmission timeout before dithering, the first timers drawn from it, and the \
                          round-trip times it learns from; the vertical axis is logarithmic.";
#[rustfmt::skip]
const BLOCKS: Words = [
    "Blocks over time",
    "Each dot is a requested block; a retransmission stands to the right of the transmission that was lost, and the gap \
     between them is the timer.",
    UDP_TIMERS,
];
#[rustfmt::skip]
const EXCHANGES: Words = [
    "Exchanges over time",
    "Each dot is a request; a retransmission stands to the right of the transmission before it, and the gap between \
     them is the timer.",
    UDP_TIMERS,
];
#[rustfmt::skip]
const STREAM: Words = [
    "Sequence numbers over time",
    "Each dot is a segment of data the server sent, by the first of its bytes, counted from the beginning of the \
     connection; lines are what the client had acknowledged.",
    "The server's retransmission timeout, backoff included; the vertical axis is logarithmic.",
];

impl Transfer {
    fn words(&self) -> Words {
        match (self.over_tcp, self.in_blocks) {
            (true, _) => STREAM,
            (false, true) => BLOCKS,
            (false, false) => EXCHANGES,
        }
    }

    /// The time-sequence graph of its first client.
    fn graph(&self) -> SequenceGraph {
        let events = &self.record.events;
        if self.over_tcp {
            SequenceGraph::of_stream(events, self.server, 0)
        } else {
            let item = if self.in_blocks { "Block" } else { "Exchange" };
            SequenceGraph::of(item, events, 0)
        }
    }
}
