//! RTO traces: the retransmission timeout over time, with the round-trip times behind it.

use std::fmt::Write as _;

use carob_sim::spec::{FlowRecord, Sample};

use super::frame::{DrawKey, Frame, Key, WIDTH, left_margin, legend};
use super::scale::{Mapping, Scale, number};
use super::sequence::TOOLTIPS_MAX;
use super::svg::{Svg, short};

/// Label of the vertical axis.
pub(super) const Y_LABEL: &str = "Time-out and round-trip time (s)";

/// A value at a time, both in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// When.
    pub at_s: f64,
    /// The value.
    pub value_s: f64,
    /// Copies sent by then.
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
    /// Round-trip times; those after several copies are ambiguous.
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

    /// The figure as an SVG element. Values span decades, so their axis is logarithmic.
    pub fn svg(&self, label: &str) -> String {
        const HEIGHT: f64 = 400.0;
        let mut svg = Svg::default();
        let legend_height = self.legend(&mut svg);
        let (top, bottom) = (14.0 + legend_height, HEIGHT - 52.0);
        let range = self.values().unwrap_or((0.1, 10.0));
        let y = Scale::new(Mapping::Logarithmic, range, 7, (bottom, top));
        let frame = Frame {
            left: left_margin(&y),
            right: WIDTH - 16.0,
            top,
            bottom,
        };
        let span = (0.0, self.end());
        let x = Scale::new(Mapping::Linear, span, 8, (frame.left, frame.right));
        frame.y_axis(&mut svg, &y, Y_LABEL);
        frame.x_axis(&mut svg, &x, "Time (s)");
        self.draw(&mut svg, &x, &y, true);
        svg.finish(WIDTH, HEIGHT, label)
    }

    fn all(&self) -> impl Iterator<Item = &Point> {
        self.rto.iter().chain(&self.rto_init).chain(&self.rtt)
    }

    /// The least and the largest value, if there are any.
    pub(super) fn values(&self) -> Option<(f64, f64)> {
        let low = self.all().map(|p| p.value_s).fold(f64::INFINITY, f64::min);
        let high = self.all().map(|p| p.value_s).fold(0.0, f64::max);
        low.is_finite().then_some((low, high))
    }

    /// The last time.
    pub(super) fn end(&self) -> f64 {
        self.all().map(|p| p.at_s).fold(0.0, f64::max)
    }

    /// Draws every point, with a tooltip each (as far as [`TOOLTIPS_MAX`] goes) or without.
    pub(super) fn draw(&self, svg: &mut Svg, x: &Scale, y: &Scale, tooltips: bool) {
        let most = if tooltips { TOOLTIPS_MAX } else { 0 };
        dots(svg, &self.rto_init, "timer", "first timer", x, y, most);
        self.step(svg, x, y, x.at(self.end()));
        let (strong, weak): (Vec<Point>, Vec<Point>) =
            self.rtt.iter().partition(|p| p.attempts <= 1);
        dots(svg, &strong, "rtt-strong", "round trip", x, y, most);
        let what = "round trip from the first copy";
        dots(svg, &weak, "rtt-weak", what, x, y, most);
    }

    /// The legend; gives its height.
    pub(super) fn legend(&self, svg: &mut Svg) -> f64 {
        let weak = self.rtt.iter().any(|p| p.attempts > 1);
        let all: [(bool, &str, &DrawKey); 4] = [
            (!self.rto.is_empty(), "RTO", &|svg, (x, y)| {
                svg.line("rto", (x - 9.0, y), (x + 9.0, y));
            }),
            (
                !self.rto_init.is_empty(),
                "first timer of an exchange",
                &|svg, at| {
                    svg.circle("timer", at, 2.2);
                },
            ),
            (!self.rtt.is_empty(), "RTT, one copy", &|svg, at| {
                svg.circle("rtt-strong", at, 2.4);
            }),
            (weak, "RTT, several copies (ambiguous)", &|svg, at| {
                svg.circle("rtt-weak", at, 2.8);
            }),
        ];
        let keys: Vec<Key<'_>> = all
            .iter()
            .filter(|(shown, ..)| *shown)
            .map(|&(_, label, draw)| Key { label, draw })
            .collect();
        legend(svg, 64.0, 14.0, WIDTH - 16.0, &keys)
    }

    fn step(&self, svg: &mut Svg, x: &Scale, y: &Scale, end: f64) {
        let mut data = String::new();
        for (k, point) in self.rto.iter().enumerate() {
            let (px, py) = (short(x.at(point.at_s)), short(y.at(point.value_s)));
            // Writing to a String cannot fail.
            let _ = if k == 0 {
                write!(data, "M{px} {py}")
            } else {
                write!(data, "H{px}V{py}")
            };
        }
        if !data.is_empty() {
            let _ = write!(data, "H{}", short(end));
            svg.path("rto", &data);
        }
    }
}

fn dots(
    svg: &mut Svg,
    points: &[Point],
    class: &str,
    what: &str,
    x: &Scale,
    y: &Scale,
    most_tooltips: usize,
) {
    let radius = if class == "rtt-weak" { 2.8 } else { 2.0 };
    for (k, point) in points.iter().enumerate() {
        let at = (x.at(point.at_s), y.at(point.value_s));
        if k >= most_tooltips {
            svg.circle(class, at, radius);
            continue;
        }
        let copies = if point.attempts > 1 {
            format!(", {} copies", point.attempts)
        } else {
            String::new()
        };
        let title = format!(
            "{what} {} s at {} s{copies}",
            number(point.value_s, 3),
            number(point.at_s, 2)
        );
        svg.with_title(&title, |svg| svg.circle(class, at, radius));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_several_copies_are_marked_ambiguous() {
        let point = |at_s, attempts| Point {
            at_s,
            value_s: 0.7,
            attempts,
        };
        let mut trace = TimerTrace {
            rtt: vec![point(1.0, 1)],
            ..TimerTrace::default()
        };
        assert!(!trace.svg("a label").contains("ambiguous"));
        trace.rtt.push(point(2.0, 3));
        let svg = trace.svg("a label");
        assert!(svg.contains("ambiguous"));
        let title = "<title>round trip from the first copy 0.700 s at 2.00 s, 3 copies</title>";
        assert!(svg.contains(title));
    }

    #[test]
    fn nothing_is_a_figure_too() {
        assert!(!TimerTrace::default().svg("a label").contains("NaN"));
    }
}
