//! Figures of a server's notifications: the share that arrives compared with the
//! first algorithm, and the server's timeouts in the beginning.

use carob_cc::time::{Duration, Instant};
use carob_sim::notifications::Subscriber;
use carob_sim::spec::{RunRecord, RunSpec, Workload};

use super::chart::{Axis, Chart, Layer, Panel, Part, ROOM, steps};
use super::look::Looks;
use super::page::FigureBlock;
use super::resolved::Picture;
use crate::metrics;
use crate::run::{Outcome, Row, RunSetupError};
use crate::summary::distinct;

/// Length of the part of a run that the figure of RTOs shows.
const SHOWN: Duration = Duration::from_secs(120);
/// Samples kept of each subscriber for it: more than change in that time.
const SAMPLES: u32 = 10_000;

/// PDR of each cell and algorithm relative to the cell's first; none without notifications.
pub(super) fn delivery(rows: &[Row]) -> Option<FigureBlock> {
    let pdr = |row: &Row| row.metrics.get(metrics::PDR.name).map(|s| s.mean);
    let cells: Vec<&[Row]> = rows.chunk_by(|a, b| a.scenario == b.scenario).collect();
    let first = rows.first()?.algorithm.clone();
    let others = cells.iter().flat_map(|cell| cell.iter().skip(1));
    let series = distinct(others.map(|row| row.algorithm.as_str()));
    let step = ROOM / cells.len() as f64;
    let apart = (step / (series.len() as f64 + 1.0)).min(14.0) / step;
    let looks = Looks::of(series.iter().copied());
    let mut layers: Vec<Layer> = series.iter().map(|name| Layer::new(name)).collect();
    let mut names = Vec::new();
    for (group, cell) in cells.iter().enumerate() {
        let base = pdr(&cell[0]).filter(|pdr| *pdr > 0.0)?;
        let (outer, inner) = name_of(&cell[0]);
        for row in cell.iter().skip(1) {
            let (ratio, look) = (pdr(row)? / base, looks.get(&row.algorithm));
            let place = series.iter().position(|name| *name == row.algorithm)?;
            let offset = (place as f64 - (series.len() as f64 - 1.0) / 2.0) * apart;
            let tip = format!(
                "{inner}, {}: {:.1} % received, {ratio:.3} times {first}",
                row.algorithm,
                pdr(row)? * 100.0
            );
            let x = group as f64 + 0.5 + offset;
            let stem = Part::span(&look.with("whisker"), (x, 1.0), (x, ratio));
            layers[place].add(&tip, vec![stem, Part::of(look, 4.6, vec![(x, ratio)])]);
        }
        let inner = if step < 44.0 {
            inner.replace('S', "S\n")
        } else {
            inner
        };
        names.push((inner, outer));
    }
    if series.is_empty() {
        return None;
    }
    let x = Axis::grouped(names);
    let baseline = Part::span(
        "printed-thin",
        (f64::NEG_INFINITY, 1.0),
        (f64::INFINITY, 1.0),
    );
    let edges = Part::uprights("rule", x.edges().into_iter());
    layers.insert(0, Layer::new("").part(baseline).part(edges));
    let y = Axis::logarithmic(&format!("PDR over that of {first}"), 7).with(1.0);
    let label = "PDR by cell and algorithm, over that of the first algorithm";
    let picture = Chart::of(label, Panel::new(x, y, layers)).picture();
    let caption = "Notifications or messages received over those made (PDR), divided by that of the \
                   first algorithm, by cell; means of all runs.";
    Some(FigureBlock::new(
        picture,
        "What arrives.".to_owned(),
        caption,
    ))
}

/// The name of a cell, in two parts: everything before its subscribers, and these with their
/// resources.
fn name_of(row: &Row) -> (String, String) {
    let cell = row.scenario.rsplit('/').next().unwrap_or_default();
    let (outer, inner) = cell.rsplit_once('-').unwrap_or(("", cell));
    (outer.replace('-', " "), inner.to_owned())
}

/// The server's timeouts towards all subscribers over the first two minutes, of the first run
/// whose controller keeps any; none if there is none.
pub(super) fn timeouts(outcome: &Outcome<'_>) -> Result<Option<FigureBlock>, RunSetupError> {
    let keeps = |record: &RunRecord| {
        let told = record.notifications.as_ref();
        told.is_some_and(|told| told.bins.iter().any(|bin| bin.rtos > 0))
    };
    let Some((job, _)) = outcome.runs().find(|(_, record)| keeps(record)) else {
        return Ok(None);
    };
    let mut spec = outcome.plan().spec(job);
    spec.record.samples = SAMPLES;
    let record = carob_sim::run(&spec).map_err(|why| RunSetupError::Run {
        cell: job.cell.name.clone(),
        why,
    })?;
    let label = format!(
        "{}, {}, seed {}",
        job.cell.name, job.algorithm.name, job.seed
    );
    let caption = "The server's retransmission timeout towards each subscriber, before dithering, in \
                   the first run whose controller keeps one.";
    Ok(record.notifications.map(|told| {
        let picture = draw_timeouts(&spec, &told.subscribers, &label);
        FigureBlock::new(picture, "Timeouts in the beginning.".to_owned(), caption)
    }))
}

fn draw_timeouts(spec: &RunSpec, subscribers: &[Subscriber], label: &str) -> Picture {
    let begin = match &spec.workload {
        Workload::Notifications(told) => Instant::ZERO + told.warm_up,
        Workload::Requests(_) | _ => Instant::ZERO,
    };
    let seconds = |time: Duration| time.as_micros() as f64 / 1e6;
    let initial = seconds(spec.transmission.ack_timeout);
    let end = seconds(SHOWN);
    // Each changes at these times to these values.
    let trace = |subscriber: &Subscriber| {
        let samples = subscriber.rto.iter();
        let samples = samples.map(|s| (seconds(s.at.since(begin)), seconds(s.value)));
        let samples = samples.take_while(|(at, _)| *at <= end);
        std::iter::once((0.0, initial)).chain(samples).collect()
    };
    let traces: Vec<Vec<(f64, f64)>> = subscribers.iter().map(trace).collect();
    let mean = Part::line("rto", steps(mean_of(&traces), end));
    let each = traces.into_iter().map(|trace| steps(trace, end));
    let each = Part::Line("trend".to_owned(), each.collect());
    let layers = vec![
        Layer::new("RTO towards each subscriber").part(each),
        Layer::new("mean").part(mean),
    ];
    let y = Axis::linear("Retransmission timeout (s)", 6).with(0.0);
    let panel = Panel::new(Axis::linear("", 8), y, layers);
    let label = format!("The server's timeouts: {label}");
    let chart = Chart::over_time(&label, vec![panel]);
    chart.below("Time since the first round (s)").picture()
}

/// The mean of traces, wherever one of them changes.
fn mean_of(traces: &[Vec<(f64, f64)>]) -> Vec<(f64, f64)> {
    let mut changes: Vec<(f64, f64)> = Vec::new();
    let mut sum = 0.0;
    for trace in traces {
        sum += trace.first().map_or(0.0, |(_, value)| *value);
        changes.extend(trace.windows(2).map(|two| (two[1].0, two[1].1 - two[0].1)));
    }
    changes.sort_by(|a, b| a.0.total_cmp(&b.0));
    let count = traces.len().max(1) as f64;
    let mut mean = vec![(0.0, sum / count)];
    for (at, by) in changes {
        sum += by;
        mean.push((at, sum / count));
    }
    mean
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{outcome, scenario, seeds, simulated};

    fn umts(cell: &str) -> Outcome<'static> {
        let scenario = scenario("nonobserve/umts", &["duration=2 min", "subscribers=3"]);
        outcome(scenario, &seeds(1, Some(cell)), carob_sim::run)
    }

    #[test]
    fn means_change_wherever_a_trace_does() {
        let traces = vec![
            vec![(0.0, 2.0), (10.0, 1.0)],
            vec![(0.0, 2.0), (5.0, 1.0), (20.0, 0.5)],
        ];
        let mean = mean_of(&traces);
        assert_eq!(mean, [(0.0, 2.0), (5.0, 1.5), (10.0, 1.0), (20.0, 0.75)]);
    }

    #[test]
    fn figures_have_a_mark_per_cell_and_a_line_per_subscriber() {
        let rows = umts("umts-1s-3S*n").rows();
        let svg = delivery(&rows).expect("a figure").picture.0;
        assert_eq!(svg.matches("<title>").count(), 3 * 2);
        assert!(svg.contains("3S5n") && !svg.contains("NaN"));
        let block = timeouts(&umts("umts-1s-3S3n")).expect("possible");
        let svg = block.expect("a figure").picture.0;
        let lines = svg.split("<path class=\"trend\" d=\"").nth(1);
        let lines = lines.and_then(|rest| rest.split('"').next());
        assert_eq!(lines.map(|data| data.matches('M').count()), Some(3));
        assert!(svg.contains("cocoa-002") && !svg.contains("NaN"));
    }

    #[test]
    fn without_timeouts_there_is_no_figure_of_them() {
        let outcome = simulated("thesis/exchange-udp", &[], 1);
        assert!(timeouts(&outcome).expect("possible").is_none());
        assert!(delivery(&outcome.rows()).is_none());
    }
}
