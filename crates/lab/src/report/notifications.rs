//! Figures of a server's notifications: the share that arrives compared with the
//! first algorithm, and the server's timeouts in the beginning.

use carob_cc::time::{Duration, Instant};
use carob_sim::engine;
use carob_sim::notifications::Subscriber;
use carob_sim::spec::{RunRecord, RunSpec, Workload};

use super::chart::{Axis, Chart, Layer, Panel, Part, ROOM, steps};
use super::look::Looks;
use super::page::FigureBlock;
use super::picture::Picture;
use super::scale::Mapping;
use crate::metrics;
use crate::run::{Outcome, Row, RunSetupError};

/// Length of the part of a run that the figure of RTOs shows.
const SHOWN: Duration = Duration::from_secs(120);
/// Samples kept of each subscriber for it: more than change in that time.
const SAMPLES: u32 = 10_000;

/// Delivery relative to the first algorithm; none without notifications.
pub(super) fn delivery(rows: &[Row]) -> Option<FigureBlock> {
    let caption = "Notifications or messages received over those made (PDR), divided by that of the \
                   first algorithm, by cell; means of all runs.";
    let title = "What arrives.".to_owned();
    Some(FigureBlock::new(pdr_over_first(rows)?, title, caption))
}

/// PDR of each cell and algorithm relative to the cell's first; none without notifications.
fn pdr_over_first(rows: &[Row]) -> Option<Picture> {
    let pdr = |row: &Row| row.metrics.get(metrics::PDR.name).map(|s| s.mean);
    let cells: Vec<&[Row]> = rows.chunk_by(|a, b| a.scenario == b.scenario).collect();
    let first = rows.first()?.algorithm.clone();
    let mut series: Vec<&str> = Vec::new();
    let mut points: Vec<(usize, usize, f64, f64)> = Vec::new();
    for (group, cell) in cells.iter().enumerate() {
        let base = pdr(cell.first()?).filter(|pdr| *pdr > 0.0)?;
        for row in cell.iter().skip(1) {
            let known = series.iter().position(|name| *name == row.algorithm);
            let index = known.unwrap_or_else(|| {
                series.push(&row.algorithm);
                series.len() - 1
            });
            points.push((group, index, pdr(row)? / base, pdr(row)?));
        }
    }
    if points.is_empty() {
        return None;
    }
    let ratios = || points.iter().map(|point| point.2);
    let range = (
        ratios().fold(1.0, f64::min).max(0.01),
        ratios().fold(1.0, f64::max),
    );
    let names: Vec<(String, String)> = cells.iter().map(|cell| name_of(&cell[0])).collect();
    let step = ROOM / cells.len() as f64;
    let texts = names.iter().map(|(outer, inner)| match step {
        ..44.0 => (inner.replace('S', "S\n"), outer.clone()),
        _ => (inner.clone(), outer.clone()),
    });
    let x = Axis::grouped(texts);
    let looks = Looks::of(series.iter().copied());
    let mut layers: Vec<Layer> = series.iter().map(|name| Layer::new(name)).collect();
    let apart = (step / (series.len() as f64 + 1.0)).min(14.0) / step;
    for (group, index, ratio, pdr) in &points {
        let offset = (*index as f64 - (series.len() as f64 - 1.0) / 2.0) * apart;
        let tip = format!(
            "{}, {}: {:.1} % received, {ratio:.3} times {first}",
            names[*group].1,
            series[*index],
            pdr * 100.0
        );
        let look = looks.get(series[*index]);
        let at = *group as f64 + 0.5 + offset;
        let stem = Part::span(
            &format!("whisker {}", look.class()),
            (at, 1.0),
            (at, *ratio),
        );
        let parts = vec![stem, Part::of(look, 4.6, vec![(at, *ratio)])];
        layers[*index] = std::mem::take(&mut layers[*index]).item(&tip, parts);
    }
    let baseline = (f64::NEG_INFINITY, 1.0);
    let lines = Layer::new("")
        .part(Part::span("printed-thin", baseline, (f64::INFINITY, 1.0)))
        .part(Part::uprights("rule", x.edges().into_iter()));
    layers.insert(0, lines);
    let panel = Panel {
        x,
        y: Axis::new(
            &format!("PDR over that of {first}"),
            Mapping::Logarithmic,
            range,
            7,
        ),
        layers,
        ..Panel::default()
    };
    let label = "PDR by cell and algorithm, over that of the first algorithm";
    Some(Chart::of(label, panel).picture())
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
    let record = engine::run(&spec).map_err(|why| RunSetupError::Run {
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
    let traces: Vec<Vec<(f64, f64)>> = subscribers
        .iter()
        .map(|subscriber| {
            let samples = subscriber.rto.iter();
            let samples = samples.map(|s| (seconds(s.at.since(begin)), seconds(s.value)));
            let samples = samples.take_while(|(at, _)| *at <= end);
            std::iter::once((0.0, initial)).chain(samples).collect()
        })
        .collect();
    let mean = mean_of(&traces);
    let values = traces.iter().flatten().map(|(_, value)| *value);
    let high = values.fold(initial, f64::max);
    let each = traces.iter().map(|trace| steps(trace.clone(), end));
    let each = Part::Line("trend".to_owned(), each.collect());
    let all = Part::Line("rto".to_owned(), vec![steps(mean, end)]);
    let panel = Panel {
        x: Axis::new("", Mapping::Linear, (0.0, end), 8),
        y: Axis::new(
            "Retransmission timeout (s)",
            Mapping::Linear,
            (0.0, high),
            6,
        ),
        layers: vec![
            Layer::new("RTO towards each subscriber").part(each),
            Layer::new("mean").part(all),
        ],
        ..Panel::default()
    };
    let chart = Chart {
        x_label: "Time since the first round (s)".to_owned(),
        ..Chart::over_time(&format!("The server's timeouts: {label}"), vec![panel])
    };
    chart.picture()
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
        outcome(scenario, &seeds(1, Some(cell)), engine::run)
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
        let svg = pdr_over_first(&rows).expect("a figure").0;
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
        assert!(pdr_over_first(&outcome.rows()).is_none());
    }
}
