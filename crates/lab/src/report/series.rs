//! Timers of several controllers on one script: a panel each, on common axes.
//!
//! Events go from left to right at equal distances, since the same script lasts longer under one
//! controller than under another. Grey areas are the round trips; over each is the first timer
//! as a dot and, where it ran out, a stroke with a rung for each timer after it.

use std::fmt::Write as _;

use carob_cc::time::Duration;

use super::chart::{At, Axis, Chart, Layer, Panel, Part, ROOM, Shared};
use super::svg::Picture;
use super::svg::Shape;
use super::topology::TOOLTIPS_MAX;
use crate::replay::tables::seconds;
use crate::replay::{Event, Outcome, Run, Script, Step};

/// Ends of a panel, whatever its scale.
const ENDS: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

/// Kinds of marks in drawing order: name in the legend, class, shape and size in exchanges.
const MARKS: [(&str, &str, Shape, f64); 6] = [
    ("timers after it", "rung", Shape::Rung, 0.36),
    ("spurious retransmission", "spurious", Shape::Rung, 0.36),
    ("first timer", "first", Shape::Disc, 0.3),
    ("transmission lost", "lost", Shape::Cross, 0.3),
    ("given up", "given-up", Shape::Cap, 0.36),
    ("NON, held back for", "unconfirmed", Shape::Disc, 0.3),
];

/// The figure of runs of one script.
pub fn series(script: &Script, runs: &[Run], label: &str) -> Picture {
    let events = script.events.len();
    let (columns, height) = arrangement(runs.len(), events);
    let slot = ROOM / columns as f64 / events.max(1) as f64;
    let tooltips = runs.len() * events <= TOOLTIPS_MAX;
    let panels = runs.iter().map(|run| {
        let mut layers = background(script);
        layers.extend(marks(run, slot));
        if tooltips {
            layers.push(tips(script, run));
        }
        let x = Axis::linear("", (slot * events as f64 / 60.0) as usize);
        Panel {
            title: run.algorithm.clone(),
            ..Panel::new(x.with(0.0), Axis::logarithmic("", 5), layers)
        }
    });
    let chart = Chart {
        shared: Shared::Both,
        y_label: "Timeout and round trip (s)".to_owned(),
        ..Chart::grid(label, columns, height, panels.collect())
    };
    chart.below("Event").picture()
}

/// Columns, and the height of a panel's area, by panels and events.
fn arrangement(panels: usize, events: usize) -> (usize, f64) {
    /// More events than this need the whole width.
    const LONG: usize = 120;
    match panels {
        0..=1 => (1, 320.0),
        2..=4 if events > LONG => (1, 180.0),
        3 => (3, 190.0),
        2..=4 => (2, 210.0),
        5..=8 => (2, 150.0),
        9..=18 => (3, 118.0),
        _ => (4, 96.0),
    }
}

/// Round trips, pauses and the beginnings of phases.
fn background(script: &Script) -> Vec<Layer> {
    let (mut pauses, mut trips) = (Vec::new(), Vec::new());
    for (at, scripted) in (0..).map(f64::from).zip(&script.events) {
        let up_to = |top| ((at, ENDS.0), (at + 1.0, top));
        match scripted.event {
            Event::Idle(_) => pauses.push(up_to(ENDS.1)),
            Event::Answered { rtt, .. } => trips.push(up_to(in_seconds(rtt))),
            Event::Failed | Event::Notification { .. } => {}
        }
    }
    let starts = script
        .events
        .windows(2)
        .map(|two| two[0].phase != two[1].phase);
    let begins = (1..).map(f64::from).zip(starts);
    let begins = begins.filter_map(|(at, starts)| starts.then_some(at));
    vec![
        Layer::new("pause").part(Part::Rects("pause".to_owned(), pauses)),
        Layer::new("round trip").part(Part::Rects("trip".to_owned(), trips)),
        Layer::new("").part(Part::uprights("phase", begins)),
    ]
}

fn in_seconds(time: Duration) -> f64 {
    time.as_micros() as f64 / 1e6
}

/// The marks of a run, each kind in one element, where an exchange has `slot` pixels.
fn marks(run: &Run, slot: f64) -> Vec<Layer> {
    let [
        mut rung,
        mut spurious,
        mut first_timer,
        mut lost,
        mut given_up,
        mut held,
    ]: [Vec<At>; 6] = Default::default();
    let mut strokes: Vec<Vec<At>> = Vec::new();
    for (at, step) in (0..).map(f64::from).zip(&run.steps) {
        let level = |timer: &Duration| (at + 0.5, in_seconds(*timer));
        let Some((first, later)) = step.timers.split_first() else {
            if step.outcome == Outcome::Unconfirmed && !step.waited.is_zero() {
                held.push(level(&step.waited));
            }
            continue;
        };
        first_timer.push(level(first));
        if !later.is_empty() {
            strokes.push(step.timers.iter().map(level).collect());
        }
        let is_given_up = step.outcome == Outcome::GivenUp;
        for (transmission, timer) in step.timers.iter().enumerate() {
            let is_last = transmission + 1 == step.timers.len();
            let is_lost = transmission < usize::from(step.lost);
            let kind = match transmission {
                _ if is_given_up && is_last => &mut given_up,
                _ if is_lost => &mut lost,
                0 => continue,
                n if n > usize::from(step.lost) => &mut spurious,
                _ => &mut rung,
            };
            kind.push(level(timer));
        }
    }
    let strokes = Layer::new("").part(Part::Line("stroke".to_owned(), strokes));
    let places = [rung, spurious, first_timer, lost, given_up, held];
    let kinds = MARKS.iter().zip(places);
    let kinds = kinds.map(|((name, class, shape, size), places)| {
        let size = (slot * size).clamp(1.2, 3.4);
        Layer::new(name).part(Part::marks(class, *shape, size, places))
    });
    std::iter::once(strokes).chain(kinds).collect()
}

/// Each event and its outcome.
fn tips(script: &Script, run: &Run) -> Layer {
    let mut layer = Layer::new("");
    let events = script.events.iter().zip(&run.steps);
    for (at, (scripted, step)) in (0..).map(f64::from).zip(events) {
        let area = Part::rect("hover", (at, ENDS.0), (at + 1.0, ENDS.1));
        let phase = scripted.phase.and_then(|phase| script.phases.get(phase));
        let phase = phase.map_or_else(String::new, |phase| format!(" ({phase})"));
        let event = format!("{}{phase}", scripted.event);
        layer.add(&tip(&run.algorithm, &event, step), vec![area]);
    }
    layer
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{DEMO, Dither};
    use carob_cc::TransmissionParameters;
    use carob_sim::spec::ControllerSpec;

    fn figure(text: &str, names: &[&str]) -> String {
        let script = Script::read("a.txt", text).expect("a script");
        let parameters = TransmissionParameters::DEFAULT;
        let run = |name: &&str| {
            let controller = ControllerSpec::new(name, []).expect("a controller");
            Run::of(&script, &controller, &parameters, Dither::Low)
        };
        let runs: Vec<Run> = names.iter().map(run).collect();
        series(&script, &runs, "a label").0
    }

    #[test]
    fn figures_have_a_panel_per_controller_and_a_legend() {
        let both = figure("rtt 400 ms x 20\nfail", &["default", "cocoa-03"]);
        assert!(both.contains(">default</text>") && both.contains(">cocoa-03</text>"));
        let (calm, story) = (
            figure("rtt 400 ms", &["default"]),
            figure(DEMO, &["default"]),
        );
        let kinds = MARKS[..5].iter().map(|mark| mark.0).chain(["pause"]);
        for name in kinds.filter(|name| *name != "first timer") {
            let name = format!(">{name}<");
            assert!(!calm.contains(&name) && story.contains(&name), "{name}");
        }
        assert!(story.contains(" (steady); timer"), "{story}");
    }

    #[test]
    fn marks_are_at_the_timer_values() {
        // Timers of 2, 4 and 8 s; the third transmission left although the second was about to be answered.
        for (text, title) in [
            (
                "lost 1, rtt 3.5 s",
                "default: lost 1, rtt 3.5 s; timers 2.00, 4.00 s",
            ),
            (
                "rtt 3.5 s",
                "default: rtt 3.5 s; timers 2.00, 4.00 s; 1 spurious",
            ),
        ] {
            let svg = figure(text, &["default"]);
            assert!(svg.contains(&format!("<title>{title}</title>")), "{svg}");
        }
        let svg = figure("notify, rtt 1 s x 2\nidle 5 min", &["observe-static"]);
        assert!(svg.contains("; held back for 3.00 s</title>"), "{svg}");
    }

    #[test]
    fn events_without_round_trips_and_no_runs_are_figures_too() {
        for (text, names) in [
            ("fail", &["default"][..]),
            ("idle 1 s", &["default"]),
            ("notify, rtt 1 s", &["observe-static"]),
            ("rtt 1 us", &["cocoa-03"]),
            ("rtt 1 s", &[]),
        ] {
            let svg = figure(text, names);
            assert!(svg.starts_with("<svg") && !svg.contains("NaN"), "{svg}");
        }
    }
}
