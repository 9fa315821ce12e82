//! Writes a report with made-up data, to look at the figures: `cargo run --example sample_report
//! -- FILE.html`. Nothing in it is a result.

use carob_cc::time::{Duration, Instant};
use carob_lab::papers;
use carob_lab::report::{
    BoxMark, BoxPlot, FigureBlock, Kind, Mapping, Mark, Point, Printed, Report, Section,
    SequenceGraph, TimerTrace, Whiskers,
};
use carob_lab::statistics::{Statistic, Statistics};
use carob_lab::text::{Align, TextTable};
use carob_sim::random::{Probability, Stream};

fn main() -> std::io::Result<()> {
    let file = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "sample_report.html".to_owned());
    std::fs::write(file, report().html())
}

fn report() -> Report {
    let (plot, table) = boxes();
    let (sequence, timers) = transfer();
    let figure = |svg, title: &str, caption: String| FigureBlock {
        svg,
        title: title.to_owned(),
        caption,
    };
    Report {
        title: "Sample: thesis/long, made-up data".to_owned(),
        lead: "How long does a stop-and-wait block transfer take over an NB-IoT type link?"
            .to_owned(),
        facts: vec![
            (
                "Scenario".to_owned(),
                "thesis/long, 8 cells, 2 algorithms, 20 seeds".to_owned(),
            ),
            (
                "Data".to_owned(),
                "random numbers around the printed medians, not a result".to_owned(),
            ),
        ],
        command: "cargo run --example sample_report".to_owned(),
        sections: vec![
            Section {
                heading: "Flow completion time".to_owned(),
                figures: vec![figure(
                    plot.svg("Flow completion times"),
                    "Flow completion time by error and algorithm.",
                    plot.reading(),
                )],
                tables: vec![table],
                ..Section::default()
            },
            Section {
                heading: "One transfer".to_owned(),
                figures: vec![
                    figure(
                        sequence.svg("Blocks over time"),
                        "Blocks over time.",
                        "A lost copy stops the transfer until its timer runs out.".to_owned(),
                    ),
                    figure(
                        sequence
                            .between(80.0, 120.0)
                            .svg("Blocks over time, in detail"),
                        "The same from 80 s to 120 s.",
                        String::new(),
                    ),
                    figure(
                        timers.svg("Timers over time"),
                        "Retransmission timeout and round-trip times.",
                        "The vertical axis is logarithmic.".to_owned(),
                    ),
                ],
                ..Section::default()
            },
        ],
    }
}

/// Statistics of numbers spread around printed medians.
fn boxes() -> (BoxPlot, TextTable) {
    let mut stream = Stream::new(1, "sample");
    let (mut groups, mut marks) = (Vec::new(), Vec::new());
    let header = ["cell", "algorithm", "median", "p10", "p90"];
    let align = |k| if k < 2 { Align::Left } else { Align::Right };
    let mut table = TextTable::new(
        header
            .iter()
            .enumerate()
            .map(|(k, name)| ((*name).to_owned(), align(k)))
            .collect(),
    );
    let series = ["default", "cocoa-001"];
    for (cell, label, clients) in [
        ("long-1c-none-2500", "none", "1 client"),
        ("long-1c-low-2500", "low", "1 client"),
        ("long-1c-medium-2500", "medium", "1 client"),
        ("long-1c-high-2500", "high", "1 client"),
        ("long-4c-none-2500", "none", "4 clients"),
        ("long-4c-low-2500", "low", "4 clients"),
    ] {
        groups.push((label.to_owned(), clients.to_owned()));
        for (k, algorithm) in series.iter().enumerate() {
            let row = papers::thesis_fct()
                .into_iter()
                .find(|row| row.cell == cell && row.algorithm == *algorithm);
            let Some(row) = row else { continue };
            let value = |s| row.value(s).unwrap_or_default();
            let (low, high) = (value(Statistic::Min) * 0.98, value(Statistic::Max) * 1.01);
            let mut draw = || {
                let part = |s: &mut Stream| {
                    s.uniform(Duration::ZERO, Duration::from_secs(1))
                        .as_micros() as f64
                        / 1e6
                };
                let middle = (part(&mut stream) + part(&mut stream) + part(&mut stream)) / 3.0;
                low + (high - low) * middle
            };
            let values: Vec<f64> = (0..20).map(|_| draw()).collect();
            let Some(statistics) = Statistics::of(&values) else {
                continue;
            };
            table.add(vec![
                cell.to_owned(),
                (*algorithm).to_owned(),
                format!("{:.2}", statistics.p50),
                format!("{:.2}", statistics.p10),
                format!("{:.2}", statistics.p90),
            ]);
            let printed = Printed {
                low: row.value(Statistic::P10),
                p25: row.value(Statistic::P25),
                p50: row.value(Statistic::P50),
                p75: row.value(Statistic::P75),
                high: row.value(Statistic::P90),
            };
            marks.push(BoxMark {
                group: groups.len() - 1,
                series: k,
                statistics,
                printed: Some(printed),
            });
        }
    }
    let plot = BoxPlot {
        y_label: "Flow completion time (s)".to_owned(),
        mapping: Mapping::Linear,
        groups,
        series: series.map(str::to_owned).to_vec(),
        boxes: marks,
        whiskers: Whiskers::P10P90,
        printed_label: "Pesola 2020".to_owned(),
    };
    (plot, table)
}

/// A stop-and-wait transfer of 400 blocks with made-up losses and a toy estimator.
fn transfer() -> (SequenceGraph, TimerTrace) {
    let (mut stream, mut now) = (Stream::new(3, "transfer"), Instant::ZERO);
    let mut graph = SequenceGraph {
        y_label: "Block number".to_owned(),
        marks: Vec::new(),
    };
    let (mut timers, mut rto) = (TimerTrace::default(), 2.0_f64);
    let seconds = |t: Instant| t.as_micros() as f64 / 1e6;
    for item in 0..400 {
        let (begin, mut attempt) = (now, 0_u8);
        let mut timer = rto * (1.0 + f64::from(item % 7) / 14.0);
        timers.rto_init.push(Point {
            at_s: seconds(now),
            value_s: timer,
            attempts: 1,
        });
        loop {
            let kind = if attempt == 0 {
                Kind::First
            } else {
                Kind::Again
            };
            graph.marks.push(Mark {
                at_s: seconds(now),
                item,
                kind,
                attempt,
            });
            if !stream.happens(Probability::ppm(120_000)) {
                break;
            }
            let kind = if item % 9 == 0 {
                Kind::Full
            } else {
                Kind::Lost
            };
            graph.marks.push(Mark {
                at_s: seconds(now),
                item,
                kind,
                attempt,
            });
            now += Duration::from_micros((timer * 1e6) as u64);
            timer *= if timer < 1.0 { 3.0 } else { 1.5 };
            attempt += 1;
        }
        now += stream.uniform(Duration::from_millis(700), Duration::from_millis(760));
        graph.marks.push(Mark {
            at_s: seconds(now),
            item,
            kind: Kind::Answered,
            attempt,
        });
        let rtt = Point {
            at_s: seconds(now),
            value_s: seconds(now) - seconds(begin),
            attempts: attempt + 1,
        };
        timers.rtt.push(rtt);
        rto = 0.75 * rto + 0.25 * rtt.value_s * if attempt == 0 { 1.2 } else { 1.0 };
        timers.rto.push(Point {
            at_s: seconds(now),
            value_s: rto,
            attempts: 1,
        });
    }
    (graph, timers)
}
