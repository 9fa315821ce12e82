//! Recorded transfers in reports: time-sequence graphs and timers.

use carob_cc::time::Duration;
use carob_sim::spec::{FlowRecord, Recording, RunRecord, RunSpec, Transport};
use carob_sim::trace::EVENTS_RECORDED_MAX;

use super::link_use::{BIN, LinkUse, link_uses};
use super::look::COLOURS;
use super::page::{FigureBlock, Section};
use super::resolved::Picture;
use super::sequence::{FlowsGraph, Kind, SequenceGraph, sequences};
use super::timers::{TimerScatter, TimerTrace, scatters, timers as timer_traces};
use crate::compare::digits;
use crate::run::{Job, Outcome, Row, RunSetupError};
use crate::summary;

/// The most transfers shown side by side.
const PANELS_MAX: usize = 8;
/// Recording of a transfer for its figures.
const RECORDING: Recording = Recording {
    events: 60_000,
    events_of: None,
    samples: 20_000,
    log: 0,
    packets: 0,
    bin: Duration::ZERO,
    moments: 0,
};
/// Number of clients from which a run is a crowd, shown by its use of the link.
const CROWD: u32 = 8;

/// A recorded run.
#[derive(Debug)]
struct Transfer {
    title: String,
    caption: String,
    /// Note on events that were not recorded; may be empty.
    unrecorded: String,
    clients: u32,
    /// The host that is their server.
    server: u32,
    over_tcp: bool,
    /// Its bodies are larger than a block.
    in_blocks: bool,
    /// Rate of the link towards the clients, in bit/s.
    rate_bps: u64,
    record: RunRecord,
}

/// The cell in which the algorithms differ most, or else the first, with its algorithms.
fn widest(rows: &[Row]) -> Option<(&str, Vec<&str>)> {
    let cell = summary::widest_cell(rows).or(rows.first().map(Row::cell_name))?;
    let of_cell = rows.iter().filter(|row| row.cell_name() == cell);
    Some((cell, of_cell.map(|row| row.algorithm.as_str()).collect()))
}

/// Recorded runs nearest to the medians, in the cell in which the algorithms differ most.
#[derive(Debug, Default)]
pub(super) struct Typical {
    cell: String,
    runs: Vec<Transfer>,
    /// Algorithms for which there was no room.
    left_out: Vec<String>,
}

impl Typical {
    /// Runs them once more to record them.
    pub(super) fn of(outcome: &Outcome<'_>, rows: &[Row]) -> Result<Self, RunSetupError> {
        let Some((cell, mut algorithms)) = widest(rows) else {
            return Ok(Self::default());
        };
        let left_out = algorithms.split_off(algorithms.len().min(PANELS_MAX));
        let jobs = algorithms
            .into_iter()
            .filter_map(|algorithm| outcome.typical(cell, algorithm));
        let runs: Result<_, _> = jobs.map(|job| record(outcome, &job)).collect();
        Ok(Self {
            cell: cell.to_owned(),
            runs: runs?,
            left_out: left_out.into_iter().map(str::to_owned).collect(),
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
            let shown = match &self.runs[..] {
                [one] if one.shows_all() => "All flows, then the first client's alone.",
                _ => "The first client of each run is shown.",
            };
            text.push(shown.to_owned());
        }
        if !self.left_out.is_empty() {
            let names: Vec<&str> = self.left_out.iter().map(String::as_str).collect();
            text.push(format!("Not shown: {}.", summary::listed(&names)));
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

    /// Each run over time: alone, or beside the others.
    pub(super) fn over_time(&self) -> Vec<FigureBlock> {
        match &self.runs[..] {
            [] => Vec::new(),
            [one] => one_transfer(one),
            several => side_by_side(several),
        }
    }

    /// Crowds with a server that takes its time, or without.
    fn crowds(&self, with_server: bool) -> impl Iterator<Item = &Transfer> {
        let crowds = self.runs.iter().filter(|run| run.clients >= CROWD);
        crowds.filter(move |run| run.record.server.is_some() == with_server)
    }

    /// Crowds on the link and the use that each makes of it, unless they wait for the server.
    pub(super) fn link(&self) -> Vec<FigureBlock> {
        let panels = self.crowds(false).map(|run| {
            let content = LinkUse::of(&run.record, run.rate_bps);
            let wait = digits(content.longest_wait());
            (format!("{}, waits up to {wait} s", run.title), content)
        });
        let panels: Vec<(String, LinkUse)> = panels.collect();
        by_algorithm("The link over time", CROWD_READING, &panels, link_uses)
    }

    /// The timers of all clients of crowds with a slow server.
    pub(super) fn timers(&self) -> Vec<FigureBlock> {
        let panels = self.crowds(true).map(|run| {
            let content = TimerScatter::of(&run.record);
            let (run, _) = run.title.split_once(':').unwrap_or_default();
            (format!("{run}: {}", content.summary()), content)
        });
        let panels: Vec<(String, TimerScatter)> = panels.collect();
        by_algorithm(
            "The timers of all clients",
            SCATTER_READING,
            &panels,
            scatters,
        )
    }
}

/// Panels with their titles as one figure; none without panels.
fn by_algorithm<T>(
    title: &str,
    caption: &str,
    panels: &[(String, T)],
    draw: fn(&[(String, T)], &str) -> Picture,
) -> Vec<FigureBlock> {
    if panels.is_empty() {
        return Vec::new();
    }
    let picture = draw(panels, &format!("{title}, by algorithm"));
    vec![FigureBlock::new(picture, format!("{title}."), caption)]
}

fn record(outcome: &Outcome<'_>, job: &Job<'_>) -> Result<Transfer, RunSetupError> {
    let mut spec = outcome.plan().spec(job);
    spec.record = RECORDING;
    if spec.clients >= CROWD {
        spec.record.bin = BIN;
    }
    let over_tcp = spec.transport != Transport::Datagrams;
    if has_timers(&spec) {
        spec.record.events = EVENTS_RECORDED_MAX;
    } else if !draws_all(over_tcp, spec.clients) {
        spec.record.events_of = Some(0);
    }
    let rate_bps = spec.link.down.rate_bps;
    let in_blocks = spec.workload.requests().has_blocks();
    let record = carob_sim::run(&spec).map_err(|why| RunSetupError::Run {
        cell: job.cell.name.clone(),
        why,
    })?;
    let completion = record.flows.first().and_then(FlowRecord::completion);
    let took = completion.map_or_else(
        || "not completed".to_owned(),
        |c| format!("{} s", summary::seconds(c.as_micros() as f64 / 1e6)),
    );
    let unrecorded = match record.events_unrecorded {
        0 => String::new(),
        n => format!(" Its last {n} events are not shown."),
    };
    Ok(Transfer {
        title: format!("{}, seed {}: {took}", job.algorithm.name, job.seed),
        caption: format!("Trace hash {:016x}.", record.trace_hash),
        unrecorded,
        clients: spec.clients,
        server: spec.all_clients(),
        over_tcp,
        in_blocks,
        rate_bps,
        record,
    })
}

const BLOCKS_READING: &str = "Each dot is a requested block; a retransmission stands to the \
right of the transmission that was lost, and the gap between them is the timer.";
const EXCHANGES_READING: &str = "Each dot is a request; a retransmission stands to the right of the \
transmission before it, and the gap between them is the timer.";
const STREAM_READING: &str = "Each dot is a segment of data the server sent, by the first of its \
bytes, counted from the beginning of the connection; lines are what the client had acknowledged.";
const CROWD_READING: &str = "What the bottleneck towards the clients carried, all of them \
together: useful bytes, and on top of them responses after the first to an exchange and \
TCP's spurious retransmissions. The line is the longest time that a packet had waited.";
const SCATTER_READING: &str = "Each dot is a timer of a transmission of a request, in the order in \
which they began; up to 1,500 of a run. A timer expired too early if a response to a transmission sent \
until then was on its way. On the right is the share of the run's responses received until then.";
const TIMER_READING: &str = "The retransmission timeout before dithering, the first timers drawn \
from it, and the round-trip times it learns from; the vertical axis is logarithmic.";
const SOCKET_TIMER_READING: &str = "The server's retransmission timeout, backoff included; the \
vertical axis is logarithmic.";

/// Returns true if the timers of all clients are drawn: for a crowd with a server that takes time
/// to respond.
fn has_timers(spec: &RunSpec) -> bool {
    spec.clients >= CROWD && spec.server.is_used()
}

/// Words of graphs: title, explanation, explanation of timers, and the kind of item that the longest wait is for.
type Words = [&'static str; 4];

const BLOCKS: Words = ["Blocks over time", BLOCKS_READING, TIMER_READING, "a block"];
const EXCHANGES: Words = [
    "Exchanges over time",
    EXCHANGES_READING,
    TIMER_READING,
    "an answer",
];
#[rustfmt::skip]
const STREAM: Words =
    ["Sequence numbers over time", STREAM_READING, SOCKET_TIMER_READING, "an acknowledgment"];

impl Transfer {
    fn words(&self) -> Words {
        match (self.over_tcp, self.in_blocks) {
            (true, _) => STREAM,
            (false, true) => BLOCKS,
            (false, false) => EXCHANGES,
        }
    }

    /// Returns true if its flows are drawn together.
    fn shows_all(&self) -> bool {
        draws_all(self.over_tcp, self.clients)
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

/// Returns true if the flows of a run are drawn together: over TCP, where the text explains how
/// they share the link, and if there is a colour for each.
fn draws_all(over_tcp: bool, clients: u32) -> bool {
    over_tcp && (2..=COLOURS).contains(&(clients as usize))
}

fn one_transfer(transfer: &Transfer) -> Vec<FigureBlock> {
    let [title, reading, timers, awaited] = transfer.words();
    let graph = transfer.graph();
    let picture = if transfer.shows_all() {
        FlowsGraph::of_streams(&transfer.record.events, transfer.clients).picture(title, false)
    } else {
        graph.picture(title)
    };
    let caption = format!("{reading} {}{}", transfer.caption, transfer.unrecorded);
    let mut figures = vec![FigureBlock::new(
        picture,
        format!("{title}. {}.", transfer.title),
        &caption,
    )];
    if let Some((from, to)) = longest_wait(&graph) {
        figures.push(FigureBlock::new(
            graph
                .between(from, to)
                .picture(&format!("{title}, in detail")),
            format!("The same from {from:.0} s to {to:.0} s,"),
            &format!("around the longest wait for {awaited}."),
        ));
    }
    if let Some(flow) = transfer.record.flows.first() {
        let picture = TimerTrace::of(flow).picture("Timers over time");
        figures.push(FigureBlock::new(picture, "Timers.".to_owned(), timers));
    }
    figures
}

/// A window around the longest time without an answer, if there are retransmissions.
fn longest_wait(graph: &SequenceGraph) -> Option<(f64, f64)> {
    if !graph.marks.iter().any(|m| m.kind == Kind::Again) {
        return None;
    }
    // Repeated acknowledgments are no progress.
    let times: Vec<f64> = graph.progress().map(|mark| mark.at_s).collect();
    let gap = |pair: &&[f64]| pair[1] - pair[0];
    let longest = times.windows(2).max_by(|a, b| gap(a).total_cmp(&gap(b)))?;
    let around = (longest[1] - longest[0]).max(5.0) / 2.0;
    Some(((longest[0] - around).max(0.0), longest[1] + around))
}

/// Those over UDP together, and those over TCP.
fn side_by_side(all: &[Transfer]) -> Vec<FigureBlock> {
    let mut figures = Vec::new();
    for over_tcp in [false, true] {
        let some: Vec<&Transfer> = all.iter().filter(|t| t.over_tcp == over_tcp).collect();
        let Some(first) = some.first() else { continue };
        let [title, reading, timers, _] = first.words();
        let graphs = some.iter().map(|run| (run.title.clone(), run.graph()));
        let graphs: Vec<(String, SequenceGraph)> = graphs.collect();
        let traces = some.iter().filter_map(|run| {
            let trace = TimerTrace::of(run.record.flows.first()?);
            Some((run.title.clone(), trace))
        });
        let traces: Vec<(String, TimerTrace)> = traces.collect();
        let mut caption = reading.to_owned();
        for run in some.iter().filter(|run| !run.unrecorded.is_empty()) {
            caption = format!("{caption} {}:{}", run.title, run.unrecorded);
        }
        figures.extend(by_algorithm(title, &caption, &graphs, sequences));
        let picture = timer_traces(&traces, "Timers over time, by algorithm");
        figures.push(FigureBlock::new(picture, "Timers.".to_owned(), timers));
    }
    figures
}
