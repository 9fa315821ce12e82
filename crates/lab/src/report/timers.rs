//! Timers over time: the retransmission timeout with the round-trip times behind it; and the timers of a crowd in the
//! order in which they began, beside the outcomes of its exchanges (Figure 6 of Lee et al. 2016).

use carob_sim::spec::{FlowRecord, RunRecord, Sample};

use super::chart::{Axis, Chart, Layer, Panel, Part, Shared, steps};
use super::resolved::Picture;
use super::scale::number;
use super::sequence::TOOLTIPS_MAX;
use super::shapes::Shape;
use crate::timer_log::{self, Entry, Fate, LOGGED_MAX, SETTLING};

/// A value at a time, both in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// When.
    pub at_s: f64,
    /// The value.
    pub value_s: f64,
    /// Transmissions sent up to that time.
    pub attempts: u8,
}

impl From<&Sample> for Point {
    fn from(sample: &Sample) -> Self {
        Self {
            at_s: sample.at.as_micros() as f64 / 1e6,
            value_s: sample.value.as_micros() as f64 / 1e6,
            attempts: sample.attempts,
        }
    }
}

/// An RTO trace of one flow.
#[derive(Clone, Debug, Default)]
pub struct TimerTrace {
    /// The retransmission timeout before dithering, whenever it changed.
    pub rto: Vec<Point>,
    /// First timers of exchanges, dithering included.
    pub rto_init: Vec<Point>,
    /// Round-trip times; those after several transmissions are ambiguous.
    pub rtt: Vec<Point>,
}

/// Kinds of points: name in the legend and in tooltips, class and shape.
type Dots = (&'static str, &'static str, &'static str, Shape);

const FIRST: Dots = (
    "first timer of an exchange",
    "first timer",
    "timer",
    Shape::Dot,
);
const STRONG: Dots = (
    "RTT, one transmission",
    "round trip",
    "rtt-strong",
    Shape::Dot,
);
const WEAK: Dots = (
    "RTT, several transmissions (ambiguous)",
    "round trip from the first transmission",
    "rtt-weak",
    Shape::Disc,
);

impl TimerTrace {
    /// The samples of a flow.
    pub fn of(flow: &FlowRecord) -> Self {
        let points = |samples: &[Sample]| samples.iter().map(Point::from).collect();
        Self {
            rto: points(&flow.rto),
            rto_init: points(&flow.rto_init),
            rtt: points(&flow.rtt),
        }
    }

    /// The figure as an SVG element.
    pub fn picture(&self, label: &str) -> Picture {
        Chart::over_time(label, vec![self.panel("", TOOLTIPS_MAX)]).picture()
    }

    /// The trace among others; with at most this many tooltips of a kind. Values span decades, so their axis is
    /// logarithmic.
    fn panel(&self, title: &str, tooltips: usize) -> Panel {
        let all = [&self.rto, &self.rto_init, &self.rtt].into_iter().flatten();
        let end = all.map(|p| p.at_s).fold(0.0, f64::max);
        let rto = self.rto.iter().map(|point| (point.at_s, point.value_s));
        let rto = Part::line("rto", steps(rto, end));
        let (strong, weak): (Vec<Point>, Vec<Point>) =
            self.rtt.iter().partition(|p| p.attempts <= 1);
        let layers = vec![
            dots(FIRST, &self.rto_init, tooltips),
            Layer::new("RTO").part(rto),
            dots(STRONG, &strong, tooltips),
            dots(WEAK, &weak, tooltips),
        ];
        let y = Axis::logarithmic("Time-out and round-trip time (s)", 7);
        Panel::new(Axis::linear("", 8).with(0.0), y, layers).titled(title)
    }
}

/// RTO traces on common axes, each with its title, as one figure.
pub fn timers(traces: &[(String, TimerTrace)], label: &str) -> Picture {
    let panels = traces.iter().map(|(title, trace)| trace.panel(title, 0));
    Chart::over_time(label, panels.collect()).picture()
}

fn dots((name, what, class, shape): Dots, points: &[Point], tooltips: usize) -> Layer {
    let marks = |at| Part::marks(class, shape, 2.8, at);
    let at = |point: &Point| (point.at_s, point.value_s);
    let (told, untold) = points.split_at(tooltips.min(points.len()));
    let mut layer = Layer::new(name);
    for point in told {
        let transmissions = match point.attempts {
            0 | 1 => String::new(),
            n => format!(", {n} transmissions"),
        };
        let (value, when) = (number(point.value_s, 3), number(point.at_s, 2));
        let tip = format!("{what} {value} s at {when} s{transmissions}");
        layer.add(&tip, vec![marks(vec![at(point)])]);
    }
    layer.part(marks(untold.iter().map(at).collect()))
}

/// Ends of timers, with the class of their marks and the name in the legend.
#[rustfmt::skip]
const FATES: [(Fate, &str, &str); 3] = [
    (Fate::Answered, "flow-first c0", "answered before it expired"),
    (Fate::Lost, "flow-first c3", "expired: the transmission was lost"),
    (Fate::Early, "flow-first c1", "expired: the response was on its way"),
];

/// The first timers of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct TimerScatter {
    entries: Vec<Entry>,
}

impl TimerScatter {
    /// The timers of a run whose events were recorded.
    pub(super) fn of(record: &RunRecord) -> Self {
        let mut entries = timer_log::of(record);
        entries.truncate(LOGGED_MAX);
        Self { entries }
    }

    /// In a few words.
    pub(super) fn summary(&self) -> String {
        let early = self.entries.iter().filter(|e| e.fate == Fate::Early);
        let early = early.count() as f64 / self.entries.len().max(1) as f64;
        let all = self.entries.len();
        let suit = match timer_log::suitable_after(&self.entries) {
            0 => "they suit from the first on".to_owned(),
            never if never == all => "they never suit".to_owned(),
            after => {
                let before = self.entries[..after].iter();
                let requests = before.filter(|entry| entry.copy == 0).count();
                format!("they suit after {after}, {requests} requests")
            }
        };
        format!(
            "of {} timers {:.0} % ran out too early; {suit}",
            number(all as f64, 0),
            early * 100.0
        )
    }

    /// The entries with their places in the order of beginning, from 1.
    fn entries(&self) -> impl Iterator<Item = (f64, &Entry)> {
        (1..).map(f64::from).zip(&self.entries)
    }

    fn scatter(&self) -> Vec<Layer> {
        let seconds = |entry: &Entry| entry.timeout.as_micros() as f64 / 1e6;
        let layer = |(fate, class, name)| {
            let own = self.entries().filter(|(_, entry)| entry.fate == fate);
            let dots = own.map(|(place, entry)| (place, seconds(entry))).collect();
            Layer::new(name).part(Part::marks(class, Shape::Dot, 0.0, dots))
        };
        FATES.map(layer).into()
    }

    /// The share of all successes that there was after each timer, and the line from its value after
    /// [`SETTLING`].
    fn successes(&self) -> Vec<Layer> {
        let is_success = |entry: &Entry| entry.fate == Fate::Answered;
        let all = self
            .entries
            .iter()
            .filter(|entry| is_success(entry))
            .count() as f64;
        if all == 0.0 {
            return Vec::new();
        }
        let mut reached = 0.0;
        let shares = self.entries().map(|(place, entry)| {
            reached += f64::from(u8::from(is_success(entry)));
            (place, reached / all)
        });
        let shares: Vec<_> = shares.collect();
        let mut even = Layer::new("evenly after 400 timers");
        if self.entries.len() > SETTLING {
            let end = (self.entries.len() as f64, 1.0);
            even = even.part(Part::span("link-wait", shares[SETTLING - 1], end));
        }
        let shares = Part::line("rto", shares);
        vec![even, Layer::new("answers, of all").part(shares)]
    }
}

/// Several runs below each other on the same axes, as one figure.
pub(super) fn scatters(runs: &[(String, TimerScatter)], label: &str) -> Picture {
    let panels = runs.iter().flat_map(|(title, run)| {
        let timer = Axis::linear("Timer (s)", 5).with(0.0);
        let share = Axis::linear("Share of answers", 4).within(0.0, 1.0);
        let begun = |wanted| Axis::linear("", wanted).with(0.0);
        [
            Panel::new(begun(6), timer, run.scatter()).titled(title),
            Panel::new(begun(4), share, run.successes()),
        ]
    });
    let chart = Chart {
        widths: vec![440.0, 270.0],
        shared: Shared::Columns,
        ..Chart::grid(label, 2, 150.0, panels.collect()).below("Timers begun")
    };
    chart.picture()
}

#[cfg(test)]
mod tests {
    use carob_cc::time::{Duration, Instant};

    use super::*;

    #[test]
    fn samples_of_several_transmissions_are_marked_ambiguous() {
        let point = |at_s, attempts| Point {
            at_s,
            value_s: 0.7,
            attempts,
        };
        let mut trace = TimerTrace {
            rtt: vec![point(1.0, 1)],
            ..TimerTrace::default()
        };
        assert!(!trace.picture("a label").0.contains("ambiguous"));
        trace.rtt.push(point(2.0, 3));
        let svg = trace.picture("a label").0;
        assert!(svg.contains("ambiguous"));
        let title = "<title>round trip from the first transmission 0.700 s at 2.00 s, 3 transmissions</title>";
        assert!(svg.contains(title));
    }

    #[test]
    fn nothing_is_a_figure_too() {
        assert!(!TimerTrace::default().picture("a label").0.contains("NaN"));
    }

    fn run(fates: &[Fate]) -> (String, TimerScatter) {
        let entry = |fate: &Fate| Entry {
            at: Instant::ZERO,
            timeout: Duration::from_secs(2),
            copy: 0,
            fate: *fate,
        };
        let entries = fates.iter().map(entry).collect();
        ("a run".to_owned(), TimerScatter { entries })
    }

    #[test]
    fn every_timer_is_a_mark_by_what_became_of_it() {
        let fates = [
            Fate::Answered,
            Fate::Early,
            Fate::Answered,
            Fate::Lost,
            Fate::Open,
        ];
        let svg = scatters(&[run(&fates)], "a label").0;
        let marks = |class: &str| {
            let begin = format!("<path class=\"{class}\"");
            let paths = svg.split(&begin).skip(1);
            let data = paths.map(|path| path.split("/>").next().unwrap_or_default());
            data.map(|data| data.matches("h0").count()).sum::<usize>()
        };
        // One more each in the legend.
        assert_eq!(marks("flow-first c0"), 3);
        assert_eq!(marks("flow-first c1"), 2);
        assert_eq!(marks("flow-first c3"), 2);
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn a_summary_says_when_timers_suit_and_nothing_is_a_figure_too() {
        let of = |fates: &[Fate]| run(fates).1.summary();
        let right = of(&[Fate::Answered; 200]);
        assert_eq!(
            right,
            "of 200 timers 0 % ran out too early; they suit from the first on"
        );
        let late = [&[Fate::Early; 300][..], &[Fate::Answered; 700]].concat();
        assert!(
            of(&late).ends_with("30 % ran out too early; they suit after 290, 290 requests"),
            "{}",
            of(&late)
        );
        assert!(of(&[Fate::Early; 300]).ends_with("they never suit"));
        assert!(!scatters(&[run(&[])], "none").0.contains("NaN"));
    }
}
