//! Recorded transfers in reports: time-sequence graphs and timers.

use carob_cc::time::Duration;
use carob_sim::engine;
use carob_sim::spec::{FlowRecord, Recording, RunRecord, RunSpec, Transport};
use carob_sim::trace::EVENTS_RECORDED_MAX;

use super::flows::FlowsGraph;
use super::frame::COLOURS;
use super::link_use::{BIN, LinkUse};
use super::multiples::{self, Panel};
use super::page::{FigureBlock, Section};
use super::sequence::{Kind, SequenceGraph};
use super::timer_scatter::{TimerScatter, scatters};
use super::timers::TimerTrace;
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
};
/// From so many clients on a run is a crowd, and shown by what it makes of the link.
const CROWD: u32 = 8;

/// A recorded run.
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

/// Typical transfers of the cell in which the algorithms differ most.
pub(super) fn transfers(
    outcome: &Outcome<'_>,
    rows: &[Row],
) -> Result<Option<Section>, RunSetupError> {
    let Some((cell, mut algorithms)) = widest(rows) else {
        return Ok(None);
    };
    let left_out = algorithms.split_off(algorithms.len().min(PANELS_MAX));
    let plan = outcome.plan();
    let single = rows.iter().all(|row| row.runs == 1);
    let mut all = Vec::new();
    for algorithm in algorithms {
        let Some(job) = outcome.typical(cell, algorithm) else {
            continue;
        };
        all.push(record(outcome, &job)?);
    }
    let several_cells = rows.iter().any(|row| row.cell_name() != cell);
    let mut text = Vec::new();
    if several_cells {
        text.push(format!(
            "In {study}/{cell}, the cell in which medians differ most. `carob lab run \
             {study}/NAME` reports any other cell.",
            study = plan.scenario().study()
        ));
    }
    if !single {
        text.push("For each algorithm the run nearest to its median.".to_owned());
    }
    if all.iter().any(|t| t.clients > 1) {
        let shown = match &all[..] {
            [one] if one.shows_all() => "All flows, then the first client's alone.",
            _ => "The first client of each run is shown.",
        };
        text.push(shown.to_owned());
    }
    if !left_out.is_empty() {
        text.push(format!("Not shown: {}.", summary::listed(&left_out)));
    }
    let mut figures = crowd(&all);
    figures.extend(timers_of_crowd(&all));
    figures.extend(match &all[..] {
        [] => return Ok(None),
        [one] => one_transfer(one),
        several => side_by_side(several),
    });
    Ok(Some(Section {
        heading: if single {
            "The transfer"
        } else {
            "Typical transfers"
        }
        .to_owned(),
        text,
        figures,
        ..Section::default()
    }))
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
    let record = engine::run(&spec).map_err(|why| RunSetupError::Run {
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

const BLOCKS_READING: &str = "Each dot is a block asked for; a retransmission stands to the \
right of the copy that was lost, and the gap between them is the timer.";
const STREAM_READING: &str = "Each dot is a segment of data the server sent, by the first of its \
bytes, counted from the beginning of the connection; lines are what the client had acknowledged.";
const CROWD_READING: &str = "What the bottleneck towards the clients carried, all of them \
together: useful bytes, and on top of them answers after the first to an exchange and \
TCP's spurious copies. The line is the longest time that a packet had waited.";
const SCATTER_READING: &str = "Each dot is a timer, of a request or of a copy of it, in the order in \
which they began; up to 1,500 of a run. A timer ran out too early if an answer to the copies sent \
until then was to come. On the right the share of the run's answers that had come with them.";
const TIMER_READING: &str = "The retransmission timeout before dithering, the first timers drawn \
from it, and the round-trip times it learns from; the vertical axis is logarithmic.";
const SOCKET_TIMER_READING: &str = "The server's retransmission timeout, backoff included; the \
vertical axis is logarithmic.";

/// Crowds on the link: what each makes of it, unless the server is what they wait for.
fn crowd(all: &[Transfer]) -> Vec<FigureBlock> {
    let panels: Vec<Panel<LinkUse>> = all
        .iter()
        .filter(|transfer| transfer.clients >= CROWD && transfer.record.server.is_none())
        .map(|transfer| {
            let content = LinkUse::of(&transfer.record, transfer.rate_bps);
            let wait = content.longest_wait();
            Panel {
                title: format!("{}, waits up to {wait:.0} s", transfer.title),
                content,
            }
        })
        .collect();
    if panels.is_empty() {
        return Vec::new();
    }
    let title = "The link over time";
    vec![FigureBlock {
        svg: multiples::link_uses(&panels, &format!("{title}, by algorithm")),
        title: format!("{title}."),
        caption: CROWD_READING.to_owned(),
    }]
}

/// The link over time in the cell in which the algorithms differ most, as one SVG element; nothing
/// if no crowd is in it that waits for the link.
pub(super) fn link_over_time(
    outcome: &Outcome<'_>,
    rows: &[Row],
) -> Result<Option<String>, RunSetupError> {
    let all = typical(outcome, rows)?;
    Ok(crowd(&all).into_iter().next().map(|block| block.svg))
}

/// Returns true if the timers of all clients are drawn: for a crowd with a server that takes time
/// to respond.
fn has_timers(spec: &RunSpec) -> bool {
    spec.clients >= CROWD && spec.server.is_used()
}

/// The timers of all clients of a crowd with a slow server.
fn timers_of_crowd(all: &[Transfer]) -> Option<FigureBlock> {
    let crowds = all
        .iter()
        .filter(|transfer| transfer.clients >= CROWD && transfer.record.server.is_some());
    let panels: Vec<Panel<TimerScatter>> = crowds
        .map(|transfer| {
            let content = TimerScatter::of(&transfer.record);
            let (run, _) = transfer.title.split_once(':').unwrap_or_default();
            Panel {
                title: format!("{run}: {}", content.summary()),
                content,
            }
        })
        .collect();
    let title = "The timers of all clients";
    (!panels.is_empty()).then(|| FigureBlock {
        svg: scatters(&panels, &format!("{title}, by algorithm")),
        title: format!("{title}."),
        caption: SCATTER_READING.to_owned(),
    })
}

/// The timers of crowds in the cell in which the algorithms differ most, as one SVG element.
pub(super) fn timers_of_crowds(
    outcome: &Outcome<'_>,
    rows: &[Row],
) -> Result<Option<String>, RunSetupError> {
    let all = typical(outcome, rows)?;
    Ok(timers_of_crowd(&all).map(|block| block.svg))
}

/// The runs nearest to the median, in the cell in which the algorithms differ most.
fn typical(outcome: &Outcome<'_>, rows: &[Row]) -> Result<Vec<Transfer>, RunSetupError> {
    let Some((cell, algorithms)) = widest(rows) else {
        return Ok(Vec::new());
    };
    let jobs = algorithms
        .into_iter()
        .filter_map(|algorithm| outcome.typical(cell, algorithm));
    jobs.map(|job| record(outcome, &job)).collect()
}

/// Graphs of datagrams and of streams have different axes: what they are called.
struct Words {
    title: &'static str,
    reading: &'static str,
    timers: &'static str,
    /// Kind of item that the longest wait is for.
    awaited: &'static str,
}

const BLOCKS: Words = Words {
    title: "Blocks over time",
    reading: BLOCKS_READING,
    timers: TIMER_READING,
    awaited: "a block",
};
const EXCHANGES: Words = Words {
    title: "Exchanges over time",
    reading: "Each dot is a request; a retransmission stands to the right of the copy before it, \
              and the gap between them is the timer.",
    timers: TIMER_READING,
    awaited: "an answer",
};
const STREAM: Words = Words {
    title: "Sequence numbers over time",
    reading: STREAM_READING,
    timers: SOCKET_TIMER_READING,
    awaited: "an acknowledgment",
};

impl Transfer {
    fn words(&self) -> &'static Words {
        match (self.over_tcp, self.in_blocks) {
            (true, _) => &STREAM,
            (false, true) => &BLOCKS,
            (false, false) => &EXCHANGES,
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
    let Words {
        title,
        reading,
        timers,
        awaited,
    } = transfer.words();
    let graph = transfer.graph();
    let mut figures = vec![FigureBlock {
        svg: if transfer.shows_all() {
            FlowsGraph::of_streams(&transfer.record.events, transfer.clients).svg(title)
        } else {
            graph.svg(title)
        },
        title: format!("{title}. {}.", transfer.title),
        caption: format!("{reading} {}{}", transfer.caption, transfer.unrecorded),
    }];
    if let Some((from, to)) = longest_wait(&graph) {
        figures.push(FigureBlock {
            svg: graph.between(from, to).svg(&format!("{title}, in detail")),
            title: format!("The same from {from:.0} s to {to:.0} s,"),
            caption: format!("around the longest wait for {awaited}."),
        });
    }
    if let Some(flow) = transfer.record.flows.first() {
        figures.push(FigureBlock {
            svg: TimerTrace::of(flow).svg("Timers over time"),
            title: "Timers.".to_owned(),
            caption: (*timers).to_owned(),
        });
    }
    figures
}

/// A window around the longest time without an answer, if there are retransmissions.
fn longest_wait(graph: &SequenceGraph) -> Option<(f64, f64)> {
    if !graph.marks.iter().any(|m| m.kind == Kind::Again) {
        return None;
    }
    // Repeated acknowledgments are no progress.
    let times: Vec<f64> = graph.progress().map(|(mark, _)| mark.at_s).collect();
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
        let Words {
            title,
            reading,
            timers,
            ..
        } = first.words();
        let sequences: Vec<Panel<SequenceGraph>> = some
            .iter()
            .map(|transfer| Panel {
                title: transfer.title.clone(),
                content: transfer.graph(),
            })
            .collect();
        let traces: Vec<Panel<TimerTrace>> = some
            .iter()
            .filter_map(|transfer| {
                Some(Panel {
                    title: transfer.title.clone(),
                    content: TimerTrace::of(transfer.record.flows.first()?),
                })
            })
            .collect();
        let mut caption = (*reading).to_owned();
        for transfer in some.iter().filter(|t| !t.unrecorded.is_empty()) {
            caption = format!("{caption} {}:{}", transfer.title, transfer.unrecorded);
        }
        figures.push(FigureBlock {
            svg: multiples::sequences(&sequences, &format!("{title}, by algorithm")),
            title: format!("{title}."),
            caption,
        });
        figures.push(FigureBlock {
            svg: multiples::timers(&traces, "Timers over time, by algorithm"),
            title: "Timers.".to_owned(),
            caption: (*timers).to_owned(),
        });
    }
    figures
}
