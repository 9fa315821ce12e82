//! Timers over time: the retransmission timeout with the round-trip times behind it.

use carob_sim::spec::{FlowRecord, Sample};

use super::chart::{At, Axis, Chart, Layer, Panel, Part, steps};
use super::svg::Picture;
use super::svg::Shape;

/// An RTO trace of one flow: values at times, in seconds.
#[derive(Clone, Debug, Default)]
pub struct TimerTrace {
    /// The retransmission timeout before dithering, whenever it changed.
    pub rto: Vec<(f64, f64)>,
    /// First timers of exchanges, dithering included.
    pub rto_init: Vec<(f64, f64)>,
    /// Round-trip times of exchanges with one transmission.
    pub rtt: Vec<(f64, f64)>,
    /// Ambiguous round-trip times, of exchanges with several transmissions.
    pub ambiguous: Vec<(f64, f64)>,
}

impl TimerTrace {
    /// The samples of a flow.
    pub fn of(flow: &FlowRecord) -> Self {
        let point = |sample: &Sample| {
            let (at, value) = (sample.at.as_micros(), sample.value.as_micros());
            (at as f64 / 1e6, value as f64 / 1e6)
        };
        let points = |samples: &[Sample]| samples.iter().map(point).collect();
        let (rtt, ambiguous) = flow
            .rtt
            .iter()
            .partition::<Vec<Sample>, _>(|s| s.attempts <= 1);
        Self {
            rto: points(&flow.rto),
            rto_init: points(&flow.rto_init),
            rtt: points(&rtt),
            ambiguous: points(&ambiguous),
        }
    }

    /// The trace among others. Values span decades, so their axis is logarithmic.
    fn panel(&self, title: &str) -> Panel {
        let all = [&self.rto, &self.rto_init, &self.rtt, &self.ambiguous];
        let times = all.into_iter().flatten().map(|(at, _)| *at);
        let rto = steps(self.rto.iter().copied(), times.fold(0.0, f64::max));
        let dots = |name: &str, class: &str, shape, places: &[At]| {
            Layer::new(name).part(Part::marks(class, shape, 2.8, places.to_vec()))
        };
        let several = "RTT, several transmissions (ambiguous)";
        let layers = vec![
            dots(
                "first timer of an exchange",
                "timer",
                Shape::Dot,
                &self.rto_init,
            ),
            Layer::new("RTO").part(Part::line("rto", rto)),
            dots("RTT, one transmission", "rtt-strong", Shape::Dot, &self.rtt),
            dots(several, "rtt-weak", Shape::Disc, &self.ambiguous),
        ];
        let y = Axis::logarithmic("Timeout and round-trip time (s)", 7);
        Panel::new(Axis::linear("", 8).with(0.0), y, layers).titled(title)
    }
}

/// RTO traces on common axes, each with its title, as one figure.
pub fn timers(traces: &[(String, TimerTrace)], label: &str) -> Picture {
    let panels = traces.iter().map(|(title, trace)| trace.panel(title));
    Chart::over_time(label, panels.collect()).picture()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_several_transmissions_are_marked_ambiguous() {
        let drawn = |trace: TimerTrace| timers(&[(String::new(), trace)], "a label").0;
        let some = vec![(1.0, 0.7)];
        let ambiguous = drawn(TimerTrace {
            ambiguous: some.clone(),
            ..TimerTrace::default()
        });
        let rtt = drawn(TimerTrace {
            rtt: some,
            ..TimerTrace::default()
        });
        assert!(ambiguous.contains("ambiguous") && !rtt.contains("ambiguous"));
        assert!(!drawn(TimerTrace::default()).contains("NaN"));
    }
}
