//! One controller's timers over the round trips of the script.

use std::fmt::Write as _;

use carob_cc::time::Duration;

use super::{Drawing, in_seconds, round_trip};
use crate::replay::tables::seconds;
use crate::replay::{Event, Outcome, Run, Scripted, Step};
use crate::report::chart::{At, Axis, Layer, Part};
use crate::report::scale::{Mapping, Scale};
use crate::report::shapes::Shape;

/// Pixels of a pause in which there is room for its length.
const PAUSE_NAMED: f64 = 14.0;
/// Ends of a panel, whatever its scale.
const ENDS: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

impl Drawing<'_> {
    /// Width of an exchange in pixels.
    fn slot(&self) -> f64 {
        self.width / self.end()
    }

    fn end(&self) -> f64 {
        self.at.last().copied().unwrap_or(1.0).max(1.0)
    }

    /// Ticks at round numbers of exchanges; pauses have none.
    pub(super) fn exchanges(&self) -> Axis {
        let numbers = self.script.numbers();
        let numbered = numbers.iter().zip(&self.at).filter(|(n, _)| n.is_some());
        let places: Vec<f64> = numbered.map(|(_, at)| at + 0.5).collect();
        let wanted = (self.width / 60.0).max(2.0) as usize;
        let span = (0.0, places.len() as f64);
        let round = Scale::new(Mapping::Linear, span, wanted, (0.0, 1.0)).ticks;
        let tick = |tick: crate::report::scale::Tick| {
            let place = (tick.at as usize).checked_sub(1)?;
            Some((*places.get(place)?, tick.text))
        };
        let ticks = round.into_iter().filter_map(tick).collect();
        Axis::given("", (0.0, self.end()), ticks)
    }

    pub(super) fn layers(&self, run: &Run, tooltips: bool) -> Vec<Layer> {
        let mut layers = self.background();
        layers.extend(self.marks(run));
        if tooltips {
            layers.push(self.tooltips(run));
        }
        layers
    }

    /// Where each event begins and ends, in exchanges.
    fn events(&self) -> impl Iterator<Item = (f64, f64, &Scripted)> {
        let ends = self.at.windows(2).map(|ends| (ends[0], ends[1]));
        ends.zip(&self.script.events)
            .map(|((from, to), event)| (from, to, event))
    }

    /// Round trips, pauses and the beginnings of phases.
    fn background(&self) -> Vec<Layer> {
        let mut pauses = Layer::new("pause");
        let (mut lengths, mut trips) = (Layer::new(""), Layer::new("round trip"));
        let (mut area, mut runs): (Vec<At>, Vec<Vec<At>>) = (Vec::new(), Vec::new());
        for (from, to, scripted) in self.events() {
            if let Event::Idle(pause) = scripted.event {
                let band = Part::Rect("pause".to_owned(), (from, ENDS.0), (to, ENDS.1), None);
                pauses = pauses.part(band);
                if (to - from) * self.slot() >= PAUSE_NAMED {
                    let at = (f64::midpoint(from, to), self.range.0 * 1.5);
                    let class = "note".to_owned();
                    lengths = lengths.part(Part::Text(class, at, pause.to_string(), true));
                }
            }
            let Some(rtt) = round_trip(scripted.event) else {
                runs.push(Vec::new());
                continue;
            };
            let level = in_seconds(rtt);
            let corners = [(from, level), (to, level)];
            area.extend([(from, ENDS.0), corners[0], corners[1], (to, ENDS.0)]);
            match runs.last_mut() {
                Some(run) => run.extend(corners),
                None => runs.push(corners.into()),
            }
        }
        runs.retain(|run| !run.is_empty());
        if !area.is_empty() {
            let top = Part::Line("trip-top".to_owned(), runs);
            trips = trips.item("", vec![Part::Area("trip".to_owned(), area), top]);
        }
        let begins = self.phases().map(|(_, from, _)| from);
        let begins = begins.filter(|from| *from > 0.0);
        let phases = Layer::new("").part(Part::uprights("phase", begins));
        vec![pauses, lengths, trips, phases]
    }

    /// The marks of a run, each kind in one element.
    fn marks(&self, run: &Run) -> Vec<Layer> {
        let slot = self.slot();
        let (radius, half) = ((slot * 0.3).clamp(1.1, 3.2), (slot * 0.36).clamp(1.2, 4.5));
        let mut marks = Marks::default();
        for (step, place) in run.steps.iter().zip(&self.at) {
            marks.add(step, place + 0.5);
        }
        let has_backoffs = !marks.strokes.is_empty();
        let part = |class: &str, shape, size, at| Part::Marks(class.to_owned(), shape, size, at);
        let rungs = part("rung", Shape::Rung, half, marks.rung);
        let spurious = part("spurious", Shape::Rung, half, marks.spurious);
        let lost = part("lost", Shape::Cross, half.min(3.2), marks.lost);
        let given_up = part("given-up", Shape::Cap, half.max(3.4), marks.given_up);
        let held = part("unconfirmed", Shape::Disc, radius, marks.unconfirmed);
        let trend = Part::Line("trend".to_owned(), marks.trend);
        let strokes = Part::Line("stroke".to_owned(), marks.strokes);
        let mut after = Layer::new("timers after it");
        if has_backoffs {
            after = after.item("", vec![strokes, rungs]);
        }
        vec![
            Layer::new("").part(trend),
            after,
            Layer::new("spurious retransmission").part(spurious),
            Layer::new("first timer").part(part("first", Shape::Disc, radius, marks.first)),
            Layer::new("transmission lost").part(lost),
            Layer::new("given up").part(given_up),
            Layer::new("NON, held back for").part(held),
        ]
    }

    /// Each event and its outcome.
    fn tooltips(&self, run: &Run) -> Layer {
        let events = self.events().zip(&run.steps);
        events.fold(Layer::new(""), |layer, ((from, to, scripted), step)| {
            let area = Part::Rect("hover".to_owned(), (from, ENDS.0), (to, ENDS.1), None);
            let event = scripted.event.to_string();
            layer.item(&tip(&run.algorithm, &event, step), vec![area])
        })
    }
}

fn tip(algorithm: &str, event: &str, step: &Step) -> String {
    let timers: Vec<String> = step.timers.iter().copied().map(seconds).collect();
    let mut text = format!("{algorithm}: {event}");
    // Writing to a String cannot fail.
    let _ = match &timers[..] {
        [] => Ok(()),
        [one] => write!(text, "; timer {one} s"),
        several => write!(text, "; timers {} s", several.join(", ")),
    };
    if !step.waited.is_zero() {
        let _ = write!(text, "; held back for {} s", seconds(step.waited));
    }
    if step.spurious > 0 {
        let _ = write!(text, "; {} spurious", step.spurious);
    }
    if step.outcome == Outcome::GivenUp {
        text.push_str("; given up");
    }
    if let Some(rto) = step.rto {
        let _ = write!(text, "; RTO then {} s", seconds(rto));
    }
    text
}

/// Places of all marks of a kind.
#[derive(Default)]
struct Marks {
    trend: Vec<Vec<At>>,
    strokes: Vec<Vec<At>>,
    rung: Vec<At>,
    spurious: Vec<At>,
    first: Vec<At>,
    lost: Vec<At>,
    given_up: Vec<At>,
    unconfirmed: Vec<At>,
}

impl Marks {
    fn add(&mut self, step: &Step, x: f64) {
        let level = |timer: &Duration| (x, in_seconds(*timer));
        let Some(first) = step.timers.first() else {
            self.trend.push(Vec::new());
            if step.outcome == Outcome::Unconfirmed {
                let at_once = step.waited.is_zero();
                let waited = (x, in_seconds(step.waited));
                let at = if at_once { (x, ENDS.0) } else { waited };
                self.unconfirmed.push(at);
            }
            return;
        };
        self.first.push(level(first));
        match self.trend.last_mut() {
            Some(run) => run.push(level(first)),
            None => self.trend.push(vec![level(first)]),
        }
        let levels = || step.timers.iter().map(level);
        if step.timers.len() > 1 {
            let heights = || levels().map(|(_, y)| y);
            let (low, high) = (
                heights().fold(ENDS.1, f64::min),
                heights().fold(ENDS.0, f64::max),
            );
            self.strokes.push(vec![(x, low), (x, high)]);
        }
        let needed = usize::from(step.lost) + 1;
        let given_up = step.outcome == Outcome::GivenUp;
        for (transmission, at) in levels().enumerate() {
            let ends = given_up && transmission + 1 == step.timers.len();
            if transmission > 0 && !ends {
                let of = if transmission >= needed {
                    &mut self.spurious
                } else {
                    &mut self.rung
                };
                of.push(at);
            }
            if ends {
                self.given_up.push(at);
            } else if transmission < usize::from(step.lost) {
                self.lost.push(at);
            }
        }
    }
}
