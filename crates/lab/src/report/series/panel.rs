//! One controller's timers over the round trips of the script.

use std::fmt::Write as _;

use carob_cc::time::Duration;

use super::{Drawing, in_seconds, letter, round_trip};
use crate::replay::tables::seconds;
use crate::replay::{Event, Outcome, Run};
use crate::report::frame::Frame;
use crate::report::scale::{Mapping, Scale};
use crate::report::svg::{Svg, short};

/// Pixels of a pause in which there is room for its length.
const PAUSE_NAMED: f64 = 14.0;
/// Pixels from a letter to the next, at least.
const LETTER_STEP: f64 = 9.0;

/// One controller's part of the figure.
pub(super) struct Panel<'a> {
    pub(super) drawing: &'a Drawing<'a>,
    pub(super) frame: Frame,
    pub(super) first_of_row: bool,
    pub(super) last_of_column: bool,
}

impl Panel<'_> {
    /// Title and note, and the letters of phases below.
    pub(super) fn head(&self, svg: &mut Svg, title: &str, note: &str) {
        let Frame {
            left, right, top, ..
        } = self.frame;
        let letters = self.drawing.letters_height();
        svg.text("axis strong", (left, top - 8.0 - letters), title);
        if !note.is_empty() {
            svg.text("note end", (right, top - 8.0 - letters), note);
        }
        if !self.drawing.has_letters() {
            return;
        }
        let mut free_from = left - LETTER_STEP / 2.0;
        for (phase, from, to) in self.drawing.phases() {
            let centre = self.x(f64::midpoint(from, to));
            if centre - LETTER_STEP / 2.0 >= free_from {
                svg.text("letter middle", (centre, top - 4.0), &letter(phase));
                free_from = centre + LETTER_STEP / 2.0;
            }
        }
    }

    pub(super) fn draw(&self, svg: &mut Svg, run: &Run) {
        let frame = &self.frame;
        let wanted = if frame.bottom - frame.top > 120.0 {
            6
        } else {
            4
        };
        let pixels = (frame.bottom, frame.top);
        let y = Scale::new(Mapping::Logarithmic, self.drawing.range, wanted, pixels);
        if self.first_of_row {
            frame.y_axis(svg, &y, "");
        } else {
            frame.y_grid(svg, &y);
        }
        self.background(svg, &y);
        self.x_axis(svg);
        self.marks(svg, run, &y);
    }

    /// The pixel of a place in exchanges.
    fn x(&self, place: f64) -> f64 {
        let end = self.drawing.at.last().copied().unwrap_or(1.0).max(1.0);
        self.frame.left + self.frame.width() * place / end
    }

    fn slot(&self) -> f64 {
        self.x(1.0) - self.x(0.0)
    }

    /// Round trips, pauses and the beginnings of phases.
    fn background(&self, svg: &mut Svg, y: &Scale) {
        let Frame { top, bottom, .. } = self.frame;
        let (mut area, mut line, mut open) = (String::new(), String::new(), false);
        for (index, scripted) in self.drawing.script.events.iter().enumerate() {
            let (from, to) = (
                self.x(self.drawing.at[index]),
                self.x(self.drawing.at[index + 1]),
            );
            if let Event::Idle(pause) = scripted.event {
                svg.rect("pause", from, top, to - from, bottom - top);
                if to - from >= PAUSE_NAMED {
                    let at = (f64::midpoint(from, to) + 4.0, f64::midpoint(top, bottom));
                    svg.text_upwards("note middle", at, &pause.to_string());
                }
            }
            let Some(rtt) = round_trip(scripted.event) else {
                open = false;
                continue;
            };
            let level = short(y.at(in_seconds(rtt)));
            let (from, to, bottom) = (short(from), short(to), short(bottom));
            // Writing to a String cannot fail.
            let _ = write!(area, "M{from} {bottom}V{level}H{to}V{bottom}Z");
            let _ = if open {
                write!(line, "V{level}H{to}")
            } else {
                write!(line, "M{from} {level}H{to}")
            };
            open = true;
        }
        svg.path("trip", &area);
        svg.path("trip-top", &line);
        for (_, from, _) in self.drawing.phases() {
            let from = self.x(from);
            if from > self.frame.left + 1.0 {
                svg.line("phase", (from, top), (from, bottom));
            }
        }
    }

    /// Ticks at round numbers of exchanges; pauses have none.
    fn x_axis(&self, svg: &mut Svg) {
        let Frame {
            left,
            right,
            bottom,
            ..
        } = self.frame;
        svg.line("rule", (left, bottom), (right, bottom));
        let drawing = self.drawing;
        let numbers = drawing.script.numbers();
        let numbered = numbers.iter().zip(&drawing.at).filter(|(n, _)| n.is_some());
        let exchanges: Vec<f64> = numbered.map(|(_, at)| at + 0.5).collect();
        let wanted = (self.frame.width() / 60.0) as usize;
        let span = (0.0, exchanges.len() as f64);
        let ticks = Scale::new(Mapping::Linear, span, wanted.max(2), (0.0, 1.0));
        for &tick in &ticks.ticks {
            let Some(at) = (tick as usize)
                .checked_sub(1)
                .and_then(|k| exchanges.get(k))
            else {
                continue;
            };
            let x = self.x(*at);
            svg.line("rule", (x, bottom), (x, bottom + 4.0));
            if self.last_of_column {
                svg.text("tick middle", (x, bottom + 16.0), &ticks.label(tick));
            }
        }
    }

    /// The marks of a run, each kind in one element.
    fn marks(&self, svg: &mut Svg, run: &Run, y: &Scale) {
        let slot = self.slot();
        let radius = (slot * 0.3).clamp(1.1, 3.2);
        let half = (slot * 0.36).clamp(1.2, 4.5);
        let mut paths = Paths::default();
        let mut dots = Vec::new();
        let mut before = false;
        for (step, place) in run.steps.iter().zip(&self.drawing.at) {
            let x = self.x(place + 0.5);
            let Some(first) = step.timers.first() else {
                before = false;
                if step.outcome == Outcome::Unconfirmed {
                    let at_once = self.frame.bottom - radius;
                    let held = |waited| y.at(in_seconds(waited));
                    let waited = Some(step.waited).filter(|waited| !waited.is_zero());
                    let level = waited.map_or(at_once, held);
                    svg.circle("unconfirmed", (x, level), radius);
                }
                continue;
            };
            let level = |timer: &Duration| y.at(in_seconds(*timer));
            let at = (x, level(first));
            dots.push(at);
            // Writing to a String cannot fail.
            let verb = if before { 'L' } else { 'M' };
            let _ = write!(paths.trend, "{verb}{} {}", short(x), short(at.1));
            before = true;
            let needed = usize::from(step.lost) + 1;
            let levels = || step.timers.iter().map(level);
            let highest = levels().fold(at.1, f64::min);
            let lowest = levels().fold(at.1, f64::max);
            if step.timers.len() > 1 {
                let _ = write!(
                    paths.stroke,
                    "M{} {}V{}",
                    short(x),
                    short(lowest),
                    short(highest)
                );
            }
            let given_up = step.outcome == Outcome::GivenUp;
            let rungs = step.timers.len() - usize::from(given_up);
            for (copy, level) in levels().enumerate().take(rungs).skip(1) {
                let path = if copy >= needed {
                    &mut paths.spurious
                } else {
                    &mut paths.rung
                };
                path.push_str(&rung((x, level), half));
            }
            for (copy, level) in levels().enumerate() {
                let is_last = copy + 1 == step.timers.len();
                if given_up && is_last {
                    paths.given_up.push_str(&cap((x, level), half.max(3.4)));
                } else if copy < usize::from(step.lost) {
                    paths.lost.push_str(&cross((x, level), half.min(3.2)));
                }
            }
        }
        svg.path("trend", &paths.trend);
        svg.path("stroke", &paths.stroke);
        svg.path("rung", &paths.rung);
        svg.path("spurious", &paths.spurious);
        for at in dots {
            svg.circle("first", at, radius);
        }
        svg.path("lost", &paths.lost);
        svg.path("given-up", &paths.given_up);
    }

    /// Draws the tooltips: each event and its outcome.
    pub(super) fn tooltips(&self, svg: &mut Svg, run: &Run) {
        let Frame { top, bottom, .. } = self.frame;
        let events = self.drawing.script.events.iter().enumerate();
        for ((index, scripted), step) in events.zip(&run.steps) {
            let (from, to) = (
                self.x(self.drawing.at[index]),
                self.x(self.drawing.at[index + 1]),
            );
            let timers: Vec<String> = step.timers.iter().copied().map(seconds).collect();
            let mut text = format!("{}: {}", run.algorithm, scripted.event);
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
            svg.with_title(&text, |svg| {
                svg.rect("hover", from, top, to - from, bottom - top);
            });
        }
    }
}

/// One path for all marks of a kind.
#[derive(Default)]
struct Paths {
    trend: String,
    stroke: String,
    rung: String,
    spurious: String,
    lost: String,
    given_up: String,
}

pub(super) fn rung((x, y): (f64, f64), half: f64) -> String {
    format!("M{} {}h{}", short(x - half), short(y), short(2.0 * half))
}

pub(super) fn cross((x, y): (f64, f64), half: f64) -> String {
    let (ahead, back) = (short(2.0 * half), short(-2.0 * half));
    format!(
        "M{} {}l{ahead} {ahead}m0 {back}l{back} {ahead}",
        short(x - half),
        short(y - half)
    )
}

/// A triangle that points down at what is over.
pub(super) fn cap((x, y): (f64, f64), half: f64) -> String {
    format!(
        "M{} {}h{}L{} {}Z",
        short(x - half),
        short(y - half * 0.8),
        short(2.0 * half),
        short(x),
        short(y + half * 0.8)
    )
}
