//! Figures of a server's notifications: the share that arrives compared with the
//! first algorithm, and the server's timeouts in the beginning.

use std::fmt::Write as _;

use carob_cc::time::{Duration, Instant};
use carob_sim::engine;
use carob_sim::notifications::Subscriber;
use carob_sim::spec::{RunRecord, RunSpec, Workload};

use super::frame::{DrawKey, Frame, Key, WIDTH, left_margin, legend};
use super::look::Look;
use super::scale::{Mapping, Scale};
use super::svg::{Svg, short};
use crate::run::{Outcome, Row, RunSetupError};

/// Length of the part of a run that the figure of RTOs shows.
const SHOWN: Duration = Duration::from_secs(120);
/// Samples kept of each subscriber for it: more than change in that time.
const SAMPLES: u32 = 10_000;
const HEIGHT: f64 = 420.0;

/// PDR of each cell and algorithm over that of the cell's first; none without notifications.
pub(super) fn pdr_over_first(rows: &[Row]) -> Option<String> {
    let pdr = |row: &Row| row.metrics.get("pdr").map(|s| s.mean);
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
    let mut svg = Svg::default();
    let draw = |index: usize| {
        let look = Look::of(series[index]);
        move |svg: &mut Svg, at: (f64, f64)| look.mark(svg, at, 4.6)
    };
    let draws: Vec<_> = (0..series.len()).map(draw).collect();
    let keys: Vec<Key<'_>> = series
        .iter()
        .zip(&draws)
        .map(|(label, draw)| Key {
            label,
            draw: draw as &DrawKey,
        })
        .collect();
    let top = 14.0 + legend(&mut svg, 64.0, 14.0, WIDTH - 16.0, &keys);
    let bottom = HEIGHT - 70.0;
    let ratios = || points.iter().map(|point| point.2);
    let low = ratios().fold(1.0, f64::min).max(0.01);
    let high = ratios().fold(1.0, f64::max);
    let y = Scale::new(Mapping::Logarithmic, (low, high), 7, (bottom, top));
    let frame = Frame {
        left: left_margin(&y),
        right: WIDTH - 16.0,
        top,
        bottom,
    };
    frame.y_axis(&mut svg, &y, &format!("PDR over that of {first}"));
    svg.line("rule", (frame.left, y.at(1.0)), (frame.right, y.at(1.0)));
    let step = frame.width() / cells.len() as f64;
    let middle = |group: usize| frame.left + (group as f64 + 0.5) * step;
    let names: Vec<(String, String)> = cells.iter().map(|cell| name_of(&cell[0])).collect();
    let mut shown = 0;
    for (group, (outer, inner)) in names.iter().enumerate() {
        let text = if step < 44.0 {
            inner.replace('S', "S ")
        } else {
            inner.clone()
        };
        for (line, part) in text.split(' ').enumerate() {
            let at = (middle(group), bottom + 19.0 + 15.0 * line as f64);
            svg.text("tick middle", at, part);
        }
        let last = names.get(group + 1).is_none_or(|next| next.0 != *outer);
        if last {
            let from = middle(shown);
            svg.text(
                "axis middle",
                (f64::midpoint(from, middle(group)), HEIGHT - 16.0),
                outer,
            );
            if group + 1 < names.len() {
                let x = middle(group) + step / 2.0;
                svg.line("rule", (x, top), (x, bottom));
            }
            shown = group + 1;
        }
    }
    let apart = (step / (series.len() as f64 + 1.0)).min(14.0);
    for (group, index, ratio, pdr) in points {
        let offset = (index as f64 - (series.len() as f64 - 1.0) / 2.0) * apart;
        let title = format!(
            "{}, {}: {:.1} % received, {ratio:.3} times {first}",
            names[group].1,
            series[index],
            pdr * 100.0
        );
        let look = Look::of(series[index]);
        let class = look.class();
        let x = middle(group) + offset;
        svg.with_title(&title, |svg| {
            svg.line(
                &format!("whisker {class}"),
                (x, y.at(1.0)),
                (x, y.at(ratio)),
            );
            look.mark(svg, (x, y.at(ratio)), 4.6);
        });
    }
    Some(svg.finish(
        WIDTH,
        HEIGHT,
        "PDR by cell and algorithm, over that of the first algorithm",
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
pub(super) fn timeouts(outcome: &Outcome<'_>) -> Result<Option<String>, RunSetupError> {
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
    Ok(record
        .notifications
        .map(|told| draw_timeouts(&spec, &told.subscribers, &label)))
}

fn draw_timeouts(spec: &RunSpec, subscribers: &[Subscriber], label: &str) -> String {
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
    let high = traces
        .iter()
        .flatten()
        .map(|(_, value)| *value)
        .fold(initial, f64::max);
    let mut svg = Svg::default();
    let each: &DrawKey = &|svg, (x, y)| svg.line("trend", (x - 9.0, y), (x + 9.0, y));
    let all: &DrawKey = &|svg, (x, y)| svg.line("rto", (x - 9.0, y), (x + 9.0, y));
    let keys = [
        Key {
            label: "RTO towards each subscriber",
            draw: each,
        },
        Key {
            label: "mean",
            draw: all,
        },
    ];
    let top = 14.0 + legend(&mut svg, 64.0, 14.0, WIDTH - 16.0, &keys);
    let bottom = HEIGHT - 52.0;
    let y = Scale::new(Mapping::Linear, (0.0, high), 6, (bottom, top));
    let frame = Frame {
        left: left_margin(&y),
        right: WIDTH - 16.0,
        top,
        bottom,
    };
    let x = Scale::new(Mapping::Linear, (0.0, end), 8, (frame.left, frame.right));
    frame.y_axis(&mut svg, &y, "Retransmission timeout (s)");
    frame.x_axis(&mut svg, &x, "Time since the first round (s)");
    for trace in &traces {
        svg.path("trend", &steps(trace, &x, &y, end));
    }
    svg.path("rto", &steps(&mean, &x, &y, end));
    svg.finish(WIDTH, HEIGHT, &format!("The server's timeouts: {label}"))
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

fn steps(trace: &[(f64, f64)], x: &Scale, y: &Scale, end: f64) -> String {
    let mut data = String::new();
    for (k, (at, value)) in trace.iter().enumerate() {
        let (px, py) = (short(x.at(*at)), short(y.at(*value)));
        // Writing to a String cannot fail.
        let _ = if k == 0 {
            write!(data, "M{px} {py}")
        } else {
            write!(data, "H{px}V{py}")
        };
    }
    let _ = write!(data, "H{}", short(x.at(end)));
    data
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Plan, Selection};
    use crate::scenario::{Scenario, builtin};

    fn outcome_of<T>(cell: &str, work: impl FnOnce(&Outcome<'_>) -> T) -> T {
        let (file, _) = builtin::find("nonobserve/umts").expect("a scenario");
        let set = ["duration=2 min".to_owned(), "subscribers=3".to_owned()];
        let scenario = Scenario::read(file.name, file.text, &set).expect("a valid one");
        let selection = Selection {
            cell: Some(cell.to_owned()),
            seeds: Some(1),
            ..Selection::default()
        };
        let plan = Plan::new(&scenario, &selection).expect("a plan");
        work(&plan.execute(engine::run, |_, _| {}).expect("possible"))
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
        outcome_of("umts-1s-3S*n", |outcome| {
            let svg = pdr_over_first(&outcome.rows()).expect("a figure");
            assert_eq!(svg.matches("<title>").count(), 3 * 2);
            assert!(svg.contains("3S5n") && !svg.contains("NaN"));
        });
        outcome_of("umts-1s-3S3n", |outcome| {
            let svg = timeouts(outcome).expect("possible").expect("a figure");
            assert_eq!(svg.matches("<path class=\"trend\"").count(), 3);
            assert!(svg.contains("cocoa-002") && !svg.contains("NaN"));
        });
    }

    #[test]
    fn without_timeouts_there_is_no_figure_of_them() {
        let (file, _) = builtin::find("thesis/exchange-udp").expect("a scenario");
        let scenario = Scenario::read(file.name, file.text, &[]).expect("a valid one");
        let selection = Selection {
            seeds: Some(1),
            ..Selection::default()
        };
        let plan = Plan::new(&scenario, &selection).expect("a plan");
        let outcome = plan.execute(engine::run, |_, _| {}).expect("possible");
        assert!(timeouts(&outcome).expect("possible").is_none());
        assert!(pdr_over_first(&outcome.rows()).is_none());
    }
}
