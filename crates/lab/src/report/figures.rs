//! The table of figures. Reports, `carob lab run --svg`, the reference and tests take names and
//! descriptions from it.

use std::cell::OnceCell;

use super::boxplot::box_plots;
use super::page::FigureBlock;
use super::transfers::Typical;
use super::{depth, distribution, intervals, lines, metric, node_timeline};
use crate::metrics::{Metric, PDR};
use crate::published::Print;
use crate::run::{Outcome, Row, RunSetupError, Timed};
use crate::summary::delivery;

/// A figure of runs, declared once.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Name on the command line.
    pub name: &'static str,
    /// Content, a few words.
    pub about: &'static str,
    /// Condition under which there is something to draw.
    pub needs: &'static str,
    draw: fn(&Drawing<'_>) -> Drawn,
}

type Drawn = Result<Vec<FigureBlock>, RunSetupError>;

const fn figure(
    name: &'static str,
    about: &'static str,
    needs: &'static str,
    draw: fn(&Drawing<'_>) -> Drawn,
) -> Figure {
    Figure {
        name,
        about,
        needs,
        draw,
    }
}

/// All figures; `carob lab run` draws the first.
#[rustfmt::skip]
pub const FIGURES: &[Figure] = &[
    figure("boxes", "Flow completion times: quartiles, whiskers and published values",
        "a flow that completed",
        |d| Ok(box_plots(d.outcome, &d.rows, d.print))),
    figure("ratios", "Completion times relative to a baseline, paired by seed",
        "ten seeds, and from 2 to 90 algorithms in all cells together",
        |d| Ok(intervals::ratios(d.outcome, &d.rows).into_iter().collect())),
    figure("transfers", "Blocks or segments of typical runs over time, with their timers",
        "a run with requests",
        |d| Ok(d.typical()?.over_time())),
    figure("lines", "Means of a metric against a setting, with a panel for each combination of other settings",
        "cells that differ in a number of at least three values; without `--metric`, completion times or delivery ratios",
        |d| Ok(lines::figure(d.metric(), d.outcome, &d.rows).into_iter().collect())),
    figure("bars", "Means of a metric with intervals, by cell and algorithm",
        "at most 160 means; without `--metric`, completion times or delivery ratios",
        |d| Ok(metric::bars(d.metric(), &d.rows).into_iter().collect())),
    figure("cdf", "Distribution of the values of a metric, for each cell and algorithm",
        "at most 24 cells and algorithms; without `--metric`, completion times or delivery ratios",
        |d| Ok(distribution::of_metric(d.metric(), d.outcome, &d.rows).into_iter().collect())),
    figure("circle", "Rank, ETX, changes of the parent, RTO and transmissions of one node over time",
        "a wireless network in which a parent changes",
        |d| Ok(node_timeline::figure(d.outcome, &d.rows).into_iter().collect())),
    figure("depth", "Hops and neighbours of the nodes of a wireless network",
        "a wireless network of at most 120 nodes",
        |d| Ok(depth::figure(d.outcome, &d.rows).into_iter().collect())),
];

impl Figure {
    /// The figure with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        FIGURES.iter().find(|figure| figure.name == name)
    }

    /// The command that draws it.
    pub fn command(&self) -> String {
        format!("carob lab run NAME --svg {}", self.name)
    }

    /// Draws it, the first of several, as a standalone SVG; `None` where runs lack its data.
    pub fn svg(
        &self,
        outcome: &Outcome<'_>,
        print: &Print,
        metric: Option<&'static Metric>,
    ) -> Result<Option<String>, RunSetupError> {
        let first = self.block(outcome, print, metric)?;
        Ok(first.map(|block| block.picture.standalone()))
    }

    /// Draws it, the first of several, with title and caption; `None` where runs lack its data.
    pub fn block(
        &self,
        outcome: &Outcome<'_>,
        print: &Print,
        metric: Option<&'static Metric>,
    ) -> Result<Option<FigureBlock>, RunSetupError> {
        let mut drawing = Drawing::new(outcome, print);
        drawing.metric = metric;
        Ok(drawing.blocks(&[self.name])?.into_iter().next())
    }
}

/// Runs to draw.
#[derive(Debug)]
pub(super) struct Drawing<'a> {
    pub(super) outcome: &'a Outcome<'a>,
    pub(super) rows: Vec<Row>,
    print: &'a Print,
    /// The metric of figures that draw any.
    metric: Option<&'static Metric>,
    typical: OnceCell<Typical>,
}

impl<'a> Drawing<'a> {
    pub(super) fn new(outcome: &'a Outcome<'a>, print: &'a Print) -> Self {
        Self {
            outcome,
            rows: outcome.rows(),
            print,
            metric: None,
            typical: OnceCell::new(),
        }
    }

    /// The metric chosen, or the time or the delivery ratio that tables have.
    fn metric(&self) -> &'static Metric {
        let is_delivery = || self.rows.iter().any(|row| delivery::is_of(&row.metrics));
        let usual = || {
            let time = Timed::of(&self.rows).metric();
            Metric::named(if is_delivery() { PDR.name } else { time.name })
        };
        let metric = self.metric.or_else(usual);
        metric.expect("both are in the table of metrics")
    }

    /// The typical runs, recorded once.
    pub(super) fn typical(&self) -> Result<&Typical, RunSetupError> {
        if let Some(typical) = self.typical.get() {
            return Ok(typical);
        }
        let typical = Typical::of(self.outcome, &self.rows)?;
        Ok(self.typical.get_or_init(|| typical))
    }

    /// The figures with these names, as far as there is something to draw.
    pub(super) fn blocks(&self, names: &[&str]) -> Result<Vec<FigureBlock>, RunSetupError> {
        let mut blocks = Vec::new();
        for figure in names.iter().filter_map(|name| Figure::named(name)) {
            blocks.extend((figure.draw)(self)?);
        }
        Ok(blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::simulated;

    #[test]
    fn runs_have_figures_that_their_data_allows() {
        let outcome = simulated("thesis/exchange-udp", &[], 2);
        let print = Print::default();
        let drawn = FIGURES.iter().filter_map(|figure| {
            let svg = figure.svg(&outcome, &print, None).expect("possible")?;
            assert!(svg.starts_with("<svg") && !svg.contains("NaN"), "{svg}");
            Some(figure.name)
        });
        let all = ["boxes", "transfers", "bars", "cdf"];
        assert_eq!(drawn.collect::<Vec<_>>(), all);
    }

    /// A figure, its metric, the scenario, settings and seeds; texts that it has, and how often.
    type Case = (
        (&'static str, &'static str),
        (&'static str, &'static [&'static str], u64),
        &'static [(&'static str, usize)],
    );

    const LONG: &[&str] = &[
        "clients=1",
        "error=medium",
        "link.buffer=2500 B",
        "response=5120 B",
        "run.algorithms=cocoa-001,default,tcp-newreno",
    ];
    const CLIENTS: &[&str] = &["requests=1", "run.algorithms=default,rtt-count"];
    const SHORT: &[&str] = &["warm_up=1 s", "duration=10 s", "run.algorithms=default"];

    // Each name of a legend is one more element.
    #[rustfmt::skip]
    const CASES: &[Case] = &[
        (("boxes", "fct_s"), ("thesis/long", LONG, 2), &[("default, long-1c-medium-2500: median ", 1), ("class=\"box c", 3 + 3)]),
        // A baseline has no interval; the others have one, and a value.
        (("ratios", "fct_s"), ("thesis/long", LONG, 10), &[(", 10 paired seeds<", 2), (">1, baseline<", 1)]),
        (("lines", "throughput_rps"), ("retrycount/clients", CLIENTS, 2), &[("rtt-count, 100: ", 1), (">clients<", 1)]),
        (("lines", "throughput_rps"), ("retrycount/service", CLIENTS, 1), &[("class=\"panel\"", 6), (">service (ms)<", 1), (">clients 25<", 1)]),
        (("lines", "pdr"), ("cocoaplus/constant", SHORT, 1), &[("class=\"panel\"", 12), (">load (kbit/s)<", 1)]),
        (("bars", "retransmissions"), ("thesis/long", LONG, 2), &[("class=\"ratio-bar", 3), (">retransmissions<", 1)]),
        (("cdf", "fct_s"), ("thesis/long", LONG, 2), &[(": median ", 3), (">fct_s (s)<", 1)]),
        // Default CoAP has no RTO to show.
        (("circle", "fct_s"),
            ("rpl/pint-rpl-1s", &["duration=2 min", "warm_up=60 s", "run.algorithms=default,cocoa-004-text,cocoa-004-as-run,carob"], 1),
            &[(">Parent changes<", 1), (">cocoa-004-text, seed 1<", 1), (">carob, seed 1<", 0), ("keeps none", 1)]),
        (("depth", "fct_s"), ("rpl/pint-idle", &[], 2), &[("class=\"box", 22 * 2)]),
    ];

    fn drawn(
        figure: &str,
        metric: &str,
        (cell, set, seeds): (&str, &[&str], u64),
    ) -> Option<String> {
        let outcome = simulated(cell, set, seeds);
        let figure = Figure::named(figure).expect("a figure");
        let block = figure.block(&outcome, &Print::default(), Metric::named(metric));
        block.expect("possible").map(|block| block.picture.0)
    }

    #[test]
    fn figures_have_mark_for_each_of_their_values() {
        for ((figure, metric), runs, texts) in CASES {
            let svg = drawn(figure, metric, *runs).expect("a figure");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{figure}");
            for (text, count) in *texts {
                assert_eq!(
                    svg.matches(text).count(),
                    *count,
                    "{figure}: {text} in {svg}"
                );
            }
        }
    }

    #[test]
    fn figures_need_their_data() {
        for (figure, cell, set, seeds) in [
            ("ratios", "thesis/long", LONG, 9),
            ("lines", "thesis/long", LONG, 2),
            ("circle", "rpl/pint-static-1s", SHORT, 1),
            ("depth", "thesis/long", LONG, 1),
        ] {
            assert_eq!(drawn(figure, "fct_s", (cell, set, seeds)), None, "{figure}");
        }
    }
}
