//! The table of figures. Reports, `carob lab run --svg`, the reference and tests take names and
//! descriptions from it.

use std::cell::OnceCell;

use super::boxplot::box_plots;
use super::page::FigureBlock;
use super::transfers::Typical;
use super::{depth, distribution, intervals, lines, matrix, metric, node_timeline, notifications};
use crate::metrics::Metric;
use crate::run::{Outcome, Row, RunSetupError};
use crate::summary::Print;
use crate::timed::Timed;

/// A figure, declared once.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Name on the command line.
    pub name: &'static str,
    /// Content, a few words.
    pub about: &'static str,
    /// Condition under which there is something to draw.
    pub needs: &'static str,
    draw: Draw,
}

/// The source of a figure.
#[derive(Clone, Copy, Debug)]
enum Draw {
    /// Runs of a scenario.
    Runs(fn(&Drawing<'_>) -> Result<Vec<FigureBlock>, RunSetupError>),
    /// Another command.
    Command(&'static str),
}

/// Declares figures: name, content, need, and their source.
macro_rules! figures {
    ($($name:literal, $about:literal, $needs:literal, $source:ident($draw:expr);)+) => {
        /// All figures; `carob lab run` draws the first.
        pub const FIGURES: &[Figure] = &[$(Figure {
            name: $name,
            about: $about,
            needs: $needs,
            draw: Draw::$source($draw),
        }),+];
    };
}

figures! {
    "boxes", "Flow completion times: quartiles, whiskers and published values",
        "a flow that completed",
        Runs(|d| Ok(box_plots(d.outcome, &d.rows, d.print)));
    "ratios", "Completion times relative to a baseline, paired by seed",
        "ten seeds, and from 2 to 90 algorithms in all cells together",
        Runs(|d| Ok(intervals::ratios(d.outcome, &d.rows).into_iter().collect()));
    "link", "Use of the link by a crowd over time",
        "a crowd of at least 8 clients that waits for the link",
        Runs(|d| Ok(d.typical()?.link()));
    "clients", "Throughput and success against the number of clients",
        "cells that differ in the number of clients, and in at most one other key",
        Runs(|d| Ok(swept(d, &[&lines::CLIENTS])));
    "timers", "First timers of all clients of a crowd, and their outcomes",
        "a crowd of at least 8 clients with a server that takes its time",
        Runs(|d| Ok(d.typical()?.timers()));
    "transfers", "Blocks or segments of typical runs over time, with their timers",
        "a run with requests",
        Runs(|d| Ok(d.typical()?.over_time()));
    "mix", "Shares of pairs of algorithms on a common link",
        "two algorithms that share a link, each beside the other and beside itself",
        Runs(|d| Ok(matrix::pairs(&d.rows).into_iter().collect()));
    "pdr", "Delivery of notifications relative to the first algorithm",
        "notifications under several algorithms",
        Runs(|d| Ok(notifications::delivery(&d.rows).into_iter().collect()));
    "rto", "Timeouts of a notifying server in the first two minutes",
        "a server that keeps a timeout for its observers",
        Runs(|d| Ok(notifications::timeouts(d.outcome)?.into_iter().collect()));
    "load", "Carried load of a wireless network against its offered load",
        "cells that differ in the load of a wireless network, and in at most two other keys",
        Runs(|d| Ok(swept(d, &[&lines::LOAD, &lines::PERIOD])));
    "bars", "Means of a metric with intervals, by cell and algorithm",
        "a metric (`--metric`) with at most 160 means; without, the time that tables have",
        Runs(|d| Ok(metric::bars(d.metric(), &d.rows).into_iter().collect()));
    "cdf", "Distribution of the values of a metric, for each cell and algorithm",
        "a metric (`--metric`) with at most 24 cells and algorithms; without, the time that tables have",
        Runs(|d| Ok(distribution::of_metric(d.metric(), d.outcome, &d.rows).into_iter().collect()));
    "circle", "Rank, ETX, changes of the parent, RTO and transmissions of one node over time",
        "a wireless network in which a parent changes",
        Runs(|d| { Ok(node_timeline::figure(d.outcome, &d.rows).into_iter().collect()) });
    "depth", "Hops and neighbours of the nodes of a wireless network",
        "a wireless network of at most 120 nodes",
        Runs(|d| Ok(depth::figure(d.outcome, &d.rows).into_iter().collect()));
    "controllers", "Timers of several controllers on one script of events",
        "a script of events",
        Command("carob cc trace --figure FILE");
    "round-trips", "Distribution of the round trips of a capture",
        "exchanges with one transmission",
        Command("carob analyze --report FILE");
    "timeouts", "Timeouts of several controllers beside the round trips of a capture",
        "a sender with round trips",
        Command("carob analyze --report FILE");
    "costs", "Cost of controllers beside default CoAP, with intervals",
        "a link and its traffic",
        Command("carob lab compare --report FILE");
    "findings", "Findings of a study against its open settings",
        "a calibrated study",
        Command("carob lab calibrate STUDY --svg");
    "published", "Completion times beside a table of a study",
        "a study with published completion times",
        Command("carob lab reproduce STUDY --svg NAME");
    "topology", "Nodes and links of a wireless network, and its initial RPL tree",
        "a wireless network",
        Command("carob lab show NAME --topology");
}

/// First available figure of several sweeps.
fn swept(drawing: &Drawing<'_>, sweeps: &[&lines::Sweep]) -> Vec<FigureBlock> {
    let mut all = sweeps
        .iter()
        .filter_map(|sweep| lines::figure(sweep, drawing.outcome, &drawing.rows));
    all.next().into_iter().collect()
}

impl Figure {
    /// The figures of `carob lab run`.
    pub fn of_runs() -> impl Iterator<Item = &'static Self> {
        FIGURES
            .iter()
            .filter(|figure| matches!(figure.draw, Draw::Runs(_)))
    }

    /// The figure with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        FIGURES.iter().find(|figure| figure.name == name)
    }

    /// The command that draws it.
    pub fn command(&self) -> String {
        match self.draw {
            Draw::Runs(_) => format!("carob lab run NAME --svg {}", self.name),
            Draw::Command(command) => command.to_owned(),
        }
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

    /// The metric chosen, or the time that tables have.
    fn metric(&self) -> &'static Metric {
        let usual = || Metric::named(Timed::of(&self.rows).metric().name);
        let metric = self.metric.or_else(usual);
        metric.expect("times are in the table of metrics")
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
            let Draw::Runs(draw) = figure.draw else {
                continue;
            };
            let drawn = draw(self)?.into_iter();
            blocks.extend(drawn.map(|block| block.named(figure.name)));
        }
        Ok(blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::simulated;

    #[test]
    fn figures_have_names_of_their_own_and_draw_what_runs_have() {
        for (place, figure) in FIGURES.iter().enumerate() {
            let mut others = FIGURES[place + 1..].iter();
            assert!(others.all(|other| other.name != figure.name));
            assert!(!figure.about.ends_with('.') && !figure.needs.ends_with('.'));
        }
        let outcome = simulated("thesis/exchange-udp", &[], 2);
        let print = Print::default();
        let drawn = Figure::of_runs().filter_map(|figure| {
            let svg = figure.svg(&outcome, &print, None).expect("possible")?;
            assert!(svg.starts_with("<svg") && !svg.contains("NaN"), "{svg}");
            Some(figure.name)
        });
        assert_eq!(
            drawn.collect::<Vec<_>>(),
            ["boxes", "transfers", "bars", "cdf"]
        );
        assert!(Figure::named("boxes").is_some() && Figure::named("nothing").is_none());
    }
}
