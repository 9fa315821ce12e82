//! RTO traces: the retransmission timeout over time, with the round-trip times behind it.

use carob_sim::spec::{FlowRecord, Sample};

use super::chart::{Axis, Chart, Layer, Panel, Part, steps};
use super::picture::Picture;
use super::scale::{Mapping, number};
use super::sequence::TOOLTIPS_MAX;
use super::shapes::Shape;

/// Label of the vertical axis.
const Y_LABEL: &str = "Time-out and round-trip time (s)";

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

    /// The figure in both layouts.
    pub fn picture(&self, label: &str) -> Picture {
        let panel = self.panel("", true);
        Chart::over_time(label, vec![panel]).picture()
    }

    /// The trace among others; with tooltips, as far as [`TOOLTIPS_MAX`] goes, or without. Values span decades,
    /// so their axis is logarithmic.
    fn panel(&self, title: &str, tooltips: bool) -> Panel {
        let end = self.all().map(|p| p.at_s).fold(0.0, f64::max);
        let rto = self.rto.iter().map(|point| (point.at_s, point.value_s));
        let rto = Part::Line("rto".to_owned(), vec![steps(rto, end)]);
        let (strong, weak): (Vec<Point>, Vec<Point>) =
            self.rtt.iter().partition(|p| p.attempts <= 1);
        let most = if tooltips { TOOLTIPS_MAX } else { 0 };
        let dots = |name, class, what, points: &[Point]| dots(name, class, what, points, most);
        let layers = vec![
            dots(
                "first timer of an exchange",
                "timer",
                "first timer",
                &self.rto_init,
            ),
            Layer::new("RTO").part(rto),
            dots("RTT, one transmission", "rtt-strong", "round trip", &strong),
            dots(
                "RTT, several transmissions (ambiguous)",
                "rtt-weak",
                "round trip from the first transmission",
                &weak,
            ),
        ];
        let range = self.values().unwrap_or((0.1, 10.0));
        Panel {
            title: title.to_owned(),
            x: Axis::new("", Mapping::Linear, (0.0, end), 8),
            y: Axis::new(Y_LABEL, Mapping::Logarithmic, range, 7),
            layers,
            ..Panel::default()
        }
    }

    fn all(&self) -> impl Iterator<Item = &Point> {
        self.rto.iter().chain(&self.rto_init).chain(&self.rtt)
    }

    /// The least and the largest value, if there are any.
    fn values(&self) -> Option<(f64, f64)> {
        let low = self.all().map(|p| p.value_s).fold(f64::INFINITY, f64::min);
        let high = self.all().map(|p| p.value_s).fold(0.0, f64::max);
        low.is_finite().then_some((low, high))
    }
}

/// RTO traces on common axes, each with its title, as one figure.
pub fn timers(traces: &[(String, TimerTrace)], label: &str) -> Picture {
    let panels = traces
        .iter()
        .map(|(title, trace)| trace.panel(title, false));
    Chart::over_time(label, panels.collect()).picture()
}

fn dots(name: &str, class: &str, what: &str, points: &[Point], most: usize) -> Layer {
    let (shape, radius) = match class {
        "rtt-weak" => (Shape::Disc, 2.8),
        _ => (Shape::Dot, 2.0),
    };
    let marks = |at| Part::Marks(class.to_owned(), shape, radius, at);
    let at = |point: &Point| (point.at_s, point.value_s);
    let (told, untold) = points.split_at(most.min(points.len()));
    let layer = told.iter().fold(Layer::new(name), |layer, point| {
        let transmissions = match point.attempts {
            0 | 1 => String::new(),
            n => format!(", {n} transmissions"),
        };
        let (value, when) = (number(point.value_s, 3), number(point.at_s, 2));
        let tip = format!("{what} {value} s at {when} s{transmissions}");
        layer.item(&tip, vec![marks(vec![at(point)])])
    });
    layer.part(marks(untold.iter().map(at).collect()))
}

#[cfg(test)]
mod tests {
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
}
