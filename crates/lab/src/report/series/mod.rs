//! Timers of several controllers on one script: a panel each, on common axes.
//!
//! Events go from left to right at equal distances, since the same script lasts longer under one
//! controller than under another. Grey steps are the round trips; over each is the first timer
//! as a dot and, where it ran out, a stroke with a rung for each timer after it.

mod panel;

use carob_cc::time::Duration;

use super::chart::{Axis, Chart, Panel, ROOM, Shared};
use super::resolved::Picture;
use super::sequence::TOOLTIPS_MAX;
use super::svg::text_width;
use crate::footnotes::{FOOTNOTE, is_choice, marked};
use crate::replay::tables::seconds;
use crate::replay::{Event, Run, Script, Totals};

/// Room a pause takes, in exchanges.
const PAUSE: f64 = 0.8;
/// Shortest time on the vertical axis, in seconds.
const SHORTEST: f64 = 1e-5;

/// The figure of runs of one script.
pub fn series(script: &Script, runs: &[Run], label: &str) -> Picture {
    let titles: Vec<String> = runs.iter().map(|run| marked(&run.algorithm)).collect();
    let (columns, height) = arrangement(runs.len(), script.events.len());
    let drawing = Drawing::new(script, runs, ROOM / columns as f64);
    let notes = Notes::of(runs, &titles, drawing.width);
    let tooltips = runs.len() * script.events.len() <= TOOLTIPS_MAX;
    let panels = runs.iter().zip(titles).zip(notes.texts);
    let panels = panels.map(|((run, title), note)| {
        let y = Axis::logarithmic("", 5)
            .with(drawing.range.0)
            .with(drawing.range.1);
        Panel {
            title,
            note,
            letters: drawing.letters(),
            ..Panel::new(drawing.exchanges(), y, drawing.layers(run, tooltips))
        }
    });
    let phases = (0..).map(letter).zip(script.phases.iter().cloned());
    let footnote = runs.iter().any(|run| is_choice(&run.algorithm));
    let chart = Chart {
        shared: Shared::Both,
        y_label: "Time-out and round trip (s)".to_owned(),
        letters: phases.filter(|_| drawing.has_letters()).collect(),
        notes: vec![notes.reading, if footnote { FOOTNOTE } else { "" }],
        ..Chart::grid(label, columns, height, panels.collect())
    };
    chart.below("Exchange").picture()
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

/// Scales and sizes common to all panels.
struct Drawing<'a> {
    script: &'a Script,
    /// Width of a panel in pixels, about.
    width: f64,
    /// Where each event begins, in exchanges, and where the last one ends.
    at: Vec<f64>,
    /// The least and the largest time, in seconds.
    range: (f64, f64),
}

fn in_seconds(time: Duration) -> f64 {
    (time.as_micros() as f64 / 1e6).max(SHORTEST)
}

/// The round trip of an event, if it has one.
fn round_trip(event: Event) -> Option<Duration> {
    match event {
        Event::Answered { rtt, .. } => Some(rtt),
        Event::Failed | Event::Notification { .. } | Event::Idle(_) => None,
    }
}

impl<'a> Drawing<'a> {
    fn new(script: &'a Script, runs: &[Run], width: f64) -> Self {
        let mut at = vec![0.0];
        let mut x = 0.0;
        for scripted in &script.events {
            x += match scripted.event {
                Event::Idle(_) => PAUSE,
                _ => 1.0,
            };
            at.push(x);
        }
        let trips = script.events.iter().filter_map(|s| round_trip(s.event));
        let timers = runs.iter().flat_map(|run| &run.steps);
        let timers = timers.flat_map(|step| step.timers.iter().copied());
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        let waits = runs.iter().flat_map(|run| &run.steps).map(|s| s.waited);
        let waits = waits.filter(|waited| !waited.is_zero());
        for time in trips.chain(timers).chain(waits).map(in_seconds) {
            (low, high) = (low.min(time), high.max(time));
        }
        if !low.is_finite() {
            (low, high) = (0.1, 10.0);
        }
        Self {
            script,
            width,
            at,
            // Some room below the shortest round trip, so that it is a step, too.
            range: (low * 0.7, high * 1.05),
        }
    }

    fn has_letters(&self) -> bool {
        (1..=26).contains(&self.script.phases.len())
    }

    /// The letters of phases, each at the middle of its events.
    fn letters(&self) -> Vec<(f64, String)> {
        let phases = self.phases().filter(|_| self.has_letters());
        let letters = phases.map(|(phase, from, to)| (f64::midpoint(from, to), letter(phase)));
        letters.collect()
    }

    /// Where each phase that has events begins and ends, in exchanges.
    fn phases(&self) -> impl Iterator<Item = (usize, f64, f64)> {
        let events = self.script.events.iter().enumerate();
        let mut spans: Vec<(usize, f64, f64)> = Vec::new();
        for (index, scripted) in events {
            let Some(phase) = scripted.phase else {
                continue;
            };
            match spans.last_mut() {
                Some((last, _, end)) if *last == phase => *end = self.at[index + 1],
                _ => spans.push((phase, self.at[index], self.at[index + 1])),
            }
        }
        spans.into_iter()
    }
}

/// `a`, `b`, ...
fn letter(place: usize) -> String {
    char::from(b'a' + (place % 26) as u8).to_string()
}

/// Notes beside the names of controllers: a text for each run, and an explanation.
struct Notes {
    texts: Vec<String>,
    reading: &'static str,
}

impl Notes {
    /// As much as every panel has room for.
    fn of(runs: &[Run], titles: &[String], width: f64) -> Self {
        type Form = (fn(&Totals) -> String, &'static str);
        const FORMS: [Form; 3] = [
            (
                |t| {
                    let took = seconds(t.elapsed.saturating_sub(t.idle));
                    let (again, spurious) = (t.retransmissions, t.spurious);
                    format!("{again} retransmissions, {spurious} spurious, {took} s")
                },
                "Beside a name: retransmissions, those of them that were spurious, and how long \
                 all exchanges took, pauses left out.",
            ),
            (
                |t| {
                    format!(
                        "{} retransmissions, {} spurious",
                        t.retransmissions, t.spurious
                    )
                },
                "Beside a name: retransmissions, and those of them that were spurious.",
            ),
            (
                |t| format!("{} ({})", t.retransmissions, t.spurious),
                "Beside a name: retransmissions, in brackets those of them that were spurious.",
            ),
        ];
        for (form, reading) in FORMS {
            let texts: Vec<String> = runs.iter().map(|run| form(&run.totals())).collect();
            let fits = |(title, note): (&String, &String)| {
                text_width(title) * 1.15 + text_width(note) + 16.0 <= width
            };
            if titles.iter().zip(&texts).all(fits) {
                return Self { texts, reading };
            }
        }
        Self {
            texts: vec![String::new(); runs.len()],
            reading: "",
        }
    }
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
    fn each_controller_has_a_panel_on_the_same_axes() {
        let svg = figure("rtt 400 ms x 20\nfail", &["default", "cocoa-03"]);
        assert!(svg.contains(">default</text>") && svg.contains(">cocoa-03</text>"));
        // Labels of the vertical axis at the left only, of the horizontal below each column.
        assert_eq!(svg.matches(">50</text>").count(), 1, "{svg}");
        assert_eq!(svg.matches(">20</text>").count(), 1 + 2, "{svg}");
        assert_eq!(svg.matches("class=\"trip\" d=").count(), 2);
    }

    #[test]
    fn the_legend_has_what_there_is() {
        let (calm, story) = (
            figure("rtt 400 ms", &["default"]),
            figure(DEMO, &["default"]),
        );
        let kinds = [
            "transmission lost",
            "spurious retransmission",
            "given up",
            "pause",
            "timers after",
        ];
        for name in kinds.map(|kind| format!(">{kind}")) {
            assert!(!calm.contains(&name) && story.contains(&name), "{name}");
        }
        assert!(story.contains(">steady</text>") && story.contains(">h</text>"));
    }

    #[test]
    fn marks_stand_where_the_timers_are() {
        let story = figure("lost 1, rtt 3.5 s\nfail", &["default"]);
        // Timers of 2, 4 and 8 s; the third transmission left although the second was about to be answered.
        let title = "<title>default: lost 1, rtt 3.5 s; timers 2.00, 4.00 s</title>";
        assert!(story.contains(title), "{story}");
        let late = figure("rtt 3.5 s", &["default"]);
        let title = "<title>default: rtt 3.5 s; timers 2.00, 4.00 s; 1 spurious</title>";
        assert!(late.contains(title), "{late}");
        let dots = |svg: &str| {
            let paths = svg.split("<path class=\"first\" d=\"").skip(1);
            let data = paths.filter_map(|rest| rest.split('"').next());
            data.map(|data| data.matches('M').count()).sum::<usize>()
        };
        // One of them is the legend's.
        assert_eq!((dots(&story), dots(&late)), (3, 2));
    }

    #[test]
    fn there_is_less_beside_the_names_the_narrower_the_panels() {
        let names = |n: usize| vec!["default"; n];
        let with = |n| figure("rtt 3 s", &names(n));
        let long = ">1 retransmissions, 1 spurious, 3.00 s<";
        assert_eq!(with(8).matches(long).count(), 8);
        let shorter = ">1 retransmissions, 1 spurious<";
        assert_eq!(with(9).matches(shorter).count(), 9);
        assert_eq!(with(36).matches(">1 (1)<").count(), 36);
    }

    #[test]
    fn notifications_and_pauses_show_how_long() {
        let svg = figure("notify, rtt 1 s x 2\nidle 5 min", &["observe-static"]);
        assert!(svg.contains("; held back for 3.00 s</title>"), "{svg}");
        assert!(svg.contains(">300 s</text>"), "{svg}");
    }

    #[test]
    fn choices_of_this_project_are_marked() {
        let svg = || figure("rtt 1 s", &["default", "cocoa-03"]);
        assert!(!svg().contains(FOOTNOTE));
        let svg = crate::footnotes::tests::pretending("cocoa-03", svg);
        assert!(svg.contains(">cocoa-03 *</text>") && svg.contains(FOOTNOTE));
    }

    #[test]
    fn thousands_of_events_have_no_tooltips() {
        assert!(!figure("rtt 1 s x 5000", &["default"]).contains("<title>"));
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
